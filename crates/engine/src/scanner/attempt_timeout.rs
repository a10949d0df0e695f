//! An attempt whose active time is used up fails; a retry that is left is used, else the execution expires.

crate::scanner::due_scanner!(
    /// Finds Active executions whose attempt has run for its whole timeout.
    AttemptTimeout, "attempt_timeout", 2_000, 50, [AttemptTimeout]
);
