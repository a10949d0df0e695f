//! Reads of flows that are large, damaged, partly purged or not whole: bounded, whole, and of this flow only. What they ask
//! of a store is the same for all, so one in memory is enough.

use crate::kit::flows::*;
use crate::kit::*;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::record::member::{GroupPolicy, MAIN, Then};
use weft_core::schema::{Timer, execution as schema};
use weft_core::{ExecutionId, FlowId};
use weft_engine::flow::{EdgeFilter, FlowSubmission, Growing, Member, MemberFilter, Sealing};
use weft_engine::{Client, Config, Engine, ForceFailing, GroupBy, ListFilter, Submission};
use weft_store::MemoryStore;
use weft_store::faulty::Faults;

/// All edges in pages of so many, as `from>to`, and how many pages they took.
async fn all_edges(client: &Client, flow: FlowId, limit: usize) -> (Vec<String>, usize) {
    let (mut edges, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let filter = EdgeFilter { after, limit: Some(limit), ..EdgeFilter::default() };
        let page = client.edges(flow, filter).await.unwrap();
        edges.extend(page.edges.iter().map(|view| format!("{}>{}", view.from, view.to)));
        pages += 1;
        assert!(pages < 100, "the list comes to an end");
        after = page.next;
        if after.is_none() {
            return (edges, pages);
        }
    }
}

/// Lets virtual time go on until nothing is left to be done at once.
async fn until_quiet(store: &MemoryStore) {
    use Timer::*;
    for _ in 0..2_000 {
        if !plant::any(store, P0, &[Resolve, Reopen, GroupCancel, FlowSeal, FlowEnding, FlowPurge]).await {
            return;
        }
        pass(10).await;
    }
    panic!("work is left");
}

fn line(count: usize) -> FlowSubmission {
    let members = (0..count).map(|at| Member::new(format!("m{at:05}"), work()));
    members.fold(FlowSubmission::new("line"), FlowSubmission::with)
}

async fn break_state(kit: &Kit, id: ExecutionId) {
    plant::damage(&kit.store, Key::Execution(id), schema::HOT).await;
}

#[tokio::test(start_paused = true)]
async fn fl_192_a_page_of_edges_looks_at_so_many_members_and_no_more() {
    let kit = open().await;
    let flow = kit.client.submit_flow(line(9_000).edge("m00000", "m08999")).await.unwrap().value.id;
    let (edges, pages) = all_edges(&kit.client, flow, 50).await;
    assert_eq!(edges, ["m00000>m08999"]);
    assert_eq!(pages, 3, "each looks at four thousand");
}

#[tokio::test(start_paused = true)]
async fn fl_191_a_row_of_members_that_cannot_be_read_does_not_stop_the_list_of_edges() {
    let kit = open().await;
    let flow = line(250).edge("m00000", "m00249").edge("m00240", "m00249").edge("m00248", "m00249");
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    kit.engine.shutdown().await;
    for at in 1..239 {
        break_state(&kit, member_id(flow, &format!("m{at:05}"))).await;
    }
    let engine = Engine::open(kit.store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    for limit in [1, 2, 50] {
        let (edges, _) = all_edges(&client, flow, limit).await;
        assert_eq!(edges, ["m00000>m00249", "m00240>m00249", "m00248>m00249"], "{limit} a page");
    }
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn fl_205_edges_of_purged_members_are_listed_by_their_keys() {
    let kit = open().await;
    let flow = FlowSubmission::new("etl").member("a", work()).member("b", work()).member("c", work());
    let flow = flow.edge("a", "b").edge("a", "c").edge("b", "c");
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    work_off(&kit.client).await;
    for key in ["a", "c"] {
        kit.client.purge(member_id(flow, key)).await.unwrap();
    }
    for limit in [1, 50] {
        assert_eq!(all_edges(&kit.client, flow, limit).await.0, ["a>b", "a>c", "b>c"], "{limit} a page");
    }
    let from = |key: &str| EdgeFilter { upstream: Some(key.into()), ..EdgeFilter::default() };
    let page = kit.client.edges(flow, from("a")).await.unwrap();
    assert_eq!(page.edges.iter().map(|view| &*view.to).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(kit.client.edges(flow, from("nobody")).await.unwrap_err().code(), "unknown_node");
}

#[tokio::test(start_paused = true)]
async fn fl_192_what_belongs_to_another_flow_is_not_read_by_its_id() {
    let kit = open().await;
    let race = |kind: &str| {
        let join = Member::new("j", work()).join(GroupPolicy::AnyOf, Then::LetRun);
        FlowSubmission::new(kind.to_owned()).member("a", work()).with(join).edge("a", "j")
    };
    let flow = kit.client.submit_flow(race("one")).await.unwrap().value.id;
    let other = kit.client.submit_flow(race("other")).await.unwrap().value.id;
    let alone = kit.submit(Submission::new("alone")).await;
    for id in [member_id(other, "j"), member_id(other, "a"), alone] {
        let key = id.to_string();
        let filter = MemberFilter { key: Some(key.as_str().into()), ..MemberFilter::default() };
        assert!(kit.client.members(flow, filter).await.unwrap().members.is_empty());
        let from = EdgeFilter { upstream: Some(key.as_str().into()), ..EdgeFilter::default() };
        assert_eq!(kit.client.edges(flow, from).await.unwrap_err().code(), "unknown_node");
        assert_eq!(kit.client.group(flow, &key, MAIN).await.unwrap_err().code(), "unknown_node");
        assert_eq!(kit.client.member(flow, &key).await.unwrap_err().code(), "execution_not_found");
    }
    let own = member_id(flow, "j").to_string();
    assert_eq!(kit.client.group(flow, &own, MAIN).await.unwrap().group.n, 1);
}

#[tokio::test(start_paused = true)]
async fn fl_191_one_upstream_that_cannot_be_read_hides_no_other() {
    let kit = open().await;
    let flow = line(3).member("j", work()).edge("m00000", "j").edge("m00001", "j").edge("m00002", "j");
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    let damaged = member_id(flow, "m00001");
    break_state(&kit, damaged).await;
    let group = kit.client.group(flow, "j", MAIN).await.unwrap();
    let pending: Vec<_> = group.pending.iter().map(|(key, _, state)| (&**key, *state)).collect();
    let waiting = Some(PublicState::Waiting);
    let damaged = damaged.to_string();
    assert_eq!(pending, [("m00000", waiting), (&*damaged, None), ("m00002", waiting)]);
    kit.client.explain(member_id(flow, "j")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn api_4_a_store_that_does_not_answer_makes_no_member_unknown() {
    let (_, faulty, engine) = open_faulty_on(memory(1).shared(), Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    let flow = FlowSubmission::new("etl").member("a", work()).member("b", work()).edge("a", "b");
    let flow = client.submit_flow(flow).await.unwrap().value.id;
    let from = EdgeFilter { upstream: Some("a".into()), ..EdgeFilter::default() };
    let mut unavailable = 0;
    // Some reads of each call fail, others do not.
    faulty.set_faults(Faults { read_error: 300, ..Faults::default() });
    for _ in 0..60 {
        for answer in
            [client.group(flow, "b", MAIN).await.map(|_| ()), client.edges(flow, from.clone()).await.map(|_| ())]
        {
            let code = answer.map_or_else(|refused| refused.code(), |()| "read");
            assert!(["unavailable", "read"].contains(&code), "{code}");
            unavailable += u32::from(code == "unavailable");
        }
    }
    assert!(unavailable > 0);
    faulty.set_faults(Faults::default());
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn fl_137_explain_finds_the_member_that_lives_behind_thousands_that_have_ended() {
    let kit = open().await;
    let mut flow = FlowSubmission::new("tail").member("u", work());
    for at in 0..4_200 {
        flow = flow.member(format!("m{at:05}"), work()).edge("u", format!("m{at:05}"));
    }
    let flow = kit.client.submit_flow(flow.member("last", work())).await.unwrap().value.id;
    until_quiet(&kit.store).await;
    kit.client.force_fail(ForceFailing::new(member_id(flow, "u"), "no", "")).await.unwrap();
    until_quiet(&kit.store).await;
    let told = kit.client.explain_flow(flow).await.unwrap();
    assert_eq!(told.live, [(PublicState::Waiting, 1)]);
    assert_eq!(told.first.iter().map(|(key, ..)| &**key).collect::<Vec<_>>(), ["last"]);
}

#[tokio::test(start_paused = true)]
async fn fl_44_nobody_sees_members_of_a_graph_that_is_not_whole() {
    let (store, faulty, engine) = open_faulty_on(memory(1).shared(), Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    faulty.set_faults(Faults { before_ms: (1_000, 1_000), ..Faults::default() });
    let graph = || line(7_000).idempotency_key("once");
    let building = client.clone();
    let made = tokio::spawn(async move { building.submit_flow(graph()).await });
    let flow = loop {
        pass(100).await;
        let flow = store.dump(P0).records.keys().find_map(|key| match key {
            Key::Flow(id) => Some(*id),
            _ => None,
        });
        if let Some(flow) = flow {
            break flow;
        }
    };
    faulty.set_faults(Faults { commit_not_applied: 1_000, ..Faults::default() });
    made.await.unwrap().expect_err("the rest of it is not taken");
    let some = store.dump(P0).records.keys().find_map(|key| match key {
        Key::Execution(id) => Some(*id),
        _ => None,
    });
    let some = some.unwrap();
    assert_eq!(client.flow(flow).await.unwrap_err().code(), "flow_not_found");
    assert_eq!(client.get(some).await.unwrap_err().code(), "execution_not_found");
    for filter in [ListFilter::default(), ListFilter { flow: Some(flow), ..ListFilter::default() }] {
        assert!(client.list(filter.clone()).await.unwrap().executions.is_empty());
        assert!(client.count(filter).await.unwrap().is_empty());
    }
    let waiting = ListFilter { states: vec![PublicState::WaitingChildren], ..ListFilter::default() };
    let by_state = GroupBy { state: true, ..GroupBy::default() };
    let all = ListFilter::default();
    for (filter, by) in
        [(&all, GroupBy::default()), (&all, by_state), (&waiting, GroupBy::default()), (&waiting, by_state)]
    {
        let counted = client.count_within(filter, by, 60_000).await.unwrap();
        assert!(counted.counts.is_empty(), "entries of the index were counted: {filter:?} {by:?}");
    }
    faulty.set_faults(Faults::default());
    client.submit_flow(graph()).await.expect("a repeat goes on where it stopped");
    assert_eq!(client.get(some).await.unwrap().execution.id, some);
    assert_eq!(client.list(ListFilter::default()).await.unwrap().executions.len(), 50);
    let counted = client.count_within(&ListFilter::default(), GroupBy::default(), 60_000).await.unwrap();
    assert_eq!((counted.counts.values().sum::<u64>(), counted.at_least), (7_000, false));
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn fl_57_a_large_flow_that_cannot_be_sealed_is_told_so_and_stays_as_it_was() {
    let kit = open().await;
    let join = Member::new("j", work()).join(GroupPolicy::Quorum(2), Then::LetRun);
    let flow = line(2_500).with(join).edge("m00000", "j").unsealed();
    let flow = kit.client.submit_flow(flow).await.unwrap().value.id;
    until_quiet(&kit.store).await;
    let refused = kit.client.seal_flow(Sealing::new(flow)).await.unwrap_err();
    assert_eq!(refused.code(), "quorum_unreachable");
    assert_eq!(kit.client.flow(flow).await.unwrap().flow.hot.unsealed, 2_501, "FL-32");
    let more = Growing::new(flow).edge("m00001", "j");
    kit.client.grow_flow(more).await.unwrap();
    let sealed = kit.client.seal_flow(Sealing { request_id: Some("once".into()), ..Sealing::new(flow) });
    assert!(!sealed.await.unwrap().value, "it was not sealed before");
    until_quiet(&kit.store).await;
    let view = kit.client.flow(flow).await.unwrap().flow;
    assert_eq!((view.hot.unsealed, view.hot.sealed_at.is_some()), (0, true));
    let again = kit.client.seal_flow(Sealing { request_id: Some("once".into()), ..Sealing::new(flow) });
    let again = again.await.unwrap();
    assert_eq!((again.value, again.repeated), (false, true), "EX-76 the answer of the first");
}
