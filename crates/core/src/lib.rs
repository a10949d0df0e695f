//! The rules of Weft, written once, as pure functions over records that are already in memory.
//!
//! Nothing here waits, reads a clock, draws a random number or iterates a randomly ordered map: the same records, the
//! same command and the same `now` always give the same result. Stores keep what this crate produces and know none of
//! its rules; the engine brings records and commands together.

pub mod id;
pub mod time;
pub mod limits;
pub mod text;
pub mod error;
pub mod codec;
pub mod record;
pub mod schema;
pub mod change;
pub mod command;
pub mod reply;
pub mod event;
pub mod tx;
pub mod execution;
pub mod invariant;
pub mod planted;

pub use error::Rejection;
pub use id::{CommitId, ExecutionId, LeaseId, PartitionId};
pub use time::Time;
