//! Why an execution is not running. Uses the claim's own candidate check, so that the two cannot disagree.

use crate::engine::Shared;
use crate::hub::Seen;
use crate::reads;
use bytes::Bytes;
use weft_core::command::Principal;
use weft_core::error::Rejection;
use weft_core::execution::check::{self, NotTaken, Want};
use weft_core::record::execution::{
    Cancel, EndCause, Hold, Holds, LastLease, Outcome, PublicState, Reason, State, Why,
};
use weft_core::record::trouble::Failing;
use weft_core::record::worker::{Body, State as WorkerState};
use weft_core::record::{Execution, Key, Record};
use weft_core::schema::{self, IndexId, PartMask, Value};
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};
use weft_store::{Range, Scan, Target};

/// All reasons that apply, in order, and when the first of them clears by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub public_state: PublicState,
    pub at: Time,
    pub running: bool,
    pub reasons: Vec<Obstacle>,
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
    },
    Running {
        worker: Text,
        instance: Text,
        epoch: u64,
        expires_at: Time,
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
        waiting: u32,
        needed: u32,
        timeout_at: Option<Time>,
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
    /// The next matching claim takes it.
    Claimable,
    Trouble {
        scanner: Text,
        fails: u32,
        next_try_at: Time,
        last_error: Text,
        parked: bool,
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
    AllDraining,
    /// The one that was asked about was silent too long, or was given up.
    AllDead,
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
            Obstacle::NotBefore { .. } => "not_before",
            Obstacle::DeadlineDue { .. } => "deadline_due",
            Obstacle::NoWorker(_) => "no_worker",
            Obstacle::Behind { .. } => "behind",
            Obstacle::Claimable => "claimable",
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

const BEHIND_MAX: usize = 10_000;
const PAGE: usize = 1_000;

/// With an instance, what stands in the way of a claim is told as that worker process meets it.
pub async fn explain(
    shared: &Shared,
    who: &Principal,
    id: ExecutionId,
    instance: Option<&Text>,
) -> Result<Explanation, Rejection> {
    let execution = reads::load(shared, who, id, PartMask::NONE).await?;
    let worker = match instance {
        Some(instance) => Some(crate::worker::get(shared, who, instance).await?.0),
        None => None,
    };
    let now = shared.now();
    let mut reasons = Vec::new();
    let mut running = false;
    match &execution.hot.state {
        State::Done { outcome, reason, by, at, attempt, .. } => {
            let (outcome, reason, by) = (*outcome, *reason, by.clone());
            reasons.push(Obstacle::Done { outcome, reason, by, at: *at, attempt: *attempt });
        }
        State::Active { lease, cancel, parked, .. } => {
            running = lease.expires_at > now;
            if running {
                reasons.push(Obstacle::Running {
                    worker: lease.worker.clone(),
                    instance: lease.instance.clone(),
                    epoch: lease.epoch,
                    expires_at: lease.expires_at,
                });
            }
            reasons.extend(cancel.as_ref().map(asked_to_stop));
            if !running {
                reasons.push(Obstacle::RequeueDue { lapsed_at: lease.expires_at });
            }
            reasons.extend(held(parked));
        }
        State::Blocked { holds, not_before, .. } => {
            reasons.extend(held(holds));
            if let Some((until, why)) = not_before.filter(|(until, _)| *until > now) {
                reasons.push(waits(shared, &execution, until, why).await?);
            }
        }
        State::Delayed { until, why, .. } => reasons.push(waits(shared, &execution, *until, *why).await?),
        State::Ready { order, .. } => waiting(shared, &execution, *order, worker, &mut reasons).await?,
    }
    reasons.extend(execution.trouble().into_iter().flat_map(|trouble| &trouble.items).map(failing));
    Ok(Explanation {
        public_state: execution.public_state(),
        at: now,
        running,
        next_time: reasons.iter().filter_map(Obstacle::clears_at).min(),
        reasons,
    })
}

fn asked_to_stop(cancel: &Cancel) -> Obstacle {
    Obstacle::CancelRequested { reason: cancel.reason.clone(), by: cancel.by.clone(), kill_at: cancel.kill_at }
}

fn held(holds: &Holds) -> Vec<Obstacle> {
    let reasons = holds.iter().map(|hold| match hold {
        Hold::Operator { by, reason, at } => Obstacle::OperatorHold { by: by.clone(), reason: reason.clone(), at: *at },
        Hold::Children(hold) => Obstacle::Children {
            waiting: hold.children.len() as u32 - hold.met - hold.unmet,
            needed: hold.needed,
            timeout_at: hold.timeout_at,
        },
    });
    reasons.collect()
}

async fn waits(shared: &Shared, execution: &Execution, until: Time, why: Why) -> Result<Obstacle, Rejection> {
    let last = execution.hot.last_lease.as_ref().map(|LastLease { end, .. }| end.cause());
    let retry = match why {
        Why::RetryBackoff => Some(retry(shared, execution).await?),
        Why::Start | Why::ReclaimBackoff | Why::WorkerDelay => None,
    };
    let spec = &execution.spec;
    let fits = |seen: &Seen| {
        let (kinds, capabilities) = (seen.kinds.as_deref(), &seen.capabilities);
        let want = Want { namespace: &spec.namespace, kinds, capabilities };
        seen.lanes.contains(&spec.lane) && check::fits(execution, &want).is_ok()
    };
    let workers = crate::worker::live(shared, &spec.namespace).await?;
    let workers = workers.iter().filter(|(_, seen)| fits(seen)).count();
    Ok(Obstacle::NotBefore { until, why, last, retry, workers })
}

/// The last attempt says what went wrong.
async fn retry(shared: &Shared, execution: &Execution) -> Result<Retry, Rejection> {
    let last = Key::Attempt(execution.id, execution.hot.attempts.saturating_sub(1));
    let failure = match reads::read_one(shared, last, schema::attempt::LIGHT).await? {
        Some(Record::Attempt(attempt)) => attempt.failure.map(|failure| (failure.category, failure.message)),
        _ => None,
    };
    Ok(Retry { number: execution.hot.retries_used, max: execution.spec.policy.retry.max_retries, failure })
}

fn failing(item: &Failing) -> Obstacle {
    Obstacle::Trouble {
        scanner: item.scanner.clone(),
        fails: item.fails,
        next_try_at: item.next_try_at,
        last_error: item.last_error.clone(),
        parked: item.parked,
    }
}

/// A ready execution waits for a worker, or behind others.
async fn waiting(
    shared: &Shared,
    execution: &Execution,
    order: i64,
    worker: Option<Body>,
    reasons: &mut Vec<Obstacle>,
) -> Result<(), Rejection> {
    let now = shared.now();
    let stopped = worker.as_ref().and_then(stopped);
    let workers = match worker {
        Some(body) => vec![(body.instance.clone(), Seen::from(body))],
        None => crate::worker::live(shared, &execution.spec.namespace).await?,
    };
    if let Some(why) = no_worker(execution, &workers, now, reasons).or(stopped) {
        reasons.push(Obstacle::NoWorker(why));
    }
    let (count, exact) = behind(shared, execution, order).await?;
    if count > 0 {
        reasons.push(Obstacle::Behind { count, exact });
    }
    if reasons.is_empty() {
        reasons.push(Obstacle::Claimable);
    }
    Ok(())
}

/// Why this worker process is handed nothing at all.
fn stopped(body: &Body) -> Option<NoWorker> {
    match body.state {
        WorkerState::Active => None,
        WorkerState::Draining(_) | WorkerState::Drained(_) | WorkerState::Left { .. } => Some(NoWorker::AllDraining),
        WorkerState::Dead { .. } => Some(NoWorker::AllDead),
    }
}

fn no_worker(
    execution: &Execution,
    workers: &[(Text, Seen)],
    now: Time,
    reasons: &mut Vec<Obstacle>,
) -> Option<NoWorker> {
    let on_lane: Vec<&(Text, Seen)> =
        workers.iter().filter(|(_, seen)| seen.lanes.contains(&execution.spec.lane)).collect();
    let mut worst = NoWorker::NoneOnLane;
    let mut nearest: Option<(usize, Text)> = None;
    for (instance, seen) in on_lane {
        let want = Want {
            namespace: &execution.spec.namespace,
            kinds: seen.kinds.as_deref(),
            capabilities: &seen.capabilities,
        };
        match check::candidate(execution, &want, now) {
            Ok(()) => return None,
            Err(NotTaken::DeadlineDue) => {
                reasons.extend(execution.hot.deadline_at.map(|at| Obstacle::DeadlineDue { at }));
                return None;
            }
            Err(NotTaken::Capabilities) => {
                let missing = execution.spec.capabilities.missing_from(&seen.capabilities);
                let missing: Vec<Text> = missing.map(Text::from).collect();
                let place = (missing.len(), instance.clone());
                if nearest.as_ref().is_none_or(|known| place < *known) {
                    nearest = Some(place);
                    worst = NoWorker::MissingCapabilities { nearest: instance.clone(), missing };
                }
            }
            Err(NotTaken::Kind | NotTaken::NotReady | NotTaken::Namespace) => {
                if nearest.is_none() {
                    worst = NoWorker::NoneForKind;
                }
            }
        }
    }
    Some(worst)
}

/// How many executions of its own queue come first.
async fn behind(shared: &Shared, execution: &Execution, order: i64) -> Result<(usize, bool), Rejection> {
    let spec = &execution.spec;
    let prefix = vec![
        Value::text(&spec.namespace),
        Value::text(&spec.lane),
        Value::text(&spec.kind),
        Value::text(spec.capabilities.joined()),
        Value::Bytes(spec.concurrency_key.clone().unwrap_or_default()),
    ];
    let mut range = Range { prefix, after: None, until: Some(Value::Int(order)) };
    let own = Bytes::copy_from_slice(execution.id.uuid().as_bytes());
    let mut count = 0;
    loop {
        let scan = Scan {
            target: Target::Index(IndexId::Ready),
            ranges: vec![range.clone()],
            limit: PAGE,
            descending: false,
            parts: None,
        };
        let partition = Some(execution.id.partition());
        let page = shared.store.scan(partition, scan).await.map_err(reads::unavailable)?.pop().unwrap_or_default();
        for entry in &page.entries {
            if matches!(entry.place.columns.last(), Some(Value::Int(at)) if (*at, &entry.place.key) >= (order, &own)) {
                return Ok((count, true));
            }
            count += 1;
        }
        if count >= BEHIND_MAX {
            return Ok((count, false));
        }
        if !page.more {
            return Ok((count, true));
        }
        range.after = page.entries.last().map(|entry| entry.place.clone());
    }
}
