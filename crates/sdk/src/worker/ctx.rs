//! What a handler can do with the execution it runs. Owns what is known of the lease; every call that writes is fenced
//! by it and is repeated until it is answered or the lease is over.

use super::extract::Info;
use super::failure::Failure;
use super::report::Riders;
use super::state::States;
use super::step::Journal;
use super::token::{Cancellation, Cause, Token};
use crate::client::pause;
use crate::{Client, Error};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::Instant;
use weft_api::work::{Steps, Task as Claimed};
use weft_api::{Args, Class, Code, Operation};

/// The execution that a handler runs. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(Arc<Shared>);

struct Shared {
    client: Client,
    states: Arc<States>,
    claimed: Claimed,
    strict: bool,
    /// Times of the lease are counted from here.
    base: Instant,
    expires_ms: AtomicU64,
    token: Token,
    paused: AtomicBool,
    journal: Mutex<Journal>,
    stepped: Notify,
    riders: Mutex<Riders>,
}

impl Ctx {
    pub(crate) fn new(client: Client, states: Arc<States>, mut claimed: Claimed, begun: Instant, strict: bool) -> Self {
        let steps = std::mem::replace(&mut claimed.steps, Steps { items: Vec::new(), more: false });
        let expires_ms = AtomicU64::new(claimed.lease.expires_in_ms);
        Self(Arc::new(Shared {
            client,
            states,
            claimed,
            strict,
            base: begun,
            expires_ms,
            token: Token::default(),
            paused: AtomicBool::new(false),
            journal: Mutex::new(Journal::of(steps)),
            stepped: Notify::new(),
            riders: Mutex::default(),
        }))
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        &self.0.claimed
    }

    /// Steps that get in each other's way are refused; otherwise they run one after the other.
    pub(crate) fn is_strict(&self) -> bool {
        self.0.strict
    }

    pub(crate) fn states(&self) -> &States {
        &self.0.states
    }

    pub(crate) fn token(&self) -> &Token {
        &self.0.token
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.0.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stepped(&self) -> &Notify {
        &self.0.stepped
    }

    pub(crate) fn riders(&self) -> MutexGuard<'_, Riders> {
        self.0.riders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that makes calls with the rights of the worker.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn id(&self) -> &str {
        &self.0.claimed.execution
    }

    pub fn kind(&self) -> &str {
        &self.0.claimed.kind
    }

    pub fn lane(&self) -> &str {
        &self.0.claimed.lane
    }

    pub fn info(&self) -> Info {
        let claimed = self.claimed();
        Info {
            id: claimed.execution.clone(),
            namespace: claimed.namespace.clone(),
            lane: claimed.lane.clone(),
            kind: claimed.kind.clone(),
            priority: claimed.priority,
            epoch: claimed.lease.epoch,
            attempt: claimed.attempt.index,
            attempt_kind: claimed.attempt.kind.clone(),
            resumed: claimed.attempt.resumed,
            retries_left: claimed.retries_left,
            deadline_at: claimed.deadline_at,
            trace: claimed.trace.clone(),
            previous: claimed.attempt.previous.clone(),
        }
    }

    /// The number of this attempt, from 0.
    pub fn attempt(&self) -> u32 {
        self.claimed().attempt.index
    }

    pub fn retries_left(&self) -> u32 {
        self.claimed().retries_left
    }

    pub fn deadline(&self) -> Option<SystemTime> {
        self.claimed().deadline_at.map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// The trace context that the execution was submitted with.
    pub fn trace(&self) -> Option<&str> {
        self.claimed().trace.as_deref()
    }

    /// How long the lease is still good, seen from here. Renewals move it.
    pub fn lease_left(&self) -> Duration {
        self.expires_at().saturating_duration_since(Instant::now())
    }

    pub(crate) fn expires_at(&self) -> Instant {
        self.0.base + Duration::from_millis(self.0.expires_ms.load(Ordering::Acquire))
    }

    /// A renewal that was sent at `sent` is good for `ms`; a late one never shortens the lease.
    pub(crate) fn renewed(&self, sent: Instant, ms: u64) {
        let until = sent.saturating_duration_since(self.0.base) + Duration::from_millis(ms);
        self.0.expires_ms.fetch_max(until.as_millis() as u64, Ordering::AcqRel);
    }

    /// The length of the lease as it was claimed.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.claimed().lease.expires_in_ms)
    }

    /// Becomes ready when the handler should stop: a cancel, a lost lease, a timeout, a shutdown.
    pub fn cancelled(&self) -> impl Future<Output = Cancellation> + Send + 'static {
        let shared = self.0.clone();
        async move { shared.token.raised().await }
    }

    /// What the handler was told, if it should stop.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.token().told()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Acquire)
    }

    /// The lease has ended by a pause: whatever the handler does from here on counts for nothing.
    pub(crate) fn paused(&self) -> Failure {
        self.0.paused.store(true, Ordering::Release);
        Failure::pause()
    }

    /// Refuses every call after a pause.
    pub(crate) fn going(&self) -> Result<(), Failure> {
        match self.is_paused() {
            true => Err(Failure::pause()),
            false => Ok(()),
        }
    }

    /// How a handler ends that was told to stop.
    pub(crate) fn interrupted(told: &Cancellation) -> Failure {
        match told.cause {
            Cause::Cancel | Cause::Shutdown => Failure::told(told.reason.clone()),
            Cause::LeaseLost | Cause::Timeout => Failure::lost(told.reason.clone()),
        }
    }

    /// Makes a fenced call until it is answered or the lease is over.
    pub(crate) async fn fenced<O>(&self, args: Args<O::Path, O::Query, O::Body>) -> Result<O::Reply, Failure>
    where
        O: Operation,
        Args<O::Path, O::Query, O::Body>: Clone,
    {
        self.going()?;
        let mut failures = 0;
        loop {
            let error = match self.client().call::<O>(args.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !self.tries_again(&error, &mut failures).await {
                return Err(self.refused(error));
            }
        }
    }

    /// Waits before a fenced call is made again; false if that would not help or the lease is over.
    pub(crate) async fn tries_again(&self, error: &Error, failures: &mut u32) -> bool {
        if !error.is_retryable() || self.lease_left().is_zero() {
            return false;
        }
        *failures += 1;
        pause(*failures, error, self.client().world()).await;
        true
    }

    /// A refusal that concerns the lease stops the handler; any other is the handler's to answer.
    pub(crate) fn refused(&self, error: Error) -> Failure {
        let over = error.is_retryable() || error.class() == Some(Class::Stop);
        if over || error.code() == Some(Code::ExecutionTerminal) {
            self.token().raise(Cause::LeaseLost, &error.to_string(), None);
            return Failure::lost(error.to_string());
        }
        if error.code() == Some(Code::CancelRequested) {
            self.token().raise(Cause::Cancel, "a cancel was requested", None);
            return Failure::told("a cancel was requested");
        }
        Failure::from(error)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ctx({}, `{}`, attempt {})", self.id(), self.kind(), self.attempt())
    }
}
