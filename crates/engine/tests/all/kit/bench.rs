//! An engine on a clock that only the test moves, on a store of any kind that tells what it was asked.

use super::flows::*;
use super::hand::Hand;
use super::kinds::Kind;
use super::plant;
use super::probe::{Asked, Probe};
use futures_util::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use weft_core::event::Event;
use weft_core::record::flow::Flow;
use weft_core::reply::Claimed;
use weft_core::schema::Timer;
use weft_core::{FlowId, PartitionId};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::FlowSubmission;
use weft_engine::scanner::Report;
use weft_engine::telemetry::Reading;
use weft_engine::{Client, Config, Engine};
use weft_store::Store;

pub struct Bench<S> {
    pub store: Arc<S>,
    pub probe: Arc<Probe<S>>,
    pub engine: Engine,
    pub client: Client,
    hand: Hand,
    scanners: ScannerConfig,
}

impl<S: Store> Bench<S> {
    /// One partition, and scanners that run only when the test says so.
    pub async fn new(kind: &impl Kind<Store = S>) -> Self {
        Self::with(kind, 1, Filter::NONE).await
    }

    pub async fn with(kind: &impl Kind<Store = S>, partitions: u16, filter: Filter) -> Self {
        let scanners = ScannerConfig { at_once: 0, filter, ..ScannerConfig::default() };
        Self::on(Arc::new(kind.open_with(partitions).await), Hand::new(), scanners).await
    }

    /// Scanners run by themselves, as the clock of the test goes on.
    pub async fn running(kind: &impl Kind<Store = S>, partitions: u16) -> Self {
        Self::on(Arc::new(kind.open_with(partitions).await), Hand::new(), ScannerConfig::default()).await
    }

    /// The same for those items only.
    pub async fn running_for(kind: &impl Kind<Store = S>, filter: Filter) -> Self {
        let scanners = ScannerConfig { filter, ..ScannerConfig::default() };
        Self::on(Arc::new(kind.open().await), Hand::new(), scanners).await
    }

    /// The same for all items, and where the store lets others in there may be another node.
    pub async fn shared(kind: &impl Kind<Store = S>) -> Self {
        Self::on(Arc::new(kind.open_shared().await), Hand::new(), ScannerConfig::default()).await
    }

    /// A store that lets other nodes in, if it can, and scanners that run only when the test says so.
    pub async fn shared_by_hand(kind: &impl Kind<Store = S>) -> Self {
        let scanners = ScannerConfig { at_once: 0, ..ScannerConfig::default() };
        Self::on(Arc::new(kind.open_shared().await), Hand::new(), scanners).await
    }

    /// A store that lets other nodes in, if it can, and scanners that handle only the items of the filter.
    pub async fn shared_for(kind: &impl Kind<Store = S>, filter: Filter) -> Self {
        let scanners = ScannerConfig { filter, ..ScannerConfig::default() };
        Self::on(Arc::new(kind.open_shared().await), Hand::new(), scanners).await
    }

    /// One partition, and scanners as the test sets them.
    pub async fn configured(kind: &impl Kind<Store = S>, scanners: ScannerConfig) -> Self {
        Self::configured_with(kind, 1, scanners).await
    }

    /// A bench with `partitions` partitions, and scanners as the test sets them.
    pub async fn configured_with(kind: &impl Kind<Store = S>, partitions: u16, scanners: ScannerConfig) -> Self {
        Self::on(Arc::new(kind.open_with(partitions).await), Hand::new(), scanners).await
    }

    /// A node beside this one whose scanners handle other items.
    pub async fn beside(&self, filter: Filter) -> Self {
        let scanners = ScannerConfig { filter, ..self.scanners.clone() };
        Self::on(self.store.clone(), self.hand.clone(), scanners).await
    }

    async fn on(store: Arc<S>, hand: Hand, scanners: ScannerConfig) -> Self {
        let probe = Probe::new(store.clone(), hand.clone());
        let config = Config { scanners: scanners.clone(), ..Config::default() };
        let engine = Engine::open_on(probe.clone(), config, Arc::new(hand.clone())).await.unwrap();
        let client = engine.client("shop").unwrap();
        Bench { store, probe, engine, client, hand, scanners }
    }

    /// Another engine on the same store, which has seen nothing of it yet.
    pub async fn again(self) -> Self {
        self.engine.shutdown().await;
        self.another().await
    }

    /// Another engine whose scanners run by themselves, which has seen nothing of the store yet.
    pub async fn run(self) -> Self {
        self.engine.shutdown().await;
        let scanners = ScannerConfig { at_once: ScannerConfig::default().at_once, ..self.scanners };
        Self::on(self.store, self.hand, scanners).await
    }

    /// Whether other nodes may be on the store.
    pub fn is_shared(&self) -> bool {
        !self.store.describe().exclusive
    }

    /// Another engine beside this one.
    pub async fn another(&self) -> Self {
        Self::on(self.store.clone(), self.hand.clone(), self.scanners.clone()).await
    }

    /// Lets time go on, and what comes of it be done. Calls to the store that are under way are answered before, so that none
    /// of them is given up for the time that passes.
    pub async fn pass(&self, ms: u64) {
        self.probe.settle().await;
        self.hand.pass(ms);
        self.probe.settle().await;
    }

    /// Waits for this while the clock stands still. Only after a call that the store did not answer, and which puts a partition
    /// aside, may some time go on.
    pub async fn at_once(&self, what: &str, is_done: impl AsyncFn() -> bool) {
        let until = self.hand.now() + 3_000;
        for _ in 0..5_000 {
            if is_done().await {
                return self.pass(0).await;
            }
            let failed =
                ["read", "scan", "commit", "now"].map(|call| self.count("weft_store_calls_total", &[call, "error"]));
            self.pass(if failed == [0; 4] { 0 } else { 10 }).await;
            assert!(self.hand.now() <= until, "{what}: it is late");
        }
        panic!("{what}: it waits for time to go on");
    }

    /// Lets time go on until this is answered.
    pub async fn meanwhile<T>(&self, future: impl Future<Output = T>) -> T {
        let ticking = async {
            loop {
                self.probe.settle().await;
                // The store owes no answer: only time can bring it.
                self.pass(10).await;
            }
        };
        match select(pin!(future), pin!(ticking)).await {
            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
        }
    }

    /// Lets time go on until nothing is left to be done at once.
    pub async fn until_quiet(&self) {
        use Timer::*;
        for _ in 0..2_000 {
            let left = [Resolve, Reopen, GroupCancel, FlowSeal, FlowEnding, FlowPurge];
            if !plant::any(&*self.store, P0, &left).await {
                return;
            }
            self.pass(10).await;
        }
        panic!("work is left");
    }

    /// Lets time go on until the whole graph is there.
    pub async fn until_sealed(&self, flow: FlowId) {
        for _ in 0..2_000 {
            if self.record(flow).await.hot.sealed_at.is_some() {
                return;
            }
            self.pass(10).await;
        }
        panic!("{flow} is not sealed");
    }

    /// What was asked since the last time, to its end.
    pub async fn asked(&self) -> Vec<Asked> {
        self.probe.settle().await;
        self.probe.asked()
    }

    /// A flow of so many members that wait for nothing.
    pub async fn flow(&self, members: usize) -> FlowId {
        self.submit((0..members).fold(FlowSubmission::new("flat"), |flow, at| flow.member(format!("m{at:04}"), work())))
            .await
    }

    pub async fn submit(&self, flow: FlowSubmission) -> FlowId {
        self.client.submit_flow(flow).await.unwrap().value.id
    }

    /// Claims one execution, which must be there.
    pub async fn claim(&self) -> Claimed {
        let mut claimed = claim_all(&self.client, 1).await;
        assert_eq!(claimed.len(), 1, "one execution is claimable");
        claimed.remove(0)
    }

    /// Runs all there is, also what becomes ready only in commits that follow.
    pub async fn work_off(&self) -> Vec<String> {
        let mut done = Vec::new();
        loop {
            let some = work_off(&self.client).await;
            if some.is_empty() {
                return done;
            }
            done.extend(some);
            self.until_quiet().await;
        }
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
        plant::flow(&*self.store, flow).await
    }

    /// How many entries of a timer there are.
    pub async fn entries(&self, timer: Timer) -> usize {
        self.entries_in(P0, timer).await
    }

    pub async fn entries_in(&self, partition: PartitionId, timer: Timer) -> usize {
        plant::entries(&*self.store, partition, timer).await.len()
    }

    /// All events so far, oldest first.
    pub async fn events(&self) -> Vec<Event> {
        plant::events(&*self.store, P0).await
    }

    pub async fn dead_letters(&self) -> Vec<weft_core::record::dead_letter::Body> {
        plant::dead_letters(&*self.store, P0).await
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
