//! The place of one claim call, which may wait in several partitions at once: only one of them serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const CLOSED: u8 = 2;
/// Taken, but the caller has gone meanwhile.
const LEFT: u8 = 3;

pub struct Seat(AtomicU8);

impl Seat {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(WAITING)))
    }

    /// A partition begins to serve it; false if another does, or the caller has gone.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The partition had nothing after all, or its commit did not happen.
    pub fn release(&self) {
        if self.0.compare_exchange(TAKEN, WAITING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            let _ = self.0.compare_exchange(LEFT, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// The caller has gone: nothing more is taken for it, not even after a commit that did not happen.
    pub fn leave(&self) {
        if !self.close() {
            let _ = self.0.compare_exchange(TAKEN, LEFT, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// The caller stops waiting; false if a partition is serving it, whose answer is then awaited.
    pub fn close(&self) -> bool {
        self.0.compare_exchange(WAITING, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It has been served.
    pub fn finish(&self) {
        self.0.store(CLOSED, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) == CLOSED
    }
}
