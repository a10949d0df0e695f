//! Failures of scanners on an item: counted on the item, backed off, and parked in the end.

use crate::change::DueEntry;
use crate::command::{DropEntry, Principal, RecordTrouble};
use crate::error::Rejection;
use crate::event::{Event, Fact};
use crate::flow::damaged;
use crate::id::{ExecutionId, FlowId, PartitionId};
use crate::limits::*;
use crate::record::dead_letter::Body;
use crate::record::trouble::{Failing, Trouble};
use crate::record::{BulkJob, Continuation, DeadLetter, Execution, Flow, Key, Record};
use crate::reply::Reply;
use crate::schema::{Due, Kind, PartMask, Timer};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};
use bytes::Bytes;
use uuid::Uuid;

/// Notes that a scanner failed on a timer of a record. A timer that the record no longer has is not in trouble.
pub fn record_trouble(tx: &mut Tx<'_>, who: &Principal, cmd: &RecordTrouble) -> Result<Reply, Stop> {
    let key = cmd.key.expect("record_trouble: the engine names the record");
    let Some(record) = tx.get(key, PartMask::NONE)? else {
        tx.drop_due(DueEntry::new(Due { timer: cmd.timer, at: cmd.due }, key));
        return Ok(Reply::Noted);
    };
    if !record.due().iter().any(|due| due.timer == cmd.timer) {
        return Ok(Reply::Noted);
    }
    match record {
        Record::Execution(mut execution) => {
            let (trouble, parked) = failed(execution.trouble().cloned(), cmd, tx.now());
            execution.set_trouble(Some(trouble));
            if let Some(failing) = parked {
                let event = about(&execution, who, tx.now(), parked_fact(cmd, &failing));
                let flow = execution.member().map(|member| member.flow);
                park(tx, key, flow, cmd, failing.fails, event);
            }
            tx.put_execution(*execution);
        }
        Record::Continuation(mut continuation) => {
            let (trouble, parked) = failed(continuation.body.trouble.take(), cmd, tx.now());
            continuation.body.trouble = Some(trouble);
            if let Some(failing) = parked {
                let flow = flow_of(tx, continuation.owner)?;
                let event = about_work(&continuation, flow, who, tx.now(), parked_fact(cmd, &failing));
                park(tx, key, flow, cmd, failing.fails, event);
            }
            tx.put(Record::Continuation(continuation));
        }
        Record::BulkJob(mut job) => {
            let (trouble, parked) = failed(job.trouble_mut().take(), cmd, tx.now());
            *job.trouble_mut() = Some(trouble);
            if let Some(failing) = parked {
                let event = about_job(&job, who, tx.now(), parked_fact(cmd, &failing));
                park(tx, key, None, cmd, failing.fails, event);
            }
            tx.put(Record::BulkJob(job));
        }
        Record::Flow(mut flow) => {
            let (trouble, parked) = failed(flow.trouble().cloned(), cmd, tx.now());
            flow.set_trouble(Some(trouble));
            if let Some(failing) = parked {
                let event = about_flow(&flow, who, tx.now(), parked_fact(cmd, &failing));
                park(tx, key, Some(flow.id), cmd, failing.fails, event);
            }
            tx.put_flow(*flow);
        }
        // Neither has a timer.
        Record::Edge(_) | Record::Tombstone(_) => {}
        // Removing these has nothing that can fail twice; they carry no tracking and are tried again.
        Record::Dedup(_) | Record::DeadLetter(_) | Record::Node(_) | Record::Attempt(_) | Record::Step(_) => {}
        // Neither has what time does to a worker.
        Record::Worker(_) => {}
        Record::ApiKey(_) | Record::Audit(_) | Record::Register(_) => {}
    }
    Ok(Reply::Noted)
}

/// Counts one failure. The item as it stands, if this failure parks it.
fn failed(trouble: Option<Trouble>, cmd: &RecordTrouble, now: Time) -> (Trouble, Option<Failing>) {
    let mut trouble = trouble.unwrap_or_default();
    let at = match trouble.items.iter().position(|item| item.timer == cmd.timer) {
        Some(at) => at,
        None => {
            trouble.items.push(Failing {
                timer: cmd.timer,
                scanner: cmd.scanner.clone(),
                fails: 0,
                round: 0,
                next_try_at: now,
                first_at: now,
                last_at: now,
                last_error: "".into(),
                parked: false,
                letter: None,
            });
            trouble.items.len() - 1
        }
    };
    let item = &mut trouble.items[at];
    item.fails += 1;
    item.last_at = now;
    item.last_error = cut(&cmd.error);
    if !item.fails.is_multiple_of(FAIL_THRESHOLD) {
        item.next_try_at = now + cmd.interval_ms;
        return (trouble, None);
    }
    if item.round == BACKOFF_ROUNDS {
        item.parked = true;
        item.letter = Some(cmd.fresh);
        let parked = item.clone();
        return (trouble, Some(parked));
    }
    let pause_ms = (cmd.interval_ms.saturating_mul(BACKOFF_CYCLES) << item.round).min(TROUBLE_PAUSE_MAX_MS);
    item.next_try_at = now + pause_ms.max(cmd.interval_ms);
    item.round += 1;
    (trouble, None)
}

/// An error may be of any length; what is kept on the record is not.
fn cut(error: &Text) -> Text {
    match error.char_indices().map(|(at, _)| at).find(|at| *at > TROUBLE_ERROR_MAX - 4) {
        Some(end) => Text::from(&error[..end]),
        None => error.clone(),
    }
}

fn parked_fact(cmd: &RecordTrouble, failing: &Failing) -> Fact {
    Fact::ScannerParked {
        scanner: cmd.scanner.clone(),
        timer: cmd.timer,
        failures: failing.fails,
        error: failing.last_error.clone(),
    }
}

fn about(execution: &Execution, who: &Principal, at: Time, fact: Fact) -> Event {
    let spec = &execution.spec;
    Event {
        at,
        execution: Some(execution.id),
        flow: execution.member().map(|member| member.flow),
        namespace: spec.namespace.clone(),
        lane: spec.lane.clone(),
        kind: spec.kind.clone(),
        epoch: execution.hot.epoch,
        by: who.name.clone(),
        fact,
    }
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

fn about_work(continuation: &Continuation, flow: Option<FlowId>, who: &Principal, at: Time, fact: Fact) -> Event {
    Event {
        at,
        execution: Some(continuation.owner),
        flow,
        namespace: continuation.body.namespace.clone(),
        lane: "".into(),
        kind: "".into(),
        epoch: 0,
        by: who.name.clone(),
        fact,
    }
}

fn about_flow(flow: &Flow, who: &Principal, at: Time, fact: Fact) -> Event {
    Event {
        at,
        execution: None,
        flow: Some(flow.id),
        namespace: flow.definition.namespace.clone(),
        lane: "".into(),
        kind: flow.definition.kind.clone(),
        epoch: 0,
        by: who.name.clone(),
        fact,
    }
}

fn about_job(job: &BulkJob, who: &Principal, at: Time, fact: Fact) -> Event {
    Event {
        at,
        execution: None,
        flow: None,
        namespace: job.definition().namespace.clone(),
        lane: "".into(),
        kind: "".into(),
        epoch: 0,
        by: who.name.clone(),
        fact,
    }
}

fn park(tx: &mut Tx<'_>, key: Key, flow: Option<FlowId>, cmd: &RecordTrouble, fails: u32, event: Event) {
    let body = Body {
        scanner: cmd.scanner.clone(),
        timer: cmd.timer,
        due: cmd.due,
        kind: key.kind() as u8,
        key: Bytes::copy_from_slice(key.to_bytes().as_slice()),
        error: cut(&cmd.error),
        fails,
        parked_at: tx.now(),
        expires_at: None,
        flow,
    };
    insert_letter(tx, key.partition(), cmd.fresh, body);
    tx.emit(event);
}

fn insert_letter(tx: &mut Tx<'_>, partition: PartitionId, uuid: Uuid, body: Body) {
    tx.insert(Record::DeadLetter(Box::new(DeadLetter { partition, uuid, body })));
}

/// The flow that an entry without a readable record belongs to, as far as it can be told.
fn entry_flow(tx: &mut Tx<'_>, cmd: &DropEntry) -> Result<Option<FlowId>, Stop> {
    let entry = cmd.entry.as_ref().filter(|_| !cmd.poison);
    let key = entry.and_then(|entry| Key::from_bytes(cmd.partition, Kind::from_u8(entry.kind)?, &entry.key));
    match key {
        Some(Key::Flow(id)) => Ok(Some(id)),
        Some(Key::Execution(id) | Key::Continuation(id, _)) => flow_of(tx, id),
        _ => Ok(None),
    }
}

/// Removes an entry that can never be handled and leaves a dead letter with its raw bytes.
pub fn drop_entry(tx: &mut Tx<'_>, cmd: &DropEntry) -> Result<Reply, Stop> {
    let entry = cmd.entry.clone().expect("drop_entry: the engine names the entry");
    let flow = entry_flow(tx, cmd)?;
    let error = match entry.timer() {
        Some(_) => cmd.error.clone(),
        None => format!("timer {}: {}", entry.timer, cmd.error).into(),
    };
    let body = Body {
        scanner: cmd.scanner.clone(),
        // A number that names no timer is in the error; nothing acts on the timer of an entry without a record.
        timer: entry.timer().unwrap_or(Timer::Retention),
        due: entry.at,
        kind: entry.kind,
        key: entry.key.clone(),
        error: cut(&error),
        fails: 1,
        parked_at: tx.now(),
        expires_at: cmd.poison.then(|| tx.now() + POISON_KEPT_MS),
        flow,
    };
    insert_letter(tx, cmd.partition, cmd.fresh, body);
    tx.drop_due(entry);
    Ok(Reply::Noted)
}

/// Drops the tracking of one timer, because the timer was moved.
pub(crate) fn forget(tx: &mut Tx<'_>, execution: &mut Execution, timer: Timer) {
    for letter in keep(execution, |item| item.timer != timer) {
        tx.delete_blind(Key::DeadLetter(execution.id.partition(), letter));
    }
}

/// Drops the tracking of timers that are no longer armed: failures count in a row, and a timer of that kind which is
/// armed again has not failed yet. Returns the dead letters that go with it.
pub(crate) fn forget_disarmed(execution: &mut Execution) -> Vec<Uuid> {
    if execution.trouble().is_none() {
        return Vec::new();
    }
    let timers = execution.timers();
    keep(execution, |item| timers.iter().any(|due| due.timer == item.timer))
}

/// The same for a flow.
pub(crate) fn forget_disarmed_flow(flow: &mut Flow) -> Vec<Uuid> {
    let Some(trouble) = flow.trouble() else { return Vec::new() };
    let timers = flow.timers();
    let armed = |item: &Failing| timers.iter().any(|due| due.timer == item.timer);
    let (items, gone): (Vec<Failing>, Vec<Failing>) = trouble.items.iter().cloned().partition(armed);
    flow.set_trouble(Some(Trouble { items }).filter(|trouble| !trouble.items.is_empty()));
    gone.into_iter().filter_map(|item| item.letter).collect()
}

/// The letter under which a record that does not decode is parked.
pub(crate) fn letter_of(key: Key) -> Uuid {
    let digest = crate::digest::digest(&[b"damaged", &[key.kind() as u8], key.to_bytes().as_slice()]);
    let mut name = [0; 16];
    name.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(name)
}

/// Parks a record that does not decode, so that what was to be done with others goes on. Its bytes stay untouched, and
/// it is parked once, however often it is met; one that was given up is not parked again.
pub(crate) fn park_damaged(
    tx: &mut Tx<'_>,
    key: Key,
    flow: Option<FlowId>,
    timer: Timer,
    rejection: &Rejection,
) -> Result<(), Stop> {
    let bytes = Bytes::copy_from_slice(key.to_bytes().as_slice());
    let name = letter_of(key);
    let letter = Key::DeadLetter(key.partition(), name);
    let given_up = match key {
        Key::Execution(id) => Some(Key::Tombstone(id)),
        _ => None,
    };
    if tx.prefetch_all([letter].into_iter().chain(given_up)) {
        return Err(Stop::Miss);
    }
    for known in [letter].into_iter().chain(given_up) {
        if tx.get(known, PartMask::NONE)?.is_some() {
            return Ok(());
        }
    }
    let body = Body {
        scanner: "dependency_reconciler".into(),
        timer,
        due: tx.now(),
        kind: key.kind() as u8,
        key: bytes,
        error: cut(&rejection.to_string().into()),
        fails: 1,
        parked_at: tx.now(),
        expires_at: None,
        flow,
    };
    insert_letter(tx, key.partition(), name, body);
    Ok(())
}

/// Keeps the items that `kept` names; the dead letters of the others.
fn keep(execution: &mut Execution, kept: impl Fn(&Failing) -> bool) -> Vec<Uuid> {
    let Some(trouble) = execution.trouble() else { return Vec::new() };
    let (items, gone): (Vec<Failing>, Vec<Failing>) = trouble.items.iter().cloned().partition(|item| kept(item));
    execution.set_trouble(Some(Trouble { items }).filter(|trouble| !trouble.items.is_empty()));
    gone.into_iter().filter_map(|item| item.letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command, DiscardParked, RetryParked};
    use crate::kit::calls::{fence, renew};
    use crate::kit::{PARTITION, World};

    const INTERVAL_MS: u64 = 1_000;

    fn engine(command: Command) -> Call {
        Call { principal: Principal::engine(), ..crate::kit::calls::call(command) }
    }

    /// One failure of the lease timer at the time its entry is due; the wait until the next try, if there is one.
    fn fail_once(world: &mut World, id: ExecutionId) -> Option<u64> {
        let entry = world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease)).cloned()?;
        world.at(entry.at.ms());
        let command = Command::RecordTrouble(RecordTrouble {
            key: Some(Key::Execution(id)),
            timer: Timer::Lease,
            due: entry.at,
            scanner: "lease_expiry".into(),
            interval_ms: INTERVAL_MS,
            error: "no way".into(),
            fresh: world.fresh(),
        });
        assert_eq!(world.call(&engine(command)), Ok(Reply::Noted));
        let next = world.due.iter().find(|entry| entry.timer() == Some(Timer::Lease))?;
        Some(next.at.since(world.now))
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
        let mut waits = Vec::new();
        while let Some(wait) = fail_once(&mut world, id) {
            waits.push(wait);
        }
        let rounds = [10_000, 20_000, 40_000, 80_000, 160_000];
        let expected: Vec<u64> = rounds.iter().flat_map(|pause| [1_000, 1_000, *pause]).chain([1_000, 1_000]).collect();
        assert_eq!(waits, expected);
        assert_eq!(letters(&world).len(), 1);
        assert_eq!(world.facts().last(), Some(&"scanner.parked"));
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
        let mut trouble = None;
        for _ in 0..9 {
            trouble = Some(failed(trouble, &cmd, Time::ZERO).0);
        }
        assert_eq!(trouble.unwrap().items[0].next_try_at, Time::from_ms(TROUBLE_PAUSE_MAX_MS));
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
    fn sr_23_an_operator_lets_a_parked_item_be_tried_again() {
        let (mut world, id) = active();
        while fail_once(&mut world, id).is_some() {}
        let letter = letters(&world)[0];
        let retry = Command::RetryParked(RetryParked { letter, partition: PARTITION });
        assert_eq!(world.run(retry.clone()), Ok(Reply::Noted));
        assert!(world.execution(id).trouble().is_none() && letters(&world).is_empty());
        assert_eq!(world.run(retry), Err(Rejection::DeadLetterNotFound));
        assert_eq!(world.scan().len(), 1);
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }

    #[test]
    fn sr_23_a_letter_goes_with_the_timer_it_is_about() {
        let (mut world, id) = active();
        while fail_once(&mut world, id).is_some() {}
        world.run(crate::kit::calls::force_fail(id)).unwrap();
        assert!(letters(&world).is_empty());
    }

    #[test]
    fn sr_23_a_discarded_letter_leaves_the_record_as_it_is() {
        let (mut world, id) = active();
        while fail_once(&mut world, id).is_some() {}
        let before = world.execution(id);
        let discard = DiscardParked { letter: letters(&world)[0], partition: PARTITION, reason: "known".into() };
        assert_eq!(world.run(Command::DiscardParked(discard)), Ok(Reply::Noted));
        assert_eq!(world.execution(id), before);
        assert!(letters(&world).is_empty());
    }

    #[test]
    fn sr_25_poison_goes_and_leaves_a_letter_for_a_while() {
        let mut world = World::new();
        let entry = DueEntry { at: Time::ZERO, timer: 77, kind: 99, key: Bytes::from_static(b"?") };
        world.due.insert(entry.clone());
        let fresh = world.fresh();
        let command = Command::DropEntry(DropEntry {
            partition: PARTITION,
            entry: Some(entry),
            scanner: "lease_expiry".into(),
            error: "no such kind".into(),
            poison: true,
            fresh,
        });
        world.call(&engine(command)).unwrap();
        let Some(Record::DeadLetter(letter)) = world.record(Key::DeadLetter(PARTITION, fresh)) else {
            panic!("a letter")
        };
        assert_eq!((&*letter.body.error, letter.body.kind), ("timer 77: no such kind", 99));
        assert_eq!(world.due.len(), 1, "only the end of the letter is due");
        world.at(POISON_KEPT_MS).scan();
        assert!(world.records.is_empty() && world.due.is_empty());
    }

    #[test]
    fn sr_26_a_record_that_decodes_again_is_due_again() {
        let (mut world, id) = active();
        let entry = world.due.first().cloned().unwrap();
        let fresh = world.fresh();
        let command = Command::DropEntry(DropEntry {
            partition: PARTITION,
            entry: Some(entry),
            scanner: "lease_expiry".into(),
            error: "part `hot` does not decode".into(),
            poison: false,
            fresh,
        });
        world.call(&engine(command)).unwrap();
        assert!(world.due.is_empty());
        world.at(40_000);
        world.run(Command::RetryParked(RetryParked { letter: fresh, partition: PARTITION })).unwrap();
        assert_eq!(world.scan().len(), 1);
        assert_eq!(world.execution(id).hot.reclaims, 1);
    }
}
