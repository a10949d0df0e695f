//! Notices worker processes that are silent, ends drains at their deadline, removes records that were kept long enough,
//! and ends the leases of processes that are dead, superseded or gone until none is left.

use super::due::Pass;
use super::{Report, ScanContext, Scanner};
use crate::config::{Filter, ScannerConfig};
use crate::runtime::BoxFuture;
use crate::worker::{leases, roster};
use weft_core::record::Key;
use weft_core::schema::{Timer, Value};
use weft_core::{PartitionId, Time};
use weft_store::{Range, Scan, Target};

/// Finds worker processes that something is due of.
pub struct WorkerReaper {
    filter: Filter,
    interval_ms: u64,
}

impl WorkerReaper {
    const NAME: &str = "worker_reaper";

    pub fn of(config: &ScannerConfig) -> Self {
        Self { filter: config.filter.clone(), interval_ms: config.interval_ms(Self::NAME, 15_000) }
    }
}

impl Scanner for WorkerReaper {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    fn batch(&self) -> usize {
        100
    }

    fn timers(&self) -> &'static [Timer] {
        &[Timer::Worker, Timer::WorkerLeases]
    }

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
        let (pass, batch, filter) = (Pass::of(self), self.batch(), self.filter.clone());
        Box::pin(async move {
            let looked = look(&cx, partition, batch, &filter).await;
            // What nobody could look at is put off, and entries that are no longer true go.
            let mut report = pass.run(&cx, partition).await;
            report.processed += looked.processed;
            report.errors += looked.errors;
            report.more |= looked.more;
            report
        })
    }
}

/// Looks at the leases of the processes for which that is due.
async fn look(cx: &ScanContext, partition: PartitionId, batch: usize, filter: &Filter) -> Report {
    let shared = &cx.shared;
    let mut report = Report::default();
    let range = Range {
        prefix: vec![Value::Int(Timer::WorkerLeases as i64)],
        after: None,
        until: Some(Value::Int(shared.now().as_i64())),
    };
    let scan = Scan { target: Target::Due, ranges: vec![range], limit: batch, descending: false, parts: None };
    let page = match shared.store.scan(Some(partition), scan).await {
        Ok(mut pages) => pages.pop().unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%partition, %error, "could not look for the leases of workers");
            report.errors += 1;
            return report;
        }
    };
    report.more = page.more;
    for key in page.entries.iter().filter_map(|entry| entry.key()) {
        if cx.is_stopping() {
            break;
        }
        match one(cx, key, filter).await {
            Ok(done) => report.processed += u32::from(done),
            Err(rejection) => {
                tracing::warn!(worker = ?key, %rejection, "could not look at the leases of a worker");
                report.errors += 1;
            }
        }
    }
    report
}

async fn one(cx: &ScanContext, key: Key, filter: &Filter) -> Result<bool, weft_core::Rejection> {
    let Some(worker) = roster::read_key(&cx.shared, key).await? else { return Ok(false) };
    let now: Time = cx.shared.now();
    let foreign = filter.tag.is_some() || filter.namespace.as_ref().is_some_and(|name| *name != worker.body.namespace);
    if foreign || worker.body.look_at.is_none_or(|at| at > now) {
        return Ok(false);
    }
    leases::settle(&cx.shared, &worker).await?;
    Ok(true)
}
