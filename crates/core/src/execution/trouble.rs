//! Failures of scanners on an item: counted on the item, backed off, and parked in the end.

use crate::change::DueEntry;
use crate::command::{DropEntry, Principal, RecordTrouble};
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::flow::damaged;
use crate::id::{ExecutionId, FlowId, PartitionId};
use crate::limits::*;
use crate::record::dead_letter::{Body, Why};
use crate::record::trouble::{Failing, Trouble};
use crate::record::{DeadLetter, Key, Record};
use crate::reply::Reply;
use crate::schema::{Due, Kind, PartMask, Timer};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};
use bytes::Bytes;
use uuid::Uuid;

/// Counts a failure of a scanner on a timer of a record. Counts nothing for a timer that the record no longer has, or
/// has at another time, nor for kinds of records that keep no account of failures.
pub fn record_trouble(tx: &mut Tx<'_>, who: &Principal, cmd: &RecordTrouble) -> Result<Reply, Stop> {
    let key = cmd.key.expect("record_trouble: the engine names the record");
    let hint = Due { timer: cmd.timer, at: cmd.due };
    let Some(mut record) = tx.get(key, PartMask::NONE)?.filter(|record| record.due().contains(&hint)) else {
        tx.drop_due(DueEntry::new(hint, key));
        return Ok(Reply::Noted);
    };
    let armed = record.timers().into_iter().find(|due| due.timer == cmd.timer);
    let Some(armed) = armed.filter(|_| key.kind().keeps_account()) else { return Ok(Reply::Noted) };
    let mut trouble = record.trouble().cloned().unwrap_or_default();
    let was_parked = trouble.get(cmd.timer).is_some_and(|item| item.parked);
    let failing = failed(&mut trouble, cmd, armed.at, tx.now()).clone();
    if let Some(letter) = failing.letter {
        park(tx, &record, letter, cmd, &failing)?;
        if !was_parked {
            let event = about(tx, &record, who, cmd, &failing)?;
            tx.emit(event);
        }
    }
    record.set_trouble(Some(trouble));
    put(tx, record);
    Ok(Reply::Failing(Box::new(failing)))
}

/// Writes a record by the setter of its kind.
pub(crate) fn put(tx: &mut Tx<'_>, record: Record) {
    match record {
        Record::Execution(execution) => tx.put_execution(*execution),
        Record::Flow(flow) => tx.put_flow(*flow),
        other => tx.put(other),
    }
}

/// Counts one failure of the timer that is due at `due` by what its record says.
fn failed<'t>(trouble: &'t mut Trouble, cmd: &RecordTrouble, due: Time, now: Time) -> &'t Failing {
    let at = match trouble.items.iter().position(|item| item.timer == cmd.timer) {
        Some(at) => at,
        None => {
            trouble.items.push(Failing {
                timer: cmd.timer,
                due,
                scanner: cmd.scanner.clone(),
                fails: 0,
                round: 0,
                next_try_at: now,
                first_at: now,
                last_at: now,
                last_error: "".into(),
                parked: false,
                letter: None,
                given_up: None,
            });
            trouble.items.len() - 1
        }
    };
    let item = &mut trouble.items[at];
    item.fails += 1;
    item.last_at = now;
    item.last_error = cut(&cmd.error);
    item.scanner = cmd.scanner.clone();
    if item.parked {
        item.next_try_at = now + TROUBLE_PAUSE_MAX_MS;
    } else if !item.fails.is_multiple_of(FAIL_THRESHOLD) {
        item.next_try_at = now + cmd.interval_ms;
    } else if item.round == BACKOFF_ROUNDS {
        item.parked = true;
        item.letter = Some(cmd.fresh);
        item.next_try_at = now + TROUBLE_PAUSE_MAX_MS;
    } else {
        let pause_ms = (cmd.interval_ms.saturating_mul(BACKOFF_CYCLES) << item.round).min(TROUBLE_PAUSE_MAX_MS);
        item.next_try_at = now + pause_ms.max(cmd.interval_ms);
        item.round += 1;
    }
    item
}

/// An error may be of any length; what is kept on the record is not.
fn cut(error: &Text) -> Text {
    match error.char_indices().map(|(at, _)| at).find(|at| *at > TROUBLE_ERROR_MAX - 4) {
        Some(end) => Text::from(&error[..end]),
        None => error.clone(),
    }
}

fn about(
    tx: &mut Tx<'_>,
    record: &Record,
    who: &Principal,
    cmd: &RecordTrouble,
    failing: &Failing,
) -> Result<Event, Stop> {
    let blank: Text = "".into();
    let (execution, lane, kind, epoch) = match record {
        Record::Execution(it) => (Some(it.id), it.spec.lane.clone(), it.spec.kind.clone(), it.hot.epoch),
        Record::Flow(flow) => (None, blank, flow.definition.kind.clone(), 0),
        Record::Continuation(work) => (Some(work.owner), blank.clone(), blank, 0),
        _ => (None, blank.clone(), blank, 0),
    };
    let fact = Fact::ScannerParked {
        scanner: cmd.scanner.clone(),
        timer: cmd.timer,
        failures: failing.fails,
        error: failing.last_error.clone(),
    };
    Ok(Event {
        at: tx.now(),
        execution,
        flow: flow_of_record(tx, record)?,
        namespace: record.namespace().cloned().unwrap_or_else(|| "".into()),
        lane,
        kind,
        epoch,
        by: who.name.clone(),
        fact,
    })
}

fn flow_of_record(tx: &mut Tx<'_>, record: &Record) -> Result<Option<FlowId>, Stop> {
    Ok(match record {
        Record::Execution(execution) => execution.member().map(|member| member.flow),
        Record::Flow(flow) => Some(flow.id),
        Record::Continuation(continuation) => flow_of(tx, continuation.owner)?,
        _ => None,
    })
}

/// The flow of an execution, if it can be told.
pub(crate) fn flow_of(tx: &mut Tx<'_>, id: ExecutionId) -> Result<Option<FlowId>, Stop> {
    match tx.find_execution(id, PartMask::NONE) {
        Ok(Some(owner)) => Ok(owner.member().map(|member| member.flow)),
        Err(Stop::Miss) => Err(Stop::Miss),
        Ok(None) | Err(Stop::Rejected(_)) => match tx.remnant(&Key::Execution(id)).and_then(|remnant| remnant.member) {
            Some(member) => Ok(Some(member.flow)),
            None => Ok(damaged::stone(tx, id)?.map(|stone| stone.body.flow)),
        },
    }
}

/// Writes the letter of an item that is parked, as the item stands now.
fn park(tx: &mut Tx<'_>, record: &Record, uuid: Uuid, cmd: &RecordTrouble, failing: &Failing) -> Result<(), Stop> {
    let key = record.key();
    let known = match tx.get(Key::DeadLetter(key.partition(), uuid), PartMask::NONE)? {
        Some(Record::DeadLetter(letter)) => Some(letter.body.parked_at),
        _ => None,
    };
    let body = Body {
        why: Why::Failing,
        scanner: cmd.scanner.clone(),
        timer: cmd.timer,
        due: failing.due,
        kind: key.kind() as u8,
        key: Bytes::copy_from_slice(key.to_bytes().as_slice()),
        error: failing.last_error.clone(),
        fails: failing.fails,
        parked_at: known.unwrap_or_else(|| tx.now()),
        next_try_at: Some(failing.next_try_at),
        expires_at: None,
        namespace: record.namespace().cloned(),
        flow: flow_of_record(tx, record)?,
        dropped: Vec::new(),
    };
    put_letter(tx, key.partition(), uuid, body);
    Ok(())
}

fn put_letter(tx: &mut Tx<'_>, partition: PartitionId, uuid: Uuid, body: Body) {
    tx.put(Record::DeadLetter(Box::new(DeadLetter { partition, uuid, body })));
}

/// The flow and the namespace of a record that does not decode, as far as they are known.
fn owner_of(tx: &mut Tx<'_>, key: Key) -> Result<(Option<FlowId>, Option<Text>), Stop> {
    let flow = match key {
        Key::Flow(id) => return Ok((Some(id), None)),
        Key::Execution(id) | Key::Continuation(id, _) => flow_of(tx, id)?,
        Key::Edge(id, _) | Key::Tombstone(id) => flow_of(tx, id)?,
        _ => None,
    };
    if let Some(namespace) = tx.remnant(&key).and_then(|remnant| remnant.namespace) {
        return Ok((flow, Some(namespace)));
    }
    let namespace = match flow.map(|id| tx.find_flow(id)) {
        Some(Err(Stop::Miss)) => return Err(Stop::Miss),
        Some(Ok(Some(found))) => Some(found.definition.namespace.clone()),
        _ => None,
    };
    Ok((flow, namespace))
}

/// Removes an entry that can never be handled and writes a dead letter: with the raw bytes of a poison entry, or with
/// the decode error of a record. A record that decodes after all keeps its entry. So does a record with a policy of a
/// later version, for which the command is refused.
pub fn drop_entry(tx: &mut Tx<'_>, cmd: &DropEntry) -> Result<Reply, Stop> {
    let entry = cmd.entry.clone().expect("drop_entry: the engine names the entry");
    let key = Kind::from_u8(entry.kind).and_then(|kind| Key::from_bytes(cmd.partition, kind, &entry.key));
    if let (Some(key), Some(timer), false) = (key, entry.timer(), cmd.poison) {
        // A part that few commands load may be the damaged one.
        match tx.get(key, PartMask::ALL) {
            Ok(_) => return Ok(Reply::Noted),
            Err(Stop::Miss) => return Err(Stop::Miss),
            // No damage: a node of the version that wrote the policy can handle the record.
            Err(Stop::Rejected(later)) if later.is_of_later_version() => return Err(later.into()),
            Err(Stop::Rejected(_)) => {}
        }
        let known = tx.get(Key::DeadLetter(cmd.partition, letter_of(key)), PartMask::NONE)?;
        let mut letter = match known {
            Some(Record::DeadLetter(letter)) => *letter,
            _ => {
                let met = Damage { scanner: cmd.scanner.clone(), timer, due: entry.at, error: cmd.error.clone() };
                new_letter(tx, key, None, met)?
            }
        };
        if !letter.body.dropped.contains(&timer) {
            letter.body.dropped.push(timer);
        }
        tx.put(Record::DeadLetter(Box::new(letter)));
        tx.drop_due(entry);
        return Ok(Reply::Noted);
    }
    let error = match entry.timer() {
        Some(_) => cmd.error.clone(),
        None => format!("timer {}: {}", entry.timer, cmd.error).into(),
    };
    let body = Body {
        why: Why::Poison,
        scanner: cmd.scanner.clone(),
        // A number that names no timer is in the error; nothing acts on the timer of an entry without a record.
        timer: entry.timer().unwrap_or(Timer::Retention),
        due: entry.at,
        kind: entry.kind,
        key: entry.key.clone(),
        error: cut(&error),
        fails: 1,
        parked_at: tx.now(),
        next_try_at: None,
        expires_at: Some(tx.now() + POISON_KEPT_MS),
        namespace: None,
        flow: None,
        dropped: Vec::new(),
    };
    let uuid = poison_letter_of(&entry);
    match tx.get(Key::DeadLetter(cmd.partition, uuid), PartMask::NONE) {
        Ok(None) => {
            let letter = DeadLetter { partition: cmd.partition, uuid, body };
            note_parked(tx, &letter);
            tx.insert(Record::DeadLetter(Box::new(letter)));
        }
        Err(Stop::Miss) => return Err(Stop::Miss),
        // Another scanner or node has met the entry and left the letter, whether or not the letter decodes.
        Ok(Some(_)) | Err(Stop::Rejected(_)) => {}
    }
    tx.drop_due(entry);
    Ok(Reply::Noted)
}

/// Who found a record that does not decode, by which timer, and the error.
struct Damage {
    scanner: Text,
    timer: Timer,
    due: Time,
    error: Text,
}

/// The letter of a record that does not decode and has none yet. Emits that the record is parked.
fn new_letter(tx: &mut Tx<'_>, key: Key, flow: Option<FlowId>, met: Damage) -> Result<DeadLetter, Stop> {
    let (partition, uuid) = (key.partition(), letter_of(key));
    let (known, namespace) = owner_of(tx, key)?;
    let body = Body {
        why: Why::Damaged,
        scanner: met.scanner,
        timer: met.timer,
        due: met.due,
        kind: key.kind() as u8,
        key: Bytes::copy_from_slice(key.to_bytes().as_slice()),
        error: cut(&met.error),
        fails: 1,
        parked_at: tx.now(),
        next_try_at: None,
        expires_at: None,
        namespace,
        flow: flow.or(known),
        dropped: Vec::new(),
    };
    let letter = DeadLetter { partition, uuid, body };
    note_parked(tx, &letter);
    Ok(letter)
}

/// Emits that what a letter is about was parked at its first failure.
fn note_parked(tx: &mut Tx<'_>, letter: &DeadLetter) {
    let (blank, body): (Text, _) = ("".into(), &letter.body);
    let execution = match letter.item() {
        Some(Key::Execution(id) | Key::Continuation(id, _)) => Some(id),
        _ => None,
    };
    let fact = Fact::ScannerParked {
        scanner: body.scanner.clone(),
        timer: body.timer,
        failures: body.fails,
        error: body.error.clone(),
    };
    tx.emit(Event {
        at: tx.now(),
        execution,
        flow: body.flow,
        namespace: body.namespace.clone().unwrap_or_else(|| blank.clone()),
        lane: blank.clone(),
        kind: blank,
        epoch: 0,
        by: "engine".into(),
        fact,
    });
}

/// Drops the failures of one timer. Returns the dead letters to delete.
pub(crate) fn forget(record: &mut Record, timer: Timer) -> Vec<Uuid> {
    keep(record, |item| item.timer != timer)
}

/// A timer has fired: what failed on it before does not count any more, also where the record keeps the timer because
/// there is more to do.
pub(crate) fn succeeded(tx: &mut Tx<'_>, key: Key, timer: Timer) -> Result<(), Stop> {
    let had = tx.before(&key).and_then(Record::trouble).is_some_and(|trouble| trouble.get(timer).is_some());
    if !had {
        return Ok(());
    }
    let Some(mut record) = tx.get(key, PartMask::NONE)? else { return Ok(()) };
    for letter in forget(&mut record, timer) {
        tx.delete_blind(Key::DeadLetter(key.partition(), letter));
    }
    put(tx, record);
    Ok(())
}

/// Drops the account of timers that are no longer armed, or are armed for another time: failures count in a row, and a
/// timer that is armed anew has not failed yet. Returns the dead letters that go with it.
pub(crate) fn forget_disarmed(record: &mut Record) -> Vec<Uuid> {
    if record.trouble().is_none() {
        return Vec::new();
    }
    let timers = record.timers();
    keep(record, |item| timers.contains(&Due { timer: item.timer, at: item.due }))
}

/// The letter under which a record that does not decode is parked.
pub fn letter_of(key: Key) -> Uuid {
    letter_name(&[b"damaged", &[key.kind() as u8], key.to_bytes().as_slice()])
}

/// The id of a poison entry's dead letter, derived from the entry so that all scanners and nodes write one letter.
fn poison_letter_of(entry: &DueEntry) -> Uuid {
    letter_name(&[b"poison", &[entry.timer], &entry.at.ms().to_be_bytes(), &[entry.kind], &entry.key])
}

fn letter_name(parts: &[&[u8]]) -> Uuid {
    let digest = crate::digest::digest(parts);
    Uuid::from_bytes(*digest.first_chunk().expect("digest: it has 32 bytes"))
}

/// Parks a record that does not decode, so that what was to be done with others goes on. Its bytes stay untouched, and
/// it is parked once, however often it is met; one that was given up is not parked again. A record with a policy of a later
/// version is not damaged: the command is refused.
pub(crate) fn park_damaged(
    tx: &mut Tx<'_>,
    key: Key,
    flow: Option<FlowId>,
    timer: Timer,
    rejection: &Rejection,
) -> Result<(), Stop> {
    if rejection.is_of_later_version() {
        return Err(rejection.clone().into());
    }
    let letter = Key::DeadLetter(key.partition(), letter_of(key));
    let given_up = match key {
        Key::Execution(id) => Some(Key::Tombstone(id)),
        _ => None,
    };
    if tx.prefetch_all([letter].into_iter().chain(given_up)) {
        return Err(Stop::Miss);
    }
    for known in [letter].into_iter().chain(given_up) {
        match tx.get(known, PartMask::NONE)? {
            // The record was first parked without knowledge of its flow.
            Some(Record::DeadLetter(mut letter)) if letter.body.flow.is_none() && flow.is_some() => {
                letter.body.flow = flow;
                tx.put(Record::DeadLetter(letter));
                return Ok(());
            }
            Some(_) => return Ok(()),
            None => {}
        }
    }
    let error = rejection.to_string().into();
    let met = Damage { scanner: scanner_of(timer).into(), timer, due: tx.now(), error };
    let letter = new_letter(tx, key, flow, met)?;
    tx.put(Record::DeadLetter(Box::new(letter)));
    Ok(())
}

/// The scanner that fires a timer which leads to records of others.
pub fn scanner_of(timer: Timer) -> &'static str {
    match timer {
        Timer::FlowEnding => "cancel_reconciler",
        Timer::GroupCancel => "edge_cancel_dispatcher",
        Timer::FlowPurge => "retention_trimmer",
        _ => "dependency_reconciler",
    }
}

/// Keeps the items that `kept` names; the dead letters of the others.
fn keep(record: &mut Record, kept: impl Fn(&Failing) -> bool) -> Vec<Uuid> {
    let Some(trouble) = record.trouble() else { return Vec::new() };
    if trouble.items.iter().all(&kept) {
        return Vec::new();
    }
    let (items, gone): (Vec<Failing>, Vec<Failing>) = trouble.items.iter().cloned().partition(|item| kept(item));
    record.set_trouble(Some(Trouble { items }));
    gone.into_iter().filter_map(|item| item.letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command, DiscardParked, Expire, RetryParked, Revoke};
    use crate::kit::calls::{fence, renew};
    use crate::kit::{PARTITION, World};
    use crate::reply::Retried;
    use crate::schema::execution as schema;

    const INTERVAL_MS: u64 = 1_000;

    fn engine(command: Command) -> Call {
        Call { principal: Principal::engine(), ..crate::kit::calls::call(command) }
    }

    /// One failure of the lease timer at the time its entry is due; the wait until the next try.
    fn fail_once(world: &mut World, id: ExecutionId) -> u64 {
        let due = |world: &World| world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease)).cloned();
        let entry = due(world).expect("it is tried again, for ever");
        world.at(entry.at.ms());
        let answer = fail_lease(world, id, entry.at);
        assert!(matches!(answer, Reply::Failing(_)), "{answer:?}");
        due(world).expect("it is tried again, for ever").at.since(world.now)
    }

    /// A scanner failed on the entry of the lease timer that was due at `due`.
    fn fail_lease(world: &mut World, id: ExecutionId, due: Time) -> Reply {
        let command = Command::RecordTrouble(RecordTrouble {
            key: Some(Key::Execution(id)),
            timer: Timer::Lease,
            due,
            scanner: "lease_expiry".into(),
            interval_ms: INTERVAL_MS,
            error: "no way".into(),
            fresh: world.fresh(),
        });
        world.call(&engine(command)).expect("it is noted")
    }

    #[test]
    fn sr_13_a_timer_that_was_moved_meanwhile_has_not_failed() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        let lease = |world: &World| world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease)).cloned();
        let before = lease(&world).expect("a lease ends").at;
        world.at(before.ms() - 1);
        world.run(renew(id, held)).expect("renewed");
        let moved = lease(&world).expect("a lease ends").at;
        assert!(moved > before);
        world.at(before.ms());
        assert!(matches!(fail_lease(&mut world, id, before), Reply::Noted));
        assert_eq!((world.execution(id).trouble(), lease(&world).map(|entry| entry.at)), (None, Some(moved)));
    }

    fn park(world: &mut World, id: ExecutionId) {
        while letters(world).is_empty() {
            fail_once(world, id);
        }
    }

    fn active() -> (World, ExecutionId) {
        let mut world = World::new();
        let id = world.submit(|_| {});
        world.claim(id);
        (world, id)
    }

    fn letters(world: &World) -> Vec<Uuid> {
        world
            .records
            .keys()
            .filter_map(|key| match key {
                Key::DeadLetter(_, uuid) => Some(*uuid),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn sr_22_sr_23_three_tries_a_longer_pause_each_round_then_parked() {
        let (mut world, id) = active();
        let waits: Vec<u64> = (0..21).map(|_| fail_once(&mut world, id)).collect();
        let rounds = [10_000, 20_000, 40_000, 80_000, 160_000, TROUBLE_PAUSE_MAX_MS];
        let once_an_hour = [TROUBLE_PAUSE_MAX_MS; 3];
        let expected: Vec<u64> = rounds.iter().flat_map(|pause| [1_000, 1_000, *pause]).chain(once_an_hour).collect();
        assert_eq!(waits, expected);
        assert_eq!(letters(&world).len(), 1, "parked once");
        assert_eq!(world.facts().iter().filter(|fact| **fact == "scanner.parked").count(), 1);
        let Some(Record::DeadLetter(letter)) = world.record(Key::DeadLetter(PARTITION, letters(&world)[0])) else {
            panic!("a letter")
        };
        assert_eq!((letter.body.why, letter.body.fails), (Why::Failing, 21), "it tells how often it was tried");
        assert_eq!(letter.body.next_try_at, Some(world.now + TROUBLE_PAUSE_MAX_MS));
        assert!(world.execution(id).lease().is_some(), "the record itself is not changed");
    }

    #[test]
    fn sr_22_a_pause_is_at_most_an_hour() {
        let cmd = RecordTrouble {
            key: None,
            timer: Timer::Lease,
            due: Time::ZERO,
            scanner: "s".into(),
            interval_ms: 300_000,
            error: "e".into(),
            fresh: Uuid::nil(),
        };
        let mut trouble = Trouble::default();
        for _ in 0..9 {
            failed(&mut trouble, &cmd, Time::ZERO, Time::ZERO);
        }
        assert_eq!(trouble.items[0].next_try_at, Time::from_ms(TROUBLE_PAUSE_MAX_MS));
    }

    #[test]
    fn sr_24_a_success_and_a_moved_timer_forget_the_failures() {
        let (mut world, id) = active();
        fail_once(&mut world, id);
        world.now = world.now + INTERVAL_MS;
        world.scan();
        assert!(world.execution(id).trouble().is_none(), "it fired");

        let mut world = World::new();
        let id = world.submit(|_| {});
        let held = fence(&world.claim(id));
        let early = Due { timer: Timer::Lease, at: Time::from_ms(30_000) };
        let command = Command::RecordTrouble(RecordTrouble {
            key: Some(Key::Execution(id)),
            timer: Timer::Lease,
            due: early.at,
            scanner: "lease_expiry".into(),
            interval_ms: 60_000,
            error: "no way".into(),
            fresh: world.fresh(),
        });
        world.call(&engine(command)).unwrap();
        assert!(world.execution(id).trouble().is_some());
        world.at(1_000).run(renew(id, held)).unwrap();
        assert!(world.execution(id).trouble().is_none(), "the worker moved it");
    }

    #[test]
    fn sr_21_sr_23_a_record_that_breaks_an_invariant_keeps_count_and_is_parked() {
        let (mut world, id) = active();
        let mut broken = world.execution(id);
        broken.hot.epoch += 1;
        let record = Record::Execution(broken.into());
        let parts = record.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
        world.records.get_mut(&Key::Execution(id)).unwrap().parts = parts;
        world.planted = true;
        let lease = world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease)).cloned().expect("a lease ends");
        world.at(lease.at.ms());
        park(&mut world, id);
        assert_eq!(letters(&world).len(), 1);
    }

    #[test]
    fn sr_23_an_operator_lets_a_parked_item_be_tried_again() {
        let (mut world, id) = active();
        park(&mut world, id);
        let letter = letters(&world)[0];
        let retry = Command::RetryParked(RetryParked { letter, partition: PARTITION });
        assert_eq!(world.run(retry.clone()), Ok(Reply::Retried(Retried::Retried)));
        assert!(world.execution(id).trouble().is_none() && letters(&world).is_empty());
        assert_eq!(world.run(retry), Err(Rejection::DeadLetterNotFound));
        assert_eq!(world.scan().len(), 1);
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }

    #[test]
    fn sr_23_a_letter_goes_with_the_timer_it_is_about() {
        let (mut world, id) = active();
        park(&mut world, id);
        world.run(crate::kit::calls::force_fail(id)).unwrap();
        assert!(letters(&world).is_empty());
    }

    #[test]
    fn sr_24_a_parked_item_whose_cause_goes_away_leaves_neither_account_nor_letter() {
        let (mut world, id) = active();
        park(&mut world, id);
        world.now = world.now + TROUBLE_PAUSE_MAX_MS;
        assert_eq!(world.scan().len(), 1, "it is tried without anybody asking");
        assert!(world.execution(id).trouble().is_none() && letters(&world).is_empty());
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }

    #[test]
    fn sr_85_a_discarded_timer_is_given_up_until_it_is_armed_anew() {
        let (mut world, id) = active();
        park(&mut world, id);
        let before = world.execution(id);
        let discard = |reason: &str| {
            let letter = letters(&world)[0];
            Command::DiscardParked(DiscardParked { letter, partition: PARTITION, reason: reason.into() })
        };
        let (empty, long, good) = (discard(""), discard(&"x".repeat(REASON_MAX + 1)), discard("known"));
        for refused in [empty, long] {
            assert_eq!(world.run(refused).unwrap_err().code(), "invalid_argument");
        }
        assert_eq!(world.run(good), Ok(Reply::Noted));
        let after = world.execution(id);
        assert_eq!(after.hot.state, before.hot.state, "what the record says is not changed");
        let given_up = after.trouble().and_then(|trouble| trouble.get(Timer::Lease)?.given_up.clone()).unwrap();
        assert_eq!(&*given_up.reason, "known");
        let armed = |world: &World| world.due.iter().any(|entry| entry.timer() == Some(Timer::Lease));
        assert!(letters(&world).is_empty() && !armed(&world), "nothing tries it any more");
        let revoke = Revoke { id, reason: "".into(), expected_epoch: None, hold: false };
        world.run(Command::Revoke(revoke)).unwrap();
        world.claim(id);
        assert!(world.execution(id).trouble().is_none() && armed(&world), "a new lease has a timer again");
    }

    fn drop_poison(entry: DueEntry) -> Command {
        Command::DropEntry(DropEntry {
            partition: PARTITION,
            entry: Some(entry),
            scanner: "lease_expiry".into(),
            error: "no such kind".into(),
            poison: true,
        })
    }

    #[test]
    fn sr_25_poison_goes_and_leaves_a_letter_for_a_while() {
        let mut world = World::new();
        let entry = DueEntry { at: Time::ZERO, timer: 77, kind: 99, key: Bytes::from_static(b"?") };
        world.due.insert(entry.clone());
        world.call(&engine(drop_poison(entry))).unwrap();
        let Some(Record::DeadLetter(letter)) = world.record(Key::DeadLetter(PARTITION, letters(&world)[0])) else {
            panic!("a letter")
        };
        assert_eq!((&*letter.body.error, letter.body.kind), ("timer 77: no such kind", 99));
        assert_eq!(world.due.len(), 1, "only the end of the letter is due");
        world.at(POISON_KEPT_MS).scan();
        assert!(world.records.is_empty() && world.due.is_empty());
    }

    #[test]
    fn sr_25_poison_that_two_nodes_meet_leaves_one_letter() {
        let mut world = World::new();
        let entry = |kind| DueEntry { at: Time::ZERO, timer: 77, kind, key: Bytes::from_static(b"?") };
        world.due.insert(entry(99));
        world.call(&engine(drop_poison(entry(99)))).unwrap();
        let letter = world.record(Key::DeadLetter(PARTITION, letters(&world)[0]));
        // The second node has seen the entry before the first removed it.
        world.at(1_000).call(&engine(drop_poison(entry(99)))).unwrap();
        assert_eq!(letters(&world).len(), 1);
        assert_eq!(world.record(Key::DeadLetter(PARTITION, letters(&world)[0])), letter, "as the first node left it");
        world.due.insert(entry(99));
        world.call(&engine(drop_poison(entry(99)))).unwrap();
        assert!(!world.due.contains(&entry(99)), "an entry that comes again goes again");
        world.call(&engine(drop_poison(entry(98)))).unwrap();
        assert_eq!(letters(&world).len(), 2, "another entry has a letter of its own");
    }

    #[test]
    fn sr_26_a_record_that_decodes_again_is_due_again() {
        let (mut world, id) = active();
        let key = Key::Execution(id);
        let entry = world.due.first().cloned().unwrap();
        let drop = |entry: &DueEntry| {
            Command::DropEntry(DropEntry {
                partition: PARTITION,
                entry: Some(entry.clone()),
                scanner: "lease_expiry".into(),
                error: "part `hot` does not decode".into(),
                poison: false,
            })
        };
        world.call(&engine(drop(&entry))).unwrap();
        assert!(world.due.contains(&entry) && letters(&world).is_empty(), "what decodes keeps its entry");

        world.planted = true;
        let good = world.records.get_mut(&key).unwrap().parts.insert(schema::HOT, "\u{1}broken".into()).unwrap();
        world.call(&engine(drop(&entry))).unwrap();
        assert!(world.due.is_empty());
        world.at(40_000);
        let retry = Command::RetryParked(RetryParked { letter: letters(&world)[0], partition: PARTITION });
        let still = world.run(retry.clone());
        assert!(matches!(still, Ok(Reply::Retried(Retried::StillDamaged { .. }))), "{still:?}");
        assert_eq!(letters(&world).len(), 1, "nothing changed");
        world.records.get_mut(&key).unwrap().parts.insert(schema::HOT, good);
        assert_eq!(world.run(retry), Ok(Reply::Retried(Retried::Retried)));
        assert_eq!(world.scan().len(), 1);
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }

    #[test]
    fn sr_26_damage_in_a_part_that_is_not_in_memory_is_found_by_drop_and_retry() {
        let (mut world, id) = active();
        let (key, entry) = (Key::Execution(id), world.due.first().cloned().unwrap());
        world.planted = true;
        world.records.get_mut(&key).unwrap().parts.insert(schema::ACTIONS, "\u{1}broken".into());
        let (scanner, error) = ("lease_expiry".into(), "part `actions` does not decode".into());
        let drop = DropEntry { partition: PARTITION, entry: Some(entry), scanner, error, poison: false };
        world.call(&engine(Command::DropEntry(drop))).unwrap();
        assert!(world.due.is_empty());
        let retry = Command::RetryParked(RetryParked { letter: letters(&world)[0], partition: PARTITION });
        let still = world.run(retry);
        assert!(matches!(still, Ok(Reply::Retried(Retried::StillDamaged { .. }))), "{still:?}");
    }

    #[test]
    fn sr_29_a_record_of_a_newer_format_is_refused_and_left_as_it_is() {
        let (mut world, id) = active();
        let key = Key::Execution(id);
        world.planted = true;
        let good = world.records.get_mut(&key).unwrap().parts.insert(schema::HOT, "\u{7f}later".into()).unwrap();
        let (due, entry) = (world.due.clone(), world.due.first().cloned().unwrap());
        world.at(entry.at.ms());
        let commands = [
            Command::Expire(Expire { key: Some(key), timer: Timer::Lease, due: entry.at, entropy: 1 }),
            Command::DropEntry(DropEntry {
                partition: PARTITION,
                entry: Some(entry),
                scanner: "lease_expiry".into(),
                error: "damaged".into(),
                poison: false,
            }),
        ];
        for command in commands {
            let refused = world.call(&engine(command)).unwrap_err();
            assert!(matches!(refused, Rejection::NewerFormat { .. }), "{refused:?}");
            assert_eq!(refused.code(), "unavailable");
        }
        assert_eq!((&world.due, letters(&world).len()), (&due, 0), "entry and bytes stay, and no letter is made");
        world.records.get_mut(&key).unwrap().parts.insert(schema::HOT, good);
        assert_eq!(world.scan().len(), 1, "a build that knows the format handles it");
    }
}
