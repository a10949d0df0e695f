//! Why an execution is not running. Uses the claim's own candidate check, so that the two cannot disagree.

mod behind;
mod member;
mod workers;

pub use member::{Ended, Membership};

use crate::engine::Shared;
use crate::flow;
use crate::reads;
use crate::request::ClaimSpec;
use crate::worker::{Ability, Taker};
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::record::execution::{
    Cancel, ChildrenHold, EndCause, Hold, Holds, LastLease, Outcome, Progress, PublicState, Reason, State, Why,
};
use weft_core::record::trouble::{Failing, GivenUp};
use weft_core::record::{Execution, Key, Record};
use weft_core::schema::{self, PartMask};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, ParkedId, PartitionId, Time};

/// All reasons that apply, in order, and when the first of them clears by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub public_state: PublicState,
    pub at: Time,
    pub running: bool,
    pub reasons: Vec<Obstacle>,
    /// Of a member of a flow.
    pub member: Option<Membership>,
    pub next_time: Option<Time>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Done {
        outcome: Outcome,
        reason: Reason,
        by: Text,
        at: Time,
        attempt: Option<u32>,
        /// Category and message, if it ended without success and its record is there.
        failure: Option<(Text, Text)>,
        /// Of a member that a group ended.
        ended: Option<Ended>,
        /// The state of the flow that it is a member of, if that takes no replays.
        closed: Option<&'static str>,
    },
    Running {
        worker: Text,
        instance: Text,
        epoch: u64,
        attempt: u32,
        expires_at: Time,
        progress: Option<Progress>,
    },
    CancelRequested {
        reason: Text,
        by: Text,
        kill_at: Option<Time>,
    },
    /// The lease has lapsed; the engine requeues it.
    RequeueDue {
        lapsed_at: Time,
    },
    OperatorHold {
        by: Text,
        reason: Text,
        at: Time,
    },
    Children {
        total: u32,
        /// Those that have not ended, and the first of them.
        waiting: u32,
        unfinished: Vec<ExecutionId>,
        /// How many of all must succeed, and how many have.
        needed: u32,
        met: u32,
        timeout_at: Option<Time>,
    },
    /// Edges that lead to a member of a flow.
    Dependencies {
        /// False: more edges may come, and nothing starts before they are known.
        sealed: bool,
        pending: u32,
        /// The first upstreams that have not ended: key, id and, if it can be read, state.
        upstreams: Vec<(Text, ExecutionId, Option<PublicState>)>,
        /// Name and verdict of each group.
        groups: Vec<(Text, &'static str)>,
    },
    /// Its flow lets nobody start.
    Flow {
        flow: FlowId,
        state: &'static str,
    },
    NotBefore {
        until: Time,
        why: Why,
        last: Option<EndCause>,
        /// If it is a retry that it waits for.
        retry: Option<Retry>,
        /// Live workers that could take it then.
        workers: usize,
    },
    DeadlineDue {
        at: Time,
    },
    NoWorker(NoWorker),
    /// That many claimable ones precede it; `exact` up to ten thousand.
    Behind {
        count: usize,
        exact: bool,
    },
    /// The next matching claim takes the execution. `worker` is the last seen process that could make it.
    Claimable {
        worker: Text,
        seen_at: Time,
        /// Whether `worker` was not seen for two thirds of its ttl.
        doubtful: bool,
    },
    Trouble {
        scanner: Text,
        fails: u32,
        next_try_at: Time,
        last_error: Text,
        /// The id of its dead letter, if it is parked.
        parked: Option<ParkedId>,
        /// Who decided that it is not tried any more, and why.
        given_up: Option<GivenUp>,
    },
}

/// A retry that is to come: the how-manieth of how many, and after which failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub number: u32,
    pub max: u32,
    /// Category and message; none if its record is gone.
    pub failure: Option<(Text, Text)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoWorker {
    NoneOnLane,
    NoneForKind,
    MissingCapabilities {
        nearest: Text,
        missing: Vec<Text>,
    },
    /// Those that fit take no more work.
    AllDraining,
    /// Those that fit had no room when they were last heard of.
    AllFull {
        /// The process that was seen last, and when, if none of them was seen for two thirds of its ttl.
        silent: Option<(Text, Time)>,
    },
    /// The workers that fit were silent too long, were marked dead, or lost the lease of this execution and were not seen
    /// since.
    AllDead {
        /// The process that was seen last, and when.
        last: Text,
        seen_at: Time,
        /// When it lost the lease of this execution.
        lost_at: Option<Time>,
    },
}

impl Obstacle {
    /// The stable word for it.
    pub const fn code(&self) -> &'static str {
        match self {
            Obstacle::Done { .. } => "done",
            Obstacle::Running { .. } => "running",
            Obstacle::CancelRequested { .. } => "cancel_requested",
            Obstacle::RequeueDue { .. } => "requeue_due",
            Obstacle::OperatorHold { .. } => "operator_hold",
            Obstacle::Children { .. } => "children",
            Obstacle::Dependencies { .. } => "dependencies",
            Obstacle::Flow { .. } => "flow",
            Obstacle::NotBefore { .. } => "not_before",
            Obstacle::DeadlineDue { .. } => "deadline_due",
            Obstacle::NoWorker(_) => "no_worker",
            Obstacle::Behind { .. } => "behind",
            Obstacle::Claimable { .. } => "claimable",
            Obstacle::Trouble { .. } => "trouble",
        }
    }

    fn clears_at(&self) -> Option<Time> {
        match self {
            Obstacle::CancelRequested { kill_at, .. } => *kill_at,
            Obstacle::Children { timeout_at, .. } => *timeout_at,
            Obstacle::NotBefore { until, .. } => Some(*until),
            _ => None,
        }
    }
}

/// Unfinished children that are named.
const CHILDREN_TOLD: usize = 20;
/// Children that are read at a time to find them, and altogether.
const CHILDREN_PAGE: usize = 100;
const CHILDREN_READ_MAX: usize = 2_000;

/// For whom it is explained.
#[derive(Clone, Copy)]
pub enum For<'a> {
    Anybody,
    /// What stands in the way of a claim is told as this worker process meets it.
    Instance(&'a Text),
    /// As a claim of this very execution meets it, which asks for no lane.
    Claim(&'a ClaimSpec),
}

pub async fn explain(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    whom: For<'_>,
) -> Result<Explanation, Rejection> {
    let execution = reads::load(shared, who, id, PartMask::NONE).await?;
    let mut takers = match whom {
        For::Instance(instance) => vec![Taker::of(crate::worker::get(shared, who, instance).await?.0)],
        _ if execution.is_done() || execution.lease().is_some() => Vec::new(),
        For::Anybody => crate::worker::takers(shared, &execution.spec.namespace).await?,
        For::Claim(spec) => vec![workers::claimer(spec, &execution, shared.now())],
    };
    let now = shared.now();
    // A process that claims is alive.
    if !takers.is_empty() && !matches!(whom, For::Claim(_)) {
        lose_holder(shared, &execution, &mut takers, now).await?;
    }
    if matches!(whom, For::Anybody) {
        workers::leave_out_dead(&execution, &mut takers);
    }
    let mut reasons = Vec::new();
    let mut running = false;
    match &execution.hot.state {
        State::Done { outcome, reason, by, at, attempt, .. } => {
            let (outcome, reason, by) = (*outcome, *reason, by.clone());
            let failure = match attempt.filter(|_| outcome != Outcome::Success) {
                Some(index) => failure_of(shared, execution.id, index).await?,
                None => None,
            };
            let ended = member::ended(shared, &execution).await?;
            let closed = member::closed(shared, &execution).await?;
            reasons.push(Obstacle::Done { outcome, reason, by, at: *at, attempt: *attempt, failure, ended, closed });
        }
        State::Active { lease, cancel, parked, .. } => {
            running = lease.expires_at > now;
            if running {
                reasons.push(Obstacle::Running {
                    worker: lease.worker.clone(),
                    instance: lease.instance.clone(),
                    epoch: lease.epoch,
                    attempt: execution.hot.attempts.saturating_sub(1),
                    expires_at: lease.expires_at,
                    progress: execution.hot.progress.clone(),
                });
            }
            reasons.extend(cancel.as_ref().map(asked_to_stop));
            if !running {
                reasons.push(Obstacle::RequeueDue { lapsed_at: lease.expires_at });
            }
            reasons.extend(held(shared, &execution, parked).await?);
        }
        State::Blocked { holds, not_before, .. } => {
            reasons.extend(held(shared, &execution, holds).await?);
            if let Some((until, why)) = not_before.filter(|(until, _)| *until > now) {
                reasons.push(waits(shared, &execution, &takers, until, why).await?);
            }
            reasons.extend(workers::none(&execution, &takers, now).map(Obstacle::NoWorker));
        }
        State::Delayed { until, why, .. } => {
            reasons.push(waits(shared, &execution, &takers, *until, *why).await?);
            reasons.extend(workers::none(&execution, &takers, now).map(Obstacle::NoWorker));
        }
        State::Ready { order, .. } => reasons.extend(ready(shared, &execution, *order, &takers, now).await?),
    }
    let trouble = execution.trouble().into_iter().flat_map(|trouble| &trouble.items);
    reasons.extend(trouble.map(|item| failing(id.partition(), item)));
    Ok(Explanation {
        public_state: execution.public_state(),
        at: now,
        running,
        member: execution.member().map(|member| Membership::of(member)),
        next_time: reasons.iter().filter_map(Obstacle::clears_at).min(),
        reasons,
    })
}

/// Notes which process lost the lease of the execution, if the last one ran out.
async fn lose_holder(shared: &Shared, execution: &Execution, takers: &mut [Taker], now: Time) -> Result<(), Rejection> {
    let last = execution.hot.last_lease.as_ref().filter(|last| last.end.cause() == EndCause::Expired);
    let (Some(last), Some(index)) = (last, execution.hot.attempts.checked_sub(1)) else { return Ok(()) };
    let Some(Record::Attempt(attempt)) =
        reads::read_one(shared, Key::Attempt(execution.id, index), schema::attempt::LIGHT).await?
    else {
        return Ok(());
    };
    let holder = attempt.leases.last().map(|episode| &episode.instance);
    takers.iter_mut().filter(|taker| Some(&taker.instance) == holder).for_each(|taker| taker.lose(last.at, now));
    Ok(())
}

fn asked_to_stop(cancel: &Cancel) -> Obstacle {
    Obstacle::CancelRequested { reason: cancel.reason.clone(), by: cancel.by.clone(), kill_at: cancel.kill_at }
}

async fn held(shared: &Shared, execution: &Execution, holds: &Holds) -> Result<Vec<Obstacle>, Rejection> {
    let mut reasons = Vec::new();
    for hold in holds.iter() {
        reasons.push(match hold {
            Hold::Operator { by, reason, at } => {
                Obstacle::OperatorHold { by: by.clone(), reason: reason.clone(), at: *at }
            }
            Hold::Dependencies { unresolved, sealed } => dependencies(shared, execution, *unresolved, *sealed).await?,
            Hold::Children(hold) => Obstacle::Children {
                total: hold.children.len() as u32,
                waiting: hold.children.len() as u32 - hold.met - hold.unmet,
                unfinished: unfinished(shared, execution, hold).await?,
                needed: hold.needed,
                met: hold.met,
                timeout_at: hold.timeout_at,
            },
        });
    }
    Ok(reasons)
}

async fn dependencies(
    shared: &Shared,
    execution: &Execution,
    pending: u32,
    sealed: bool,
) -> Result<Obstacle, Rejection> {
    let parts = schema::execution::LIGHT.with(PartMask::of(schema::execution::INLETS));
    let inlets = match reads::read_one(shared, Key::Execution(execution.id), parts).await? {
        Some(Record::Execution(execution)) => execution.inlets().clone(),
        _ => Default::default(),
    };
    let (upstreams, _) = flow::reads::standing(shared, execution.id.partition(), &inlets).await?;
    let groups = execution.member().map(|member| member.groups.as_slice()).unwrap_or_default();
    let groups = groups.iter().map(|group| (group.name.clone(), group.state.name())).collect();
    Ok(Obstacle::Dependencies { sealed, pending, upstreams, groups })
}

/// The first children that have not ended. They are in the partition of their parent.
async fn unfinished(
    shared: &Shared,
    execution: &Execution,
    hold: &ChildrenHold,
) -> Result<Vec<ExecutionId>, Rejection> {
    let mut unfinished = Vec::new();
    for ids in hold.children[..hold.children.len().min(CHILDREN_READ_MAX)].chunks(CHILDREN_PAGE) {
        let keys = ids.iter().map(|id| (Key::Execution(*id), schema::execution::LIGHT)).collect();
        let read = shared.store.read(execution.id.partition(), keys).await.map_err(reads::unavailable)?;
        for (id, found) in ids.iter().zip(read.found) {
            let Some(found) = found else { continue };
            let record = reads::decode(Key::Execution(*id), &found, schema::execution::LIGHT)?;
            if matches!(record, Record::Execution(child) if !child.is_done()) {
                unfinished.push(*id);
            }
            if unfinished.len() == CHILDREN_TOLD {
                return Ok(unfinished);
            }
        }
    }
    Ok(unfinished)
}

async fn waits(
    shared: &Shared,
    execution: &Execution,
    takers: &[Taker],
    until: Time,
    why: Why,
) -> Result<Obstacle, Rejection> {
    let last = execution.hot.last_lease.as_ref().map(|LastLease { end, .. }| end.cause());
    let retry = match why {
        Why::RetryBackoff => Some(retry(shared, execution).await?),
        Why::Start | Why::ReclaimBackoff | Why::WorkerDelay => None,
    };
    let could = |taker: &&Taker| matches!(taker.ability, Ability::Free | Ability::Full);
    let workers = workers::fitting(execution, takers).filter(could).count();
    Ok(Obstacle::NotBefore { until, why, last, retry, workers })
}

/// The last attempt says what went wrong.
async fn retry(shared: &Shared, execution: &Execution) -> Result<Retry, Rejection> {
    let failure = failure_of(shared, execution.id, execution.hot.attempts.saturating_sub(1)).await?;
    Ok(Retry { number: execution.hot.retries_used, max: execution.spec.policy.retry.max_retries, failure })
}

/// Category and message of an attempt that failed, if its record is there.
pub(crate) async fn failure_of(
    shared: &Shared,
    id: ExecutionId,
    attempt: u32,
) -> Result<Option<(Text, Text)>, Rejection> {
    Ok(match reads::read_one(shared, Key::Attempt(id, attempt), schema::attempt::LIGHT).await? {
        Some(Record::Attempt(attempt)) => attempt.failure.map(|failure| (failure.category, failure.message)),
        _ => None,
    })
}

/// What a scanner failed at, as the record keeps it.
pub(crate) fn failing(partition: PartitionId, item: &Failing) -> Obstacle {
    Obstacle::Trouble {
        scanner: item.scanner.clone(),
        fails: item.fails,
        next_try_at: item.next_try_at,
        last_error: item.last_error.clone(),
        parked: item.letter.map(|letter| ParkedId::new(partition, letter)),
        given_up: item.given_up.clone(),
    }
}

/// A ready execution waits for a worker, or behind others.
async fn ready(
    shared: &Shared,
    execution: &Execution,
    order: i64,
    takers: &[Taker],
    now: Time,
) -> Result<Vec<Obstacle>, Rejection> {
    if let Some(at) = execution.hot.deadline_at.filter(|at| *at <= now) {
        return Ok(vec![Obstacle::DeadlineDue { at }]);
    }
    let mut reasons = Vec::new();
    reasons.extend(workers::none(execution, takers, now).map(Obstacle::NoWorker));
    let fitting = workers::fitting(execution, takers).filter(|taker| taker.ability != Ability::Dead);
    let fitting: Vec<&Taker> = fitting.collect();
    let (count, exact) = behind::count(shared, execution, order, &fitting).await?;
    if count > 0 {
        reasons.push(Obstacle::Behind { count, exact });
    }
    if reasons.is_empty()
        && let Some(last) = workers::best(execution, takers, now)
    {
        let (worker, seen_at, doubtful) = (last.instance.clone(), last.seen.at, last.is_doubtful(now));
        reasons.push(Obstacle::Claimable { worker, seen_at, doubtful });
    }
    Ok(reasons)
}
