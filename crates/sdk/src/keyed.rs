//! The key that makes a repeat of a call harmless. Minted where the caller gave none, so that every call may be sent
//! again. Calls that a lease protects need none: the server knows a repeat by the fence.

use crate::world::World;
use std::collections::BTreeSet;
use std::time::Duration;
use weft_api::{Args, Call, Item, Reply};

/// Submissions of a call whose keys were minted here.
#[derive(Default)]
pub struct Minted(BTreeSet<usize>);

impl Minted {
    /// Nobody else has a minted key. If it was bound already, it was by an earlier try of the same call, whose reply was
    /// lost; to the caller that is no duplicate.
    pub fn own(&self, reply: &mut Reply) {
        match reply {
            Reply::SubmitExecution(submitted) if self.0.contains(&0) => submitted.duplicate = false,
            Reply::SubmitFlow(submitted) if self.0.contains(&0) => submitted.duplicate = false,
            Reply::SubmitExecutions(reply) => {
                for index in &self.0 {
                    if let Some(Item::Ok(submitted)) = reply.results.get_mut(*index) {
                        submitted.duplicate = false;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Gives the call, or each item of a batch, a key if it has none.
pub fn mint(call: &mut Call, world: &World) -> Minted {
    let mut minted = Minted::default();
    match call {
        Call::SubmitExecution(args) if args.body.idempotency_key.is_none() && args.idempotency_key.is_none() => {
            minted.0.insert(0);
            header(args, world);
        }
        Call::SubmitFlow(args) if args.body.idempotency_key.is_none() && args.idempotency_key.is_none() => {
            minted.0.insert(0);
            header(args, world);
        }
        Call::SubmitExecutions(args) => {
            // What is in braces decides where they are kept: all of one batch go together, and cost one commit.
            let batch = world.fresh();
            for (index, item) in args.body.items.iter_mut().enumerate() {
                if item.idempotency_key.is_none() {
                    minted.0.insert(index);
                    item.idempotency_key = Some(format!("{{{batch}}}{index}"));
                }
            }
        }
        Call::CancelExecutions(args) => {
            let items = args.body.items.iter_mut();
            items.for_each(|item| fill(&mut item.request_id, world));
        }
        Call::SpawnChildren(args) => {
            let items = args.body.items.iter_mut();
            items.for_each(|item| fill(&mut item.idempotency_key, world));
        }
        Call::Claim(args) => beside(args, |body| &mut body.request_id, world),
        Call::CancelExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::ReplayExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::RescheduleExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::SetPriority(args) => beside(args, |body| &mut body.request_id, world),
        Call::SetTags(args) => beside(args, |body| &mut body.request_id, world),
        Call::HoldExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::ReleaseExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::RevokeExecution(args) => beside(args, |body| &mut body.request_id, world),
        Call::ForceComplete(args) => beside(args, |body| &mut body.request_id, world),
        Call::ForceFail(args) => beside(args, |body| &mut body.request_id, world),
        Call::AddMembers(args) => beside(args, |body| &mut body.request_id, world),
        Call::AddEdges(args) => beside(args, |body| &mut body.request_id, world),
        Call::SealFlow(args) => beside(args, |body| &mut body.request_id, world),
        Call::FinishFlow(args) => beside(args, |body| &mut body.request_id, world),
        Call::CancelFlow(args) => beside(args, |body| &mut body.request_id, world),
        Call::ChangeFlow(args) => beside(args, |body| &mut body.request_id, world),
        Call::ReplayFlow(args) => beside(args, |body| &mut body.request_id, world),
        Call::PurgeFlow(args) => header(args, world),
        Call::CreateKey(args) => beside(args, |body| &mut body.request_id, world),
        Call::ChangeKey(args) => beside(args, |body| &mut body.request_id, world),
        Call::StartBulk(args) => beside(args, |body| &mut body.request_id, world),
        Call::StopBulk(args) => beside(args, |body| &mut body.request_id, world),
        Call::PurgeExecution(args) => header(args, world),
        Call::RotateKey(args) => header(args, world),
        Call::RevokeKey(args) => header(args, world),
        Call::DrainWorkers(args) => beside(args, |body| &mut body.request_id, world),
        Call::UndrainWorkers(args) => beside(args, |body| &mut body.request_id, world),
        Call::MarkWorkerDead(args) => beside(args, |body| &mut body.request_id, world),
        Call::DrainNode(args) => beside(args, |body| &mut body.request_id, world),
        _ => {}
    }
    minted
}

fn fill(key: &mut Option<String>, world: &World) {
    key.get_or_insert_with(|| world.fresh());
}

fn header<P, Q, B>(args: &mut Args<P, Q, B>, world: &World) {
    fill(&mut args.idempotency_key, world);
}

/// In the body, unless the header has one already.
fn beside<P, Q, B>(args: &mut Args<P, Q, B>, field: fn(&mut B) -> &mut Option<String>, world: &World) {
    if args.idempotency_key.is_none() {
        fill(field(&mut args.body), world);
    }
}

/// How long the call asks the server to wait before it answers.
pub fn wait_of(call: &Call) -> Duration {
    let ms = match call {
        Call::GetExecution(args) => args.query.wait_ms,
        Call::GetResult(args) => args.query.wait_ms,
        Call::GetFlow(args) => args.query.wait_ms,
        Call::CancelFlow(args) => args.body.wait_ms,
        Call::ReplayFlow(args) => args.body.wait_ms,
        Call::Claim(args) => args.body.wait_ms,
        _ => None,
    };
    Duration::from_millis(ms.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_api::execution::{Replay, Submit, SubmitBatch};
    use weft_api::flow::{FlowSubmitted, PublicFlowState};
    use weft_api::{Operation, op};

    fn minted<O: Operation>(args: Args<O::Path, O::Query, O::Body>) -> Call {
        let mut call = O::call(args);
        mint(&mut call, &World::of_system());
        call
    }

    #[test]
    fn sdk_3_a_changing_call_gets_a_key_and_keeps_its_own() {
        let Call::SubmitExecution(args) = minted::<op::SubmitExecution>(Args::default()) else { panic!() };
        assert_eq!(args.idempotency_key.map(|key| key.len()), Some(32));
        let body = Submit { idempotency_key: Some("order-17".into()), ..Submit::default() };
        let Call::SubmitExecution(args) = minted::<op::SubmitExecution>(Args { body, ..Args::default() }) else {
            panic!()
        };
        assert_eq!((args.idempotency_key, args.body.idempotency_key.as_deref()), (None, Some("order-17")));
        let mut given = Args::<_, _, Replay> { path: ["x".to_string()], ..Args::default() };
        given.idempotency_key = Some("mine".into());
        let Call::ReplayExecution(args) = minted::<op::ReplayExecution>(given) else { panic!() };
        assert_eq!((args.idempotency_key.as_deref(), args.body.request_id), (Some("mine"), None));
    }

    #[test]
    fn sdk_3_a_flow_under_a_minted_key_is_no_duplicate() {
        let mut call = op::SubmitFlow::call(Args::default());
        let minted = mint(&mut call, &World::of_system());
        let Call::SubmitFlow(args) = call else { panic!() };
        assert!(args.idempotency_key.is_some());
        let submitted = FlowSubmitted {
            id: "f".into(),
            members: Default::default(),
            revision: 1,
            public_flow_state: PublicFlowState::Open,
            duplicate: true,
            purged: false,
        };
        let mut reply = Reply::SubmitFlow(submitted);
        minted.own(&mut reply);
        let Reply::SubmitFlow(submitted) = reply else { panic!() };
        assert!(!submitted.duplicate, "the reply to an earlier try of the same call was lost");
    }

    #[test]
    fn sdk_3_each_item_of_a_batch_gets_a_key_of_its_own() {
        let body = SubmitBatch { items: vec![Submit::default(), Submit::default()], atomic: false };
        let Call::SubmitExecutions(args) = minted::<op::SubmitExecutions>(Args { body, ..Args::default() }) else {
            panic!()
        };
        assert_eq!(args.idempotency_key, None, "a batch has no key of its own");
        let keys: Vec<_> = args.body.items.iter().map(|item| item.idempotency_key.clone().unwrap()).collect();
        assert_ne!(keys[0], keys[1]);
    }
}
