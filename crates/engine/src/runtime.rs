//! What the engine needs of the world: a clock, sleep, tasks, entropy. They come in as a value, so that the simulator
//! runs the very same engine on virtual time.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_core::Time;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The world of one node.
pub trait Runtime: Send + Sync + 'static {
    /// The node's own steady clock: it never goes back and never jumps. It may be off by any amount and run a little
    /// fast or slow, because the engine keeps measuring its offset to the store's clock.
    fn clock(&self) -> Time;

    /// The same clock in microseconds, as finely as it goes: to measure with, never to decide by.
    fn clock_us(&self) -> u64 {
        self.clock().ms().saturating_mul(1_000)
    }

    /// What this machine takes for the time of day, which others may set: only ever compared with the store's clock.
    fn wall(&self) -> Time {
        self.clock()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()>;

    /// Runs a task until it ends or the node does.
    fn spawn(&self, task: BoxFuture<()>);

    /// Fresh entropy for ids and jitter.
    fn random(&self) -> u64;
}

/// Production: tokio's timer and tasks, entropy of the operating system, and a clock that begins at the system's time and
/// goes on steadily, whatever is done to the system's clock afterwards.
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    began_at: Time,
    began: tokio::time::Instant,
}

impl TokioRuntime {
    /// Takes the runtime that the caller runs on.
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    pub fn current() -> Self {
        Self { handle: tokio::runtime::Handle::current(), began_at: time_of_day(), began: tokio::time::Instant::now() }
    }
}

fn time_of_day() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(since.as_millis() as u64)
}

impl Runtime for TokioRuntime {
    fn clock(&self) -> Time {
        self.began_at + self.began.elapsed().as_millis() as u64
    }

    fn clock_us(&self) -> u64 {
        self.began_at.ms() * 1_000 + self.began.elapsed().as_micros() as u64
    }

    fn wall(&self) -> Time {
        time_of_day()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(std::time::Duration::from_millis(ms)))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.handle.spawn(task);
    }

    fn random(&self) -> u64 {
        thread_local! {
            static SOURCE: RefCell<ChaCha8Rng> = RefCell::new(seeded());
        }
        SOURCE.with_borrow_mut(Rng::next_u64)
    }
}

/// A stream of its own for each thread, begun by the operating system: asking it for every id costs a call into the kernel.
fn seeded() -> ChaCha8Rng {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("runtime: the operating system gives entropy");
    ChaCha8Rng::from_seed(seed)
}

/// Waits for `future` at most `ms`; `None` if the time ran out first.
pub(crate) async fn timeout<F: Future>(runtime: &dyn Runtime, ms: u64, future: F) -> Option<F::Output> {
    let sleep = runtime.sleep(ms);
    futures_util::pin_mut!(future);
    match futures_util::future::select(future, sleep).await {
        futures_util::future::Either::Left((output, _)) => Some(output),
        futures_util::future::Either::Right(_) => None,
    }
}
