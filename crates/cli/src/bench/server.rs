//! A store on a server as a target of measurements: a schema or prefix of its own for every run, removed after it.

use super::served;
use super::target::FLOOR_BATCH;
use crate::store::Address;
use crate::terminal;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_bench::{Bed, Floor, Served, Target};
use weft_engine::{Config, Engine};
use weft_store::{Description, Store};

/// Connections that share the work of the floor, at most.
const LOOPS_MAX: u16 = 4;

pub struct ServerTarget {
    /// The server, with whatever name the caller's own store has there.
    server: Address,
    described: Description,
    /// What this run has made and not removed yet.
    made: Made,
}

/// By their names, with the engines that are on them.
type Made = Arc<Mutex<BTreeMap<String, Vec<Engine>>>>;

impl ServerTarget {
    pub async fn new(server: Address) -> Result<Self> {
        let name = fresh_name();
        let place = server.named(&name)?;
        let probed = place.open().await.map(|store| store.describe());
        let removed = place.remove().await;
        let described = probed?;
        removed.with_context(|| left(&name))?;
        Ok(Self { server, described, made: Made::default() })
    }

    /// Ends what still runs and removes what a run that failed or was interrupted has left.
    pub async fn clean(&self) {
        let left_over = std::mem::take(&mut *lock(&self.made));
        for (name, engines) in left_over {
            for engine in engines {
                engine.shutdown().await;
            }
            if let Err(error) = self.remove(&name).await {
                terminal::say(&format!("{}: {error:#}", left(&name)));
            }
        }
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let place = self.server.named(name)?;
        place.remove_floor().await?;
        place.remove().await
    }
}

fn left(name: &str) -> String {
    format!("could not remove `{name}`, which this measurement has made; remove it by hand")
}

/// A name that nobody else has.
fn fresh_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("weft_bench_{:012x}", random & 0xffff_ffff_ffff)
}

fn lock(made: &Made) -> MutexGuard<'_, BTreeMap<String, Vec<Engine>>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Target for ServerTarget {
    fn store(&self) -> String {
        self.described.name.to_owned()
    }

    fn durability(&self) -> String {
        self.described.durability.to_string()
    }

    async fn open(&self, nodes: usize) -> Result<Bed> {
        let name = fresh_name();
        let place = self.server.named(&name)?;
        lock(&self.made).insert(name.clone(), Vec::new());
        let mut engines = Vec::with_capacity(nodes);
        for number in 0..nodes {
            let config = Config { node: format!("bench-{number}").into(), ..Config::default() };
            let engine = Engine::open(place.open().await?, config).await?;
            lock(&self.made).entry(name.clone()).or_default().push(engine.clone());
            engines.push(engine);
        }
        let made = self.made.clone();
        let removal = async move {
            lock(&made).remove(&name);
            place.remove().await.with_context(|| left(&name))
        };
        Ok(Bed::removed_by(engines, removal))
    }

    async fn floor(&self, n: u64, payload: usize) -> Result<Floor> {
        let name = fresh_name();
        let place = self.server.named(&name)?;
        lock(&self.made).insert(name.clone(), Vec::new());
        let loops = usize::from(self.described.partitions.min(LOOPS_MAX));
        let floor = place.floor(n as usize, FLOOR_BATCH, payload, loops).await;
        let floor = floor.context("could not measure the floor")?;
        lock(&self.made).remove(&name);
        Ok(Floor { per_s: floor.lifecycles_per_s, commit_ms: floor.commit_ms })
    }

    async fn serve(&self, engine: &Engine) -> Result<Served> {
        served::serve(engine).await
    }
}
