//! Looking for edges that are pending although their upstream has ended. In a healthy engine there are none.

use super::ScanContext;
use crate::flow::edges::read_edges;
use crate::flow::members::{member_entries, member_of};
use weft_core::command::{AuditFlow, Command};
use weft_core::error::Rejection;
use weft_core::limits::VERIFY_PAGE;
use weft_core::record::Key;
use weft_core::record::continuation::Work;
use weft_core::schema::PartMask;
use weft_core::{ExecutionId, FlowId, Time};

/// Walks over the members that have ended, and answers the command that mends what is found.
pub(super) async fn look(cx: &ScanContext, flow: FlowId, due: Time) -> Result<Command, Rejection> {
    let mut ended: Vec<(ExecutionId, u32)> = Vec::new();
    let mut after = None;
    loop {
        let (entries, more) = member_entries(&cx.shared, flow, after, VERIFY_PAGE).await?;
        let before = after;
        for entry in &entries {
            let Some((number, id, execution)) = member_of(entry) else { continue };
            after = Some(number);
            // One that does not decode is parked by those who meet it; nothing is made up about it here.
            let outs = execution.filter(|execution| execution.is_done()).and_then(|it| Some(it.member()?.outs));
            let keys = (0..outs.unwrap_or(0)).map(|number| (id, number)).collect();
            let edges = read_edges(&cx.shared, flow.partition(), keys).await?;
            let pending = edges.iter().find(|edge| edge.body.resolved.is_none());
            if let Some(edge) = pending
                && !is_covered(cx, id).await?
            {
                ended.push((id, edge.number));
            }
        }
        if !more || after == before || ended.len() >= VERIFY_PAGE {
            break;
        }
    }
    ended.truncate(VERIFY_PAGE);
    Ok(Command::AuditFlow(AuditFlow { flow, due, ended }))
}

/// A continuation will get to it.
async fn is_covered(cx: &ScanContext, id: ExecutionId) -> Result<bool, Rejection> {
    let key = Key::Continuation(id, Work::Resolve);
    Ok(crate::reads::read_one(&cx.shared, key, PartMask::ALL).await?.is_some())
}
