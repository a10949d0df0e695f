//! Calls with everything a test does not care about filled in.

use super::{PARTITION, World};
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::command::*;
use weft_core::error::Rejection;
use weft_core::id::ExecutionId;
use weft_core::record::Key;
use weft_core::record::api_key::{Attributes, Mac, Reach};
use weft_core::record::execution::{Jitter, Policy, Retry};
use weft_core::record::worker::Body;
use weft_core::reply::{Claimed, Reply};
use weft_core::text::Capabilities;

pub fn ann() -> Principal {
    Principal::all("shop", "ann")
}

pub fn call(command: Command) -> Call {
    Call { principal: ann(), request_id: None, expected_revision: None, command }
}

pub fn policy() -> Policy {
    Policy { retry: Retry { jitter: Jitter::None, ..Retry::default() }, ..Policy::default() }
}

pub fn submit() -> Submit {
    Submit {
        id: None,
        lane: "mail".into(),
        kind: "send".into(),
        input: None,
        content_type: None,
        priority: None,
        capabilities: Capabilities::default(),
        concurrency_key: None,
        start: None,
        deadline: None,
        policy: policy(),
        tags: BTreeMap::new(),
        idempotency_key: None,
        parent: None,
        outside: false,
        uncritical: false,
        trace: None,
    }
}

pub fn fence(claimed: &Claimed) -> Fence {
    Fence { lease: claimed.lease, epoch: claimed.epoch }
}

pub fn complete(id: ExecutionId, fence: Fence, result: Option<&'static [u8]>) -> Command {
    let result = result.map(Bytes::from_static);
    Command::Complete(Complete { id, fence: Some(fence), result, content_type: None, steps: Vec::new() })
}

pub fn fail(id: ExecutionId, fence: Fence) -> Command {
    Command::Fail(Fail {
        id,
        fence: Some(fence),
        category: "application".into(),
        message: "no luck".into(),
        detail: None,
        retry: RetryWish::Policy,
        steps: Vec::new(),
        entropy: 0,
    })
}

pub fn renew(id: ExecutionId, fence: Fence) -> Command {
    Command::Renew(renewal(id, fence))
}

pub fn renewal(id: ExecutionId, fence: Fence) -> Renew {
    let fence = Some(fence);
    Renew { id, fence, lease_ms: None, percent: None, message: None, checkpoint: None, steps: Vec::new() }
}

pub fn step(name: &str, bytes: &[u8]) -> Step {
    Step { name: name.into(), bytes: Bytes::copy_from_slice(bytes), content_type: None }
}

pub fn record(id: ExecutionId, fence: Fence, steps: Vec<Step>) -> Command {
    Command::RecordSteps(RecordSteps { id, fence: Some(fence), steps })
}

pub fn delay(id: ExecutionId, fence: Fence, ms: u64) -> Command {
    Command::Delay(Delay { id, fence: Some(fence), until: When::InMs(ms), checkpoint: None, steps: Vec::new() })
}

pub fn wait(id: ExecutionId, fence: Fence, children: Option<Vec<ExecutionId>>) -> WaitChildren {
    WaitChildren { id, fence: Some(fence), children, rule: ChildrenRule::AllOf, timeout_ms: None, checkpoint: None }
}

pub fn cancel(id: ExecutionId) -> Cancel {
    Cancel { id, fence: None, reason: "no longer needed".into(), mode: CancelMode::Immediate, cascade: true }
}

pub fn hold(id: ExecutionId) -> Command {
    Command::Hold(Hold { id, reason: "look first".into(), revoke: false })
}

pub fn replay(id: ExecutionId) -> Replay {
    let steps = Steps::Clear;
    Replay {
        id,
        reason: "again".into(),
        deadline: DeadlineWish::Keep,
        delay_ms: None,
        priority: None,
        steps,
        downstream: Downstream::Reopen,
        ignore_dependencies: false,
    }
}

pub fn force_fail(id: ExecutionId) -> Command {
    Command::ForceFail(ForceFail { id, message: "stop it".into(), reason: "broken".into() })
}

impl World {
    pub fn run(&mut self, command: Command) -> Result<Reply, Rejection> {
        self.call(&call(command))
    }

    pub fn submit(&mut self, change: impl FnOnce(&mut Submit)) -> ExecutionId {
        let id = self.fresh_id();
        let mut cmd = submit();
        change(&mut cmd);
        cmd.id = Some(id);
        match self.run(Command::Submit(Box::new(cmd))) {
            Ok(Reply::Submitted(submitted)) => submitted.id,
            other => panic!("submit: {other:?}"),
        }
    }

    pub fn try_claim(&mut self, id: ExecutionId, change: impl FnOnce(&mut Claim)) -> Result<Reply, Rejection> {
        let mut cmd = Claim {
            id,
            lease: self.fresh_lease(),
            worker: "pool".into(),
            instance: "pool-1".into(),
            lease_ms: 30_000,
            kinds: None,
            capabilities: Capabilities::default(),
            claim_ref: None,
            session: None,
        };
        change(&mut cmd);
        self.run(Command::Claim(cmd))
    }

    pub fn claim(&mut self, id: ExecutionId) -> Claimed {
        match self.try_claim(id, |_| {}) {
            Ok(Reply::Claimed(claimed)) => *claimed,
            other => panic!("claim: {other:?}"),
        }
    }

    pub fn claim_as(&mut self, id: ExecutionId, worker: &str, lease_ms: u64) -> Claimed {
        let claimed = self.try_claim(id, |cmd| {
            cmd.worker = worker.into();
            cmd.lease_ms = lease_ms;
        });
        match claimed {
            Ok(Reply::Claimed(claimed)) => *claimed,
            other => panic!("claim: {other:?}"),
        }
    }

    /// An id of this partition that names nothing.
    pub fn unknown(&self) -> ExecutionId {
        ExecutionId::new(PARTITION, uuid::Uuid::from_u128(u128::MAX))
    }
}

pub fn worker_name(instance: &str) -> WorkerName {
    WorkerName { partition: PARTITION, namespace: ann().namespace, instance: instance.into() }
}

pub fn worker_key(instance: &str) -> Key {
    worker_name(instance).key()
}

pub fn register_worker(instance: &str, boot_id: &str) -> Command {
    Command::RegisterWorker(Box::new(RegisterWorker {
        name: worker_name(instance),
        worker: "mailer".into(),
        boot_id: boot_id.into(),
        lanes: vec!["mail".into()],
        kinds: None,
        capabilities: Capabilities::default(),
        capacity: Some(4),
        version: Some("1.2".into()),
        host: None,
        labels: BTreeMap::from([("zone".into(), "a".into())]),
        ttl_ms: 60_000,
        abandon: true,
    }))
}

pub fn beat_worker(instance: &str, session: Option<u64>) -> Command {
    Command::BeatWorker(BeatWorker { name: worker_name(instance), session, free: None })
}

pub fn deregister_worker(instance: &str, session: Option<u64>) -> Command {
    Command::DeregisterWorker(DeregisterWorker { name: worker_name(instance), session })
}

pub fn drain_worker(instance: &str, deadline_ms: Option<u64>) -> Command {
    Command::DrainWorker(DrainWorker { name: worker_name(instance), reason: "deploy".into(), deadline_ms })
}

pub fn undrain_worker(instance: &str) -> Command {
    Command::UndrainWorker(UndrainWorker { name: worker_name(instance) })
}

pub fn mark_dead_worker(instance: &str) -> Command {
    Command::MarkWorkerDead(MarkWorkerDead { name: worker_name(instance), reason: "gone".into() })
}

/// The worker process that a reply tells about.
pub fn worker(reply: Result<Reply, Rejection>) -> Body {
    match reply {
        Ok(Reply::Worker(body)) => *body,
        other => panic!("not a worker: {other:?}"),
    }
}
/// A key on the namespace `shop` that may submit and work.
pub fn new_key(id: &str, name: &str) -> CreateKey {
    CreateKey {
        id: id.parse().expect("an id of a key"),
        mac: Mac([1; 32]),
        name: name.into(),
        scopes: Scopes::SUBMIT.with(Scopes::WORK),
        namespaces: Reach::Some(std::sync::Arc::new(["shop".into()])),
        attributes: Attributes::default(),
        expires_at: None,
        only_if_none: false,
    }
}

pub fn create_key(id: &str, name: &str) -> Command {
    Command::CreateKey(Box::new(new_key(id, name)))
}

pub fn rotate_key(id: &str, overlap_ms: Option<u64>) -> Command {
    Command::RotateKey(RotateKey { id: id.parse().expect("an id of a key"), mac: Mac([2; 32]), overlap_ms })
}
