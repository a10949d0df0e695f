//! What handlers take and what becomes of how they end.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_sdk::api::execution::PublicState;
use weft_sdk::test::Harness;
use weft_sdk::{
    Checkpoint, Client, Ctx, Error, Failure, FromTask, Info, Json, NoResult, OrFail, Outcome, Payload, Raw, State,
    Tags, Task, Worker,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[derive(Clone)]
struct Bank(Arc<AtomicU32>);

#[derive(Serialize, Deserialize)]
struct Order {
    order: u32,
}

/// An extractor of the application's own.
struct Customer(String);

impl FromTask for Customer {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        let Tags(tags) = Tags::from_task(task)?;
        tags.get("customer").cloned().map(Customer).ok_or_else(|| Failure::permanent("no customer"))
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_10_a_handler_takes_up_to_eight_things_by_type() {
    #[allow(clippy::too_many_arguments)]
    async fn all(
        ctx: Ctx,
        Json(order): Json<Order>,
        Raw(raw): Raw,
        State(bank): State<Bank>,
        Tags(tags): Tags,
        info: Info,
        Checkpoint(saved): Checkpoint<u32>,
        Customer(customer): Customer,
    ) -> Result<Json<BTreeMap<String, String>>, Failure> {
        bank.0.fetch_add(order.order, Ordering::SeqCst);
        assert_eq!((ctx.id(), ctx.attempt(), ctx.retries_left()), (info.id.as_str(), 0, info.retries_left));
        assert_eq!((info.lane.as_str(), info.kind.as_str(), info.resumed), ("money", "all", false));
        assert!(ctx.lease_left() > secs(29) && ctx.deadline().is_some());
        assert_eq!(ctx.trace(), Some("00-1-2-01"));
        let raw = String::from_utf8(raw.unwrap().bytes.to_vec()).unwrap();
        Ok(Json(BTreeMap::from([
            ("raw".to_string(), raw),
            ("tags".to_string(), tags.len().to_string()),
            ("saved".to_string(), format!("{saved:?}")),
            ("customer".to_string(), customer),
        ])))
    }
    let harness = Harness::new().await;
    let bank = Bank(Arc::default());
    let state = bank.clone();
    harness.worker(move |worker| worker.lane("money").state(state.clone()).handle("all", all));
    let submission = harness.submit("all", &Order { order: 17 }).lane("money").tag("customer", "acme").tag("a", "b");
    let run = submission.deadline(secs(600)).trace("00-1-2-01").await.unwrap();
    let said: BTreeMap<String, String> = run.result().await.unwrap();
    assert_eq!((said["raw"].as_str(), said["tags"].as_str()), (r#"{"order":17}"#, "2"));
    assert_eq!((said["saved"].as_str(), said["customer"].as_str()), ("None", "acme"));
    assert_eq!(bank.0.load(Ordering::SeqCst), 17);
}

#[tokio::test(start_paused = true)]
async fn sdk_11_missing_state_is_found_before_anything_is_claimed() {
    async fn needs(State(_): State<Bank>) -> Result<(), Failure> {
        Ok(())
    }
    let harness = Harness::new().await;
    let worker = Worker::new(harness.client().clone()).handle("needs", needs);
    let told = worker.check().unwrap_err().to_string();
    assert!(told.contains("`needs`") && told.contains("Bank") && told.contains(".state("), "{told}");
    let run = harness.submit("needs", &()).await.unwrap();
    assert!(matches!(worker.run().await, Err(Error::Config(_))));
    assert_eq!(run.get().await.unwrap().attempts, 0);
    let none = Worker::new(harness.client().clone()).check().unwrap_err().to_string();
    assert!(none.contains(".handle("), "{none}");
}

#[tokio::test(start_paused = true)]
async fn sdk_11_only_kinds_with_a_handler_are_claimed_unless_any_is_handled() {
    async fn known() -> Result<String, Failure> {
        Ok("known".to_string())
    }
    async fn any(task: Task) -> Result<String, Failure> {
        Ok(format!("any {}", task.kind()))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("known", known));
    let (known_run, other) = (harness.submit("known", &()).await.unwrap(), harness.submit("other", &()).await.unwrap());
    harness.run_until_idle().await;
    assert_eq!(known_run.get().await.unwrap().public_state, PublicState::Completed);
    assert_eq!(other.get().await.unwrap().public_state, PublicState::Waiting);
    harness.worker(|worker| worker.handle("known", known).handle_any(any));
    assert_eq!(other.payload().await.unwrap(), Some(Payload::text("any other")));
}

/// Every row of what a handler may end with: its kind, the state it leads to, and the category and message seen.
#[tokio::test(start_paused = true)]
async fn sdk_10_each_end_of_a_handler_is_sent_as_its_row_says() {
    #[derive(Debug, thiserror::Error)]
    #[error("smtp said no")]
    struct Smtp(#[source] std::io::Error);

    fn send() -> Result<(), Smtp> {
        Err(Smtp(std::io::Error::other("550")))
    }
    async fn converted() -> Result<(), Failure> {
        send()?;
        Ok(())
    }
    async fn after() -> Result<(), Failure> {
        send().retry_after(secs(7))
    }
    async fn permanent() -> Result<(), Failure> {
        Err(Failure::permanent("rejected").category("review").detail(&Order { order: 1 }))
    }
    async fn cancelled() -> Result<(), Failure> {
        Err(Failure::cancelled("not needed"))
    }
    async fn delayed(ctx: Ctx) -> Result<Json<u32>, Failure> {
        match ctx.info().resumed {
            true => Ok(Json(ctx.attempt())),
            false => Err(Failure::delay(secs(100))),
        }
    }
    async fn panics() -> Result<(), Failure> {
        panic!("at the disco")
    }
    async fn takes_order(Json(_): Json<Order>) -> Result<(), Failure> {
        Ok(())
    }
    let harness = Harness::new().await;
    harness.worker(|worker| {
        worker
            .handle("converted", converted)
            .handle("after", after)
            .handle("permanent", permanent)
            .handle("cancelled", cancelled)
            .handle("delayed", delayed)
            .handle("panics", panics)
            .handle("decode", takes_order)
    });
    let ended = async |kind: &str, retries: u32| {
        let run = harness.submit(kind, &"text").max_retries(retries).await.unwrap();
        harness.run_until_idle().await;
        run
    };
    let failure = async |kind: &str| match ended(kind, 0).await.payload().await {
        Err(NoResult::Failed { category, message, reason, .. }) => (category, message, reason),
        other => panic!("{kind}: {other:?}"),
    };
    let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
    assert_eq!(failure("converted").await, text(("application", "smtp said no: 550", "retries_exhausted")));
    assert_eq!(failure("permanent").await, text(("review", "rejected", "not_retryable")));
    assert_eq!(failure("panics").await, text(("panic", "at the disco", "retries_exhausted")));
    let (category, message, reason) = failure("decode").await;
    assert_eq!((category.as_str(), reason.as_str()), ("decode", "not_retryable"));
    assert!(message.contains("the input") && message.contains("struct Order"), "{message}");
    assert!(matches!(ended("cancelled", 3).await.payload().await, Err(NoResult::Cancelled { .. })));

    let run = ended("after", 1).await;
    let retry_at = run.get().await.unwrap().failure.unwrap().retry_at.unwrap();
    assert_eq!(retry_at - run.attempts().await.unwrap()[0].ended_at.unwrap(), 7_000);

    let run = ended("delayed", 0).await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Delayed);
    assert_eq!(run.result::<u32>().await.unwrap(), 0, "the same attempt went on");
    assert!(harness.elapsed() >= secs(100));
}

#[tokio::test(start_paused = true)]
async fn sdk_12_a_layer_sees_every_task_and_every_outcome() {
    async fn odd(Json(n): Json<u32>) -> Result<(), Failure> {
        if n % 2 == 1 { Ok(()) } else { Err(Failure::permanent("even")) }
    }
    let seen = Arc::new(AtomicU32::new(0));
    let (good, counted) = (Arc::new(AtomicU32::new(0)), seen.clone());
    let harness = Harness::new().await;
    let successes = good.clone();
    harness.worker(move |worker| {
        let (counted, successes) = (counted.clone(), successes.clone());
        worker.handle("odd", odd).layer(tower::layer::layer_fn(move |inner: weft_sdk::worker::TaskService| {
            let (counted, successes) = (counted.clone(), successes.clone());
            tower::service_fn(move |task: Task| {
                counted.fetch_add(1, Ordering::SeqCst);
                let (running, successes) = (tower::ServiceExt::oneshot(inner.clone(), task), successes.clone());
                async move {
                    let outcome: Outcome = running.await?;
                    successes.fetch_add(u32::from(outcome.is_success()), Ordering::SeqCst);
                    Ok(outcome)
                }
            })
        }))
    });
    for n in 0..5_u32 {
        harness.submit("odd", &n).await.unwrap();
    }
    harness.run_until_idle().await;
    assert_eq!((seen.load(Ordering::SeqCst), good.load(Ordering::SeqCst)), (5, 2));
}

#[tokio::test(start_paused = true)]
async fn sdk_2_a_layer_of_a_client_sees_every_call() {
    let harness = Harness::new().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let client: Client = harness.client().clone().layer(tower::layer::layer_fn(move |inner: weft_sdk::Transport| {
        let noted = noted.clone();
        tower::service_fn(move |call: weft_sdk::api::Call| {
            noted.lock().unwrap().push(call.spec().id);
            tower::ServiceExt::oneshot(inner.clone(), call)
        })
    }));
    let run = client.submit("k", &()).await.unwrap();
    run.cancel("enough").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["submit_execution", "cancel_execution"]);
}

#[tokio::test(start_paused = true)]
async fn sdk_6_bytes_go_through_as_they_are() {
    async fn echo(Raw(input): Raw) -> Result<Option<Payload>, Failure> {
        Ok(input)
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("echo", echo));
    let all: Vec<u8> = (0..=255).collect();
    let sent = Payload::new(Bytes::from(all), Some("image/png".to_string()));
    let run = harness.client().submit_payload("echo", sent.clone()).await.unwrap();
    assert_eq!(run.payload().await.unwrap(), Some(sent));
    let empty = harness.client().submit_empty("echo").await.unwrap();
    assert_eq!(empty.payload().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn sdk_1_a_batch_answers_for_each_and_a_key_makes_one_execution() {
    let harness = Harness::new().await;
    let client = harness.client();
    let items = [client.submit("a", &1), client.submit("", &2), client.submit("b", &3).idempotency_key("order-17")];
    let runs = client.submit_batch(items, false).await.unwrap();
    assert!(runs[0].is_ok() && runs[2].is_ok());
    assert!(matches!(&runs[1], Err(error) if error.code().is_some()));
    let again = client.submit("b", &3).idempotency_key("order-17").await.unwrap();
    assert_eq!((again.id(), again.is_duplicate()), (runs[2].as_ref().unwrap().id(), true));
}
