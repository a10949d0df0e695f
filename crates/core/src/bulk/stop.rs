//! Stopping a bulk job: what is done stays done, and nothing is done any more once its partitions have heard.

use super::{find_job, put_job};
use crate::command::{Principal, StopBulk};
use crate::error::Rejection;
use crate::record::bulk_job::Standing;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

/// A job that has ended, or is stopped already, stays as it is.
pub fn stop(tx: &mut Tx<'_>, who: &Principal, cmd: &StopBulk) -> Result<Reply, Stop> {
    let job = find_job(tx, cmd.id)?.filter(|job| job.definition.namespace == who.namespace);
    let Some(mut job) = job else { return Err(Rejection::BulkNotFound.into()) };
    if job.ended_at.is_some() || job.stopped {
        return Ok(Reply::Noted);
    }
    job.stopped = true;
    job.owed_since = tx.now();
    for standing in &mut job.shares {
        *standing = match standing {
            Standing::Ahead | Standing::Over => Standing::Over,
            // One that was to be told of its share may have been told by another node: it is told of the end too.
            Standing::Owed | Standing::Told => Standing::Owed,
        };
    }
    put_job(tx, cmd.id, job);
    Ok(Reply::Noted)
}
