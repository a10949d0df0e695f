//! A bulk job, or a share of one, goes on. What the engine found is a hint: each execution is loaded and judged here, in
//! the commit that counts it.

use crate::apply;
use crate::command::{AdvanceBulk, BulkProgress, Call};
use crate::execution::expire;
use crate::id::{ExecutionId, PartitionId};
use crate::limits::{BULK_BYTES_PER_COMMIT, BULK_PER_COMMIT, BULK_RECORDS_PER_COMMIT};
use crate::record::Record;
use crate::record::bulk_job::{Body, Definition, Job, Place, Share, Stage, Standing};
use crate::reply::{Expired, Reply};
use crate::schema::{Due, PartMask, Timer, execution as schema};
use crate::tx::{Stop, Tx};

/// Takes it further if it is due and still where it was seen. If it is not, whoever took it further goes on with it; to
/// look again is all there is to do.
pub fn advance(tx: &mut Tx<'_>, cmd: &AdvanceBulk) -> Result<Reply, Stop> {
    let key = cmd.key.expect("advance_bulk: the engine names the record");
    let armed = expire::armed(tx, key, Due { timer: Timer::Bulk, at: cmd.due })?;
    let Some(Record::BulkJob(mut record)) = armed else { return Ok(Reply::Expired(Expired::Stale)) };
    let (partition, now) = (record.partition, tx.now());
    match (&mut record.body, &cmd.progress) {
        (Body::Share(share), BulkProgress::Page { after, found, through, more })
            if share.stage == Stage::Walking && share.after == *after =>
        {
            let whole = walk(tx, partition, share, found)?;
            if whole {
                share.after = through.or(share.after);
            }
            if share.left == Some(0) || (whole && !more) {
                share.stage = Stage::Reporting;
                share.since = now;
            }
            share.trouble = None;
        }
        (Body::Share(share), BulkProgress::Reported) if share.stage == Stage::Reporting => {
            share.stage = Stage::Over;
            share.since = now;
            share.trouble = None;
            tx.put(Record::BulkJob(record));
            return Ok(Reply::Expired(Expired::Fired));
        }
        (Body::Job(job), BulkProgress::Told { partitions, stopped }) => told(job, partitions, *stopped),
        _ => return Ok(Reply::Expired(Expired::More)),
    }
    tx.put(Record::BulkJob(record));
    Ok(Reply::Expired(Expired::More))
}

/// Those that were told before the job was stopped are to be told again.
fn told(job: &mut Job, partitions: &[u16], stopped: bool) {
    if job.stopped == stopped {
        for at in partitions {
            if let Some(standing) = job.shares.get_mut(usize::from(*at))
                && *standing == Standing::Owed
            {
                *standing = Standing::Told;
            }
        }
    }
    job.trouble = None;
}

/// Meets one execution after the other, as many as a commit takes; false if some of them are left.
fn walk(tx: &mut Tx<'_>, partition: PartitionId, share: &mut Share, found: &[Place]) -> Result<bool, Stop> {
    let (mut missing, mut met) = (false, 0);
    for place in found {
        let (records, bytes) = tx.size();
        let full = records >= BULK_RECORDS_PER_COMMIT || bytes >= BULK_BYTES_PER_COMMIT || met == BULK_PER_COMMIT;
        if full || share.left == Some(0) {
            break;
        }
        // Goes on after a miss, so that all that is missing is loaded together.
        match meet(tx, share, ExecutionId::new(partition, place.uuid)) {
            Err(Stop::Miss) => missing = true,
            done => done?,
        }
        met += 1;
        share.after = Some(*place);
    }
    if missing {
        return Err(Stop::Miss);
    }
    Ok(met == found.len())
}

/// Judges one execution and does the verb to it. One that is gone or does not match is passed.
fn meet(tx: &mut Tx<'_>, share: &mut Share, id: ExecutionId) -> Result<(), Stop> {
    // Nearly every verb adds to the history.
    let execution = match tx.find_execution(id, PartMask::of(schema::ACTIONS)) {
        Ok(Some(execution)) => execution,
        Ok(None) => return Ok(()),
        Err(Stop::Miss) => return Err(Stop::Miss),
        Err(Stop::Rejected(_)) => {
            share.counts.unreadable += 1;
            return Ok(());
        }
    };
    let definition = &share.definition;
    if execution.spec.namespace != definition.namespace || !definition.filter.matches(&execution) {
        return Ok(());
    }
    let call = call(definition, id);
    match tx.within(!definition.dry_run, |tx| apply::run(tx, &call)) {
        Ok(_) => {
            share.counts.done += 1;
            share.left = share.left.map(|left| left.saturating_sub(1));
        }
        Err(Stop::Miss) => return Err(Stop::Miss),
        Err(Stop::Rejected(rejection)) => share.counts.refuse(rejection.code()),
    }
    share.counts.matched += 1;
    Ok(())
}

fn call(definition: &Definition, id: ExecutionId) -> Call {
    Call {
        principal: definition.principal(),
        request_id: None,
        expected_revision: None,
        command: definition.verb.command(id),
    }
}
