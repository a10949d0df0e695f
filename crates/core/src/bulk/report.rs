//! A share is done: the job adds up what it counted, and with a maximum gives the rest of it to the next partition.

use super::{find_job, put_job};
use crate::command::ReportBulk;
use crate::record::bulk_job::Standing;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

/// A second report of the same partition changes nothing.
pub fn report(tx: &mut Tx<'_>, cmd: &ReportBulk) -> Result<Reply, Stop> {
    let Some(mut job) = find_job(tx, cmd.job)? else { return Ok(Reply::Noted) };
    let now = tx.now();
    match job.shares.get_mut(usize::from(cmd.partition.0)) {
        None | Some(Standing::Over) => return Ok(Reply::Noted),
        Some(standing) => *standing = Standing::Over,
    }
    job.counts.add(&cmd.counts);
    let used_up = job.left() == Some(0);
    if let Some(next) = job.shares.iter().position(|standing| *standing == Standing::Ahead) {
        if used_up {
            job.shares[next..].fill(Standing::Over);
        } else {
            job.shares[next] = Standing::Owed;
            job.owed_since = now;
        }
    }
    if job.shares.iter().all(|standing| *standing == Standing::Over) {
        job.ended_at = Some(now);
        job.trouble = None;
    }
    put_job(tx, cmd.job, job);
    Ok(Reply::Noted)
}
