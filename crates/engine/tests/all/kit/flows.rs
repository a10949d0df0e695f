//! Flows for tests, and workers that work them off.

use super::worker;
use weft_core::reply::Claimed;
use weft_core::{FlowId, PartitionId};
use weft_engine::flow::FlowSubmission;
use weft_engine::{Claim, Client, Completion, Submission};

pub const P0: PartitionId = PartitionId(0);

pub fn work() -> Submission {
    let mut policy = weft_core::record::execution::Policy::default();
    policy.retry.max_retries = 0;
    Submission::new("work").policy(policy)
}

pub async fn claim_all(client: &Client, max: usize) -> Vec<Claimed> {
    let mut all = Vec::new();
    while all.len() < max {
        let some = client.claim(Claim { max: max - all.len(), ..worker() }).await.unwrap().executions;
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    all
}

pub fn key_of(claimed: &Claimed) -> String {
    claimed.flow.as_ref().expect("a member").1.to_string()
}

/// Completes whatever there is until nothing is left, in the order of their claims.
pub async fn work_off(client: &Client) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let claimed = claim_all(client, 256).await;
        if claimed.is_empty() {
            return done;
        }
        done.extend(claimed.iter().map(key_of));
        let completions = claimed.iter().map(|work| Completion::of(work).result(&b"ok"[..])).collect();
        for answer in client.complete_batch(completions).await {
            answer.unwrap();
        }
    }
}

pub async fn state(client: &Client, flow: FlowId) -> &'static str {
    client.flow(flow).await.unwrap().flow.public_state().name()
}

pub fn fan(count: usize) -> FlowSubmission {
    let mut flow = FlowSubmission::new("fan").member("source", work()).member("join", work());
    for at in 0..count {
        let key = format!("m{at:05}");
        flow = flow.member(key.clone(), work()).edge("source", key.clone()).edge(key, "join");
    }
    flow
}
