//! Comparing members that have waited long with their upstreams. In a healthy engine it finds nothing.

use super::resolve;
use crate::command::AuditFlow;
use crate::execution::expire;
use crate::limits::{AUDIT_FIRST_MS, AUDIT_MAX_MS};
use crate::record::{Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::{Due, PartMask, Timer};
use crate::tx::{Stop, Tx};

/// Resolves, as the end itself would have, what the named upstreams left pending, and arms the next audit.
pub fn audit(tx: &mut Tx<'_>, cmd: &AuditFlow) -> Result<Reply, Stop> {
    let hint = Due { timer: Timer::DependencyAudit, at: cmd.due };
    let Some(Record::Flow(mut flow)) = expire::armed(tx, Key::Flow(cmd.flow), hint)? else {
        return Ok(Reply::Expired(Expired::Stale));
    };
    flow.hot.audits += 1;
    let pause_ms = (AUDIT_FIRST_MS << flow.hot.audits.min(16)).min(AUDIT_MAX_MS);
    flow.hot.audit_at = (flow.summary.live() > 0).then(|| tx.now() + pause_ms);
    tx.put_flow(*flow);
    if tx.prefetch_all(cmd.ended.iter().map(|id| Key::Execution(*id))) {
        return Err(Stop::Miss);
    }
    for id in &cmd.ended {
        if let Some(upstream) = tx.find_execution(*id, PartMask::NONE)?
            && upstream.is_done()
            && upstream.member().is_some_and(|member| member.flow == cmd.flow)
        {
            resolve::leave(tx, &upstream, 0)?;
        }
    }
    Ok(Reply::Expired(Expired::Fired))
}
