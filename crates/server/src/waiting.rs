//! Calls that wait: how long, how many at a time, on the node and of one key, and whether that key is still good.

use crate::app::Shared;
use crate::auth::Good;
use crate::identify::Known;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weft_api::{Call, Code, Problem};
use weft_core::limits::CLAIM_WAIT_MAX_MS;
use weft_dispatch::Caller;

/// What is open at a time. Clones count together.
#[derive(Clone, Default)]
pub struct Seats(Arc<AtomicUsize>);

impl Seats {
    /// A place, unless `max` are taken.
    fn take(&self, max: usize) -> Option<Place> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let place = Place(self.0.clone());
        (before < max).then_some(place)
    }
}

struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What stays open: a call that waits, or a stream, which does not take the place of a call.
#[derive(Clone, Copy)]
pub enum Open {
    Call,
    Stream,
}

/// The place of what is open; it is free again when this is dropped.
pub struct Seat {
    _of_key: Option<Place>,
    _of_node: Place,
}

/// Counts a call that waits or a stream, on this node and of its key.
pub fn take_seat(shared: &Shared, good: Option<&Good>, open: Open) -> Result<Seat, Problem> {
    let options = &shared.options;
    let (of_node, of_key) = match open {
        Open::Call => ((&shared.waiting, options.waiting_max), options.waiting_per_key_max),
        Open::Stream => ((&shared.streams, options.streams_max), options.streams_per_key_max),
    };
    let what = match open {
        Open::Call => "calls",
        Open::Stream => "streams",
    };
    let Some(node) = of_node.0.take(of_node.1) else {
        shared.metrics.refused("busy");
        return Err(Problem::new(Code::Busy, format!("too many {what} wait on this node")).retry_after(1_000));
    };
    let Some(good) = good else { return Ok(Seat { _of_key: None, _of_node: node }) };
    let seats = match open {
        Open::Call => &good.state.waiting,
        Open::Stream => &good.state.streams,
    };
    match seats.take(of_key) {
        Some(key) => Ok(Seat { _of_key: Some(key), _of_node: node }),
        None => {
            shared.metrics.refused("rate");
            Err(Problem::new(Code::RateLimited, format!("too many {what} of this key wait")).retry_after(1_000))
        }
    }
}

/// How long a call waits for something to happen.
pub fn wait_of(call: &Call) -> Duration {
    let ms = match call {
        Call::Claim(args) => args.body.wait_ms,
        Call::GetExecution(args) => args.query.wait_ms,
        Call::GetResult(args) => args.query.wait_ms,
        Call::GetFlow(args) => args.query.wait_ms,
        Call::CancelFlow(args) => args.body.wait_ms,
        Call::ReplayFlow(args) => args.body.wait_ms,
        _ => None,
    };
    Duration::from_millis(ms.unwrap_or(0).min(CLAIM_WAIT_MAX_MS))
}

/// Resolves when the key of a call that waits is no longer good for it, with what the call would be told if it came now;
/// never if there is no key. `may` refuses callers who have not the right to the call.
pub async fn key_lost(shared: &Shared, known: &Known, may: impl Fn(&Caller) -> Result<(), Problem>) -> Problem {
    let (Some(keyring), Some(good)) = (&shared.keyring, &known.good) else { return std::future::pending().await };
    let trust = shared.options.key_trust;
    let mut looked_at = Instant::now();
    loop {
        tokio::time::sleep(trust / 2).await;
        let problem = match keyring.check_again(good).await {
            Ok(key) => {
                looked_at = Instant::now();
                let caller = Caller {
                    scopes: key.scopes,
                    reach: key.reach.clone(),
                    read_only: key.read_only,
                    ..known.caller.clone()
                };
                match may(&caller).and_then(|()| still_reaches(&caller, &known.caller)) {
                    Ok(()) => continue,
                    Err(problem) => problem,
                }
            }
            Err(problem) if problem.code == Code::Unauthorized => problem,
            // A store that hiccups is no reason to send everybody away; one that stays away is.
            Err(_) if looked_at.elapsed() < trust * 2 => continue,
            Err(problem) => return problem,
        };
        shared.metrics.refused("auth");
        shared.tell_refusal(&known.caller.principal("".into()), "wait", "", problem.code);
        return problem;
    }
}

/// Refuses a caller who has lost the namespace that its call waits in.
fn still_reaches(now: &Caller, before: &Caller) -> Result<(), Problem> {
    // One that named none began to wait wherever it could.
    match before.chosen()? {
        Some(namespace) if now.reach.holds(namespace) => Ok(()),
        None if now.reach.covers(&before.reach) => Ok(()),
        _ => Err(Problem::new(Code::Forbidden, "the key lost a namespace while the call waited")
            .hint("repeat the call in a namespace of the key")),
    }
}
