//! Ends waits that took too long: so far those of a parent for its children.

crate::scanner::due_scanner!(
    /// Finds executions whose wait for children has run out.
    SuspensionTimeout, "suspension_timeout", 2_000, 50, [ChildrenTimeout]
);
