//! A clock that stands still until a test moves it, for engine and store alike. It leaves tokio's alone: a paused one would
//! run ahead whenever a real server is waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};
use weft_core::Time;
use weft_engine::runtime::BoxFuture;
use weft_engine::{Runtime, TokioRuntime};

#[derive(Clone)]
pub struct Hand(Arc<State>);

struct State {
    tokio: TokioRuntime,
    dial: Mutex<Dial>,
    calls: Calls,
}

/// Calls to the stores of all nodes on this clock that have not been answered.
#[derive(Default)]
pub struct Calls {
    under_way: AtomicUsize,
    /// The last of them was answered.
    answered: Notify,
}

impl Calls {
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(self)
    }

    /// Waits until nothing is under way, and nobody makes more of the answers.
    pub async fn settle(&self) {
        loop {
            // Tasks share one thread: after as many turns, whoever had an answer has asked the next question.
            for _ in 0..32 {
                tokio::task::yield_now().await;
            }
            let answered = self.answered.notified();
            if self.under_way.load(Ordering::SeqCst) == 0 {
                return;
            }
            answered.await;
        }
    }
}

/// A call that ends when this is dropped, answered or not.
pub struct UnderWay<'a>(&'a Calls);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.answered.notify_waiters();
        }
    }
}

struct Dial {
    now: Time,
    sleepers: Vec<(Time, oneshot::Sender<()>)>,
}

impl Hand {
    pub fn new() -> Self {
        let dial = Dial { now: Time::from_ms(1_000_000), sleepers: Vec::new() };
        Self(Arc::new(State { tokio: TokioRuntime::current(), dial: Mutex::new(dial), calls: Calls::default() }))
    }

    pub fn calls(&self) -> &Calls {
        &self.0.calls
    }

    pub fn now(&self) -> Time {
        self.0.dial.lock().unwrap().now
    }

    /// Moves the clock and wakes those whose time has come.
    pub fn pass(&self, ms: u64) {
        let mut dial = self.0.dial.lock().unwrap();
        dial.now = dial.now + ms;
        let now = dial.now;
        let (woken, asleep) = dial.sleepers.drain(..).partition(|(at, _)| *at <= now);
        dial.sleepers = asleep;
        dial.sleepers.retain(|(_, sleeper)| !sleeper.is_closed());
        for (_, sleeper) in woken {
            let _ = sleeper.send(());
        }
    }
}

impl Runtime for Hand {
    fn clock(&self) -> Time {
        self.now()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        let (hand, at) = (self.clone(), self.now() + ms);
        Box::pin(async move {
            let woken = {
                let mut dial = hand.0.dial.lock().unwrap();
                if dial.now >= at {
                    return;
                }
                let (sleeper, woken) = oneshot::channel();
                dial.sleepers.push((at, sleeper));
                woken
            };
            let _ = woken.await;
        })
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.tokio.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.tokio.random()
    }
}
