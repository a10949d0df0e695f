//! Where an execution that nobody owns stands: Ready, Delayed or Blocked. Every way into these three goes through here.

use super::end_lease;
use super::finish::{self, End};
use crate::error::Rejection;
use crate::flow::decide;
use crate::limits::POINT_MS;
use crate::planted::{self, Defect};
use crate::record::Execution;
use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{Hold, HoldKey, Holds, LeaseEnd, Next, State, Why};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// The place in the ready queue, smaller first: priority, then the time it became ready.
pub fn order(since: Time, priority: u32) -> i64 {
    since.as_i64() - i64::from(priority) * POINT_MS as i64
}

/// What an execution waits for before the next claim, and what that claim does.
pub(crate) struct Waits {
    pub holds: Holds,
    pub not_before: Option<(Time, Why)>,
    pub next: Next,
}

/// Decides the state of an execution that is neither owned nor ended.
pub(crate) fn settle(execution: &mut Execution, waits: Waits, now: Time) {
    let Waits { holds, not_before, next } = waits;
    let not_before = not_before.filter(|(at, _)| *at > now);
    execution.hot.state = match (holds.is_empty(), not_before) {
        (false, not_before) => {
            let since = match &execution.hot.state {
                State::Blocked { since, .. } => *since,
                _ => now,
            };
            State::Blocked { holds, not_before, since, next }
        }
        (true, Some((until, why))) => State::Delayed { until, why, next },
        (true, None) => State::Ready { since: now, order: order(now, execution.hot.priority), next },
    };
    execution.hot.changed_at = now;
}

/// What a Ready, Delayed or Blocked execution waits for; `None` for one that is owned or has ended.
pub(crate) fn waits(execution: &Execution) -> Option<Waits> {
    match &execution.hot.state {
        State::Ready { next, .. } => Some(Waits { holds: Holds::default(), not_before: None, next: next.clone() }),
        State::Delayed { until, why, next } => {
            Some(Waits { holds: Holds::default(), not_before: Some((*until, *why)), next: next.clone() })
        }
        State::Blocked { holds, not_before, next, .. } => {
            Some(Waits { holds: holds.clone(), not_before: *not_before, next: next.clone() })
        }
        State::Active { .. } | State::Done { .. } => None,
    }
}

/// Adds a hold: at once if nobody owns the execution, parked until then if somebody does. False if it was there.
pub(crate) fn place(execution: &mut Execution, hold: Hold, now: Time) -> bool {
    if let State::Active { parked, .. } = &mut execution.hot.state {
        return parked.insert(hold);
    }
    match waits(execution) {
        Some(mut waits) => {
            let added = waits.holds.insert(hold);
            if added {
                settle(execution, waits, now);
            }
            added
        }
        None => false,
    }
}

/// Lifts one hold and no other; a delay that is left stays as it is.
pub(crate) fn lift(execution: &mut Execution, key: HoldKey, now: Time) -> Option<Hold> {
    if let State::Active { parked, .. } = &mut execution.hot.state {
        return remove(parked, key);
    }
    let mut waits = waits(execution)?;
    let hold = remove(&mut waits.holds, key)?;
    settle(execution, waits, now);
    Some(hold)
}

fn remove(holds: &mut Holds, key: HoldKey) -> Option<Hold> {
    let hold = holds.remove(key);
    if planted::on(Defect::LiftingOneHoldLiftsAll) && hold.is_some() {
        holds.clear();
    }
    hold
}

/// How an owned execution goes back to waiting.
pub(crate) struct Requeue {
    pub lease: LeaseEnd,
    pub attempt: AttemptState,
    pub failure: Option<Failure>,
    pub hold: Option<Hold>,
    pub not_before: Option<(Time, Why)>,
    pub next: Next,
}

/// Ends the lease and settles; with a cancel requested the execution ends instead. True if it waits now.
pub(crate) fn requeue(tx: &mut Tx<'_>, mut execution: Execution, requeue: Requeue) -> Result<bool, Stop> {
    let now = tx.now();
    let Requeue { lease, attempt, failure, hold, not_before, next } = requeue;
    let State::Active { cancel, .. } = &execution.hot.state else {
        return Err(Rejection::internal("E2 only what is Active goes back to waiting").into());
    };
    if let Some(cancel) = cancel {
        let end = End { attempt, failure, lease, ..End::cancelled(cancel) };
        finish::finish(tx, execution, end)?;
        return Ok(false);
    }
    // A member whose flow lets nobody start again ends with the flow.
    if let Some(ending) = decide::closed_for(tx, &execution)? {
        let end = End { attempt, failure, lease, ..decide::cancelled(&ending) };
        finish::finish(tx, execution, end)?;
        return Ok(false);
    }
    let mut holds = end_lease::end_lease(&mut execution, lease, now);
    if let Some(hold) = hold {
        holds.insert(hold);
    }
    if attempt.is_final() {
        end_lease::close_attempt(tx, &mut execution, attempt, failure);
    } else if let Some(open) = &mut execution.hot.open {
        open.state = attempt;
    }
    settle(&mut execution, Waits { holds, not_before, next }, now);
    tx.put_execution(execution);
    Ok(true)
}

/// The hold of an operator.
pub(crate) fn operator_hold(by: &Text, reason: &Text, now: Time) -> Hold {
    Hold::Operator { by: by.clone(), reason: reason.clone(), at: now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::World;
    use crate::record::execution::ChildrenHold;

    const START: u64 = 1_000;

    fn blocked() -> Execution {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let mut execution = world.execution(id);
        let mut holds = Holds::default();
        holds.insert(operator_hold(&"op".into(), &"wait".into(), Time::ZERO));
        holds.insert(Hold::Children(ChildrenHold {
            children: [id].into(),
            needed: 1,
            met: 0,
            unmet: 0,
            timeout_at: None,
        }));
        let not_before = Some((Time::from_ms(START), Why::Start));
        settle(&mut execution, Waits { holds, not_before, next: Next::First }, Time::ZERO);
        execution
    }

    /// Something that keeps an execution from running.
    #[derive(Clone, Copy, PartialEq)]
    enum Bar {
        Operator,
        Children,
        Delay,
    }

    #[test]
    fn ex_14_hold_children_and_delay_are_lifted_one_by_one_in_all_six_orders() {
        use Bar::*;
        let orders = [
            [Operator, Children, Delay],
            [Operator, Delay, Children],
            [Children, Operator, Delay],
            [Children, Delay, Operator],
            [Delay, Operator, Children],
            [Delay, Children, Operator],
        ];
        for order in orders {
            let mut execution = blocked();
            let mut now = Time::ZERO;
            for (lifted, bar) in order.into_iter().enumerate() {
                assert!(!matches!(execution.hot.state, State::Ready { .. }));
                match bar {
                    Operator => assert!(lift(&mut execution, HoldKey::Operator, now).is_some()),
                    Children => assert!(lift(&mut execution, HoldKey::Children, now).is_some()),
                    Delay => {
                        now = Time::from_ms(START);
                        if let (State::Delayed { until, .. }, Some(waits)) = (&execution.hot.state, waits(&execution)) {
                            assert_eq!(*until, now, "a delay is never shortened");
                            settle(&mut execution, waits, now);
                        }
                    }
                }
                let ready = matches!(execution.hot.state, State::Ready { .. });
                assert_eq!(ready, lifted == 2, "ready only when all three are gone");
            }
        }
    }

    #[test]
    fn ex_13_a_delay_that_is_over_is_not_kept_in_blocked() {
        let mut execution = blocked();
        let waits = waits(&execution).unwrap();
        settle(&mut execution, waits, Time::from_ms(START));
        assert!(matches!(execution.hot.state, State::Blocked { not_before: None, since: Time::ZERO, .. }));
    }

    #[test]
    fn sd_9_priority_comes_before_time_and_time_before_nothing() {
        let at = Time::from_ms;
        assert!(order(at(5_000), 1) < order(at(1), 0));
        assert!(order(at(1), 7) < order(at(2), 7));
        assert!(order(at(2_000_000_000_000), 9000) > i64::MIN / 2);
        assert!(order(at(2_000_000_000_000), 9000).unsigned_abs() < 1 << 53, "fits an exact double");
    }

    #[test]
    fn ex_15_a_second_hold_keeps_the_first() {
        let mut execution = blocked();
        let second = operator_hold(&"other".into(), &"more".into(), Time::ZERO);
        assert!(!place(&mut execution, second, Time::ZERO));
        let State::Blocked { holds, .. } = &execution.hot.state else { panic!("still blocked") };
        assert_eq!(holds.get(HoldKey::Operator), Some(&operator_hold(&"op".into(), &"wait".into(), Time::ZERO)));
    }
}
