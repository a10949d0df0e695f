//! Ends every execution and flow that is not done at its deadline, whatever its state, and flows that nobody sealed.

crate::scanner::due_scanner!(
    /// Finds executions and flows whose deadline has come, and flows that stayed unsealed for too long.
    ExecutionDeadline, "execution_deadline", 5_000, 50, [Deadline, SealBy]
);
