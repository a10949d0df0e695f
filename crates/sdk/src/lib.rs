//! Clients and workers of Weft. A client submits executions and reads them; a worker claims them and runs a handler for
//! each. Both make the same typed calls, to a server over HTTP or, with the feature `embedded`, to an engine in this
//! process. Knows the wire types and no rules.
//!
//! ```no_run
//! use weft_sdk::{Client, Failure, Json, Worker, shutdown_signal};
//!
//! async fn greet(Json(name): Json<String>) -> Result<Json<String>, Failure> {
//!     Ok(Json(format!("hello, {name}")))
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let weft = Client::connect("http://127.0.0.1:7700").build().await?;
//!     let worker = tokio::spawn(Worker::new(weft.clone()).handle("greet", greet).run_until(shutdown_signal()));
//!     let run = weft.submit("greet", "world").await?;
//!     assert_eq!(run.result::<String>().await?, "hello, world");
//!     worker.await??;
//!     Ok(())
//! }
//! ```

pub mod error;
mod world;

mod keyed;
pub mod layer;
mod transport;

pub mod flow;
pub mod payload;

pub mod client;
mod shutdown;
pub mod worker;

#[cfg(feature = "test")]
pub mod test;

pub use client::{Client, Connect, Flow, FlowHandle, NoResult, Run, Submission};
pub use error::Error;
pub use flow::{Edge, Group, Member, Node};
pub use payload::Codec;
pub use shutdown::shutdown_signal;
pub use transport::Transport;
pub use weft_api as api;
pub use weft_api::{Args, Class, Code, Operation, Payload, Problem, op};
pub use worker::{
    Checkpoint, Coded, Ctx, Failure, FromTask, Info, Inputs, IntoResult, Json, OrFail, Outcome, Raw, State, Tags, Task,
    Worker, WorkerHandle,
};
