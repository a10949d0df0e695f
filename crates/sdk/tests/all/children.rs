//! Children: submitted once, waited for without a lease.

use std::time::Duration;
use weft_sdk::api::execution::{Outcome, PublicState};
use weft_sdk::test::Harness;
use weft_sdk::worker::Child;
use weft_sdk::{Ctx, Failure, Json};

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

async fn harness() -> Harness {
    let harness = Harness::new().await;
    harness.worker(|worker| worker.handle("part", part).handle("sum", sum).handle("any", any).handle("again", again));
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
