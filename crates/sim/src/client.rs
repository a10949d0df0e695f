//! Clients and operators: they submit, repeat, steer and look.

use crate::checker::Ack;
use crate::dice::Dice;
use crate::outside::{Caller, Outside, Work};
use crate::workload::{self, Planned};
use std::sync::Arc;
use weft_core::ExecutionId;
use weft_core::command::{DeadlineWish, Steps, When};
use weft_core::error::Rejection;
use weft_core::record::execution::{HoldKey, State};
use weft_core::text::Text;
use weft_engine::{
    Cancellation, Client, ForceCompleting, ForceFailing, Holding, Prioritising, Replaying, Rescheduling, Revoking,
    Submission, Tagging,
};

/// Submits what was planned, each in a task of its own, so that one slow call does not hold up the others.
pub async fn submit_all(outside: Arc<Outside>) {
    let start_ms = outside.now_ms();
    for (number, planned) in workload::plan(&outside.settings).into_iter().enumerate() {
        let world = &outside.cluster.world;
        world.sleep((start_ms + planned.at_ms).saturating_sub(world.now_ms())).await;
        if outside.cluster.is_healed() {
            return;
        }
        let caller = Caller::new(outside.clone(), "submitter", number as u64);
        world.spawn(crate::node::NETWORK, Box::pin(submit(caller, planned)));
    }
}

async fn submit(mut caller: Caller, planned: Planned) {
    let Planned { mut submission, again_after_ms, .. } = planned;
    let mut note = caller.note("submit");
    note.key = submission.idempotency_key.clone();
    note.request = submission.request_id.clone();
    submission.input = Some(note.token.as_bytes().to_vec().into());
    // Without a key a repeat would be a second execution: the caller has to leave it at that.
    let tries = if note.key.is_some() || note.request.is_some() { 4 } else { 1 };
    let first = caller.persist(note.clone(), tries, sending(&submission)).await;
    let Some(Ok(Ack::Submitted(submitted))) = first else { return };
    caller.outside.learn(submitted.id);
    let Some(again_after_ms) = again_after_ms else { return };
    caller.sleep(again_after_ms).await;
    if submission.request_id.is_none() && caller.dice.chance(200) {
        // The same key with another body is refused.
        submission.priority = Some(17);
    }
    note.sent_ms = caller.outside.now_ms();
    note.uncertain = true;
    caller.persist(note, 1, sending(&submission)).await;
}

fn sending(submission: &Submission) -> impl Fn(Client) -> Work + use<> {
    let submission = submission.clone();
    move |client| {
        let submission = submission.clone();
        Box::pin(async move { client.submit(submission).await.map(|answer| Ack::Submitted(answer.value)) })
    }
}

/// Tag that callers set to the token of their call.
pub const MARK_TAG: &str = "mark";

/// What clients and operators do to an execution.
#[derive(Clone, Copy)]
enum Act {
    Cancel,
    CancelGracefully,
    Hold,
    Release,
    Revoke,
    ForceComplete,
    ForceFail,
    Replay,
    Reschedule,
    ChangePriority,
    SetTags,
    Purge,
    Look,
}

const ACTS: [(u32, Act); 13] = [
    (2, Act::Cancel),
    (2, Act::CancelGracefully),
    (4, Act::Hold),
    (5, Act::Release),
    (3, Act::Revoke),
    (1, Act::ForceComplete),
    (1, Act::ForceFail),
    (4, Act::Replay),
    (2, Act::Reschedule),
    (2, Act::ChangePriority),
    (2, Act::SetTags),
    (1, Act::Purge),
    (4, Act::Look),
];

/// Steers executions at random until the faults end.
pub async fn steer(mut caller: Caller) {
    let every_ms = caller.outside.settings.steer_every_ms;
    if every_ms == 0 {
        return;
    }
    loop {
        let pause_ms = caller.dice.between(1, 2 * every_ms);
        caller.sleep(pause_ms).await;
        if caller.outside.cluster.is_healed() {
            return;
        }
        if caller.dice.chance(200) {
            caller.switch_node();
        }
        let outside = caller.outside.clone();
        if let Some(id) = target(&outside, &mut caller.dice) {
            let act = caller.dice.weighted(&ACTS);
            steer_one(&mut caller, id, act).await;
        }
    }
}

/// Now and then one that waits for its children: holds meet there.
fn target(outside: &Outside, dice: &mut Dice) -> Option<ExecutionId> {
    if dice.chance(150) {
        let judge = outside.cluster.judge.lock();
        let waits =
            |state: &State| matches!(state, State::Blocked { holds, .. } if holds.get(HoldKey::Children).is_some());
        let waiting: Vec<_> = judge.executions().filter(|one| waits(&one.hot.state)).map(|one| one.id).collect();
        if let Some(id) = dice.pick(&waiting) {
            return Some(*id);
        }
    }
    outside.any_known(dice)
}

async fn steer_one(caller: &mut Caller, id: ExecutionId, act: Act) {
    let number = caller.dice.number();
    match act {
        Act::Cancel | Act::CancelGracefully => {
            let graceful = matches!(act, Act::CancelGracefully).then_some(number % 3_000);
            act_on(caller, id, "cancel", 3, move |client, token| {
                let cancellation = Cancellation::new(id, token);
                let cancellation = match graceful {
                    Some(grace_ms) => cancellation.graceful(grace_ms),
                    None => cancellation,
                };
                Box::pin(async move { client.cancel(cancellation).await.map(|answer| Ack::Cancelled(answer.value)) })
            })
            .await;
        }
        Act::Hold => {
            let revoke = number.is_multiple_of(4);
            act_on(caller, id, "hold", 2, move |client, token| {
                Box::pin(async move {
                    client
                        .hold(Holding { revoke, ..Holding::new(id, token) })
                        .await
                        .map(|answer| Ack::Held(answer.value))
                })
            })
            .await;
        }
        Act::Release => release(caller, id).await,
        Act::Revoke => {
            let hold = number.is_multiple_of(4);
            act_on(caller, id, "revoke", 1, move |client, token| {
                Box::pin(async move {
                    client
                        .revoke(Revoking { hold, ..Revoking::new(id, token) })
                        .await
                        .map(|answer| Ack::Revoked(answer.epoch))
                })
            })
            .await;
        }
        Act::ForceComplete => {
            act_on(caller, id, "force_complete", 1, move |client, token| {
                let forcing = ForceCompleting::new(id, token.clone()).result(token.as_bytes().to_vec());
                Box::pin(async move { client.force_complete(forcing).await.map(|answer| Ack::Forced(answer.value)) })
            })
            .await;
        }
        Act::ForceFail => {
            act_on(caller, id, "force_fail", 1, move |client, token| {
                Box::pin(async move {
                    client
                        .force_fail(ForceFailing::new(id, token.clone(), token))
                        .await
                        .map(|answer| Ack::Forced(answer.value))
                })
            })
            .await;
        }
        Act::Replay => replay(caller, id, number).await,
        Act::Reschedule => {
            let delay_ms = number % 5_000;
            act_on(caller, id, "reschedule", 1, move |client, _| {
                Box::pin(async move {
                    let rescheduling = Rescheduling::new(id, When::InMs(delay_ms));
                    client.reschedule(rescheduling).await.map(|answer| Ack::Rescheduled(answer.0, answer.1))
                })
            })
            .await;
        }
        Act::ChangePriority => {
            let priority = (number % 10) as u32;
            act_on(caller, id, "change_priority", 2, move |client, _| {
                Box::pin(async move {
                    client
                        .change_priority(Prioritising::new(id, priority))
                        .await
                        .map(|answer| Ack::Priority(answer.value))
                })
            })
            .await;
        }
        Act::SetTags => {
            act_on(caller, id, "set_tags", 3, move |client, token| {
                let tagging = Tagging { reason: token.clone(), ..Tagging::new(id).set(MARK_TAG, token) };
                Box::pin(async move { client.set_tags(tagging).await.map(|_| Ack::Tags) })
            })
            .await;
        }
        Act::Purge => {
            act_on(caller, id, "purge", 1, move |client, _| {
                Box::pin(async move { client.purge(id).await.map(|_| Ack::Purged) })
            })
            .await;
        }
        Act::Look => look(caller, id).await,
    }
}

async fn act_on(
    caller: &mut Caller,
    id: ExecutionId,
    verb: &'static str,
    tries: u32,
    make: impl Fn(Client, Text) -> Work,
) {
    let note = caller.note_about(verb, id);
    let token = note.token.clone();
    caller.persist(note, tries, move |client| make(client, token.clone())).await;
}

pub async fn release(caller: &mut Caller, id: ExecutionId) {
    act_on(caller, id, "release", 2, move |client, _| {
        Box::pin(async move { client.release(id).await.map(|_| Ack::Released) })
    })
    .await;
}

async fn replay(caller: &mut Caller, id: ExecutionId, number: u64) {
    let delay_ms = number.is_multiple_of(3).then_some(number % 4_000);
    act_on(caller, id, "replay", 3, move |client, token| {
        let mut replaying = Replaying::new(id, token.clone());
        replaying.delay_ms = delay_ms;
        if delay_ms.is_some() {
            // The submitted deadline might lie before the new start.
            replaying.deadline = DeadlineWish::None;
        }
        replaying.steps = if number.is_multiple_of(2) { Steps::Keep } else { Steps::Clear };
        replaying.request_id = Some(token.as_bytes().to_vec().into());
        Box::pin(async move { client.replay(replaying).await.map(|answer| Ack::Replayed(answer.1)) })
    })
    .await;
}

/// A read sees at least what was committed when it was sent.
async fn look(caller: &mut Caller, id: ExecutionId) {
    let outside = caller.outside.clone();
    let sent_ms = outside.now_ms();
    let before = outside.cluster.judge.lock().execution(id).map(|execution| execution.hot.updated_at);
    let called = outside
        .cluster
        .call(caller.node, &mut caller.dice, 0, move |client: Client| {
            Box::pin(async move { client.get(id).await.map(|view| view.execution.hot.updated_at) })
        })
        .await;
    let (Some(answer), Some(before)) = (called.answer, before) else { return };
    let mut judge = outside.cluster.judge.lock();
    match answer {
        _ if judge.lost_since(id.partition(), sent_ms) => {}
        Ok(seen) if seen < before => {
            judge.violation("EX-69", format!("a read of {id} saw {seen:?}, committed was {before:?}"));
        }
        Err(Rejection::ExecutionNotFound) if judge.execution(id).is_some() => {
            judge.violation("EX-69", format!("a read did not find {id}, which is there"));
        }
        _ => {}
    }
}

/// Lifts every operator's hold after the faults have ended: an operator who holds for ever is not the engine's fault.
pub async fn release_all(mut caller: Caller) {
    while !caller.outside.is_stopped() {
        let held: Vec<ExecutionId> = {
            let judge = caller.outside.cluster.judge.lock();
            let held = |state: &State| match state {
                State::Blocked { holds, .. } => holds.get(HoldKey::Operator).is_some(),
                State::Active { parked, .. } => parked.get(HoldKey::Operator).is_some(),
                _ => false,
            };
            judge.executions().filter(|one| held(&one.hot.state)).map(|one| one.id).collect()
        };
        for id in held {
            release(&mut caller, id).await;
        }
        caller.sleep(1_000).await;
    }
}
