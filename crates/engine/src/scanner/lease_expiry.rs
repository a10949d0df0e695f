//! Every lost lease requeues itself once, with reclaim counter, cap and backoff.

crate::scanner::due_scanner!(
    /// Finds Active executions whose lease has run out.
    LeaseExpiry, "lease_expiry", 1_000, 200, [Lease]
);
