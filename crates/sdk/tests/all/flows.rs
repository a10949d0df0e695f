//! Flows: submitted, waited for, cancelled and grown, with the ends of upstreams as typed inputs; over HTTP and in the
//! process.

use crate::both::both;
use crate::remote::{Server, engine_on, memory, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use weft_sdk::api::Code;
use weft_sdk::api::execution::{Outcome, PublicState};
use weft_sdk::api::flow::{FlowOutcome, PublicFlowState};
use weft_sdk::api::work::ChildrenRule;
use weft_sdk::test::Harness;
use weft_sdk::{Client, Ctx, Edge, Error, Failure, Flow, Group, Inputs, Json, Member, NoResult, Node, State, Worker};

both! {
    fl_250_a_diamond_hands_typed_results_down diamond;
    fl_71_the_failure_of_an_upstream_is_told failures;
    fl_75_large_inputs_are_read_when_asked_for large;
    fl_252_the_first_of_a_race_ends_the_others race;
    fl_253_a_quorum_is_enough quorum;
    fl_61_a_running_member_grows_its_flow grows;
    fl_56_a_member_seals_and_finishes_its_flow declares;
    fl_15_children_join_the_flow_unless_told_otherwise children;
    fl_101_a_member_spawns_children_and_waits_for_some_of_them spawns;
    fl_160_a_failed_flow_is_replayed replays;
    fl_60_a_client_grows_and_seals_a_flow sealed_later;
    fl_2_a_flow_is_submitted_once_under_its_key once;
    fl_145_a_cancel_ends_the_flow_with_its_members cancels;
    fl_40_a_refusal_names_node_and_edge refusals;
}

struct Running(JoinHandle<Result<(), Error>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn running(worker: Worker) -> Running {
    Running(tokio::spawn(worker.run()))
}

async fn double(Json(n): Json<u64>) -> Result<Json<u64>, Failure> {
    Ok(Json(n * 2))
}

async fn fails() -> Result<(), Failure> {
    Err(Failure::permanent("no such page").category("fetch"))
}

async fn diamond(client: Client) {
    async fn plus(Json(n): Json<u64>, inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.get::<u64>("top").await? + n))
    }
    async fn join(inputs: Inputs) -> Result<Json<(u64, Vec<u64>)>, Failure> {
        assert_eq!(inputs.outcome("left"), Some(Outcome::Success));
        assert!(inputs.missing().is_empty() && inputs.failure("left").is_none());
        let ends: Vec<_> = inputs.ends("both[]").map(|end| end.upstream.clone()).collect();
        assert_eq!(ends, ["right", "top"]);
        Ok(Json((inputs.get("left").await?, inputs.all("both[]").await?)))
    }
    let worker = Worker::new(client.clone()).handle("double", double).handle("plus", plus).handle("join", join);
    let _worker = running(worker);
    let mut flow = client.flow("diamond").name("a diamond").tag("customer", "acme").deadline(Duration::from_secs(60));
    let top: Node<u64> = flow.node("top", "double", &21);
    let left: Node<u64> = flow.node("left", "plus", &1);
    let right: Node<u64> = flow.node_of(Member::new("right", "plus", &2).priority(7).tag("side", "right"));
    let join: Node<(u64, Vec<u64>)> = flow.node("join", "join", &());
    flow.connect(Edge::new(&top, &left).input("top")).connect(Edge::new(&top, &right).input("top"));
    flow.connect(Edge::new(&left, &join).input("left"));
    flow.connect(Edge::new(&right, &join).input("both[]")).connect(Edge::new(&top, &join).input("both[]"));
    let flow = flow.submit().await.unwrap();
    assert_eq!(flow.result(&join).await.unwrap(), (43, vec![44, 42]));
    assert_eq!(flow.result(&left).await.unwrap(), 43);
    let done = flow.wait().await.unwrap();
    assert_eq!((done.public_flow_state, done.summary.members_completed), (PublicFlowState::Completed, 4));
    assert_eq!((done.name.as_deref(), done.tags["customer"].as_str()), (Some("a diamond"), "acme"));
    let found = client.flow_by_id(flow.id());
    let right = found.member("right").await.unwrap();
    assert_eq!((right.id(), flow.member_ids().len()), (flow.member_ids()["right"].as_str(), 4));
    let right = right.get().await.unwrap();
    assert_eq!((right.priority, right.tags["side"].as_str()), (7, "right"));
}

async fn failures(client: Client) {
    async fn mends(inputs: Inputs) -> Result<Json<(String, Option<u64>)>, Failure> {
        let failure = inputs.failure("broken").ok_or_else(|| Failure::permanent("nothing is broken"))?;
        assert_eq!((inputs.outcome("broken"), failure.category.as_str()), (Some(Outcome::Failed), "fetch"));
        Ok(Json((failure.message.clone(), inputs.find("broken").await?)))
    }
    async fn insists(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.get::<u64>("broken").await?))
    }
    async fn guesses(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.get::<u64>("brokn").await?))
    }
    async fn misreads(inputs: Inputs) -> Result<Json<String>, Failure> {
        Ok(Json(inputs.get::<String>("number").await?))
    }
    let worker = Worker::new(client.clone()).handle("fails", fails).handle("double", double).handle("mends", mends);
    let worker = worker.handle("insists", insists).handle("guesses", guesses).handle("misreads", misreads);
    let _worker = running(worker);
    let flow = client.flow("mend").collect_all().with(Member::new("a", "fails", &()).max_retries(0));
    let flow = flow.member("fine", "double", &1).member("never", "double", &1).member("mends", "mends", &());
    let flow =
        flow.member("insists", "insists", &()).member("guesses", "guesses", &()).member("misreads", "misreads", &());
    let flow = flow.edge("a", "never").edge("a", "mends").on_failure().input("broken");
    let flow = flow.edge("a", "insists").any().input("broken").edge("a", "guesses").any().input("broken");
    let flow = flow.edge("fine", "misreads").input("number").submit().await.unwrap();
    let mends = flow.member("mends").await.unwrap();
    assert_eq!(mends.result::<(String, Option<u64>)>().await.unwrap(), ("no such page".to_string(), None));
    assert!(matches!(flow.member("never").await.unwrap().payload().await, Err(NoResult::Skipped { .. })));
    for (key, kind, says) in [
        ("insists", "input", ["`broken`", "`a` has ended as `failed`", "no such page"]),
        ("guesses", "input", ["`guesses`", "`brokn`", "there is `broken`"]),
        ("misreads", "decode", ["`number`", "`fine`", "expected a string"]),
    ] {
        let ended = flow.member(key).await.unwrap().payload().await;
        let Err(NoResult::Failed { category, message, .. }) = ended else { panic!("{key}: {ended:?}") };
        assert_eq!(category, kind, "{message}");
        assert!(says.iter().all(|part| message.contains(part)), "{message}");
    }
    assert_eq!(flow.wait().await.unwrap().public_flow_state, PublicFlowState::Completed);
}

async fn large(client: Client) {
    const BYTES: usize = 600_000;
    async fn fill(Json(letter): Json<char>) -> Result<Json<String>, Failure> {
        Ok(Json(letter.to_string().repeat(BYTES)))
    }
    async fn measure(inputs: Inputs) -> Result<Json<Vec<(usize, char)>>, Failure> {
        assert!(inputs.ends("all[]").any(|end| end.handle.is_some()), "all of them came with the claim");
        let all = inputs.all::<String>("all[]").await?;
        let last: String = inputs.get("last").await?;
        Ok(Json(all.iter().chain([&last]).map(|text| (text.len(), text.as_bytes()[0].into())).collect()))
    }
    let _worker = running(Worker::new(client.clone()).handle("fill", fill).handle("measure", measure));
    let flow = client.flow("large").member("a", "fill", &'a').member("b", "fill", &'b').member("c", "fill", &'c');
    let flow = flow.member("sum", "measure", &()).edge("a", "sum").input("all[]").edge("b", "sum").input("all[]");
    let flow = flow.edge("c", "sum").input("last").submit().await.unwrap();
    let sum = flow.member("sum").await.unwrap().result::<Vec<(usize, char)>>().await.unwrap();
    assert_eq!(sum, [(BYTES, 'a'), (BYTES, 'b'), (BYTES, 'c')]);
}

async fn race(client: Client) {
    async fn runner(ctx: Ctx, Json(wins): Json<bool>) -> Result<Json<String>, Failure> {
        if !wins {
            ctx.cancelled().await;
        }
        Ok(Json(ctx.flow()?.key().to_string()))
    }
    async fn prize(inputs: Inputs) -> Result<Json<Vec<String>>, Failure> {
        Ok(Json(inputs.all("runners[]").await?))
    }
    let _worker = running(Worker::new(client.clone()).handle("runner", runner).handle("prize", prize));
    let mut flow = client.flow("race");
    let group = Group::any_of().cancel_remaining();
    let prize: Node<Vec<String>> = flow.node_of(Member::new("prize", "prize", &()).group(group));
    for (key, wins) in [("one", false), ("two", true), ("three", false)] {
        let runner: Node<String> = flow.node(key, "runner", &wins);
        flow.connect(Edge::new(&runner, &prize).input("runners[]"));
    }
    let flow = flow.submit().await.unwrap();
    assert_eq!(flow.result(&prize).await.unwrap(), ["two"]);
    for loser in ["one", "three"] {
        let ended = flow.member(loser).await.unwrap().payload().await;
        assert!(matches!(ended, Err(NoResult::Cancelled { .. })), "{loser}: {ended:?}");
    }
    let done = flow.wait().await.unwrap();
    let counts = (done.summary.members_completed, done.summary.members_neutral, done.summary.failures);
    assert_eq!((done.public_flow_state, counts), (PublicFlowState::Completed, (2, 2, 0)));
}

async fn quorum(client: Client) {
    async fn late(State(go): State<Arc<Notify>>) -> Result<Json<u64>, Failure> {
        go.notified().await;
        Ok(Json(9))
    }
    async fn votes(inputs: Inputs) -> Result<Json<(u64, Vec<String>)>, Failure> {
        let sum = inputs.all::<u64>("votes[]").await?.into_iter().sum();
        Ok(Json((sum, inputs.missing().to_vec())))
    }
    let go = Arc::new(Notify::new());
    let worker = Worker::new(client.clone()).state(go.clone()).handle("late", late).handle("double", double);
    let _worker = running(worker.handle("votes", votes));
    let group = Group::quorum(2).let_run().named("voters");
    let flow = client.flow("vote").with(Member::new("count", "votes", &()).group(group));
    let flow = flow.member("a", "double", &1).member("b", "double", &2).member("c", "late", &());
    let flow =
        flow.edge("a", "count").group("voters").input("votes[]").edge("b", "count").group("voters").input("votes[]");
    let flow = flow.edge("c", "count").group("voters").input("last").submit().await.unwrap();
    let count = flow.member("count").await.unwrap();
    assert_eq!(count.result::<(u64, Vec<String>)>().await.unwrap(), (6, vec!["last".to_string()]));
    go.notify_one();
    assert_eq!(flow.member("c").await.unwrap().result::<u64>().await.unwrap(), 9);
    assert_eq!(flow.wait().await.unwrap().summary.members_completed, 4);
}

async fn grows(client: Client) {
    async fn list(ctx: Ctx, State(runs): State<Arc<AtomicU32>>) -> Result<(), Failure> {
        let own = ctx.flow()?;
        assert_eq!(own.key(), "list");
        let mut growing = own.add(Member::new("sum", "sum", &())).unsealed();
        for n in 1..=3_u64 {
            let key = format!("page-{n}");
            growing = growing.add(Member::new(&key, "double", &n)).edge(Edge::new(&key, "sum").input("pages[]"));
        }
        let grown = growing.submit().await?;
        let again = runs.fetch_add(1, Ordering::SeqCst) > 0;
        assert_eq!((grown.members.len(), grown.members_existed.len()), (4, if again { 4 } else { 0 }));
        if !again {
            return Err(Failure::retry_after(Duration::ZERO));
        }
        own.edge(Edge::new("list", "sum").any()).submit().await?;
        own.seal(["sum", "page-1", "page-2", "page-3"]).await?;
        // One that has begun, or ended, takes no more edges; that is an answer, and not the end of the lease.
        for (late, code) in [("list", "downstream_begun"), ("early", "execution_terminal")] {
            let told = own.edge(Edge::new("page-1", late)).submit().await.unwrap_err().to_string();
            assert!(told.contains(code) && ctx.cancellation().is_none(), "{told}");
        }
        Ok(())
    }
    async fn sum(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.all::<u64>("pages[]").await?.into_iter().sum()))
    }
    async fn alone(ctx: Ctx) -> Result<(), Failure> {
        ctx.flow()?.add(Member::new("x", "double", &1)).submit().await?;
        Ok(())
    }
    let worker = Worker::new(client.clone()).state(Arc::<AtomicU32>::default()).handle("list", list);
    let _worker = running(worker.handle("double", double).handle("sum", sum).handle("alone", alone));
    let flow = client.flow("crawl").member("early", "double", &0).member("list", "list", &()).edge("early", "list");
    let flow = flow.submit().await.unwrap();
    let done = flow.wait().await.unwrap();
    assert_eq!((done.public_flow_state, done.summary.total_members), (PublicFlowState::Completed, 6));
    assert_eq!(flow.member("sum").await.unwrap().result::<u64>().await.unwrap(), 12);
    let keys: Vec<_> = flow.members().await.unwrap().into_iter().map(|member| member.flow.unwrap().key).collect();
    assert_eq!(keys, ["early", "list", "sum", "page-1", "page-2", "page-3"]);
    let ended = client.submit("alone", &()).await.unwrap().payload().await;
    let Err(NoResult::Failed { category, message, .. }) = ended else { panic!("{ended:?}") };
    assert!(category == "flow" && message.contains("is no member of a flow"), "{category}: {message}");
}

async fn declares(client: Client) {
    async fn judge(ctx: Ctx) -> Result<(), Failure> {
        let finished = ctx.flow()?.finish(FlowOutcome::Completed, "enough").await?;
        assert_eq!((finished.outcome, finished.done), (FlowOutcome::Completed, false));
        Ok(())
    }
    let _worker = running(Worker::new(client.clone()).handle("judge", judge));
    let flow = client.flow("search").declared().member("judge", "judge", &()).member("idle", "nobody", &());
    let done = flow.submit().await.unwrap().wait().await.unwrap();
    assert_eq!((done.public_flow_state, done.summary.total_members), (PublicFlowState::Completed, 2));
    assert_eq!(done.decided.unwrap().reason.as_deref(), Some("enough"));
    let flow = client.flow("search").declared().member("idle", "nobody", &()).submit().await.unwrap();
    assert_eq!(flow.finish(FlowOutcome::Failed, "nothing found").await.unwrap().outcome, FlowOutcome::Failed);
    assert_eq!(flow.wait().await.unwrap().public_flow_state, PublicFlowState::Failed);
}

async fn children(client: Client) {
    async fn parent(ctx: Ctx) -> Result<Json<u64>, Failure> {
        let mut children = Vec::new();
        for _ in 0..2 {
            children.push(ctx.child("double", &1).submit().await?);
        }
        children.push(ctx.child("double", &2).outside_flow().submit().await?);
        let ended = ctx.wait_all(&children).await?;
        let mut sum = 0;
        for child in &children {
            sum += ended.result::<u64>(child)?;
        }
        Ok(Json(sum))
    }
    let _worker = running(Worker::new(client.clone()).handle("parent", parent).handle("double", double));
    let flow = client.flow("family").member("a", "parent", &()).member("b", "parent", &()).submit().await.unwrap();
    for parent in ["a", "b"] {
        assert_eq!(flow.member(parent).await.unwrap().result::<u64>().await.unwrap(), 8);
    }
    let done = flow.wait().await.unwrap();
    assert_eq!((done.summary.total_members, done.summary.members_completed), (6, 6));
    // The same handler outside of a flow.
    assert_eq!(client.submit("parent", &()).await.unwrap().result::<u64>().await.unwrap(), 8);
}

async fn spawns(client: Client) {
    async fn parent(ctx: Ctx) -> Result<Json<(String, u64)>, Failure> {
        let mut children = Vec::new();
        for n in 1..=3 {
            children.push(ctx.spawn("double", &n).await?);
        }
        children.push(ctx.spawn("fails", &()).await?);
        let ended = ctx.wait_children(&children, ChildrenRule::Quorum { k: 3 }, Some(Duration::from_secs(60))).await?;
        let mut sum = 0;
        for child in &children[..3] {
            sum += ended.result::<u64>(child)?;
        }
        Ok(Json((ended.verdict().to_string(), sum)))
    }
    let worker = Worker::new(client.clone()).handle("parent", parent).handle("double", double).handle("fails", fails);
    let _worker = running(worker);
    let flow = Flow::builder("family").collect_all().member("a", "parent", &()).submit_to(&client).await.unwrap();
    let told = flow.member("a").await.unwrap().result::<(String, u64)>().await.unwrap();
    assert_eq!(told, ("met".to_string(), 12));
    let done = flow.wait().await.unwrap();
    assert_eq!((done.summary.total_members, done.summary.members_completed, done.summary.failures), (5, 4, 1));
    let parent = flow.member("a").await.unwrap().id().to_string();
    let keys = flow.members().await.unwrap().into_iter().filter(|member| member.parent.as_ref() == Some(&parent));
    assert_eq!(keys.count(), 4, "children are members with a parent");
}

async fn replays(client: Client) {
    async fn flaky(State(broken): State<Arc<AtomicU32>>) -> Result<Json<u64>, Failure> {
        match broken.swap(0, Ordering::SeqCst) {
            0 => Ok(Json(7)),
            _ => Err(Failure::permanent("no such page")),
        }
    }
    async fn next(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.get::<u64>("before").await? + 1))
    }
    let worker = Worker::new(client.clone()).state(Arc::new(AtomicU32::new(1))).handle("flaky", flaky);
    let _worker = running(worker.handle("next", next));
    let flow = client.flow("mend").member("a", "flaky", &()).member("b", "next", &());
    let flow = flow.edge("a", "b").input("before").submit().await.unwrap();
    let failed = flow.wait().await.unwrap();
    assert_eq!((failed.public_flow_state, failed.summary.members_skipped), (PublicFlowState::Failed, 1));
    let job = flow.replay("the page is back").await.unwrap();
    assert!(job.state.is_over() && (job.matched, job.done) == (1, 1), "{job:?}");
    assert_eq!(flow.member("b").await.unwrap().result::<u64>().await.unwrap(), 8);
    let done = flow.wait().await.unwrap();
    assert_eq!((done.public_flow_state, done.reopens), (PublicFlowState::Completed, 1));
}

async fn sealed_later(client: Client) {
    async fn next(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.get::<u64>("before").await? + 1))
    }
    let _worker = running(Worker::new(client.clone()).handle("double", double).handle("next", next));
    let flow = client.flow("later").unsealed(Duration::from_secs(60)).member("a", "double", &1).submit().await.unwrap();
    let edge = Edge::new("a", "b").input("before");
    let grown = flow.add([Member::new("b", "next", &())], [edge.clone()]).await.unwrap();
    assert_eq!((grown.members.len(), grown.edges_existed), (1, 0));
    assert_eq!(flow.add([], [edge]).await.unwrap().edges_existed, 1);
    let told = flow.explain().await.unwrap();
    assert!(!told.done && told.reasons.iter().any(|reason| reason.code == "unsealed"), "{told:?}");
    assert!(!flow.seal().await.unwrap().already);
    assert_eq!(flow.member("b").await.unwrap().result::<u64>().await.unwrap(), 3);
    assert_eq!(flow.wait().await.unwrap().public_flow_state, PublicFlowState::Completed);
    let error = flow.add([Member::new("c", "double", &1)], []).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::FlowClosed), "{error}");
}

async fn once(client: Client) {
    let flow = || Flow::builder("etl").idempotency_key("order-17").member("a", "nobody", &1);
    let first = flow().submit_to(&client).await.unwrap();
    let again = flow().submit_to(&client).await.unwrap();
    assert_eq!((first.is_duplicate(), again.is_duplicate(), first.id()), (false, true, again.id()));
    assert_eq!(first.member_ids(), again.member_ids());
    let error = flow().member("b", "nobody", &1).submit_to(&client).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::IdempotencyMismatch), "{error}");
    let error = flow().submit().await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
}

async fn cancels(client: Client) {
    async fn listens(ctx: Ctx, State(began): State<Arc<Notify>>) -> Result<(), Failure> {
        began.notify_one();
        let told = ctx.cancelled().await;
        Err(Failure::cancelled(told.reason))
    }
    let began = Arc::new(Notify::new());
    let _worker = running(Worker::new(client.clone()).state(began.clone()).handle("listens", listens));
    let flow = client.flow("long").member("a", "listens", &()).member("b", "listens", &()).edge("a", "b");
    let flow = flow.submit().await.unwrap();
    began.notified().await;
    assert_eq!(flow.summary().await.unwrap().members_active, 1);
    let waiting = {
        let flow = flow.clone();
        tokio::spawn(async move { flow.wait().await })
    };
    let cancel = flow.cancel("customer left").graceful(Duration::from_secs(20)).wait(Duration::from_secs(10));
    let cancelled = cancel.await.unwrap();
    assert_eq!((cancelled.outcome, cancelled.done), (FlowOutcome::Cancelled, true), "{cancelled:?}");
    let done = waiting.await.unwrap().unwrap();
    assert_eq!((done.public_flow_state, done.summary.members_cancelled), (PublicFlowState::Cancelled, 2));
    assert_eq!(flow.member("b").await.unwrap().get().await.unwrap().public_state, PublicState::Cancelled);
}

async fn refusals(client: Client) {
    let pair = || client.flow("etl").member("a", "load", &1).member("b", "load", &2);
    let cases = [
        (client.flow("etl"), Code::EmptyFlow, vec![]),
        (pair().edge("a", "c").done(), Code::UnknownNode, vec!["`c`"]),
        (pair().edge("a", "a").done(), Code::SelfEdge, vec!["`a`"]),
        (pair().member("a", "load", &3), Code::DuplicateNode, vec!["`a`"]),
        (pair().edge("a", "b").edge("a", "b").any().done(), Code::DuplicateEdge, vec!["`a`", "`b`"]),
        (pair().edge("a", "b").edge("b", "a").done(), Code::Cycle, vec!["a", "b"]),
        (pair().root("z"), Code::UnknownNode, vec!["`z`"]),
        (
            pair().with(Member::new("c", "load", &3).group(Group::quorum(2).let_run())).edge("a", "c").done(),
            Code::QuorumUnreachable,
            vec!["`c`"],
        ),
    ];
    for (flow, code, names) in cases {
        let error = flow.submit().await.unwrap_err();
        let told = error.to_string();
        assert_eq!(error.code(), Some(code), "{told}");
        assert!(names.iter().all(|name| told.contains(name)), "{told}");
    }
    // What cannot be written as JSON is found before anything is sent.
    let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
    let told = pair().member("odd", "load", &keys).submit().await.unwrap_err().to_string();
    assert!(told.contains("the input of the member `odd`"), "{told}");
    let flow = pair().submit().await.unwrap();
    let error = flow.member("z").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::UnknownNode));
    assert!(error.to_string().contains("has no member `z`"), "{error}");
    let error = client.flow_by_id("nonsense").get().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidId), "{error}");
}

/// A member that grows its flow in several calls, has children and waits for them.
fn crawlers(worker: Worker) -> Worker {
    async fn list(ctx: Ctx) -> Result<Json<u64>, Failure> {
        let own = ctx.flow()?;
        let pages = [1_u64, 2].map(|n| Member::new(format!("page-{n}"), "double", &n));
        let sum = own.add(Member::new("sum", "sum", &())).unsealed();
        pages.into_iter().fold(sum, |growing, page| growing.add(page)).submit().await?;
        let edges = ["page-1", "page-2"].map(|page| Edge::new(page, "sum").input("pages[]"));
        let [first, second] = edges;
        own.edge(first).edge(second).submit().await?;
        own.seal(["sum", "page-1", "page-2"]).await?;
        let children = [ctx.child("double", &5).submit().await?, ctx.child("double", &5).submit().await?];
        let ended = ctx.wait_all(&children).await?;
        Ok(Json(ended.result::<u64>(&children[0])? + ended.result::<u64>(&children[1])?))
    }
    async fn sum(inputs: Inputs) -> Result<Json<u64>, Failure> {
        Ok(Json(inputs.all::<u64>("pages[]").await?.into_iter().sum()))
    }
    worker.handle("list", list).handle("double", double).handle("sum", sum)
}

#[tokio::test(start_paused = true)]
async fn fl_263_a_member_that_dies_while_it_grows_its_flow_leads_to_the_same_end() {
    Harness::crash_everywhere(crawlers, |harness| async move {
        let flow = harness.client().flow("crawl").member("a", "list", &()).submit().await.unwrap();
        let done = flow.wait().await.unwrap();
        let counts = (done.summary.total_members, done.summary.members_completed);
        assert_eq!((done.public_flow_state, counts), (PublicFlowState::Completed, (6, 6)));
    })
    .await;
}
