//! Waiting until an execution has ended, through restarts of the server.

use super::Remote;
use crate::fault::{Code, Fault};
use crate::render::{id, time};
use anyhow::Result;
use std::time::{Duration, Instant};
use weft_api::execution::{Execution, GetQuery};
use weft_api::op;
use weft_api::operation::NoBody;

/// How long one call asks the server to wait.
const WAIT: Duration = Duration::from_secs(20);

/// A server that is away for longer is not waited for.
const AWAY_MAX: Duration = Duration::from_secs(60);

/// Waits for the end of an execution, as long as the person has patience. `include` names payloads to bring along.
pub async fn until_done(remote: &Remote, execution: &str, include: &str) -> Result<Execution> {
    let begun = Instant::now();
    let mut answered: Option<Instant> = None;
    loop {
        let left = remote.patience.map(|patience| patience.saturating_sub(begun.elapsed()));
        let query = GetQuery {
            include: (!include.is_empty()).then(|| include.to_owned()),
            wait_ms: Some(left.unwrap_or(WAIT).min(WAIT).as_millis() as u64),
            until: Some("done".to_owned()),
        };
        match remote.call::<op::GetExecution>("wait for it", [execution.to_owned()], query, NoBody {}).await {
            Ok(seen) if seen.public_state.is_terminal() => return Ok(seen),
            Ok(seen) => {
                answered = Some(Instant::now());
                if left.is_some_and(|left| left.is_zero())
                    || remote.patience.is_some_and(|patience| begun.elapsed() >= patience)
                {
                    return Err(timed_out(&seen, begun.elapsed()));
                }
            }
            Err(error) => {
                let was_there = answered.is_some_and(|at| at.elapsed() < AWAY_MAX);
                if Fault::exit_code(&error) != Code::Unreachable as u8 || !was_there {
                    return Err(error);
                }
                remote.say("the server is away; still waiting");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn timed_out(seen: &Execution, after: Duration) -> anyhow::Error {
    let message =
        format!("`{}` is still {} after {}", seen.id, seen.public_state.name(), time::span(after.as_millis() as u64));
    Fault::new(Code::Unreachable, message)
        .named("timed_out")
        .hint(format!("`weft explain {}` tells why", id::short(&seen.id)))
        .into()
}
