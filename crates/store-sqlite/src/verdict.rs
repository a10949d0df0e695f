//! What an error of SQLite says about a commit. One place decides it; what is not known here is taken as the worst.

use rusqlite::{Error, ErrorCode};

/// Where in a commit the error came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before `commit` was executed: the transaction can still be rolled back.
    Inside,
    /// From `commit` itself.
    Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Somebody holds the file: nothing happened, and waiting helps.
    Wait { retry_after_ms: u64 },
    /// No room: nothing happened, and waiting helps once somebody makes some.
    Full,
    /// Nothing happened; this batch alone is the reason.
    NotApplied,
    /// It may have happened.
    Unknown,
    /// The disk failed. Another fsync may report success over lost pages, so nothing may be written any more.
    Disk,
}

pub const FULL_RETRY_MS: u64 = 1_000;
const BUSY_RETRY_MS: u64 = 50;

pub fn of(error: &Error, moment: Moment) -> Verdict {
    match (error.sqlite_error_code(), moment) {
        (Some(ErrorCode::DiskFull), _) => Verdict::Full,
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
            Verdict::Wait { retry_after_ms: BUSY_RETRY_MS }
        }
        (Some(ErrorCode::SystemIoFailure), _) => Verdict::Disk,
        (_, Moment::Inside) => Verdict::NotApplied,
        (_, Moment::Commit) => Verdict::Unknown,
    }
}

/// How a read that failed is told.
pub fn of_read(error: Error) -> weft_store::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            weft_store::Error::refused(format!("the database file is damaged: {error}"))
        }
        _ => weft_store::Error::unavailable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn rl_15_every_answer_of_sqlite_has_a_verdict() {
        use Moment::{Commit, Inside};
        let rows = [
            (ffi::SQLITE_FULL, Inside, Verdict::Full),
            (ffi::SQLITE_FULL, Commit, Verdict::Full),
            (ffi::SQLITE_BUSY, Inside, Verdict::Wait { retry_after_ms: BUSY_RETRY_MS }),
            (ffi::SQLITE_BUSY, Commit, Verdict::Wait { retry_after_ms: BUSY_RETRY_MS }),
            (ffi::SQLITE_BUSY_SNAPSHOT, Inside, Verdict::Wait { retry_after_ms: BUSY_RETRY_MS }),
            (ffi::SQLITE_IOERR, Inside, Verdict::Disk),
            (ffi::SQLITE_IOERR_FSYNC, Commit, Verdict::Disk),
            (ffi::SQLITE_IOERR_WRITE, Commit, Verdict::Disk),
            (ffi::SQLITE_CONSTRAINT, Inside, Verdict::NotApplied),
            (ffi::SQLITE_TOOBIG, Inside, Verdict::NotApplied),
            (ffi::SQLITE_NOMEM, Inside, Verdict::NotApplied),
            (ffi::SQLITE_CORRUPT, Inside, Verdict::NotApplied),
            (ffi::SQLITE_CORRUPT, Commit, Verdict::Unknown),
            (ffi::SQLITE_NOMEM, Commit, Verdict::Unknown),
            (ffi::SQLITE_ERROR, Commit, Verdict::Unknown),
        ];
        for (code, moment, expected) in rows {
            let error = Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(of(&error, moment), expected, "{code} {moment:?}");
        }
        assert_eq!(of(&Error::InvalidQuery, Commit), Verdict::Unknown);
    }
}
