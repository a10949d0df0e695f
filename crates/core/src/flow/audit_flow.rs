//! Comparing members that have waited long with their upstreams. In a healthy engine it finds nothing.

use super::resolve;
use crate::command::{AuditFlow, Principal};
use crate::event::Fact;
use crate::execution::expire;
use crate::id::ExecutionId;
use crate::limits::{AUDIT_FIRST_MS, AUDIT_MAX_MS};
use crate::record::continuation::Work;
use crate::record::{Execution, Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::{Due, PartMask, Timer};
use crate::tx::{Stop, Tx};

/// Resolves, as the end itself would have, what the named upstreams left pending, and arms the next audit.
pub fn audit(tx: &mut Tx<'_>, who: &Principal, cmd: &AuditFlow) -> Result<Reply, Stop> {
    let hint = Due { timer: Timer::DependencyAudit, at: cmd.due };
    let Some(Record::Flow(mut flow)) = expire::armed(tx, Key::Flow(cmd.flow), hint)? else {
        return Ok(Reply::Expired(Expired::Stale));
    };
    flow.hot.audits += 1;
    let pause_ms = (AUDIT_FIRST_MS << flow.hot.audits.min(16)).min(AUDIT_MAX_MS);
    flow.hot.audit_at = (flow.summary.live() > 0).then(|| tx.now() + pause_ms);
    let keys = |(id, number): &(ExecutionId, u32)| {
        [Key::Execution(*id), Key::Edge(*id, *number), Key::Continuation(*id, Work::Resolve)]
    };
    if tx.prefetch_all(cmd.ended.iter().flat_map(keys)) {
        return Err(Stop::Miss);
    }
    let mut mended = Vec::new();
    for (id, number) in &cmd.ended {
        mended.extend(left_pending(tx, cmd, *id, *number)?.map(|upstream| (upstream, *number)));
    }
    if !mended.is_empty() {
        let scanner = "dependency_reconciler".into();
        super::emit(tx, &flow, &who.name, Fact::ScannerRepaired { scanner, flow: flow.id, items: mended.len() as u32 });
    }
    tx.put_flow(*flow);
    for (upstream, number) in mended {
        resolve::leave(tx, &upstream, number)?;
    }
    Ok(Reply::Expired(Expired::Fired))
}

/// The upstream, if it is over, its edge still is pending, and nothing is on its way to it.
fn left_pending(tx: &mut Tx<'_>, cmd: &AuditFlow, id: ExecutionId, number: u32) -> Result<Option<Execution>, Stop> {
    let Some(upstream) = tx.find_execution(id, PartMask::NONE)? else { return Ok(None) };
    let pending = match tx.get(Key::Edge(id, number), PartMask::NONE)? {
        Some(Record::Edge(edge)) => edge.body.resolved.is_none(),
        _ => false,
    };
    let covered = tx.get(Key::Continuation(id, Work::Resolve), PartMask::NONE)?.is_some();
    let of_flow = upstream.member().is_some_and(|member| member.flow == cmd.flow);
    Ok(Some(upstream).filter(|upstream| upstream.is_done() && of_flow && pending && !covered))
}
