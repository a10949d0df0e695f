//! How an execution is retried, how long it may run, and how long it is kept.

use crate::limits;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Resolved at submit and frozen there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub retry: Retry,
    /// Active time of one attempt.
    pub attempt_timeout_ms: Option<u64>,
    pub max_reclaims: u32,
    pub max_replays: u32,
    /// From the terminal commit; `None` keeps it for ever.
    pub retention_ms: Option<u64>,
    pub idempotency_ttl_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retry: Retry::default(),
            attempt_timeout_ms: None,
            max_reclaims: 100,
            max_replays: 10,
            retention_ms: Some(limits::RETENTION_MS_DEFAULT),
            idempotency_ttl_ms: limits::DAY_MS,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub max_retries: u32,
    pub backoff: Backoff,
    pub jitter: Jitter,
    /// Empty means every category.
    pub retry_on: Vec<Text>,
    /// Wins over `retry_on`.
    pub never_on: Vec<Text>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_retries: 3,
            backoff: Backoff::Exponential { initial_ms: 1_000, max_ms: 60_000, multiplier_thousandths: 2_000 },
            jitter: Jitter::Full,
            retry_on: Vec::new(),
            never_on: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backoff {
    Exponential { initial_ms: u64, max_ms: u64, multiplier_thousandths: u32 },
    Fixed { delay_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Jitter {
    None,
    Equal,
    Full,
}
