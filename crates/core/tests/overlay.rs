//! Several commands on one overlay.

mod kit;

use kit::{PARTITION, calls};
use uuid::Uuid;
use weft_core::apply::apply;
use weft_core::change::{Batch, DueEntry, Head};
use weft_core::command::{Call, Claim, Command, Expire, Fence, Principal, Reschedule, SealFlow, Submit, When};
use weft_core::limits::Limits;
use weft_core::record::{Key, Record};
use weft_core::schema::{Due, PartMask, Timer};
use weft_core::text::Capabilities;
use weft_core::tx::{Base, List, Lookup, Miss, Overlay, Stop, Tx};
use weft_core::{CommitId, ExecutionId, FlowId, LeaseId, Time};

/// A store without records.
struct Empty;

impl Base for Empty {
    fn get(&self, _: &Key) -> Lookup<'_> {
        Lookup::Absent
    }

    fn list(&self, _: List, _: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        Some(Vec::new())
    }
}

/// The commit of the calls together; `after_each` sees the overlay after each of them.
fn commit(calls: &[Call], after_each: impl Fn(&mut Overlay)) -> Batch {
    let (now, limits) = (Time::from_ms(1_000), Limits::default());
    let mut overlay = Overlay::default();
    for call in calls {
        let mut tx = Tx::new(&Empty, &overlay, now, &limits);
        apply(&mut tx, call).expect("the call succeeds");
        let effects = tx.finish().expect("no invariant is broken");
        effects.merge(&mut overlay, &Empty);
        after_each(&mut overlay);
    }
    overlay.seal(CommitId(Uuid::from_u128(1)), Head::default(), false, now).0
}

#[test]
fn encoding_ahead_does_not_show_in_the_commit() {
    let id = |number| ExecutionId::new(PARTITION, Uuid::from_u128(number));
    let submit = |number| calls::call(Command::Submit(Box::new(Submit { id: Some(id(number)), ..calls::submit() })));
    let claim = calls::call(Command::Claim(Claim {
        id: id(1),
        lease: LeaseId::new(PARTITION, Uuid::from_u128(7)),
        worker: "ann".into(),
        instance: "ann-1".into(),
        lease_ms: 5_000,
        kinds: None,
        capabilities: Capabilities::default(),
        claim_ref: None,
        session: None,
    }));
    let calls = [submit(1), submit(2), claim, submit(3)];
    let plain = commit(&calls, |_| ());
    assert_eq!(plain.writes.len(), 3);
    assert_eq!(commit(&calls, Overlay::encode_ahead), plain);
}

/// A store with one record.
struct One(Record, CommitId);

impl Base for One {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match *key == self.0.key() {
            true => Lookup::Present { record: &self.0, revision: self.1 },
            false => Lookup::Absent,
        }
    }

    fn list(&self, _: List, _: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        Some(Vec::new())
    }
}

/// Runs a call on this version of a record, and merges it.
fn run(overlay: &mut Overlay, base: &dyn Base, call: &Call) {
    let limits = Limits::default();
    let mut tx = Tx::new(base, overlay, Time::from_ms(1_000), &limits);
    apply(&mut tx, call).expect("the call succeeds");
    tx.finish().expect("no invariant is broken").merge(overlay, base);
}

/// A timer of the record that is said to be due.
fn expire(key: Key, timer: Timer, due: u64) -> Call {
    let expire = Expire { key: Some(key), timer, due: Time::from_ms(due), entropy: 0 };
    Call { principal: Principal::engine(), ..calls::call(Command::Expire(expire)) }
}

fn sealed(overlay: Overlay) -> Batch {
    overlay.seal(CommitId(Uuid::from_u128(3)), Head::default(), false, Time::from_ms(1_000)).0
}

#[test]
fn ri_5_commands_that_rest_on_different_revisions_of_a_record_tear_their_batch() {
    let mut world = kit::World::new();
    let id = world.submit(|_| {});
    let key = Key::Execution(id);
    let [older, newer] = [1, 2].map(|number| CommitId(Uuid::from_u128(number)));
    let record = world.record(key).expect("it was submitted");
    // The first drops an entry that its version of the record does not have; the record is loaded anew for the second,
    // which changes the record or only looks at it.
    for second in [calls::call(calls::hold(id)), expire(key, Timer::Retention, 600)] {
        for (revision, torn) in [(older, 0), (newer, 1)] {
            let mut overlay = Overlay::default();
            run(&mut overlay, &One(record.clone(), older), &expire(key, Timer::Retention, 500));
            run(&mut overlay, &One(record.clone(), revision), &second);
            assert_eq!(overlay.torn().len(), torn);
        }
    }
}

#[test]
fn ri_5_a_record_that_was_absent_and_is_written_without_a_look_tears_the_batch_of_who_saw_it() {
    let mut world = kit::World::new();
    let id = world.submit(|_| {});
    let record = world.record(Key::Execution(id)).expect("it was submitted");
    let mut overlay = Overlay::default();
    let there = One(record, CommitId(Uuid::from_u128(1)));
    run(&mut overlay, &there, &expire(Key::Execution(id), Timer::Retention, 500));
    let submit = Submit { id: Some(id), ..calls::submit() };
    run(&mut overlay, &Empty, &calls::call(Command::Submit(Box::new(submit))));
    assert!(overlay.torn().contains(&Key::Execution(id)));
}

#[test]
fn ri_5_a_record_that_is_deleted_blindly_is_verified_if_it_was_read() {
    let key = Key::DeadLetter(PARTITION, Uuid::from_u128(7));
    let limits = Limits::default();
    let mut overlay = Overlay::default();
    let mut tx = Tx::new(&Empty, &overlay, Time::from_ms(1_000), &limits);
    assert_eq!(tx.get(key, PartMask::NONE), Ok(None));
    tx.drop_due(DueEntry::new(Due { timer: Timer::Retention, at: Time::from_ms(500) }, key));
    tx.finish().expect("no invariant is broken").merge(&mut overlay, &Empty);
    let mut tx = Tx::new(&Unloaded, &overlay, Time::from_ms(1_000), &limits);
    tx.delete_blind(key);
    tx.finish().expect("no invariant is broken").merge(&mut overlay, &Unloaded);
    let batch = sealed(overlay);
    assert_eq!((batch.writes.len(), batch.reads), (1, vec![(key, None)]));
}

#[test]
fn ri_5_a_record_that_was_read_and_is_deleted_blindly_at_another_revision_tears_its_batch() {
    let mut world = kit::World::new();
    let id = world.submit(|_| {});
    let held = calls::fence(&world.claim(id));
    world.run(calls::complete(id, held, None)).expect("it completes");
    let key = Key::Attempt(id, 0);
    let record = world.record(key).expect("the attempt has ended");
    let limits = Limits::default();
    for (revision, torn) in [(1, 0), (2, 1)] {
        let mut overlay = Overlay::default();
        let [first, second] = [1, revision].map(|number| One(record.clone(), CommitId(Uuid::from_u128(number))));
        let mut tx = Tx::new(&first, &overlay, Time::from_ms(1_000), &limits);
        assert!(tx.get(key, PartMask::NONE).is_ok_and(|found| found.is_some()));
        tx.drop_due(DueEntry::new(Due { timer: Timer::Retention, at: Time::from_ms(500) }, key));
        tx.finish().expect("no invariant is broken").merge(&mut overlay, &first);
        let mut tx = Tx::new(&second, &overlay, Time::from_ms(1_000), &limits);
        tx.delete_blind(key);
        tx.finish().expect("no invariant is broken").merge(&mut overlay, &second);
        assert_eq!(overlay.torn().len(), torn);
    }
}

#[test]
fn a_timer_that_is_armed_again_in_a_batch_is_not_dropped_with_the_stale_entry() {
    let mut world = kit::World::new();
    let id = world.submit(|submit| submit.start = Some(When::At(Time::from_ms(5_000))));
    let key = Key::Execution(id);
    let record = world.record(key).expect("it was submitted");
    let due = record.due().into_iter().find(|due| due.at == Time::from_ms(5_000)).expect("it waits for its time");
    let base = One(record, CommitId(Uuid::from_u128(1)));
    let mut overlay = Overlay::default();
    let later = |ms| {
        let start = When::At(Time::from_ms(ms));
        calls::call(Command::Reschedule(Reschedule { id, start, reason: "".into() }))
    };
    run(&mut overlay, &base, &later(6_000));
    run(&mut overlay, &base, &expire(key, due.timer, 5_000));
    run(&mut overlay, &base, &later(5_000));
    let batch = sealed(overlay);
    assert_eq!(batch.due_drops, []);
    assert!(batch.writes.iter().all(|write| write.due_add.is_empty() && write.due_remove.is_empty()));
}

/// A store of which nothing has been loaded but that it has no executions.
struct Unloaded;

impl Base for Unloaded {
    fn get(&self, key: &Key) -> Lookup<'_> {
        match key {
            Key::Execution(_) => Lookup::Absent,
            _ => Lookup::Unknown,
        }
    }

    fn list(&self, _: List, _: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        None
    }
}

#[test]
fn fl_225_a_command_that_missed_something_is_not_refused_before_it_is_loaded() {
    let mut world = kit::World::new();
    let flow = FlowId::new(PARTITION, world.fresh());
    let fence = Fence { lease: world.fresh_lease(), epoch: 1 };
    let within = Some((world.fresh_id(), fence));
    let seal = Command::SealFlow(SealFlow { flow, keys: None, within, checked: None });
    let (overlay, limits) = (Overlay::default(), Limits::default());
    let mut tx = Tx::new(&Unloaded, &overlay, Time::from_ms(1_000), &limits);
    assert_eq!(apply(&mut tx, &calls::call(seal)), Err(Stop::Miss), "its caller is not there");
    assert_eq!(tx.misses().collect::<Vec<_>>(), [Miss::Record(Key::Flow(flow), PartMask::NONE)]);
}
