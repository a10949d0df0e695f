//! The seven dimensions, computed from the record alone and never stored. Live gates are added by the engine.

use crate::record::Execution;
use crate::record::execution::{HoldKey, Next, Outcome, State, Why};
use crate::time::Time;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($variant,)+
        }

        impl $name {
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

words!(Phase {
    Runnable = "runnable",
    Active = "active",
    Suspended = "suspended",
    Terminal = "terminal",
});

words!(Ownership {
    Unowned = "unowned",
    Leased = "leased",
    LeaseExpired = "lease_expired",
});

words!(Eligibility {
    EligibleNow = "eligible_now",
    NotUntilTime = "not_until_time",
    BlockedByDependencies = "blocked_by_dependencies",
    BlockedByBudget = "blocked_by_budget",
    BlockedByQuota = "blocked_by_quota",
    BlockedByOperator = "blocked_by_operator",
    BlockedByFlow = "blocked_by_flow",
    BlockedByLane = "blocked_by_lane",
    BlockedByConcurrency = "blocked_by_concurrency",
    BlockedByCapability = "blocked_by_capability",
    NotApplicable = "not_applicable",
});

words!(BlockingReason {
    None = "none",
    WaitingForWorker = "waiting_for_worker",
    WaitingForStart = "waiting_for_start",
    WaitingForRetryBackoff = "waiting_for_retry_backoff",
    WaitingForReclaimBackoff = "waiting_for_reclaim_backoff",
    WaitingForDelay = "waiting_for_delay",
    WaitingForResumeDelay = "waiting_for_resume_delay",
    WaitingForDependencies = "waiting_for_dependencies",
    WaitingForChildren = "waiting_for_children",
    WaitingForBudget = "waiting_for_budget",
    WaitingForQuota = "waiting_for_quota",
    WaitingForSlot = "waiting_for_slot",
    WaitingForCapableWorker = "waiting_for_capable_worker",
    WaitingForSignal = "waiting_for_signal",
    WaitingForApproval = "waiting_for_approval",
    WaitingForCallback = "waiting_for_callback",
    WaitingForToolResult = "waiting_for_tool_result",
    PausedByOperator = "paused_by_operator",
    PausedByPolicy = "paused_by_policy",
    PausedByLane = "paused_by_lane",
    PausedByFlow = "paused_by_flow",
});

words!(AttemptStatus {
    None = "none",
    PendingFirst = "pending_first",
    Running = "running",
    Paused = "paused",
    PendingRetry = "pending_retry",
    PendingReclaim = "pending_reclaim",
    PendingReplay = "pending_replay",
    Ended = "ended",
});

words!(Cancellation {
    None = "none",
    Requested = "requested",
    Done = "done",
});

/// Where an execution stands, seen from seven sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    pub phase: Phase,
    pub ownership: Ownership,
    pub eligibility: Eligibility,
    pub blocking_reason: BlockingReason,
    /// `None` until it has ended.
    pub outcome: Option<Outcome>,
    pub attempt_state: AttemptStatus,
    pub cancellation: Cancellation,
}

impl Dimensions {
    pub const fn outcome_name(&self) -> &'static str {
        match self.outcome {
            Some(outcome) => outcome.name(),
            None => "none",
        }
    }
}

/// The dimensions as the record shows them at `now`.
pub fn dimensions(execution: &Execution, now: Time) -> Dimensions {
    let runnable = Dimensions {
        phase: Phase::Runnable,
        ownership: Ownership::Unowned,
        eligibility: Eligibility::EligibleNow,
        blocking_reason: BlockingReason::WaitingForWorker,
        outcome: None,
        attempt_state: AttemptStatus::None,
        cancellation: Cancellation::None,
    };
    match &execution.hot.state {
        State::Ready { next, .. } => Dimensions { attempt_state: pending(next), ..runnable },
        State::Delayed { why, next, .. } => Dimensions {
            eligibility: Eligibility::NotUntilTime,
            blocking_reason: waiting_for(*why),
            attempt_state: pending(next),
            ..runnable
        },
        State::Blocked { holds, next, .. } => {
            let (eligibility, blocking_reason) = match holds.get(HoldKey::Operator) {
                Some(_) => (Eligibility::BlockedByOperator, BlockingReason::PausedByOperator),
                None if holds.get(HoldKey::Dependencies).is_some() => {
                    (Eligibility::BlockedByDependencies, BlockingReason::WaitingForDependencies)
                }
                None => (Eligibility::BlockedByDependencies, BlockingReason::WaitingForChildren),
            };
            Dimensions { eligibility, blocking_reason, attempt_state: pending(next), ..runnable }
        }
        State::Active { lease, cancel, .. } => Dimensions {
            phase: Phase::Active,
            ownership: if lease.expires_at <= now { Ownership::LeaseExpired } else { Ownership::Leased },
            eligibility: Eligibility::NotApplicable,
            blocking_reason: BlockingReason::None,
            attempt_state: AttemptStatus::Running,
            cancellation: if cancel.is_some() { Cancellation::Requested } else { Cancellation::None },
            ..runnable
        },
        State::Done { outcome, .. } => Dimensions {
            phase: Phase::Terminal,
            eligibility: Eligibility::NotApplicable,
            blocking_reason: BlockingReason::None,
            outcome: Some(*outcome),
            attempt_state: if execution.hot.attempts == 0 { AttemptStatus::None } else { AttemptStatus::Ended },
            cancellation: match outcome {
                Outcome::Cancelled => Cancellation::Done,
                _ => Cancellation::None,
            },
            ..runnable
        },
    }
}

fn pending(next: &Next) -> AttemptStatus {
    match next {
        Next::First => AttemptStatus::PendingFirst,
        Next::Retry { .. } => AttemptStatus::PendingRetry,
        Next::Reclaim { .. } => AttemptStatus::PendingReclaim,
        Next::Replay { .. } => AttemptStatus::PendingReplay,
        Next::Resume => AttemptStatus::Paused,
    }
}

fn waiting_for(why: Why) -> BlockingReason {
    match why {
        Why::Start => BlockingReason::WaitingForStart,
        Why::RetryBackoff => BlockingReason::WaitingForRetryBackoff,
        Why::ReclaimBackoff => BlockingReason::WaitingForReclaimBackoff,
        Why::WorkerDelay => BlockingReason::WaitingForDelay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, When};
    use crate::kit::World;
    use crate::kit::calls::*;

    fn words(world: &World, id: crate::ExecutionId) -> [&'static str; 7] {
        let seen = dimensions(&world.execution(id), world.now);
        [
            seen.phase.name(),
            seen.ownership.name(),
            seen.eligibility.name(),
            seen.blocking_reason.name(),
            seen.outcome_name(),
            seen.attempt_state.name(),
            seen.cancellation.name(),
        ]
    }

    #[test]
    fn ex_18_ex_19_each_state_has_its_row() {
        let mut world = World::new();
        let id = world.submit(|cmd| cmd.start = Some(When::InMs(1_000)));
        let delayed = ["runnable", "unowned", "not_until_time", "waiting_for_start", "none", "pending_first", "none"];
        assert_eq!(words(&world, id), delayed);
        world.run(hold(id)).unwrap();
        let held =
            ["runnable", "unowned", "blocked_by_operator", "paused_by_operator", "none", "pending_first", "none"];
        assert_eq!(words(&world, id), held);
        world.at(1_000).run(Command::Release(crate::command::Release { id, reason: "".into() })).unwrap();
        let ready = ["runnable", "unowned", "eligible_now", "waiting_for_worker", "none", "pending_first", "none"];
        assert_eq!(words(&world, id), ready);
        world.claim(id);
        let active = ["active", "leased", "not_applicable", "none", "none", "running", "none"];
        assert_eq!(words(&world, id), active);
        world.at(31_000);
        assert_eq!(words(&world, id)[1], "lease_expired");
        world.scan();
        assert_eq!(words(&world, id)[5], "pending_reclaim");
        let again = fence(&world.claim(id));
        world.run(fail(id, again)).unwrap();
        assert_eq!(words(&world, id)[3..6], ["waiting_for_retry_backoff", "none", "pending_retry"]);
        world.run(Command::Cancel(cancel(id))).unwrap();
        let done = ["terminal", "unowned", "not_applicable", "none", "cancelled", "ended", "done"];
        assert_eq!(words(&world, id), done);
        world.run(Command::Replay(replay(id))).unwrap();
        assert_eq!(words(&world, id)[5], "pending_replay");
    }

    #[test]
    fn e7_what_never_ran_has_no_attempt() {
        let mut world = World::new();
        let id = world.submit(|_| {});
        world.run(Command::Cancel(cancel(id))).unwrap();
        assert_eq!(words(&world, id)[5], "none");
    }
}
