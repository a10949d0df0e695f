//! An engine whose scanners run only when a test says so, on a store that tells what it was asked.

use crate::kit::flows::*;
use crate::kit::memory;
use crate::kit::plant;
use crate::kit::probe::Probe;
use std::sync::Arc;
use weft_core::event::{self, Event};
use weft_core::record::flow::Flow;
use weft_core::schema::Timer;
use weft_core::{FlowId, PartitionId};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::FlowSubmission;
use weft_engine::scanner::Report;
use weft_engine::telemetry::Reading;
use weft_engine::{Client, Config, Engine, TokioRuntime};
use weft_store::MemoryStore;

pub struct Bench {
    pub store: MemoryStore,
    pub probe: Arc<Probe>,
    pub engine: Engine,
    pub client: Client,
    filter: Filter,
}

impl Bench {
    pub async fn new() -> Bench {
        Self::with(1, Filter::NONE).await
    }

    pub async fn with(partitions: u16, filter: Filter) -> Bench {
        Self::on(memory(partitions), filter).await
    }

    pub async fn on(store: MemoryStore, filter: Filter) -> Bench {
        let probe = Probe::new(store.clone());
        // No scan is ever started by itself.
        let scanners = ScannerConfig { at_once: 0, filter: filter.clone(), ..ScannerConfig::default() };
        let config = Config { scanners, ..Config::default() };
        let engine = Engine::open_on(probe.clone(), config, Arc::new(TokioRuntime::current())).await.unwrap();
        let client = engine.client("shop").unwrap();
        Bench { store, probe, engine, client, filter }
    }

    /// Another engine on the same store, which has seen nothing of it yet.
    pub async fn again(self) -> Bench {
        self.engine.shutdown().await;
        Self::on(self.store, self.filter).await
    }

    /// A flow of so many members that wait for nothing.
    pub async fn flow(&self, members: usize) -> FlowId {
        self.submit((0..members).fold(FlowSubmission::new("flat"), |flow, at| flow.member(format!("m{at:04}"), work())))
            .await
    }

    pub async fn submit(&self, flow: FlowSubmission) -> FlowId {
        self.client.submit_flow(flow).await.unwrap().value.id
    }

    pub async fn scan(&self, scanner: &str) -> Report {
        self.engine.scan(scanner, P0).await.expect("a scanner of that name")
    }

    /// How often it was processed, and with how many errors.
    pub async fn counts(&self, scanner: &str) -> (u32, u32) {
        let report = self.scan(scanner).await;
        (report.processed, report.errors)
    }

    pub async fn record(&self, flow: FlowId) -> Flow {
        plant::flow(&self.store, flow).await
    }

    /// How many entries of a timer there are.
    pub fn entries(&self, timer: Timer) -> usize {
        self.entries_in(P0, timer)
    }

    pub fn entries_in(&self, partition: PartitionId, timer: Timer) -> usize {
        self.store.dump(partition).due.iter().filter(|entry| entry.timer() == Some(timer)).count()
    }

    /// All events so far, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let feed = self.store.dump(P0).feed;
        feed.iter().flat_map(|entry| event::decode(&entry.events).expect("events of this version")).collect()
    }

    /// The reading of a counter.
    pub fn count(&self, name: &str, labels: &[&str]) -> u64 {
        let all = self.engine.metrics();
        let family = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
        let is = |values: &[weft_core::text::Text]| values.iter().map(|value| &**value).eq(labels.iter().copied());
        match family.samples.iter().find(|(values, _)| is(values)) {
            Some((_, Reading::Count(count))) => *count,
            other => panic!("{name}: {other:?}"),
        }
    }
}
