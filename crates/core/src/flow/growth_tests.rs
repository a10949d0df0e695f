//! Graphs that grow: what is taken, what is refused, and what a late edge makes of its downstream.

use crate::command::*;
use crate::error::Rejection;
use crate::flow::member_id;
use crate::kit::World;
use crate::kit::calls::{self, fence};
use crate::kit::flows::*;
use crate::limits::{CYCLE_VISITS_MAX, FLOW_GROW_MAX, FLOW_GROW_RECORDS_MAX, RECORDS_PER_COMMIT_MAX};
use crate::record::execution::{Outcome, PublicState};
use crate::record::flow::Growth;
use crate::record::member::{GroupPolicy, GroupState, MAIN, Mode, Then};
use crate::record::{Key, Record};
use crate::reply::{Children, InputValue, Reply};

fn grow(flow: crate::FlowId, members: Vec<NewMember>, edges: Vec<NewEdge>) -> GrowFlow {
    GrowFlow { flow, members, edges, seal: true, expected_revision: None, within: None }
}

fn run(world: &mut World, grow: GrowFlow) -> Result<Reply, Rejection> {
    world.run(Command::GrowFlow(Box::new(grow)))
}

/// Adds members and edges, as many in a call as one takes.
fn grow_all(world: &mut World, flow: crate::FlowId, members: Vec<NewMember>, edges: Vec<NewEdge>) {
    for members in members.chunks(700) {
        run(world, grow(flow, members.to_vec(), vec![])).unwrap();
    }
    for edges in edges.chunks(700) {
        run(world, grow(flow, vec![], edges.to_vec())).unwrap();
    }
}

#[test]
fn fl_24_a_search_through_too_many_is_too_large_and_never_a_cycle() {
    let mut world = World::new();
    world.planted = true;
    let flow = world.flow_of("head", |_| {});
    let (middle, leaves) = (100, CYCLE_VISITS_MAX as usize);
    let members = (0..middle).map(|at| member(&format!("m{at}")));
    let members = members.chain((0..leaves).map(|at| member(&format!("l{at}"))));
    let edges = (0..middle).map(|at| edge(&format!("head>m{at}")));
    let edges = edges.chain((0..leaves).map(|at| edge(&format!("m{}>l{at}", at % middle))));
    grow_all(&mut world, flow, members.collect(), edges.collect());
    let before = world.records.len();
    // Everything behind the head would have to be raised.
    let refused = run(&mut world, grow(flow, vec![member("z")], vec![edge("z>head")])).unwrap_err();
    assert_eq!(refused, Rejection::GraphTooLarge { visited: CYCLE_VISITS_MAX });
    assert_eq!(world.records.len(), before, "FL-67 nothing was added");
    run(&mut world, grow(flow, vec![member("z")], vec![edge("l0>z")])).expect("no search is needed");
}

/// A flow of a head with so many leaves behind it.
fn star(world: &mut World, leaves: usize) -> crate::FlowId {
    world.planted = true;
    let mut star = blank_flow();
    star.members = std::iter::once(member("head")).chain((0..leaves).map(|at| member(&format!("l{at}")))).collect();
    star.edges = (0..leaves).map(|at| edge(&format!("head>l{at}"))).collect();
    let flow = world.submit_flow(star).unwrap().id;
    world.scan();
    flow
}

#[test]
fn fl_24_raising_more_members_than_one_commit_takes_is_too_large() {
    let mut world = World::new();
    let flow = star(&mut world, RECORDS_PER_COMMIT_MAX);
    world.largest = 0;
    let before = world.clone();
    let refused = run(&mut world, grow(flow, vec![member("z")], vec![edge("z>head")])).unwrap_err();
    assert_eq!(refused, Rejection::GraphTooLarge { visited: RECORDS_PER_COMMIT_MAX as u32 });
    assert_eq!(world.records, before.records, "FL-67 nothing was added");
    run(&mut world, grow(flow, vec![member("z")], vec![edge("head>z"), edge("l0>z")])).expect("nothing is raised");
    assert!(world.largest < 10, "{}", world.largest);
}

#[test]
fn fl_67_a_call_that_finds_no_room_in_its_batch_is_put_off() {
    let mut world = World::new();
    let flow = star(&mut world, 3_300);
    let items = (0..1_000).map(|_| Submit { id: Some(world.fresh_id()), ..calls::submit() }).collect();
    let many = calls::call(Command::SubmitAll(SubmitAll { items }));
    let small = grow(flow, vec![member("z")], vec![edge("z>head")]);
    let small = calls::call(Command::GrowFlow(Box::new(small)));
    let answers = world.together(&[many, small.clone()]);
    assert!(answers[0].is_ok(), "{answers:?}");
    assert!(matches!(answers[1], Err(Rejection::Busy { .. })), "{:?}", answers[1]);
    assert!(world.largest <= RECORDS_PER_COMMIT_MAX);
    world.call(&small).expect("alone there is room for it");
    assert_eq!(world.member(flow, "l7").member().unwrap().rank, 2);
}

#[test]
fn fl_67_more_records_than_one_commit_takes_are_refused_with_the_limit() {
    let mut world = World::new();
    let flow = world.flow_of("u bad", |_| {});
    world.planted = true;
    world.fail_member(flow, "bad");
    let half = FLOW_GROW_MAX;
    let members = (0..2 * half).map(|at| member(&format!("m{at}")));
    let ends = (0..half).map(|at| member(&format!("e{at}")));
    grow_all(&mut world, flow, members.chain(ends).collect(), vec![]);
    grow_all(&mut world, flow, vec![], (0..half).map(|at| edge(&format!("m{at}>e{at}"))).collect());
    world.largest = 0;
    let before = world.clone();
    let all = |from: fn(usize) -> String, first: usize| -> Vec<NewEdge> {
        (0..FLOW_GROW_MAX).map(|at| edge(&format!("{}>m{}", from(at), first + at))).collect()
    };
    // All apart from each other; and all skipped at once, each with edges of its own to be left to later.
    for edges in [all(|at| format!("m{at}"), half), all(|_| "bad".into(), 0)] {
        let refused = run(&mut world, grow(flow, vec![], edges)).unwrap_err();
        assert_eq!(refused.code(), "limit_exceeded", "{refused}");
        assert_eq!(world.records, before.records, "nothing was added");
    }
    run(&mut world, grow(flow, vec![], all(|_| "u".into(), half))).expect("as many from one member fit");
    assert!(world.largest <= FLOW_GROW_RECORDS_MAX, "{}", world.largest);
}

#[test]
fn fl_24_a_search_that_would_have_to_load_too_often_gives_up() {
    let mut world = World::new();
    world.planted = true;
    world.loads_more = 2_000;
    let flow = world.flow_of("m0", |_| {});
    let length = 1_200;
    let members = (1..length).map(|at| member(&format!("m{at}"))).collect();
    let edges = (1..length).map(|at| edge(&format!("m{}>m{at}", at - 1))).collect();
    grow_all(&mut world, flow, members, edges);
    let back = grow(flow, vec![], vec![edge(&format!("m{}>m0", length - 1))]);
    let Err(Rejection::GraphTooLarge { visited }) = run(&mut world, back) else { panic!("it gives up") };
    assert!(visited > 900 && visited < length, "{visited}");
    run(&mut world, grow(flow, vec![member("z")], vec![edge("m0>z")])).expect("no search is needed");
}

#[test]
fn fl_20_the_same_edge_again_is_the_same_edge_and_another_under_its_name_is_refused() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b=x", |_| {});
    let Ok(Reply::FlowGrown(again)) = world.grow(flow, "a>b=x") else { panic!("known") };
    assert_eq!((again.edges_existed, again.revision, world.flow(flow).summary.edges_total), (1, 1, 1));
    assert_eq!(world.grow(flow, "a!>b=x").unwrap_err().code(), "duplicate_edge");
    assert_eq!(world.grow(flow, "a>b=y").unwrap_err().code(), "duplicate_edge");
    world.grow(flow, "a>b@other").expect("a pair may be in two groups");
    assert_eq!(world.try_flow("a b a>b a>b", |_| {}).unwrap_err().code(), "duplicate_edge");
}

#[test]
fn fl_21_both_ends_are_members_and_are_two() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    let other = world.flow_of("c", |_| {});
    for (line, code) in [("a>c", "unknown_node"), ("c>a", "unknown_node"), ("a>a", "self_edge")] {
        assert_eq!(world.grow(flow, line).unwrap_err().code(), code, "{line}");
    }
    assert_eq!(world.flow(other).summary.edges_total, 0);
}

#[test]
fn fl_31_a_group_has_one_policy() {
    let cancel = Then::CancelRemaining(Mode::Immediate);
    let mut world = World::new();
    let flow = world.flow_of("a b j k a>j", |flow| policy(flow, "j", MAIN, GroupPolicy::Quorum(1), cancel));
    let stated = |kind, then| NewEdge { policy: Some((kind, then)), ..edge("b>j") };
    for (kind, then) in [
        (GroupPolicy::Quorum(2), cancel),
        (GroupPolicy::AnyOf, cancel),
        (GroupPolicy::Quorum(1), Then::LetRun),
        (GroupPolicy::Quorum(1), Then::CancelRemaining(Mode::Graceful { grace_ms: 1 })),
    ] {
        let refused = run(&mut world, grow(flow, vec![], vec![stated(kind, then)])).unwrap_err();
        assert_eq!(refused.code(), "group_conflict", "{kind:?} {then:?}");
    }
    run(&mut world, grow(flow, vec![], vec![stated(GroupPolicy::Quorum(1), cancel)])).expect("the same again");
    assert_eq!(world.member(flow, "j").member().unwrap().groups[0].n, 2);
}

#[test]
fn fl_32_an_unsealed_group_is_never_decided_and_a_quorum_must_be_reachable_at_the_seal() {
    let mut world = World::new();
    let flow = world.flow_of("a", |flow| flow.seal = false);
    world.run(Command::SealFlow(SealFlow { flow, keys: Some(vec!["a".into()]), within: None, checked: None })).unwrap();
    let mut join = member("j");
    join.groups.push(NewGroup { name: MAIN.into(), policy: GroupPolicy::Quorum(2), then: Then::LetRun });
    let unsealed = GrowFlow { seal: false, ..grow(flow, vec![join], vec![edge("a>j")]) };
    run(&mut world, unsealed).unwrap();
    world.complete_member(flow, "a");
    assert_eq!(world.member(flow, "j").member().unwrap().groups[0].state, GroupState::Pending);
    let before = world.records.clone();
    let seal = |keys| Command::SealFlow(SealFlow { flow, keys, within: None, checked: None });
    for keys in [Some(vec!["j".into()]), None] {
        assert_eq!(world.run(seal(keys)).unwrap_err().code(), "quorum_unreachable");
    }
    assert_eq!(world.records, before, "the seal changes nothing");
    run(&mut world, GrowFlow { seal: false, ..grow(flow, vec![member("b")], vec![edge("b>j")]) }).unwrap();
    world.run(seal(None)).unwrap();
    world.complete_member(flow, "b");
    assert_eq!(world.state(flow, "j"), "waiting");
}

fn quorum(name: &str, k: u32) -> NewGroup {
    NewGroup { name: name.into(), policy: GroupPolicy::Quorum(k), then: Then::LetRun }
}

#[test]
fn fl_32_edges_to_an_unsealed_member_may_leave_a_quorum_short() {
    let mut world = World::new();
    let flow = world.flow_of("a b c", |_| {});
    let join = NewMember { groups: vec![quorum(MAIN, 3)], ..member("d") };
    run(&mut world, GrowFlow { seal: false, ..grow(flow, vec![join], vec![]) }).unwrap();
    for line in ["a>d", "b>d"] {
        world.grow(flow, line).expect("FL-67 more may follow");
        let refused =
            world.run(Command::SealFlow(SealFlow { flow, keys: Some(vec!["d".into()]), within: None, checked: None }));
        assert_eq!(refused.unwrap_err().code(), "quorum_unreachable");
    }
    world.grow(flow, "c>d").unwrap();
    world.seal_flow(flow).unwrap();
    for key in ["a", "b", "c"] {
        world.complete_member(flow, key);
    }
    assert_eq!(world.state(flow, "d"), "waiting");
}

#[test]
fn fl_32_a_group_of_a_sealed_member_must_be_reachable_though_the_call_seals_nobody() {
    let mut world = World::new();
    let flow = world.flow_of("a b d a>d", |_| {});
    let before = world.records.clone();
    let stated = NewEdge { policy: Some((GroupPolicy::Quorum(5), Then::LetRun)), ..edge("b>d@more") };
    let refused = run(&mut world, GrowFlow { seal: false, ..grow(flow, vec![], vec![stated]) }).unwrap_err();
    assert_eq!((refused.code(), &world.records), ("quorum_unreachable", &before));
    assert_eq!(world.state(flow, "d"), "waiting_children", "nothing skipped it");
}

#[test]
fn fl_32_a_quorum_of_none_is_refused_sealed_or_not() {
    let mut world = World::new();
    for seal in [true, false] {
        let refused = world.try_flow("a d a>d", |flow| {
            policy(flow, "d", MAIN, GroupPolicy::Quorum(0), Then::LetRun);
            flow.seal = seal;
        });
        assert_eq!(refused.unwrap_err().code(), "quorum_unreachable", "sealed: {seal}");
        let flow = world.flow_of("a", |_| {});
        let stated = NewEdge { policy: Some((GroupPolicy::Quorum(0), Then::LetRun)), ..edge("a>d") };
        let refused = run(&mut world, GrowFlow { seal, ..grow(flow, vec![member("d")], vec![stated]) });
        assert_eq!(refused.unwrap_err().code(), "quorum_unreachable", "sealed: {seal}");
    }
}

#[test]
fn fl_57_all_of_a_large_flow_is_looked_at_before_any_of_it_is_sealed() {
    let mut world = World::new();
    world.planted = true;
    let names: Vec<String> = (0..2_500).map(|at| format!("m{at}")).collect();
    let mut flow = NewFlow { seal: false, ..blank_flow() };
    flow.members = names.iter().map(|name| member(name)).chain([member("j")]).collect();
    flow.edges = vec![edge("m0>j")];
    policy(&mut flow, "j", MAIN, GroupPolicy::Quorum(2), Then::LetRun);
    let flow = world.submit_flow(flow).unwrap().id;
    let before = world.records.clone();
    assert_eq!(world.seal_flow(flow).unwrap_err().code(), "quorum_unreachable");
    assert_eq!(world.records, before, "FL-32 the seal changes nothing");
    world.grow(flow, "m1>j").unwrap();
    let Ok(Reply::FlowSealed { already: false, continued: true }) = world.seal_flow(flow) else { panic!("sealing") };
    // What comes meanwhile and is not whole does not keep the others from their seal.
    let late = |name: &str| NewMember { groups: vec![quorum(MAIN, 2)], ..member(name) };
    run(
        &mut world,
        GrowFlow { seal: false, ..grow(flow, (0..40).map(|at| late(&format!("l{at}"))).collect(), vec![]) },
    )
    .unwrap();
    world.scan();
    let sealed = world.flow(flow);
    assert!(sealed.hot.sealed_at.is_some() && sealed.hot.sealing.is_none(), "{:?}", sealed.hot);
    assert_eq!((sealed.hot.unsealed, sealed.hot.seal_by.is_some()), (40, true), "FL-58 they do not wait for ever");
    assert!(names.iter().all(|name| world.member(flow, name).member().unwrap().sealed));
    assert_eq!(world.seal_flow(flow).unwrap_err().code(), "quorum_unreachable", "they are looked at again");
}

#[test]
fn fl_57_a_large_flow_is_sealed_once_under_one_request() {
    let mut world = World::new();
    world.planted = true;
    let mut flow = NewFlow { seal: false, ..blank_flow() };
    flow.members = (0..1_500).map(|at| member(&format!("m{at}"))).collect();
    let flow = world.submit_flow(flow).unwrap().id;
    let call = |checked| {
        let seal = SealFlow { flow, keys: None, within: None, checked };
        Call { request_id: Some("r".into()), ..calls::call(Command::SealFlow(seal)) }
    };
    let Ok(Reply::FlowChecked { after }) = world.call(&call(None)) else { panic!("it is looked at first") };
    let sealed = Ok(Reply::FlowSealed { already: false, continued: true });
    assert_eq!(world.call(&call(Some(after))), sealed);
    assert_eq!(world.call(&call(None)), sealed, "EX-76 a repeat gets the answer and no part of the way to it");
}

#[test]
fn fl_12_fl_31_groups_declared_again_on_a_member_that_is_there_are_compared() {
    let mut world = World::new();
    let any = |then| NewGroup { name: MAIN.into(), policy: GroupPolicy::AnyOf, then };
    let with = |groups| NewMember { groups, ..member("d") };
    let flow = world.flow_of("a b", |_| {});
    run(&mut world, grow(flow, vec![with(vec![any(Then::LetRun)])], vec![edge("a>d")])).unwrap();
    let before = (world.member(flow, "d"), world.edges_of(flow));
    let cancel = Then::CancelRemaining(Mode::Immediate);
    for groups in [vec![quorum(MAIN, 2)], vec![any(cancel)]] {
        let refused = run(&mut world, grow(flow, vec![with(groups)], vec![])).unwrap_err();
        assert_eq!(refused.code(), "group_conflict");
    }
    let refused = run(&mut world, grow(flow, vec![with(vec![quorum("other", 1)])], vec![])).unwrap_err();
    assert_eq!(refused.code(), "empty_group", "a group that comes later comes with its edges");
    for groups in [vec![], vec![any(Then::LetRun)]] {
        let Ok(Reply::FlowGrown(again)) = run(&mut world, grow(flow, vec![with(groups)], vec![edge("a>d")])) else {
            panic!("the same again");
        };
        assert_eq!((again.members[0].2, again.edges_existed), (true, 1));
    }
    assert_eq!((world.member(flow, "d"), world.edges_of(flow)), before, "nothing was changed");
    run(&mut world, grow(flow, vec![with(vec![quorum("other", 1)])], vec![edge("b>d@other")])).unwrap();
    assert_eq!(world.member(flow, "d").member().unwrap().group("other").unwrap().1.policy, GroupPolicy::Quorum(1));
}

#[test]
fn fl_24_a_way_through_a_purged_member_is_a_way() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>b b>c", |_| {});
    for key in ["a", "b", "c", "d"] {
        world.complete_member(flow, key);
    }
    world.run(Command::Purge(Purge { id: member_id(flow, "b"), reason: "".into() })).unwrap();
    for key in ["a", "c"] {
        world.run(Command::Replay(calls::replay(member_id(flow, key)))).unwrap();
    }
    world.grow(flow, "x y x>a y>x").expect("FL-66 ranks are raised past it");
    assert_eq!(world.grow(flow, "c>a").unwrap_err().code(), "cycle", "its edges are still there");
    let Some(Record::Tombstone(stone)) = world.record(Key::Tombstone(member_id(flow, "b"))) else { panic!("a stone") };
    let rank = |key: &str| world.member(flow, key).member().unwrap().rank;
    let ranks = ["y", "x", "a"].map(rank).into_iter().chain([stone.body.rank, rank("c")]);
    assert!(ranks.is_sorted_by(|before, after| before < after), "FL-222");
}

/// A call that is wrong in two respects is told of the one that is looked at first.
#[test]
fn fl_67_checks_come_in_their_order_and_the_first_that_fails_is_the_answer() {
    const GROUPS: [&str; 17] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    let many: String = GROUPS.map(|name| format!("a>b@{name} ")).concat();
    let steps = [
        (format!("a b b {many}"), "limit_exceeded"),
        ("a b b a>nobody".to_owned(), "duplicate_node"),
        ("a b a>nobody a>b a>b".to_owned(), "unknown_node"),
        ("a b c a>b=x c>b=x a>c!short".to_owned(), "duplicate_input"),
        ("a b a>b a>b b>a".to_owned(), "duplicate_edge"),
        ("a b a>b!short b>a".to_owned(), "quorum_unreachable"),
        ("a b a>b b>a".to_owned(), "cycle"),
    ];
    let asked = |line: &str| {
        let (members, mut edges) = graph(&line.replace("!short", ""));
        if line.contains("!short") {
            let at = line.split_whitespace().filter(|word| word.contains('>')).position(|word| word.ends_with("short"));
            edges[at.unwrap()].policy = Some((GroupPolicy::Quorum(7), Then::LetRun));
        }
        (members, edges)
    };
    let mut world = World::new();
    let there = world.flow_of("z", |_| {});
    for (line, code) in &steps {
        let (members, edges) = asked(line);
        let refused = world.submit_flow(NewFlow { members: members.clone(), edges: edges.clone(), ..blank_flow() });
        assert_eq!(refused.unwrap_err().code(), *code, "{line}");
        // Counts against the graph that is there are looked at once it is loaded, after what the call says by itself.
        if *code != "limit_exceeded" {
            assert_eq!(run(&mut world, grow(there, members, edges)).unwrap_err().code(), *code, "{line}");
        }
    }
    let conflict = world.try_flow("a b c a>c b>c@short", |flow| {
        policy(flow, "c", MAIN, GroupPolicy::AnyOf, Then::LetRun);
        flow.edges[0].policy = Some((GroupPolicy::AllOf, Then::LetRun));
        flow.edges[1].policy = Some((GroupPolicy::Quorum(2), Then::LetRun));
    });
    let Err(Rejection::BadGraph { problems }) = conflict else { panic!("two problems of one step") };
    let codes: Vec<&str> = problems.iter().map(|problem| problem.code()).collect();
    assert_eq!(codes, ["group_conflict", "quorum_unreachable"]);
}

#[test]
fn fl_67_totals_count_before_what_is_wrong_with_the_edges() {
    let mut world = World::new();
    world.limits.flow_members_max = 3;
    world.limits.flow_edges_max = 1;
    let flow = world.flow_of("a b a>b", |_| {});
    for line in ["x y x>x", "a>b@g b>a"] {
        assert_eq!(world.grow(flow, line).unwrap_err().code(), "limit_exceeded", "{line}");
    }
    assert_eq!(world.try_flow("a b c a>b b>c", |_| {}).unwrap_err().code(), "limit_exceeded");
}

#[test]
fn fl_15_children_of_one_call_count_against_the_members_a_flow_may_have() {
    let mut world = World::new();
    world.limits.flow_members_max = 3;
    let flow = world.flow_of("a", |_| {});
    let held = world.claim_member(flow, "a");
    let mut children = |count: usize| -> Vec<Submit> {
        let child = |_| Submit { id: Some(world.fresh_id()), parent: Some((held.id, fence(&held))), ..calls::submit() };
        (0..count).map(child).collect()
    };
    let (three, two) = (children(3), children(2));
    let refused = world.run(Command::SubmitAll(SubmitAll { items: three })).unwrap_err();
    let Rejection::AtItem { index: 2, rejection } = refused else { panic!("{refused:?}") };
    assert_eq!(rejection.code(), "limit_exceeded");
    world.run(Command::SubmitAll(SubmitAll { items: two })).unwrap();
    assert_eq!(world.flow(flow).summary.total_members, 3);
}

#[test]
fn fl_30_a_member_runs_when_all_groups_are_satisfied_and_is_skipped_at_the_first_that_cannot_be() {
    let mut world = World::new();
    let flow = world.flow_of("a b c d a>d@one b>d@two c>d@two", |flow| {
        policy(flow, "d", "two", GroupPolicy::AnyOf, Then::LetRun);
    });
    world.complete_member(flow, "b");
    assert_eq!(world.state(flow, "d"), "waiting_children", "the other group is open");
    world.fail_member(flow, "a");
    assert_eq!(world.state(flow, "d"), "skipped");
    let group = world.member(flow, "d").member().unwrap().group("two").unwrap().1.clone();
    assert_eq!((group.state, group.decided_at.is_some()), (GroupState::Satisfied, true), "FL-37");
}

#[test]
fn fl_60_a_fixed_flow_takes_nothing_once_it_is_sealed_and_one_that_ends_takes_nothing() {
    let mut world = World::new();
    let fixed = world.flow_of("a b", |flow| flow.growth = Growth::Fixed);
    let refused = world.grow(fixed, "c").unwrap_err();
    assert_eq!(refused, Rejection::FlowClosed { why: "fixed" });
    let flow = world.flow_of("a", |_| {});
    world.complete_member(flow, "a");
    assert_eq!(world.grow(flow, "b"), Err(Rejection::FlowClosed { why: "completed" }), "FL-141");
    assert_eq!(world.flow(flow).hot.revision, 1, "FL-232");
}

#[test]
fn fl_62_a_call_of_a_member_is_fenced_and_stays_in_its_own_flow() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    let other = world.flow_of("b", |_| {});
    let held = world.claim_member(flow, "a");
    let before = world.records.clone();
    let mut stale = fence(&held);
    stale.epoch += 1;
    let within = |flow, fence| GrowFlow { within: Some((held.id, fence)), ..grow(flow, vec![member("x")], vec![]) };
    assert_eq!(run(&mut world, within(flow, stale)).unwrap_err().code(), "stale_lease");
    assert_eq!(run(&mut world, within(other, fence(&held))), Err(Rejection::FlowNotFound));
    assert_eq!(world.records, before, "nothing was added");
    run(&mut world, within(flow, fence(&held))).expect("its own flow");
}

#[test]
fn fl_102_a_caller_at_an_end_of_the_new_edges_keeps_its_children() {
    let mut world = World::new();
    let flow = world.flow_of("p", |_| {});
    let held = world.claim_member(flow, "p");
    world.within(&held, "c1 c2 p*>c2").unwrap();
    let parent = world.member(flow, "p");
    assert_eq!((parent.hot.children, parent.member().unwrap().outs), (2, 1));
    let wait = Command::WaitChildren(calls::wait(held.id, fence(&held), None));
    let Ok(Reply::Children(Children::Waiting { waiting, .. })) = world.run(wait) else { panic!("EX-47 it waits") };
    assert_eq!(waiting, 2);
    world.run(Command::Cancel(calls::cancel(held.id))).unwrap();
    world.scan();
    assert_eq!(world.states(flow, "c1 c2"), ["cancelled", "cancelled"], "EX-62");
}

#[test]
fn fl_63_whoever_names_a_revision_adds_to_that_one_only() {
    let mut world = World::new();
    let flow = world.flow_of("a", |_| {});
    world.grow(flow, "b").unwrap();
    let current = world.flow(flow).hot.revision;
    let at = |revision, key| GrowFlow { expected_revision: Some(revision), ..grow(flow, vec![member(key)], vec![]) };
    assert_eq!(run(&mut world, at(current - 1, "c")), Err(Rejection::FlowRevisionMismatch { current }));
    run(&mut world, at(current, "c")).unwrap();
    assert_eq!(world.flow(flow).hot.revision, current + 1);
}

#[test]
fn fl_64_a_late_edge_needs_a_downstream_that_has_not_begun_and_an_open_group() {
    let mut world = World::new();
    let flow = world.flow_of("u v done runs open u>open v>open@two", |_| {});
    world.complete_member(flow, "done");
    world.claim_member(flow, "runs");
    assert_eq!(world.grow(flow, "v>done").unwrap_err().code(), "execution_terminal");
    assert_eq!(world.grow(flow, "v>runs").unwrap_err().code(), "downstream_begun");
    world.complete_member(flow, "u");
    assert_eq!(world.grow(flow, "w w>open").unwrap_err().code(), "group_decided");
    world.grow(flow, "w w>open@two").expect("this one is open");
    world.complete_member(flow, "v");
    assert_eq!(world.state(flow, "open"), "waiting_children");
    world.complete_member(flow, "w");
    assert_eq!(world.state(flow, "open"), "waiting");
}

#[test]
fn fl_66_an_edge_from_a_purged_member_uses_what_was_left_of_it() {
    let mut world = World::new();
    let flow = world.flow_of("a b", |_| {});
    world.complete_member(flow, "a");
    world.complete_member(flow, "b");
    world.run(Command::Purge(Purge { id: member_id(flow, "a"), reason: "".into() })).unwrap();
    world.run(Command::Replay(calls::replay(member_id(flow, "b")))).unwrap();
    assert_eq!(world.flow_state(flow), "running", "FL-160");
    world.grow(flow, "c d a>c=x a!>d").unwrap();
    assert_eq!(world.states(flow, "c d"), ["waiting", "skipped"]);
    let claimed = world.claim_member(flow, "c");
    let given = &claimed.inputs[0];
    assert_eq!((&*given.upstream, given.outcome, &given.value), ("a", Outcome::Success, &InputValue::Purged));
    let Some(Record::Tombstone(stone)) = world.record(Key::Tombstone(member_id(flow, "a"))) else { panic!("a stone") };
    assert_eq!(stone.body.outs, 2, "FL-205 its edges go with it");
    assert_eq!(world.grow(flow, "e e>a").unwrap_err().code(), "execution_terminal");
    let summary = world.flow(flow).summary;
    assert_eq!((summary.members_purged, summary.of(PublicState::Completed)), (1, 1), "FL-174");
}

#[test]
fn fl_67_a_call_adds_all_or_nothing() {
    let mut world = World::new();
    let flow = world.flow_of("a b a>b", |_| {});
    let before = world.records.clone();
    for line in ["x y x>y y>nobody", "x b>x x>a", "x a>x x>x", "a>b=late"] {
        world.grow(flow, line).expect_err(line);
        assert_eq!(world.records, before, "{line}");
    }
}

#[test]
fn fl_73_names_of_inputs_are_unique_unless_they_collect() {
    let mut world = World::new();
    assert_eq!(world.try_flow("a b c a>c=x b>c=x", |_| {}).unwrap_err().code(), "duplicate_input");
    let flow = world.flow_of("a b c a>c=x b>c=y[]", |_| {});
    assert_eq!(world.grow(flow, "d d>c=x").unwrap_err().code(), "duplicate_input");
    world.grow(flow, "d d>c=y[]").unwrap();
    for key in ["d", "a", "b"] {
        world.complete_member(flow, key);
    }
    let claimed = world.claim_member(flow, "c");
    let given: Vec<(&str, &str)> = claimed.inputs.iter().map(|input| (&*input.name, &*input.upstream)).collect();
    assert_eq!(given, [("x", "a"), ("y[]", "b"), ("y[]", "d")], "in the order in which the edges were added");
}

#[test]
fn fl_41_the_reply_names_members_in_their_order_and_roots_are_ready_in_the_same_commit() {
    let mut world = World::new();
    let commits = world.commits;
    let reply = world.try_flow("z m a k z>m a>m m>k", |_| {}).unwrap();
    assert_eq!(world.commits, commits + 1);
    let expected = ["z", "m", "a", "k"].map(|key| (key.into(), member_id(reply.id, key)));
    assert_eq!(reply.members, expected, "in the order given, which is not that of the graph");
    assert_eq!(reply.revision, world.flow(reply.id).hot.revision);
    assert_eq!(reply.state.name(), "running");
    assert_eq!(world.states(reply.id, "z a m k"), ["waiting", "waiting", "waiting_children", "waiting_children"]);
    world.grow(reply.id, "late").unwrap();
    assert_eq!(world.flow(reply.id).hot.revision, reply.revision + 1);
}
