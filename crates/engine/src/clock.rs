//! Store time on this node: the node's own steady clock plus the measured offset.

use crate::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use weft_core::Time;
use weft_core::planted::{self, Defect};

pub struct Clock {
    runtime: Arc<dyn Runtime>,
    offset_ms: AtomicI64,
}

impl Clock {
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, offset_ms: AtomicI64::new(0) }
    }

    /// Takes a reading of the store's clock that has just arrived. It was made before now, so the result is never ahead
    /// of the store by more than this node's clock runs fast until the next reading.
    pub fn measured(&self, store: Time) {
        let offset = store.as_i64() - self.runtime.clock().as_i64();
        self.offset_ms.store(offset, Ordering::Relaxed);
    }

    pub fn now(&self) -> Time {
        let local = self.runtime.clock().as_i64();
        if planted::on(Defect::TimerEarlyBySkew) {
            return Time::from_ms(local.max(0) as u64);
        }
        Time::from_ms(local.saturating_add(self.offset_ms.load(Ordering::Relaxed)).max(0) as u64)
    }
}
