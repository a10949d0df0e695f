//! What an error of PostgreSQL says about a commit. One place decides it; what is not known here is taken as the worst.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Where in a commit the error came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before anything of the transaction was sent.
    Unsent,
    /// In answer to a statement before `commit`, while `commit` was already under way.
    Inside,
    /// In answer to `commit` itself.
    Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A check of the commit did not hold: it has to be found out which.
    Guard,
    /// A row that should be new is there: the commit itself from before, or a record.
    Duplicate,
    /// Nothing happened, and waiting helps.
    Wait { retry_after_ms: u64 },
    /// The disk is full: nothing happened, and waiting helps once somebody makes room.
    Full,
    /// Nothing happened; this batch alone is the reason.
    NotApplied,
    /// It may have happened.
    Unknown,
}

/// The error that `guard` raises.
pub const GUARD: &str = "WF001";

pub const FULL_RETRY_MS: u64 = 1_000;
const BUSY_RETRY_MS: u64 = 50;

/// The verdict on a commit whose first error, in the order of its statements, is this one.
pub fn of(error: &Error, moment: Moment) -> Verdict {
    of_code(error.code(), moment)
}

/// `None` stands for a connection that broke, or an answer that could not be read.
fn of_code(code: Option<&SqlState>, moment: Moment) -> Verdict {
    let Some(code) = code else {
        return if moment == Moment::Unsent {
            Verdict::Wait { retry_after_ms: BUSY_RETRY_MS }
        } else {
            Verdict::Unknown
        };
    };
    match (code.code(), moment) {
        // The session ended; whether the server came as far as `commit` is not told.
        ("57P01" | "57P02" | "57P05" | "25P03" | "25P04", Moment::Inside | Moment::Commit) => Verdict::Unknown,
        (class, Moment::Inside | Moment::Commit) if class.starts_with("08") => Verdict::Unknown,
        // Somebody was in the way, or the server cannot write at present. The transaction has been rolled back.
        ("40001" | "40P01" | "55P03", _) => Verdict::Wait { retry_after_ms: BUSY_RETRY_MS },
        ("25006" | "57P01" | "57P02" | "57P03", _) => Verdict::Wait { retry_after_ms: FULL_RETRY_MS },
        ("53100", _) => Verdict::Full,
        (class, _) if class.starts_with("53") => Verdict::Wait { retry_after_ms: FULL_RETRY_MS },
        (GUARD, Moment::Inside) => Verdict::Guard,
        ("23505", Moment::Inside) => Verdict::Duplicate,
        (_, Moment::Commit) => Verdict::Unknown,
        (_, Moment::Inside) => Verdict::NotApplied,
        (_, Moment::Unsent) => Verdict::Wait { retry_after_ms: BUSY_RETRY_MS },
    }
}

/// How a read that failed is told.
pub fn of_read(error: Error) -> weft_store::Error {
    match error.code().map(SqlState::code) {
        Some("XX001" | "XX002") => weft_store::Error::refused(format!("the database is damaged: {}", told(&error))),
        _ => weft_store::Error::unavailable(told(&error)),
    }
}

/// An error of the server with its code, or of the connection with its causes.
pub fn told(error: &Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => crate::options::chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rl_15_every_answer_of_postgres_has_a_verdict() {
        use Moment::{Commit, Inside, Unsent};
        let busy = Verdict::Wait { retry_after_ms: BUSY_RETRY_MS };
        let full = Verdict::Wait { retry_after_ms: FULL_RETRY_MS };
        let rows = [
            ("WF001", Inside, Verdict::Guard),
            ("WF001", Commit, Verdict::Unknown),
            ("23505", Inside, Verdict::Duplicate),
            ("40001", Inside, busy),
            ("40001", Commit, busy),
            ("40P01", Inside, busy),
            ("40P01", Commit, busy),
            ("55P03", Inside, busy),
            ("53100", Inside, Verdict::Full),
            ("53100", Commit, Verdict::Full),
            ("53200", Inside, full),
            ("53300", Unsent, full),
            ("57P03", Unsent, full),
            ("57P03", Inside, full),
            ("25006", Inside, full),
            ("57P01", Unsent, full),
            ("57P01", Inside, Verdict::Unknown),
            ("57P01", Commit, Verdict::Unknown),
            ("57P02", Inside, Verdict::Unknown),
            ("25P03", Inside, Verdict::Unknown),
            ("08006", Inside, Verdict::Unknown),
            ("08003", Commit, Verdict::Unknown),
            ("08001", Unsent, busy),
            ("28P01", Unsent, busy),
            ("42P01", Unsent, busy),
            ("57014", Inside, Verdict::NotApplied),
            ("57014", Commit, Verdict::Unknown),
            ("22021", Inside, Verdict::NotApplied),
            ("23502", Inside, Verdict::NotApplied),
            ("54000", Inside, Verdict::NotApplied),
            ("XX000", Inside, Verdict::NotApplied),
            ("XX000", Commit, Verdict::Unknown),
        ];
        for (code, moment, expected) in rows {
            assert_eq!(of_code(Some(&SqlState::from_code(code)), moment), expected, "{code} {moment:?}");
        }
        for (moment, expected) in [(Unsent, busy), (Inside, Verdict::Unknown), (Commit, Verdict::Unknown)] {
            assert_eq!(of_code(None, moment), expected, "a broken connection, {moment:?}");
        }
    }
}
