//! No continuation is orphaned: children that are owed a cancel get it, however many there are.

crate::scanner::due_scanner!(
    /// Finds executions whose children are still to be cancelled.
    DependencyReconciler, "dependency_reconciler", 15_000, 50, [CancelChildren]
);
