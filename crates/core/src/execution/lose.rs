//! Losing a lease: it ran out, or its worker process is dead, superseded or gone.

use super::finish::{self, End};
use super::settle::{self, Requeue};
use super::{backoff, emit};
use crate::command::{EndLease, Principal, WorkerEnd};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::decide;
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{EndCause, LeaseEnd, Next, Outcome, Reason, State, Why};
use crate::record::{Content, Execution};
use crate::reply::{Expired, Reply};
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// Ends the lease with its worker process. One that is no longer the current one is left alone.
pub fn end(tx: &mut Tx<'_>, who: &Principal, cmd: &EndLease) -> Result<Reply, Stop> {
    let now = tx.now();
    let stale = Reply::Expired(Expired::Stale);
    let Some(execution) = tx.find_execution(cmd.id, PartMask::NONE)? else { return Ok(stale) };
    let Some(lease) = execution.lease() else { return Ok(stale) };
    if (lease.id, lease.epoch) != (cmd.fence.lease, cmd.fence.epoch) {
        return Ok(stale);
    }
    let ran_out = lease.expires_at <= now;
    match cmd.end {
        _ if ran_out => lose(tx, execution, &who.name, LeaseEnd::Expired)?,
        WorkerEnd::Lost => lose(tx, execution, &who.name, LeaseEnd::WorkerDead)?,
        WorkerEnd::Drained => hand_back(tx, execution, &who.name)?,
    }
    Ok(Reply::Expired(Expired::Fired))
}

/// The attempt is interrupted and another one follows, until too many were lost. Never touches the retries.
pub(super) fn lose(tx: &mut Tx<'_>, mut execution: Execution, by: &Text, end: LeaseEnd) -> Result<(), Stop> {
    let now = tx.now();
    let State::Active { lease, cancel, .. } = &execution.hot.state else {
        return Err(Rejection::internal("E11 only Active has a lease").into());
    };
    let (worker, cancelled) = (lease.worker.clone(), cancel.is_some());
    // No attempt follows: it ends because that was asked for, or with its flow, and not for the leases it lost.
    let ends = cancelled || decide::closed_for(tx, &execution)?.is_some();
    let cause = end.cause();
    let of = execution.hot.attempts - 1;
    let limit = execution.spec.policy.max_reclaims;
    if execution.hot.reclaims >= limit && !ends {
        let reclaims = execution.hot.reclaims;
        emit(tx, &execution, by, Fact::LeaseLost { worker, cause, reclaims, not_before: None });
        let failure = Failure {
            category: "reclaim_limit".into(),
            message: format!("the lease was lost {} times", u64::from(limit) + 1).into(),
            retry_at: None,
            detail: Content::Absent,
        };
        let end = End {
            outcome: Outcome::Failed,
            reason: Reason::ReclaimLimit,
            by: by.clone(),
            attempt: AttemptState::Interrupted,
            failure: Some(failure),
            lease: end,
            cascade: None,
        };
        return finish::finish(tx, execution, end);
    }
    if !ends {
        execution.hot.reclaims += 1;
        execution.hot.reclaims_in_row = execution.hot.reclaims_in_row.saturating_add(1);
    }
    let not_before = now + backoff::reclaim_ms(execution.hot.reclaims_in_row);
    let ahead = Some(not_before).filter(|at| *at > now && !ends);
    let reclaims = execution.hot.reclaims;
    emit(tx, &execution, by, Fact::LeaseLost { worker, cause, reclaims, not_before: ahead });
    let requeue = Requeue {
        lease: end,
        attempt: if cancelled { AttemptState::Cancelled } else { AttemptState::Interrupted },
        failure: None,
        hold: None,
        not_before: Some((not_before, Why::ReclaimBackoff)),
        next: Next::Reclaim { of, cause },
    };
    settle::requeue(tx, execution, requeue)?;
    Ok(())
}

/// Another attempt follows at once, and nothing is counted.
fn hand_back(tx: &mut Tx<'_>, execution: Execution, by: &Text) -> Result<(), Stop> {
    let worker = execution.lease().map(|lease| lease.worker.clone()).unwrap_or_default();
    let cause = EndCause::Drained;
    emit(tx, &execution, by, Fact::Revoked { worker, cause, reason: "drained".into() });
    let cancelled = matches!(&execution.hot.state, State::Active { cancel: Some(_), .. });
    let requeue = Requeue {
        lease: LeaseEnd::Drained,
        attempt: if cancelled { AttemptState::Cancelled } else { AttemptState::Interrupted },
        failure: None,
        hold: None,
        not_before: None,
        next: Next::Reclaim { of: execution.hot.attempts - 1, cause },
    };
    settle::requeue(tx, execution, requeue)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command, Fence};
    use crate::kit::World;
    use crate::kit::calls::*;

    fn end(world: &mut World, id: crate::ExecutionId, fence: Fence, end: WorkerEnd) -> Reply {
        let cmd = EndLease { id, fence, end };
        world.call(&Call { principal: Principal::engine(), ..call(Command::EndLease(cmd)) }).unwrap()
    }

    #[test]
    fn ex_52_a_lease_of_a_dead_worker_counts_as_lost() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        let other = Fence { epoch: held.epoch + 1, ..held };
        assert_eq!(end(&mut world, id, other, WorkerEnd::Lost), Reply::Expired(Expired::Stale));
        assert_eq!(end(&mut world, id, held, WorkerEnd::Lost), Reply::Expired(Expired::Fired));
        assert_eq!(end(&mut world, id, held, WorkerEnd::Lost), Reply::Expired(Expired::Stale), "once");
        let hot = world.execution(id).hot;
        assert_eq!((hot.reclaims, hot.retries_used), (1, 0));
        assert_eq!(world.run(renew(id, held)).unwrap_err().code(), "lease_expired");
    }

    #[test]
    fn ex_54_a_drained_lease_leaves_the_counters_alone() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        end(&mut world, id, held, WorkerEnd::Drained);
        let hot = world.execution(id).hot;
        assert_eq!((hot.reclaims, hot.reclaims_in_row), (0, 0));
        assert_eq!(world.run(renew(id, held)).unwrap_err().code(), "lease_revoked");
        assert_eq!(world.execution(id).public_state().name(), "waiting");
    }
}
