//! What an operator does with parked items: lets them be tried again, or gives them up.

use super::trouble;
use crate::command::{DiscardParked, Principal, RetryParked};
use crate::error::Rejection;
use crate::flow::damaged;
use crate::flow::follow::Follow;
use crate::id::PartitionId;
use crate::limits::REASON_MAX;
use crate::record::continuation::Work;
use crate::record::trouble::{Failing, Trouble};
use crate::record::{DeadLetter, Key, Record};
use crate::reply::Reply;
use crate::schema::{Due, PartMask, Timer};
use crate::text::{Text, check_text};
use crate::time::Time;
use crate::tx::{Stop, Tx};
use uuid::Uuid;

pub fn validate_discard(cmd: &DiscardParked) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

/// Clears the tracking of a parked item, which is then due at once, and removes its dead letter. What was passed by while
/// its record did not decode is caught up with.
pub fn retry_parked(tx: &mut Tx<'_>, who: &Principal, cmd: &RetryParked) -> Result<Reply, Stop> {
    let letter = letter(tx, cmd.partition, cmd.letter)?;
    let record = match item(&letter) {
        Some(key) => tx.get(key, PartMask::NONE)?,
        None => None,
    };
    let (timer, now) = (letter.body.timer, tx.now());
    match record {
        Some(Record::Execution(mut execution)) => {
            may_touch(who, &execution.spec.namespace)?;
            let armed = execution.timers().into_iter().find(|due| due.timer == timer);
            let trouble = let_go(execution.trouble().cloned(), armed, timer, &letter, now);
            execution.set_trouble(trouble);
            tx.put_execution((*execution).clone());
            damaged::catch_up(tx, &execution, timer)?;
        }
        Some(Record::Continuation(mut continuation)) => {
            may_touch(who, &continuation.body.namespace)?;
            let armed = Some(Due { timer, at: continuation.body.created_at });
            let trouble = continuation.body.trouble.take();
            continuation.body.trouble = let_go(trouble, armed, timer, &letter, now);
            tx.put(Record::Continuation(continuation));
        }
        Some(Record::Flow(mut flow)) => {
            may_touch(who, &flow.definition.namespace)?;
            let armed = flow.timers().into_iter().find(|due| due.timer == timer);
            let trouble = let_go(flow.trouble().cloned(), armed, timer, &letter, now);
            flow.set_trouble(trouble);
            tx.put_flow(*flow);
        }
        Some(Record::BulkJob(mut job)) => {
            may_touch(who, &job.definition().namespace)?;
            let armed = job.timers().into_iter().find(|due| due.timer == timer);
            let trouble = job.trouble_mut().take();
            *job.trouble_mut() = let_go(trouble, armed, timer, &letter, now);
            tx.put(Record::BulkJob(job));
        }
        Some(Record::Edge(edge)) => {
            if let Some(flow) = tx.find_flow(edge.body.flow)? {
                may_touch(who, &flow.definition.namespace)?;
            }
            damaged::catch_up_edge(tx, &edge)?;
        }
        _ => {}
    }
    tx.delete(letter.key());
    Ok(Reply::Noted)
}

/// The tracking without this item. An entry that was dropped although the record has the timer, because the record did
/// not decode then, comes back by a first try that is due now.
fn let_go(
    trouble: Option<Trouble>,
    armed: Option<Due>,
    timer: Timer,
    letter: &DeadLetter,
    now: Time,
) -> Option<Trouble> {
    let mut trouble = trouble.unwrap_or_default();
    let tracked = trouble.items.iter().any(|item| item.timer == timer);
    trouble.items.retain(|item| item.timer != timer);
    if let (false, Some(due)) = (tracked, armed) {
        trouble.items.push(Failing {
            timer,
            scanner: letter.body.scanner.clone(),
            fails: 0,
            round: 0,
            next_try_at: now.max(due.at + 1),
            first_at: letter.body.parked_at,
            last_at: letter.body.parked_at,
            last_error: letter.body.error.clone(),
            parked: false,
            letter: None,
        });
    }
    Some(trouble).filter(|trouble| !trouble.items.is_empty())
}

/// Removes a dead letter for good. The record it is about is not changed; but a live member of a flow that cannot be read
/// has failed from here on, so that its flow can finish.
pub fn discard_parked(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &DiscardParked,
    follow: &mut Follow,
) -> Result<Reply, Stop> {
    let letter = letter(tx, cmd.partition, cmd.letter)?;
    if let Some(key) = item(&letter) {
        match tx.get(key, PartMask::NONE) {
            Ok(Some(Record::Execution(execution))) => may_touch(who, &execution.spec.namespace)?,
            Ok(Some(Record::Continuation(work))) => may_touch(who, &work.body.namespace)?,
            Ok(Some(Record::BulkJob(job))) => may_touch(who, &job.definition().namespace)?,
            Ok(Some(Record::Flow(flow))) => may_touch(who, &flow.definition.namespace)?,
            Ok(_) => {}
            Err(Stop::Rejected(_)) => of_flow(tx, who, key, &letter, follow)?,
            Err(Stop::Miss) => return Err(Stop::Miss),
        }
    }
    tx.delete(letter.key());
    Ok(Reply::Noted)
}

/// What does not decode belongs to nobody in particular, unless it is known to be of a flow.
fn of_flow(tx: &mut Tx<'_>, who: &Principal, key: Key, letter: &DeadLetter, follow: &mut Follow) -> Result<(), Stop> {
    let named = match (letter.body.flow, key) {
        (Some(flow), _) => Some(flow),
        (None, Key::Execution(id) | Key::Continuation(id, _)) => trouble::flow_of(tx, id)?,
        (None, _) => None,
    };
    let Some(flow) = named.map(|id| tx.find_flow(id)).transpose()?.flatten() else { return Ok(()) };
    may_touch(who, &flow.definition.namespace)?;
    match key {
        Key::Execution(id) => {
            // Siblings of a group that owes are parked under the same timer, but not for an entry of their own.
            let owes = letter.body.timer == Timer::GroupCancel && letter.uuid != trouble::letter_of(key);
            damaged::give_up(tx, who, flow, id, owes, follow)
        }
        Key::Continuation(_, Work::Resolve | Work::Reopen) => {
            damaged::give_up_work(tx, flow, key);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The record that the letter is about.
fn item(letter: &DeadLetter) -> Option<Key> {
    letter.body.item_kind().and_then(|kind| Key::from_bytes(letter.partition, kind, &letter.body.key))
}

fn letter(tx: &mut Tx<'_>, partition: PartitionId, uuid: Uuid) -> Result<DeadLetter, Stop> {
    match tx.get(Key::DeadLetter(partition, uuid), PartMask::NONE)? {
        Some(Record::DeadLetter(letter)) => Ok(*letter),
        _ => Err(Rejection::DeadLetterNotFound.into()),
    }
}

fn may_touch(who: &Principal, namespace: &Text) -> Result<(), Rejection> {
    if *namespace == who.namespace || who.is_engine() { Ok(()) } else { Err(Rejection::DeadLetterNotFound) }
}
