//! The safety nets behind flows: what they find when something was broken on purpose, and that they leave alone what is
//! not theirs.

use crate::change::DueEntry;
use crate::command::*;
use crate::event::Fact;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, call, fence};
use crate::kit::flows::*;
use crate::limits::{FANOUT_PER_COMMIT, SIBLINGS_AT_ONCE};
use crate::record::continuation::Work;
use crate::record::execution::PublicState;
use crate::record::flow::{CompletionPolicy, Remaining};
use crate::record::member::{GroupPolicy, MAIN, Mode, Then};
use crate::record::{Key, Record};
use crate::reply::{Expired, Reconciled, Reply};
use crate::schema::{Due, PartMask, Timer, execution as schema};
use crate::{ExecutionId, FlowId};
use std::collections::BTreeSet;

const CANCEL: Then = Then::CancelRemaining(Mode::Immediate);

/// A race of so many siblings, one of which has won; the rest is owed a cancel.
fn owing(count: usize) -> (World, FlowId, ExecutionId) {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..count).map(|at| member(&format!("s{at}"))).chain([member("j")]).collect();
    flow.edges = (0..count).map(|at| edge(&format!("s{at}>j"))).collect();
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL);
    let flow = world.submit_flow(flow).unwrap().id;
    // A large one is sealed bit by bit.
    world.scan();
    world.complete_member(flow, "s0");
    let join = member_id(flow, "j");
    (world, flow, join)
}

/// As the safety net does with the entry of the member, a while after it was written.
fn reconcile(world: &mut World, id: ExecutionId) -> Reconciled {
    let entries = world.due.iter().filter(|entry| entry.timer() == Some(Timer::GroupCancel));
    let due = entries.map(|entry| entry.at).next().unwrap_or(world.now);
    world.now = world.now + 10_000;
    reconcile_seen(world, ReconcileGroup { id, due, seen_at: world.now })
}

fn reconcile_seen(world: &mut World, cmd: ReconcileGroup) -> Reconciled {
    let command = Command::ReconcileGroup(cmd);
    match world.call(&Call { principal: Principal::engine(), ..call(command) }).unwrap() {
        Reply::Reconciled { action, .. } => action,
        other => panic!("{other:?}"),
    }
}

fn owed(world: &World, id: ExecutionId) -> Option<u32> {
    world.execution(id).member().unwrap().groups[0].owed.map(|owed| owed.cursor)
}

/// Puts a changed record in place of the stored one, as damage from outside would.
fn plant(world: &mut World, record: Record) {
    let key = record.key();
    let parts = record.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
    let stored = world.records.get_mut(&key).unwrap();
    (stored.parts, stored.facets) = (parts, record.facets());
    world.due.retain(|entry| !(entry.kind == key.kind() as u8 && entry.key == key.to_bytes().as_slice()));
    world.due.extend(record.due().into_iter().map(|due| DueEntry::new(due, key)));
    world.planted = true;
}

#[test]
fn sc_38_what_is_owed_is_written_in_the_deciding_commit_and_goes_with_the_last_sibling() {
    let (mut world, flow, join) = owing(600);
    assert_eq!(
        owed(&world, join),
        Some(SIBLINGS_AT_ONCE as u32),
        "FL-115 so many were looked at, the winner among them"
    );
    let key = Key::Execution(join);
    let entry = world.due.iter().find(|entry| entry.timer() == Some(Timer::GroupCancel)).cloned();
    assert_eq!(
        entry.map(|entry| entry.key),
        Some(DueEntry::new(Due { timer: Timer::GroupCancel, at: world.now }, key).key)
    );
    world.scan();
    assert_eq!((owed(&world, join), world.flow(flow).hot.works), (None, 0));
    assert!(!world.due.iter().any(|entry| entry.timer() == Some(Timer::GroupCancel)));
}

#[test]
fn sc_50_a_group_with_siblings_that_live_is_left_alone_to_the_byte() {
    // SC-50, SC-52: it cancels nobody.
    let (mut world, _, join) = owing(600);
    let before = world.records.clone();
    assert_eq!(reconcile(&mut world, join), Reconciled::LeftAlone);
    assert_eq!(world.records, before, "FL-125");
}

#[test]
fn sc_49_a_group_whose_siblings_have_all_ended_is_cleared_with_its_entry() {
    let (mut world, flow, join) = owing(300);
    for at in SIBLINGS_AT_ONCE..300 {
        let id = member_id(flow, &format!("s{at}"));
        if !world.execution(id).is_done() {
            world.run(Command::Cancel(calls::cancel(id))).unwrap();
        }
    }
    assert_eq!(reconcile(&mut world, join), Reconciled::DrainCompleted);
    assert_eq!((owed(&world, join), world.flow(flow).hot.works), (None, 0));
    assert_eq!(reconcile(&mut world, join), Reconciled::StaleRemoved, "SC-48 nothing is owed");
}

#[test]
fn sc_49_needed_siblings_do_not_keep_an_entry() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members =
        (0..300).map(|at| member(&format!("s{at}"))).chain([member("j"), member("k"), member("z")]).collect();
    flow.edges = (0..300).flat_map(|at| [edge(&format!("s{at}>j")), edge(&format!("s{at}>k"))]).collect();
    flow.edges.push(edge("z>k"));
    policy(&mut flow, "j", MAIN, GroupPolicy::AnyOf, CANCEL);
    let flow = world.submit_flow(flow).unwrap().id;
    world.complete_member(flow, "s0");
    let join = member_id(flow, "j");
    assert!(owed(&world, join).is_some());
    assert_eq!(reconcile(&mut world, join), Reconciled::DrainCompleted, "k needs all of them");
    assert_eq!(world.flow(flow).summary.of(PublicState::Cancelled), 0);
}

#[test]
fn sc_51_an_entry_that_has_gone_meanwhile_is_left_alone() {
    let (mut world, _, join) = owing(600);
    let due = world.due.iter().find(|entry| entry.timer() == Some(Timer::GroupCancel)).map(|entry| entry.at).unwrap();
    let seen_at = world.now;
    // The dispatcher was faster: the entry went with what was owed.
    world.now = world.now + 1;
    while owed(&world, join).is_some() {
        world.expire(Key::Execution(join), Timer::GroupCancel, due).unwrap();
    }
    let before = world.records.clone();
    assert_eq!(reconcile_seen(&mut world, ReconcileGroup { id: join, due, seen_at }), Reconciled::LeftAlone);
    assert_eq!(world.records, before);
    let stale = world.expire(Key::Execution(join), Timer::GroupCancel, due);
    assert_eq!(stale, Ok(Reply::Expired(Expired::Stale)), "and the dispatcher finds nothing either");
}

#[test]
fn sc_48_an_entry_of_nobody_or_of_a_group_that_owes_nothing_is_removed_alone() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let due = world.now;
    for id in [world.unknown(), member_id(flow, "b")] {
        let entry = DueEntry::new(Due { timer: Timer::GroupCancel, at: due }, Key::Execution(id));
        world.due.insert(entry.clone());
        let before = world.records.clone();
        let seen_at = world.now + 10_000;
        world.now = seen_at;
        assert_eq!(reconcile_seen(&mut world, ReconcileGroup { id, due, seen_at }), Reconciled::StaleRemoved);
        assert!(!world.due.contains(&entry) && world.records == before, "the entry, and nothing else");
    }
}

#[test]
fn sc_47_a_group_larger_than_a_page_gets_one_decision_in_one_commit() {
    let (mut world, flow, join) = owing(1_300);
    for at in SIBLINGS_AT_ONCE..1_300 {
        world.run(Command::Cancel(calls::cancel(member_id(flow, &format!("s{at}"))))).unwrap();
    }
    let commits = world.commits;
    assert_eq!(reconcile(&mut world, join), Reconciled::DrainCompleted);
    assert_eq!((world.commits, owed(&world, join)), (commits + 1, None));
}

#[test]
fn sc_18_all_ended_needs_members_and_each_of_them_ended() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d before", |flow| {
        flow.edges.push(edge("before>c"));
        flow.members[3].submit.deadline = Some(When::InMs(10));
        flow.completion = CompletionPolicy::AllTerminal;
    });
    let ended = |world: &World| (world.flow(flow).summary.ended(), world.flow(flow).is_done());
    world.complete_member(flow, "a");
    assert_eq!(ended(&world), (1, false), "completed");
    world.run(Command::Cancel(calls::cancel(member_id(flow, "b")))).unwrap();
    assert_eq!(ended(&world), (2, false), "cancelled");
    world.fail_member(flow, "before");
    assert_eq!(ended(&world), (4, false), "failed, skipped");
    world.at(10).scan();
    assert_eq!(ended(&world), (5, true), "expired");
    let empty = world.flow_of("", |flow| flow.seal = false);
    assert_eq!((world.flow(empty).summary.total_members, world.flow(empty).is_done()), (0, false));
}

#[test]
fn sc_24_the_summary_has_the_fields_of_the_page_and_no_sample() {
    // Fails to compile when a field comes or goes: then the page of flows changes too.
    let crate::record::flow::Summary {
        total_members: _,
        by_state,
        members_neutral: _,
        members_purged: _,
        failures: _,
        cancel_owed: _,
        edges_total: _,
        edges_pending: _,
        attempts: _,
        retries: _,
        usage: _,
        first_started_at: _,
        last_change_at: _,
        change_no: _,
        verified_at: _,
        verified_no: _,
    } = crate::record::flow::Summary::default();
    assert_eq!(by_state.len(), PublicState::ALL.len(), "a counter for every public state");
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let before = world.flow(flow).summary.change_no;
    world.complete_member(flow, "a");
    let after = world.flow(flow).summary;
    // The claim and the completion: each changed all it had to in its own commit.
    assert_eq!((after.change_no, after.of(PublicState::Completed), after.edges_pending), (before + 2, 1, 0));
}

#[test]
fn sc_22_each_row_of_a_flows_state_is_derived_from_real_members() {
    // SC-21, SC-22, SC-23, FL-268: one case for each row of the states in docs/flows.md.
    let mut world = World::new();
    let until = |flow: &mut NewFlow| flow.members[0].submit.start = Some(When::InMs(5_000));
    let declared = |flow: &mut NewFlow| flow.completion = CompletionPolicy::Declared { remaining: Remaining::LetRun };

    let done = world.flow_of("a", |_| {});
    world.complete_member(done, "a");
    assert_eq!(world.flow_state(done), "completed", "1");
    let ending = world.flow_of("a", |_| {});
    let held = world.claim_member(ending, "a");
    let remaining = Remaining::FinishActive;
    world.run(Command::CancelFlow(CancelFlow { flow: ending, remaining, reason: "".into() })).unwrap();
    assert_eq!(world.flow_state(ending), "ending", "2 though a member is active");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.flow_state(ending), "cancelled", "1");

    let submitted = world.try_flow("a b a>b", |_| {}).unwrap();
    let waiting = submitted.id;
    assert_eq!((submitted.state.name(), world.state(waiting, "a")), ("running", "waiting"), "4 without a worker");
    let delayed = world.flow_of("a b a>b", until);
    assert_eq!((world.flow_state(delayed), world.state(delayed, "a")), ("running", "delayed"), "4");
    let active = world.flow_of("a b a>b", |_| {});
    world.claim_member(active, "a");
    assert_eq!((world.flow_state(active), world.state(active, "a")), ("running", "active"), "4");
    // Beside one that is held, which alone would block it.
    for (flow, state) in [(waiting, "waiting"), (delayed, "delayed"), (active, "active")] {
        world.grow(flow, "kept").unwrap();
        world.run(calls::hold(member_id(flow, "kept"))).unwrap();
        assert_eq!((world.flow_state(flow), world.state(flow, "a")), ("running", state), "4");
    }
    for (flow, key) in [(waiting, "a"), (delayed, "a")] {
        world.grow(flow, "beside").unwrap();
        world.run(calls::hold(member_id(flow, key))).unwrap();
        assert_eq!((world.flow_state(flow), world.state(flow, key)), ("running", "held"), "4 the one beside goes on");
        world.complete_member(flow, "beside");
        assert_eq!(world.states(flow, "a b"), ["held", "waiting_children"]);
        assert_eq!(world.flow_state(flow), "blocked", "5 nothing goes on without help");
        world.run(Command::Release(Release { id: member_id(flow, key), reason: "".into() })).unwrap();
        assert_eq!(world.flow_state(flow), "running", "4");
    }
    // No command makes this state, so its counter stands for the member.
    let mut suspended = world.flow(waiting);
    suspended.summary.by_state = [0; 12];
    suspended.summary.by_state[PublicState::Suspended as usize] = 2;
    assert_eq!(suspended.public_state().name(), "blocked", "5");

    let built = world.flow_of("", |flow| flow.seal = false);
    assert_eq!(world.flow_state(built), "open", "6 no member");
    let (members, edges) = graph("a b a>b");
    let unsealed = GrowFlow { flow: built, members, edges, seal: false, expected_revision: None, within: None };
    world.run(Command::GrowFlow(Box::new(unsealed))).unwrap();
    assert_eq!(world.flow_state(built), "open", "6 no live member is sealed");
    let sealed = SealFlow { flow: built, keys: Some(vec!["b".into()]), within: None, checked: None };
    world.run(Command::SealFlow(sealed)).unwrap();
    assert_eq!(world.states(built, "a b"), ["waiting_children", "waiting_children"]);
    assert_eq!(world.flow_state(built), "running", "7 one live member is sealed");
    world.run(calls::hold(member_id(built, "a"))).unwrap();
    assert_eq!(world.flow_state(built), "blocked", "5 comes before what is sealed");
    let over = world.flow_of("a", declared);
    world.complete_member(over, "a");
    assert_eq!((world.flow(over).summary.live(), world.flow_state(over)), (0, "open"), "6 nobody lives");

    let parent = world.flow_of("p", |_| {});
    let held = world.claim_member(parent, "p");
    let outside = Submit { parent: Some((held.id, fence(&held))), outside: true, ..calls::submit() };
    let child = world.fresh_id();
    world.run(Command::Submit(Box::new(Submit { id: Some(child), ..outside }))).unwrap();
    world.run(Command::WaitChildren(calls::wait(held.id, fence(&held), None))).unwrap();
    assert_eq!((world.flow_state(parent), world.state(parent, "p")), ("running", "waiting_children"), "7");
}

#[test]
fn fl_41_a_large_flow_that_was_submitted_whole_is_running_before_its_roots_are_sealed() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = (0..4_000).map(|at| member(&format!("m{at}"))).collect();
    let submitted = world.submit_flow(flow).unwrap();
    let stands = world.flow(submitted.id);
    assert_eq!((stands.hot.unsealed, stands.hot.sealed_at), (4_000, None), "the seal is under way");
    assert_eq!((submitted.state.name(), stands.public_state().name()), ("running", "running"));
}

#[test]
fn sc_32_guards_and_dashboards_agree_on_what_is_over() {
    let mut world = World::new();
    let flow = world.flow_of("a b c a>b", |_| {});
    let agree = |world: &World| {
        let flow = world.flow(flow);
        assert_eq!(flow.is_done(), flow.public_state().is_terminal());
        flow.is_done()
    };
    assert!(!agree(&world));
    world.fail_member(flow, "a");
    assert!(!agree(&world));
    world.complete_member(flow, "c");
    assert!(agree(&world));
    world.run(Command::Replay(calls::replay(member_id(flow, "a")))).unwrap();
    assert!(!agree(&world), "a replay opens both");
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    assert!(agree(&world));
    assert_eq!(world.grow(flow, "z").unwrap_err().code(), "flow_closed", "FL-172 guards read the state");
}

#[test]
fn sc_104_outside_a_flow_nothing_more_is_read() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let held = fence(&world.claim(id));
    world.run(calls::complete(id, held, None)).unwrap();
    assert_eq!(world.loads, 1, "the execution alone");
    assert!(world.records.keys().all(|key| matches!(key, Key::Execution(_) | Key::Attempt(..))));
}

#[test]
fn sc_116_one_damaged_downstream_is_parked_and_the_others_are_resolved() {
    // SC-110, SC-116: what one edge fails at stops no other.
    let mut world = World::new();
    let flow = world.flow_of("u a b c u>a u>b u>c", |_| {});
    let damaged = Key::Execution(member_id(flow, "b"));
    world.records.get_mut(&damaged).unwrap().parts.insert(schema::HOT, "\u{1}broken".into());
    world.planted = true;
    let held = world.claim_member(flow, "u");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!([world.state(flow, "a"), world.state(flow, "c")], ["waiting", "waiting"], "FL-85");
    let letters: Vec<_> = world.records.keys().filter(|key| matches!(key, Key::DeadLetter(..))).collect();
    assert_eq!(letters.len(), 1, "SR-26 parked in sight");
}

#[test]
fn sc_105_on_a_default_edge_only_success_is_met() {
    // SC-105, SC-117: met makes ready, unmet skips, and what is resolved stays so.
    type End = (&'static str, fn(&mut World, FlowId), &'static str);
    let ends: [End; 5] = [
        ("u d u>d", |world, flow| world.complete_member(flow, "u"), "waiting"),
        ("u d u>d", |world, flow| world.fail_member(flow, "u"), "skipped"),
        ("u d u>d", |world, flow| drop(world.run(Command::Cancel(calls::cancel(member_id(flow, "u"))))), "skipped"),
        ("u d u>d", |world, _| drop(world.at(50_000).scan()), "skipped"),
        ("before u d before>u u>d", |world, flow| world.fail_member(flow, "before"), "skipped"),
    ];
    for (line, end, expected) in ends {
        let mut world = World::new();
        let flow = world.flow_of(line, |flow| {
            flow.members.iter_mut().find(|it| &*it.key == "u").unwrap().submit.deadline = Some(When::InMs(50_000));
        });
        end(&mut world, flow);
        assert_eq!(world.state(flow, "d"), expected);
    }
}

#[test]
fn sc_126_a_continuation_of_an_earlier_end_does_nothing_after_a_replay() {
    let mut world = World::new();
    let mut flow = blank_flow();
    flow.members = [member("u")].into_iter().chain((0..1_500).map(|at| member(&format!("c{at}")))).collect();
    flow.edges = (0..1_500).map(|at| edge(&format!("u>c{at}"))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    world.fail_member(flow, "u");
    let u = member_id(flow, "u");
    let key = Key::Continuation(u, Work::Resolve);
    let skipped = world.flow(flow).summary.of(PublicState::Skipped);
    assert!(world.record(key).is_some() && skipped < 1_500);
    world.run(Command::Replay(calls::replay(u))).unwrap();
    world.scan();
    assert!(world.record(key).is_none(), "FL-84 it removed itself");
    assert_eq!(world.flow(flow).summary.of(PublicState::Skipped), 0, "what it had skipped waits again");
    world.complete_member(flow, "u");
    world.scan();
    assert_eq!(world.flow(flow).summary.of(PublicState::Waiting), 1_500);
}

#[test]
fn sc_127_a_continuation_that_runs_again_changes_nothing() {
    let mut world = World::new();
    let count = FANOUT_PER_COMMIT + 500;
    let mut flow = blank_flow();
    flow.members = [member("u")].into_iter().chain((0..count).map(|at| member(&format!("c{at}")))).collect();
    flow.edges = (0..count).map(|at| edge(&format!("u>c{at}"))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    world.scan();
    world.complete_member(flow, "u");
    let key = Key::Continuation(member_id(flow, "u"), Work::Resolve);
    let rest = world.records.get(&key).cloned().expect("FL-83 the rest is durable");
    let entry = world.due.iter().find(|entry| entry.timer() == Some(Timer::Resolve)).cloned().expect("it is due");
    world.scan();
    assert_eq!((world.record(key), world.flow(flow).summary.edges_pending), (None, 0), "FL-84 it is through");

    let seen = |world: &World| {
        let records = world.records.iter().map(|(key, stored)| (*key, stored.facets.clone(), stored.parts.clone()));
        (records.collect::<Vec<_>>(), world.due.clone(), world.events.clone())
    };
    let before = seen(&world);
    world.planted = true;
    world.records.insert(key, rest);
    world.due.insert(entry);
    assert_eq!(world.scan().pop(), Some((Timer::Resolve, key, Expired::Fired)), "it runs to its end");
    assert!(seen(&world) == before, "no record, no timer and no event more");
    let ready = world.events.iter().filter(|event| matches!(event.fact, Fact::GroupSatisfied { .. }));
    let ready: Vec<ExecutionId> = ready.filter_map(|event| event.execution).collect();
    assert_eq!((ready.len(), ready.iter().collect::<BTreeSet<_>>().len()), (count, count), "each child once");
}

#[test]
fn sc_29_a_replay_arms_the_verification_again() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    world.complete_member(flow, "a");
    world.at(15_000).scan();
    assert_eq!(world.flow(flow).hot.verify_at, None, "SC-26 verified and released");
    world.run(Command::Replay(calls::replay(member_id(flow, "a")))).unwrap();
    assert!(world.flow(flow).hot.verify_at.is_some());
}

#[test]
fn sc_19_a_flow_that_is_over_says_whether_anything_counts_against_it() {
    let mut world = World::new();
    let bad = world.flow_of("a b a!>b", |_| {});
    world.fail_member(bad, "a");
    assert_eq!(world.flow_state(bad), "running", "one lives");
    world.complete_member(bad, "b");
    assert_eq!(world.flow_state(bad), "failed", "SC-19");
    let good = world.flow_of("a b a!>b", |_| {});
    world.complete_member(good, "a");
    assert_eq!((world.state(good, "b"), world.flow_state(good)), ("skipped", "completed"), "SC-20");
}

#[test]
fn fl_181_a_count_of_a_flow_that_moved_gives_no_verdict() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    assert!(outrun(&mut world, flow) > 0, "it is counted again");
}

/// A recount that the flow has outrun: the pause before the next one.
fn outrun(world: &mut World, flow: FlowId) -> u64 {
    let due = world.flow(flow).hot.verify_at.unwrap();
    world.now = due;
    let (counted, change_no) = (Box::new(world.recount(flow)), world.flow(flow).summary.change_no - 1);
    let verify = Command::VerifyFlow(VerifyFlow { flow, due, change_no, counted, edges: true, now: due });
    let moved = world.call(&Call { principal: Principal::engine(), ..call(verify) });
    assert_eq!(moved, Ok(Reply::Verified(crate::reply::Verified::Moved)));
    world.flow(flow).hot.verify_at.unwrap().since(due)
}

#[test]
fn sr_77_the_pause_doubles_up_to_ten_minutes_and_equality_sets_it_back() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let pauses: Vec<u64> = (0..8).map(|_| outrun(&mut world, flow) / 1_000).collect();
    assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 600, 600]);
    let due = world.flow(flow).hot.verify_at.unwrap();
    world.claim_member(flow, "a");
    assert_eq!(world.flow(flow).hot.verify_at, Some(due), "a change does not shorten the pause");
    world.now = due;
    assert_eq!(world.verify_flow(flow, due), Ok(crate::reply::Verified::Equal));
    assert_eq!(world.flow(flow).hot.verify_at, None);
    world.claim_member(flow, "b");
    assert_eq!(world.flow(flow).hot.verify_at, Some(world.now + 15_000));
    assert_eq!(outrun(&mut world, flow), 15_000, "the count starts again");
}

#[test]
fn sr_77_the_end_of_a_flow_sets_the_pause_back() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    for _ in 0..8 {
        outrun(&mut world, flow);
    }
    world.complete_member(flow, "a");
    let ended = world.flow(flow);
    assert_eq!((ended.is_done(), ended.hot.verify_at, ended.hot.moves), (true, Some(world.now + 15_000), 0));
}

#[test]
fn sc_31_a_repair_never_decides_by_wrong_counters() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.complete_member(flow, "a");
    let mut wrong = world.flow(flow);
    (wrong.summary.by_state[PublicState::Waiting as usize], wrong.summary.by_state[PublicState::Completed as usize]) =
        (0, 2);
    plant(&mut world, Record::Flow(Box::new(wrong)));
    let due = world.flow(flow).hot.verify_at.unwrap();
    world.now = due;
    world.verify_flow(flow, due).unwrap();
    assert_eq!(world.flow_state(flow), "open", "a doubt decides nothing");
}

#[test]
fn fl_125_the_safety_net_cancels_nobody_and_leaves_every_byte() {
    let (mut world, flow, join) = owing(600);
    let cancelled = |world: &World| world.flow(flow).summary.of(PublicState::Cancelled);
    while owed(&world, join).is_some() {
        let (before, due, some) = (world.records.clone(), world.due.clone(), cancelled(&world));
        assert_eq!(reconcile(&mut world, join), Reconciled::LeftAlone);
        assert_eq!((&world.records, &world.due, cancelled(&world)), (&before, &due, some));
        let since = world.execution(join).member().unwrap().owed_since().unwrap();
        world.expire(Key::Execution(join), Timer::GroupCancel, since).unwrap();
    }
    assert_eq!(cancelled(&world), 599, "that was the dispatcher");
}

#[test]
fn fl_127_dispatcher_and_safety_net_cancel_each_sibling_once_and_end_the_entry_once() {
    // Each bit is a turn: whose it is, over and over.
    for turns in 0..32u32 {
        let (mut world, flow, join) = owing(500);
        let due = world.execution(join).member().unwrap().owed_since().unwrap();
        let entry = DueEntry::new(Due { timer: Timer::GroupCancel, at: due }, Key::Execution(join));
        let (mut gone, mut was_there) = (0, true);
        for turn in 0..16 {
            world.now = world.now + 3_000;
            if turns >> (turn % 5) & 1 == 0 {
                let seen_at = world.now;
                reconcile_seen(&mut world, ReconcileGroup { id: join, due, seen_at });
            } else {
                world.expire(Key::Execution(join), Timer::GroupCancel, due).unwrap();
            }
            let is_there = world.due.contains(&entry);
            assert!(was_there || !is_there, "it does not come back");
            gone += u32::from(was_there && !is_there);
            was_there = is_there;
        }
        let ends = world.events.iter().filter(|event| event.fact.name() == "execution.finished");
        let mut ended: Vec<_> = ends.filter_map(|event| event.execution).collect();
        let count = ended.len();
        ended.sort();
        ended.dedup();
        assert_eq!(ended.len(), count, "{turns:b}: none was cancelled twice");
        let all = turns != 0;
        assert_eq!((gone, owed(&world, join).is_none()), (u32::from(all), all), "{turns:b}: the entry ends once");
        if all {
            assert_eq!(world.flow(flow).summary.members_neutral, 499, "{turns:b}");
        }
    }
}

#[test]
fn fl_184_a_finished_and_verified_flow_has_no_timer_until_a_replay() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |flow| flow.retention_ms = None);
    for key in ["a", "b"] {
        world.complete_member(flow, key);
    }
    let key = Key::Flow(flow);
    let timers = |world: &World| {
        let of_flow = |entry: &&DueEntry| entry.kind == key.kind() as u8 && entry.key == key.to_bytes().as_slice();
        world.due.iter().filter(of_flow).filter_map(DueEntry::timer).collect::<Vec<_>>()
    };
    assert_eq!(timers(&world), [Timer::FlowVerify], "it has just changed");
    world.at(15_000).scan();
    assert!(timers(&world).is_empty());
    let (before, commits) = (world.records.clone(), world.commits);
    world.at(86_000_000).scan();
    assert_eq!((&world.records, world.commits), (&before, commits), "a day later it has cost nothing");
    world.run(Command::Replay(calls::replay(member_id(flow, "b")))).unwrap();
    assert!(timers(&world).contains(&Timer::FlowVerify));
}

#[test]
fn fl_182_a_repair_sets_right_what_is_owed_with_what_it_is_owed_of() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let claimed = world.try_claim(member_id(flow, "a"), |cmd| cmd.lease_ms = 600_000);
    let Ok(Reply::Claimed(held)) = claimed else { panic!("it is claimed") };
    let mode = Mode::Graceful { grace_ms: 600_000 };
    let cancel = CancelFlow { flow, remaining: Remaining::Cancel(mode), reason: "enough".into() };
    world.run(Command::CancelFlow(cancel)).unwrap();
    let right = world.flow(flow).summary;
    assert_eq!((right.live(), right.cancel_owed), (1, 1));
    // As if one that never was had to be cancelled as well.
    let mut wrong = world.flow(flow);
    wrong.summary.by_state[PublicState::Waiting as usize] += 1;
    wrong.summary.total_members += 1;
    wrong.summary.cancel_owed += 1;
    plant(&mut world, Record::Flow(Box::new(wrong)));
    for ms in [15_000, 30_000] {
        world.at(ms).scan();
    }
    let repaired = world.flow(flow).summary;
    assert_eq!((repaired.by_state, repaired.total_members), (right.by_state, right.total_members));
    assert_eq!(repaired.cancel_owed, 1, "FL-143");
    world.run(calls::complete(held.id, fence(&held), None)).unwrap();
    assert_eq!(world.flow_state(flow), "cancelled");
}

#[test]
fn fl_180_what_is_owed_and_edges_are_compared_too() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>c b>c c>d", |_| {});
    world.complete_member(flow, "a");
    let right = world.flow(flow).summary;
    assert_eq!((right.edges_total, right.edges_pending), (3, 2));
    let mut wrong = world.flow(flow);
    (wrong.summary.edges_total, wrong.summary.edges_pending) = (7, 0);
    plant(&mut world, Record::Flow(Box::new(wrong)));
    for ms in [15_000, 30_000] {
        world.at(ms).scan();
    }
    let repaired = world.flow(flow).summary;
    assert_eq!((repaired.edges_total, repaired.edges_pending), (3, 2));
    let told = world.events.iter().find_map(|event| match &event.fact {
        crate::event::Fact::FlowRepaired { fields, was, is, .. } => Some((fields.clone(), was.clone(), is.clone())),
        _ => None,
    });
    let fields = vec!["edges_total".into(), "edges_pending".into()];
    assert_eq!(told, Some((fields, vec![7, 0], vec![3, 2])));
}
