//! Calls that wait: how long, and how many at a time, on the node and of one key.

use crate::app::Shared;
use crate::auth::{Good, Waiting};
use crate::metrics;
use std::time::Duration;
use weft_api::{Call, Code, Problem};
use weft_core::limits::CLAIM_WAIT_MAX_MS;

/// The place of a call that waits; it is free again when this is dropped.
pub struct Seat {
    _of_key: Option<Waiting>,
    _of_node: metrics::Seat,
}

/// Counts a call that waits, on this node and of its key.
pub fn take_seat(shared: &Shared, good: Option<&Good>) -> Result<Seat, Problem> {
    let Some(of_node) = shared.metrics.wait(shared.options.waiting_max) else {
        shared.metrics.refused("busy");
        return Err(Problem::new(Code::Busy, "too many calls wait on this node").retry_after(1_000));
    };
    let Some(good) = good else { return Ok(Seat { _of_key: None, _of_node: of_node }) };
    match good.state.wait(shared.options.waiting_per_key_max) {
        Some(of_key) => Ok(Seat { _of_key: Some(of_key), _of_node: of_node }),
        None => {
            shared.metrics.refused("rate");
            Err(Problem::new(Code::RateLimited, "too many calls of this key wait").retry_after(1_000))
        }
    }
}

/// How long a call waits for something to happen.
pub fn wait_of(call: &Call) -> Duration {
    let ms = match call {
        Call::Claim(args) => args.body.wait_ms,
        Call::GetExecution(args) => args.query.wait_ms,
        Call::GetResult(args) => args.query.wait_ms,
        _ => None,
    };
    Duration::from_millis(ms.unwrap_or(0).min(CLAIM_WAIT_MAX_MS))
}
