//! A worker that was asked to stop and did not is cut off when its grace is over, and a flow that ends gets rid of every
//! member that it has to.

crate::scanner::due_scanner!(
    /// Finds Active executions whose cancel grace is over, and flows that owe cancels.
    CancelReconciler, "cancel_reconciler", 15_000, 50, [CancelGrace, FlowEnding]
);
