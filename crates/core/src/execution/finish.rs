//! The one way to end. Closes what is open, gives back what is held, arms retention, tells the parent that waits.

use super::{children, emit, end_lease};
use crate::event::Fact;
use crate::flow::summary;
use crate::record::attempt::{AttemptState, Failure};
use crate::record::continuation::{Body, Rest, Work};
use crate::record::execution::{Cancel, LeaseEnd, Outcome, Reason, State};
use crate::record::{Continuation, Execution, Key, Record};
use crate::schema::PartMask;
use crate::text::Text;
use crate::tx::{Stop, Tx};

/// How an execution ends.
pub(crate) struct End {
    pub outcome: Outcome,
    pub reason: Reason,
    pub by: Text,
    /// What becomes of the attempt that is running or paused.
    pub attempt: AttemptState,
    pub failure: Option<Failure>,
    /// What becomes of the lease, if somebody holds it.
    pub lease: LeaseEnd,
    /// Its children are to be cancelled, with this reason.
    pub cascade: Option<Text>,
}

impl End {
    /// The end that a requested cancel asks for.
    pub fn cancelled(cancel: &Cancel) -> End {
        End {
            outcome: Outcome::Cancelled,
            reason: cancel.why,
            by: cancel.by.clone(),
            attempt: AttemptState::Cancelled,
            failure: None,
            lease: LeaseEnd::Cancelled { reason: cancel.reason.clone(), by: cancel.by.clone() },
            cascade: cancel.cascade.then(|| cancel.reason.clone()),
        }
    }
}

/// Ends `execution` and writes it. `attempt` of the end is the attempt that was open, so that an execution which never
/// ran, or waited to run again, does not show the result of an earlier attempt as its own.
pub(crate) fn finish(tx: &mut Tx<'_>, mut execution: Execution, end: End) -> Result<(), Stop> {
    let now = tx.now();
    let cascade = end.cascade.filter(|_| execution.hot.children > 0);
    prefetch(tx, &execution, cascade.is_some())?;

    let from_state = execution.public_state();
    if matches!(execution.hot.state, State::Active { .. }) {
        end_lease::end_lease(&mut execution, end.lease, now);
    }
    let result_bytes = execution.hot.open.as_ref().and_then(|open| open.result_bytes());
    let (category, message) = match &end.failure {
        Some(failure) => (Some(failure.category.clone()), Some(failure.message.clone())),
        None => (None, None),
    };
    let attempt = end_lease::close_attempt(tx, &mut execution, end.attempt, end.failure);
    let hot = &mut execution.hot;
    hot.state = State::Done {
        outcome: end.outcome,
        reason: end.reason,
        by: end.by.clone(),
        at: now,
        attempt,
        purge_at: execution.spec.policy.retention_ms.map(|ms| now + ms),
    };
    hot.previous = None;
    hot.waited = None;
    hot.changed_at = now;
    let fact = Fact::Finished {
        outcome: end.outcome,
        reason: end.reason,
        attempt,
        attempts: hot.attempts,
        category,
        message,
        result_bytes,
        duration_ms: now.since(hot.created_at),
        from_state,
    };
    emit(tx, &execution, &end.by, fact);
    if let Some(reason) = cascade {
        owe_cancels(tx, &execution, reason, end.by)?;
    }
    children::tell_parent(tx, execution.id, execution.spec.parent, end.outcome)?;
    if execution.member().is_some() {
        tx.note_end(execution.id);
    }
    tx.put_execution(execution);
    Ok(())
}

/// Asks for everything at once that is not sure to be in memory.
fn prefetch(tx: &mut Tx<'_>, execution: &Execution, cascade: bool) -> Result<(), Stop> {
    let mut missing = false;
    if let Some(parent) = execution.spec.parent {
        missing |= tx.prefetch(Key::Execution(parent), PartMask::NONE);
    }
    if cascade {
        missing |= tx.prefetch(Key::Continuation(execution.id, Work::CancelChildren), PartMask::NONE);
    }
    missing |= summary::prefetch(tx, execution);
    if missing { Err(Stop::Miss) } else { Ok(()) }
}

/// Leaves the cancelling of the children to a continuation.
fn owe_cancels(tx: &mut Tx<'_>, execution: &Execution, reason: Text, by: Text) -> Result<(), Stop> {
    // One may be under way for an earlier end, before a replay; it begins again, which does no harm.
    tx.get(Key::Continuation(execution.id, Work::CancelChildren), PartMask::NONE)?;
    tx.put(Record::Continuation(Box::new(Continuation {
        owner: execution.id,
        body: Body {
            namespace: execution.spec.namespace.clone(),
            created_at: tx.now(),
            rest: Rest::CancelChildren { after: None, reason, by },
            trouble: None,
        },
    })));
    Ok(())
}
