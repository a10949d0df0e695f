//! Waiting for children: when the wait is decided, and how a child that ends, or is replayed, tells its parent.

use super::{emit, settle};
use crate::event::Fact;
use crate::id::ExecutionId;
use crate::record::Execution;
use crate::record::execution::{ChildrenHold, Hold, HoldKey, Outcome, State, Verdict, Waited};
use crate::schema::PartMask;
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// `None` while both verdicts are still possible.
pub(crate) fn verdict(hold: &ChildrenHold) -> Option<Verdict> {
    let total = hold.children.len() as u32;
    if hold.met >= hold.needed {
        Some(Verdict::Met)
    } else if hold.unmet > total - hold.needed {
        Some(Verdict::Impossible)
    } else {
        None
    }
}

/// Counts an outcome. Every child that is Done is counted exactly once: when the wait begins, or when it ends.
pub(crate) fn count(hold: &mut ChildrenHold, outcome: Outcome) {
    match outcome {
        Outcome::Success => hold.met += 1,
        _ => hold.unmet += 1,
    }
}

/// In the commit in which `child` ends: a parent that waits for it counts it, and resumes if that decides its wait.
pub(crate) fn tell_parent(
    tx: &mut Tx<'_>,
    child: ExecutionId,
    parent: Option<ExecutionId>,
    outcome: Outcome,
) -> Result<(), Stop> {
    let Some(mut parent) = waiting_parent(tx, child, parent)? else { return Ok(()) };
    let Some(hold) = children_hold(&mut parent) else { return Ok(()) };
    count(hold, outcome);
    if let Some(verdict) = verdict(hold) {
        let now = tx.now();
        decide(&mut parent, verdict, now);
        let by = Text::from(child.to_string());
        emit(tx, &parent, &by, Fact::HoldLifted { hold: "children".into() });
    }
    tx.put_execution(parent);
    Ok(())
}

/// In the commit in which a child that had ended is replayed: it is no longer counted.
pub(crate) fn retract(tx: &mut Tx<'_>, child: &Execution, outcome: Outcome) -> Result<(), Stop> {
    let Some(mut parent) = waiting_parent(tx, child.id, child.spec.parent)? else { return Ok(()) };
    let Some(hold) = children_hold(&mut parent) else { return Ok(()) };
    match outcome {
        Outcome::Success => hold.met = hold.met.saturating_sub(1),
        _ => hold.unmet = hold.unmet.saturating_sub(1),
    }
    tx.put_execution(parent);
    Ok(())
}

/// Lifts the hold of a decided wait; the claim that resumes hands the verdict over.
pub(crate) fn decide(parent: &mut Execution, verdict: Verdict, now: Time) {
    if let Some(Hold::Children(hold)) = settle::lift(parent, HoldKey::Children, now) {
        parent.hot.waited = Some(Waited { verdict, children: hold.children });
    }
}

/// The parent, if it waits for this child. One that is gone or damaged waits for nothing, and stops no child of its.
fn waiting_parent(tx: &mut Tx<'_>, child: ExecutionId, parent: Option<ExecutionId>) -> Result<Option<Execution>, Stop> {
    let Some(parent) = parent else { return Ok(None) };
    let parent = match tx.find_execution(parent, PartMask::NONE) {
        Ok(Some(parent)) => parent,
        Ok(None) | Err(Stop::Rejected(_)) => return Ok(None),
        Err(Stop::Miss) => return Err(Stop::Miss),
    };
    let waits = match &parent.hot.state {
        State::Blocked { holds, .. } => match holds.get(HoldKey::Children) {
            Some(Hold::Children(hold)) => hold.children.contains(&child),
            _ => false,
        },
        _ => false,
    };
    Ok(waits.then_some(parent))
}

fn children_hold(parent: &mut Execution) -> Option<&mut ChildrenHold> {
    match &mut parent.hot.state {
        State::Blocked { holds, .. } => match holds.get_mut(HoldKey::Children) {
            Some(Hold::Children(hold)) => Some(hold),
            _ => None,
        },
        _ => None,
    }
}
