//! What is measured: engines on fresh stores, and the floor of the same store.

use std::any::Any;
use std::future::Future;
use weft_engine::Engine;

/// A kind of store, set up for measuring.
pub trait Target: Sync {
    /// The store's name, as in reports.
    fn store(&self) -> String;

    /// What an acknowledged commit survives.
    fn durability(&self) -> String;

    /// An engine on a new and empty store.
    fn open(&self) -> impl Future<Output = anyhow::Result<Bed>> + Send;

    /// What the store itself does for the same durable facts of `n` executions, by hand-written statements. With
    /// `n` = 0 only single commits are measured.
    fn floor(&self, n: u64, payload: usize) -> anyhow::Result<Floor>;
}

/// An engine to measure, and what has to live as long as it does.
pub struct Bed {
    pub engine: Engine,
    /// Removes the store when it is dropped.
    _place: Box<dyn Any + Send + Sync>,
}

impl Bed {
    pub fn new(engine: Engine, place: impl Any + Send + Sync) -> Self {
        Self { engine, _place: Box::new(place) }
    }

    /// Ends the engine before its store goes.
    pub async fn close(self) {
        self.engine.shutdown().await;
    }
}

/// What a store can do at best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Whole lifecycles a second, in batches.
    pub per_s: f64,
    /// The median of single commits of the facts of one submission.
    pub commit_ms: f64,
}
