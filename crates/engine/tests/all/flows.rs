//! Flows on the engine: resolved in the commit, carried on at once, verified, read in pages.

use crate::kit::flows::*;
use crate::kit::probe::{Asked, Probe};
use crate::kit::*;
use std::collections::BTreeMap;
use weft_core::command::{DeadlineWish, Fence, Principal, Scopes, Steps};
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::flow::member_id;
use weft_core::record::bulk_job::Verb;
use weft_core::record::continuation::Work;
use weft_core::record::edge::On;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::{FailurePolicy, Mode, PublicFlowState, Remaining};
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, Kind, Timer, execution as schema, flow as flow_schema};
use weft_core::{FlowId, PartitionId};
use weft_engine::config::ScannerConfig;
use weft_engine::flow::{Edge, EdgeFilter, FlowFilter, FlowSubmission, Member, MemberFilter, MemberOrder, Sealing};
use weft_engine::{
    BulkRequest, Completion, Config, Engine, Failing, ForceCompleting, ForceFailing, ListFilter, Obstacle, Replaying,
    TokioRuntime,
};
use weft_store::MemoryStore;
use weft_store::faulty::Faults;

#[tokio::test(start_paused = true)]
async fn sr_62_a_fan_out_goes_on_at_once_and_no_scanner_is_needed() {
    let kit = open().await;
    let flow = kit.client.submit_flow(fan(2_500)).await.unwrap().value.id;
    until_quiet(&kit.store).await;
    let source = kit.claim().await;
    kit.client.complete(Completion::of(&source)).await.unwrap();
    until_quiet(&kit.store).await;
    let summary = kit.client.flow(flow).await.unwrap().flow.summary;
    assert_eq!(summary.of(PublicState::Waiting), 2_500, "FL-257 every child is ready once");
    assert_eq!(kit.engine.stats().scanner_processed, 0, "SC-121 no timer and no scanner in between");
    assert_eq!(work_off(&kit.client).await.len(), 2_501);
    assert_eq!(state(&kit.client, flow).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn sc_159_a_fan_out_that_a_dead_node_left_is_finished_by_another() {
    let slow = Faults { before_ms: (1_000, 1_000), ..Faults::default() };
    let (store, faulty, first) = open_faulty_on(memory(1).shared(), Faults::default(), Config::default()).await;
    let client = first.client("shop").unwrap();
    let flow = client.submit_flow(fan(2_500)).await.unwrap().value.id;
    until_quiet(&store).await;
    let source = claim_all(&client, 1).await.remove(0);
    faulty.set_faults(slow);
    // The reply comes with the first commit. The next is on its way, and the node is cut off before it arrives.
    client.complete(Completion::of(&source)).await.unwrap();
    faulty.set_faults(Faults { commit_not_applied: 1_000, read_error: 1_000, ..slow });
    pass(5_000).await;
    let left = store.dump(P0).records.keys().filter(|key| matches!(key, Key::Continuation(_, Work::Resolve))).count();
    assert_eq!(left, 1, "FL-83 the rest is durable");
    let second = Engine::open(store.node_handle(), Config::default()).await.unwrap();
    let client = second.client("shop").unwrap();
    until_quiet(&store).await;
    let summary = client.flow(flow).await.unwrap().flow.summary;
    assert_eq!((summary.of(PublicState::Waiting), summary.edges_pending), (2_500, 2_500));
}

#[tokio::test(start_paused = true)]
async fn fl_180_totals_are_verified_after_a_change_and_never_repaired() {
    let kit = open().await;
    let flow = kit.client.submit_flow(fan(30)).await.unwrap().value.id;
    work_off(&kit.client).await;
    for _ in 0..100 {
        pass(500).await;
        if kit.client.flow(flow).await.unwrap().flow.summary.verified_at.is_some() {
            break;
        }
    }
    let verified = kit.client.flow(flow).await.unwrap().flow;
    assert_eq!(verified.summary.verified_no, Some(verified.summary.change_no), "SC-26");
    assert_eq!(verified.hot.verify_at, None, "FL-184 no timer is left");
    let due = kit.store.dump(P0).due;
    assert!(!due.iter().any(|entry| entry.timer() == Some(Timer::FlowVerify)));
}

#[tokio::test(start_paused = true)]
async fn sc_11_a_flow_without_members_is_open_and_costs_no_count() {
    let kit = open().await;
    let flow = kit.client.submit_flow(FlowSubmission::new("empty").unsealed()).await.unwrap().value.id;
    let view = kit.client.flow(flow).await.unwrap().flow;
    assert_eq!((view.public_state(), view.summary.total_members, view.hot.verify_at), (PublicFlowState::Open, 0, None));
    let refused = kit.client.seal_flow(Sealing::new(flow)).await.unwrap_err();
    assert_eq!(refused.code(), "empty_flow", "FL-57");
}

#[tokio::test(start_paused = true)]
async fn fl_192_members_are_listed_by_their_keys_and_found_by_one() {
    let kit = open().await;
    let flow = kit.client.submit_flow(fan(95)).await.unwrap().value.id;
    let (mut keys, mut order) = (Vec::new(), MemberOrder::Key(None));
    loop {
        let filter = MemberFilter { order, limit: Some(40), ..MemberFilter::default() };
        let page = kit.client.members(flow, filter).await.unwrap();
        keys.extend(page.members.iter().map(|(it, _)| it.member().unwrap().key.to_string()));
        let Some(next) = page.next else { break };
        assert_eq!(keys.len() % 40, 0, "a page that has a next one is full");
        order = next;
    }
    let sorted = || keys.iter().is_sorted();
    assert_eq!((keys.len(), &*keys[0], &*keys[96], sorted()), (97, "join", "source", true));
    let found = async |key: &str, states: &[PublicState]| {
        let (key, states) = (Some(key.into()), states.to_vec());
        let page = kit.client.members(flow, MemberFilter { key, states, ..MemberFilter::default() }).await.unwrap();
        page.members.len()
    };
    let counts = (found("m00007", &[]).await, found("m00007", &[PublicState::Active]).await, found("m1", &[]).await);
    assert_eq!(counts, (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn ex_70_executions_are_listed_and_counted_by_flow() {
    let kit = open().await;
    for _ in 0..3 {
        kit.client.submit(work()).await.unwrap();
    }
    let flow = kit.client.submit_flow(fan(95)).await.unwrap().value.id;
    kit.client.submit_flow(fan(5)).await.unwrap();
    for ascending in [true, false] {
        let (mut numbers, mut cursor) = (Vec::new(), None);
        loop {
            let filter = ListFilter { flow: Some(flow), ascending, limit: Some(40), cursor, ..ListFilter::default() };
            let page = kit.client.list(filter).await.unwrap();
            numbers.extend(page.executions.iter().map(|it| it.member().unwrap().number));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let mut expected: Vec<u32> = (0..97).collect();
        if !ascending {
            expected.reverse();
        }
        assert_eq!(numbers, expected, "each member once, in order");
    }
    let of_flow =
        |states: &[PublicState]| ListFilter { flow: Some(flow), states: states.to_vec(), ..ListFilter::default() };
    let count = async |filter: ListFilter| kit.client.count(filter).await.unwrap().values().sum::<u64>();
    assert_eq!((count(of_flow(&[])).await, count(of_flow(&[PublicState::Waiting])).await), (97, 1));
    let other = kit.engine.client("other").unwrap();
    assert_eq!(other.count(of_flow(&[])).await.unwrap().len(), 0, "another namespace sees none of them");
    let nowhere = FlowId::new(PartitionId(99), flow.uuid());
    assert_eq!(count(ListFilter { flow: Some(nowhere), ..ListFilter::default() }).await, 0);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_bulk_job_over_a_flow_meets_its_members_and_no_others() {
    let kit = open_with(7, Config::default()).await;
    let flow = kit.client.submit_flow(fan(1_200)).await.unwrap().value.id;
    let other = kit.client.submit_flow(fan(5)).await.unwrap().value.id;
    let filter = Filter { flow: Some(flow), ..Filter::default() };
    let tag = Verb::Tag { set: [("seen".into(), "yes".into())].into(), remove: Vec::new(), reason: "".into() };
    let job = kit.client.start_bulk_and_wait(BulkRequest::new(filter.clone(), tag), 60_000).await.unwrap();
    assert_eq!((job.counts.matched, job.counts.done, job.partitions_done), (1_202, 1_202, 7));
    let tagged =
        |flow| ListFilter { flow: Some(flow), tag: Some(("seen".into(), "yes".into())), ..ListFilter::default() };
    let count = async |flow| kit.client.count(tagged(flow)).await.unwrap().values().sum::<u64>();
    assert_eq!((count(flow).await, count(other).await), (1_202, 0));

    let source = kit.client.members(flow, MemberFilter { key: Some("source".into()), ..MemberFilter::default() });
    let source = source.await.unwrap().members[0].0.id;
    kit.client.force_fail(ForceFailing::new(source, "no", "")).await.unwrap();
    let view = kit.client.wait_flow(flow, None, 60_000).await.unwrap().flow;
    assert_eq!((view.public_state().name(), view.summary.failures), ("failed", 1));
    let (deadline, steps) = (DeadlineWish::Keep, Steps::Clear);
    let alone = Verb::ReplayAlone { reason: "".into(), deadline, delay_ms: None, priority: None, steps };
    let against = Filter { against: Some(true), ..filter };
    let submits = kit.engine.client_as(Principal::new("shop", "ann", Scopes::SUBMIT));
    let denied = submits.start_bulk(BulkRequest::new(Filter::default(), alone.clone())).await;
    assert!(matches!(denied, Err(Rejection::Forbidden { .. })), "{denied:?}");
    let job = submits.start_bulk_and_wait(BulkRequest::new(against, alone), 60_000).await.unwrap();
    assert_eq!((job.counts.matched, job.counts.done), (1, 1));
    let view = kit.client.flow(flow).await.unwrap().flow;
    let left = (view.summary.of(PublicState::Waiting), view.summary.of(PublicState::Skipped));
    assert_eq!(left, (1, 1_201), "what depends on it stays as it was");
}

#[tokio::test(start_paused = true)]
async fn fl_192_lists_come_in_pages_and_each_member_and_edge_once() {
    let kit = open().await;
    let flow = kit.client.submit_flow(fan(150)).await.unwrap().value.id;
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let page = kit.client.members(flow, MemberFilter::added_after(after, 40)).await.unwrap();
        keys.extend(page.members.iter().map(|(it, _)| it.member().unwrap().key.to_string()));
        after = page.next_added();
        if after.is_none() {
            break;
        }
    }
    assert_eq!((keys.len(), &*keys[0], &*keys[1]), (152, "source", "join"), "in the order they were added");
    let mut edges: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut after = None;
    loop {
        let page =
            kit.client.edges(flow, EdgeFilter { after, limit: Some(37), ..EdgeFilter::default() }).await.unwrap();
        for view in &page.edges {
            *edges.entry((view.from.to_string(), view.to.to_string())).or_default() += 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(edges.len(), 300);
    assert!(edges.values().all(|count| *count == 1));
    let group = kit.client.group(flow, "join", MAIN).await.unwrap();
    assert_eq!((group.group.n, group.pending.len(), group.sealed), (150, 20, true));
    assert_eq!(kit.client.group(flow, "join", "other").await.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn fl_192_edges_that_lead_to_a_member_are_found_without_a_walk_through_its_flow() {
    let store = memory(1);
    let probe = Probe::new(store.clone());
    let runtime = std::sync::Arc::new(TokioRuntime::current());
    let engine = Engine::open_on(probe.clone(), Config::default(), runtime).await.unwrap();
    let client = engine.client("shop").unwrap();
    let flow = fan(150).link(Edge::new("m00007", "join").on(On::Any).group("tail"));
    let flow = client.submit_flow(flow).await.unwrap().value.id;
    until_quiet(&store).await;
    let list = async |filter: EdgeFilter| {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let filter = EdgeFilter { after, limit: Some(40), ..filter.clone() };
            let page = client.edges(flow, filter).await.unwrap();
            assert!(page.edges.iter().all(|view| &*view.to == "join"));
            names.extend(page.edges.iter().map(|view| format!("{}@{}", view.from, view.group)));
            after = page.next;
            if after.is_none() {
                return names;
            }
        }
    };
    let to_join = EdgeFilter { downstream: Some("join".into()), ..EdgeFilter::default() };
    probe.asked();
    let names = list(to_join.clone()).await;
    let walks = probe.asked().iter().filter(|asked| asked.is_of(IndexId::Members)).count();
    assert_eq!((names.len(), walks), (151, 0));
    let mut expected: Vec<String> = (0..150).map(|at| format!("m{at:05}@main")).collect();
    expected.push("m00007@tail".into());
    assert_eq!(names, expected, "each once, in the order they were added");
    let tail = EdgeFilter { group: Some("tail".into()), ..to_join.clone() };
    assert_eq!(list(tail).await, ["m00007@tail"]);
    let both = EdgeFilter { upstream: Some("m00007".into()), ..to_join.clone() };
    assert_eq!(list(both).await, ["m00007@main", "m00007@tail"]);
    let source = claim_all(&client, 1).await.remove(0);
    client.complete(Completion::of(&source)).await.unwrap();
    let first = claim_all(&client, 1).await.remove(0);
    client.complete(Completion::of(&first)).await.unwrap();
    let met = EdgeFilter { state: Some("met".into()), ..to_join };
    assert_eq!(list(met).await, [format!("{}@main", key_of(&first))]);
    let nobody = EdgeFilter { downstream: Some("nobody".into()), ..EdgeFilter::default() };
    assert!(list(nobody).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn fl_191_what_does_not_decode_is_listed_on_its_row_and_fails_no_page() {
    let kit = open().await;
    let mut flows = Vec::new();
    for _ in 0..3 {
        flows.push(kit.client.submit_flow(fan(3)).await.unwrap().value.id);
        pass(3).await;
    }
    let join = member_id(flows[0], "join");
    plant::damage(&kit.store, Key::Flow(flows[1]), flow_schema::HOT).await;
    plant::damage(&kit.store, Key::Execution(join), schema::MEMBER).await;
    for limit in [1, 2, 50] {
        let (mut listed, mut damaged, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let filter = FlowFilter { cursor, limit: Some(limit), ..FlowFilter::default() };
            let page = kit.client.flows(filter).await.unwrap();
            listed.extend(page.flows.iter().map(|(flow, _)| flow.id));
            damaged.extend(page.damaged);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((listed, damaged), (vec![flows[2], flows[0]], vec![flows[1]]), "pages of {limit}");
        for mut order in [MemberOrder::Added(None), MemberOrder::Key(None)] {
            let (mut keys, mut damaged) = (Vec::new(), Vec::new());
            loop {
                let filter = MemberFilter { order, limit: Some(limit), ..MemberFilter::default() };
                let page = kit.client.members(flows[0], filter).await.unwrap();
                keys.extend(page.members.iter().map(|(it, _)| it.member().unwrap().key.to_string()));
                damaged.extend(page.damaged);
                let Some(next) = page.next else { break };
                order = next;
            }
            keys.sort();
            assert_eq!((keys.join(" "), damaged), ("m00000 m00001 m00002 source".into(), vec![join]), "{limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fl_191_an_edge_that_does_not_decode_is_listed_from_both_ends() {
    let kit = open().await;
    let flow = kit.client.submit_flow(fan(5)).await.unwrap().value.id;
    let source = member_id(flow, "source");
    plant::damage(&kit.store, Key::Edge(source, 2), 0).await;
    let all = EdgeFilter::default();
    let from = EdgeFilter { upstream: Some("source".into()), ..EdgeFilter::default() };
    let to = EdgeFilter { downstream: Some("m00002".into()), ..EdgeFilter::default() };
    for (filter, good) in [(all, 9), (from, 4), (to, 0)] {
        for limit in [1, 3, 50] {
            let (mut listed, mut damaged, mut after) = (0, Vec::new(), None);
            loop {
                let filter = EdgeFilter { after, limit: Some(limit), ..filter.clone() };
                let page = kit.client.edges(flow, filter).await.unwrap();
                assert!(page.edges.len() + page.damaged.len() <= limit);
                listed += page.edges.len();
                damaged.extend(page.damaged);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!((listed, damaged), (good, vec![(source, 2)]), "pages of {limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fl_126_the_safety_net_reads_what_is_owed_and_no_other_group() {
    let store = memory(1);
    let probe = Probe::new(store.clone());
    // No scan is started but by the test.
    let scanners = ScannerConfig { at_once: 0, ..ScannerConfig::default() };
    let config = || Config { scanners: scanners.clone(), ..Config::default() };
    let runtime = std::sync::Arc::new(TokioRuntime::current());
    let engine = Engine::open_on(probe.clone(), config(), runtime.clone()).await.unwrap();
    let client = engine.client("shop").unwrap();
    let mut flows = Vec::new();
    for _ in 0..4 {
        let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
        let flow = FlowSubmission::new("race").with(join).member("w", work().priority(9)).member("s", work());
        flows.push(client.submit_flow(flow.edge("w", "j").edge("s", "j")).await.unwrap().value.id);
        let winner = claim_all(&client, 1).await.remove(0);
        client.complete(Completion::of(&winner)).await.unwrap();
    }
    plant::owe(&store, member_id(flows[2], "j"), engine.now()).await;
    engine.shutdown().await;
    let engine = Engine::open_on(probe.clone(), config(), runtime).await.unwrap();
    pass(10_000).await;
    probe.asked();
    let report = engine.scan("edge_cancel_reconciler", P0).await.unwrap();
    assert_eq!(report.errors, 0);
    let asked = probe.asked();
    let scans = asked.iter().filter(|asked| matches!(asked, Asked::Scan(Some(_), _)));
    assert!(scans.clone().count() > 0 && scans.clone().all(|it| it.due() == Some(Timer::GroupCancel as i64)));
    let read = asked.iter().filter_map(|asked| if let Asked::Read(_, keys) = asked { Some(keys) } else { None });
    let read: Vec<Key> = read.flatten().copied().collect();
    let of = |flow: FlowId| ["j", "s", "w"].map(|key| Key::Execution(member_id(flow, key)));
    assert!(read.contains(&of(flows[2])[0]), "what is owed is looked at");
    for flow in [flows[0], flows[1], flows[3]] {
        assert!(of(flow).iter().all(|key| !read.contains(key)), "the other groups owe nothing: {read:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fl_86_a_chain_is_skipped_in_few_commits_and_without_a_wait() {
    let kit = open().await;
    let length = 4_000;
    let mut flow = FlowSubmission::new("chain").member("m0", work());
    for at in 1..length {
        flow = flow.member(format!("m{at}"), work()).edge(format!("m{}", at - 1), format!("m{at}"));
    }
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    until_quiet(&kit.store).await;
    let first = kit.claim().await;
    let (commits, began) = (|| kit.store.dump(P0).head.position.seq, tokio::time::Instant::now());
    let before = commits();
    kit.client.fail(Failing::of(&first)).await.unwrap();
    let view = kit.client.wait_flow(flow, None, 60_000).await.unwrap();
    let spent = (commits() - before, began.elapsed().as_millis());
    assert_eq!(view.flow.summary.of(PublicState::Skipped), length - 1);
    assert!(spent.0 <= 2 * u64::from(length).div_ceil(1_000), "{spent:?}: the soft limit of records is smaller");
    assert_eq!(spent.1, 0, "no timer and no scanner in between");
}

#[tokio::test(start_paused = true)]
async fn fl_74_a_holder_reads_what_an_operator_gave_before_a_replay() {
    let kit = open().await;
    let flow = FlowSubmission::new("given").member("u", work()).member("d", work());
    let flow = kit.client.submit_flow(flow.link(Edge::new("u", "d").input("x"))).await.unwrap().value.id;
    let u = member_id(flow, "u");
    kit.client.force_complete(ForceCompleting::new(u, "by hand").result(&b"first"[..])).await.unwrap();
    let held = kit.claim().await;
    let fence = Fence { lease: held.lease, epoch: held.epoch };
    let read = async || {
        let page = kit.client.held_input(held.id, fence, "x", None).await.unwrap();
        page.values[0].2.as_ref().map(|payload| payload.bytes.clone())
    };
    kit.client.replay(Replaying::new(u, "again")).await.unwrap();
    assert_eq!(read().await.as_deref(), Some(&b"first"[..]), "while it lives again");
    kit.client.force_complete(ForceCompleting::new(u, "by hand").result(&b"second"[..])).await.unwrap();
    assert_eq!(read().await.as_deref(), Some(&b"first"[..]));
    let now = kit.client.result(u, 0).await.unwrap().bytes;
    assert_eq!(now.as_deref(), Some(&b"second"[..]), "whoever asks for its result gets that of its last end");
}

#[tokio::test(start_paused = true)]
async fn fl_190_flows_are_listed_over_all_partitions_with_one_cursor() {
    let kit = open_with(4, Config::default()).await;
    let mut made = Vec::new();
    for at in 0..25 {
        let flow = FlowSubmission::new("listed").tag("at", at.to_string()).member("a", work());
        made.push(kit.client.submit_flow(flow).await.unwrap().value.id);
        pass(3).await;
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = kit.client.flows(FlowFilter { cursor, limit: Some(7), ..FlowFilter::default() }).await.unwrap();
        seen.extend(page.flows.iter().map(|(flow, _)| flow.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    made.reverse();
    assert_eq!(seen, made, "newest first, each once");
    let tagged = FlowFilter { tag: Some(("at".into(), "7".into())), ..FlowFilter::default() };
    assert_eq!(kit.client.flows(tagged).await.unwrap().flows.len(), 1);
    let stranger = kit.engine.client("other").unwrap();
    assert!(stranger.flows(FlowFilter::default()).await.unwrap().flows.is_empty());
    assert_eq!(stranger.flow(made[0]).await.unwrap_err().code(), "flow_not_found");
}

#[tokio::test(start_paused = true)]
async fn fl_137_explain_says_what_a_flow_and_its_members_wait_for() {
    let kit = open().await;
    let flow = FlowSubmission::new("why").member("a", work()).member("b", work()).edge("a", "b").unsealed();
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    let told = kit.client.explain_flow(flow).await.unwrap();
    assert!(told.unsealed_until.is_some());
    kit.client.seal_flow(Sealing::new(flow)).await.unwrap();
    let told = kit.client.explain_flow(flow).await.unwrap();
    assert_eq!(told.live, [(PublicState::Waiting, 1), (PublicState::WaitingChildren, 1)]);
    let (key, _, waits) = &told.first[1];
    assert_eq!(&**key, "b");
    let Obstacle::Dependencies { sealed: true, pending: 1, upstreams, .. } = &waits.reasons[0] else {
        panic!("{waits:?}");
    };
    assert_eq!((&*upstreams[0].0, upstreams[0].2), ("a", PublicState::Waiting));
}

#[tokio::test(start_paused = true)]
async fn fl_132_fail_fast_cancels_what_lives() {
    let kit = open().await;
    let remaining = Remaining::Cancel(Mode::Immediate);
    let flow = fan(300).failure(FailurePolicy::FailFast { remaining });
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    let source = kit.claim().await;
    kit.client.complete(Completion::of(&source)).await.unwrap();
    let some = claim_all(&kit.client, 5).await;
    kit.client.fail(Failing::of(&some[0])).await.unwrap();
    until_quiet(&kit.store).await;
    let view = kit.client.wait_flow(flow, None, 1_000).await.unwrap();
    assert_eq!((view.flow.public_state(), view.flow.summary.failures), (PublicFlowState::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn fl_202_a_purged_flow_leaves_nothing_behind() {
    let kit = open().await;
    let flow = fan(1_200).link(Edge::new("source", "join").on(On::Any).group("tail"));
    let flow = kit.client.submit_flow(flow.idempotency_key(&b"once"[..])).await.unwrap().value.id;
    until_quiet(&kit.store).await;
    assert_eq!(kit.client.purge_flow(flow, "", None).await.unwrap_err().code(), "flow_not_terminal", "FL-203");
    work_off(&kit.client).await;
    assert_eq!(state(&kit.client, flow).await, "completed");
    kit.client.purge_flow(flow, "done with it", None).await.unwrap();
    assert_eq!(kit.client.flow(flow).await.unwrap_err().code(), "flow_not_found");
    until_quiet(&kit.store).await;
    for _ in 0..200 {
        pass(1_000).await;
    }
    let left: Vec<Key> = kept(&kit.store)
        .into_iter()
        .filter(|key| !matches!(key.kind(), Kind::Dedup | Kind::Audit | Kind::Register))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn sc_159_a_pending_edge_whose_upstream_has_ended_is_found_by_the_audit() {
    let kit = open().await;
    let flow = FlowSubmission::new("audited").member("a", work()).member("b", work()).edge("a", "b");
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    let a = kit.claim().await;
    kit.client.complete(Completion::of(&a)).await.unwrap();
    // As if the edge had not been resolved: all but the upstream's own end is taken back.
    kit.engine.shutdown().await;
    plant_pending(&kit.store, flow).await;
    let engine = Engine::open(kit.store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    assert_eq!(client.member(flow, "b").await.unwrap().public_state, PublicState::WaitingChildren);
    for _ in 0..1_300 {
        pass(500).await;
        if client.member(flow, "b").await.unwrap().public_state == PublicState::Waiting {
            return;
        }
    }
    panic!("the audit finds it within eleven minutes");
}

/// Writes the edge and the downstream of a flow of two as they were before the upstream ended.
pub async fn plant_pending(store: &MemoryStore, flow: FlowId) {
    use weft_core::change::{Batch, Body, Change, Head, Write};
    use weft_core::record::execution::{Hold, Holds, Next, State};
    use weft_core::record::member::GroupState;
    use weft_store::Store;
    let (a, b) = (weft_core::flow::member_id(flow, "a"), weft_core::flow::member_id(flow, "b"));
    let dump = store.dump(P0);
    let read = |key: Key| {
        let stored = &dump.records[&key];
        let parts: Vec<_> = stored.parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
        (Record::decode(key, &parts, weft_core::schema::PartMask::ALL).unwrap(), stored.revision)
    };
    let mut writes = Vec::new();
    let mut reads = Vec::new();
    let mut plant = |old: Record, new: Record, revision| {
        let body = Body { facets: new.facets(), parts: new.encode(new.key().kind().table().light) };
        let (old_due, new_due) = (old.due(), new.due());
        let gone = old_due.iter().filter(|due| !new_due.contains(due)).copied().collect();
        let added = new_due.iter().filter(|due| !old_due.contains(due)).copied().collect();
        reads.push((new.key(), Some(revision)));
        let what = Change::Update { old: old.facets(), body };
        writes.push(Write { key: new.key(), what, due_add: added, due_remove: gone });
    };
    let (Record::Edge(edge), revision) = read(Key::Edge(a, 0)) else { panic!("an edge") };
    let mut pending = edge.clone();
    pending.body.resolved = None;
    plant(Record::Edge(edge), Record::Edge(pending), revision);
    let (Record::Execution(ready), revision) = read(Key::Execution(b)) else { panic!("a member") };
    let mut waits = ready.clone();
    let mut holds = Holds::default();
    holds.insert(Hold::Dependencies { unresolved: 1, sealed: true });
    let since = waits.hot.created_at;
    waits.hot.state = State::Blocked { holds, not_before: None, since, next: Next::First };
    let group = &mut waits.member_mut().groups[0];
    (group.met, group.state, group.decided_at) = (0, GroupState::Pending, None);
    plant(Record::Execution(ready), Record::Execution(waits), revision);
    let (Record::Flow(counted), revision) = read(Key::Flow(flow)) else { panic!("a flow") };
    let mut planted = counted.clone();
    planted.summary.by_state[PublicState::Waiting as usize] -= 1;
    planted.summary.by_state[PublicState::WaitingChildren as usize] += 1;
    planted.summary.edges_pending = 1;
    plant(Record::Flow(counted), Record::Flow(planted), revision);
    let head: Head = store.read(P0, Vec::new()).await.unwrap().head;
    let batch = Batch {
        id: weft_core::CommitId(uuid::Uuid::from_u128(77)),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads,
        writes,
        due_drops: Vec::new(),
        feed: Default::default(),
        lanes: Vec::new(),
    };
    let outcome = store.commit(P0, batch).await;
    assert!(matches!(outcome, weft_store::Outcome::Applied { .. }), "{outcome:?}");
}
