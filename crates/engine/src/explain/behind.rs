//! How many claimable executions come before one.

use crate::engine::Shared;
use crate::partition::{Class, LaneKey, QueueKey, after_class, class_of_place, queue_prefix};
use crate::reads;
use crate::worker::Taker;
use bytes::Bytes;
use weft_core::error::Rejection;
use weft_core::record::Execution;
use weft_core::schema::{IndexId, Value};
use weft_store::{Page, Place, Range, Scan, Target};

/// Counted exactly up to here.
const COUNT_MAX: usize = 10_000;
/// Classes of work in the lane that are looked at; more are too many to tell exactly.
const CLASSES_MAX: usize = 256;
const PAGE: usize = 1_000;

/// Those of its lane that precede it for the workers that fit it, in all partitions; false if there may be more.
/// If none fits it, those of its own class.
pub async fn count(
    shared: &Shared,
    execution: &Execution,
    order: i64,
    fitting: &[&Taker],
) -> Result<(usize, bool), Rejection> {
    let spec = &execution.spec;
    let lane = LaneKey { namespace: spec.namespace.clone(), lane: spec.lane.clone() };
    let prefix = vec![Value::text(&lane.namespace), Value::text(&lane.lane)];
    let own = |class: &Class| class.kind == spec.kind && class.capabilities == spec.capabilities;
    let (mut count, mut after) = (0, None);
    for _ in 0..CLASSES_MAX {
        let first = page(shared, Range { prefix: prefix.clone(), after, until: None }, 1).await?;
        let Some(class) = first.entries.first().and_then(|entry| class_of_place(&entry.place)) else {
            return Ok((count, true));
        };
        if own(&class) || fitting.iter().any(|taker| takes(taker, &class)) {
            let queue = QueueKey { lane: lane.clone(), class: class.clone() };
            count += before(shared, queue, execution, order, COUNT_MAX - count).await?;
            if count >= COUNT_MAX {
                return Ok((count, false));
            }
        }
        after = Some(after_class(&lane, class));
    }
    Ok((count, false))
}

fn takes(taker: &Taker, class: &Class) -> bool {
    taker.seen.kinds.as_ref().is_none_or(|kinds| kinds.contains(&class.kind))
        && class.capabilities.is_subset_of(&taker.seen.capabilities)
}

/// How many of a queue have an earlier place, up to `max`.
async fn before(
    shared: &Shared,
    queue: QueueKey,
    execution: &Execution,
    order: i64,
    max: usize,
) -> Result<usize, Rejection> {
    let own = Bytes::copy_from_slice(execution.id.uuid().as_bytes());
    let earlier =
        |place: &Place| matches!(place.columns.last(), Some(Value::Int(at)) if (*at, &place.key) < (order, &own));
    let mut range = Range { prefix: queue_prefix(&queue), after: None, until: Some(Value::Int(order)) };
    let mut count = 0;
    loop {
        let page = page(shared, range.clone(), PAGE).await?;
        count += page.entries.iter().filter(|entry| earlier(&entry.place)).count();
        range.after = page.entries.into_iter().last().filter(|_| page.more && count < max).map(|last| last.place);
        if range.after.is_none() {
            return Ok(count.min(max));
        }
    }
}

async fn page(shared: &Shared, range: Range, limit: usize) -> Result<Page, Rejection> {
    let target = Target::Index(IndexId::Ready);
    let scan = Scan { target, ranges: vec![range], limit, descending: false, parts: None };
    Ok(shared.store.scan(None, scan).await.map_err(reads::unavailable)?.pop().unwrap_or_default())
}
