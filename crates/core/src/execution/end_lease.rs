//! The end of a lease: its episode is closed, its time counted, and enough is kept to answer its holder's repeats.

use crate::record::attempt::{AttemptState, Failure};
use crate::record::execution::{Holds, LastLease, LeaseEnd, Next, State};
use crate::record::{Execution, Record};
use crate::time::Time;
use crate::tx::Tx;

/// Ends the lease of an Active execution; the holds that were parked count from now on. The caller gives it its next
/// state in the same commit.
pub(crate) fn end_lease(execution: &mut Execution, end: LeaseEnd, now: Time) -> Holds {
    // Never seen by anyone: `settle` or `finish` follows at once.
    let vacant = State::Ready { since: now, order: 0, next: Next::Resume };
    let State::Active { lease, timeout_due, parked, .. } = std::mem::replace(&mut execution.hot.state, vacant) else {
        panic!("end_lease: only Active has a lease");
    };
    // A lease that ran out was worth nothing from that moment on, whenever it is noticed.
    let at = if matches!(end, LeaseEnd::Expired) { lease.expires_at } else { now };
    let cause = end.cause();
    if let Some(open) = &mut execution.hot.open {
        open.active_ms += at.min(lease.expires_at).since(lease.acquired_at);
        open.timeout_left_ms = timeout_due.map(|due| due.since(now));
        if let Some(episode) = open.leases.last_mut() {
            episode.to = Some(at);
            episode.cause = Some(cause);
        }
    }
    if is_voluntary(&end) {
        execution.hot.reclaims_in_row = 0;
    }
    // Handed to the lease that ends here; a later one has nothing to do with it.
    execution.hot.waited = None;
    execution.hot.last_lease = Some(LastLease { id: lease.id, epoch: lease.epoch, at, end });
    parked
}

/// The worker let go by itself, so the losses before it are no longer in a row.
fn is_voluntary(end: &LeaseEnd) -> bool {
    matches!(
        end,
        LeaseEnd::Completed { .. } | LeaseEnd::Failed(_) | LeaseEnd::Delayed { .. } | LeaseEnd::Children { .. }
    )
}

/// Ends the running or paused attempt, which becomes a record of its own. Its number, if there was one.
pub(crate) fn close_attempt(
    tx: &mut Tx<'_>,
    execution: &mut Execution,
    state: AttemptState,
    failure: Option<Failure>,
) -> Option<u32> {
    let mut attempt = execution.hot.open.take()?;
    let index = attempt.index;
    attempt.state = state;
    attempt.ended_at = Some(tx.now());
    attempt.failure = failure;
    attempt.seal();
    tx.insert(Record::Attempt(Box::new(attempt)));
    Some(index)
}
