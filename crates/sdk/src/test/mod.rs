//! Tests of handlers without a clock, a socket or a sleep: an engine, its store and a worker in one thread on virtual
//! time. A test of thirty days takes milliseconds, and the same seed gives the same events.
//!
//! ```
//! use weft_sdk::{Failure, Json, test};
//!
//! async fn double(Json(n): Json<u64>) -> Result<Json<u64>, Failure> {
//!     Ok(Json(n * 2))
//! }
//!
//! test::run(|harness| async move {
//!     harness.worker(|worker| worker.handle("double", double));
//!     let run = harness.submit("double", &21).await.unwrap();
//!     harness.run_until_idle().await;
//!     assert_eq!(run.result::<u64>().await.unwrap(), 42);
//! });
//! ```

mod broken;
mod crash;
mod events;
mod gate;
mod harness;
mod virtual_time;

pub use harness::Harness;

use std::future::Future;

/// Runs a test with a harness on a thread of virtual time.
pub fn run<F: FnOnce(Harness) -> Fut, Fut: Future>(test: F) -> Fut::Output {
    runtime().block_on(async { test(Harness::new().await).await })
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("harness: a runtime without I/O can be made")
}
