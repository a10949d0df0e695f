//! Bytes that were written once must read back for ever, as what they were.

mod kit;

use kit::World;
use kit::calls::{cancel, create_key, fail, fence, record, rotate_key, step};
use weft_core::BulkId;
use weft_core::command::{Call, CancelFlow, Command, DrainNode, Heartbeat, Principal, Purge, StartBulk, When};
use weft_core::event::{self, Event};
use weft_core::filter::Filter;
use weft_core::flow::member_id;
use weft_core::record::bulk_job::Verb;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::record::register::Subject;
use weft_core::record::{BulkJob, Key, Record, api_key, node};
use weft_core::schema::PartMask;

/// A few records of every part that the codec writes.
fn records() -> Vec<(&'static str, Key, Record)> {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    let id = world.submit(|cmd| {
        cmd.input = Some("in".into());
        cmd.content_type = Some("text/plain".into());
        cmd.deadline = Some(When::InMs(3_600_000));
        cmd.idempotency_key = Some("key".into());
        cmd.tags.insert("team".into(), "a".into());
    });
    let held = fence(&world.claim(id));
    world.now = world.now + 1_500;
    world.run(record(id, held, vec![step("fetch", b"page")])).expect("it is recorded");
    let recorded = world.record(Key::Step(id, 0)).expect("the step");
    let active = world.record(Key::Execution(id)).expect("the execution");
    world.run(fail(id, held)).expect("it fails");
    let failed = world.record(Key::Attempt(id, 0)).expect("the attempt");
    world.run(Command::Cancel(cancel(id))).expect("it is cancelled");
    let done = world.record(Key::Execution(id)).expect("the execution");
    let dedup = Key::Dedup(id.partition(), weft_core::digest::idempotency("shop", None, b"key"));
    let bound = world.record(dedup).expect("the dedup");
    world.run(kit::calls::register_worker("w1", "a")).expect("it is registered");
    let body = kit::calls::worker(world.run(kit::calls::drain_worker("w1", Some(60_000))));
    let drained = Record::Worker(Box::new(weft_core::record::Worker { partition: id.partition(), body }));
    world.run(create_key("ops00001", "ops")).expect("it is created");
    world.run(rotate_key("ops00001", None)).expect("it is rotated");
    let ops = Key::ApiKey(api_key::HOME, "ops00001".parse().expect("an id"));
    let (entry, end) = (Key::Audit(api_key::HOME, 2), Key::Register(api_key::HOME, Subject::AuditEnd));
    let names = Key::Register(api_key::HOME, Subject::KeyNames);
    let [rotated, told, ended, named] = [ops, entry, end, names].map(|key| world.record(key).expect("it is there"));
    let (key, attempt, step) = (Key::Execution(id), Key::Attempt(id, 0), Key::Step(id, 0));
    let (bulk, started) = bulk_job();
    let (drains, wanted) = node_drains();
    let (node, beating) = node();
    let mut records = vec![
        ("bulk", bulk, started),
        ("active", key, active),
        ("failed", attempt, failed),
        ("done", key, done),
        ("bound", dedup, bound),
        ("step", step, recorded),
        ("worker", kit::calls::worker_key("w1"), drained),
        ("api_key", ops, rotated),
        ("audit", entry, told),
        ("audit_end", end, ended),
        ("key_names", names, named),
        ("node_drains", drains, wanted),
        ("node", node, beating),
    ];
    records.extend(flow_records());
    records
}

/// Made in a world of its own: the start of a job leaves an entry in the audit log.
fn bulk_job() -> (Key, Record) {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    let id = BulkId::new(kit::PARTITION, uuid::Uuid::from_u128(7));
    let tag = Some(("team".into(), "a".into()));
    let filter = Filter { states: vec![PublicState::Failed], tag, ..Filter::default() };
    let verb = Verb::Hold { reason: "look first".into(), revoke: true };
    let start = StartBulk { id: Some(id), partitions: 3, filter, verb, dry_run: false, max: Some(9) };
    world.run(Command::StartBulk(Box::new(start))).expect("it starts");
    let key = BulkJob::key_of(id);
    (key, world.record(key).expect("the bulk job"))
}

/// Made in a world of its own, like the bulk job.
fn node_drains() -> (Key, Record) {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    let drain = DrainNode { partition: kit::PARTITION, node: uuid::Uuid::from_u128(7), reason: "new kernel".into() };
    world.run(Command::DrainNode(drain)).expect("it is noted");
    let key = Key::Register(kit::PARTITION, Subject::NodeDrains);
    (key, world.record(key).expect("the register"))
}

fn node() -> (Key, Record) {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    let filter = |namespace: Option<&str>| node::Filter {
        namespace: namespace.map(Into::into),
        tag: Some(("team".into(), "a".into())),
    };
    let heartbeat = Heartbeat {
        partition: kit::PARTITION,
        node: uuid::Uuid::from_u128(7),
        name: "web-1".into(),
        version: "0.1.0".into(),
        started_at: world.now,
        left: false,
        claimed: vec![0, 2],
        filters: node::Filters { general: filter(None), scanners: [("mine".into(), filter(Some("shop")))].into() },
        seen: vec![(1, 9)],
    };
    let key = Key::Node(kit::PARTITION, heartbeat.node);
    let command = Command::Heartbeat(heartbeat);
    world.call(&Call { principal: Principal::engine(), ..kit::calls::call(command) }).expect("it is noted");
    (key, world.record(key).expect("the node"))
}

/// A flow as it runs, ends and has ended, with what belongs to it.
fn flow_records() -> Vec<(&'static str, Key, Record)> {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    let (grace, remaining) = (Mode::Graceful { grace_ms: 5_000 }, Remaining::FinishActive);
    let line = "fetch guess spare join fetch>join=page guess!>join@odds spare*>join@odds=spare";
    let flow = world.flow_of(line, |flow| {
        flow.name = Some("nightly".into());
        flow.tags.insert("team".into(), "a".into());
        flow.failure = FailurePolicy::FailFast { remaining: Remaining::Cancel(grace) };
        flow.completion = CompletionPolicy::Root { key: "join".into(), remaining };
        flow.deadline = Some(When::InMs(3_600_000));
        flow.idempotency_key = Some("nightly-1".into());
        flow.members[1].critical = false;
        kit::flows::policy(flow, "join", MAIN, GroupPolicy::AllOf, Then::LetRun);
        kit::flows::policy(flow, "join", "odds", GroupPolicy::Quorum(1), Then::CancelRemaining(grace));
    });
    let [fetch, guess, join] = ["fetch", "guess", "join"].map(|key| member_id(flow, key));
    let spare = world.claim_member(flow, "spare");
    let waiting = world.record(Key::Execution(join)).expect("the member");
    world.now = world.now + 1_500;
    world.fail_member(flow, "guess");
    world.complete_member(flow, "fetch");
    let key = Key::Flow(flow);
    let dedup = Key::Dedup(flow.partition(), weft_core::digest::flow_key("shop", b"nightly-1"));
    let keys = [key, Key::Edge(fetch, 0), Key::Edge(guess, 0), Key::Execution(join), dedup];
    let [open, met, odd, ready, bound] = keys.map(|key| world.record(key).expect("it is there"));
    let cancel = CancelFlow { flow, remaining, reason: "no longer needed".into() };
    world.run(Command::CancelFlow(cancel)).expect("it is cancelled");
    let ending = world.record(key).expect("the flow");
    world.run(kit::calls::complete(spare.id, fence(&spare), None)).expect("it completes");
    let done = world.record(key).expect("the flow");
    let cancelled = world.record(Key::Execution(join)).expect("the member");
    world.run(Command::Purge(Purge { id: fetch, reason: "".into() })).expect("it is purged");
    let stone = world.record(Key::Tombstone(fetch)).expect("what is left of it");
    let later = world.flow_of("up down up>down", |flow| flow.members[1].submit.start = Some(When::InMs(3_600_000)));
    let down = Key::Execution(member_id(later, "down"));
    world.run(kit::calls::hold(member_id(later, "down"))).expect("it is held");
    world.fail_member(later, "up");
    let skipped = world.record(down).expect("the member");
    vec![
        ("flow_open", key, open),
        ("flow_ending", key, ending),
        ("flow_done", key, done),
        ("flow_bound", dedup, bound),
        ("edge_met", Key::Edge(fetch, 0), met),
        ("edge_odd", Key::Edge(guess, 0), odd),
        ("member_waiting", Key::Execution(join), waiting),
        ("member_ready", Key::Execution(join), ready),
        ("member_cancelled", Key::Execution(join), cancelled),
        ("tombstone", Key::Tombstone(fetch), stone),
        ("member_skipped", down, skipped),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("a hex digit");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn encoded() -> String {
    let mut text = String::new();
    for (name, _, record) in records() {
        for (part, bytes) in record.encode(PartMask::ALL) {
            if let Some(bytes) = bytes {
                text += &format!("{name} {part} {}\n", hex(&bytes));
            }
        }
    }
    text
}

#[test]
fn records_are_written_as_ever() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.hex");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, encoded()).expect("the golden bytes can be rewritten");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the golden bytes"), encoded());
}

#[test]
fn golden_bytes_read_back_as_the_records_they_were() {
    let golden = include_str!("golden.hex");
    for (name, key, record) in records() {
        let parts: Vec<_> = golden
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                (words.next() == Some(name)).then(|| {
                    let part = words.next().expect("a part").parse().expect("a number");
                    (part, unhex(words.next().expect("bytes")).into())
                })
            })
            .collect();
        let read = Record::decode(key, &parts, PartMask::ALL).expect("golden bytes decode");
        assert_eq!(read, record, "{name}");
    }
}

#[test]
fn damaged_bytes_are_an_error_and_never_a_default() {
    for (name, key, record) in records() {
        let parts: Vec<_> =
            record.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
        let (part, bytes) = &parts[0];
        for damaged in
            [&b""[..], &bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat(), &[&[9], &bytes[1..]].concat()]
        {
            let mut parts = parts.clone();
            parts[0] = (*part, bytes::Bytes::copy_from_slice(damaged));
            assert!(Record::decode(key, &parts, PartMask::ALL).is_err(), "{name} {damaged:?}");
        }
    }
}

/// A feed entry with what stands alone, a member and a flow.
fn feed() -> Vec<Event> {
    let mut world = World::new();
    world.at(1_700_000_000_000);
    world.submit(|_| {});
    let flow = world.flow_of("only", |_| {});
    world.complete_member(flow, "only");
    world.events
}

#[test]
fn fd_4_feed_entries_are_written_as_ever_and_those_of_before_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/feed.hex");
    let golden = std::fs::read_to_string(path).expect("the golden bytes");
    let (old, now) = golden.trim_end().rsplit_once('\n').expect("a line for each format");
    let (first, second) = old.split_once('\n').expect("two older ones");
    let written = hex(&event::encode(&feed()));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{old}\n{written}\n")).expect("the golden bytes can be rewritten");
    }
    assert_eq!(now, written);
    assert_eq!(event::decode(&unhex(now)), Ok(feed()));
    // What wrote the older ones did not tell that a flow was sealed by the call that made it.
    let mut untold = feed();
    untold.retain(|event| event.fact.name() != "flow.sealed");
    assert_eq!(event::decode(&unhex(second)).as_ref(), Ok(&untold));
    // Format 1 does not say which flow an execution belongs to.
    for event in untold.iter_mut().filter(|event| event.fact.name().starts_with("execution.")) {
        event.flow = None;
    }
    assert_eq!(event::decode(&unhex(first)), Ok(untold));
}

#[test]
fn fd_5_events_of_members_and_of_flows_name_the_flow() {
    let feed = feed();
    let flow = feed.iter().find_map(|event| event.flow).expect("a flow");
    let named: Vec<_> = feed.iter().map(|event| (event.fact.name(), event.flow.is_some())).collect();
    let expected = [
        ("execution.submitted", false),
        ("execution.submitted", true),
        ("flow.created", true),
        ("flow.sealed", true),
        ("execution.claimed", true),
        ("execution.finished", true),
        ("flow.finished", true),
    ];
    assert_eq!(named, expected);
    assert!(feed.iter().filter_map(|event| event.flow).all(|other| other == flow));
}
