//! Submitting executions.

use super::{Client, Run};
use crate::payload::{self, Codec};
use crate::{Error, Payload};
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use weft_api::execution::{Policy, Submit, SubmitBatch, Submitted};
use weft_api::{Args, Moment, op};

/// An execution to be. Nothing happens before it is awaited.
#[must_use = "nothing is submitted before it is awaited"]
#[derive(Clone, Debug)]
pub struct Submission {
    client: Client,
    submit: Result<Submit, String>,
}

impl Client {
    /// An execution of `kind` with `input` as JSON.
    pub fn submit<T: Serialize + ?Sized>(&self, kind: impl Into<String>, input: &T) -> Submission {
        self.submission(kind.into(), payload::json(input).map(Some))
    }

    /// An execution of `kind` without an input.
    pub fn submit_empty(&self, kind: impl Into<String>) -> Submission {
        self.submission(kind.into(), Ok(None))
    }

    /// An execution of `kind` with these bytes as its input.
    pub fn submit_payload(&self, kind: impl Into<String>, input: Payload) -> Submission {
        self.submission(kind.into(), Ok(Some(input)))
    }

    /// An execution of `kind` with `input` in the format `C`.
    pub fn submit_as<C: Codec, T: Serialize + ?Sized>(&self, kind: impl Into<String>, input: &T) -> Submission {
        self.submission(kind.into(), payload::encode::<C, T>(input).map(Some))
    }

    fn submission(&self, kind: String, input: Result<Option<Payload>, Error>) -> Submission {
        let submit = input.map(|input| Submit { kind, input, ..Submit::default() });
        Submission { client: self.clone(), submit: submit.map_err(|error| error.to_string()) }
    }

    /// Submits many in one call. Each is answered for itself; with `atomic` all of them exist afterwards or none.
    pub async fn submit_batch(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
        atomic: bool,
    ) -> Result<Vec<Result<Run, Error>>, Error> {
        let items = submissions.into_iter().map(Submission::into_request).collect::<Result<Vec<_>, _>>()?;
        let body = SubmitBatch { items, atomic };
        let reply = self.call::<op::SubmitExecutions>(Args { body, ..Args::default() }).await?;
        let run = |submitted: Submitted| Run::submitted(self.clone(), submitted);
        Ok(reply.results.into_iter().map(|item| item.into_result().map(run).map_err(Error::from)).collect())
    }
}

impl Submission {
    fn with(mut self, change: impl FnOnce(&mut Submit)) -> Self {
        if let Ok(submit) = &mut self.submit {
            change(submit);
        }
        self
    }

    /// The queue it waits in; `default` unless given.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        self.with(|submit| submit.lane = Some(lane.into()))
    }

    /// 0 to 9000, larger first.
    pub fn priority(self, priority: u32) -> Self {
        self.with(|submit| submit.priority = Some(priority))
    }

    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|submit| drop(submit.tags.insert(key.into(), value.into())))
    }

    pub fn tags(self, tags: BTreeMap<String, String>) -> Self {
        self.with(|submit| submit.tags.extend(tags))
    }

    /// What a worker must offer to get it.
    pub fn capability(self, capability: impl Into<String>) -> Self {
        self.with(|submit| submit.capabilities.push(capability.into()))
    }

    /// A second submission with this key never makes a second execution.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.with(|submit| submit.idempotency_key = Some(key.into()))
    }

    /// It starts after this time.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|submit| submit.delay_ms = Some(ms(delay)))
    }

    /// It starts at this time, in milliseconds since 1970.
    pub fn start_at(self, at_ms: u64) -> Self {
        self.with(|submit| submit.start_at = Some(Moment(at_ms)))
    }

    /// It expires if it has not ended after this time.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|submit| submit.deadline_in_ms = Some(ms(deadline)))
    }

    /// It expires if it has not ended at this time, in milliseconds since 1970.
    pub fn deadline_at(self, at_ms: u64) -> Self {
        self.with(|submit| submit.deadline_at = Some(Moment(at_ms)))
    }

    /// How it is retried, how long it may run and how long it is kept.
    pub fn policy(self, policy: Policy) -> Self {
        self.with(|submit| submit.policy = Some(policy))
    }

    /// How often a failed attempt is retried.
    pub fn max_retries(self, retries: u32) -> Self {
        self.with(|submit| {
            let policy = submit.policy.get_or_insert_default();
            policy.retry.get_or_insert_default().max_retries = Some(retries);
        })
    }

    /// Executions with the same key are placed together.
    pub fn concurrency_key(self, key: impl Into<String>) -> Self {
        self.with(|submit| submit.concurrency_key = Some(Payload::text(key)))
    }

    /// W3C trace context, handed to the worker.
    pub fn trace(self, traceparent: impl Into<String>) -> Self {
        self.with(|submit| submit.trace = Some(traceparent.into()))
    }

    /// The request as it would be sent.
    pub fn into_request(self) -> Result<Submit, Error> {
        self.submit.map_err(|message| Error::Decode { message, source: None })
    }
}

impl IntoFuture for Submission {
    type Output = Result<Run, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.client.clone();
            let body = self.into_request()?;
            let submitted = client.call::<op::SubmitExecution>(Args { body, ..Args::default() }).await?;
            Ok(Run::submitted(client, submitted))
        })
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
