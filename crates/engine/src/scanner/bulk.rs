//! Taking bulk jobs further: telling partitions of their shares, finding the next executions of a share, reporting what
//! it counted. Each ends with one command about the record that was due, which decides again.

use super::ScanContext;
use super::due::{engine_call, is_outage};
use crate::bulk;
use crate::client::Urgency;
use crate::engine::Shared;
use crate::reads::{self, Walk};
use weft_core::command::{AdvanceBulk, BulkProgress, Command, ReportBulk, ShareBulk};
use weft_core::error::Rejection;
use weft_core::limits::BULK_PER_COMMIT;
use weft_core::record::bulk_job::{Body, Job, Place, Share, Stage};
use weft_core::record::{Key, Record};
use weft_core::schema::execution as schema;
use weft_core::{BulkId, PartitionId, Time};
use weft_store::Entry;

/// Executions that are looked at in one call of the store, and in all for one commit.
const LOOK: usize = 500;
const LOOK_PER_COMMIT: usize = 4_000;

/// Carries out what a bulk job or share needs in other partitions, and returns the command that advances its record; `None` if
/// a partition it waits for cannot take its command now.
pub(super) async fn advance(cx: &ScanContext, key: Key, due: Time) -> Result<Option<Command>, Rejection> {
    let shared = &cx.shared;
    let Key::BulkJob(partition, uuid, _) = key else {
        return Err(Rejection::internal("E11 only bulk jobs have this timer"));
    };
    let progress = match bulk::load(shared, key).await? {
        Some(Body::Job(job)) => match tell(shared, BulkId::new(partition, uuid), job).await {
            Err(rejection) if is_elsewhere(cx, key, &rejection) => return Ok(None),
            progress => progress?,
        },
        Some(Body::Share(share)) if share.stage == Stage::Walking => find(shared, partition, &share).await?,
        Some(Body::Share(share)) if share.stage == Stage::Reporting => {
            let report = ReportBulk { job: BulkId::new(share.home, uuid), partition, counts: share.counts };
            match send(shared, vec![Command::ReportBulk(report)]).await.pop() {
                Some(Err(rejection)) if is_elsewhere(cx, key, &rejection) => return Ok(None),
                answer => answer.unwrap_or(Ok(()))?,
            }
            BulkProgress::Reported
        }
        // Nothing is due of it any more, which the command finds too.
        Some(Body::Share(_)) | None => BulkProgress::Reported,
    };
    Ok(Some(Command::AdvanceBulk(AdvanceBulk { key: Some(key), due, progress })))
}

/// Whether the partition that a command was sent to could not take it: no fault of the job, nor of the job's partition.
fn is_elsewhere(cx: &ScanContext, job: Key, rejection: &Rejection) -> bool {
    let is_outage = is_outage(rejection);
    if is_outage {
        tracing::warn!(scanner = cx.scanner, ?job, %rejection, "a bulk job waits for another partition");
    }
    is_outage
}

/// Those that could be told; an error if nobody could.
async fn tell(shared: &Shared, id: BulkId, job: Job) -> Result<BulkProgress, Rejection> {
    let (stopped, left, told_at) = (job.stopped, job.left(), shared.now());
    let owed: Vec<PartitionId> = job.owed().collect();
    let commands = owed.iter().map(|partition| {
        let (partition, definition) = (*partition, job.definition.clone());
        Command::ShareBulk(Box::new(ShareBulk { partition, job: id, definition, left, stop: stopped, told_at }))
    });
    let answers = send(shared, commands.collect()).await;
    let mut partitions = Vec::with_capacity(owed.len());
    let mut refused = None;
    for (partition, answer) in owed.into_iter().zip(answers) {
        match answer {
            Ok(()) => partitions.push(partition.0),
            Err(rejection) => refused = Some(rejection),
        }
    }
    match refused.filter(|_| partitions.is_empty()) {
        Some(rejection) => Err(rejection),
        None => Ok(BulkProgress::Told { partitions, stopped }),
    }
}

async fn send(shared: &Shared, commands: Vec<Command>) -> Vec<Result<(), Rejection>> {
    let calls = commands.into_iter().map(|command| Ok(engine_call(command))).collect();
    let answers = shared.run(calls, Urgency::Urgent).await;
    answers.into_iter().map(|answer| answer.map(drop)).collect()
}

/// The next executions that seem to match, as many as one commit takes.
async fn find(shared: &Shared, partition: PartitionId, share: &Share) -> Result<BulkProgress, Rejection> {
    let mut filter = share.definition.filter.clone();
    let until = share.created_at;
    filter.created_until = Some(filter.created_until.map_or(until, |given| given.min(until)));
    let namespace = &share.definition.namespace;
    let parts = Some(schema::LIGHT);
    let walk = Walk { namespace, filter: &filter, ascending: true, partition: Some(partition), parts };
    let mut through = share.after;
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut more = true;
    while more && looked < LOOK_PER_COMMIT && found.len() < BULK_PER_COMMIT {
        let cursor = through.map(|place| (place.at as i64, place.uuid, partition));
        let (entries, left) = walk.page(shared, cursor.as_ref(), LOOK).await?;
        more = left;
        looked += entries.len();
        for (at, entry) in entries.iter().enumerate() {
            let Some(place) = place_of(entry) else { continue };
            through = Some(place);
            if may_match(&filter, entry) {
                found.push(place);
            }
            if found.len() == BULK_PER_COMMIT {
                more |= at + 1 < entries.len();
                break;
            }
        }
    }
    Ok(BulkProgress::Page { after: share.after, found, through, more })
}

fn place_of(entry: &Entry) -> Option<Place> {
    let (at, uuid, _) = reads::place_of(entry)?;
    Some(Place { at: at.max(0) as u64, uuid })
}

/// What cannot be read is met too, and counted as such.
fn may_match(filter: &weft_core::filter::Filter, entry: &Entry) -> bool {
    let (Some(found), Some(key)) = (&entry.found, entry.key()) else { return true };
    match Record::decode(key, &found.parts, schema::LIGHT) {
        Ok(Record::Execution(execution)) => filter.matches(&execution),
        Ok(_) => false,
        Err(_) => true,
    }
}
