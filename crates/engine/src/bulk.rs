//! Bulk jobs as their callers see them: what is asked for, and how far it is.

use crate::engine::Shared;
use crate::place;
use crate::reads;
use bytes::Bytes;
use weft_core::command::{Command, Principal, StartBulk};
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::record::bulk_job::{Body, Counts, Definition, Job, Share, Standing, Verb};
use weft_core::record::{BulkJob, Key, Record};
use weft_core::schema::PartMask;
use weft_core::text::Text;
use weft_core::{BulkId, PartitionId, Time};

/// One verb for all executions that a filter names.
#[derive(Clone, Debug)]
pub struct BulkRequest {
    pub filter: Filter,
    pub verb: Verb,
    pub dry_run: bool,
    pub max: Option<u64>,
    pub request_id: Option<Bytes>,
}

impl BulkRequest {
    pub fn new(filter: Filter, verb: Verb) -> Self {
        Self { filter, verb, dry_run: false, max: None, request_id: None }
    }

    /// Counts what would be done, and changes nothing.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Ends once it was done to exactly so many executions, if there are so many. Partitions then work one after the other.
    pub fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    pub(crate) fn command(self, id: BulkId, partitions: u16) -> (Command, Option<Bytes>) {
        let Self { filter, verb, dry_run, max, request_id } = self;
        let start = StartBulk { id: Some(id), partitions, filter, verb, dry_run, max };
        (Command::StartBulk(Box::new(start)), request_id)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkState {
    Running,
    /// Asked to stop; some partitions have not heard of it yet.
    Stopping,
    Stopped,
    Done,
}

impl BulkState {
    pub const fn name(self) -> &'static str {
        match self {
            BulkState::Running => "running",
            BulkState::Stopping => "stopping",
            BulkState::Stopped => "stopped",
            BulkState::Done => "done",
        }
    }
}

/// How far a bulk job is. Counts only grow, and are final once it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkView {
    pub id: BulkId,
    pub definition: Definition,
    pub max: Option<u64>,
    pub state: BulkState,
    pub created_at: Time,
    pub ended_at: Option<Time>,
    pub counts: Counts,
    pub partitions: usize,
    pub partitions_done: usize,
}

/// In a partition that a repeat of the call finds again, else in one of this node.
pub(crate) fn fresh_id(shared: &Shared, who: &Principal, request_id: Option<&[u8]>) -> BulkId {
    let partition = match request_id {
        Some(request_id) => place::of_key(shared, &who.namespace, request_id),
        None => shared.next_partition(0),
    };
    BulkId::new(partition, shared.fresh_uuid())
}

/// The shares are read before the job: one that it does not count yet is then counted by what was read of it, and none
/// is counted twice.
pub(crate) async fn read(shared: &Shared, who: &Principal, id: BulkId) -> Result<BulkView, Rejection> {
    place::of_bulk(shared, id)?;
    let mut job = load_job(shared, who, id).await?;
    let mut counts = job.counts.clone();
    if job.ended_at.is_none() {
        let open = |(at, standing): (usize, &Standing)| {
            matches!(standing, Standing::Owed | Standing::Told).then_some(PartitionId(at as u16))
        };
        let open: Vec<PartitionId> = job.shares.iter().enumerate().filter_map(open).collect();
        let shares = futures_util::future::join_all(open.iter().map(|at| load_share(shared, id, *at))).await;
        job = load_job(shared, who, id).await?;
        counts = job.counts.clone();
        for (at, share) in open.iter().zip(shares) {
            if job.shares[usize::from(at.0)] != Standing::Over
                && let Some(share) = share?
            {
                counts.add(&share.counts);
            }
        }
    }
    Ok(view(id, job, counts))
}

/// Time between two looks at a job that is waited for: short at first, for the many jobs that are short.
const LOOK_FIRST_MS: u64 = 10;
const LOOK_MAX_MS: u64 = 1_000;

/// Looks at a job until it has ended or the time is up.
pub(crate) async fn wait(
    shared: &Shared,
    who: &Principal,
    mut view: BulkView,
    deadline: Time,
) -> Result<BulkView, Rejection> {
    let mut pause = LOOK_FIRST_MS;
    loop {
        let left = deadline.since(shared.runtime.clock());
        if view.ended_at.is_some() || left == 0 {
            return Ok(view);
        }
        shared.runtime.sleep(pause.min(left)).await;
        pause = (pause * 2).min(LOOK_MAX_MS);
        view = read(shared, who, view.id).await?;
    }
}

fn view(id: BulkId, job: Job, counts: Counts) -> BulkView {
    BulkView {
        id,
        max: job.max,
        state: match (job.ended_at, job.stopped) {
            (Some(_), true) => BulkState::Stopped,
            (Some(_), false) => BulkState::Done,
            (None, true) => BulkState::Stopping,
            (None, false) => BulkState::Running,
        },
        created_at: job.created_at,
        ended_at: job.ended_at,
        counts,
        partitions: job.shares.len(),
        partitions_done: job.shares.iter().filter(|standing| **standing == Standing::Over).count(),
        definition: job.definition,
    }
}

/// The namespace of a job, whoever asks: callers decide who may know.
pub(crate) async fn namespace_of(shared: &Shared, id: BulkId) -> Result<Option<Text>, Rejection> {
    place::of_bulk(shared, id)?;
    Ok(match load(shared, BulkJob::key_of(id)).await? {
        Some(Body::Job(job)) => Some(job.definition.namespace),
        _ => None,
    })
}

async fn load_job(shared: &Shared, who: &Principal, id: BulkId) -> Result<Job, Rejection> {
    match load(shared, BulkJob::key_of(id)).await? {
        Some(Body::Job(job)) if job.definition.namespace == who.namespace => Ok(job),
        _ => Err(Rejection::BulkNotFound),
    }
}

async fn load_share(shared: &Shared, id: BulkId, partition: PartitionId) -> Result<Option<Share>, Rejection> {
    match load(shared, BulkJob::key_of_share(id, partition)).await? {
        Some(Body::Share(share)) => Ok(Some(share)),
        _ => Ok(None),
    }
}

/// What is stored of a job or a share.
pub(crate) async fn load(shared: &Shared, key: Key) -> Result<Option<Body>, Rejection> {
    match reads::read_one(shared, key, PartMask::ALL).await? {
        Some(Record::BulkJob(record)) => Ok(Some(record.body)),
        _ => Ok(None),
    }
}
