//! Notices worker processes that are silent, ends drains at their deadline, removes records that were kept long enough,
//! and ends the leases of processes that are dead, superseded or gone until none is left.

use super::ScanContext;
use crate::worker::leases::{self, Looked, Silent};
use crate::worker::roster;
use weft_core::Rejection;
use weft_core::record::Key;

// The timers in this order: a process whose leases become due by its own timer is looked at before anything is put off.
crate::scanner::due_scanner!(
    /// Finds worker processes that something is due of.
    WorkerReaper, "worker_reaper", 15_000, 100, [WorkerLeases, Worker]
);

/// Ends the leases that the process owes, if its record says that this is due. `None` if it does not, or if the record
/// cannot be read: the command that follows finds out why. Partitions in `silent` are not asked; those that do not answer
/// are added to it.
pub(super) async fn settle(cx: &ScanContext, key: Key, silent: &mut Silent) -> Result<Option<Looked>, Rejection> {
    let Ok(Some(worker)) = roster::read_key(&cx.shared, key).await else { return Ok(None) };
    if worker.body.look_at.is_none_or(|at| at > cx.shared.now()) {
        return Ok(None);
    }
    leases::settle(&cx.shared, &worker, silent).await.map(Some)
}
