//! Timers and left-over work. An entry of the due index is only a hint: the record, as it is in this commit, decides
//! whether it still has that timer and whether it is due.

use super::fail::{self, Failing};
use super::finish::{self, End};
use super::{cancel, children, emit, lose, purge, settle, trouble};
use crate::change::DueEntry;
use crate::command::{Expire, Principal, RetryWish};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::follow::Follow;
use crate::flow::{cancel_flow, purge_flow, reopen, resolve, seal, siblings};
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{LeaseEnd, Outcome, Reason, State, Verdict};
use crate::record::{Content, Execution, Flow, Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::{Due, PartMask, Timer};
use crate::text::Text;
use crate::tx::{Stop, Tx};
use crate::worker::reap;

/// Fires the timer if the record has it armed and due. Firing it twice is harmless: the second finds it gone.
pub fn expire(tx: &mut Tx<'_>, who: &Principal, cmd: &Expire, follow: &mut Follow) -> Result<Reply, Stop> {
    let key = cmd.key.expect("expire: the engine names the record");
    let hint = Due { timer: cmd.timer, at: cmd.due };
    let Some(record) = armed(tx, key, hint)? else { return Ok(Reply::Expired(Expired::Stale)) };
    let expired = match record {
        Record::Execution(execution) if cmd.timer == Timer::GroupCancel => siblings::go_on(tx, execution.id, follow)?,
        Record::Execution(execution) => fire(tx, *execution, cmd, &who.name)?,
        Record::Dedup(_) | Record::DeadLetter(_) | Record::Node(_) | Record::Audit(_) => {
            tx.delete(key);
            Expired::Fired
        }
        Record::Continuation(continuation) => match cmd.timer {
            Timer::Purge => purge::go_on(tx, *continuation)?,
            Timer::Resolve => resolve::go_on(tx, *continuation, follow)?,
            Timer::Reopen => reopen::go_on(tx, *continuation, follow)?,
            _ => cancel::go_on(tx, *continuation)?,
        },
        Record::Worker(worker) => match cmd.timer {
            Timer::Worker => reap::reap(tx, *worker, &who.name),
            _ => reap::postpone(tx, *worker),
        },
        Record::Flow(flow) => fire_flow(tx, *flow, cmd.timer, &who.name, follow)?,
        Record::BulkJob(_) if cmd.timer == Timer::Retention => {
            tx.delete(key);
            Expired::Fired
        }
        Record::BulkJob(_) => return Err(Rejection::internal("E11 a bulk job goes on by a command of its own").into()),
        Record::Attempt(_)
        | Record::Step(_)
        | Record::ApiKey(_)
        | Record::Register(_)
        | Record::Edge(_)
        | Record::Tombstone(_) => {
            return Err(Rejection::internal("E11 records of this kind have no timers").into());
        }
    };
    trouble::succeeded(tx, key, cmd.timer)?;
    Ok(Reply::Expired(expired))
}

/// The record, if it has the timer armed and due.
pub(crate) fn armed(tx: &mut Tx<'_>, key: Key, hint: Due) -> Result<Option<Record>, Stop> {
    let record = tx.get(key, PartMask::NONE)?;
    let armed = record.as_ref().and_then(|record| record.due().into_iter().find(|due| due.timer == hint.timer));
    // An entry that the record does not have is removed; the one it has goes or moves with the record itself.
    if armed != Some(hint) {
        tx.drop_due(DueEntry::new(hint, key));
    }
    let due = armed.is_some_and(|armed| armed.at <= tx.now());
    Ok(record.filter(|_| due))
}

fn fire(tx: &mut Tx<'_>, mut execution: Execution, cmd: &Expire, by: &Text) -> Result<Expired, Stop> {
    let now = tx.now();
    match cmd.timer {
        Timer::Lease => lose::lose(tx, execution, by, LeaseEnd::Expired)?,
        Timer::AttemptTimeout => {
            let failing = Failing {
                category: "timeout".into(),
                message: "the attempt ran longer than its timeout".into(),
                detail: Content::Absent,
                wish: RetryWish::Policy,
                entropy: cmd.entropy,
                timed_out: true,
            };
            fail::after_failure(tx, execution, failing, by)?;
        }
        Timer::Deadline => match unfinished_flow(tx, &execution)? {
            Some(flow) => never_whole(tx, execution, flow),
            None => deadline(tx, execution, by)?,
        },
        Timer::Until => {
            let waits = settle::waits(&execution).ok_or(Rejection::internal("E11 only Delayed waits for a time"))?;
            settle::settle(&mut execution, waits, now);
            tx.put_execution(execution);
        }
        Timer::CancelGrace => {
            let State::Active { cancel: Some(cancel), .. } = &execution.hot.state else {
                return Err(Rejection::internal("E11 a grace time belongs to a requested cancel").into());
            };
            let end = End::cancelled(cancel);
            finish::finish(tx, execution, end)?;
        }
        Timer::ChildrenTimeout => {
            children::decide(&mut execution, Verdict::Timeout, now);
            emit(tx, &execution, by, Fact::HoldLifted { hold: "children".into() });
            tx.put_execution(execution);
        }
        Timer::Retention => purge::by_time(tx, execution, by)?,
        Timer::Purge | Timer::CancelChildren | Timer::Bulk | Timer::Resolve | Timer::Reopen | Timer::GroupCancel => {
            return Err(Rejection::internal("E11 left-over work belongs to a continuation").into());
        }
        Timer::Worker | Timer::WorkerLeases => {
            return Err(Rejection::internal("E11 these timers belong to a worker").into());
        }
        Timer::SealBy
        | Timer::FlowSeal
        | Timer::FlowEnding
        | Timer::FlowVerify
        | Timer::DependencyAudit
        | Timer::FlowPurge => return Err(Rejection::internal("E11 these timers belong to a flow").into()),
    }
    Ok(Expired::Fired)
}

fn fire_flow(tx: &mut Tx<'_>, flow: Flow, timer: Timer, by: &Text, follow: &mut Follow) -> Result<Expired, Stop> {
    match timer {
        Timer::SealBy | Timer::Deadline => cancel_flow::by_time(tx, flow, by, timer, follow),
        Timer::FlowSeal => seal::go_on(tx, flow, follow),
        Timer::FlowEnding => cancel_flow::go_on(tx, flow, follow),
        Timer::FlowPurge => purge_flow::go_on(tx, flow, by),
        Timer::Retention => {
            purge_flow::begin(tx, flow, by);
            Ok(Expired::Fired)
        }
        _ => Err(Rejection::internal("E11 a flow goes on by a command of its own").into()),
    }
}

/// The flow of a member, if it is not whole yet.
fn unfinished_flow(tx: &mut Tx<'_>, execution: &Execution) -> Result<Option<Flow>, Stop> {
    let Some(member) = execution.member() else { return Ok(None) };
    Ok(Some(tx.flow_of(member.flow)?).filter(|flow| flow.hot.building.is_some()))
}

/// A member may not end before all edges are there that its end resolves, so the graph can no longer become what was asked
/// for: what is there of it goes.
fn never_whole(tx: &mut Tx<'_>, mut execution: Execution, flow: Flow) {
    if flow.hot.purging.is_none() {
        purge_flow::give_up(tx, flow);
    }
    // It goes with the flow, and is not met again until then.
    execution.hot.deadline_at = None;
    tx.put_execution(execution);
}

/// Ends it because its deadline is reached, whatever state it is in.
pub(super) fn deadline(tx: &mut Tx<'_>, execution: Execution, by: &Text) -> Result<(), Stop> {
    let failure = Failure {
        category: "deadline".into(),
        message: "the deadline was reached".into(),
        retry_at: None,
        detail: Content::Absent,
    };
    let end = End {
        outcome: Outcome::Expired,
        reason: Reason::Deadline,
        by: by.clone(),
        attempt: AttemptState::Failed,
        failure: Some(failure),
        lease: LeaseEnd::Deadline,
        cascade: None,
    };
    finish::finish(tx, execution, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, When};
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::time::Time;

    #[test]
    fn ex_60_a_timer_that_moved_is_stale_and_fires_in_its_own_time() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        world.at(20_000).run(renew(id, held)).unwrap();
        let key = Key::Execution(id);
        world.at(30_000);
        let stale = Ok(Reply::Expired(Expired::Stale));
        assert_eq!(world.expire(key, Timer::Lease, Time::from_ms(30_000)), stale);
        assert_eq!(world.expire(key, Timer::Lease, Time::from_ms(50_000)), stale, "not due yet");
        assert_eq!(world.expire(key, Timer::Until, Time::from_ms(30_000)), stale, "not armed");
        assert!(world.execution(id).lease().is_some());
        assert_eq!(world.at(50_000).scan(), [(Timer::Lease, key, Expired::Fired)]);
        assert_eq!(world.expire(key, Timer::Lease, Time::from_ms(50_000)), stale, "firing consumes it");
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }

    #[test]
    fn sr_27_an_entry_whose_record_is_gone_is_removed() {
        let mut world = World::new();
        let key = Key::Execution(world.unknown());
        let due = Due { timer: Timer::Lease, at: Time::from_ms(1) };
        world.due.insert(DueEntry::new(due, key));
        assert_eq!(world.at(5).scan(), [(Timer::Lease, key, Expired::Stale)]);
        assert!(world.due.is_empty());
    }

    #[test]
    fn ex_60_many_leases_that_end_together_are_all_requeued() {
        let mut world = World::new();
        let ids: Vec<_> = (0..300).map(|_| world.submit(|_| {})).collect();
        ids.iter().for_each(|id| drop(world.claim(*id)));
        assert_eq!(world.at(30_000).scan().len(), 300);
        assert!(ids.iter().all(|id| world.execution(*id).public_state().name() == "waiting"));
    }

    #[test]
    fn ex_57_a_timeout_without_a_retry_left_expires_it() {
        let mut world = World::new();
        let id = world.submit(|cmd| {
            cmd.policy.attempt_timeout_ms = Some(1_000);
            cmd.policy.retry.max_retries = 0;
        });
        world.claim(id);
        world.at(1_000).scan();
        let State::Done { outcome, reason, .. } = world.execution(id).hot.state else { panic!("it has ended") };
        assert_eq!((outcome, reason), (Outcome::Expired, Reason::AttemptTimeout));
        assert_eq!(world.attempt(id, 0).failure.map(|failure| failure.category), Some("timeout".into()));
    }

    #[test]
    fn ex_59_either_order_of_timer_and_call_ends_alike() {
        let build = || {
            let mut world = World::new();
            let id = world.submit(|cmd| cmd.start = Some(When::InMs(1_000)));
            world.at(1_000);
            (world, id)
        };
        let (mut timer_first, id) = build();
        timer_first.scan();
        timer_first.run(hold(id)).unwrap();
        let (mut hold_first, id) = build();
        hold_first.run(hold(id)).unwrap();
        hold_first.scan();
        assert_eq!(timer_first.execution(id).hot, hold_first.execution(id).hot);
    }

    #[test]
    fn ex_10_only_the_engine_fires_timers() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let expire = Expire { key: Some(Key::Execution(id)), timer: Timer::Lease, due: Time::ZERO, entropy: 0 };
        let refused = world.run(Command::Expire(expire));
        assert_eq!(refused, Err(Rejection::Forbidden { needs: "engine" }));
    }
}
