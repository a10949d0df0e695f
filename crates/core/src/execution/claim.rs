//! Claiming one execution: the engine has chosen it, the check here decides, and the reply is all a worker needs.

use super::check::{self, NotTaken, Want};
use super::{emit, expire, steps};
use crate::command::{Claim, Payload, Principal};
use crate::error::Rejection;
use crate::event::Fact;
use crate::flow::{damaged, inputs};
use crate::id::{ExecutionId, LeaseId};
use crate::limits::{LEASE_MS_MAX, LEASE_MS_MIN, WORKER_MAX};
use crate::record::attempt::{AttemptKind, Episode, Failure};
use crate::record::execution::{Holds, Lease, Next, Outcome, State, Waited};
use crate::record::{Attempt, Execution, Key};
use crate::reply::{ChildOutcome, ChildrenOutcome, Claimed, Expired, Reply};
use crate::schema::{PartMask, attempt as attempt_schema, execution as schema};
use crate::text::{Text, check_printable, check_range};
use crate::time::Time;
use crate::tx::{Stop, Tx};
use bytes::Bytes;

pub fn validate(cmd: &Claim) -> Result<(), Rejection> {
    check_range("lease_ms", cmd.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
    check_printable("worker", &cmd.worker, WORKER_MAX)?;
    check_printable("instance", &cmd.instance, WORKER_MAX)
}

/// Leases the execution. One whose deadline is due is expired in this commit instead: the reply is then
/// `Expired(Fired)`, because a refusal could not have changed it, and the engine goes on to the next candidate.
pub fn claim(tx: &mut Tx<'_>, who: &Principal, cmd: &Claim) -> Result<Reply, Stop> {
    let now = tx.now();
    let key = Key::Execution(cmd.id);
    let mut execution = match tx.execution(cmd.id, PartMask::NONE) {
        Err(Stop::Miss) => {
            // Asked for with what the reply carries, so that one load is enough.
            tx.prefetch(key, PartMask::of(schema::INPUT).with(PartMask::of(schema::CHECKPOINT)));
            return Err(Stop::Miss);
        }
        found => found?,
    };
    let gate = match execution.member() {
        Some(member) => {
            let flow = tx.flow_of(member.flow)?;
            if flow.hot.building.is_some() {
                return Err(Rejection::ExecutionNotFound.into());
            }
            flow.is_gate_open()
        }
        None => true,
    };
    let want = Want { namespace: &who.namespace, kinds: cmd.kinds.as_deref(), capabilities: &cmd.capabilities };
    match check::candidate(&execution, &want, now) {
        Ok(()) if !gate => return Err(Rejection::NotClaimable { public_state: execution.public_state() }.into()),
        Ok(()) => {}
        Err(NotTaken::Namespace) => return Err(Rejection::ExecutionNotFound.into()),
        Err(NotTaken::DeadlineDue) => {
            expire::deadline(tx, execution, &Principal::engine().name)?;
            return Ok(Reply::Expired(Expired::Fired));
        }
        Err(NotTaken::NotReady | NotTaken::Kind | NotTaken::Capabilities | NotTaken::Flow) => {
            // A repeat of the call that took it gets the same lease again.
            if let Some(reference) = &cmd.claim_ref
                && let Some(claimed) = again(tx, cmd.id, reference)?
            {
                return Ok(Reply::Claimed(Box::new(claimed)));
            }
            return Err(Rejection::NotClaimable { public_state: execution.public_state() }.into());
        }
    }
    let parts = payloads(&execution);
    if !execution.loaded().covers(parts) {
        prefetch_lineage(tx, &execution);
        steps::prefetch(tx, &execution);
        execution = tx.execution(cmd.id, parts)?;
    }
    let mut lineage = lineage(tx, &execution)?;
    lineage.steps = steps::handed(tx, &execution)?;
    lineage.inputs = inputs::gather(tx, &mut execution)?;
    let reply = lease(&mut execution, cmd, lineage, (tx.generation(), now));
    let Some(open) = &execution.hot.open else {
        return Err(Rejection::internal("E5 Active has a running attempt").into());
    };
    let fact = Fact::Claimed {
        worker: cmd.worker.clone(),
        instance: cmd.instance.clone(),
        attempt: open.index,
        kind: open.kind,
        resumed: reply.1.resumed,
        expires_at: now + cmd.lease_ms,
        waited_ms: now.since(reply.0),
    };
    emit(tx, &execution, &who.name, fact);
    tx.put_execution(execution);
    Ok(Reply::Claimed(reply.1))
}

/// What an earlier claim call with this reference was given, while that lease is the current one and valid; its reply is
/// built again, with the time that is left. `None` if there is nothing to give back.
pub fn again(tx: &mut Tx<'_>, id: ExecutionId, reference: &[u8; 32]) -> Result<Option<Claimed>, Stop> {
    let now = tx.now();
    let Some(found) = tx.find_execution(id, PartMask::NONE)? else { return Ok(None) };
    let parts = payloads(&found);
    let execution = if found.loaded().covers(parts) { found } else { tx.execution(id, parts)? };
    let State::Active { lease, timeout_due, .. } = &execution.hot.state else { return Ok(None) };
    if lease.claim_ref.as_ref() != Some(reference) || lease.expires_at <= now {
        return Ok(None);
    }
    let Some(open) = &execution.hot.open else { return Ok(None) };
    let resumed = open.episodes() > 1;
    let inputs = inputs::gather(tx, &mut execution.clone())?;
    let mut lineage = Lineage { steps: steps::handed(tx, &execution)?, inputs, ..Lineage::default() };
    if let (AttemptKind::Retry, Some(of)) = (open.kind, open.previous) {
        lineage.failure = tx.find_attempt(id, of, PartMask::NONE)?.and_then(|attempt| attempt.failure);
    }
    if let Some(waited) = execution.hot.waited.as_ref().filter(|_| resumed) {
        lineage.children = Some(children_outcome(tx, waited)?);
    }
    let run = Run {
        attempt: open.index,
        attempt_kind: open.kind,
        resumed,
        timeout_left_ms: timeout_due.map(|due| due.since(now)),
    };
    let hold = Holding {
        lease: lease.id,
        generation: lease.generation,
        lease_ms: lease.lease_ms,
        expires_in_ms: lease.expires_at.since(now),
        at: now,
    };
    Ok(Some(claimed(&execution, hold, lineage, run)))
}

/// The lease as the reply tells it.
struct Holding {
    lease: LeaseId,
    generation: u64,
    lease_ms: u64,
    expires_in_ms: u64,
    at: Time,
}

/// The parts that the reply carries and that are there.
fn payloads(execution: &Execution) -> PartMask {
    let part = |part: u8, there: bool| if there { PartMask::of(part) } else { PartMask::NONE };
    part(schema::INPUT, execution.hot.input_bytes.is_some())
        .with(part(schema::CHECKPOINT, execution.hot.checkpoint.is_there()))
}

/// What the claim hands over from before it.
#[derive(Default)]
struct Lineage {
    failure: Option<Failure>,
    children: Option<ChildrenOutcome>,
    steps: steps::Handed,
    inputs: inputs::Inputs,
}

fn prefetch_lineage(tx: &mut Tx<'_>, execution: &Execution) {
    if let State::Ready { next: Next::Retry { of }, .. } = &execution.hot.state {
        tx.prefetch(Key::Attempt(execution.id, *of), PartMask::NONE);
    }
}

fn lineage(tx: &mut Tx<'_>, execution: &Execution) -> Result<Lineage, Stop> {
    let State::Ready { next, .. } = &execution.hot.state else { return Ok(Lineage::default()) };
    match (next, &execution.hot.waited) {
        (Next::Retry { of }, _) => {
            let previous = tx.find_attempt(execution.id, *of, PartMask::NONE)?;
            Ok(Lineage { failure: previous.and_then(|attempt| attempt.failure), ..Lineage::default() })
        }
        (Next::Resume, Some(waited)) => {
            Ok(Lineage { children: Some(children_outcome(tx, waited)?), ..Lineage::default() })
        }
        _ => Ok(Lineage::default()),
    }
}

/// Makes the execution Active. Returns since when it was ready, and the reply.
fn lease(
    execution: &mut Execution,
    cmd: &Claim,
    lineage: Lineage,
    (generation, now): (u64, Time),
) -> (Time, Box<Claimed>) {
    let hot = &mut execution.hot;
    hot.epoch += 1;
    let expires_at = now + cmd.lease_ms;
    let lease = Lease {
        id: cmd.lease,
        generation,
        epoch: hot.epoch,
        worker: cmd.worker.clone(),
        instance: cmd.instance.clone(),
        lease_ms: cmd.lease_ms,
        acquired_at: now,
        expires_at,
        claim_ref: cmd.claim_ref,
        session: cmd.session,
    };
    let active = State::Active { lease, timeout_due: None, cancel: None, parked: Holds::default() };
    let State::Ready { since, next, .. } = std::mem::replace(&mut hot.state, active) else {
        panic!("claim: the candidate check takes Ready only");
    };
    let resumed = next == Next::Resume;
    if !resumed {
        hot.open = Some(start_attempt(cmd, hot.attempts, next, &lineage, now));
        hot.attempts += 1;
    }
    let Some(open) = &mut hot.open else { panic!("claim: what resumes has a paused attempt") };
    open.state = crate::record::attempt::AttemptState::Running;
    open.push_episode(Episode {
        epoch: hot.epoch,
        lease: cmd.lease,
        worker: cmd.worker.clone(),
        instance: cmd.instance.clone(),
        from: now,
        to: None,
        cause: None,
    });
    let full = execution.spec.policy.attempt_timeout_ms;
    let timeout_left_ms = if resumed { open.timeout_left_ms } else { full };
    if let State::Active { timeout_due, .. } = &mut hot.state {
        *timeout_due = timeout_left_ms.map(|left| now + left);
    }
    hot.first_started_at.get_or_insert(now);
    hot.changed_at = now;
    let (attempt, attempt_kind) = (open.index, open.kind);
    let hold = Holding { lease: cmd.lease, generation, lease_ms: cmd.lease_ms, expires_in_ms: cmd.lease_ms, at: now };
    let claimed = claimed(execution, hold, lineage, Run { attempt, attempt_kind, resumed, timeout_left_ms });
    (since, Box::new(claimed))
}

struct Run {
    attempt: u32,
    attempt_kind: AttemptKind,
    resumed: bool,
    timeout_left_ms: Option<u64>,
}

fn start_attempt(cmd: &Claim, index: u32, next: Next, lineage: &Lineage, now: Time) -> Attempt {
    let (kind, previous, why) = match next {
        Next::First | Next::Resume => (AttemptKind::Initial, None, None),
        Next::Retry { of } => {
            let category = lineage.failure.as_ref().map(|failure| failure.category.clone());
            (AttemptKind::Retry, Some(of), category)
        }
        Next::Reclaim { of, cause } => (AttemptKind::Reclaim, Some(of), Some(Text::from(cause.name()))),
        Next::Replay { of, by, reason } => (AttemptKind::Replay, of, Some(Text::from(format!("{by}: {reason}")))),
    };
    Attempt::start(cmd.id, index, kind, previous, why, now)
}

fn claimed(execution: &Execution, hold: Holding, lineage: Lineage, run: Run) -> Claimed {
    let (spec, hot) = (&execution.spec, &execution.hot);
    Claimed {
        id: execution.id,
        namespace: spec.namespace.clone(),
        lane: spec.lane.clone(),
        kind: spec.kind.clone(),
        priority: hot.priority,
        tags: execution.tags().clone(),
        trace: spec.trace.clone(),
        input: if hot.input_bytes.is_some() { execution.input().cloned() } else { None },
        content_type: spec.content_type.clone(),
        lease: hold.lease,
        generation: hold.generation,
        epoch: hot.epoch,
        lease_ms: hold.lease_ms,
        expires_in_ms: hold.expires_in_ms,
        at: hold.at,
        attempt: run.attempt,
        attempt_kind: run.attempt_kind,
        resumed: run.resumed,
        previous_failure: lineage.failure,
        timeout_left_ms: run.timeout_left_ms,
        deadline_at: hot.deadline_at,
        retries_left: spec.policy.retry.max_retries.saturating_sub(hot.retries_used),
        checkpoint: if hot.checkpoint.is_there() { execution.checkpoint().cloned() } else { None },
        children: lineage.children,
        steps: lineage.steps.steps,
        steps_more: lineage.steps.more,
        flow: execution.member().map(|member| (member.flow, member.key.clone())),
        inputs: lineage.inputs.given,
        inputs_missing: lineage.inputs.missing,
    }
}

/// How each child ended, with the results of those that succeeded.
fn children_outcome(tx: &mut Tx<'_>, waited: &Waited) -> Result<ChildrenOutcome, Stop> {
    let mut missing = false;
    let mut ends = Vec::with_capacity(waited.children.len());
    for id in waited.children.iter() {
        let end = match tx.find_execution(*id, PartMask::NONE) {
            Ok(Some(child)) => match child.hot.state {
                State::Done { outcome, attempt, .. } => Some((outcome, attempt)),
                _ => None,
            },
            // Of a member that was given up, or purged before its flow, there is how it ended.
            Ok(None) | Err(Stop::Rejected(_)) => match damaged::stone(tx, *id) {
                Ok(stone) => stone.map(|stone| (stone.body.outcome, None)),
                Err(Stop::Miss) => {
                    missing = true;
                    None
                }
                Err(stop) => return Err(stop),
            },
            Err(Stop::Miss) => {
                missing = true;
                None
            }
        };
        ends.push((*id, end));
    }
    let mut children = Vec::with_capacity(ends.len());
    for (id, end) in ends {
        let result = match end {
            Some((Outcome::Success, attempt)) => match result(tx, id, attempt) {
                Err(Stop::Miss) => {
                    missing = true;
                    None
                }
                found => found?,
            },
            _ => None,
        };
        children.push(ChildOutcome { id, outcome: end.map(|(outcome, _)| outcome), result });
    }
    if missing { Err(Stop::Miss) } else { Ok(ChildrenOutcome { verdict: waited.verdict, children }) }
}

/// The result of a success: that of its attempt, or what an operator gave if none was open.
pub(crate) fn result(tx: &mut Tx<'_>, id: ExecutionId, attempt: Option<u32>) -> Result<Option<Payload>, Stop> {
    Ok(match attempt {
        Some(index) => tx
            .find_attempt(id, index, PartMask::of(attempt_schema::RESULT))?
            .and_then(|attempt| payload(attempt.result(), &attempt.content_type)),
        None => tx.find_execution(id, PartMask::of(schema::RESULT))?.and_then(|child| {
            child.forced_result().and_then(|forced| payload(forced.bytes.as_ref(), &forced.content_type))
        }),
    })
}

fn payload(bytes: Option<&Bytes>, content_type: &Option<Text>) -> Option<Payload> {
    bytes.map(|bytes| Payload { bytes: bytes.clone(), content_type: content_type.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, When};
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::record::execution::Checkpoint;
    use crate::text::Capabilities;

    #[test]
    fn ex_34_one_load_brings_everything_for_a_first_attempt() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.input = Some("work".into()));
        let claimed = world.claim(id);
        assert_eq!((claimed.input, world.loads), (Some("work".into()), 1));
        assert_eq!((claimed.attempt, claimed.attempt_kind, claimed.retries_left), (0, AttemptKind::Initial, 3));
    }

    #[test]
    fn ex_34_a_retry_brings_the_failure_before_it_and_the_checkpoint() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.input = Some("work".into()));
        let fence = fence(&world.claim(id));
        let progress = crate::command::Progress {
            id,
            fence: Some(fence),
            percent: None,
            message: None,
            checkpoint: Some("half".into()),
            renew_ms: None,
        };
        world.at(10).run(Command::Progress(progress)).unwrap();
        world.run(fail(id, fence)).unwrap();
        world.at(1_010).scan();
        let claimed = world.claim(id);
        assert_eq!(world.loads, 2, "the execution, then the attempt before");
        assert_eq!(claimed.previous_failure.map(|failure| failure.category), Some("application".into()));
        let checkpoint = Checkpoint { bytes: "half".into(), attempt: 0, at: Time::from_ms(10), content_type: None };
        assert_eq!(claimed.checkpoint, Some(checkpoint), "EX-40");
        assert_eq!((claimed.attempt, claimed.retries_left), (1, 2));
    }

    #[test]
    fn ex_31_only_what_is_ready_and_matches_is_taken() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.capabilities = Capabilities::new(["gpu"]).unwrap());
        let code = |reply: Result<Reply, Rejection>| reply.unwrap_err().code();
        assert_eq!(code(world.try_claim(id, |_| {})), "not_claimable");
        assert_eq!(code(world.try_claim(id, |cmd| cmd.lease_ms = 99)), "invalid_argument", "EX-35");
        assert_eq!(code(world.try_claim(id, |cmd| cmd.worker = "".into())), "invalid_argument");
        let gpu = |cmd: &mut Claim| cmd.capabilities = Capabilities::new(["gpu", "big"]).unwrap();
        let other_kind = world.try_claim(id, |cmd| {
            gpu(cmd);
            cmd.kinds = Some(["other".into()].into());
        });
        assert_eq!(code(other_kind), "not_claimable");
        assert!(world.try_claim(id, gpu).is_ok());
        assert_eq!(code(world.try_claim(id, gpu)), "not_claimable");
    }

    #[test]
    fn ex_31_a_due_deadline_is_expired_instead() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.deadline = Some(When::InMs(1_000)));
        world.at(1_000);
        assert_eq!(world.try_claim(id, |_| {}), Ok(Reply::Expired(Expired::Fired)));
        assert_eq!(world.execution(id).public_state().name(), "expired");
        assert_eq!(world.facts(), ["submitted", "finished"]);
    }

    #[test]
    fn ex_36_a_repeat_is_given_what_its_lease_holds() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.input = Some("work".into()));
        let reference = [7; 32];
        let first = world.try_claim(id, |cmd| cmd.claim_ref = Some(reference));
        let Ok(Reply::Claimed(first)) = first else { panic!("claimed") };
        let again = |world: &mut World, reference| world.claim_again(id, &reference);
        let repeat = again(world.at(10_000), reference).expect("the same lease");
        assert_eq!(repeat, Claimed { expires_in_ms: 20_000, at: Time::from_ms(10_000), ..*first });
        assert_eq!(again(&mut world, [8; 32]), None);
        assert_eq!(again(world.at(30_000), reference), None, "a lease that ran out is not given again");
    }
}
