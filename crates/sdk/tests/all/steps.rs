//! Steps and sleeps over attempts, pauses and crashes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_sdk::api::execution::PublicState;
use weft_sdk::api::work::DelayItem;
use weft_sdk::api::{Call, Moment};
use weft_sdk::test::Harness;
use weft_sdk::{Checkpoint, Ctx, Failure, Json, NoResult, State, Transport, Worker};

type Count = State<Arc<AtomicU32>>;

fn counter() -> Arc<AtomicU32> {
    Arc::default()
}

#[tokio::test(start_paused = true)]
async fn sdk_20_a_step_runs_once_over_all_attempts() {
    async fn pays(ctx: Ctx, State(calls): Count) -> Result<Json<(u32, u64, String)>, Failure> {
        let first = ctx.step("quote", async || Ok::<_, Failure>(calls.fetch_add(1, Ordering::SeqCst))).await?;
        let (random, id) = (ctx.random("r").await?, ctx.uuid("id").await?.to_string());
        ctx.now("now").await?;
        if ctx.attempt() < 2 {
            return Err(Failure::retry("not yet"));
        }
        let recorded = ctx.client().get_step(ctx.id(), "r").await?.value.bytes;
        assert_eq!(recorded, random.to_string());
        Ok(Json((first, random, id)))
    }
    let harness = Harness::new().await;
    let calls = counter();
    let state = calls.clone();
    harness.worker(move |worker| worker.state(state.clone()).handle("pays", pays));
    let run = harness.submit("pays", &()).await.unwrap();
    let (first, ..): (u32, u64, String) = run.result().await.unwrap();
    assert_eq!((first, calls.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(run.get().await.unwrap().steps, 4);
    assert_eq!(run.attempts().await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn sdk_21_a_step_that_failed_runs_again_and_those_before_it_do_not() {
    async fn two(ctx: Ctx, State(calls): Count) -> Result<Json<u32>, Failure> {
        ctx.step("first", async || Ok::<_, Failure>(calls.fetch_add(1, Ordering::SeqCst))).await?;
        ctx.step("second", async || {
            calls.fetch_add(10, Ordering::SeqCst);
            if ctx.attempt() == 0 { Err(Failure::retry("no")) } else { Ok(()) }
        })
        .await?;
        Ok(Json(calls.load(Ordering::SeqCst)))
    }
    let harness = Harness::new().await;
    let calls = counter();
    harness.worker(move |worker| worker.state(calls.clone()).handle("two", two));
    let run = harness.submit("two", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 21);
}

#[tokio::test(start_paused = true)]
async fn sdk_22_a_name_that_is_used_again_is_another_step() {
    async fn loops(ctx: Ctx) -> Result<Json<Vec<u32>>, Failure> {
        let mut all = Vec::new();
        for n in 0..3_u32 {
            all.push(ctx.step("item", async || Ok::<_, Failure>(n * n)).await?);
        }
        assert_eq!(ctx.step_key("item"), format!("{}/item", ctx.id()));
        Ok(Json(all))
    }
    async fn nameless(ctx: Ctx) -> Result<(), Failure> {
        ctx.step("", async || Ok::<_, Failure>(())).await
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("loops", loops).handle("nameless", nameless));
    let run = harness.submit("loops", &()).await.unwrap();
    assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [0, 1, 4]);
    let steps = harness.client().list_steps(run.id(), Default::default()).await.unwrap().items;
    assert_eq!(steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["item", "item#2", "item#3"]);
    let run = harness.submit("nameless", &()).await.unwrap();
    assert!(matches!(run.payload().await, Err(NoResult::Failed { category, .. }) if category == "usage"));
}

#[tokio::test(start_paused = true)]
async fn sdk_22_a_number_never_makes_two_names_one() {
    async fn meets(ctx: Ctx) -> Result<Json<Vec<u32>>, Failure> {
        let mut all = Vec::new();
        for (n, name) in (1..).zip(["x", "x", "x#2", "y#2", "y", "y"]) {
            all.push(ctx.step(name, async || Ok::<_, Failure>(n)).await?);
        }
        if ctx.attempt() == 0 { Err(Failure::retry("once more")) } else { Ok(Json(all)) }
    }
    async fn lengthy(ctx: Ctx) -> Result<(), Failure> {
        for _ in 0..2 {
            ctx.step(&"n".repeat(200), async || Ok::<_, Failure>(())).await?;
        }
        Ok(())
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("meets", meets).handle("lengthy", lengthy));
    let run = harness.submit("meets", &()).await.unwrap();
    assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [1, 2, 3, 4, 5, 6]);
    let run = harness.submit("lengthy", &()).await.unwrap();
    match run.payload().await {
        Err(NoResult::Failed { category, message, .. }) => {
            assert_eq!(category, "usage");
            assert!(message.contains("#2"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_26_a_sleep_until_a_time_ends_at_that_time_of_the_server() {
    async fn sleeps(ctx: Ctx) -> Result<(), Failure> {
        let begin = ctx.now("begin").await?;
        ctx.sleep_until("tomorrow", begin + Duration::from_secs(86_400)).await?;
        ctx.sleep_until("soon after", begin + Duration::from_secs(86_405)).await
    }
    let harness = Harness::new().await;
    let asked: Arc<Mutex<Vec<DelayItem>>> = Arc::default();
    let noted = asked.clone();
    let client = harness.client().clone().layer(tower::layer::layer_fn(move |inner: Transport| {
        let noted = noted.clone();
        tower::service_fn(move |call: Call| {
            if let Call::Delay(args) = &call {
                noted.lock().unwrap().push(args.body.clone());
            }
            tower::ServiceExt::oneshot(inner.clone(), call)
        })
    }));
    tokio::spawn(Worker::new(client).handle("sleeps", sleeps).run());
    let run = harness.submit("sleeps", &()).await.unwrap();
    harness.advance(Duration::from_secs(86_402)).await;
    assert!(!run.get().await.unwrap().public_state.is_terminal());
    run.result::<()>().await.unwrap();
    assert!(harness.elapsed() >= Duration::from_secs(86_405) && harness.elapsed() < Duration::from_secs(86_420));
    let begin = run.get().await.unwrap().created_at;
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].until_at, asked[0].delay_ms), (Some(Moment(begin + 86_400_000)), None));
}

#[tokio::test(start_paused = true)]
async fn sdk_24_steps_that_the_claim_does_not_bring_are_read_when_they_are_asked_for() {
    const STEPS: u32 = 1_100;
    async fn many(ctx: Ctx, State(calls): Count) -> Result<(), Failure> {
        for n in 0..STEPS {
            let at =
                ctx.step(&format!("s{n}"), async || Ok::<_, Failure>(calls.fetch_add(1, Ordering::SeqCst))).await?;
            assert_eq!(at, n);
        }
        if ctx.attempt() == 0 { Err(Failure::retry("once more")) } else { Ok(()) }
    }
    let harness = Harness::new().await;
    let calls = counter();
    let state = calls.clone();
    harness.worker(move |worker| worker.state(state.clone()).handle("many", many));
    let run = harness.submit("many", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), STEPS);
}

#[tokio::test(start_paused = true)]
async fn sdk_25_after_a_pause_nothing_that_the_handler_does_counts() {
    async fn swallows(ctx: Ctx, State(calls): Count) -> Result<Json<&'static str>, Failure> {
        let slept = ctx.sleep("long", Duration::from_secs(3_600)).await;
        calls.fetch_add(1, Ordering::SeqCst);
        if slept.is_err() {
            assert!(ctx.step("more", async || Ok::<_, Failure>(())).await.is_err_and(|failure| failure.is_pause()));
            assert!(ctx.progress(50, "half").now().await.is_err_and(|failure| failure.is_pause()));
            return Ok(Json("swallowed"));
        }
        Ok(Json("slept"))
    }
    let harness = Harness::new().await;
    let calls = counter();
    let state = calls.clone();
    harness.worker(move |worker| worker.state(state.clone()).handle("swallows", swallows));
    let run = harness.submit("swallows", &()).await.unwrap();
    harness.run_until_idle().await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Delayed);
    assert_eq!(run.result::<String>().await.unwrap(), "slept");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(harness.elapsed() >= Duration::from_secs(3_600) && harness.elapsed() < Duration::from_secs(3_700));
}

#[tokio::test(start_paused = true)]
async fn sdk_26_a_sleep_is_slept_once_over_all_attempts() {
    async fn sleeps(ctx: Ctx) -> Result<(), Failure> {
        ctx.sleep("short", Duration::from_secs(10)).await?;
        ctx.sleep("long", Duration::from_secs(86_400 * 30)).await?;
        if ctx.attempt() == 0 { Err(Failure::retry("after all that")) } else { Ok(()) }
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("sleeps", sleeps));
    let run = harness.submit("sleeps", &()).await.unwrap();
    harness.advance(Duration::from_secs(20)).await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::Delayed);
    harness.advance(Duration::from_secs(86_400 * 30)).await;
    run.result::<()>().await.unwrap();
    let days = harness.elapsed().as_secs() / 86_400;
    assert_eq!(days, 30, "neither sleep was slept twice");
    assert_eq!(run.attempts().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn sdk_27_steps_that_get_in_each_others_way_are_refused_or_run_one_after_the_other() {
    type Now = State<Arc<AtomicU32>>;
    async fn nested(ctx: Ctx) -> Result<Json<u32>, Failure> {
        ctx.step("outer", async || Ok::<_, Failure>(1 + ctx.step("inner", async || Ok::<_, Failure>(2)).await?))
            .await
            .map(Json)
    }
    async fn twice(ctx: Ctx, State(now): Now) -> Result<Json<u32>, Failure> {
        let alone = async || {
            assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "another runs");
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Failure>(1)
        };
        let (a, b) = tokio::join!(ctx.step("same", alone), ctx.step("same", alone));
        Ok(Json(a? + 2 * b?))
    }
    async fn apart(ctx: Ctx) -> Result<Json<(u32, u32)>, Failure> {
        let (a, b) =
            tokio::join!(ctx.step("a", async || Ok::<_, Failure>(1)), ctx.step("b", async || Ok::<_, Failure>(2)));
        Ok(Json((a?, b?)))
    }
    for strict in [true, false] {
        let harness = Harness::new().await;
        let now = counter();
        harness.worker(move |worker| {
            let worker = worker.strict_steps(strict).state(now.clone());
            worker.handle("nested", nested).handle("twice", twice).handle("apart", apart)
        });
        for kind in ["nested", "twice"] {
            let run = harness.submit(kind, &()).await.unwrap();
            match (strict, run.result::<u32>().await) {
                (true, Err(NoResult::Failed { category, .. })) => assert_eq!(category, "usage", "{kind}"),
                (false, Ok(sum)) => assert_eq!(sum, 3, "{kind}"),
                (_, other) => panic!("{kind}, strict {strict}: {other:?}"),
            }
        }
        let run = harness.submit("apart", &()).await.unwrap();
        assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_23_a_replay_keeps_steps_only_if_it_says_so() {
    async fn counts(ctx: Ctx, State(calls): Count) -> Result<Json<u32>, Failure> {
        Ok(Json(ctx.step("n", async || Ok::<_, Failure>(calls.fetch_add(1, Ordering::SeqCst))).await?))
    }
    let harness = Harness::new().await;
    let calls = counter();
    harness.worker(move |worker| worker.state(calls.clone()).handle("counts", counts));
    let run = harness.submit("counts", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 0);
    run.replay("again").keep_steps().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 0);
    run.replay("anew").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
}

fn refunds(worker: Worker) -> Worker {
    async fn refund(ctx: Ctx, Json(order): Json<u32>) -> Result<Json<u32>, Failure> {
        let quote = ctx.step("quote", async || Ok::<_, Failure>(order * 100)).await?;
        ctx.sleep("cool down", Duration::from_secs(7_200)).await?;
        let child = ctx.child("mail", &quote).submit().await?;
        let children = ctx.wait_all(std::slice::from_ref(&child)).await?;
        let sent: u32 = children.result(&child)?;
        ctx.step("pay", async || Ok::<_, Failure>(())).await?;
        Ok(Json(sent))
    }
    async fn mail(Json(cents): Json<u32>) -> Result<Json<u32>, Failure> {
        Ok(Json(cents + 1))
    }
    worker.handle("refund", refund).handle("mail", mail)
}

#[tokio::test(start_paused = true)]
async fn sdk_41_a_crash_after_any_change_leads_to_the_same_end() {
    Harness::crash_everywhere(refunds, |harness| async move {
        harness.submit("refund", &5).await.unwrap();
        harness.run_until_idle().await;
        harness.advance(Duration::from_secs(8_000)).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sdk_41_a_crash_after_any_renewal_leads_to_the_same_end() {
    fn counts(worker: Worker) -> Worker {
        async fn counts(ctx: Ctx, Checkpoint(saved): Checkpoint<u32>) -> Result<Json<u32>, Failure> {
            for n in saved.unwrap_or(0)..4 {
                tokio::time::sleep(Duration::from_secs(8)).await;
                ctx.checkpoint(&(n + 1)).later();
            }
            Ok(Json(4))
        }
        worker.handle("counts", counts)
    }
    Harness::crash_everywhere(counts, |harness| async move {
        harness.submit("counts", &()).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sdk_40_the_same_seed_gives_the_same_events() {
    let events = async |seed| {
        let harness = Harness::seeded(seed).await;
        harness.worker(refunds);
        for order in 0..5 {
            harness.submit("refund", &order).await.unwrap();
        }
        harness.run_until_idle().await;
        harness.crash_worker().await;
        harness.advance(Duration::from_secs(9_000)).await;
        harness.events()
    };
    let first = events(7).await;
    assert!(first.iter().any(|line| line.contains("refund execution.finished success")), "{first:#?}");
    assert_eq!(first, events(7).await);
}
