//! When a node says that it takes no work.

use crate::kit::memory;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{ExecutionId, PartitionId, Time};
use weft_engine::runtime::BoxFuture;
use weft_engine::{Config, Engine, Runtime, Submission, TokioRuntime};
use weft_store::Store;
use weft_store_sqlite::SqliteStore;

/// A world whose time of day can be set, and whose tasks can be ended one by one, in the order of their start.
struct World {
    inner: TokioRuntime,
    wall: AtomicU64,
    /// Time that the test has let go by.
    passed_ms: AtomicU64,
    tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Runtime for World {
    fn clock(&self) -> Time {
        self.inner.clock() + self.passed_ms.load(Ordering::Relaxed)
    }

    fn wall(&self) -> Time {
        Time::from_ms(self.wall.load(Ordering::Relaxed))
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

impl World {
    /// What the clock of the memory store shows at the beginning.
    const STORE: u64 = 1_000_000;

    async fn open() -> (Arc<World>, Engine) {
        Self::open_on(Arc::new(memory(2))).await
    }

    async fn open_on(store: Arc<impl Store>) -> (Arc<World>, Engine) {
        let world = Arc::new(World {
            inner: TokioRuntime::current(),
            wall: AtomicU64::new(Self::STORE),
            passed_ms: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        let engine = Engine::open_on(store, Config::default(), world.clone()).await.expect("it opens");
        (world, engine)
    }

    async fn end(&self, task: usize) {
        self.tasks.lock().expect("no task panics here")[task].abort();
        // An aborted task is dropped when it has its turn.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ops_15_a_node_whose_clock_is_too_far_from_the_stores_is_not_ready() {
    let (world, engine) = World::open().await;
    assert_eq!(engine.not_ready().await, None);
    world.wall.store(World::STORE + 2_500, Ordering::Relaxed);
    assert_eq!(engine.not_ready().await, Some("clock_skewed"));
    world.wall.store(World::STORE - 2_500, Ordering::Relaxed);
    assert_eq!(engine.not_ready().await, Some("clock_skewed"));
    world.wall.store(World::STORE + 1_500, Ordering::Relaxed);
    assert_eq!(engine.not_ready().await, None, "it is ready again as soon as the clock is right");
}

#[tokio::test(start_paused = true)]
async fn ops_15_a_node_whose_partition_loop_has_ended_is_not_ready() {
    let (world, engine) = World::open().await;
    assert_eq!(engine.not_ready().await, None);
    world.end(1).await;
    assert_eq!(engine.not_ready().await, Some("partition_ended"));
}

#[tokio::test(start_paused = true)]
async fn ops_15_a_node_whose_scanners_have_ended_is_not_ready() {
    let (world, engine) = World::open().await;
    assert_eq!(engine.not_ready().await, None);
    // The loops of both partitions begin first, and go on.
    let tasks = world.tasks.lock().expect("no task panics here").len();
    for task in 2..tasks {
        world.end(task).await;
    }
    assert_eq!(engine.not_ready().await, Some("scanners_ended"));
}

#[tokio::test]
async fn rl_77_a_node_whose_store_is_full_is_not_ready_until_as_much_fits_as_was_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weft.db");
    let options = weft_store_sqlite::Options { bytes_max: Some(2 << 20), ..weft_store_sqlite::Options::new(path) };
    let store = Arc::new(SqliteStore::open(options).expect("it opens"));
    let (world, engine) = World::open_on(store.clone()).await;
    let client = engine.client("shop").expect("a good name");
    let heavy = || client.submit(Submission::new("mail").input(vec![1; 100_000]));
    let mut made = 0;
    while heavy().await.is_ok() {
        made += 1;
        assert!(made < 100, "the file grew past its limit");
    }
    for _ in 0..3 {
        client.submit(Submission::new("mail")).await.expect("a little fits all the while");
        world.passed_ms.fetch_add(6_000, Ordering::Relaxed);
        assert_eq!(engine.not_ready().await, Some("store_full"));
    }
    store.set_bytes_max(64 << 20).await.expect("it is set");
    let mut why = Some("not looked at");
    for _ in 0..20 {
        world.wall.store(store.now().await.expect("it answers").ms(), Ordering::Relaxed);
        why = engine.not_ready().await;
        // A disk that is slow for a moment is not full.
        if why != Some("store_slow") {
            break;
        }
    }
    assert_eq!(why, None, "although nobody sends it work");
    for partition in (0..store.describe().partitions).map(PartitionId) {
        let probe = Key::Step(ExecutionId::new(partition, uuid::Uuid::nil()), 0);
        let found = async || store.read(partition, vec![(probe, PartMask::NONE)]).await.expect("it answers").found;
        let began = Instant::now();
        while found().await != [None] {
            assert!(began.elapsed() < Duration::from_secs(60), "what was written to find out goes");
        }
    }
    heavy().await.expect("as much fits again");
}
