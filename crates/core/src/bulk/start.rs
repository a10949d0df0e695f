//! Starting a bulk job. Owns the job's record; the partitions hear of it afterwards.

use super::put_job;
use crate::apply;
use crate::command::{Principal, StartBulk};
use crate::error::Rejection;
use crate::id::{ExecutionId, PartitionId};
use crate::record::bulk_job::{Counts, Definition, Job, Standing};
use crate::reply::Reply;
use crate::text::check_range;
use crate::tx::{Stop, Tx};
use uuid::Uuid;

pub fn validate(cmd: &StartBulk) -> Result<(), Rejection> {
    cmd.filter.check()?;
    if let Some(max) = cmd.max {
        check_range("max", max, 1, u64::MAX)?;
    }
    Ok(())
}

/// Whoever may not call the verb may not call it in bulk either, and its arguments are checked once for all.
pub fn start(tx: &mut Tx<'_>, who: &Principal, cmd: &StartBulk) -> Result<Reply, Stop> {
    let id = cmd.id.expect("start_bulk: the engine has minted an id");
    let any = cmd.verb.command(ExecutionId::new(PartitionId(0), Uuid::nil()));
    apply::may(who, &any)?;
    apply::validate(&any, tx.limits(), tx.now())?;
    let now = tx.now();
    // With a maximum one partition follows the other, each with what is left of it: so it is exact.
    let rest = if cmd.max.is_some() { Standing::Ahead } else { Standing::Owed };
    let mut shares = vec![rest; usize::from(cmd.partitions.max(1))];
    match cmd.filter.flow.map(|flow| usize::from(flow.partition().0)) {
        None => shares[0] = Standing::Owed,
        // All members of a flow are in one partition; the others have nothing to do.
        Some(only) => {
            shares.fill(Standing::Over);
            *shares.get_mut(only).ok_or(Rejection::FlowNotFound)? = Standing::Owed;
        }
    }
    let definition = Definition {
        namespace: who.namespace.clone(),
        by: who.name.clone(),
        scopes: who.scopes,
        filter: cmd.filter.clone(),
        verb: cmd.verb.clone(),
        dry_run: cmd.dry_run,
    };
    let job = Job {
        definition,
        max: cmd.max,
        created_at: now,
        stopped: false,
        shares,
        owed_since: now,
        counts: Counts::default(),
        ended_at: None,
        trouble: None,
    };
    put_job(tx, id, job);
    Ok(Reply::BulkStarted(id))
}
