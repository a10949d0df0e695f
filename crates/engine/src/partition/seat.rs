//! The place of one claim call, which may wait in several partitions at once: only one of them serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const CLOSED: u8 = 2;
/// Taken, but the caller waits no longer than for this.
const LEFT: u8 = 3;

pub struct Seat(AtomicU8);

impl Seat {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(WAITING)))
    }

    /// A partition begins to serve it; false if another does, or the caller has gone.
    pub fn take(&self) -> bool {
        self.swap(WAITING, TAKEN)
    }

    /// The partition had nothing after all, or its commit did not happen. False if the caller waits no longer.
    #[must_use]
    pub fn release(&self) -> bool {
        if self.swap(TAKEN, WAITING) {
            return true;
        }
        self.swap(LEFT, CLOSED);
        false
    }

    /// The caller stops waiting: nothing more is taken for it, not even after a commit that did not happen. False if a
    /// partition is serving it, which then answers in any case.
    pub fn leave(&self) -> bool {
        loop {
            if self.swap(WAITING, CLOSED) {
                return true;
            }
            // It may have been released in between.
            if self.swap(TAKEN, LEFT) || self.0.load(Ordering::Acquire) != WAITING {
                return false;
            }
        }
    }

    fn swap(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It has been served.
    pub fn finish(&self) {
        self.0.store(CLOSED, Ordering::Release);
    }

    /// Nobody holds it, and its caller waits.
    pub fn is_free(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// Nothing more is taken for it, whatever becomes of what was.
    pub fn is_over(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), CLOSED | LEFT)
    }
}
