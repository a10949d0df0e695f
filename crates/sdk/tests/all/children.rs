//! Children: submitted once, waited for without a lease.

use crate::between::between;
use crate::remote::{Server, soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_sdk::api::execution::{Outcome, PublicState};
use weft_sdk::api::key::{KeyScope, NewKey};
use weft_sdk::api::page::{Item, Results};
use weft_sdk::api::work::ChildrenRule;
use weft_sdk::api::{Call, Code, Problem, Reply, Scope};
use weft_sdk::test::Harness;
use weft_sdk::worker::Child;
use weft_sdk::{Client, Ctx, Failure, Json, Worker};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn spawn(ctx: &Ctx, inputs: &[i32]) -> Result<Vec<Child>, Failure> {
    let mut children = Vec::new();
    for input in inputs {
        children.push(ctx.child("part", input).submit().await?);
    }
    Ok(children)
}

async fn part(Json(n): Json<i32>) -> Result<Json<i32>, Failure> {
    tokio::time::sleep(Duration::from_secs(5)).await;
    if n < 0 { Err(Failure::permanent("negative")) } else { Ok(Json(n * 10)) }
}

async fn sum(ctx: Ctx, Json(inputs): Json<Vec<i32>>) -> Result<Json<i32>, Failure> {
    let children = spawn(&ctx, &inputs).await?;
    let ended = ctx.wait_all(&children).await?;
    let mut sum = 0;
    for child in &children {
        sum += ended.result::<i32>(child)?;
    }
    Ok(Json(sum))
}

async fn any(ctx: Ctx, Json(inputs): Json<Vec<i32>>) -> Result<Json<(String, usize)>, Failure> {
    let children = spawn(&ctx, &inputs).await?;
    let ended = ctx.wait_any(&children).await?;
    let good = children.iter().filter(|child| ended.outcome(child) == Some(Outcome::Success)).count();
    Ok(Json((ended.verdict().to_string(), good)))
}

/// Waits a second time for what has ended.
async fn again(ctx: Ctx) -> Result<Json<(i32, i32)>, Failure> {
    let children = spawn(&ctx, &[1, 2]).await?;
    ctx.wait_all(&children).await?;
    let late = ctx.wait_quorum(1, &children[1..]).await?;
    let first = ctx.wait_all(&children[..1]).await?;
    Ok(Json((first.result(&children[0])?, late.result(&children[1])?)))
}

/// Ends after so many seconds.
async fn slow(Json(seconds): Json<u64>) -> Result<(), Failure> {
    tokio::time::sleep(secs(seconds)).await;
    Ok(())
}

/// Waits for one of two and then for both, with a sleep between of so many seconds.
async fn stricter(ctx: Ctx, Json(pause): Json<u64>) -> Result<Json<(String, usize)>, Failure> {
    let children = [ctx.child("slow", &5).submit().await?, ctx.child("slow", &300).submit().await?];
    ctx.wait_any(&children).await?;
    if pause > 0 {
        ctx.sleep("between", secs(pause)).await?;
    }
    let all = ctx.wait_all(&children).await?;
    let ended = children.iter().filter(|child| all.outcome(child).is_some()).count();
    Ok(Json((all.verdict().to_string(), ended)))
}

/// Waits a minute at a time, and counts how often that was in vain.
async fn reminds(ctx: Ctx) -> Result<Json<u32>, Failure> {
    let child = [ctx.child("slow", &200).submit().await?];
    let mut reminders = 0;
    loop {
        let ended = ctx.wait_children(&child, ChildrenRule::AllOf {}, Some(secs(60))).await?;
        if ended.verdict() != "timeout" {
            return Ok(Json(reminders));
        }
        reminders += 1;
    }
}

async fn harness() -> Harness {
    let harness = Harness::new().await;
    harness.worker(|worker| {
        let worker = worker.handle("part", part).handle("sum", sum).handle("any", any).handle("again", again);
        worker.handle("slow", slow).handle("stricter", stricter).handle("reminds", reminds)
    });
    harness
}

#[tokio::test(start_paused = true)]
async fn ex_48_a_parent_waits_without_a_lease_and_gets_the_results() {
    let harness = harness().await;
    let run = harness.submit("sum", &[1, 2, 3]).await.unwrap();
    harness.advance(Duration::from_secs(1)).await;
    assert_eq!(run.get().await.unwrap().public_state, PublicState::WaitingChildren);
    assert_eq!(run.result::<i32>().await.unwrap(), 60);
    let execution = run.get().await.unwrap();
    assert_eq!((execution.children, execution.attempts), (3, 1), "the pause cost no attempt, the second run no child");
}

#[tokio::test(start_paused = true)]
async fn ex_49_a_rule_that_cannot_be_met_resumes_the_parent() {
    let harness = harness().await;
    let run = harness.submit("any", &[-1, -2]).await.unwrap();
    assert_eq!(run.result::<(String, usize)>().await.unwrap(), ("impossible".to_string(), 0));
    let run = harness.submit("any", &[-1, 2]).await.unwrap();
    assert_eq!(run.result::<(String, usize)>().await.unwrap(), ("met".to_string(), 1));
}

#[tokio::test(start_paused = true)]
async fn ex_47_waiting_for_what_has_ended_returns_at_once() {
    let harness = harness().await;
    let run = harness.submit("again", &()).await.unwrap();
    assert_eq!(run.result::<(i32, i32)>().await.unwrap(), (10, 20));
}

#[tokio::test(start_paused = true)]
async fn ex_47_a_second_wait_for_the_same_children_has_a_verdict_of_its_own() {
    let harness = harness().await;
    for pause in [0, 30] {
        let run = harness.submit("stricter", &pause).await.unwrap();
        let said = run.result::<(String, usize)>().await.unwrap();
        assert_eq!(said, ("met".to_string(), 2), "with a pause of {pause} seconds between the waits");
    }
}

#[tokio::test(start_paused = true)]
async fn ex_49_every_wait_of_a_row_of_them_has_its_own_timeout() {
    let harness = harness().await;
    let run = harness.submit("reminds", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    assert!(harness.elapsed() < secs(220), "{:?}", harness.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ex_47_outcomes_too_large_to_be_recorded_are_read_again() {
    async fn large(Json(n): Json<u32>) -> Result<Json<String>, Failure> {
        tokio::time::sleep(secs(1)).await;
        Ok(Json(n.to_string().repeat(200 << 10)))
    }
    async fn gathers(ctx: Ctx) -> Result<Json<usize>, Failure> {
        let children = [ctx.child("large", &1).submit().await?, ctx.child("large", &2).submit().await?];
        let ended = ctx.wait_all(&children).await?;
        ctx.sleep("between", secs(60)).await?;
        Ok(Json(ended.result::<String>(&children[0])?.len() + ended.result::<String>(&children[1])?.len()))
    }
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("large", large).handle("gathers", gathers));
    let run = harness.submit("gathers", &()).await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 400 << 10);
    let steps = harness.client().list_steps(run.id(), Default::default()).await.unwrap().items;
    assert!(steps.iter().any(|step| step.name == "weft.wait_children"), "the verdict is recorded");
}

#[tokio::test(start_paused = true)]
async fn sdk_3_a_child_that_a_busy_server_did_not_take_is_submitted_again() {
    async fn parent(ctx: Ctx) -> Result<Json<u32>, Failure> {
        ctx.child("slow", &1).submit().await?;
        Ok(Json(ctx.attempt()))
    }
    let harness = Harness::new().await;
    let refusals = Arc::new(AtomicU32::new(0));
    let counted = refusals.clone();
    let client = between(harness.client(), move |call, inner| {
        let counted = counted.clone();
        async move {
            if matches!(call, Call::SpawnChildren(_)) && counted.fetch_add(1, Ordering::SeqCst) < 3 {
                let busy = Problem::new(Code::Busy, "full").retry_after(2_000);
                return Ok(Reply::SpawnChildren(Results { results: vec![Item::of(Err(busy))] }));
            }
            inner.dispatch(call).await
        }
    });
    tokio::spawn(Worker::new(client).handle("parent", parent).run());
    let run = harness.submit("parent", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 0, "the same attempt went on");
    assert_eq!(refusals.load(Ordering::SeqCst), 4);
    assert!(harness.elapsed() >= secs(6), "the time that the server named was kept: {:?}", harness.elapsed());
}

/// A client with a key that may do what a worker does, and nothing else.
fn of_a_worker(client: &Client) -> Client {
    between(client, |call, inner| async move {
        match call.spec().scope {
            Scope::Work | Scope::WorkOrOperate => inner.dispatch(call).await,
            _ => Err(Problem::new(Code::Forbidden, format!("`{}` is not for workers", call.spec().id)).into()),
        }
    })
}

#[tokio::test]
async fn sdk_30_a_key_for_work_and_nothing_else_is_enough_to_wait_for_children() {
    async fn quick(Json(n): Json<i32>) -> Result<Json<i32>, Failure> {
        Ok(Json(n * 10))
    }
    async fn waits(ctx: Ctx) -> Result<Json<i32>, Failure> {
        let children = [ctx.child("quick", &1).submit().await?, ctx.child("quick", &2).submit().await?];
        let ended = ctx.wait_all(&children).await?;
        // Decided before it begins.
        let again = ctx.wait_any(&children[..1]).await?;
        Ok(Json(ended.result::<i32>(&children[1])? + again.result::<i32>(&children[0])?))
    }
    let (server, first) = Server::keyed().await;
    let admin = server.client_with(&first).await;
    let mut clients = Vec::new();
    for scope in [KeyScope::Work, KeyScope::Submit] {
        let (name, namespaces) = (scope.name().to_string(), vec!["default".to_string()]);
        let key = NewKey { name, scopes: vec![scope], namespaces, ..NewKey::default() };
        let secret = admin.create_key(key).await.unwrap().secret;
        clients.push(server.client_with(&secret).await);
    }
    let worker = Worker::new(clients[0].clone()).handle("waits", waits).handle("quick", quick);
    let worker = tokio::spawn(worker.run());
    let run = clients[1].submit("waits", &()).await.unwrap();
    assert_eq!(soon(run.result::<i32>()).await.unwrap(), 30);
    worker.abort();
    soon(server.stop()).await;
}

async fn bulky(Json(n): Json<u8>) -> Result<Json<String>, Failure> {
    Ok(Json(char::from(b'a' + n).to_string().repeat(700_000)))
}

#[tokio::test(start_paused = true)]
async fn sdk_30_a_key_for_work_is_enough_to_wait_for_children_in_every_way() {
    /// Waits for results that are too large to be recorded, again for the same, and once more in a second attempt.
    async fn waits(ctx: Ctx) -> Result<Json<usize>, Failure> {
        let mut children = Vec::new();
        for n in 0..8_u8 {
            children.push(ctx.child("bulky", &n).submit().await?);
        }
        let first = ctx.wait_all(&children).await?;
        let again = ctx.wait_quorum(3, &children).await?;
        if ctx.attempt() == 0 {
            return Err(Failure::retry("once more").category("test"));
        }
        let mut bytes = 0;
        for child in &children {
            let (one, other) = (first.result::<String>(child)?, again.result::<String>(child)?);
            assert_eq!(one, other);
            bytes += one.len();
        }
        Ok(Json(bytes))
    }
    let harness = Harness::new().await;
    let client = of_a_worker(harness.client());
    tokio::spawn(Worker::new(client).handle("waits", waits).handle("bulky", bulky).run());
    let run = harness.submit("waits", &()).await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 8 * 700_000);
}

#[tokio::test(start_paused = true)]
async fn ex_47_outcomes_of_a_decided_wait_are_asked_for_again_after_a_short_outage() {
    let harness = Harness::new().await;
    let refusals = Arc::new(AtomicU32::new(10));
    let client = between(harness.client(), move |call, inner| {
        let spend = |left: u32| left.checked_sub(1);
        let is_refused = matches!(call, Call::ReadChildren(_))
            && refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_ok();
        async move {
            match is_refused {
                true => Err(Problem::new(Code::Unavailable, "not now").into()),
                false => inner.dispatch(call).await,
            }
        }
    });
    tokio::spawn(Worker::new(client).handle("again", again).handle("part", part).run());
    let run = harness.submit("again", &()).await.unwrap();
    assert_eq!(run.result::<(i32, i32)>().await.unwrap(), (10, 20));
    assert_eq!(run.get().await.unwrap().attempts, 1);
}
