//! The verbs of the registry: each is a command on the record of one process, and what follows from it on this node.

use super::enter::enter;
use super::leases::{self, indexed};
use super::roster::{self, Offer, Standing, Stirred};
use super::*;
use crate::client::Urgency;
use crate::engine::Shared;
use crate::notices::Told;
use crate::place;
use crate::request::{Claim, not_empty};
use crate::runtime;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_core::PartitionId;
use weft_core::command::{
    BeatWorker, Call, Command, DeregisterWorker, DrainWorker, MarkWorkerDead, Principal, RegisterWorker, Renew,
    UndrainWorker,
};
use weft_core::error::{Class, Rejection};
use weft_core::execution::check;
use weft_core::record::Key;
use weft_core::record::execution::State as ExecutionState;
use weft_core::reply::Reply;
use weft_core::text::{Capabilities, check_range, check_token};

/// Calls of one heartbeat that go to the partitions together.
const CALLS_AT_ONCE: usize = limits::BATCH_ITEMS_MAX;
const LOOKED_UP_MAX: usize = limits::HOLDING_MAX;
/// Longest delay of a claim for the registration of its process, which this node does not know.
const REGISTRY_WAIT_MS: u64 = 500;

/// What a claim may do.
pub(crate) enum Admitted {
    /// Take work, in the name of a session if its process has one.
    Yes {
        session: Option<u64>,
        stirred: Stirred,
        /// Fills in for what the claim leaves out.
        offer: Offer,
    },
    Draining,
}

/// Judges a claim by what this node knows about its process. Reads the registry if the claim names a session that is not
/// known here, or if it leaves out what a registration on another node may fill in. Without an answer of the registry a
/// claim without a session is one of a process that is not registered. A registration that cannot be read refuses it.
pub(crate) async fn admit(shared: &Arc<Shared>, who: &Principal, claim: &Claim) -> Result<Admitted, Rejection> {
    roster::keep_fresh(shared);
    let judge = || judge(shared, who, &claim.instance, claim.session);
    let mut standing = judge()?;
    let (mut offer, mut session) = (Offer::unknown(), None);
    let is_partial = claim.lanes.is_none() || claim.kinds.is_none() || claim.capabilities.is_none();
    if matches!(standing, Standing::Unknown) && !shared.description.exclusive && is_partial {
        let read = roster::read(shared, &who.namespace, &claim.instance);
        // A partition that gives no answer delays this claim and refuses no claim: work of the others is handed out.
        let found = match runtime::timeout(&*shared.runtime, REGISTRY_WAIT_MS, read).await {
            None | Some(Err(Rejection::Unavailable { .. } | Rejection::Busy { .. })) => None,
            Some(found) => found?,
        };
        if let Some(worker) = found.filter(|worker| !matches!(worker.body.state, State::Left { .. })) {
            shared.roster.note(&shared.hub, &worker.body, shared.runtime.clock());
            (offer, session) = (Offer::of(&worker.body), worker.body.lease_session());
            standing = judge()?;
        }
    }
    if matches!(standing, Standing::LookUp) {
        let found = roster::read(shared, &who.namespace, &claim.instance).await?;
        let worker = found.ok_or(Rejection::WorkerNotFound)?;
        shared.roster.note(&shared.hub, &worker.body, shared.runtime.clock());
        if claim.session.is_some_and(|session| session != worker.body.session) {
            return Err(Rejection::InstanceSuperseded { session: worker.body.session });
        }
        offer = Offer::of(&worker.body);
        standing = judge()?;
    }
    match standing {
        // It was just read, and there are too many to remember it.
        Standing::LookUp => Ok(Admitted::Yes { session: claim.session, stirred: Stirred::NEVER, offer }),
        Standing::Unknown => Ok(Admitted::Yes { session, stirred: Stirred::NEVER, offer }),
        Standing::Draining { .. } => Ok(Admitted::Draining),
        Standing::Free { session, stirred, offer, .. } => Ok(Admitted::Yes { session, stirred, offer }),
    }
}

/// Judges a claim by what is known here, and writes that its process was seen if it is time to.
pub(crate) fn judge(
    shared: &Arc<Shared>,
    who: &Principal,
    instance: &Text,
    session: Option<u64>,
) -> Result<Standing, Rejection> {
    let standing = shared.roster.judge(&who.namespace, instance, session, shared.now())?;
    if let Standing::Draining { session, stale: true } | Standing::Free { session, stale: true, .. } = &standing {
        seen(shared, who, instance.clone(), *session);
    }
    Ok(standing)
}

/// Notes that a process is alive in this session; 0 for one without a session. Does nothing if this node does not know the
/// process in that session.
pub(crate) fn alive(shared: &Arc<Shared>, who: &Principal, instance: &Text, session: u64) {
    if shared.roster.touch(&who.namespace, instance, session, shared.now()) {
        seen(shared, who, instance.clone(), Some(session).filter(|session| *session > 0));
    }
}

/// Writes in the background that a process was seen.
fn seen(shared: &Arc<Shared>, who: &Principal, instance: Text, session: Option<u64>) {
    let (shared, namespace) = (shared.clone(), who.namespace.clone());
    shared.clone().start(async move {
        let name = place::of_worker(&shared, &namespace, &instance);
        let beat = Command::BeatWorker(BeatWorker { name, session, free: None });
        match run(&shared, &Principal::engine(), beat).await {
            Ok(_) => {}
            // It was silent for so long that its record is gone: its next claim finds it unknown.
            Err(Rejection::WorkerNotFound) => shared.roster.forget(&namespace, &instance),
            Err(rejection) => tracing::debug!(%instance, %rejection, "could not note that a worker was seen"),
        }
    });
}

/// Runs a command about one process, and remembers how it stands.
pub(super) async fn run(shared: &Shared, who: &Principal, command: Command) -> Result<Body, Rejection> {
    run_once(shared, who, command, None).await
}

async fn run_once(
    shared: &Shared,
    who: &Principal,
    command: Command,
    request_id: Option<Bytes>,
) -> Result<Body, Rejection> {
    let call = Call { principal: who.clone(), request_id, expected_revision: None, command };
    let answer = shared.run(vec![Ok(call)], Urgency::Urgent).await.pop();
    let applied = answer.ok_or_else(|| Rejection::internal("a call was not answered"))??;
    match applied.reply {
        Reply::Worker(body) => {
            // A kept reply tells how it stood then.
            if !applied.repeated {
                shared.roster.note(&shared.hub, &body, shared.runtime.clock());
            }
            Ok(*body)
        }
        other => Err(Rejection::internal(format!("unexpected reply {other:?}"))),
    }
}

pub(crate) async fn register(shared: &Shared, who: &Principal, it: Registration) -> Result<Registered, Rejection> {
    check_token("boot_id", &it.boot_id, limits::WORKER_MAX)?;
    check_token("instance", &it.instance, limits::WORKER_MAX)?;
    not_empty("lanes", &it.lanes)?;
    not_empty("kinds", &it.kinds)?;
    let command = Command::RegisterWorker(Box::new(RegisterWorker {
        name: place::of_worker(shared, &who.namespace, &it.instance),
        worker: it.worker,
        boot_id: it.boot_id,
        lanes: it.lanes.unwrap_or_default(),
        kinds: it.kinds,
        capabilities: Capabilities::new(&it.capabilities)?,
        capacity: it.capacity,
        version: it.version,
        host: it.host,
        labels: it.labels,
        ttl_ms: it.ttl_ms,
        abandon: it.abandon,
    }));
    let worker = run(shared, who, command).await?;
    if worker.owed.is_some()
        && let Err(rejection) = leases::settle_all(shared, &worker).await
    {
        // The debt is on the record: the scanner pays it.
        tracing::warn!(instance = %worker.instance, %rejection, "could not end the leases of an earlier session");
    }
    let leases = match it.abandon {
        true => Vec::new(),
        false => {
            let (held, _) = indexed(shared, &who.namespace, &worker.instance, LOOKED_UP_MAX).await?;
            let now = shared.now();
            let earlier = |execution: &&Execution| {
                let lease = execution.lease();
                lease.is_some_and(|lease| lease.expires_at > now && lease.session != Some(worker.session))
            };
            held.iter().filter(earlier).filter_map(HeldLease::of).collect()
        }
    };
    Ok(Registered { next_in_ms: worker.seen_every_ms(), worker, leases })
}

pub(crate) async fn heartbeat(shared: &Shared, who: &Principal, it: Heartbeat) -> Result<Beat, Rejection> {
    if let Some(holding) = &it.holding {
        check_range("holding", holding.len() as u64, 0, limits::HOLDING_MAX as u64)?;
    }
    if let Some(ms) = it.renew_ms {
        check_range("renew_ms", ms, limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)?;
        if it.holding.is_none() {
            return Err(Rejection::invalid("renew_ms", "renews what `holding` lists, which is missing"));
        }
    }
    let name = place::of_worker(shared, &who.namespace, &it.instance);
    let beat = Command::BeatWorker(BeatWorker { name, session: it.session, free: it.free });
    let body = run(shared, who, beat).await?;
    let mailbox = shared.hub.mailboxes.seen(&who.namespace, &it.instance, shared.now(), Some(body.ttl_ms));
    let mut reply = Beat {
        told: Told::default(),
        drain: body.state.drain().cloned(),
        next_in_ms: body.seen_every_ms(),
        state: body.state.clone(),
        renewed: Vec::new(),
        lost: Vec::new(),
        cancel: Vec::new(),
        unknown: Vec::new(),
    };
    let Some(mut holding) = it.holding else {
        reply.told = mailbox.take();
        return Ok(reply);
    };
    // Those of one partition together, so that they share its commit.
    holding.sort_by_key(|held| held.id.partition());
    match it.renew_ms {
        Some(ms) => renew(shared, who, &holding, ms, &mut reply).await,
        None => compare(shared, who, &holding, &mut reply).await?,
    }
    let listed: BTreeSet<(ExecutionId, u64)> = holding.iter().map(|held| (held.id, held.fence.epoch)).collect();
    let now = shared.now();
    let (held, _) = leases::held(shared, &body, LOOKED_UP_MAX).await?;
    let forgotten = |lease: &HeldLease| {
        lease.expires_at > now
            && now.since(lease.acquired_at) >= limits::UNKNOWN_AGE_MS
            && !listed.contains(&(lease.execution, lease.epoch))
    };
    reply.unknown = held.iter().filter_map(HeldLease::of).filter(forgotten).collect();
    // Taken last: a beat that is refused tells nothing, and must not cost what there is to tell.
    reply.told = mailbox.take();
    Ok(reply)
}

/// Renews what the process holds, one commit per partition.
async fn renew(shared: &Shared, who: &Principal, holding: &[Holding], ms: u64, reply: &mut Beat) {
    for some in holding.chunks(CALLS_AT_ONCE) {
        let calls = some.iter().map(|held| {
            let command = Command::Renew(Renew {
                id: held.id,
                fence: Some(held.fence),
                lease_ms: Some(ms),
                percent: None,
                message: None,
                checkpoint: None,
                steps: Vec::new(),
            });
            Ok(Call { principal: who.clone(), request_id: None, expected_revision: None, command })
        });
        let answers = shared.run(calls.collect(), Urgency::Urgent).await;
        for (held, answer) in some.iter().zip(answers) {
            match answer.map(|applied| applied.reply) {
                Ok(Reply::Renewed(renewed)) => {
                    reply.renewed.push((held.id, renewed.expires_in_ms));
                    if let Some(cancel) = renewed.cancel {
                        let (reason, kill_in_ms) = (cancel.reason, cancel.kill_in_ms);
                        let epoch = held.fence.epoch;
                        reply.cancel.push(CancelledLease { execution: held.id, epoch, reason, kill_in_ms });
                    }
                }
                Ok(_) => {}
                Err(rejection) => reply.lost.extend(lost(held, &rejection)),
            }
        }
    }
}

/// Looks at what the process holds, without writing.
async fn compare(shared: &Shared, who: &Principal, holding: &[Holding], reply: &mut Beat) -> Result<(), Rejection> {
    let now = shared.now();
    let mut places: BTreeMap<PartitionId, Vec<Key>> = BTreeMap::new();
    for held in holding {
        if place::of_id(shared, held.id).is_ok() {
            places.entry(held.id.partition()).or_default().push(Key::Execution(held.id));
        }
    }
    let mut found: BTreeMap<ExecutionId, Execution> = BTreeMap::new();
    for (partition, keys) in places {
        let executions = leases::read(shared, partition, keys).await?;
        found.extend(executions.into_iter().map(|execution| (execution.id, execution)));
    }
    for held in holding {
        let execution = found.get(&held.id).filter(|execution| execution.spec.namespace == who.namespace);
        let checked = match execution {
            Some(execution) => check::holder(execution, held.fence, now).map(|()| execution),
            None => Err(Rejection::ExecutionNotFound),
        };
        match checked {
            Err(rejection) => reply.lost.extend(lost(held, &rejection)),
            Ok(execution) => {
                if let ExecutionState::Active { cancel: Some(cancel), .. } = &execution.hot.state {
                    reply.cancel.push(CancelledLease {
                        execution: held.id,
                        epoch: held.fence.epoch,
                        reason: cancel.reason.clone(),
                        kill_in_ms: cancel.kill_at.map(|at| at.since(now)),
                    });
                }
            }
        }
    }
    Ok(())
}

/// How a lease was lost; `None` if nobody can say now whether it was.
fn lost(held: &Holding, rejection: &Rejection) -> Option<LostLease> {
    let cause: Text = match rejection {
        Rejection::LeaseExpired { .. } => "expired".into(),
        Rejection::LeaseRevoked { reason, .. } if **reason == *"drained" => "drained".into(),
        Rejection::LeaseRevoked { .. } => "revoked".into(),
        Rejection::LeaseLost { cause, .. } => cause.name().into(),
        other if other.class() == Class::Later => return None,
        other => other.code().into(),
    };
    Some(LostLease { execution: held.id, epoch: held.fence.epoch, cause })
}

/// Answers how many leases were given to others at once.
pub(crate) async fn deregister(
    shared: &Shared,
    who: &Principal,
    instance: &Text,
    session: Option<u64>,
    request_id: Option<Bytes>,
) -> Result<u32, Rejection> {
    let name = place::of_worker(shared, &who.namespace, instance);
    let command = Command::DeregisterWorker(DeregisterWorker { name, session });
    let worker = run_once(shared, who, command, request_id).await?;
    leases::settle_all(shared, &worker).await
}

/// Answers how many leases were given to others at once.
pub(crate) async fn mark_dead(
    shared: &Shared,
    who: &Principal,
    instance: &Text,
    reason: Text,
) -> Result<u32, Rejection> {
    let name = place::of_worker(shared, &who.namespace, instance);
    let command = Command::MarkWorkerDead(MarkWorkerDead { name, reason });
    let worker = entered(shared, who, instance, command).await?;
    leases::settle_all(shared, &worker).await
}

/// Answers which processes were told.
pub(crate) async fn drain(
    shared: &Shared,
    who: &Principal,
    target: WorkerTarget,
    reason: Text,
    deadline_ms: Option<u64>,
) -> Result<Vec<Text>, Rejection> {
    tell(shared, who, target, |name| Command::DrainWorker(DrainWorker { name, reason: reason.clone(), deadline_ms }))
        .await
}

/// Answers which processes were told.
pub(crate) async fn undrain(shared: &Shared, who: &Principal, target: WorkerTarget) -> Result<Vec<Text>, Rejection> {
    tell(shared, who, target, |name| Command::UndrainWorker(UndrainWorker { name })).await
}

/// Runs a command about each process that is meant. One that is named is answered as it is; of several, those that are
/// dead or gone are passed.
async fn tell(
    shared: &Shared,
    who: &Principal,
    target: WorkerTarget,
    command: impl Fn(weft_core::command::WorkerName) -> Command,
) -> Result<Vec<Text>, Rejection> {
    let name = |instance: &Text| place::of_worker(shared, &who.namespace, instance);
    let mut filter = WorkerFilter { limit: Some(limits::LIST_LIMIT_MAX), ..WorkerFilter::default() };
    match target {
        WorkerTarget::Instance(instance) => {
            entered(shared, who, &instance, command(name(&instance))).await?;
            return Ok(vec![instance]);
        }
        WorkerTarget::Worker(worker) => filter.worker = Some(worker),
        WorkerTarget::Version(version) => filter.version = Some(version),
        WorkerTarget::Label(key, value) => filter.label = Some((key, value)),
    }
    let mut told = Vec::new();
    loop {
        let page = super::list(shared, who, &filter).await?;
        for body in page.workers {
            match entered(shared, who, &body.instance, command(name(&body.instance))).await {
                Ok(_) => told.push(body.instance),
                Err(Rejection::WorkerDead { .. } | Rejection::WorkerNotFound) => {}
                Err(rejection) => return Err(rejection),
            }
        }
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => return Ok(told),
        }
    }
}

/// Runs a command about a process. One whose first claim came in just now is entered first.
async fn entered(shared: &Shared, who: &Principal, instance: &Text, command: Command) -> Result<Body, Rejection> {
    match run(shared, who, command.clone()).await {
        Err(Rejection::WorkerNotFound) => {}
        answer => return answer,
    }
    let seen = shared.hub.worker(&who.namespace, instance, shared.now()).ok_or(Rejection::WorkerNotFound)?;
    enter(shared, &who.namespace, instance, &seen).await?;
    run(shared, who, command).await
}
