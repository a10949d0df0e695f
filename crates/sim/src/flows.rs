//! Flows at random: all shapes and policies, grown, sealed, cancelled and replayed while nodes die.

use crate::dice::Dice;
use crate::outside::{Caller, Outside};
use crate::workload;
use std::sync::Arc;
use weft_core::FlowId;
use weft_core::error::Class;
use weft_core::record::edge::On;
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, FlowOutcome, Growth, Mode, Remaining};
use weft_core::record::member::{GroupPolicy, Then};
use weft_core::text::Text;
use weft_engine::flow::{Declaring, Edge, FlowCancellation, FlowSubmission, Growing, Member, Sealing};

/// Submits a few flows, each steered in a task of its own.
pub async fn submit_all(outside: Arc<Outside>) {
    let mut dice = Dice::new(outside.settings.seed, "flows", 0);
    let count = dice.weighted(&[(2, 0), (3, 1), (3, 2), (2, 4), (1, 8)]);
    let start_ms = outside.now_ms();
    let mut times: Vec<u64> = (0..count).map(|_| dice.below(outside.settings.active_ms / 2)).collect();
    times.sort_unstable();
    for (number, at_ms) in times.into_iter().enumerate() {
        let world = &outside.cluster.world;
        world.sleep((start_ms + at_ms).saturating_sub(world.now_ms())).await;
        if outside.cluster.is_healed() {
            return;
        }
        let caller = Caller::new(outside.clone(), "flow", number as u64);
        world.spawn(crate::node::NETWORK, Box::pin(live(caller, number)));
    }
}

/// One flow from its submission until its client loses interest.
async fn live(mut caller: Caller, number: usize) {
    let submission = draw(&mut caller, number);
    let unsealed = !submission.seal;
    let mut id = None;
    let sent_ms = caller.outside.now_ms();
    for _ in 0..5 {
        let given = submission.clone();
        let answer = call(&mut caller, move |client| {
            let given = given.clone();
            Box::pin(async move {
                client
                    .submit_flow(given)
                    .await
                    .map(|done| (done.id, done.members.iter().map(|it| it.1).collect::<Vec<_>>()))
            })
        })
        .await;
        match answer {
            Some(Ok((flow, members))) => {
                members.iter().for_each(|id| caller.outside.learn(*id));
                caller.outside.cluster.judge.lock().accepted_flow(flow, &members, sent_ms, caller.outside.now_ms());
                id = Some(flow);
                break;
            }
            Some(Err(rejection)) if rejection.class() != Class::Later => {
                let what = format!("a good flow was refused: {rejection}");
                caller.outside.cluster.judge.lock().violation("FL-40", what);
                return;
            }
            _ => caller.sleep(200).await,
        }
    }
    let Some(flow) = id else { return };
    steer(&mut caller, flow, unsealed).await;
}

async fn steer(caller: &mut Caller, flow: FlowId, unsealed: bool) {
    for step in 0..caller.dice.below(6) {
        let pause_ms = caller.dice.between(1, 6_000);
        caller.sleep(pause_ms).await;
        if caller.outside.cluster.is_healed() {
            break;
        }
        match caller.dice.weighted(&[(3, 0), (2, 1), (1, 2), (2, 3)]) {
            0 => grow(caller, flow, step).await,
            1 => cancel(caller, flow).await,
            2 => declare(caller, flow).await,
            _ => {
                let _ = call(caller, move |client| {
                    Box::pin(async move { client.seal_flow(Sealing::new(flow)).await.map(|_| ()) })
                })
                .await;
            }
        }
    }
    if unsealed {
        let _ =
            call(caller, move |client| Box::pin(async move { client.seal_flow(Sealing::new(flow)).await.map(|_| ()) }))
                .await;
    }
}

type Answered<T> = std::pin::Pin<Box<dyn Future<Output = Result<T, weft_core::Rejection>> + Send>>;

async fn call<T: Send + 'static>(
    caller: &mut Caller,
    make: impl Fn(weft_engine::Client) -> Answered<T>,
) -> Option<Result<T, weft_core::Rejection>> {
    let outside = caller.outside.clone();
    if caller.dice.chance(200) {
        caller.switch_node();
    }
    outside.cluster.call(caller.node, &mut caller.dice, 0, make).await.answer
}

async fn grow(caller: &mut Caller, flow: FlowId, step: u64) {
    let mut growing = Growing::new(flow);
    growing.seal = caller.dice.chance(800);
    let first: Text = format!("g{step}a").into();
    growing = growing.member(first.clone(), member_work(caller)).member(format!("g{step}b"), member_work(caller));
    growing = growing.edge(first, format!("g{step}b"));
    if caller.dice.chance(600) {
        let from = caller.dice.below(4);
        growing = growing.edge(format!("m{from}"), format!("g{step}a"));
    }
    if caller.dice.chance(300) {
        let to = caller.dice.below(6);
        growing.edges.push(Edge::new(format!("g{step}b"), format!("m{to}")).group("late"));
    }
    let _ = call(caller, move |client| {
        let growing = growing.clone();
        Box::pin(async move { client.grow_flow(growing).await.map(|_| ()) })
    })
    .await;
}

fn member_work(caller: &mut Caller) -> weft_engine::Submission {
    let settings = caller.outside.settings.clone();
    workload::child(&settings, &mut caller.dice)
}

async fn cancel(caller: &mut Caller, flow: FlowId) {
    let remaining = remaining(&mut caller.dice);
    let _ = call(caller, move |client| {
        let cancellation = FlowCancellation::new(flow, "enough").remaining(remaining);
        Box::pin(async move { client.cancel_flow(cancellation).await.map(|_| ()) })
    })
    .await;
}

async fn declare(caller: &mut Caller, flow: FlowId) {
    let _ = call(caller, move |client| {
        let reason = Text::from("said so");
        let declaring = Declaring { flow, outcome: FlowOutcome::Completed, reason, within: None, request_id: None };
        Box::pin(async move { client.finish_flow(declaring).await.map(|_| ()) })
    })
    .await;
}

fn remaining(dice: &mut Dice) -> Remaining {
    match dice.below(4) {
        0 => Remaining::LetRun,
        1 => Remaining::FinishActive,
        2 => Remaining::Cancel(Mode::Graceful { grace_ms: dice.below(3_000) }),
        _ => Remaining::Cancel(Mode::Immediate),
    }
}

/// A flow of up to thirty members with edges from earlier ones to later ones.
fn draw(caller: &mut Caller, number: usize) -> FlowSubmission {
    let settings = caller.outside.settings.clone();
    let dice = &mut caller.dice;
    let mut flow = FlowSubmission::new("sim").idempotency_key(format!("flow {number}").into_bytes());
    let count = dice.between(1, 30);
    let density = dice.between(50, 600);
    for at in 0..count {
        let mut member = Member::new(format!("m{at}"), workload::child(&settings, dice));
        member.critical = dice.chance(800);
        let ups: Vec<u64> = (0..at).filter(|_| dice.chance(density)).take(12).collect();
        for group in ["main", "other"] {
            let of_group: Vec<u64> = ups.iter().copied().filter(|up| (group == "main") == (up % 3 != 0)).collect();
            if of_group.is_empty() {
                continue;
            }
            let then = match dice.below(3) {
                0 => Then::LetRun,
                1 => Then::CancelRemaining(Mode::Graceful { grace_ms: 500 }),
                _ => Then::CancelRemaining(Mode::Immediate),
            };
            let policy = match dice.below(3) {
                0 => GroupPolicy::AllOf,
                1 => GroupPolicy::AnyOf,
                _ => GroupPolicy::Quorum(dice.between(1, of_group.len() as u64) as u32),
            };
            member = member.group(group, policy, then);
            for up in of_group {
                let on = dice.weighted(&[(6, On::Success), (1, On::Failure), (2, On::Any)]);
                let mut edge = Edge::new(format!("m{up}"), format!("m{at}")).group(group).on(on);
                if dice.chance(300) {
                    edge = edge.input("up[]");
                }
                flow = flow.link(edge);
            }
        }
        flow = flow.with(member);
    }
    flow.failure = match dice.below(4) {
        0 => FailurePolicy::FailFast { remaining: remaining(dice) },
        1 => FailurePolicy::CollectAll,
        _ => FailurePolicy::Isolate,
    };
    flow.completion = match dice.below(6) {
        0 => CompletionPolicy::Root { key: format!("m{}", dice.below(count)).into(), remaining: remaining(dice) },
        1 => CompletionPolicy::Threshold { successes: dice.between(1, count) as u32, remaining: remaining(dice) },
        2 => CompletionPolicy::Declared { remaining: remaining(dice) },
        _ => CompletionPolicy::AllTerminal,
    };
    if matches!(flow.completion, CompletionPolicy::Declared { .. }) || dice.chance(200) {
        flow = flow.deadline_in_ms(dice.between(1_000, 60_000));
    }
    if dice.chance(200) {
        flow.growth = Growth::Fixed;
    }
    flow.seal = dice.chance(800);
    flow.seal_by_ms = Some(dice.between(5_000, 60_000));
    flow.retention_ms = dice.weighted(&[(1, Some(0)), (2, Some(5_000)), (4, Some(86_400_000)), (1, None)]);
    flow
}
