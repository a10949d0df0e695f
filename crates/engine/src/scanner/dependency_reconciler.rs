//! No continuation is orphaned: children that are owed a cancel get it, however many there are, and bulk jobs go on to
//! their end.

crate::scanner::due_scanner!(
    /// Finds executions whose children are still to be cancelled, and bulk jobs and shares that have something to do.
    DependencyReconciler, "dependency_reconciler", 15_000, 50, [CancelChildren, Bulk]
);
