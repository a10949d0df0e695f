//! The lease of an active execution, and how the last one ended.

use super::execution::{Outcome, Reason};
use crate::id::LeaseId;
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// A worker's right to the open attempt. (id, epoch) is the fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub id: LeaseId,
    /// Generation of the partition when the lease was issued.
    pub generation: u64,
    pub epoch: u64,
    pub worker: Text,
    pub instance: Text,
    pub lease_ms: u64,
    pub acquired_at: Time,
    pub expires_at: Time,
    /// Digest of (namespace, instance, request id) of the claim call that took it.
    pub claim_ref: Option<[u8; 32]>,
    /// The session of the registered worker process that took it.
    pub session: Option<u64>,
}

/// How the last lease ended, with what a repeated call needs to be answered alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastLease {
    pub id: LeaseId,
    pub epoch: u64,
    pub at: Time,
    pub end: LeaseEnd,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseEnd {
    Completed { attempt: u32, cancel_was_requested: bool },
    Failed(AfterFailure),
    Delayed { until: Time },
    Children { waiting: u32 },
    CancelledByHolder { reason: Text, by: Text },
    Expired,
    WorkerDead,
    Revoked { reason: Text },
    Drained,
    TimedOut,
    Deadline,
    Cancelled { reason: Text, by: Text },
    Forced,
}

impl LeaseEnd {
    pub const fn cause(&self) -> EndCause {
        match self {
            LeaseEnd::Completed { .. } => EndCause::Completed,
            LeaseEnd::Failed(_) => EndCause::Failed,
            LeaseEnd::Delayed { .. } => EndCause::Delayed,
            LeaseEnd::Children { .. } => EndCause::Children,
            LeaseEnd::CancelledByHolder { .. } | LeaseEnd::Cancelled { .. } => EndCause::Cancelled,
            LeaseEnd::Expired => EndCause::Expired,
            LeaseEnd::WorkerDead => EndCause::WorkerDead,
            LeaseEnd::Revoked { .. } => EndCause::Revoked,
            LeaseEnd::Drained => EndCause::Drained,
            LeaseEnd::TimedOut => EndCause::TimedOut,
            LeaseEnd::Deadline => EndCause::Deadline,
            LeaseEnd::Forced => EndCause::Forced,
        }
    }
}

/// What became of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterFailure {
    Retry { retry_at: Time, retries_left: u32 },
    Ended { outcome: Outcome, reason: Reason },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EndCause {
    Completed,
    Failed,
    Delayed,
    Children,
    Expired,
    Revoked,
    WorkerDead,
    Drained,
    TimedOut,
    Deadline,
    Cancelled,
    Forced,
}

impl EndCause {
    pub const fn name(self) -> &'static str {
        match self {
            EndCause::Completed => "completed",
            EndCause::Failed => "failed",
            EndCause::Delayed => "delayed",
            EndCause::Children => "children",
            EndCause::Expired => "expired",
            EndCause::Revoked => "revoked",
            EndCause::WorkerDead => "worker_dead",
            EndCause::Drained => "drained",
            EndCause::TimedOut => "timed_out",
            EndCause::Deadline => "deadline",
            EndCause::Cancelled => "cancelled",
            EndCause::Forced => "forced",
        }
    }
}
