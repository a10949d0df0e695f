//! The nodes: started, crashed, paused, healed; and the calls that reach them from outside, or do not.
//!
//! A call runs inside its node, like a request in a server: it dies with the node, while its caller learns nothing.

use crate::checker::{Memory, SharedJudge};
use crate::dice::Dice;
use crate::executor::{Group, World, within};
use crate::node::{NETWORK, NetworkSleeper, SimRuntime, Skew};
use crate::scenario::{CallFaults, Settings};
use crate::tap::{Flights, Sight, Truth};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use weft_core::PartitionId;
use weft_core::limits::Limits;
use weft_engine::{Client, Config, Engine, Stats};
use weft_store::faulty::{Faults, Faulty};
use weft_store::memory::{MemoryStore, Saved};

pub const NAMESPACE: &str = "sim";

/// How long a caller waits for a reply beyond what it asked to wait for.
const PATIENCE_MS: u64 = 15_000;

/// Time without crash, pause and outage after which the live nodes share all partitions among themselves: a dead node
/// counts as live for 10 s, and the registry is read every 3 s.
const SETTLED_MS: u64 = 20_000;

/// Most commits that a partition loses at once.
const LOSS_MAX: u64 = 500;

/// How long a loss waits for the commits to lose; then it takes those that there are.
const LOSS_WAIT_MS: u64 = 20_000;

type NodeStore = Faulty<Truth<MemoryStore>>;

/// All nodes of a seed, on one store.
pub struct Cluster {
    pub world: World,
    pub judge: SharedJudge,
    settings: Settings,
    store: MemoryStore,
    nodes: Mutex<Vec<Node>>,
    healed: AtomicBool,
    /// The partition that gives no answer, and since when.
    outage: Mutex<Option<(PartitionId, u64)>>,
    /// When a node last crashed, stood still or went on, or an outage ended.
    shaken_ms: AtomicU64,
    counts: Mutex<BTreeMap<String, u64>>,
}

struct Node {
    life: u64,
    group: Group,
    engine: Option<Arc<Engine>>,
    faulty: Option<Arc<NodeStore>>,
    paused: bool,
    in_flight: Arc<Flights>,
}

/// What came of a call.
pub struct Called<T> {
    /// `None`: the caller learnt nothing.
    pub answer: Option<T>,
    /// How often the call reached a node.
    pub delivered: u32,
}

impl Cluster {
    pub fn new(world: World, judge: SharedJudge, settings: Settings, store: MemoryStore) -> Arc<Self> {
        let node = |index: usize| Node {
            life: 0,
            group: Group(10_000 * (index as u32 + 1)),
            engine: None,
            faulty: None,
            paused: false,
            in_flight: Arc::default(),
        };
        let nodes = Mutex::new((0..settings.nodes).map(node).collect());
        let cluster = Arc::new(Self {
            world,
            judge,
            settings,
            store,
            nodes,
            healed: AtomicBool::new(false),
            outage: Mutex::new(None),
            shaken_ms: AtomicU64::new(0),
            counts: Mutex::new(BTreeMap::new()),
        });
        for index in 0..cluster.size() {
            cluster.start(index);
        }
        cluster
    }

    pub fn size(&self) -> usize {
        self.settings.nodes
    }

    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub fn is_up(&self, index: usize) -> bool {
        let nodes = self.nodes();
        nodes[index].engine.is_some() && !nodes[index].paused
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remark(&self, index: usize, what: &str) {
        self.judge.lock().log.remark(|| format!("{} node {index} {what}", self.world.now_ms()));
    }

    pub fn count(&self, what: &str, by: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += by;
    }

    fn faults(&self) -> Faults {
        if !self.is_healed() {
            let silent = self.outage().map(|(partition, _)| partition);
            return Faults { silent, ..self.settings.faults };
        }
        let Faults { before_ms, after_ms, .. } = self.settings.faults;
        let wake_lost = if self.settings.deaf { 1000 } else { 0 };
        Faults { before_ms, after_ms, wake_lost, ..Faults::default() }
    }

    fn outage(&self) -> Option<(PartitionId, u64)> {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this partition gives no answer to any node, and every other one does.
    fn set_outage(&self, partition: Option<PartitionId>) {
        let now_ms = self.world.now_ms();
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = partition.map(|partition| (partition, now_ms));
        self.judge.lock().log.remark(|| format!("{now_ms} without answer: {partition:?}"));
        let faults = self.faults();
        for node in &*self.nodes() {
            if let Some(faulty) = &node.faulty {
                faulty.set_faults(faults);
            }
        }
    }

    /// Checks the timers of the other partitions during an outage. The share of a node that crashed or stands still is taken
    /// over meanwhile.
    pub fn check_outage(&self) {
        let Some((silent, since_ms)) = self.outage().filter(|_| !self.is_healed()) else { return };
        let settled_ms = since_ms.max(self.shaken_ms.load(Ordering::Relaxed) + SETTLED_MS);
        if (0..self.size()).any(|index| self.is_up(index)) {
            self.judge.lock().check_beside(silent, settled_ms, self.world.now_ms());
        }
    }

    /// Begins the next life of a node on the same store.
    pub fn start(self: &Arc<Self>, index: usize) {
        self.remark(index, "starts");
        let seed = self.settings.seed;
        let (life, group, in_flight) = {
            let mut nodes = self.nodes();
            let node = &mut nodes[index];
            node.life += 1;
            node.group = Group(node.group.0 + 1);
            node.in_flight = Arc::default();
            (node.life, node.group, node.in_flight.clone())
        };
        let number = life_number(index, life);
        let mut dice = Dice::new(seed, "node", number);
        let skew = Skew::draw(&mut dice, self.settings.skew_ms, self.settings.drift_permille, self.world.now_ms());
        let truth = Arc::new(Truth::new(Arc::new(self.store.node_handle()), self.judge.clone()));
        let sleeper = Arc::new(NetworkSleeper(self.world.clone()));
        let faulty = Arc::new(Faulty::new(truth, self.faults(), dice.number(), sleeper));
        self.nodes()[index].faulty = Some(faulty.clone());
        let store = Arc::new(Sight::new(faulty, self.judge.clone(), in_flight, index, number));
        let runtime = Arc::new(SimRuntime::new(self.world.clone(), group, skew, dice));
        // Members that nobody seals end within the time that a seed has.
        let limits = Limits { seal_by_ms: 30_000, ..Limits::default() };
        let (node, cache_bytes) = (format!("n{index}").into(), self.settings.cache_bytes);
        let config = Config { node, cache_bytes, limits, ..Config::default() };
        let cluster = Arc::downgrade(self);
        let world = self.world.clone();
        let task = async move {
            loop {
                if let Ok(engine) = Engine::open_on(store.clone(), config.clone(), runtime.clone()).await {
                    if let Some(cluster) = cluster.upgrade() {
                        cluster.nodes()[index].engine = Some(Arc::new(engine));
                    }
                    return;
                }
                world.sleep(200).await;
            }
        };
        self.world.spawn(group, Box::pin(task));
    }

    /// Waits a little for a commit to be on its way: that is when a crash hurts most.
    async fn wait_for_flight(&self, index: usize, dice: &mut Dice) {
        for _ in 0..dice.below(100) {
            if self.nodes()[index].in_flight.is_any() || self.is_healed() {
                return;
            }
            self.world.sleep(dice.between(1, 3)).await;
        }
    }

    /// Ends a node at whatever it was doing.
    pub fn crash(&self, index: usize) {
        let (life, group, engine, faulty, in_flight) = {
            let mut nodes = self.nodes();
            let node = &mut nodes[index];
            node.paused = false;
            (node.life, node.group, node.engine.take(), node.faulty.take(), node.in_flight.is_any())
        };
        if in_flight {
            self.judge.lock().sometimes("node crash with commit in flight");
        }
        self.shaken_ms.store(self.world.now_ms(), Ordering::Relaxed);
        self.world.kill(group);
        self.judge.lock().node_ended(life_number(index, life));
        drop(engine);
        self.gather_counts(faulty.as_deref());
    }

    fn gather_counts(&self, faulty: Option<&NodeStore>) {
        for (name, times) in faulty.map(NodeStore::counts).unwrap_or_default() {
            self.count(name, times);
        }
    }

    /// The partition as it is, to go back to.
    fn save(&self, partition: PartitionId) -> (Saved, Memory) {
        (self.store.save(partition), self.judge.lock().save(partition))
    }

    /// Loses every commit since the partition was saved. False if there is none.
    fn go_back(&self, (saved, memory): &(Saved, Memory)) -> bool {
        if !self.judge.lock().has_moved_since(memory) {
            return false;
        }
        if self.has_commit_in_flight(memory.partition) {
            self.judge.lock().sometimes("loss in the middle of a commit");
        }
        self.store.go_back(saved);
        self.judge.lock().go_back(memory, self.world.now_ms());
        self.count("store_went_back", 1);
        true
    }

    fn has_commit_in_flight(&self, partition: PartitionId) -> bool {
        self.nodes().iter().any(|node| node.in_flight.is_in(partition))
    }

    /// Waits until the partition has had `size` commits since it was saved and, with `in_flight`, a node waits for another
    /// one. Gives up when there are as many as may be lost, and when nothing happens for long.
    async fn wait_for_commits(&self, saved: &(Saved, Memory), size: u64, in_flight: bool, dice: &mut Dice) {
        let until_ms = self.world.now_ms() + LOSS_WAIT_MS;
        while self.world.now_ms() < until_ms && !self.is_healed() {
            let made = self.judge.lock().commits_since(&saved.1);
            if made >= LOSS_MAX || made >= size && (!in_flight || self.has_commit_in_flight(saved.1.partition)) {
                return;
            }
            self.world.sleep(dice.between(1, 5)).await;
        }
    }

    /// The node stands still; it returns as a zombie that believes it is up to date.
    pub fn pause(&self, index: usize) {
        self.shaken_ms.store(self.world.now_ms(), Ordering::Relaxed);
        let mut nodes = self.nodes();
        nodes[index].paused = true;
        self.world.pause(nodes[index].group);
    }

    pub fn resume(&self, index: usize) {
        self.remark(index, "goes on");
        self.shaken_ms.store(self.world.now_ms(), Ordering::Relaxed);
        let mut nodes = self.nodes();
        nodes[index].paused = false;
        self.world.resume(nodes[index].group);
    }

    /// Ends every fault. Nodes that are down come up; clocks stay as wrong as they are, but no longer change.
    pub fn heal(self: &Arc<Self>) {
        self.healed.store(true, Ordering::Relaxed);
        let faults = self.faults();
        for index in 0..self.size() {
            self.resume(index);
            let faulty = self.nodes()[index].faulty.clone();
            match faulty {
                Some(faulty) => faulty.set_faults(faults),
                None => self.start(index),
            }
        }
    }

    /// Drops all nodes; what was counted comes back.
    pub fn end(&self) -> BTreeMap<String, u64> {
        for index in 0..self.size() {
            self.nodes()[index].in_flight = Arc::default();
            self.crash(index);
        }
        std::mem::take(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What each engine did at its store so far.
    pub fn stats(&self) -> Vec<Stats> {
        self.nodes().iter().filter_map(|node| node.engine.as_ref()).map(|engine| engine.stats()).collect()
    }

    fn client(&self, index: usize) -> Option<(Client, Group)> {
        let nodes = self.nodes();
        let node = &nodes[index];
        let client = node.engine.as_ref()?.client(NAMESPACE).ok()?;
        Some((client, node.group))
    }

    fn call_faults(&self) -> CallFaults {
        let calls = self.settings.calls;
        if self.is_healed() { CallFaults { latency_ms: calls.latency_ms, ..CallFaults::default() } } else { calls }
    }

    /// Calls a node from outside. `wait_ms` is what the call itself may wait for.
    pub async fn call<T, F>(&self, index: usize, dice: &mut Dice, wait_ms: u64, make: F) -> Called<T>
    where
        T: Send + 'static,
        F: Fn(Client) -> Pin<Box<dyn Future<Output = T> + Send>>,
    {
        let faults = self.call_faults();
        self.world.sleep(dice.between(0, faults.latency_ms)).await;
        let fate = Fate::draw(dice, faults);
        let Some((client, group)) = self.client(index).filter(|_| fate != Fate::Lost) else {
            self.count_fate(fate);
            self.world.sleep(dice.between(50, 1_000)).await;
            return Called { answer: None, delivered: 0 };
        };
        self.count_fate(fate);
        let (tell, told) = oneshot::channel();
        let work = make(client.clone());
        let patience = wait_ms + PATIENCE_MS;
        let stay_ms = if fate == Fate::Broken { dice.between(0, 50) } else { patience };
        let stay = self.world.sleep(stay_ms);
        let serve = async move {
            if let Some(answer) = within(stay, work).await {
                // The caller may have gone.
                let _ = tell.send(answer);
            }
        };
        self.world.spawn(group, Box::pin(serve));
        if fate == Fate::Doubled {
            let (copy, delay) = (make(client), self.world.sleep(dice.between(0, 2_000)));
            let serve = async move {
                delay.await;
                copy.await;
            };
            self.world.spawn(group, Box::pin(serve));
        }
        let answer = within(self.world.sleep(patience), told).await.and_then(Result::ok);
        self.world.sleep(dice.between(0, faults.latency_ms)).await;
        let delivered = if fate == Fate::Doubled { 2 } else { 1 };
        Called { answer: answer.filter(|_| fate != Fate::ReplyLost), delivered }
    }

    fn count_fate(&self, fate: Fate) {
        match fate {
            Fate::Good => {}
            Fate::Lost => self.count("call_lost", 1),
            Fate::ReplyLost => self.count("reply_lost", 1),
            Fate::Broken => self.count("call_broken", 1),
            Fate::Doubled => self.count("call_doubled", 1),
        }
    }
}

/// One number for each life of each node.
fn life_number(index: usize, life: u64) -> u64 {
    index as u64 * 1_000 + life
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    Lost,
    ReplyLost,
    Broken,
    Doubled,
}

impl Fate {
    fn draw(dice: &mut Dice, faults: CallFaults) -> Self {
        let bad = faults.lost + faults.reply_lost + faults.broken + faults.doubled;
        let good = 1000u64.saturating_sub(bad);
        dice.weighted(&[
            (faults.lost as u32, Fate::Lost),
            (faults.reply_lost as u32, Fate::ReplyLost),
            (faults.broken as u32, Fate::Broken),
            (faults.doubled as u32, Fate::Doubled),
            (good as u32, Fate::Good),
        ])
    }
}

/// Crashes and pauses nodes until the faults end.
pub async fn chaos(cluster: Arc<Cluster>, settings: Settings) {
    let mut dice = Dice::new(settings.seed, "chaos", 0);
    let (crash, pause) = (settings.crash_every_ms, settings.pause_every_ms);
    loop {
        let every = [crash, pause].into_iter().filter(|every| *every > 0).min();
        let Some(every) = every else { return };
        cluster.world.sleep(dice.between(every / 2, 2 * every)).await;
        if cluster.is_healed() {
            return;
        }
        let index = dice.below(cluster.size() as u64) as usize;
        let crashes = pause == 0 || (crash > 0 && dice.chance(600));
        let down_ms = dice.weighted(&[(5, 500), (2, 4_000), (1, 15_000)]);
        let down_ms = dice.between(1, down_ms);
        if !cluster.is_up(index) {
            continue;
        }
        if crashes {
            cluster.wait_for_flight(index, &mut dice).await;
            if cluster.is_healed() {
                return;
            }
            cluster.remark(index, "crashes");
            cluster.count("node_crash", 1);
            cluster.crash(index);
        } else {
            cluster.remark(index, "stands still");
            cluster.count("node_pause", 1);
            cluster.pause(index);
        }
        let back = cluster.clone();
        let delay = cluster.world.sleep(down_ms);
        let task = async move {
            delay.await;
            // Healing has brought it back already.
            if back.is_healed() {
                return;
            }
            if crashes { back.start(index) } else { back.resume(index) }
        };
        cluster.world.spawn(NETWORK, Box::pin(task));
    }
}

/// Leaves one partition at a time without answer until the faults end.
pub async fn outages(cluster: Arc<Cluster>, settings: Settings) {
    let mut dice = Dice::new(settings.seed, "outages", 0);
    let every = settings.outage_every_ms;
    if every == 0 {
        return;
    }
    loop {
        cluster.world.sleep(dice.between(every / 2, 2 * every)).await;
        if cluster.is_healed() {
            return;
        }
        cluster.count("outage", 1);
        cluster.set_outage(Some(PartitionId(dice.below(settings.partitions.into()) as u16)));
        let most_ms = dice.weighted(&[(1, 10_000), (2, 60_000)]);
        cluster.world.sleep(dice.between(most_ms / 2, most_ms)).await;
        cluster.set_outage(None);
        cluster.shaken_ms.store(cluster.world.now_ms(), Ordering::Relaxed);
    }
}

/// Lets partitions go back in time until the faults end, by 1 to 500 commits: often while another is in flight, now and
/// then to one state twice.
pub async fn losses(cluster: Arc<Cluster>, settings: Settings) {
    let mut dice = Dice::new(settings.seed, "losses", 0);
    let every = settings.loss_every_ms;
    if every == 0 {
        return;
    }
    loop {
        cluster.world.sleep(dice.between(every / 2, 2 * every)).await;
        let partition = PartitionId(dice.below(settings.partitions.into()) as u16);
        let saved = cluster.save(partition);
        let mut lost = false;
        for _ in 0..dice.weighted(&[(4, 1), (1, 2)]) {
            let most = dice.weighted(&[(3, 1), (3, 10), (2, 100), (1, LOSS_MAX)]);
            let (size, in_flight) = (dice.between(1, most), dice.chance(500));
            cluster.wait_for_commits(&saved, size, in_flight, &mut dice).await;
            if cluster.is_healed() {
                return;
            }
            let again = cluster.go_back(&saved);
            if lost && again {
                cluster.judge.lock().sometimes("loss twice");
            }
            lost |= again;
        }
    }
}
