//! What is measured: engines on fresh stores, and the floor of the same store.

use crate::crew::Crew;
use crate::load::NAMESPACE;
use anyhow::Result;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use weft_engine::{Engine, Stats};

/// A kind of store, set up for measuring.
pub trait Target: Sync {
    /// The store's name, as in reports.
    fn store(&self) -> String;

    /// What an acknowledged commit survives.
    fn durability(&self) -> String;

    /// So many engines on one new and empty store, each with a handle of its own.
    fn open(&self, nodes: usize) -> impl Future<Output = Result<Bed>> + Send;

    /// What the store itself does for the same durable facts of `n` executions, by hand-written statements. With
    /// `n` = 0 only single commits are measured.
    fn floor(&self, n: u64, payload: usize) -> impl Future<Output = Result<Floor>> + Send;

    /// A server for this engine, on a port of the loopback device.
    fn serve(&self, engine: &Engine) -> impl Future<Output = Result<Served>> + Send;
}

/// A server that answers for an engine.
pub struct Served {
    pub url: String,
    /// Ends the server and waits for that.
    pub stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

type Removal = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Engines to measure, and what has to live as long as they do.
pub struct Bed {
    engines: Vec<Engine>,
    /// Removes the store when it is dropped.
    place: Box<dyn Any + Send + Sync>,
    /// Removes the store if dropping something cannot.
    removal: Option<Removal>,
}

impl Bed {
    /// A store that goes away with `place`.
    pub fn new(engines: Vec<Engine>, place: impl Any + Send + Sync) -> Self {
        Self { engines, place: Box::new(place), removal: None }
    }

    /// A store that `removal` removes once the engines have ended. It is not run if the bed is only dropped.
    pub fn removed_by(engines: Vec<Engine>, removal: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        Self { engines, place: Box::new(()), removal: Some(Box::pin(removal)) }
    }

    /// The load's way in, through every engine.
    pub(crate) fn crew(&self) -> Result<Crew> {
        let clients = self.engines.iter().map(|engine| engine.client(NAMESPACE)).collect::<Result<_, _>>()?;
        Ok(Crew::new(clients))
    }

    /// The one that a server answers for.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engines[0]
    }

    /// What the engines have done for the store, each for itself.
    pub(crate) fn stats(&self) -> Vec<Stats> {
        self.engines.iter().map(Engine::stats).collect()
    }

    /// Ends the engines before their store goes.
    pub async fn close(self) -> Result<()> {
        for engine in &self.engines {
            engine.shutdown().await;
        }
        drop(self.engines);
        drop(self.place);
        match self.removal {
            Some(removal) => removal.await,
            None => Ok(()),
        }
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
