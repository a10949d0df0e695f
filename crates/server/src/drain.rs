//! Stopping without losing an answer: calls that are new or have not arrived whole are refused, those that are on their way
//! end, those that wait are let go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use weft_api::{Code, Problem};

#[derive(Default)]
pub struct Drain {
    begun: AtomicBool,
    begin: Notify,
    in_flight: AtomicUsize,
    none_left: Notify,
}

/// One call that is being answered. It is not counted while its body arrives.
pub struct InFlight<'a>(&'a Drain);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}

impl Drain {
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.begin.notify_waiters();
    }

    /// Resolves when the server begins to stop.
    pub async fn begun(&self) {
        let notified = self.begin.notified();
        if !self.has_begun() {
            notified.await;
        }
    }

    /// Counts a call, unless the server is stopping.
    pub fn enter(&self) -> Result<InFlight<'_>, Problem> {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        let entered = InFlight(self);
        if self.has_begun() { Err(stopping()) } else { Ok(entered) }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Waits until every call has been answered; false if that took too long.
    pub async fn wait(&self, max: Duration) -> bool {
        let all = async {
            loop {
                let notified = self.none_left.notified();
                if self.in_flight() == 0 {
                    return;
                }
                notified.await;
            }
        };
        tokio::time::timeout(max, all).await.is_ok()
    }
}

pub fn stopping() -> Problem {
    Problem::new(Code::Draining, "this node is stopping; nothing was changed")
        .retry_after(1_000)
        .hint("repeat the call; another node, or this one after its restart, answers it")
}
