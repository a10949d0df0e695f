//! Finding out whether a store that was full has room again: as many bytes as it refused are written and removed.

use crate::engine::{Shared, random_uuid};
use crate::telemetry::meters::Shortage;
use bytes::Bytes;
use futures_util::future;
use std::sync::Arc;
use tokio::sync::oneshot;
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::Step;
use weft_core::record::step;
use weft_core::schema::PartMask;
use weft_core::{CommitId, ExecutionId};
use weft_store::{Error, Outcome};

/// Pause before the record of a probe is deleted again; each further pause is twice as long.
const DELETE_AGAIN_MS: u64 = 1_000;
/// Longest pause before the record is left to the next probe of its partition.
const DELETE_AGAIN_MS_MAX: u64 = 64_000;

/// Commits a record of the size that was refused, and deletes it if the store took it. The record is a step of an execution
/// that does not exist, so that nobody reads it; one that an earlier probe left is deleted first. Dropping the future does
/// not keep the record from being deleted.
pub(crate) async fn probe(shared: &Arc<Shared>, full: Shortage) -> Result<(), Error> {
    let execution = ExecutionId::new(full.partition, Uuid::nil());
    // Random, so that no store makes it smaller.
    let value: Bytes = (0..full.bytes.div_ceil(8)).flat_map(|_| shared.runtime.random().to_be_bytes()).collect();
    let body = step::Body {
        name: "probe".into(),
        since: 0,
        content_type: None,
        attempt: 0,
        at: shared.now(),
        bytes: value.len() as u32,
    };
    let step = Step::new(execution, 0, body, value);
    if !write(shared, &step, fresh_id(shared), false).await? {
        return Ok(());
    }
    let (reply, answer) = oneshot::channel();
    shared.start(insert_and_delete(shared.clone(), step, reply));
    answer.await.unwrap_or(Ok(()))
}

/// Inserts the record, deletes it and replies. Once the insert is applied the store no longer counts as full and is not
/// probed again, so a delete that fails is repeated here.
async fn insert_and_delete(shared: Arc<Shared>, step: Step, reply: oneshot::Sender<Result<(), Error>>) {
    let id = fresh_id(&shared);
    let inserted = write(&shared, &step, id, true).await;
    // Settled before the delete, so that the insert cannot arrive after it.
    let unsettled = matches!(inserted, Err(Error::Indeterminate(_))).then_some(id);
    let is_left = !matches!(inserted, Ok(false) | Err(Error::Unavailable(_)));
    let mut is_gone = !is_left || delete(&shared, &step, unsettled).await;
    // A caller that has gone needs no reply.
    let _ = reply.send(inserted.map(drop));
    let mut pause_ms = DELETE_AGAIN_MS;
    while !is_gone {
        if pause_ms > DELETE_AGAIN_MS_MAX || !pause(&shared, pause_ms).await {
            tracing::warn!(partition = %step.execution.partition(), "could not delete the record of a probe");
            return;
        }
        is_gone = delete(&shared, &step, unsettled).await;
        pause_ms *= 2;
    }
}

/// False if the record may still be there.
async fn delete(shared: &Shared, step: &Step, unsettled: Option<CommitId>) -> bool {
    if let Some(id) = unsettled
        && shared.store.resolve(step.execution.partition(), id).await.is_err()
    {
        return false;
    }
    matches!(write(shared, step, fresh_id(shared), false).await, Ok(true))
}

/// False if the engine closes meanwhile.
async fn pause(shared: &Shared, ms: u64) -> bool {
    let closed = shared.closed.notified();
    futures_util::pin_mut!(closed);
    if !shared.is_closing() {
        future::select(closed, shared.runtime.sleep(ms)).await;
    }
    !shared.is_closing()
}

fn fresh_id(shared: &Shared) -> CommitId {
    CommitId(random_uuid(&*shared.runtime))
}

/// Inserts the record or deletes it. False if the store did not do it.
async fn write(shared: &Shared, step: &Step, id: CommitId, insert: bool) -> Result<bool, Error> {
    let (key, partition) = (step.key(), step.execution.partition());
    let read = shared.store.read(partition, vec![(key, PartMask::NONE)]).await?;
    let revision = read.found.into_iter().next().flatten().map(|found| found.revision);
    let what = match (insert, revision) {
        (true, None) => Change::Insert(Body { facets: step.facets(), parts: step.encode(PartMask::ALL) }),
        (false, Some(_)) => Change::Delete { old: None },
        (true, Some(_)) | (false, None) => return Ok(true),
    };
    let batch = Batch {
        id,
        expect: read.head,
        fast: false,
        strict: false,
        now: read.head.now,
        raise: None,
        reads: vec![(key, revision)],
        writes: vec![Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }],
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    };
    match shared.store.commit(partition, batch).await {
        Outcome::Applied { .. } => Ok(true),
        Outcome::Conflict { .. } | Outcome::Lost { .. } | Outcome::NotApplied { .. } => Ok(false),
        Outcome::Unknown { source } => Err(Error::Indeterminate(source)),
    }
}
