//! No continuation is orphaned: children that are owed a cancel get it, edges that a commit had no room for are resolved,
//! members are sealed and bulk jobs go on to their end. Members that have waited long are compared with their upstreams.

crate::scanner::due_scanner!(
    /// Finds left-over work of executions, flows and bulk jobs, and flows whose edges are to be audited.
    DependencyReconciler, "dependency_reconciler", 15_000, 50,
    [CancelChildren, Bulk, Resolve, Reopen, FlowSeal, DependencyAudit]
);
