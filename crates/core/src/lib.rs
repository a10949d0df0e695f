//! The rules of Weft, written once, as pure functions over records that are already in memory.
//!
//! Nothing here waits, reads a clock, draws a random number or iterates a randomly ordered map: the same records, the
//! same command and the same `now` always give the same result. Stores keep what this crate produces and know none of
//! its rules; the engine brings records and commands together.

mod answer;
pub mod apply;
pub mod audit;
pub mod bulk;
pub mod change;
pub mod codec;
pub mod command;
pub mod derive;
pub mod digest;
pub mod error;
pub mod event;
pub mod execution;
pub mod filter;
pub mod flow;
pub mod id;
pub mod invariant;
pub mod key;
pub mod limits;
mod list;
pub mod loss;
pub mod node;
pub mod planted;
pub mod record;
pub mod reply;
pub mod schema;
pub mod text;
pub mod time;
pub mod tx;
pub mod worker;

#[cfg(test)]
extern crate self as weft_core;
#[cfg(test)]
#[path = "../tests/kit/mod.rs"]
mod kit;

pub use error::Rejection;
pub use id::{BulkId, CommitId, ExecutionId, FlowId, KeyId, LeaseId, ParkedId, PartitionId};
pub use time::Time;
