//! One seed from beginning to end: faults, healing, everything done, everything read, an idle hour.

use crate::checker::{Judge, SharedJudge};
use crate::client;
use crate::cluster::{self, Cluster};
use crate::executor::World;
use crate::flows;
use crate::log::Log;
use crate::node::NETWORK;
use crate::outside::{Caller, Outside};
use crate::scenario::{Scenario, Settings};
use crate::worker::Worker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weft_core::record::execution::State;
use weft_core::record::{Key, Record};
use weft_core::{ExecutionId, PartitionId, Time};
use weft_engine::Config;
use weft_store::memory::MemoryStore;

/// The moment every seed begins at.
const START_MS: u64 = 1_700_000_000_000;
/// Simulated time after healing within which everything that waits for nobody must have ended: three times the longest
/// lease and back-off, and the longest delay that is ever asked for.
const HEAL_MS_MAX: u64 = 3 * (60_000 + 60_000) + 120_000;
/// Waiting claims end within this after everybody has stopped.
const WIND_DOWN_MS: u64 = 45_000;
/// Every twentieth seed is left alone for an hour, the others for a thirtieth of it.
const IDLE_MS: u64 = 3_600_000;
/// Calls to the store that a node may make in an idle hour, however many partitions there are.
const IDLE_CALLS_MAX: u64 = 12_000;

/// What one seed showed.
#[derive(Clone, Debug)]
pub struct SeedReport {
    pub seed: u64,
    /// Each ends with the line that repeats it.
    pub violations: Vec<String>,
    pub transitions: u64,
    pub commits: u64,
    pub simulated_ms: u64,
    pub density: &'static str,
    pub faults: BTreeMap<String, u64>,
    pub sometimes: BTreeMap<&'static str, u64>,
    pub log_hash: String,
    /// Fewer than half of the calls were answered before healing.
    pub starved: bool,
    /// The log itself, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs one seed. The same scenario and seed always give the same report.
pub fn run_seed(scenario: &Scenario, seed: u64) -> SeedReport {
    Run::new(scenario, seed, Log::default()).finish(scenario)
}

/// The same, with the log as text.
pub fn trace_seed(scenario: &Scenario, seed: u64) -> SeedReport {
    Run::new(scenario, seed, Log::traced()).finish(scenario)
}

struct Run {
    world: World,
    settings: Settings,
    judge: SharedJudge,
    store: MemoryStore,
    cluster: Arc<Cluster>,
    outside: Arc<Outside>,
    starved: bool,
}

impl Run {
    fn new(scenario: &Scenario, seed: u64, log: Log) -> Self {
        let settings = Settings::draw(scenario, seed);
        let world = World::new(START_MS);
        let judge = SharedJudge::new(Judge::new(log));
        let clock = world.clone();
        let store = MemoryStore::new(settings.partitions, Arc::new(move || Time::from_ms(clock.now_ms())));
        let store = if settings.exclusive { store } else { store.shared() };
        let (watcher, clock) = (judge.clone(), world.clone());
        store.set_observer(Box::new(move |commit| watcher.lock().observe(commit, clock.now_ms())));
        let cluster = Cluster::new(world.clone(), judge.clone(), settings.clone(), store.clone());
        let outside = Outside::new(cluster.clone(), settings.clone());
        Self { world, settings, judge, store, cluster, outside, starved: false }
    }

    fn finish(mut self, scenario: &Scenario) -> SeedReport {
        self.begin();
        self.run_for(self.settings.active_ms);
        self.starved = self.judge.lock().is_starved();
        self.cluster.heal();
        self.work_off();
        self.read_back();
        self.wind_down();
        self.check_store();
        self.idle();
        self.report(scenario)
    }

    fn begin(&self) {
        let spawn = |task| self.world.spawn(NETWORK, task);
        spawn(Box::pin(cluster::chaos(self.cluster.clone(), self.settings.clone())));
        spawn(Box::pin(cluster::losses(self.cluster.clone(), self.settings.clone())));
        spawn(Box::pin(cluster::outages(self.cluster.clone(), self.settings.clone())));
        for number in 0..self.settings.workers {
            let caller = Caller::new(self.outside.clone(), "worker", number as u64);
            spawn(Box::pin(Worker::new(caller, number).run()));
        }
        spawn(Box::pin(client::submit_all(self.outside.clone())));
        spawn(Box::pin(flows::submit_all(self.outside.clone())));
        for number in 0..2 {
            spawn(Box::pin(client::steer(Caller::new(self.outside.clone(), "steerer", number))));
        }
    }

    /// Lets `ms` pass; false if the seed has said enough or cannot go on.
    fn run_for(&self, ms: u64) -> bool {
        let until_ms = self.world.now_ms() + ms;
        while self.world.now_ms() < until_ms {
            let slice_ms = (self.world.now_ms() + 1_000).min(until_ms);
            let ran = self.world.run_until(slice_ms);
            self.cluster.check_outage();
            let mut judge = self.judge.lock();
            if let Err(chase) = ran {
                judge.violation("liveness", format!("tasks wake each other for ever at {}", chase.at_ms));
            }
            for panic in self.world.take_panics() {
                judge.violation("SEC-18", format!("a task panicked: {panic}"));
            }
            if !judge.violations().is_empty() {
                return false;
            }
        }
        true
    }

    /// Workers that behave well finish everything.
    fn work_off(&self) {
        for node in 0..self.cluster.size() {
            let caller = Caller::new(self.outside.clone(), "good", node as u64);
            self.world.spawn(NETWORK, Box::pin(Worker::good(caller, node).run_good()));
        }
        let caller = Caller::new(self.outside.clone(), "releaser", 0);
        self.world.spawn(NETWORK, Box::pin(client::release_all(caller)));
        let bound_ms = Config::default().recheck_ms + 4_000;
        let give_up_ms = self.world.now_ms() + HEAL_MS_MAX;
        let settled_ms = self.world.now_ms() + 15_000;
        while self.world.now_ms() < give_up_ms {
            if !self.run_for(1_000) {
                return;
            }
            let now_ms = self.world.now_ms();
            let mut judge = self.judge.lock();
            if now_ms > settled_ms {
                judge.check_waiters(now_ms, bound_ms);
            }
            let done = judge.executions().all(|execution| execution.is_done()) && judge.unfinished_flows().is_empty();
            if done && now_ms > settled_ms {
                return;
            }
        }
        let mut judge = self.judge.lock();
        let stuck: Vec<String> = judge
            .executions()
            .filter(|execution| !execution.is_done())
            .take(3)
            .map(|execution| format!("{} {:?}", execution.id, execution.hot.state))
            .collect();
        let flows = judge.unfinished_flows();
        let stuck = stuck.into_iter().chain(flows).collect::<Vec<_>>().join("; ");
        judge.violation("liveness", format!("not done {HEAL_MS_MAX} ms after healing: {stuck}"));
    }

    /// Every execution that is there reads as the commits say, whatever node is asked.
    fn read_back(&self) {
        if !self.judge.lock().violations().is_empty() {
            return;
        }
        let ids: Vec<ExecutionId> = self.judge.lock().executions().map(|execution| execution.id).collect();
        let left = Arc::new(Mutex::new(ids.len()));
        let mut caller = Caller::new(self.outside.clone(), "reader", 0);
        let remaining = left.clone();
        self.world.spawn(
            NETWORK,
            Box::pin(async move {
                for id in ids {
                    read_one(&mut caller, id).await;
                    *remaining.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                }
            }),
        );
        for _ in 0..120 {
            if !self.run_for(1_000) || *left.lock().unwrap_or_else(PoisonError::into_inner) == 0 {
                return;
            }
        }
        self.judge.lock().violation("liveness", "reads were not answered");
    }

    fn wind_down(&self) {
        self.outside.stop();
        self.run_for(WIND_DOWN_MS);
    }

    fn check_store(&self) {
        for partition in (0..self.settings.partitions).map(PartitionId) {
            let dump = self.store.dump(partition);
            self.judge.lock().check_whole(partition, &dump);
        }
        self.judge.lock().check_losses_named();
    }

    fn idle(&self) {
        if !self.judge.lock().violations().is_empty() {
            return;
        }
        self.judge.lock().begin_idle();
        let before = self.cluster.stats();
        let commits_before = self.judge.lock().commits;
        let idle_ms = if self.settings.seed % 20 == 7 { IDLE_MS } else { IDLE_MS / 30 };
        self.run_for(idle_ms);
        // A due timer costs every node a look, and its commit may be in conflict with that of another node.
        let timers = self.judge.lock().commits - commits_before;
        let allowed = IDLE_CALLS_MAX * idle_ms / IDLE_MS + 20 * timers;
        for (before, after) in before.into_iter().zip(self.cluster.stats()) {
            let did = after.since(before);
            if did.store_calls() > allowed {
                let calls = did.store_calls();
                let what = format!("{calls} calls to the store in {idle_ms} idle ms, {allowed} would do: {did:?}");
                self.judge.lock().violation("liveness", what);
            }
        }
    }

    fn report(self, scenario: &Scenario) -> SeedReport {
        let faults = self.cluster.end();
        self.world.clear();
        let mut judge = self.judge.lock();
        let replay = format!("replay: weft sim --scenario {} --seed {}", scenario.name, self.settings.seed);
        let settings = self.settings.to_string();
        let hash = judge.log.hash();
        let violations = judge
            .violations()
            .iter()
            .map(|violation| format!("{violation}\n  {settings}, log {}\n  {replay}", &hash[..16]))
            .collect();
        SeedReport {
            seed: self.settings.seed,
            violations,
            transitions: judge.transitions,
            commits: judge.commits,
            simulated_ms: self.world.now_ms() - START_MS,
            density: self.settings.density.name(),
            faults,
            sometimes: judge.take_sometimes(),
            log_hash: hash,
            starved: self.starved,
            trace: std::mem::take(&mut judge.log).into_text(),
        }
    }
}

/// Reads the outcome of one execution from some node and compares it with its record.
async fn read_one(caller: &mut Caller, id: ExecutionId) {
    caller.switch_node();
    let outside = caller.outside.clone();
    let called = outside
        .cluster
        .call(caller.node, &mut caller.dice, 0, move |client: weft_engine::Client| {
            Box::pin(async move { client.result(id, 0).await })
        })
        .await;
    let mut judge = outside.cluster.judge.lock();
    // It may have been purged meanwhile.
    let Some(execution) = judge.execution(id).cloned() else { return };
    let State::Done { outcome, attempt, .. } = execution.hot.state else { return };
    let expected = match attempt.and_then(|index| judge.record(&Key::Attempt(id, index))) {
        Some(Record::Attempt(attempt)) => attempt.result().cloned(),
        _ => execution.forced_result().and_then(|forced| forced.bytes.clone()),
    };
    let expected = expected.filter(|_| outcome == weft_core::record::execution::Outcome::Success);
    match called.answer {
        Some(Ok(view)) if view.outcome == outcome && view.bytes == expected => {}
        Some(answer) => judge.violation("RI-1", format!("{id} reads as {answer:?}, not {outcome:?} {expected:?}")),
        None => judge.violation("liveness", format!("a read of {id} was not answered")),
    }
}
