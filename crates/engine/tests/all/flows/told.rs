//! What is told of flows: lists in pages, counts, explanations, and bulk jobs over their members.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::plant;
use crate::kit::probe::Asked;
use std::collections::BTreeMap;
use weft_core::command::{DeadlineWish, Principal, Scopes, Steps};
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::bulk_job::Verb;
use weft_core::record::edge::On;
use weft_core::record::execution::PublicState;
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::schema::{IndexId, Timer, execution as schema, flow as flow_schema};
use weft_core::{FlowId, PartitionId};
use weft_engine::flow::{Edge, EdgeFilter, FlowFilter, FlowSubmission, Member, MemberFilter, MemberOrder, Sealing};
use weft_engine::{BulkRequest, Completion, ForceFailing, ListFilter, Obstacle};

pub async fn fl_192_members_are_listed_by_their_keys_and_found_by_one(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.submit(fan(95)).await;
    let (mut keys, mut order) = (Vec::new(), MemberOrder::Key(None));
    loop {
        let filter = MemberFilter { order, limit: Some(40), ..MemberFilter::default() };
        let page = bench.client.members(flow, filter).await.unwrap();
        keys.extend(page.members.iter().map(|(it, _)| it.member().unwrap().key.to_string()));
        let Some(next) = page.next else { break };
        assert_eq!(keys.len() % 40, 0, "a page that has a next one is full");
        order = next;
    }
    let sorted = || keys.iter().is_sorted();
    assert_eq!((keys.len(), &*keys[0], &*keys[96], sorted()), (97, "join", "source", true));
    let found = async |key: &str, states: &[PublicState]| {
        let (key, states) = (Some(key.into()), states.to_vec());
        let page = bench.client.members(flow, MemberFilter { key, states, ..MemberFilter::default() }).await.unwrap();
        page.members.len()
    };
    let counts = (found("m00007", &[]).await, found("m00007", &[PublicState::Active]).await, found("m1", &[]).await);
    assert_eq!(counts, (1, 0, 0));
}

pub async fn ex_70_executions_are_listed_and_counted_by_flow(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    for _ in 0..3 {
        bench.client.submit(work()).await.unwrap();
    }
    let flow = bench.submit(fan(95)).await;
    bench.client.submit_flow(fan(5)).await.unwrap();
    for ascending in [true, false] {
        let (mut numbers, mut cursor) = (Vec::new(), None);
        loop {
            let filter = ListFilter { flow: Some(flow), ascending, limit: Some(40), cursor, ..ListFilter::default() };
            let page = bench.client.list(filter).await.unwrap();
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
    let count = async |filter: ListFilter| bench.client.count(filter).await.unwrap().values().sum::<u64>();
    assert_eq!((count(of_flow(&[])).await, count(of_flow(&[PublicState::Waiting])).await), (97, 1));
    let other = bench.engine.client("other").unwrap();
    assert_eq!(other.count(of_flow(&[])).await.unwrap().len(), 0, "another namespace sees none of them");
    let nowhere = FlowId::new(PartitionId(99), flow.uuid());
    assert_eq!(count(ListFilter { flow: Some(nowhere), ..ListFilter::default() }).await, 0);
}

pub async fn api_40_a_bulk_job_over_a_flow_meets_its_members_and_no_others(kind: impl Kind) {
    let bench = Bench::running(&kind, 7).await;
    let flow = bench.submit(fan(1_200)).await;
    let other = bench.submit(fan(5)).await;
    let filter = Filter { flow: Some(flow), ..Filter::default() };
    let tag = Verb::Tag { set: [("seen".into(), "yes".into())].into(), remove: Vec::new(), reason: "".into() };
    let job = bench.client.start_bulk_and_wait(BulkRequest::new(filter.clone(), tag), 60_000);
    let job = bench.meanwhile(job).await.unwrap();
    assert_eq!((job.counts.matched, job.counts.done, job.partitions_done), (1_202, 1_202, 7));
    let tagged =
        |flow| ListFilter { flow: Some(flow), tag: Some(("seen".into(), "yes".into())), ..ListFilter::default() };
    let count = async |flow| bench.client.count(tagged(flow)).await.unwrap().values().sum::<u64>();
    assert_eq!((count(flow).await, count(other).await), (1_202, 0));

    let source = bench.client.members(flow, MemberFilter { key: Some("source".into()), ..MemberFilter::default() });
    let source = source.await.unwrap().members[0].0.id;
    bench.client.force_fail(ForceFailing::new(source, "no", "")).await.unwrap();
    let view = bench.meanwhile(bench.client.wait_flow(flow, None, 60_000)).await.unwrap().flow;
    assert_eq!((view.public_state().name(), view.summary.failures), ("failed", 1));
    let (deadline, steps) = (DeadlineWish::Keep, Steps::Clear);
    let alone = Verb::ReplayAlone { reason: "".into(), deadline, delay_ms: None, priority: None, steps };
    let against = Filter { against: Some(true), ..filter };
    let submits = bench.engine.client_as(Principal::new("shop", "ann", Scopes::SUBMIT));
    let denied = submits.start_bulk(BulkRequest::new(Filter::default(), alone.clone())).await;
    assert!(matches!(denied, Err(Rejection::Forbidden { .. })), "{denied:?}");
    let job = bench.meanwhile(submits.start_bulk_and_wait(BulkRequest::new(against, alone), 60_000)).await.unwrap();
    assert_eq!((job.counts.matched, job.counts.done), (1, 1));
    let view = bench.client.flow(flow).await.unwrap().flow;
    let left = (view.summary.of(PublicState::Waiting), view.summary.of(PublicState::Skipped));
    assert_eq!(left, (1, 1_201), "what depends on it stays as it was");
}

pub async fn fl_192_lists_come_in_pages_and_each_member_and_edge_once(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.submit(fan(150)).await;
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let page = bench.client.members(flow, MemberFilter::added_after(after, 40)).await.unwrap();
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
            bench.client.edges(flow, EdgeFilter { after, limit: Some(37), ..EdgeFilter::default() }).await.unwrap();
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
    let group = bench.client.group(flow, "join", MAIN).await.unwrap();
    assert_eq!((group.group.n, group.pending.len(), group.sealed), (150, 20, true));
    assert_eq!(bench.client.group(flow, "join", "other").await.unwrap_err().code(), "not_found");
}

pub async fn fl_190_flows_are_listed_over_all_partitions_with_one_cursor(kind: impl Kind) {
    let bench = Bench::running(&kind, 4).await;
    let mut made = Vec::new();
    for at in 0..25 {
        let flow = FlowSubmission::new("listed").tag("at", at.to_string()).member("a", work());
        made.push(bench.submit(flow).await);
        bench.pass(3).await;
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = bench.client.flows(FlowFilter { cursor, limit: Some(7), ..FlowFilter::default() }).await.unwrap();
        seen.extend(page.flows.iter().map(|(flow, _)| flow.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    made.reverse();
    assert_eq!(seen, made, "newest first, each once");
    let tagged = FlowFilter { tag: Some(("at".into(), "7".into())), ..FlowFilter::default() };
    assert_eq!(bench.client.flows(tagged).await.unwrap().flows.len(), 1);
    let stranger = bench.engine.client("other").unwrap();
    assert!(stranger.flows(FlowFilter::default()).await.unwrap().flows.is_empty());
    assert_eq!(stranger.flow(made[0]).await.unwrap_err().code(), "flow_not_found");
}

pub async fn fl_137_explain_says_what_a_flow_and_its_members_wait_for(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = FlowSubmission::new("why").member("a", work()).member("b", work()).edge("a", "b").unsealed();
    let flow = bench.submit(flow).await;
    let told = bench.client.explain_flow(flow).await.unwrap();
    assert!(told.unsealed_until.is_some());
    bench.client.seal_flow(Sealing::new(flow)).await.unwrap();
    let told = bench.client.explain_flow(flow).await.unwrap();
    assert_eq!(told.live, [(PublicState::Waiting, 1), (PublicState::WaitingChildren, 1)]);
    let (key, _, waits) = &told.first[1];
    assert_eq!(&**key, "b");
    let Obstacle::Dependencies { sealed: true, pending: 1, upstreams, .. } = &waits.reasons[0] else {
        panic!("{waits:?}");
    };
    assert_eq!((&*upstreams[0].0, upstreams[0].2), ("a", Some(PublicState::Waiting)));
}

pub async fn api_13_a_wait_that_begins_while_the_end_is_on_its_way_is_told_of_it(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(1).await;
    let held = bench.claim().await;
    bench.asked().await;
    bench.probe.slow_down(50);
    let waits = async {
        while !bench.probe.asked().iter().any(Asked::is_work) {
            tokio::task::yield_now().await;
        }
        // Nobody moves the clock: a wait that only looks again after a while would never end.
        let (flow, result) = (bench.client.wait_flow(flow, None, 30_000), bench.client.result(held.id, 30_000));
        tokio::join!(flow, result, bench.client.wait(held.id, None, 30_000))
    };
    let (completed, (flow, result, view)) = tokio::join!(bench.client.complete(Completion::of(&held)), waits);
    completed.unwrap();
    result.unwrap();
    assert!(flow.unwrap().reached);
    assert_eq!(view.unwrap().public_state, PublicState::Completed);
}

pub async fn fl_192_edges_that_lead_to_a_member_are_found_without_a_walk_through_its_flow(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let client = &bench.client;
    let flow = fan(150).link(Edge::new("m00007", "join").on(On::Any).group("tail"));
    let flow = bench.submit(flow).await;
    bench.until_quiet().await;
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
    bench.asked().await;
    let names = list(to_join.clone()).await;
    let walks = bench.asked().await.iter().filter(|asked| asked.is_of(IndexId::Members)).count();
    assert_eq!((names.len(), walks), (151, 0));
    let mut expected: Vec<String> = (0..150).map(|at| format!("m{at:05}@main")).collect();
    expected.push("m00007@tail".into());
    assert_eq!(names, expected, "each once, in the order they were added");
    let tail = EdgeFilter { group: Some("tail".into()), ..to_join.clone() };
    assert_eq!(list(tail).await, ["m00007@tail"]);
    let both = EdgeFilter { upstream: Some("m00007".into()), ..to_join.clone() };
    assert_eq!(list(both).await, ["m00007@main", "m00007@tail"]);
    let source = bench.claim().await;
    client.complete(Completion::of(&source)).await.unwrap();
    let first = bench.claim().await;
    client.complete(Completion::of(&first)).await.unwrap();
    let met = EdgeFilter { state: Some("met".into()), ..to_join };
    // Members that are ready alike are claimed in the order of their ids: it may be the one with two edges.
    let of_first = format!("{}@", key_of(&first));
    expected.retain(|edge| edge.starts_with(&of_first));
    assert_eq!(list(met).await, expected);
    let nobody = EdgeFilter { downstream: Some("nobody".into()), ..EdgeFilter::default() };
    assert!(list(nobody).await.is_empty());
}

pub async fn fl_191_what_does_not_decode_is_listed_on_its_row_and_fails_no_page(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let mut flows = Vec::new();
    for _ in 0..3 {
        flows.push(bench.submit(fan(3)).await);
        bench.pass(3).await;
    }
    let join = member_id(flows[0], "join");
    plant::damage(&*bench.store, Key::Flow(flows[1]), flow_schema::HOT).await;
    plant::damage(&*bench.store, Key::Execution(join), schema::MEMBER).await;
    let bench = bench.again().await;
    for limit in [1, 2, 50] {
        let (mut listed, mut damaged, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let filter = FlowFilter { cursor, limit: Some(limit), ..FlowFilter::default() };
            let page = bench.client.flows(filter).await.unwrap();
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
                let page = bench.client.members(flows[0], filter).await.unwrap();
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

pub async fn fl_126_the_safety_net_reads_what_is_owed_and_no_other_group(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let mut flows = Vec::new();
    for _ in 0..4 {
        let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
        let flow = FlowSubmission::new("race").with(join).member("w", work().priority(9)).member("s", work());
        flows.push(bench.submit(flow.edge("w", "j").edge("s", "j")).await);
        let winner = bench.claim().await;
        bench.client.complete(Completion::of(&winner)).await.unwrap();
    }
    plant::owe(&*bench.store, member_id(flows[2], "j"), bench.engine.now()).await;
    let bench = bench.again().await;
    bench.pass(10_000).await;
    bench.asked().await;
    let report = bench.scan("edge_cancel_reconciler").await;
    assert_eq!(report.errors, 0);
    let asked = bench.asked().await;
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

pub async fn fl_191_an_edge_that_does_not_decode_is_listed_from_both_ends(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.submit(fan(5)).await;
    let source = member_id(flow, "source");
    plant::damage(&*bench.store, Key::Edge(source, 2), 0).await;
    let all = EdgeFilter::default();
    let from = EdgeFilter { upstream: Some("source".into()), ..EdgeFilter::default() };
    let to = EdgeFilter { downstream: Some("m00002".into()), ..EdgeFilter::default() };
    for (filter, good) in [(all, 9), (from, 4), (to, 0)] {
        for limit in [1, 3, 50] {
            let (mut listed, mut damaged, mut after) = (0, Vec::new(), None);
            loop {
                let filter = EdgeFilter { after, limit: Some(limit), ..filter.clone() };
                let page = bench.client.edges(flow, filter).await.unwrap();
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
