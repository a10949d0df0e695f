//! Ends every execution that is not done at its deadline, whatever its state.

crate::scanner::due_scanner!(
    /// Finds executions whose deadline has come.
    ExecutionDeadline, "execution_deadline", 5_000, 50, [Deadline]
);
