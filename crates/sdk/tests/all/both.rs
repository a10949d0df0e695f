//! One suite for clients of a server and of an engine in this process: what holds for one holds for the other.

use crate::remote::{Server, engine_on, memory, soon};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use weft_sdk::api::execution::{CountQuery, GetQuery, HoldRequest, ListQuery, Priority, PublicState, TagChange};
use weft_sdk::api::{Code, Page};
use weft_sdk::client::Tiding;
use weft_sdk::{Client, Ctx, Failure, Json, NoResult, OrFail, Payload, State, Worker};

/// Runs a scenario with each kind of client. Whoever uses it has `Client`, `Server`, `engine_on`, `memory` and `soon` in scope.
macro_rules! both {
    ($($name:ident $scenario:ident;)+) => {
        mod embedded {
            $(#[tokio::test]
            async fn $name() {
                let client = super::Client::embedded(super::engine_on(super::memory()).await);
                super::soon(super::$scenario(client.namespace("default").principal("service:web"))).await;
            })+
        }
        mod remote {
            $(#[tokio::test]
            async fn $name() {
                let server = super::Server::any().await;
                super::soon(super::$scenario(server.client().await)).await;
                super::soon(server.stop()).await;
            })+
        }
    };
}
pub(crate) use both;

both! {
    sdk_1_executions_are_submitted_steered_and_read steered;
    sdk_1_a_refusal_is_the_same_everywhere refusals;
    sdk_6_every_byte_comes_back bytes;
    sdk_10_a_worker_runs_handlers_with_steps_children_and_retries works;
    sdk_31_many_results_go_in_few_calls batches;
    sdk_34_a_cancel_reaches_running_code_at_once cancels;
    sdk_35_a_drained_worker_hands_back drains;
}

async fn steered(client: Client) {
    let run = client.submit("invoice.send", &json!({"order": 17})).lane("mail").tag("customer", "acme").priority(7);
    let run = run.idempotency_key("order-17").delay(Duration::from_secs(600)).deadline(Duration::from_secs(3_600));
    let run = run.await.unwrap();
    assert!(!run.is_duplicate());
    let execution = run.get().await.unwrap();
    assert_eq!((execution.public_state, execution.priority), (PublicState::Delayed, 7));
    assert_eq!((execution.lane.as_str(), execution.tags["customer"].as_str()), ("mail", "acme"));
    client.hold_execution(run.id(), HoldRequest { reason: "look".into(), ..Default::default() }).await.unwrap();
    client.release_execution(run.id(), Default::default()).await.unwrap();
    client.set_priority(run.id(), Priority { priority: 9, reason: String::new(), request_id: None }).await.unwrap();
    let change = TagChange { set: [("a".to_string(), "b".to_string())].into(), ..Default::default() };
    assert_eq!(client.set_tags(run.id(), change).await.unwrap().tags.len(), 2);
    assert!(!run.explain().await.unwrap().running);
    let Page { items, next_cursor } =
        client.list_executions(ListQuery { lane: Some("mail".into()), ..Default::default() }).await.unwrap();
    assert_eq!((items.len(), next_cursor), (1, None));
    assert_eq!(client.count_executions(CountQuery::default()).await.unwrap().total, 1);
    run.cancel("customer left").await.unwrap();
    assert!(matches!(run.payload().await, Err(NoResult::Cancelled { .. })));
    assert_eq!(run.replay("again").await.unwrap().replays, 1);
    assert!(run.history().await.unwrap().items.len() >= 3);
    assert_eq!(run.input().await.unwrap(), Some(Payload::json(&json!({"order": 17})).unwrap()));
    assert_eq!(run.checkpoint().await.unwrap(), None);
    assert_eq!(client.get_version().await.unwrap().store, "memory");
}

async fn refusals(client: Client) {
    let unknown = "x_0_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01";
    let code = client.run(unknown).get().await.unwrap_err().code();
    assert_eq!(code, Some(Code::ExecutionNotFound));
    let error = client.run("nonsense").get().await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidId), "{error}");
    let error = client.submit("", &()).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
    client.submit("a", &1).idempotency_key("k").await.unwrap();
    let error = client.submit("a", &2).idempotency_key("k").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::IdempotencyMismatch), "{error}");
    let query = GetQuery { until: Some("finished".into()), ..Default::default() };
    let error = client.get_execution(unknown, query).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
}

async fn bytes(client: Client) {
    async fn echo(weft_sdk::Raw(input): weft_sdk::Raw) -> Result<Option<Payload>, Failure> {
        Ok(input)
    }
    let (_stop, worker) = running(Worker::new(client.clone()).handle("echo", echo));
    let all: Vec<u8> = (0..=255).collect();
    for sent in [
        Payload::new(all, Some("image/png".into())),
        Payload::new("", None),
        Payload::new(r#"{"n": 1.0000000000000000001}"#, Some("application/json".into())),
        Payload::text("grüße"),
    ] {
        let run = client.submit_payload("echo", sent.clone()).await.unwrap();
        let got = run.payload().await.unwrap().unwrap();
        assert_eq!(got.bytes, sent.bytes);
    }
    let run = client.submit_empty("echo").await.unwrap();
    assert_eq!(run.payload().await.unwrap(), None);
    worker.abort();
}

type Running = tokio::task::JoinHandle<Result<(), weft_sdk::Error>>;

fn running(worker: Worker) -> (oneshot::Sender<()>, Running) {
    let (stop, stopped) = oneshot::channel::<()>();
    (stop, tokio::spawn(worker.run_until(stopped)))
}

async fn works(client: Client) {
    async fn parent(ctx: Ctx, Json(n): Json<u32>) -> Result<Json<Value>, Failure> {
        let base = ctx.step("base", async || Ok::<_, Failure>(n * 2)).await?;
        if ctx.attempt() == 0 {
            Err(std::io::Error::other("not yet")).retry_after(Duration::ZERO)?;
        }
        let child = ctx.child("child", &base).submit().await?;
        let ended = ctx.wait_all(std::slice::from_ref(&child)).await?;
        ctx.progress(90, "almost").now().await?;
        Ok(Json(json!({"base": base, "child": ended.result::<u32>(&child)?, "attempt": ctx.attempt()})))
    }
    async fn child(Json(n): Json<u32>) -> Result<Json<u32>, Failure> {
        Ok(Json(n + 1))
    }
    let (stop, worker) = running(Worker::new(client.clone()).handle("parent", parent).handle("child", child));
    let run = client.submit("parent", &5).await.unwrap();
    assert_eq!(run.result::<Value>().await.unwrap(), json!({"base": 10, "child": 11, "attempt": 1}));
    assert_eq!(run.attempts().await.unwrap().len(), 2);
    let steps = client.list_steps(run.id(), Default::default()).await.unwrap();
    assert_eq!(steps.items[0].name, "base");
    stop.send(()).unwrap();
    worker.await.unwrap().unwrap();
}

async fn batches(client: Client) {
    async fn echo(Json(n): Json<u32>) -> Result<Json<u32>, Failure> {
        Ok(Json(n))
    }
    let worker = Worker::new(client.clone()).concurrency(8).handle("echo", echo);
    let handle = worker.handle_on();
    let items = (0..300_u32).map(|n| client.submit("echo", &n));
    let runs = client.submit_batch(items, false).await.unwrap();
    let (stop, worker) = running(worker);
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(run.as_ref().unwrap().result::<usize>().await.unwrap(), n);
    }
    let health = handle.health();
    assert!(health.settle_calls < 300, "{health:?}");
    stop.send(()).unwrap();
    worker.await.unwrap().unwrap();
    assert_eq!(handle.health().outcomes, 300);
}

async fn cancels(client: Client) {
    async fn listens(ctx: Ctx, State(began): State<Arc<Notify>>) -> Result<(), Failure> {
        began.notify_one();
        let told = ctx.cancelled().await;
        Err(Failure::retry(told.reason))
    }
    let began = Arc::new(Notify::new());
    let (_stop, worker) = running(Worker::new(client.clone()).state(began.clone()).handle("listens", listens));
    let run = client.submit("listens", &()).await.unwrap();
    began.notified().await;
    // Well before the first renewal, which would tell as well.
    let asked = std::time::Instant::now();
    run.cancel("customer left").graceful(Duration::from_secs(60)).await.unwrap();
    assert!(matches!(run.payload().await, Err(NoResult::Cancelled { .. })));
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
    worker.abort();
}

async fn drains(client: Client) {
    async fn waits(State(began): State<Arc<Notify>>) -> Result<(), Failure> {
        began.notify_one();
        std::future::pending().await
    }
    let began = Arc::new(Notify::new());
    let worker = Worker::new(client.clone()).drain_timeout(Duration::ZERO).drain_kill(Duration::ZERO);
    let (stop, worker) = running(worker.state(began.clone()).handle("waits", waits));
    let run = client.submit("waits", &()).await.unwrap();
    began.notified().await;
    stop.send(()).unwrap();
    worker.await.unwrap().unwrap();
    let execution = run.get().await.unwrap();
    assert_eq!((execution.public_state, execution.reclaims), (PublicState::Waiting, 0));
}

#[tokio::test]
async fn sdk_33_worker_and_waiting_client_survive_a_restart_of_the_server() {
    async fn waits(State(go): State<Arc<Notify>>) -> Result<Json<u32>, Failure> {
        go.notified().await;
        Ok(Json(7))
    }
    let store = memory();
    let server = Server::start(store.clone(), "127.0.0.1:0".parse().unwrap()).await;
    let (client, address, go) = (server.client().await, server.address, Arc::new(Notify::new()));
    let (stop, worker) = running(Worker::new(client.clone()).state(go.clone()).handle("waits", waits));
    let run = client.submit("waits", &()).await.unwrap();
    let wait = GetQuery { wait_ms: Some(10_000), until: Some("active".into()), ..Default::default() };
    soon(client.get_execution(run.id(), wait)).await.unwrap();
    let waiting = {
        let run = run.clone();
        tokio::spawn(async move { run.result::<u32>().await })
    };
    soon(server.stop()).await;
    go.notify_one();
    let server = Server::start(store, address).await;
    assert_eq!(soon(waiting).await.unwrap().unwrap(), 7);
    assert_eq!(run.get().await.unwrap().epoch, 1);
    stop.send(()).unwrap();
    soon(worker).await.unwrap().unwrap();
    soon(server.stop()).await;
}

#[tokio::test]
async fn sdk_4_an_address_where_nobody_listens_is_told_as_such() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let url = format!("http://{address}");
    let retry = weft_sdk::layer::Retry::default().times(0);
    let error = Client::connect(&url).retry(retry).check().build().await.unwrap_err();
    assert!(error.is_retryable());
    let told = error.to_string();
    assert!(told.contains(&address.to_string()) && told.contains("is the server running?"), "{told}");
    assert!(Client::connect("127.0.0.1:7700").build().await.is_err());
}

#[tokio::test]
async fn sdk_34_a_stream_of_notices_that_is_not_answered_is_given_up() {
    // It takes the connection and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::connect(url).timeout(Duration::from_millis(50)).build().await.unwrap();
    let Err(error) = soon(client.notices("w1", None)).await else { panic!("there is no stream") };
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test]
async fn sdk_1_notices_can_be_heard_without_a_worker() {
    let server = Server::any().await;
    let client = server.client().await;
    let mut notices = client.notices("w1", None).await.unwrap().unwrap();
    let wish = weft_sdk::api::worker::Register {
        worker: "w".into(),
        instance: "w1".into(),
        boot_id: "b".into(),
        ..Default::default()
    };
    client.register_worker(wish).await.unwrap();
    let target = weft_sdk::api::worker::DrainTarget {
        instance: Some("w1".into()),
        reason: "deploy".into(),
        ..Default::default()
    };
    client.drain_workers(target).await.unwrap();
    let heard = soon(notices.next()).await;
    assert!(matches!(heard, Some(Tiding::Notice(_))), "{heard:?}");
    drop(notices);
    soon(server.stop()).await;
}
