//! The safety net behind the cancelling of siblings: clears what a group owes if nobody is left to cancel. It cancels
//! nobody, and leaves alone what the dispatcher is at.

use super::due::Pass;
use super::{Report, ScanContext, Scanner};
use crate::config::{Filter, ScannerConfig};
use crate::runtime::BoxFuture;
use weft_core::PartitionId;
use weft_core::schema::Timer;

/// Finds members with a group that has owed cancels for longer than its interval.
pub struct EdgeCancelReconciler {
    filter: Filter,
    interval_ms: u64,
}

impl EdgeCancelReconciler {
    pub const NAME: &str = "edge_cancel_reconciler";

    pub fn of(config: &ScannerConfig) -> Self {
        Self { filter: config.filter_of(Self::NAME), interval_ms: config.interval_ms(Self::NAME, 10_000) }
    }
}

impl Scanner for EdgeCancelReconciler {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    fn batch(&self) -> usize {
        50
    }

    fn timers(&self) -> &'static [Timer] {
        &[Timer::GroupCancel]
    }

    fn age_ms(&self) -> u64 {
        self.interval_ms
    }

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
        let pass = Pass::of(self);
        Box::pin(async move { pass.run(&cx, partition).await })
    }
}
