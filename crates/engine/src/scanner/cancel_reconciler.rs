//! A worker that was asked to stop and did not is cut off when its grace is over.

crate::scanner::due_scanner!(
    /// Finds Active executions whose cancel grace is over.
    CancelReconciler, "cancel_reconciler", 15_000, 50, [CancelGrace]
);
