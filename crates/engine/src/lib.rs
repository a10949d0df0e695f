//! The engine on a node: it takes commands, runs the rules of `weft-core` on cached records, commits to a store and
//! answers, hands work to waiting workers, and keeps every promise that depends on time.
//!
//! An application can embed it:
//!
//! ```
//! use weft_engine::{Claim, Completion, Config, Engine, Submission};
//! use weft_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = || weft_core::Time::from_ms(1_700_000_000_000);
//! let engine = Engine::open(MemoryStore::new(1, std::sync::Arc::new(clock)), Config::default()).await?;
//! let client = engine.client("shop")?;
//!
//! let submitted = client.submit(Submission::new("invoice.send").input(&b"order 17"[..])).await?;
//!
//! let mut claimed = client.claim(Claim::new("mailer", "mailer-1").wait_ms(1_000)).await?;
//! let work = claimed.executions.remove(0);
//! assert_eq!(work.id, submitted.id);
//! client.complete(Completion::of(&work).result(&b"sent"[..])).await?;
//!
//! let result = client.result(submitted.id, 0).await?;
//! assert_eq!(result.bytes.as_deref(), Some(&b"sent"[..]));
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod audit;
mod bell;
mod bulk;
mod census;
mod claim;
pub mod client;
mod clock;
pub mod config;
mod count;
mod drain;
mod driver;
mod engine;
mod explain;
pub mod flow;
mod history;
mod hub;
mod keys;
mod lanes;
mod membership;
mod notices;
mod outage;
mod parked;
mod partition;
mod place;
mod pulse;
mod reads;
pub mod refusals;
pub mod registry;
mod request;
mod room;
pub mod runtime;
pub mod scanner;
mod stats;
mod store;
pub mod telemetry;
mod verb;
pub mod worker;

pub use audit::{AuditCheck, AuditFilter, AuditPage, BrokenEntry};
pub use bulk::{BulkRequest, BulkState, BulkView};
pub use census::{Depth, Depths, Manned, Running};
pub use client::Client;
pub use config::Config;
pub use count::{BoundedCount, Counts, GroupBy, GroupedCounts};
pub use engine::{Engine, OpenError};
pub use explain::{Ended as EndedMember, Explanation, Membership, NoWorker, Obstacle, Retry};
pub use history::{AttemptFilter, AttemptPage, HistoryEntry, HistoryPage, HistoryPlace};
pub use keys::{KeyCreation, KeyPage};
pub use notices::{Heard, Notice, Notices, Numbered, Told};
pub use parked::{Parked, ParkedFilter, ParkedPage};
pub use reads::{ChildPage, ExecutionView, ListFilter, ListPage, ResultView, StepPage};
pub use request::{
    Cancellation, Claim, ClaimReply, Completion, Delaying, Failing, ForceCompleting, ForceFailing, Holding, LaneMode,
    LaneWish, Prioritising, Progressing, Purging, Recording, Releasing, Renewal, Replaying, Rescheduling, Revoking,
    Submission, Tagging, Waiting,
};
pub use runtime::{Runtime, TokioRuntime};
pub use stats::Stats;
pub use verb::{Answered, Settle, Settled};
