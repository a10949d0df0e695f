//! What the end of a member entails in its commit, and what becomes of ends that cannot be told.

use crate::ExecutionId;
use crate::FlowId;
use crate::change::DueEntry;
use crate::command::*;
use crate::event::Fact;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::SIBLINGS_AT_ONCE;
use crate::record::continuation::{Body, Rest};
use crate::record::execution::{Outcome, PublicState, State};
use crate::record::flow::{Mode, Remaining};
use crate::record::member::{GroupPolicy, GroupState, MAIN, Then};
use crate::record::{Continuation, Key, Record};
use crate::schema::{PartMask, Timer, execution as schema};

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

fn damage(world: &mut World, key: Key, part: u8) {
    world.records.get_mut(&key).unwrap().parts.insert(part, "\u{1}broken".into());
    world.planted = true;
}

/// The kinds and keys of what is parked.
fn parked(world: &World) -> Vec<(u8, bytes::Bytes)> {
    let letters = world.records.keys().filter(|key| matches!(key, Key::DeadLetter(..)));
    let letters = letters.filter_map(|key| match world.record(*key) {
        Some(Record::DeadLetter(letter)) => Some(letter.body),
        _ => None,
    });
    letters.map(|body| (body.kind, body.key)).collect()
}

fn named(key: Key) -> (u8, bytes::Bytes) {
    (key.kind() as u8, bytes::Bytes::copy_from_slice(key.to_bytes().as_slice()))
}

/// Puts a continuation there that no rule has written.
fn plant_work(world: &mut World, owner: ExecutionId) -> Key {
    let rest = Rest::Resolve { replays: 0, next: 0 };
    let body = Body { namespace: "shop".into(), created_at: world.now, rest, trouble: None };
    let record = Record::Continuation(Box::new(Continuation { owner, body }));
    let parts = record.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
    let stored = crate::kit::Stored { revision: Default::default(), facets: record.facets(), parts };
    world.records.insert(record.key(), stored);
    world.due.extend(record.due().into_iter().map(|due| DueEntry::new(due, record.key())));
    world.planted = true;
    record.key()
}

/// One way to end the member `u`, and how it then stands.
type End = (&'static str, fn(&mut World, FlowId), Outcome);

#[test]
fn sc_103_every_way_to_end_resolves_the_out_edges() {
    let id = |flow| member_id(flow, "u");
    let ends: [End; 10] = [
        ("complete", |world, flow| world.complete_member(flow, "u"), Outcome::Success),
        ("final failure", |world, flow| world.fail_member(flow, "u"), Outcome::Failed),
        (
            "cancel",
            |world, flow| drop(world.run(Command::Cancel(calls::cancel(member_id(flow, "u"))))),
            Outcome::Cancelled,
        ),
        (
            "cancel by its worker",
            |world, flow| {
                let held = world.claim_member(flow, "u");
                let fence = Some(fence(&held));
                world.run(Command::Cancel(Cancel { fence, ..calls::cancel(held.id) })).unwrap();
            },
            Outcome::Cancelled,
        ),
        (
            "force fail",
            |world, flow| drop(world.run(calls::force_fail(member_id(flow, "u"))).unwrap()),
            Outcome::Failed,
        ),
        (
            "force complete",
            |world, flow| {
                let (id, reason) = (member_id(flow, "u"), "known".into());
                let force = ForceComplete { id, result: None, content_type: None, reason };
                world.run(Command::ForceComplete(force)).unwrap();
            },
            Outcome::Success,
        ),
        ("deadline", |world, _| drop(world.at(50_000).scan()), Outcome::Expired),
        (
            "attempt timeout",
            |world, flow| {
                world.claim_member(flow, "u");
                world.at(5_000).scan();
            },
            Outcome::Expired,
        ),
        (
            "cancel of the flow",
            |world, flow| {
                let remaining = Remaining::Cancel(Mode::Immediate);
                world.run(Command::CancelFlow(CancelFlow { flow, remaining, reason: "enough".into() })).unwrap();
            },
            Outcome::Cancelled,
        ),
        ("skip", |world, flow| world.fail_member(flow, "before"), Outcome::Skipped),
    ];
    for (name, end, expected) in ends {
        let mut world = World::new();
        let line = if name == "skip" { "before u d before>u u*>d" } else { "u d u*>d" };
        let flow = world.flow_of(line, |flow| {
            let member = flow.members.iter_mut().find(|member| &*member.key == "u").unwrap();
            member.submit.deadline = Some(When::InMs(50_000));
            member.submit.policy.attempt_timeout_ms = Some(5_000);
        });
        end(&mut world, flow);
        let State::Done { outcome, .. } = world.execution(id(flow)).hot.state else { panic!("{name}: it has ended") };
        assert_eq!(outcome, expected, "{name}");
        let edges = world.edges_of(flow);
        let edge = edges.iter().find(|edge| edge.upstream == id(flow)).unwrap();
        assert_eq!(edge.body.resolved.map(|end| (end.met, end.outcome)), Some((true, expected)), "{name}");
    }
}

#[test]
fn sc_106_an_upstream_that_cannot_be_read_resolves_nothing() {
    let mut world = World::new();
    let flow = world.flow_of("u a b u>a u>b", |_| {});
    let held = world.claim_member(flow, "u");
    damage(&mut world, Key::Execution(held.id), schema::HOT);
    let before = (world.records.clone(), world.due.clone());
    let refused = world.run(calls::complete(held.id, fence(&held), None)).unwrap_err();
    assert_eq!(refused.code(), "internal");
    assert_eq!((world.records.clone(), world.due.clone()), before, "nothing is half done");
}

#[test]
fn sc_107_a_continuation_of_nobody_is_removed_and_reported() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d", |_| {});
    let (gone, alone) = (world.unknown(), world.submit(|_| {}));
    for owner in [gone, alone] {
        let key = plant_work(&mut world, owner);
        world.scan();
        assert!(world.record(key).is_none(), "it is removed");
        assert!(parked(&world).contains(&named(key)), "and in sight");
    }
    assert!(world.edges_of(flow).iter().all(|edge| edge.body.resolved.is_none()), "nothing was resolved");
}

#[test]
fn sc_108_a_member_without_edges_ends_in_silence() {
    let mut world = World::new();
    let flow = world.flow_of("u d", |_| {});
    world.complete_member(flow, "u");
    assert!(
        world.touched.iter().all(|key| !matches!(key, Key::Edge(..) | Key::Continuation(..) | Key::DeadLetter(..)))
    );
    assert_eq!(world.state(flow, "d"), "waiting");
}

#[test]
fn sc_109_an_edge_that_does_not_decode_is_parked_and_passed() {
    let mut world = World::new();
    let flow = world.flow_of("u a b c u>a u>b u>c", |_| {});
    let u = member_id(flow, "u");
    let edge = Key::Edge(u, 1);
    damage(&mut world, edge, 0);
    let before = world.records.len();
    world.complete_member(flow, "u");
    assert_eq!(world.states(flow, "a b c"), ["waiting", "waiting_children", "waiting"]);
    assert_eq!(parked(&world), [named(edge)]);
    assert_eq!(world.records[&edge].parts[&0], "\u{1}broken", "SR-26 its bytes stay");
    assert_eq!(world.records.len(), before + 2, "an attempt and a letter: no record is made up");
}

#[test]
fn sc_110_an_edge_whose_downstream_is_gone_is_parked_and_the_rest_go_on() {
    let mut world = World::new();
    let flow = world.flow_of("u a b u>a u>b", |_| {});
    world.records.remove(&Key::Execution(member_id(flow, "a")));
    world.planted = true;
    world.complete_member(flow, "u");
    assert_eq!(world.state(flow, "b"), "waiting");
    assert_eq!(parked(&world), [named(Key::Edge(member_id(flow, "u"), 0))]);
}

#[test]
fn sc_111_a_child_becomes_ready_in_its_own_lane_or_not_at_all() {
    // SC-112, SC-113: the lane stands from the submission on, and no attempt is a state of its own.
    let mut world = World::new();
    let flow = world.flow_of("u a b u>a u>b", |flow| flow.members[1].submit.lane = "gpu".into());
    let (a, b) = (world.member(flow, "a"), world.member(flow, "b"));
    assert_eq!((&*a.spec.lane, &*b.spec.lane), ("gpu", "mail"), "SC-112");
    assert_eq!((a.hot.attempts, &a.hot.open), (0, &None), "SC-113 none yet");
    for (key, part) in [("a", schema::SPEC), ("b", schema::HOT)] {
        let mut broken = world.clone();
        damage(&mut broken, Key::Execution(member_id(flow, key)), part);
        let before = broken.records[&Key::Execution(member_id(flow, key))].clone();
        broken.complete_member(flow, "u");
        assert_eq!(broken.records[&Key::Execution(member_id(flow, key))], before, "{key}: neither lane nor attempt 0");
        assert_eq!(parked(&broken), [named(Key::Execution(member_id(flow, key)))]);
    }
    world.complete_member(flow, "u");
    let ready = &world.records[&Key::Execution(a.id)].facets[schema::LANE];
    assert_eq!(*ready, crate::schema::Value::Text("gpu".into()));
    assert_eq!((world.member(flow, "a").hot.attempts, world.claim_member(flow, "a").attempt), (0, 0));
}

#[test]
fn sc_114_one_commit_changes_all_that_an_end_entails() {
    let mut world = World::new();
    let flow = world.flow_of("a b d x a>d=in b>d x>d@late", |flow| {
        policy(flow, "d", MAIN, GroupPolicy::AnyOf, CANCEL);
        policy(flow, "d", "late", GroupPolicy::AnyOf, Then::LetRun);
    });
    world.complete_member(flow, "x");
    let held = world.claim_member(flow, "a");
    let commits = world.commits;
    world.run(calls::complete(held.id, fence(&held), Some(b"value"))).unwrap();
    assert_eq!(world.commits, commits + 1);
    let (a, b, d) = (member_id(flow, "a"), member_id(flow, "b"), member_id(flow, "d"));
    for key in [
        Key::Execution(a),
        Key::Attempt(a, 0),
        Key::Edge(a, 0),
        Key::Execution(d),
        Key::Execution(b),
        Key::Edge(b, 0),
        Key::Flow(flow),
    ] {
        assert!(world.touched.contains(&key), "{key:?}");
    }
    assert_eq!(world.states(flow, "a b d"), ["completed", "cancelled", "waiting"]);
    assert!(!world.due.iter().any(|entry| entry.timer() == Some(Timer::Lease)), "the lease is over");
    let summary = world.flow(flow).summary;
    assert_eq!((summary.edges_pending, summary.of(PublicState::Waiting)), (0, 1));
}

#[test]
fn sc_115_the_result_of_an_upstream_comes_with_the_claim() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d=in", |_| {});
    world.complete_member(flow, "u");
    assert_eq!(member_id(flow, "u").partition(), member_id(flow, "d").partition(), "FL-1");
    let claimed = world.claim_member(flow, "d");
    let input = &claimed.inputs[0];
    assert_eq!((&*input.name, &*input.upstream, input.outcome), ("in", "u", Outcome::Success));
    assert!(format!("{:?}", input.value).contains("done"), "{:?}", input.value);
}

#[test]
fn sc_118_only_a_skip_starts_a_cascade() {
    // SC-119: an edge that is resolved stays so in silence.
    let mut world = World::new();
    let flow = world.flow_of("u a b u>a=in a>b", |_| {});
    world.complete_member(flow, "u");
    let pending = |world: &World| world.edges_of(flow).iter().filter(|edge| edge.body.resolved.is_none()).count();
    assert_eq!((pending(&world), world.states(flow, "a b")), (1, vec!["waiting", "waiting_children"]));
    let (edges, events) = (world.edges_of(flow), world.events.len());
    plant_work(&mut world, member_id(flow, "u"));
    world.scan();
    assert_eq!((world.edges_of(flow), world.events.len()), (edges, events), "SC-119");
    world.fail_member(flow, "a");
    assert_eq!((pending(&world), world.state(flow, "b")), (0, "skipped"));
}

#[test]
fn sc_120_a_level_is_resolved_before_the_next() {
    let mut world = World::new();
    let flow = world.flow_of("u a b c d u>a u>b a>c b>d", |_| {});
    world.fail_member(flow, "u");
    let skipped = world.events.iter().filter_map(|event| match &event.fact {
        Fact::Finished { outcome: Outcome::Skipped, .. } => event.execution,
        _ => None,
    });
    let order: Vec<ExecutionId> = skipped.collect();
    assert_eq!(order, ["a", "b", "c", "d"].map(|key| member_id(flow, key)));
}

#[test]
fn sc_123_a_cascade_ends_on_every_graph_and_resolves_each_edge_once() {
    let mut seed = 7u64;
    let mut draw = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..40 {
        let mut world = World::new();
        let count = 3 + draw(20) as usize;
        let mut flow = blank_flow();
        flow.members = (0..count).map(|at| member(&format!("m{at}"))).collect();
        for to in 1..count {
            for from in 0..to {
                if draw(4) == 0 {
                    flow.edges.push(edge(&format!("m{from}{}>m{to}", ["", "!", "*"][draw(3) as usize])));
                }
            }
        }
        let edges = flow.edges.len();
        let flow = world.submit_flow(flow).unwrap().id;
        while let Some(ready) = world.members_of(flow).into_iter().find(|it| it.public_state() == PublicState::Waiting)
        {
            let key = ready.member().unwrap().key.to_string();
            if draw(2) == 0 { world.fail_member(flow, &key) } else { world.complete_member(flow, &key) }
        }
        let resolved: u32 = world.members_of(flow).iter().map(|it| it.member().unwrap().resolutions).sum();
        assert_eq!(resolved as usize, edges, "round {round}: each once");
        assert!(world.flow(flow).is_done(), "round {round}");
    }
}

#[test]
fn sc_125_siblings_are_cancelled_in_the_deciding_commit_and_the_rest_is_indexed() {
    for policy_of in [GroupPolicy::AnyOf, GroupPolicy::Quorum(2)] {
        let mut world = World::new();
        let mut flow = blank_flow();
        flow.members = (0..400).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
        flow.edges = (0..400).map(|at| edge(&format!("s{at}>j"))).collect();
        policy(&mut flow, "j", MAIN, policy_of, CANCEL);
        let flow = world.submit_flow(flow).unwrap().id;
        let winners = policy_of.needed(400);
        for at in 0..winners {
            assert_eq!(world.flow(flow).summary.of(PublicState::Cancelled), 0, "nothing before the decision");
            world.complete_member(flow, &format!("s{at}"));
        }
        assert_eq!(world.flow(flow).summary.of(PublicState::Cancelled), SIBLINGS_AT_ONCE as u32 - winners);
        let group = world.member(flow, "j").member().unwrap().groups[0].clone();
        assert_eq!(
            (group.state, group.owed.map(|owed| owed.cursor)),
            (GroupState::Satisfied, Some(SIBLINGS_AT_ONCE as u32))
        );
        assert_eq!(world.due.iter().filter(|entry| entry.timer() == Some(Timer::GroupCancel)).count(), 1);
        world.scan();
        assert_eq!(world.flow(flow).summary.of(PublicState::Cancelled), 400 - winners);
    }
}

#[test]
fn fl_82_an_edge_that_is_resolved_again_changes_no_counter() {
    let mut world = World::new();
    let flow = world.flow_of("u v d e u>d v>d u!>e", |_| {});
    world.complete_member(flow, "u");
    let u = member_id(flow, "u");
    let stands = |world: &World| {
        let of = |key| world.member(flow, key).member().unwrap().clone();
        (world.edges_of(flow), of("d"), of("e"), world.flow(flow).summary)
    };
    let before = stands(&world);
    assert_eq!((before.1.groups[0].met, before.1.resolutions, before.3.edges_pending), (1, 1, 1));
    // A continuation and the audit meet what the end itself has done.
    plant_work(&mut world, u);
    let audit = world.flow(flow).hot.audit_at.unwrap();
    world.now = audit;
    let command = Command::AuditFlow(AuditFlow { flow, due: audit, ended: vec![(u, 0), (u, 1)] });
    world.call(&Call { principal: Principal::engine(), ..calls::call(command) }).unwrap();
    let key = Key::Continuation(u, crate::record::continuation::Work::Resolve);
    world.expire(key, Timer::Resolve, crate::Time::ZERO).unwrap();
    assert!(world.record(key).is_none(), "it is through");
    let after = stands(&world);
    assert_eq!((&after.0, &after.1, &after.2), (&before.0, &before.1, &before.2));
    assert_eq!((after.3.edges_pending, after.3.by_state), (before.3.edges_pending, before.3.by_state));
}

#[test]
fn fl_84_a_continuation_of_another_end_removes_itself_and_resolves_nothing() {
    let mut world = World::new();
    let flow = world.flow_of("u d u>d", |_| {});
    let (u, d) = (member_id(flow, "u"), member_id(flow, "d"));
    let untouched = |world: &mut World, what: &str| {
        let (edges, waits) = (world.edges_of(flow), world.execution(d));
        let key = plant_work(world, u);
        world.expire(key, Timer::Resolve, world.now).unwrap();
        assert!(world.record(key).is_none(), "{what}: it has removed itself");
        assert_eq!((world.edges_of(flow), world.execution(d)), (edges, waits), "{what}");
    };
    untouched(&mut world, "the upstream lives");
    world.fail_member(flow, "u");
    world.run(Command::Replay(calls::replay(u))).unwrap();
    untouched(&mut world, "it lives again");
    // It has ended again, and this end was not told yet: the work is that of the one before.
    let (pending, waits) = (world.records[&Key::Edge(u, 0)].clone(), world.records[&Key::Execution(d)].clone());
    world.complete_member(flow, "u");
    world.records.insert(Key::Edge(u, 0), pending);
    world.records.insert(Key::Execution(d), waits);
    untouched(&mut world, "it has ended since");
    assert_eq!(world.state(flow, "d"), "waiting_children");
}

#[test]
fn fl_86_a_child_is_claimable_in_the_commit_of_its_last_upstream() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d b>d", |_| {});
    world.complete_member(flow, "a");
    let held = world.claim_member(flow, "b");
    assert_eq!(world.try_claim(member_id(flow, "d"), |_| {}).unwrap_err().code(), "not_claimable");
    let commits = world.commits;
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.commits, commits + 1);
    let index = &world.records[&Key::Execution(member_id(flow, "d"))].facets[schema::READY_ORDER];
    assert!(!index.is_null(), "it is in the ready queue");
    world.claim_member(flow, "d");
    assert_eq!(world.commits, commits + 2, "nothing in between");
}

#[test]
fn fl_3_no_outcome_counter_or_time_is_taken_from_whoever_calls() {
    let mut world = World::new();
    let flow = world.flow_of("u v d u>d v>d", |flow| flow.seal = false);
    let u = member_id(flow, "u");
    let before = world.flow(flow);
    let (seal_by, audit, verify) = (before.hot.seal_by.unwrap(), before.hot.audit_at, before.hot.verify_at);
    let engine = |command| Call { principal: Principal::engine(), ..calls::call(command) };
    // Those who name an upstream as ended are not believed, nor are those who name a time that has not come.
    let audit = audit.unwrap();
    world.expire(Key::Flow(flow), Timer::SealBy, seal_by).unwrap();
    assert_eq!(world.flow_state(flow), "open", "its time has not come");
    world.now = audit;
    let ended = Command::AuditFlow(AuditFlow { flow, due: audit, ended: vec![(u, 0)] });
    world.call(&engine(ended)).unwrap();
    world.scan();
    assert!(world.edges_of(flow).iter().all(|edge| edge.body.resolved.is_none()), "the upstream lives");
    let mut counted = world.recount(flow);
    counted.by_state[PublicState::Completed as usize] += 1;
    let change_no = world.flow(flow).summary.change_no;
    let (due, counted, now) = (verify.unwrap(), counted.into(), world.now);
    let told = VerifyFlow { flow, due, change_no, counted, edges: true, now };
    // Nobody but the engine says what was counted, and what it says is doubted once.
    for command in [
        Command::VerifyFlow(told),
        Command::AuditFlow(AuditFlow { flow, due: audit, ended: vec![(u, 0)] }),
        Command::ReconcileGroup(ReconcileGroup { id: u, due: audit, seen_at: audit }),
        Command::Expire(Expire { key: Some(Key::Flow(flow)), timer: Timer::SealBy, due: seal_by, entropy: 0 }),
    ] {
        assert_eq!(world.run(command).unwrap_err().code(), "forbidden");
    }
    assert_eq!(world.flow(flow).summary.of(PublicState::Completed), 0);
}

#[test]
fn fl_225_a_cascade_that_stops_at_what_is_not_in_memory_loses_nothing_that_it_missed_before() {
    // The longer the chain, the more often the command was run before it comes to `d`.
    for length in 1..20 {
        let chain: String = (1..length).map(|at| format!(" c{} c{at}>c{}", at + 1, at + 1)).collect();
        let line = format!("u x c1 d e f u>c1{chain} c{length}>d u*>d@other d>e d>f x>e u*>e@other");
        let mut world = World::new();
        let flow = world.flow_of(&line, |flow| policy(flow, "e", MAIN, GroupPolicy::AnyOf, Then::LetRun));
        world.fail_member(flow, "x");
        // `e` is skipped for two edges, and looks for them among edges that nobody has loaded.
        world.fail_member(flow, "u");
        world.scan();
        assert_eq!(world.states(flow, "d e f"), ["skipped"; 3], "a chain of {length}");
    }
}
