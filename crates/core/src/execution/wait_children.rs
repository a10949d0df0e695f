//! Waiting for children: the holder pauses its attempt until enough of them have ended. A wait that is decided already
//! is answered at once, so nobody sleeps on something that has happened.

use super::delay::refuse_if_cancelling;
use super::fence::{self, Verb};
use super::progress::{save_checkpoint, validate_checkpoint};
use super::settle::{self, Requeue};
use super::{children, emit, visible};
use crate::command::{ChildrenRule, Principal, WaitChildren};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::damaged;
use crate::id::ExecutionId;
use crate::limits::{FANOUT_PER_COMMIT, Limits, WAIT_CHILDREN_TIMEOUT_MS_MAX};
use crate::record::attempt::AttemptState;
use crate::record::execution::{ChildrenHold, Hold, LeaseEnd, Next, Outcome, State, Verdict};
use crate::record::{Execution, Key};
use crate::reply::{Children, Reply};
use crate::schema::PartMask;
use crate::text::check_range;
use crate::tx::{List, Stop, Tx};
use std::collections::BTreeSet;

pub fn validate(cmd: &WaitChildren, limits: &Limits) -> Result<(), Rejection> {
    if let Some(ids) = &cmd.children {
        if ids.len() > FANOUT_PER_COMMIT {
            return Err(Rejection::invalid("children", "names more than 1000"));
        }
        if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
            return Err(Rejection::invalid("children", "names one twice"));
        }
    }
    if let Some(ms) = cmd.timeout_ms {
        check_range("timeout_ms", ms, 0, WAIT_CHILDREN_TIMEOUT_MS_MAX)?;
    }
    validate_checkpoint(&cmd.checkpoint, limits)
}

pub fn wait_children(tx: &mut Tx<'_>, who: &Principal, cmd: &WaitChildren) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    if let Some(reply) = fence::admit(tx, &execution, cmd.fence, Verb::WaitChildren)? {
        return Ok(reply);
    }
    refuse_if_cancelling(tx, &execution)?;
    let found = match &cmd.children {
        Some(ids) => named(tx, &execution, ids)?,
        None => unfinished(tx, &execution)?,
    };
    if found.is_empty() {
        return Ok(Reply::Children(Children::Decided { verdict: Verdict::Met }));
    }
    let mut hold = ChildrenHold {
        children: found.iter().map(|(id, _)| *id).collect(),
        needed: needed(cmd.rule, found.len())?,
        met: 0,
        unmet: 0,
        timeout_at: cmd.timeout_ms.map(|ms| now + ms),
    };
    found.iter().filter_map(|(_, outcome)| *outcome).for_each(|outcome| children::count(&mut hold, outcome));
    if let Some(verdict) = children::verdict(&hold) {
        return Ok(Reply::Children(Children::Decided { verdict }));
    }
    let waiting = found.len() as u32 - hold.met - hold.unmet;
    save_checkpoint(&mut execution, &cmd.checkpoint, now);
    emit(tx, &execution, &who.name, Fact::WaitingChildren { waiting, needed: hold.needed });
    let requeue = Requeue {
        lease: LeaseEnd::Children { waiting },
        attempt: AttemptState::PausedByChildren,
        failure: None,
        hold: Some(Hold::Children(hold)),
        not_before: None,
        next: Next::Resume,
    };
    settle::requeue(tx, execution, requeue)?;
    Ok(Reply::Children(Children::Waiting { waiting, repeated: false }))
}

/// How many must succeed.
fn needed(rule: ChildrenRule, total: usize) -> Result<u32, Rejection> {
    let total = total as u32;
    Ok(match rule {
        ChildrenRule::AllOf => total,
        ChildrenRule::AnyOf => 1,
        ChildrenRule::Quorum(needed) => {
            check_range("rule", needed.into(), 1, total.into())?;
            needed
        }
    })
}

type Child = (ExecutionId, Option<Outcome>);

/// The named children, with the outcomes of those that have ended.
fn named(tx: &mut Tx<'_>, parent: &Execution, ids: &[ExecutionId]) -> Result<Vec<Child>, Stop> {
    // Children live with their parent; an id of another partition names none and is not even looked for.
    if let Some(id) = ids.iter().find(|id| id.partition() != parent.id.partition()) {
        return Err(Rejection::NotAChild { id: *id }.into());
    }
    load(tx, ids)?;
    let mut found = Vec::with_capacity(ids.len());
    let mut missing = false;
    for id in ids {
        match tx.find_execution(*id, PartMask::NONE) {
            Ok(Some(child)) if child.spec.parent == Some(parent.id) => found.push((*id, outcome(&child))),
            Ok(_) => return Err(Rejection::NotAChild { id: *id }.into()),
            Err(Stop::Rejected(rejection)) => match given_up(tx, parent, *id, rejection) {
                Ok(outcome) => found.push((*id, Some(outcome))),
                Err(Stop::Miss) => missing = true,
                Err(stop) => return Err(stop),
            },
            Err(Stop::Miss) => missing = true,
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(found) }
}

/// How a child counts that cannot be read: not at all, unless it was given up.
fn given_up(tx: &mut Tx<'_>, parent: &Execution, id: ExecutionId, unreadable: Rejection) -> Result<Outcome, Stop> {
    let stone = damaged::stone(tx, id)?.ok_or(unreadable)?;
    let is_child = match tx.remnant(&Key::Execution(id)).and_then(|remnant| remnant.parent) {
        Some(named) => named == parent.id,
        // Where its own word is lost, the index has it.
        None => damaged::is_listed(tx, List::Children(parent.id), id)?,
    };
    if is_child { Ok(stone.body.outcome) } else { Err(Rejection::NotAChild { id }.into()) }
}

/// All children that have not ended.
fn unfinished(tx: &mut Tx<'_>, parent: &Execution) -> Result<Vec<Child>, Stop> {
    if parent.hot.children == 0 {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let ids = tx.list(List::Children(parent.id), after)?;
        let page = &ids[..ids.len().min(FANOUT_PER_COMMIT)];
        load(tx, page)?;
        for id in page {
            match tx.find_execution(*id, PartMask::NONE) {
                Ok(Some(child)) if !child.is_done() => found.push((*id, None)),
                Ok(_) => {}
                // One that was given up has ended.
                Err(Stop::Rejected(rejection)) => {
                    damaged::stone(tx, *id)?.ok_or(rejection)?;
                }
                Err(Stop::Miss) => return Err(Stop::Miss),
            }
        }
        if found.len() > FANOUT_PER_COMMIT {
            return Err(Rejection::invalid("children", "are more than 1000; name those to wait for").into());
        }
        after = page.last().copied();
        if ids.len() <= FANOUT_PER_COMMIT {
            return Ok(found);
        }
    }
}

/// Asks for all of them together.
fn load(tx: &mut Tx<'_>, ids: &[ExecutionId]) -> Result<(), Stop> {
    let missing = ids.iter().fold(false, |missing, id| tx.prefetch(Key::Execution(*id), PartMask::NONE) | missing);
    if missing { Err(Stop::Miss) } else { Ok(()) }
}

fn outcome(child: &Execution) -> Option<Outcome> {
    match &child.hot.state {
        State::Done { outcome, .. } => Some(*outcome),
        _ => None,
    }
}
