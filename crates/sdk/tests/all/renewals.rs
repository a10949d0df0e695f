//! Renewals and outcomes under load, on bad connections, and to a server that has no time.

use crate::between::between;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_sdk::api::execution::ListQuery;
use weft_sdk::api::page::{Item, Results};
use weft_sdk::api::work::RenewItem;
use weft_sdk::api::work::RenewReply;
use weft_sdk::api::{Call, Code, Problem, Reply};
use weft_sdk::client::Run;
use weft_sdk::test::Harness;
use weft_sdk::{Checkpoint, Client, Ctx, Error, Failure, Json, State, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn long(Json(seconds): Json<u64>) -> Result<Json<u64>, Failure> {
    tokio::time::sleep(secs(seconds)).await;
    Ok(Json(seconds))
}

/// Saves a checkpoint of so many bytes with the next renewal, and ends after three leases.
async fn saves(ctx: Ctx, Json(bytes): Json<usize>) -> Result<(), Failure> {
    ctx.checkpoint(&"c".repeat(bytes)).later();
    tokio::time::sleep(secs(90)).await;
    Ok(())
}

async fn submitted(client: &Client, kind: &str, inputs: &[usize]) -> Vec<Run> {
    let mut runs = Vec::new();
    for inputs in inputs.chunks(500) {
        let items = inputs.iter().map(|input| client.submit(kind, input));
        runs.extend(client.submit_batch(items, false).await.unwrap().into_iter().map(Result::unwrap));
    }
    runs
}

/// Asserts that every execution ended under its first lease.
async fn ended_under_the_first_lease(harness: &Harness) {
    harness.run_until_idle().await;
    let mut query = ListQuery { limit: Some(1_000), ..ListQuery::default() };
    loop {
        let page = harness.client().list_executions(query.clone()).await.unwrap();
        for execution in page.items {
            assert!(execution.public_state.is_terminal(), "{execution:?}");
            assert_eq!(execution.epoch, 1, "{execution:?}");
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_31_more_leases_than_fit_into_one_call_are_all_kept() {
    let harness = Harness::new().await;
    submitted(harness.client(), "long", &[120; 1_200]).await;
    let worker = Worker::new(harness.client().clone()).concurrency(1_500).handle("long", long);
    tokio::spawn(worker.run());
    ended_under_the_first_lease(&harness).await;
}

fn checkpoints(items: &[RenewItem]) -> usize {
    items.iter().filter_map(|item| item.checkpoint.as_ref()).map(|checkpoint| checkpoint.bytes.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn sdk_31_checkpoints_of_many_leases_never_make_a_call_too_large() {
    let harness = Harness::new().await;
    let client = between(harness.client(), |call, inner| async move {
        match &call {
            Call::Renew(args) if checkpoints(&args.body.items) > 12 << 20 => {
                Err(Problem::new(Code::PayloadTooLarge, "the body is too large").into())
            }
            _ => inner.dispatch(call).await,
        }
    });
    let runs = submitted(harness.client(), "saves", &[200 << 10; 100]).await;
    tokio::spawn(Worker::new(client).concurrency(100).handle("saves", saves).run());
    harness.advance(secs(60)).await;
    for run in &runs {
        assert!(run.checkpoint().await.unwrap().is_some());
    }
    ended_under_the_first_lease(&harness).await;
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_checkpoint_that_refuses_the_whole_call_costs_no_lease_and_no_other_checkpoint() {
    let harness = Harness::new().await;
    let client = between(harness.client(), |call, inner| async move {
        let is_bad = |item: &RenewItem| item.checkpoint.as_ref().is_some_and(|saved| saved.bytes.len() == 1_002);
        match &call {
            Call::Renew(args) if args.body.items.iter().any(is_bad) => {
                Err(Problem::new(Code::InvalidJson, "what is this?").into())
            }
            _ => inner.dispatch(call).await,
        }
    });
    let runs = submitted(harness.client(), "saves", &[10, 20, 30, 1_000, 40, 50]).await;
    tokio::spawn(Worker::new(client).handle("saves", saves).run());
    harness.advance(secs(80)).await;
    let mut saved = Vec::new();
    for run in &runs {
        saved.push(run.checkpoint().await.unwrap().is_some());
    }
    assert_eq!(saved, [true, true, true, false, true, true]);
    ended_under_the_first_lease(&harness).await;
}

/// A client whose first call of this operation is never answered.
fn hung(client: &Client, operation: &'static str) -> Client {
    let count = Arc::new(AtomicU32::new(0));
    between(client, move |call, inner| {
        let is_first = call.spec().id == operation && count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match is_first {
                true => std::future::pending().await,
                false => inner.dispatch(call).await,
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_renewal_on_a_connection_that_hangs_costs_no_lease() {
    let harness = Harness::new().await;
    tokio::spawn(Worker::new(hung(harness.client(), "renew")).handle("long", long).run());
    submitted(harness.client(), "long", &[100, 100]).await;
    ended_under_the_first_lease(&harness).await;
}

#[tokio::test(start_paused = true)]
async fn sdk_33_an_outcome_on_a_connection_that_hangs_is_sent_again_within_the_lease() {
    let harness = Harness::new().await;
    tokio::spawn(Worker::new(hung(harness.client(), "settle")).handle("long", long).run());
    let run = harness.submit("long", &0).await.unwrap();
    assert_eq!(run.result::<u64>().await.unwrap(), 0);
    assert!(harness.elapsed() < secs(15), "{:?}", harness.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_step_on_a_connection_that_hangs_is_sent_again_within_the_lease() {
    async fn steps(ctx: Ctx) -> Result<Json<u32>, Failure> {
        ctx.step("one", async || Ok::<_, Failure>(1)).await.map(Json)
    }
    let harness = Harness::new().await;
    tokio::spawn(Worker::new(hung(harness.client(), "record_steps")).handle("steps", steps).run());
    let run = harness.submit("steps", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert!(harness.elapsed() < secs(20), "{:?}", harness.elapsed());
}

/// A client whose renewals, or outcomes, are answered `busy` one by one while `left` lasts; counts its calls.
fn busy(client: &Client, operation: &'static str, retry_after: Option<u64>, left: Arc<AtomicU32>) -> Client {
    let problem = Problem::new(Code::Busy, "too much waits");
    let problem = retry_after.map_or(problem.clone(), |ms| problem.retry_after(ms));
    refusing(client, operation, problem, left)
}

/// The same with any answer.
fn refusing(client: &Client, operation: &'static str, problem: Problem, left: Arc<AtomicU32>) -> Client {
    between(client, move |call, inner| {
        let (left, problem) = (left.clone(), problem.clone());
        async move {
            let problem = || problem.clone();
            let spend = |left: u32| left.checked_sub(1);
            if call.spec().id != operation || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_err() {
                return inner.dispatch(call).await;
            }
            match &call {
                Call::Renew(args) => {
                    let results = args.body.items.iter().map(|_| Item::of(Err(problem()))).collect();
                    Ok(Reply::Renew(RenewReply { results, notices: Vec::new(), missed: false }))
                }
                Call::Settle(args) => {
                    let results = args.body.items.iter().map(|_| Item::of(Err(problem()))).collect();
                    Ok(Reply::Settle(Results { results }))
                }
                _ => Err(problem().into()),
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn sdk_33_a_server_that_is_busy_for_each_lease_is_asked_less_and_less_often() {
    const MANY: u32 = 1_000_000;
    for (operation, retry_after, most) in
        [("renew", None, 12), ("renew", Some(6_000), 4), ("settle", None, 18), ("settle", Some(6_000), 5)]
    {
        let harness = Harness::new().await;
        let left = Arc::new(AtomicU32::new(MANY));
        let worker = Worker::new(busy(harness.client(), operation, retry_after, left.clone())).handle("long", long);
        let handle = worker.handle_on();
        tokio::spawn(worker.run());
        let seconds = if operation == "renew" { 3_600 } else { 1 };
        harness.submit("long", &seconds).await.unwrap();
        harness.advance(secs(29)).await;
        let asked = MANY - left.load(Ordering::SeqCst);
        assert!((2..=most).contains(&asked), "{operation} {retry_after:?}: {asked} calls");
        let health = handle.health();
        assert!(health.last_error.as_ref().is_some_and(|error| error.contains("busy")), "{operation}: {health:?}");
        assert!(health.failures > 0, "{operation}: {health:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_server_that_was_busy_for_a_while_costs_no_lease() {
    let harness = Harness::new().await;
    let left = Arc::new(AtomicU32::new(4));
    tokio::spawn(Worker::new(busy(harness.client(), "renew", None, left)).handle("long", long).run());
    submitted(harness.client(), "long", &[100, 100]).await;
    ended_under_the_first_lease(&harness).await;
}

/// Ends with what an earlier attempt saved, and fails in the first one right after `first`.
macro_rules! fails_once {
    ($name:ident, |$ctx:ident| $first:block) => {
        async fn $name($ctx: Ctx, Checkpoint(saved): Checkpoint<u32>) -> Result<Json<Option<u32>>, Failure> {
            if $ctx.attempt() > 0 {
                return Ok(Json(saved));
            }
            $first
            Err(Failure::retry("after the checkpoint"))
        }
    };
}

#[tokio::test(start_paused = true)]
async fn ex_40_a_checkpoint_survives_a_wait_that_was_decided_already() {
    fails_once!(waits, |ctx| {
        let child = [ctx.child("long", &1).submit().await?];
        ctx.wait_all(&child).await?;
        ctx.checkpoint(&5).later();
        ctx.wait_any(&child).await?;
    });
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("waits", waits).handle("long", long));
    let run = harness.submit("waits", &()).await.unwrap();
    assert_eq!(run.result::<Option<u32>>().await.unwrap(), Some(5));
}

#[tokio::test(start_paused = true)]
async fn ex_40_a_checkpoint_survives_a_renewal_that_fails_after_its_handler() {
    fails_once!(fails, |ctx| {
        ctx.checkpoint(&6).later();
        tokio::time::sleep(secs(11)).await;
    });
    let harness = Harness::new().await;
    let client = between(harness.client(), |call, inner| async move {
        if matches!(call, Call::Renew(_)) {
            tokio::time::sleep(secs(2)).await;
            return Err(Error::from(Problem::new(Code::Unavailable, "gone")));
        }
        inner.dispatch(call).await
    });
    tokio::spawn(Worker::new(client).handle("fails", fails).run());
    let run = harness.submit("fails", &()).await.unwrap();
    assert_eq!(run.result::<Option<u32>>().await.unwrap(), Some(6));
}

#[tokio::test(start_paused = true)]
async fn ex_40_a_progress_message_that_is_too_long_is_cut_and_costs_no_checkpoint() {
    fails_once!(tells, |ctx| {
        ctx.progress(40, "ä".repeat(2_000)).later();
        ctx.checkpoint(&7).later();
        tokio::time::sleep(secs(20)).await;
    });
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("tells", tells));
    let run = harness.submit("tells", &()).await.unwrap();
    harness.advance(secs(15)).await;
    let message = run.get().await.unwrap().progress.unwrap().message.unwrap();
    assert!(message.starts_with("ää") && message.contains("cut"), "{message}");
    assert_eq!(run.result::<Option<u32>>().await.unwrap(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn ex_40_a_checkpoint_that_is_too_large_costs_neither_lease_nor_progress() {
    async fn tells(ctx: Ctx) -> Result<(), Failure> {
        ctx.progress(40, "half").later();
        ctx.checkpoint(&"c".repeat(300 << 10)).later();
        tokio::time::sleep(secs(60)).await;
        Ok(())
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("tells", tells));
    let run = harness.submit("tells", &()).await.unwrap();
    harness.advance(secs(25)).await;
    assert_eq!(run.get().await.unwrap().progress.unwrap().percent, Some(40));
    ended_under_the_first_lease(&harness).await;
}

#[tokio::test(start_paused = true)]
async fn sdk_3_the_time_that_a_server_names_is_kept_by_waits_and_fenced_calls() {
    async fn steps(ctx: Ctx, State(()): State<()>) -> Result<(), Failure> {
        ctx.step("one", async || Ok::<_, Failure>(())).await
    }
    let harness = Harness::new().await;
    let calls: Arc<Mutex<Vec<(&str, Duration)>>> = Arc::default();
    let (noted, time) = (calls.clone(), harness.clone());
    let client = between(harness.client(), move |call, inner| {
        let operation = call.spec().id;
        let mut noted = noted.lock().unwrap();
        noted.push((operation, time.elapsed()));
        let no = noted.iter().filter(|(other, _)| *other == operation).count();
        drop(noted);
        async move {
            // More often than the retry layer tries.
            match operation {
                "record_steps" | "get_execution" if no <= 8 => {
                    Err(Error::from(Problem::new(Code::Busy, "full").retry_after(2_000)))
                }
                _ => inner.dispatch(call).await,
            }
        }
    });
    tokio::spawn(Worker::new(client.clone()).state(()).handle("steps", steps).run());
    let run = client.submit("steps", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let calls = calls.lock().unwrap();
    for operation in ["record_steps", "get_execution"] {
        let at: Vec<_> = calls.iter().filter(|(name, _)| *name == operation).map(|(_, at)| *at).collect();
        let close = at.windows(2).take(8).filter(|pair| pair[1] - pair[0] < secs(2)).count();
        assert_eq!(close, 0, "{operation}: {at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_31_a_defect_of_the_server_costs_neither_a_lease_nor_a_result() {
    let defect = || Problem::new(Code::Internal, "an invariant would have been broken");
    for operation in ["renew", "settle"] {
        let harness = Harness::new().await;
        let left = Arc::new(AtomicU32::new(3));
        tokio::spawn(Worker::new(refusing(harness.client(), operation, defect(), left)).handle("long", long).run());
        let runs = submitted(harness.client(), "long", &[40, 40]).await;
        ended_under_the_first_lease(&harness).await;
        assert_eq!(runs[0].result::<u64>().await.unwrap(), 40, "{operation}");
    }
    // The same for a call that is refused as a whole.
    let harness = Harness::new().await;
    let left = Arc::new(AtomicU32::new(4));
    let client = between(harness.client(), move |call, inner| {
        let spend = |left: u32| left.checked_sub(1);
        let is_refused = matches!(call, Call::Settle(_) | Call::Renew(_))
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_ok();
        async move {
            match is_refused {
                true => Err(defect().into()),
                false => inner.dispatch(call).await,
            }
        }
    });
    tokio::spawn(Worker::new(client).handle("long", long).run());
    submitted(harness.client(), "long", &[5, 5, 40]).await;
    ended_under_the_first_lease(&harness).await;
}

#[tokio::test(start_paused = true)]
async fn sd_55_a_worker_with_more_leases_than_a_heartbeat_may_list_lists_none() {
    let harness = Harness::new().await;
    let listed: Arc<Mutex<Vec<Option<usize>>>> = Arc::default();
    let noted = listed.clone();
    let client = between(harness.client(), move |call, inner| {
        if let Call::Heartbeat(args) = &call {
            noted.lock().unwrap().push(args.body.holding.as_ref().map(Vec::len));
        }
        async move { inner.dispatch(call).await }
    });
    submitted(harness.client(), "long", &[30; 10_001]).await;
    let worker = Worker::new(client).concurrency(11_000).lease(secs(120)).handle("long", long);
    let handle = worker.handle_on();
    tokio::spawn(worker.run());
    harness.advance(secs(25)).await;
    assert_eq!(handle.health().held, 10_001);
    harness.advance(secs(20)).await;
    assert_eq!(*listed.lock().unwrap(), [None, Some(0)], "the second when all have ended");
    assert_eq!(handle.health().failures, 0, "{:?}", handle.health());
}
