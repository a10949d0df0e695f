//! One execution, as a client sees it.

use super::submit::ms;
use super::{Client, pause};
use crate::payload::Codec;
use crate::{Error, Payload, payload};
use serde::de::DeserializeOwned;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use weft_api::execution::{
    Attempt, AttemptsQuery, Cancel, CancelMode, Cancelled, Ended, Execution, ExplainQuery, Explanation, GetQuery,
    History, Outcome, Replay, Replayed, StepsOnReplay, Submitted,
};
use weft_api::page::PageQuery;
use weft_api::{Args, Operation, op};

/// How long one call waits for an end; a client waits with as many calls as it takes.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// A handle on an execution. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Run {
    client: Client,
    id: String,
    duplicate: bool,
}

/// Why an execution that was waited for has no result.
#[derive(Debug, thiserror::Error)]
pub enum NoResult {
    /// Its last attempt failed, and there will be no other.
    #[error("failed with `{category}`: {message}")]
    Failed { category: String, message: String, detail: Option<Payload>, reason: String },
    #[error("was cancelled: {reason}")]
    Cancelled { reason: String },
    /// Its time was over: `deadline`, or `attempt_timeout` if its last attempt took too long.
    #[error("expired: {reason}")]
    Expired { reason: String },
    #[error("was skipped: {reason}")]
    Skipped { reason: String },
    /// It was not possible to ask, or the result is not what was expected.
    #[error(transparent)]
    Call(#[from] Error),
}

impl Client {
    /// A handle on the execution with this id; whether it exists is not asked.
    pub fn run(&self, id: impl Into<String>) -> Run {
        Run { client: self.clone(), id: id.into(), duplicate: false }
    }
}

impl Run {
    pub(super) fn submitted(client: Client, submitted: Submitted) -> Self {
        Self { client, id: submitted.id, duplicate: submitted.duplicate }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The submission named a key that was bound already; this is the execution it stands for.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }

    fn args<Q: Default, B: Default>(&self) -> Args<[String; 1], Q, B> {
        Args { path: [self.id.clone()], ..Args::default() }
    }

    async fn ask<O>(&self) -> Result<O::Reply, Error>
    where
        O: Operation<Path = [String; 1]>,
        O::Query: Default,
        O::Body: Default,
    {
        self.client.call::<O>(self.args()).await
    }

    /// The execution as it is now, without payloads.
    pub async fn get(&self) -> Result<Execution, Error> {
        self.ask::<op::GetExecution>().await
    }

    /// Waits until it has ended, however long that takes and whether or not the server is there all the time.
    pub async fn wait(&self) -> Result<Execution, Error> {
        self.ended(None).await
    }

    async fn ended(&self, include: Option<&str>) -> Result<Execution, Error> {
        let mut failures = 0;
        loop {
            let query = GetQuery {
                include: include.map(str::to_string),
                wait_ms: Some(ms(WAIT)),
                until: Some("done".to_string()),
            };
            let args = Args { query, ..self.args() };
            match self.client.call::<op::GetExecution>(args).await {
                Ok(execution) if execution.public_state.is_terminal() => return Ok(execution),
                Ok(_) => failures = 0,
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    pause(failures, &error, self.client.world()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the end and reads the result as JSON.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, NoResult> {
        let result = self.payload().await?;
        Ok(payload::from_json(result.as_ref(), &format!("the result of `{}`", self.id))?)
    }

    /// Waits for the end and reads the result in the format `C`.
    pub async fn result_as<C: Codec, T: DeserializeOwned>(&self) -> Result<T, NoResult> {
        let result = self.payload().await?;
        Ok(payload::decode::<C, T>(result.as_ref(), &format!("the result of `{}`", self.id))?)
    }

    /// Waits for the end and gives the bytes of the result, if there are any.
    pub async fn payload(&self) -> Result<Option<Payload>, NoResult> {
        let execution = self.ended(Some("result")).await?;
        let Some(ended) = execution.ended else {
            let message = format!("`{}` has ended, and the server does not say how", self.id);
            return Err(Error::Decode { message, source: None }.into());
        };
        match ended.outcome {
            Outcome::Success => Ok(execution.result),
            Outcome::Failed => Err(failed(execution.failure, ended)),
            Outcome::Cancelled => Err(NoResult::Cancelled { reason: ended.reason }),
            Outcome::Expired => Err(NoResult::Expired { reason: ended.reason }),
            Outcome::Skipped => Err(NoResult::Skipped { reason: ended.reason }),
        }
    }

    /// Cancels it when awaited.
    pub fn cancel(&self, reason: impl Into<String>) -> Cancelling {
        let cancel = Cancel { reason: reason.into(), ..Cancel::default() };
        Cancelling { run: self.clone(), cancel }
    }

    /// Runs it again when awaited, if it has ended.
    pub fn replay(&self, reason: impl Into<String>) -> Replaying {
        let replay = Replay { reason: reason.into(), ..Replay::default() };
        Replaying { run: self.clone(), replay }
    }

    /// Why it is not running.
    pub async fn explain(&self) -> Result<Explanation, Error> {
        self.ask::<op::ExplainExecution>().await
    }

    /// Why this worker does not get it.
    pub async fn explain_for(&self, instance: impl Into<String>) -> Result<Explanation, Error> {
        let query = ExplainQuery { instance: Some(instance.into()) };
        let args = Args { path: [self.id.clone()], query, ..Args::default() };
        self.client.call::<op::ExplainExecution>(args).await
    }

    pub async fn history(&self) -> Result<History, Error> {
        let mut whole = History { items: Vec::new(), dropped: 0, next_cursor: None };
        loop {
            let query = PageQuery { limit: Some(1_000), cursor: whole.next_cursor.take() };
            let page = self.client.call::<op::GetHistory>(Args { query, ..self.args() }).await?;
            whole.items.extend(page.items);
            whole.dropped += page.dropped;
            whole.next_cursor = page.next_cursor;
            if whole.next_cursor.is_none() {
                return Ok(whole);
            }
        }
    }

    /// All of its attempts, in order, without their payloads.
    pub async fn attempts(&self) -> Result<Vec<Attempt>, Error> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let query = AttemptsQuery { limit: Some(1_000), cursor, include: None };
            let page = self.client.call::<op::ListAttempts>(Args { query, ..self.args() }).await?;
            all.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    pub async fn input(&self) -> Result<Option<Payload>, Error> {
        Ok(self.ask::<op::GetInput>().await?.0)
    }

    pub async fn checkpoint(&self) -> Result<Option<Payload>, Error> {
        Ok(self.ask::<op::GetCheckpoint>().await?.0)
    }
}

fn failed(failure: Option<weft_api::execution::Failure>, ended: Ended) -> NoResult {
    let reason = ended.reason;
    match failure {
        Some(failure) => {
            NoResult::Failed { category: failure.category, message: failure.message, detail: failure.detail, reason }
        }
        None => NoResult::Failed { category: reason.clone(), message: String::new(), detail: None, reason },
    }
}

pub(super) type Calling<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A cancel. Immediate unless it is graceful.
#[must_use = "nothing is cancelled before it is awaited"]
pub struct Cancelling {
    run: Run,
    cancel: Cancel,
}

impl Cancelling {
    /// The worker is asked, and has this long to end.
    pub fn graceful(mut self, grace: Duration) -> Self {
        self.cancel.mode = Some(CancelMode::Graceful);
        self.cancel.grace_ms = Some(ms(grace));
        self
    }

    /// Its children go on.
    pub fn keep_children(mut self) -> Self {
        self.cancel.cascade = Some(false);
        self
    }
}

impl IntoFuture for Cancelling {
    type Output = Result<Cancelled, Error>;
    type IntoFuture = Calling<Cancelled>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let args = Args { body: self.cancel, ..self.run.args() };
            self.run.client.call::<op::CancelExecution>(args).await
        })
    }
}

/// A replay. Steps are cleared unless they are kept.
#[must_use = "nothing is replayed before it is awaited"]
pub struct Replaying {
    run: Run,
    replay: Replay,
}

impl Replaying {
    /// Goes on after the last recorded step.
    pub fn keep_steps(mut self) -> Self {
        self.replay.steps = Some(StepsOnReplay::Keep);
        self
    }

    pub fn delay(mut self, delay: Duration) -> Self {
        self.replay.delay_ms = Some(ms(delay));
        self
    }

    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.replay.deadline_in_ms = Some(ms(deadline));
        self
    }

    pub fn priority(mut self, priority: u32) -> Self {
        self.replay.priority = Some(priority);
        self
    }
}

impl IntoFuture for Replaying {
    type Output = Result<Replayed, Error>;
    type IntoFuture = Calling<Replayed>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let args = Args { body: self.replay, ..self.run.args() };
            self.run.client.call::<op::ReplayExecution>(args).await
        })
    }
}
