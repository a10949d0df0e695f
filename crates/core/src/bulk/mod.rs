//! Bulk jobs: one verb for all executions that a filter names, done by the ordinary rule of that verb in the name of
//! whoever started the job.
//!
//! A job tells the partitions of their shares; each walks over its executions, a bounded number per commit, and reports
//! what it counted. Every message between them may come twice, late, or from two nodes, and counts once.

pub(crate) mod advance;
pub(crate) mod report;
pub(crate) mod share;
pub(crate) mod start;
pub(crate) mod stop;
mod verb;

#[cfg(test)]
mod tests;

use crate::id::BulkId;
use crate::record::bulk_job::{Body, Job};
use crate::record::{BulkJob, Record};
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};

fn find_job(tx: &mut Tx<'_>, id: BulkId) -> Result<Option<Job>, Stop> {
    Ok(match tx.get(BulkJob::key_of(id), PartMask::NONE)? {
        Some(Record::BulkJob(record)) => match record.body {
            Body::Job(job) => Some(job),
            Body::Share(_) => None,
        },
        _ => None,
    })
}

fn put_job(tx: &mut Tx<'_>, id: BulkId, job: Job) {
    let record = BulkJob { partition: id.partition(), uuid: id.uuid(), body: Body::Job(job) };
    tx.put(Record::BulkJob(Box::new(record)));
}
