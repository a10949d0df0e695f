//! What an operator does with parked items: lets them be tried again, or gives them up.

use super::trouble;
use crate::command::{DiscardParked, Principal, RetryParked};
use crate::error::Rejection;
use crate::flow::follow::Follow;
use crate::flow::{damaged, siblings};
use crate::id::PartitionId;
use crate::limits::REASON_MAX;
use crate::record::continuation::Work;
use crate::record::dead_letter::Why;
use crate::record::trouble::{Failing, GivenUp, Trouble};
use crate::record::{DeadLetter, Key, Record};
use crate::reply::{Reply, Retried};
use crate::schema::{PartMask, Timer};
use crate::text::{Text, check_text};
use crate::tx::{Stop, Tx};
use uuid::Uuid;

pub fn validate_discard(cmd: &DiscardParked) -> Result<(), Rejection> {
    if cmd.reason.is_empty() {
        return Err(Rejection::invalid("reason", "is empty"));
    }
    match check_text("reason", &cmd.reason, REASON_MAX) {
        Ok(()) => Ok(()),
        Err(_) => Err(Rejection::invalid("reason", "is longer than 1 KiB")),
    }
}

/// Makes a parked item due at once: drops its failures and removes its dead letter. For a record that did not decode,
/// also does the work that was skipped in the meantime.
pub fn retry_parked(tx: &mut Tx<'_>, who: &Principal, cmd: &RetryParked) -> Result<Reply, Stop> {
    let letter = letter(tx, who, cmd.partition, cmd.letter)?;
    let item = letter.item().filter(|_| letter.body.why != Why::Poison);
    // Any part may be the damaged one.
    let parts = if letter.body.why == Why::Damaged { PartMask::ALL } else { PartMask::NONE };
    let record = match item.map(|key| read(tx, key, parts)).transpose()?.unwrap_or(Ok(None)) {
        Ok(record) => record,
        Err(still) => return Ok(Reply::Retried(Retried::StillDamaged { error: still.to_string().into() })),
    };
    tx.delete(letter.key());
    let Some(mut record) = record else { return Ok(Reply::Retried(Retried::NothingLeft)) };
    may_touch(who, record.namespace())?;
    let timer = letter.body.timer;
    trouble::forget(&mut record, timer);
    match letter.body.why {
        Why::Failing | Why::Poison => trouble::put(tx, record),
        Why::Damaged => {
            tx.rearm(record.clone());
            match record {
                Record::Execution(execution) => damaged::catch_up(tx, &execution, timer)?,
                Record::Edge(edge) => {
                    if let Some(flow) = tx.find_flow(edge.body.flow)? {
                        may_touch(who, Some(&flow.definition.namespace))?;
                    }
                    damaged::catch_up_edge(tx, &edge)?;
                }
                _ => {}
            }
        }
    }
    Ok(Reply::Retried(Retried::Retried))
}

/// Removes a dead letter for good, and disarms its timer until it is armed anew. The record is otherwise not changed, with
/// two exceptions, so that a flow can finish: a live member that does not decode counts as failed from then on, and cancels
/// that a group owes its siblings are given up.
pub fn discard_parked(
    tx: &mut Tx<'_>,
    who: &Principal,
    cmd: &DiscardParked,
    follow: &mut Follow,
) -> Result<Reply, Stop> {
    let letter = letter(tx, who, cmd.partition, cmd.letter)?;
    if let Some(key) = letter.item().filter(|_| letter.body.why != Why::Poison) {
        match read(tx, key, PartMask::NONE)? {
            Ok(Some(record)) => {
                may_touch(who, record.namespace())?;
                give_up(tx, who, record, &letter, &cmd.reason)?;
            }
            Ok(None) => {}
            Err(_) => of_flow(tx, who, key, &letter, follow)?,
        }
    }
    tx.delete(letter.key());
    Ok(Reply::Noted)
}

/// The record of a parked item, or the error of one that does not decode. A record of a later version is not damaged: the
/// command is refused, and a node of that version handles the item.
fn read(tx: &mut Tx<'_>, key: Key, parts: PartMask) -> Result<Result<Option<Record>, Rejection>, Stop> {
    match tx.get(key, parts) {
        Ok(record) => Ok(Ok(record)),
        Err(Stop::Rejected(damage)) if !damage.is_of_later_version() => Ok(Err(damage)),
        Err(stop) => Err(stop),
    }
}

/// Removes the timers of the item from the due index until they are armed anew. Cancels that its groups owe are given up
/// for good: no timer settles them any more, and the flow would wait for them for ever.
fn give_up(
    tx: &mut Tx<'_>,
    who: &Principal,
    mut record: Record,
    letter: &DeadLetter,
    reason: &Text,
) -> Result<(), Stop> {
    let (body, at) = (&letter.body, tx.now());
    let of_letter = |timer: &Timer| match body.why {
        Why::Damaged => body.dropped.contains(timer),
        Why::Failing | Why::Poison => *timer == body.timer,
    };
    let settled = match &mut record {
        Record::Execution(execution) if of_letter(&Timer::GroupCancel) => siblings::give_up(tx, execution)?,
        _ => false,
    };
    let armed = record.timers().into_iter().filter(|due| of_letter(&due.timer));
    let mut account = record.trouble().cloned().unwrap_or_default();
    for due in armed.filter(|_| record.key().kind().keeps_account()) {
        let known = account.items.iter().position(|item| item.timer == due.timer).map(|at| account.items.remove(at));
        let item = known.unwrap_or_else(|| Failing {
            timer: due.timer,
            due: due.at,
            scanner: body.scanner.clone(),
            fails: body.fails,
            round: 0,
            next_try_at: at,
            first_at: body.parked_at,
            last_at: body.parked_at,
            last_error: body.error.clone(),
            parked: false,
            letter: None,
            given_up: None,
        });
        let given_up = Some(GivenUp { by: who.name.clone(), reason: reason.clone(), at });
        account.items.push(Failing { parked: false, letter: None, given_up, ..item });
    }
    let noted = record.trouble() != Some(&account) && account != Trouble::default();
    if noted {
        record.set_trouble(Some(account));
    }
    if noted || settled {
        trouble::put(tx, record);
    }
    Ok(())
}

/// What does not decode belongs to nobody in particular, unless it is known to be of a flow.
fn of_flow(tx: &mut Tx<'_>, who: &Principal, key: Key, letter: &DeadLetter, follow: &mut Follow) -> Result<(), Stop> {
    let named = match (letter.body.flow, key) {
        (Some(flow), _) => Some(flow),
        (None, Key::Execution(id) | Key::Continuation(id, _)) => trouble::flow_of(tx, id)?,
        (None, _) => None,
    };
    let Some(flow) = named.map(|id| tx.find_flow(id)).transpose()?.flatten() else { return Ok(()) };
    may_touch(who, Some(&flow.definition.namespace))?;
    match key {
        Key::Execution(id) => {
            let owes = letter.body.dropped.contains(&Timer::GroupCancel);
            damaged::give_up(tx, who, flow, id, owes, follow)
        }
        Key::Continuation(_, Work::Resolve | Work::Reopen) => {
            damaged::give_up_work(tx, flow, key);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The letter, if the caller may see it. An item of no known namespace is visible only to a caller without a namespace, who
/// acts for the whole deployment.
fn letter(tx: &mut Tx<'_>, who: &Principal, partition: PartitionId, uuid: Uuid) -> Result<DeadLetter, Stop> {
    match tx.get(Key::DeadLetter(partition, uuid), PartMask::NONE)? {
        Some(Record::DeadLetter(letter)) => {
            let namespace = letter.body.namespace.clone().unwrap_or_else(|| "".into());
            may_touch(who, Some(&namespace))?;
            Ok(*letter)
        }
        _ => Err(Rejection::DeadLetterNotFound.into()),
    }
}

/// Refuses a caller of another namespace. A caller of none acts for the whole deployment.
fn may_touch(who: &Principal, namespace: Option<&Text>) -> Result<(), Rejection> {
    match namespace {
        Some(namespace) if *namespace != who.namespace && !who.namespace.is_empty() => {
            Err(Rejection::DeadLetterNotFound)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command, DropEntry, Scopes};
    use crate::id::ParkedId;
    use crate::kit::{PARTITION, World};
    use crate::schema::execution as schema;
    use bytes::Bytes;

    /// A leased execution nothing of which decodes, and the bytes that it had.
    fn damaged(world: &mut World) -> (Key, Vec<(u8, Bytes)>, Uuid) {
        let id = world.submit(|_| {});
        world.claim(id);
        let (key, entry) = (Key::Execution(id), world.due.first().cloned().expect("the lease is due"));
        world.planted = true;
        let parts = &mut world.records.get_mut(&key).expect("submitted").parts;
        let good = [schema::HOT, schema::SPEC]
            .map(|part| (part, parts.insert(part, Bytes::from_static(b"\x01broken")).expect("every execution has it")));
        let drop = DropEntry {
            partition: PARTITION,
            entry: Some(entry),
            scanner: "lease_expiry".into(),
            error: "part `spec` does not decode".into(),
            poison: false,
        };
        let call = Call { principal: Principal::engine(), ..crate::kit::calls::call(Command::DropEntry(drop)) };
        world.call(&call).expect("parked");
        (key, good.to_vec(), trouble::letter_of(key))
    }

    fn by(namespace: &str, command: Command) -> Call {
        let principal = Principal::new(namespace, "ops", Scopes::OPERATE);
        Call { principal, ..crate::kit::calls::call(command) }
    }

    #[test]
    fn sr_83_an_item_of_no_known_namespace_is_restored_by_whoever_acts_for_the_whole_deployment() {
        let mut world = World::new();
        let (key, good, letter) = damaged(&mut world);
        let Some(Record::DeadLetter(found)) = world.record(Key::DeadLetter(PARTITION, letter)) else {
            panic!("a letter")
        };
        assert_eq!(found.body.namespace, None, "nothing says whose it is");
        let retry = || Command::RetryParked(RetryParked { letter, partition: PARTITION });
        let parts = &mut world.records.get_mut(&key).expect("its bytes stay").parts;
        parts.extend(good);
        assert_eq!(world.call(&by("shop", retry())), Err(Rejection::DeadLetterNotFound));
        assert_eq!(world.call(&by("", retry())), Ok(Reply::Retried(Retried::Retried)));
        world.at(60_000);
        assert_eq!(world.scan().len(), 1, "its lease runs out after all");
    }

    #[test]
    fn sr_81_the_audit_log_has_each_act_on_a_parked_item_with_its_id_and_reason() {
        let mut world = World::new();
        let (_, _, letter) = damaged(&mut world);
        let discard = DiscardParked { letter, partition: PARTITION, reason: "no copy is left".into() };
        let commands =
            [Command::RetryParked(RetryParked { letter, partition: PARTITION }), Command::DiscardParked(discard)];
        for command in commands {
            world.call(&by("", command.clone())).expect("it is there");
        }
        let told: Vec<(String, String)> = world
            .audit(PARTITION)
            .into_iter()
            .map(|entry| {
                let act = entry.body.act;
                (act.target.to_string(), format!("{} {}", act.verb, act.change))
            })
            .collect();
        let id = ParkedId::new(PARTITION, letter).to_string();
        let lines = ["retry_parked present", "discard_parked present → absent: no copy is left"];
        assert_eq!(told, lines.map(|line| (id.clone(), line.to_string())));
    }
}
