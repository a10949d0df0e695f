//! When a node says that it takes no work.

use crate::kit::memory;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weft_core::Time;
use weft_engine::runtime::BoxFuture;
use weft_engine::{Config, Engine, Runtime, TokioRuntime};

/// A world whose time of day can be set, and whose tasks can be ended one by one, in the order of their start.
struct World {
    inner: TokioRuntime,
    wall: AtomicU64,
    tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Runtime for World {
    fn clock(&self) -> Time {
        self.inner.clock()
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
        let world = Arc::new(World {
            inner: TokioRuntime::current(),
            wall: AtomicU64::new(Self::STORE),
            tasks: Mutex::default(),
        });
        let engine = Engine::open_on(Arc::new(memory(2)), Config::default(), world.clone()).await.expect("it opens");
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
