//! The exact totals of flows that changed, compared with a recount of their members. In a healthy engine they are equal.

use super::ScanContext;
use crate::flow::members::{member_entries, member_of, number_of};
use crate::reads::{decode, read_one, unavailable, undecodable};
use weft_core::command::{Command, VerifyFlow};
use weft_core::error::Rejection;
use weft_core::flow::{recount, recount_purged};
use weft_core::limits::{VERIFY_PAGE, VERIFY_PER_PASS};
use weft_core::record::flow::Summary;
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, PartMask, Value, execution as execution_schema, flow as flow_schema};
use weft_core::{ExecutionId, FlowId, Time};
use weft_store::{Entry, Range, Scan, Target};

crate::scanner::due_scanner!(
    /// Finds flows whose totals are to be verified.
    FlowProjector, "flow_projector", 15_000, 100, [FlowVerify]
);

/// Recounts the members in pages, and returns the command that compares. A member that cannot be read ends the count
/// without a verdict. The count stops between two pages if the flow has changed: the command then finds another change
/// number and gives no verdict either. `None` if the flow has more members than the pass may still recount, after the
/// `recounted` ones of other flows.
pub(super) async fn count(
    cx: &ScanContext,
    flow: FlowId,
    due: Time,
    now: Time,
    recounted: &mut usize,
) -> Result<Option<Command>, Rejection> {
    let (change_no, total) = standing(cx, flow).await?;
    if *recounted > 0 && *recounted + total > VERIFY_PER_PASS {
        return Ok(None);
    }
    let (mut counted, mut edges) = (Summary::default(), true);
    let mut after = None;
    let mut moved = false;
    loop {
        let (entries, more) = member_entries(&cx.shared, flow, after, VERIFY_PAGE).await?;
        *recounted += entries.len();
        let before = after;
        for entry in &entries {
            let Some(number) = number_of(entry) else { continue };
            after = Some(number);
            if entry.key().is_none() || entry.partition != flow.partition() {
                // The store derives this index from records, so such an entry is damage of its own and names nobody.
                tracing::warn!(%flow, ?entry, "an entry among the members of a flow names no member");
                continue;
            }
            let Some((_, id, execution)) = member_of(entry) else {
                return Err(Rejection::internal("a member could not be read with its place"));
            };
            match execution {
                Some(execution) => recount(&execution, &mut counted),
                // One that was given up is counted by what was left of it, which does not tell all its edges.
                None if read_one(&cx.shared, Key::Tombstone(id), PartMask::ALL).await?.is_some() => edges = false,
                None => return Err(undecoded(entry, id)),
            }
        }
        // A page that leads no further is the last, whatever else it says.
        if !more || after == before {
            break;
        }
        moved = standing(cx, flow).await?.0 != change_no;
        if moved {
            break;
        }
    }
    if !moved {
        *recounted += count_purged(cx, flow, change_no, &mut counted).await?;
    }
    Ok(Some(Command::VerifyFlow(VerifyFlow { flow, due, change_no, counted: Box::new(counted), edges, now })))
}

/// Why a member gives no verdict. One that a later version wrote is not damaged: its flow is left to a build that knows it.
fn undecoded(entry: &Entry, id: ExecutionId) -> Rejection {
    let key = Key::Execution(id);
    let tried = entry.found.as_ref().map(|found| Record::decode(key, &found.parts, execution_schema::LIGHT));
    match tried {
        Some(Err(error)) if error.is_newer => undecodable(key, &error),
        Some(Err(error)) if error.is_unknown_policy => Rejection::UnknownPolicy { what: error.why.into() },
        _ => Rejection::internal(format!("{id} does not decode")),
    }
}

/// The change number of the flow and how many members it says it has; zeros for a flow that is gone, which makes the
/// command stale.
async fn standing(cx: &ScanContext, flow: FlowId) -> Result<(u64, usize), Rejection> {
    match read_one(&cx.shared, Key::Flow(flow), flow_schema::LIGHT).await? {
        Some(Record::Flow(flow)) => Ok((flow.summary.change_no, flow.summary.total_members as usize)),
        _ => Ok((0, 0)),
    }
}

/// Adds the purged members, up to the page at which the flow has changed. Returns how many there were.
async fn count_purged(
    cx: &ScanContext,
    flow: FlowId,
    change_no: u64,
    counted: &mut Summary,
) -> Result<usize, Rejection> {
    let mut recounted = 0;
    let mut after = None;
    loop {
        let scan = Scan {
            target: Target::Index(IndexId::Tombstones),
            ranges: vec![Range { prefix: vec![Value::bytes(flow.uuid().as_bytes())], after, until: None }],
            limit: VERIFY_PAGE,
            descending: false,
            parts: Some(PartMask::ALL),
        };
        let pages = cx.shared.store.scan(Some(flow.partition()), scan).await.map_err(unavailable)?;
        let page = pages.into_iter().next().unwrap_or_default();
        for entry in &page.entries {
            let (Some(key), Some(found)) = (entry.key(), &entry.found) else { continue };
            if let Record::Tombstone(stone) = decode(key, found, PartMask::ALL)? {
                recount_purged(&stone, counted);
            }
        }
        recounted += page.entries.len();
        after = page.entries.last().map(|entry| entry.place.clone());
        if !page.more || after.is_none() || standing(cx, flow).await?.0 != change_no {
            return Ok(recounted);
        }
    }
}
