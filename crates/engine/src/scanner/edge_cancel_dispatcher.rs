//! Siblings that a decided group had no room to cancel in its commit are cancelled, the oldest group first.

crate::scanner::due_scanner!(
    /// Finds members with a group that owes cancels.
    EdgeCancelDispatcher, "edge_cancel_dispatcher", 1_000, 50, [GroupCancel]
);
