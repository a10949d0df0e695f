//! Purges each record at its own time and never before, in many small commits.

crate::scanner::due_scanner!(
    /// Finds ended executions and flows, dedup rows and dead letters whose retention is over, and purges under way.
    RetentionTrimmer, "retention_trimmer", 60_000, 20, [Retention, Purge, FlowPurge], grain 1_000
);
