//! A partition hears of its share of a bulk job, or that the job is stopped.

use crate::command::ShareBulk;
use crate::limits::BULK_KEEP_MS;
use crate::record::bulk_job::{Body, Counts, Share, Stage};
use crate::record::{BulkJob, Record};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};

/// Makes the share unless it is there. One that is stopped before it began is made too, so that a start which arrives
/// after the stop finds it.
pub fn share(tx: &mut Tx<'_>, cmd: &ShareBulk) -> Result<Reply, Stop> {
    let now = tx.now();
    let key = BulkJob::key_of_share(cmd.job, cmd.partition);
    match tx.get(key, PartMask::NONE)? {
        // The share may have been here and gone.
        None if cmd.told_at + BULK_KEEP_MS <= now => {}
        None => {
            let share = Share {
                home: cmd.job.partition(),
                definition: cmd.definition.clone(),
                created_at: now,
                after: None,
                left: cmd.left,
                counts: Counts::default(),
                stage: if cmd.stop { Stage::Reporting } else { Stage::Walking },
                since: now,
                trouble: None,
            };
            let record = BulkJob { partition: cmd.partition, uuid: cmd.job.uuid(), body: Body::Share(share) };
            tx.put(Record::BulkJob(Box::new(record)));
        }
        Some(Record::BulkJob(mut record)) => {
            if let Body::Share(share) = &mut record.body
                && share.stage == Stage::Walking
                && cmd.stop
            {
                share.stage = Stage::Reporting;
                share.since = now;
                share.trouble = None;
                tx.put(Record::BulkJob(record));
            }
        }
        Some(_) => {}
    }
    Ok(Reply::Noted)
}
