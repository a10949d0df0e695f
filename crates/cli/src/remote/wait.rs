//! Waiting until executions and flows have ended, through restarts of the server.

use super::Remote;
use crate::fault::{Code, Fault};
use crate::render::{count, id, time};
use anyhow::Result;
use futures_util::{StreamExt, stream};
use std::time::{Duration, Instant};
use weft_api::execution::{Execution, GetQuery};
use weft_api::flow::{Flow, FlowQuery};
use weft_api::op;
use weft_api::operation::NoBody;

/// How long one call asks the server to wait.
const WAIT: Duration = Duration::from_secs(20);

/// What an answer may take beside what the server was asked to wait.
const SLACK: Duration = Duration::from_secs(1);

/// Pauses between two calls to a server that is away: the first, which doubles, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Waits at once.
const AT_ONCE: usize = 64;

/// Executions that an error names.
const NAMED_MAX: usize = 10;

/// Something whose end can be waited for.
pub trait Awaited {
    fn id(&self) -> &str;
    fn state(&self) -> &'static str;
    fn has_ended(&self) -> bool;
}

impl Awaited for Execution {
    fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &'static str {
        self.public_state.name()
    }

    fn has_ended(&self) -> bool {
        self.public_state.is_terminal()
    }
}

impl Awaited for Flow {
    fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &'static str {
        self.public_flow_state.name()
    }

    fn has_ended(&self) -> bool {
        self.public_flow_state.is_terminal()
    }
}

/// How long a command goes on waiting, and how it bears a server that is away.
pub struct Patience<'a> {
    remote: &'a Remote,
    begun: Instant,
    pause: Option<Duration>,
}

impl<'a> Patience<'a> {
    /// From now on, as long as the person has patience.
    pub fn of(remote: &'a Remote) -> Self {
        Self::since(remote, Instant::now())
    }

    fn since(remote: &'a Remote, begun: Instant) -> Self {
        Self { remote, begun, pause: None }
    }

    /// What is left of it; none if it has no end.
    pub fn left(&self) -> Option<Duration> {
        self.remote.patience.map(|patience| patience.saturating_sub(self.begun.elapsed()))
    }

    pub fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// The server has answered.
    pub fn answered(&mut self) {
        self.pause = None;
    }

    /// Waits a while if an error means that the server is away, and answers it back otherwise. Says so once.
    pub async fn bear(&mut self, error: anyhow::Error) -> Result<()> {
        if Fault::exit_code(&error) != Code::Unreachable as u8 {
            return Err(error);
        }
        if self.pause.is_none() {
            self.remote.say("the server is away; still waiting");
        }
        let pause = self.pause.map_or(PAUSE.0, |pause| (pause * 2).min(PAUSE.1));
        self.pause = Some(pause);
        tokio::time::sleep(self.left().map_or(pause, |left| left.min(pause))).await;
        Ok(())
    }

    /// What to say of something that has not ended when there is none left.
    pub fn timed_out(&self, seen: &impl Awaited) -> anyhow::Error {
        let away = if self.pause.is_some() { ", and the server is away" } else { "" };
        let after = time::span(self.begun.elapsed().as_millis() as u64);
        let message = format!("`{}` is still {} after {after}{away}", seen.id(), seen.state());
        Fault::new(Code::Unreachable, message)
            .named(TIMED_OUT)
            .hint(format!("`weft explain {}` tells why", id::short(seen.id())))
            .into()
    }
}

/// The code of an error that says that patience is over.
pub const TIMED_OUT: &str = "timed_out";

/// Whether the server has been heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// If it is not there now, its address may be wrong: that is an error.
    NotYet,
    /// Once it was there it will be there again: one that goes away is waited for.
    Before,
}

/// Waits for the end of an execution, as long as the person has patience. `include` names payloads to bring along.
pub async fn until_done(remote: &Remote, execution: &str, include: &str, heard: Heard) -> Result<Execution> {
    wait(Patience::of(remote), heard, async |time| look(remote, execution, include, time).await).await
}

/// Waits for the end of a flow, as long as the person has patience.
pub async fn until_flow_done(remote: &Remote, flow: &str, heard: Heard) -> Result<Flow> {
    wait(Patience::of(remote), heard, async |time| look_at_flow(remote, flow, time).await).await
}

/// `look` reads it, and lets the server wait so long for its end.
async fn wait<T: Awaited>(
    mut patience: Patience<'_>,
    heard: Heard,
    look: impl AsyncFn(Duration) -> Result<T>,
) -> Result<T> {
    let mut seen = loop {
        match look(Duration::ZERO).await {
            Ok(seen) => break seen,
            Err(error) if heard == Heard::NotYet || patience.is_over() => return Err(error),
            Err(error) => patience.bear(error).await?,
        }
    };
    patience.answered();
    while !seen.has_ended() {
        if patience.is_over() {
            return Err(patience.timed_out(&seen));
        }
        let time = patience.left().map_or(WAIT, |left| left.min(WAIT));
        match tokio::time::timeout(time + SLACK, look(time)).await {
            Ok(Ok(now)) => {
                patience.answered();
                seen = now;
            }
            Ok(Err(error)) => patience.bear(error).await?,
            // Late: asked again at once, until patience is over.
            Err(_) => {}
        }
    }
    Ok(seen)
}

async fn look(remote: &Remote, execution: &str, include: &str, time: Duration) -> Result<Execution> {
    let query = GetQuery {
        include: (!include.is_empty()).then(|| include.to_owned()),
        wait_ms: (!time.is_zero()).then_some(time.as_millis() as u64),
        until: (!time.is_zero()).then(|| "done".to_owned()),
    };
    remote.call::<op::GetExecution>("wait for it", [execution.to_owned()], query, NoBody {}).await
}

/// A wait for a flow is no shorter: the rest of a patience is not spent on calls that ask for nothing.
const FLOW_WAIT_MIN: Duration = Duration::from_millis(50);

async fn look_at_flow(remote: &Remote, flow: &str, time: Duration) -> Result<Flow> {
    // Asked for less than there is left, so that the answer comes before the call or the patience is over.
    let time = (!time.is_zero()).then(|| (time * 3 / 4).max(FLOW_WAIT_MIN));
    let query = FlowQuery { wait_ms: time.map(|time| time.as_millis() as u64), until: time.map(|_| "done".to_owned()) };
    remote.call::<op::GetFlow>("wait for it", [flow.to_owned()], query, NoBody {}).await
}

/// Waits for the end of all, and hands each to `each` in their order. One patience for all: those that have not ended when
/// it is over are named together in one error, after all that have.
pub async fn until_all_done(
    remote: &Remote,
    ids: Vec<String>,
    include: &str,
    heard: Heard,
    mut each: impl FnMut(Execution) -> Result<()>,
) -> Result<()> {
    let (begun, all) = (Instant::now(), ids.len());
    let waits = ids.into_iter().map(|id| async move {
        let look = async |time| look(remote, &id, include, time).await;
        let ended = wait(Patience::since(remote, begun), heard, look).await;
        (id, ended)
    });
    let mut waiting = stream::iter(waits).buffered(AT_ONCE);
    let mut late = Vec::new();
    while let Some((id, ended)) = waiting.next().await {
        match ended {
            Ok(ended) => each(ended)?,
            Err(error) if all > 1 && Fault::named_parts(&error).0 == TIMED_OUT => late.push(id),
            Err(error) => return Err(error),
        }
    }
    if late.is_empty() {
        return Ok(());
    }
    let after = time::span(begun.elapsed().as_millis() as u64);
    let named: Vec<&str> = late.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = if late.len() > NAMED_MAX { ", …" } else { "" };
    let whole = count(all as u64, "execution");
    let message = format!("{} of {whole} have not ended after {after}: {}{more}", late.len(), named.join(", "));
    Err(Fault::new(Code::Unreachable, message)
        .named(TIMED_OUT)
        .hint("they go on; `weft wait ID…` waits for them again, `weft explain ID` tells why")
        .into())
}
