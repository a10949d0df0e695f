//! Purges each record at its own time and never before, in many small commits.

crate::scanner::due_scanner!(
    /// Finds ended executions, dedup rows and dead letters whose retention is over, and purges that are under way.
    RetentionTrimmer, "retention_trimmer", 60_000, 20, [Retention, Purge], grain 1_000
);
