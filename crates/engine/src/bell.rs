//! A bell that many tasks may wait for. It wakes them in the order in which they began to wait, so that the same calls
//! always meet in the same order; tokio's `watch` spreads its waiters by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Whoever rings. Dropping it ends every wait.
pub(crate) struct Bell(Arc<Tower>);

#[derive(Default)]
struct Tower {
    rings: AtomicU64,
    silent: AtomicBool,
    waiting: Notify,
}

impl Bell {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Wakes everybody who listens.
    pub fn ring(&self) {
        self.0.rings.fetch_add(1, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    /// Hears every ring from now on.
    pub fn listen(&self) -> Listener {
        Listener { heard: self.0.rings.load(Ordering::Acquire), tower: self.0.clone() }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.silent.store(true, Ordering::Release);
        self.0.waiting.notify_waiters();
    }
}

/// Whoever waits for a ring.
pub(crate) struct Listener {
    tower: Arc<Tower>,
    heard: u64,
}

impl Listener {
    /// Resolves once the bell has rung since the last time, however often. False if it will ring no more.
    pub async fn rung(&mut self) -> bool {
        loop {
            // Waited for before the look, so that a ring between the two is not missed.
            let waiting = self.tower.waiting.notified();
            let rings = self.tower.rings.load(Ordering::Acquire);
            if rings != self.heard {
                self.heard = rings;
                return true;
            }
            if self.tower.silent.load(Ordering::Acquire) {
                return false;
            }
            waiting.await;
        }
    }

    /// What has rung so far counts as heard.
    pub fn forget(&mut self) {
        self.heard = self.tower.rings.load(Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Wake};

    /// Writes down who was woken.
    struct Note(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn ri_18_those_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (bell, woken) = (Bell::new(), Arc::default());
        let mut listeners: Vec<Listener> = (0..20).map(|_| bell.listen()).collect();
        let mut waits: Vec<_> = listeners.iter_mut().map(|listener| Box::pin(listener.rung())).collect();
        for (number, wait) in waits.iter_mut().enumerate() {
            let waker = Arc::new(Note(number as u32, Arc::clone(&woken))).into();
            assert!(pin!(wait).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        bell.ring();
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<u32>>());
    }

    #[test]
    fn a_ring_is_heard_once_and_never_missed() {
        let bell = Bell::new();
        let mut listener = bell.listen();
        bell.ring();
        bell.ring();
        assert_eq!(listener.rung().now_or_never(), Some(true));
        assert_eq!(listener.rung().now_or_never(), None);
        bell.ring();
        listener.forget();
        assert_eq!(listener.rung().now_or_never(), None);
        drop(bell);
        assert_eq!(listener.rung().now_or_never(), Some(false));
    }
}
