//! Several nodes on one store.

use crate::kit::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use weft_core::change::{Batch, Change, Write};
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::{PartitionId, Time};
use weft_engine::runtime::BoxFuture;
use weft_engine::worker::Registration;
use weft_engine::{Claim, Client, Completion, Config, Engine, Renewal, Runtime, Submission, TokioRuntime, registry};
use weft_store::faulty::Faults;
use weft_store::{Full, MemoryStore, Outcome, Store};

/// A node that can be ended without a word.
pub struct Node {
    pub engine: Engine,
    pub client: Client,
    runtime: Arc<Mortal>,
}

impl Node {
    pub async fn start(store: &MemoryStore, name: &str) -> Node {
        let runtime = Arc::new(Mortal { inner: TokioRuntime::current(), tasks: Mutex::default() });
        let config = Config { node: name.into(), ..Config::default() };
        let handle = store.node_handle();
        let engine = Engine::open_on(Arc::new(handle), config, runtime.clone()).await.expect("the store opens");
        let client = engine.client("shop").expect("a good name");
        Node { engine, client, runtime }
    }

    /// As kill -9 would.
    pub fn kill(&self) {
        for task in self.runtime.tasks.lock().expect("no task panics here").drain(..) {
            task.abort();
        }
    }
}

struct Mortal {
    inner: TokioRuntime,
    tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Runtime for Mortal {
    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        self.inner.sleep(ms)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.tasks.lock().expect("no task panics here").push(tokio::spawn(task).abort_handle());
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

async fn within<T>(ms: u64, what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_millis(ms), future).await.unwrap_or_else(|_| panic!("{what} within {ms} ms"))
}

#[tokio::test(start_paused = true)]
async fn work_of_one_node_reaches_a_worker_that_waits_on_another() {
    for partitions in [1, 16] {
        let store = memory(partitions).shared();
        let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
        let worker_of_b = b.client.clone();
        let waiting = tokio::spawn(async move { worker_of_b.claim(worker().wait_ms(60_000)).await });
        pass(20).await;
        let id = a.client.submit(Submission::new("mail")).await.unwrap().id;
        let reply = within(200, "the hand-off", waiting).await.unwrap().unwrap();
        assert_eq!(reply.executions[0].id, id);
        b.client.complete(Completion::of(&reply.executions[0])).await.unwrap();
        let view = a.client.get(id).await.unwrap();
        assert_eq!(view.public_state, PublicState::Completed, "what one node did the other shows");
    }
}

#[tokio::test(start_paused = true)]
async fn ri_16_without_a_ring_a_waiting_worker_is_late_by_one_recheck_at_most() {
    let store = memory(8).shared();
    let silent = Arc::new(Deaf::new(store.node_handle()));
    let engine = Engine::open_on(silent, Config::default(), Arc::new(TokioRuntime::current())).await.unwrap();
    let client = engine.client("shop").unwrap();
    let waiting = tokio::spawn(async move { client.claim(worker().wait_ms(60_000)).await });
    pass(20).await;
    let other = Node::start(&store, "other").await;
    let id = other.client.submit(Submission::new("mail")).await.unwrap().id;
    let reply = within(6_000, "the recheck", waiting).await.unwrap().unwrap();
    assert_eq!(reply.executions[0].id, id);
}

/// A store that never rings, and treats commits as a test wants.
struct Deaf(MemoryStore, watch::Sender<Commits>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Commits {
    Applied,
    /// There is no room for any.
    Full,
    /// Deletes of steps are answered as a conflict.
    DeletesConflict,
    /// Deletes of steps wait until this changes.
    DeletesWait,
}

impl Deaf {
    fn new(store: MemoryStore) -> Self {
        Deaf(store, watch::Sender::new(Commits::Applied))
    }
}

impl Store for Deaf {
    async fn read(
        &self,
        partition: PartitionId,
        keys: Vec<(Key, weft_core::schema::PartMask)>,
    ) -> Result<weft_store::Read, weft_store::Error> {
        self.0.read(partition, keys).await
    }

    async fn scan(
        &self,
        partition: Option<PartitionId>,
        scan: weft_store::Scan,
    ) -> Result<Vec<weft_store::Page>, weft_store::Error> {
        self.0.scan(partition, scan).await
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let of_step = |write: &Write| matches!((&write.key, &write.what), (Key::Step(..), Change::Delete { .. }));
        let (deletes, mode) = (batch.writes.iter().any(of_step), *self.1.borrow());
        match mode {
            Commits::Full => {
                let source = Arc::new(Full("no room".to_string()));
                return Outcome::NotApplied { retry_after_ms: 1_000, source };
            }
            Commits::DeletesConflict if deletes => {
                return Outcome::Conflict { keys: Vec::new(), head: batch.expect };
            }
            Commits::DeletesWait if deletes => {
                self.1.subscribe().wait_for(|mode| *mode != Commits::DeletesWait).await.expect("the store has it");
            }
            _ => {}
        }
        self.0.commit(partition, batch).await
    }

    async fn resolve(
        &self,
        partition: PartitionId,
        id: weft_core::CommitId,
    ) -> Result<weft_store::Resolution, weft_store::Error> {
        self.0.resolve(partition, id).await
    }

    fn watch(&self) -> weft_store::Wakes {
        tokio::sync::mpsc::unbounded_channel().1
    }

    async fn now(&self) -> Result<Time, weft_store::Error> {
        self.0.now().await
    }

    fn describe(&self) -> weft_store::Description {
        self.0.describe()
    }
}

/// Partitions that nodes share by chance: so many that none of two nodes ever gets nothing.
const SHARED: u16 = 64;

#[tokio::test(start_paused = true)]
async fn sr_50_a_node_that_comes_or_goes_is_known_to_the_others_at_once() {
    let store = memory(SHARED).shared();
    let a = Node::start(&store, "a").await;
    let claimed = async |name: &str| {
        let nodes = registry::nodes(&store).await.unwrap();
        nodes.iter().find(|node| &*node.body.name == name).unwrap().body.claimed.len()
    };
    assert_eq!(claimed("a").await, usize::from(SHARED));
    let b = Node::start(&store, "b").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let shared = (claimed("a").await, claimed("b").await);
    assert!(shared.0 + shared.1 == usize::from(SHARED) && shared.1 > 0, "long before the next heartbeat: {shared:?}");
    b.engine.shutdown().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(claimed("a").await, usize::from(SHARED));
    a.engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sr_50_nodes_share_the_partitions_and_take_over_those_of_a_dead_one() {
    let store = memory(SHARED).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    tokio::time::sleep(Duration::from_millis(7_000)).await;
    let shares = |nodes: &[weft_core::record::Node]| -> Vec<usize> {
        let mut all: Vec<u16> = nodes.iter().flat_map(|node| node.body.claimed.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..SHARED).collect::<Vec<u16>>(), "each partition has one node: {nodes:?}");
        nodes.iter().map(|node| node.body.claimed.len()).collect()
    };
    let nodes = registry::nodes(&store).await.unwrap();
    assert!(shares(&nodes).iter().all(|share| *share > 0));

    // A timer of a partition that the dead node looked after fires within its time to live and an interval.
    let mut delayed = Vec::new();
    for _ in 0..32 {
        delayed.push(a.client.submit(Submission::new("mail").delay_ms(15_000)).await.unwrap().id);
    }
    a.kill();
    tokio::time::sleep(Duration::from_millis(17_000)).await;
    let reply = b.client.claim(worker().max(100)).await.unwrap();
    assert_eq!(reply.executions.len(), delayed.len(), "they are ready although their node is gone");
    let nodes = registry::nodes(&store).await.unwrap();
    let live: Vec<_> = nodes.into_iter().filter(|node| node.is_live(b.engine.now())).collect();
    assert_eq!(shares(&live), [usize::from(SHARED)], "the other has taken over all of them");
}

#[tokio::test(start_paused = true)]
async fn ops_25_a_node_that_leaves_says_so_and_its_leases_stay_good_elsewhere() {
    let store = memory(4).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    let id = a.client.submit(Submission::new("mail")).await.unwrap().id;
    let work = a.client.claim(worker()).await.unwrap().executions.remove(0);
    a.engine.shutdown().await;
    let left: Vec<_> = registry::nodes(&store).await.unwrap().into_iter().filter(|node| node.body.left).collect();
    assert_eq!(left.iter().map(|node| node.body.name.as_ref()).collect::<Vec<_>>(), ["a"]);
    b.client.renew(Renewal::of(&work)).await.unwrap();
    b.client.complete(Completion::of(&work)).await.unwrap();
    assert_eq!(b.client.get(id).await.unwrap().public_state, PublicState::Completed);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_fight_over_one_lane_lease_everything_once() {
    let store = memory(1).shared();
    let nodes = [Node::start(&store, "a").await, Node::start(&store, "b").await];
    for number in 0..200 {
        nodes[number % 2].client.submit(Submission::new("mail")).await.unwrap();
    }
    let take = |client: Client| async move {
        let mut taken = Vec::new();
        loop {
            let reply = client.claim(worker().max(7)).await.unwrap();
            if reply.executions.is_empty() {
                return taken;
            }
            for work in reply.executions {
                client.complete(Completion::of(&work)).await.unwrap();
                taken.push(work.id);
            }
        }
    };
    let (first, second) =
        tokio::join!(tokio::spawn(take(nodes[0].client.clone())), tokio::spawn(take(nodes[1].client.clone())));
    let mut all: Vec<_> = first.unwrap().into_iter().chain(second.unwrap()).collect();
    assert_eq!(all.len(), 200, "nothing is left");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200, "nothing was leased twice");
}

#[tokio::test(start_paused = true)]
async fn sr_57_an_idle_node_of_a_shared_store_makes_at_most_three_calls_a_second() {
    let store = memory(64).shared();
    let node = Node::start(&store, "a").await;
    let _other = Node::start(&store, "b").await;
    let client = node.client.clone();
    let _waiting = tokio::spawn(async move { client.claim(worker().wait_ms(600_000)).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = node.engine.stats();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = node.engine.stats().since(before);
    assert!(calls.store_calls() <= 180, "{calls:?}");
    assert!(calls.commits <= 21, "only the heartbeat is written: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_does_not_make_waiting_claims_forget_where_work_is() {
    let faults = Faults { commit_conflict: 400, ..Faults::default() };
    let (_store, _faulty, engine) = open_faulty_on(memory(4).shared(), faults, Config::default()).await;
    let client = engine.client("shop").unwrap();
    for round in 0..50 {
        let waiting = client.clone();
        let waiting = tokio::spawn(async move { waiting.claim(worker().wait_ms(60_000)).await });
        pass(10).await;
        let id = client.submit(Submission::new("mail")).await.unwrap().id;
        let reply = within(1_000, &format!("the claim of round {round}"), waiting).await.unwrap().unwrap();
        assert_eq!(reply.executions[0].id, id);
        client.complete(Completion::of(&reply.executions[0])).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_another_node_is_found_to_its_end_without_waiting_for_a_recheck() {
    let store = memory(16).shared();
    let a = Node::start(&store, "a").await;
    for _ in 0..16 {
        // More than one look shows, in every partition.
        a.client.submit_batch((0..256).map(|_| Submission::new("mail")).collect()).await;
    }
    a.kill();
    let b = Node::start(&store, "b").await;
    let began = tokio::time::Instant::now();
    let mut left = 16 * 256;
    while left > 0 {
        let reply = within(1_000, "the next part of it", b.client.claim(worker().max(64).wait_ms(60_000))).await;
        let reply = reply.unwrap();
        left -= reply.executions.len();
        for answer in b.client.complete_batch(reply.executions.iter().map(Completion::of).collect()).await {
            answer.unwrap();
        }
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn api_54_any_node_is_asked_to_drain_another_which_hears_it_at_once() {
    let store = memory(8).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    let asked = a.client.drain_node("b", "new kernel", None).await.unwrap();
    let wish = within(200, "the wish", b.engine.drain_wanted()).await;
    assert_eq!((&*wish.by, &*wish.reason), ("embedded", "new kernel"));
    let id = format!("n_{}", asked.value);
    assert_eq!(a.client.drain_node(&id, "again", None).await.unwrap().value, asked.value, "a repeat is a success");
    assert_eq!(b.engine.drain_wanted().await, wish, "who asked first is told");
    let own = tokio::time::timeout(Duration::from_secs(10), a.engine.drain_wanted());
    assert!(own.await.is_err(), "nobody else is meant");
    b.engine.shutdown().await;
    assert_eq!(a.client.drain_node("b", "", None).await.unwrap_err().code(), "not_found", "it has left");

    let again = Node::start(&store, "b").await;
    let own = tokio::time::timeout(Duration::from_secs(10), again.engine.drain_wanted());
    assert!(own.await.is_err(), "one that starts again is another node");
    let own = again.client.drain_node("b", "", None).await.unwrap();
    assert_ne!(own.value, asked.value);
    within(1, "its own wish", again.engine.drain_wanted()).await;
}

#[tokio::test(start_paused = true)]
async fn api_54_without_a_ring_a_node_hears_the_wish_with_its_next_heartbeat() {
    let store = memory(8).shared();
    let deaf = Arc::new(Deaf::new(store.node_handle()));
    let config = Config { node: "deaf".into(), ..Config::default() };
    let engine = Engine::open_on(deaf, config, Arc::new(TokioRuntime::current())).await.unwrap();
    let a = Node::start(&store, "a").await;
    a.client.drain_node("deaf", "", None).await.unwrap();
    within(weft_core::limits::NODE_HEARTBEAT_MS + 100, "the wish", engine.drain_wanted()).await;
}

#[tokio::test(start_paused = true)]
async fn api_54_a_node_is_named_so_that_one_is_meant() {
    let store = memory(8).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "a").await);
    let several = a.client.drain_node("a", "", None).await.unwrap_err();
    assert_eq!(several.code(), "invalid_argument");
    for unknown in ["c", "n_", "n_00000000-0000-0000-0000-000000000000", ""] {
        assert_eq!(a.client.drain_node(unknown, "", None).await.unwrap_err().code(), "not_found", "{unknown}");
    }
    b.kill();
    // The other one beats meanwhile.
    linger(weft_core::limits::NODE_TTL_MS).await;
    within(10_000, "the one that lives", a.client.drain_node("a", "", None)).await.unwrap();
    within(1, "the wish", a.engine.drain_wanted()).await;
}

#[tokio::test(start_paused = true)]
async fn api_54_the_only_process_of_a_store_is_drained_by_its_name_too() {
    let kit = open_with(1, Config { node: "alone".into(), ..Config::default() }).await;
    assert_eq!(kit.client.drain_node("another", "", None).await.unwrap_err().code(), "not_found");
    kit.client.drain_node("alone", "", None).await.unwrap();
    within(1, "the wish", kit.engine.drain_wanted()).await;
}

#[tokio::test(start_paused = true)]
async fn sr_51_the_share_of_a_dead_node_is_taken_over_while_a_partition_does_not_answer() {
    for dead in (0..4).map(PartitionId) {
        let store = memory(4).shared();
        let (_, faulty, a) = open_faulty_on(store.clone(), Faults::default(), Config::default()).await;
        let b = Node::start(&store, "b").await;
        linger(6_000).await;
        assert_eq!(a.partitions_claimed() + b.engine.partitions_claimed(), 4, "they share");
        faulty.set_faults(Faults { silent: Some(dead), slow_ms: (500, 500), ..Faults::default() });
        b.kill();
        linger(30_000).await;
        assert_eq!(a.partitions_claimed(), 4, "{dead} hides no node");
    }
}

#[tokio::test(start_paused = true)]
async fn sr_50_nodes_live_on_while_each_call_of_one_partition_hangs_for_ten_seconds() {
    let store = memory(4).shared();
    let open = || open_faulty_on(store.node_handle(), Faults::default(), Config::default());
    let ((_, faulty_a, a), (_, faulty_b, b)) = (open().await, open().await);
    linger(6_000).await;
    let homes: Vec<PartitionId> = registry::nodes(&store).await.unwrap().iter().map(|node| node.partition).collect();
    let silent =
        (0..4).map(PartitionId).find(|partition| !homes.contains(partition)).expect("two nodes have two homes");
    for faulty in [&faulty_a, &faulty_b] {
        faulty.set_faults(Faults { silent: Some(silent), slow_ms: (10_000, 10_000), ..Faults::default() });
    }
    for second in 1..=90 {
        linger(1_000).await;
        let nodes = registry::nodes(&store).await.unwrap();
        assert!(nodes.iter().all(|node| node.is_live(a.now())), "after {second} s: {nodes:?}");
        assert_eq!(a.partitions_claimed() + b.partitions_claimed(), 4, "after {second} s");
    }
}

#[tokio::test(start_paused = true)]
async fn s3_a_claim_at_a_node_that_does_not_know_its_process_takes_what_it_registered_for() {
    let store = memory(4).shared();
    let one = Node::start(&store, "one").await;
    // Has looked at the registry before the process registers, and hears nothing of it.
    let deaf = Arc::new(Deaf::new(store.node_handle()));
    let two = Engine::open_on(deaf, Config::default(), Arc::new(TokioRuntime::current())).await.expect("it opens");
    let two = two.client("shop").expect("a good name");
    two.claim(Claim::new("other", "other-1")).await.unwrap();
    for submission in [
        Submission::new("good"),
        Submission::new("bad").lane("mine"),
        Submission::new("good").lane("mine").needs("gpu"),
    ] {
        one.client.submit(submission).await.unwrap();
    }
    let registration = Registration::new("mailer", "mailer-1", "a").lane("mine").kind("good").offers("gpu");
    one.client.register(registration).await.unwrap();
    let taken = two.claim(worker().max(10)).await.unwrap().executions;
    let taken: Vec<_> = taken.iter().map(|work| (&*work.lane, &*work.kind)).collect();
    assert_eq!(taken, [("mine", "good")]);
}

#[tokio::test(start_paused = true)]
async fn rl_77_what_is_written_to_find_out_whether_there_is_room_does_not_stay() {
    for mode in [Commits::DeletesConflict, Commits::DeletesWait] {
        let store = memory(1);
        let deaf = Arc::new(Deaf::new(store.clone()));
        let runtime = Arc::new(TokioRuntime::current());
        // The clock of the memory store is nowhere near the time of day.
        let config = Config { clock_skew_max_ms: u64::MAX, ..Config::default() };
        let engine = Engine::open_on(deaf.clone(), config, runtime).await.expect("it opens");
        let client = engine.client("shop").expect("a good name");
        deaf.1.send_replace(Commits::Full);
        client.submit(Submission::new("mail")).await.unwrap_err();
        assert_eq!(engine.not_ready().await, Some("store_full"));
        deaf.1.send_replace(mode);
        let first = engine.not_ready().await;
        assert_eq!(first, (mode == Commits::DeletesWait).then_some("store_slow"), "its time is up");
        let is_left = || kept(&store).iter().any(|key| matches!(key, Key::Step(..)));
        assert!(is_left(), "it was written");
        deaf.1.send_replace(Commits::Applied);
        linger(10_000).await;
        assert!(!is_left(), "although nobody looks again");
        assert_eq!(engine.not_ready().await, None);
    }
}
