//! Finding out whether a store that was full has room again: as many bytes as it refused are written and removed.

use crate::engine::{Shared, random_uuid};
use crate::telemetry::meters::Shortage;
use bytes::Bytes;
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::Step;
use weft_core::record::step;
use weft_core::schema::PartMask;
use weft_core::{CommitId, ExecutionId};
use weft_store::{Error, Outcome};

/// Commits a record of the size that was refused, and deletes it if the store took it. The record is a step of an execution
/// that does not exist, so that nobody reads it; one that an interrupted probe left is deleted first.
pub(crate) async fn probe(shared: &Shared, full: Shortage) -> Result<(), Error> {
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
    if write(shared, &step, false).await? && write(shared, &step, true).await? {
        write(shared, &step, false).await?;
    }
    Ok(())
}

/// Inserts the record or deletes it. False if the store did not do it.
async fn write(shared: &Shared, step: &Step, insert: bool) -> Result<bool, Error> {
    let (key, partition) = (step.key(), step.execution.partition());
    let read = shared.store.read(partition, vec![(key, PartMask::NONE)]).await?;
    let revision = read.found.into_iter().next().flatten().map(|found| found.revision);
    let what = match (insert, revision) {
        (true, None) => Change::Insert(Body { facets: step.facets(), parts: step.encode(PartMask::ALL) }),
        (false, Some(_)) => Change::Delete { old: None },
        (true, Some(_)) | (false, None) => return Ok(true),
    };
    let batch = Batch {
        id: CommitId(random_uuid(&*shared.runtime)),
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
    Ok(matches!(shared.store.commit(partition, batch).await, Outcome::Applied { .. }))
}
