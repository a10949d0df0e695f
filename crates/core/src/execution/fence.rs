//! Freshness: whether a worker's view is the current one. The twelve rows of the fencing table, in their order.

use crate::command::Fence;
use crate::error::Rejection;
use crate::flow::siblings;
use crate::id::LeaseId;
use crate::planted::{self, Defect};
use crate::record::Execution;
use crate::record::execution::{LastLease, LeaseEnd, Outcome, State};
use crate::reply::{Cancelled, Children, Reply};
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// The fenced verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Renew,
    Progress,
    RecordSteps,
    Complete,
    Fail,
    Delay,
    WaitChildren,
    Cancel,
    SetTags,
    Spawn,
}

/// Whether a verb of a worker may go on, as `pass` says. A member that lost against its siblings is refused even while its
/// own record does not know it yet.
pub(crate) fn admit(
    tx: &mut Tx<'_>,
    execution: &Execution,
    fence: Option<Fence>,
    verb: Verb,
) -> Result<Option<Reply>, Stop> {
    let passed = pass(execution, fence, verb, tx.now())?;
    if passed.is_none() {
        siblings::refuse_loser(tx, execution)?;
    }
    Ok(passed)
}

/// `None` if the caller holds the lease; the reply of the first call if this one repeats the call that ended it.
pub(crate) fn pass(
    execution: &Execution,
    fence: Option<Fence>,
    verb: Verb,
    now: Time,
) -> Result<Option<Reply>, Rejection> {
    let fence = fence.ok_or(Rejection::FenceRequired)?;
    if let State::Active { lease, .. } = &execution.hot.state
        && matches(fence, lease.id, lease.epoch)
    {
        let expired = now >= lease.expires_at && !planted::on(Defect::ExpiredLeaseAccepted);
        return if expired { Err(Rejection::LeaseExpired { at: lease.expires_at }) } else { Ok(None) };
    }
    if let Some(last) = &execution.hot.last_lease
        && matches(fence, last.id, last.epoch)
    {
        if let Some(reply) = repeat(last, verb) {
            return Ok(Some(reply));
        }
        if let Some(rejection) = lost(last) {
            return Err(rejection);
        }
    }
    Err(match &execution.hot.state {
        State::Active { lease, .. } => Rejection::StaleLease { current_epoch: lease.epoch },
        State::Done { outcome, reason, attempt, .. } => Rejection::ExecutionTerminal {
            outcome: *outcome,
            reason: *reason,
            epoch: execution.hot.epoch,
            attempt: *attempt,
        },
        _ => Rejection::ExecutionNotActive { public_state: execution.public_state(), epoch: execution.hot.epoch },
    })
}

fn matches(fence: Fence, lease: LeaseId, epoch: u64) -> bool {
    let same_lease = fence.lease == lease || planted::on(Defect::LeaseIdNotCompared);
    let same_epoch = if planted::on(Defect::EpochComparedByLess) {
        fence.epoch >= epoch
    } else {
        fence.epoch == epoch || planted::on(Defect::EpochNotCompared)
    };
    same_lease && same_epoch
}

/// The reply of the call that ended the lease, if `verb` is that call.
fn repeat(last: &LastLease, verb: Verb) -> Option<Reply> {
    Some(match (verb, &last.end) {
        (Verb::Complete, LeaseEnd::Completed { attempt, cancel_was_requested }) => Reply::Completed {
            outcome: Outcome::Success,
            attempt: *attempt,
            cancel_was_requested: *cancel_was_requested,
            repeated: true,
        },
        (Verb::Fail, LeaseEnd::Failed(after)) => Reply::Failed { after: *after, repeated: true },
        (Verb::Delay, LeaseEnd::Delayed { until }) => Reply::Delayed { until_at: *until, repeated: true },
        (Verb::WaitChildren, LeaseEnd::Children { waiting }) => {
            Reply::Children(Children::Waiting { waiting: *waiting, repeated: true })
        }
        (Verb::Cancel, LeaseEnd::CancelledByHolder { .. }) => Reply::Cancelled(Cancelled::Done { already: true }),
        _ => return None,
    })
}

/// The refusal that tells a holder how it lost its lease; `None` if it gave it back itself.
fn lost(last: &LastLease) -> Option<Rejection> {
    let at = last.at;
    Some(match &last.end {
        LeaseEnd::Expired | LeaseEnd::WorkerDead => Rejection::LeaseExpired { at },
        LeaseEnd::Revoked { reason } => Rejection::LeaseRevoked { at, reason: reason.clone() },
        LeaseEnd::Drained => Rejection::LeaseRevoked { at, reason: "drained".into() },
        LeaseEnd::Cancelled { reason, by } | LeaseEnd::CancelledByHolder { reason, by } => {
            Rejection::Cancelled { at, reason: reason.clone(), by: by.clone() }
        }
        LeaseEnd::TimedOut | LeaseEnd::Deadline | LeaseEnd::Forced => {
            Rejection::LeaseLost { cause: last.end.cause(), at }
        }
        LeaseEnd::Completed { .. } | LeaseEnd::Failed(_) | LeaseEnd::Delayed { .. } | LeaseEnd::Children { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::*;
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::record::execution::EndCause;

    const VERBS: [Verb; 10] = [
        Verb::Renew,
        Verb::Progress,
        Verb::RecordSteps,
        Verb::Complete,
        Verb::Fail,
        Verb::Delay,
        Verb::WaitChildren,
        Verb::Cancel,
        Verb::SetTags,
        Verb::Spawn,
    ];

    /// A world in which an execution was claimed at 0 for 30 s, and its fence.
    fn claimed() -> (World, crate::ExecutionId, Fence) {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let fence = fence(&world.claim(id));
        (world, id, fence)
    }

    fn code(world: &World, id: crate::ExecutionId, fence: Fence, verb: Verb) -> &'static str {
        match pass(&world.execution(id), Some(fence), verb, world.now) {
            Ok(None) => "pass",
            Ok(Some(_)) => "repeat",
            Err(rejection) => rejection.code(),
        }
    }

    #[test]
    fn ex_21_expiry_is_exact() {
        let (mut world, id, fence) = claimed();
        for verb in VERBS {
            assert_eq!(code(world.at(29_999), id, fence, verb), "pass", "row 3");
        }
        let rejection = pass(&world.execution(id), Some(fence), Verb::Renew, Time::from_ms(30_000));
        assert_eq!(rejection, Err(Rejection::LeaseExpired { at: Time::from_ms(30_000) }), "row 4");
        world.at(31_000).scan();
        assert_eq!(world.run(renew(id, fence)), Err(Rejection::LeaseExpired { at: Time::from_ms(30_000) }), "row 6");
    }

    #[test]
    fn ex_20_both_halves_of_the_fence_are_compared() {
        let (mut world, id, fence) = claimed();
        let other_lease = Fence { lease: world.fresh_lease(), ..fence };
        for wrong in [other_lease, Fence { epoch: 0, ..fence }, Fence { epoch: 2, ..fence }] {
            for verb in VERBS {
                assert_eq!(code(&world, id, wrong, verb), "stale_lease", "row 10");
            }
        }
        world.run(delay(id, fence, 1_000)).unwrap();
        for wrong in [other_lease, Fence { epoch: 0, ..fence }, Fence { epoch: 2, ..fence }] {
            assert_eq!(code(&world, id, wrong, Verb::Delay), "execution_not_active", "row 12");
        }
    }

    #[test]
    fn ex_22_only_the_verb_that_ended_the_lease_is_repeated() {
        type Ended = (Verb, fn(crate::ExecutionId, Fence) -> Command);
        let ends: [Ended; 4] = [
            (Verb::Complete, |id, fence| complete(id, fence, None)),
            (Verb::Fail, fail),
            (Verb::Delay, |id, fence| delay(id, fence, 1_000)),
            (Verb::Cancel, |id, fence| Command::Cancel(Cancel { fence: Some(fence), ..cancel(id) })),
        ];
        for (ended_by, command) in ends {
            let (mut world, id, fence) = claimed();
            world.run(command(id, fence)).unwrap();
            for verb in VERBS {
                let expected = match (verb == ended_by, ended_by) {
                    (true, _) => "repeat",
                    (false, Verb::Complete) => "execution_terminal",
                    (false, Verb::Cancel) => "cancelled",
                    (false, _) => "execution_not_active",
                };
                assert_eq!(code(&world, id, fence, verb), expected, "{ended_by:?} then {verb:?}");
            }
        }
    }

    #[test]
    fn ex_61_a_holder_is_told_how_it_lost_the_lease() {
        type Ended = (fn(&mut World, crate::ExecutionId), &'static str);
        let ends: [Ended; 4] = [
            (|world, id| drop(world.run(Command::Cancel(cancel(id))).unwrap()), "cancelled"),
            (|world, id| drop(world.run(force_fail(id)).unwrap()), "lease_lost"),
            (
                |world, id| {
                    let revoke = Revoke { id, expected_epoch: None, reason: "mine".into(), hold: false };
                    drop(world.run(Command::Revoke(revoke)).unwrap());
                },
                "lease_revoked",
            ),
            (|world, _| drop(world.at(30_000).scan()), "lease_expired"),
        ];
        for (end, expected) in ends {
            let (mut world, id, fence) = claimed();
            end(&mut world, id);
            for verb in VERBS {
                assert_eq!(code(&world, id, fence, verb), expected);
            }
        }
    }

    #[test]
    fn ex_58_the_deadline_is_named_as_the_cause() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.deadline = Some(When::InMs(5_000)));
        let fence = fence(&world.claim(id));
        world.at(5_000).scan();
        let lost = Rejection::LeaseLost { cause: EndCause::Deadline, at: Time::from_ms(5_000) };
        assert_eq!(world.run(renew(id, fence)), Err(lost));
    }

    #[test]
    fn ex_9_another_namespace_reads_like_an_unknown_id() {
        let (mut world, id, fence) = claimed();
        let stranger = Principal::all("other", "eve");
        for command in [renew(id, fence), hold(id), Command::Cancel(cancel(id)), Command::Replay(replay(id))] {
            let call = Call { principal: stranger.clone(), ..crate::kit::calls::call(command) };
            assert_eq!(world.call(&call), Err(Rejection::ExecutionNotFound));
        }
        let unknown = world.unknown();
        assert_eq!(world.run(renew(unknown, fence)), Err(Rejection::ExecutionNotFound));
        assert_eq!(Stop::from(Rejection::ExecutionNotFound), Stop::Rejected(Rejection::ExecutionNotFound));
    }
}
