//! What stands between the worker and the engine: it loses replies and ends the worker where a test wants it.

use crate::Error;
use crate::transport::{Answering, Transport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tower::{Service, ServiceExt};
use weft_api::{Call, Reply};

/// Clones are the same gate; each process of a worker goes through one of its own with the same state.
#[derive(Clone)]
pub struct Gate {
    inner: Transport,
    state: Arc<Mutex<State>>,
    /// Ends some worker
    crash: Arc<Notify>,
    /// Ends the process that goes through this one
    own: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// The reply to the next call of this name is lost; of any that matters if the name is empty
    lose: Vec<String>,
    /// Calls that changed something
    changes: u64,
    /// The worker ends after so many
    crash_after: Option<u64>,
}

impl Gate {
    pub fn new(inner: Transport) -> Self {
        Self { inner, state: Arc::default(), crash: Arc::default(), own: Arc::default() }
    }

    /// The gate of another process.
    pub fn of_process(&self) -> Self {
        Self { own: Arc::default(), ..self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lose(&self, operation: &str) {
        self.state().lose.push(operation.to_string());
    }

    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    pub fn crash_after(&self, changes: u64) {
        self.state().crash_after = Some(changes);
    }

    pub fn crash(&self) {
        self.crash.notify_one();
    }

    /// Ready when the process that goes through this gate is to end at once.
    pub async fn crashed(&self) {
        tokio::select! {
            () = self.own.notified() => {}
            () = self.crash.notified() => {}
        }
    }

    /// What becomes of a reply that is there.
    fn passing(&self, operation: &'static str, changes: bool, reply: &Reply) -> Passing {
        let matters = matters(operation, changes, reply);
        let mut state = self.state();
        if matters {
            state.changes += 1;
            if state.crash_after == Some(state.changes) {
                return Passing::Crash;
            }
        }
        let is_lost = |name: &String| name == operation || (name.is_empty() && matters);
        match state.lose.iter().position(is_lost) {
            Some(at) => {
                state.lose.remove(at);
                Passing::Lost
            }
            None => Passing::Through,
        }
    }
}

enum Passing {
    Through,
    Lost,
    Crash,
}

/// True if the call changed something. Heartbeats are none of it: they go on for ever, and a crash after one is a crash
/// between two others. Nor is a claim that got nothing.
fn matters(operation: &str, changes: bool, reply: &Reply) -> bool {
    match reply {
        Reply::Claim(claimed) => !claimed.executions.is_empty(),
        _ => changes && operation != "heartbeat",
    }
}

impl Service<Call> for Gate {
    type Response = Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Answering {
        let gate = self.clone();
        Box::pin(async move {
            let (operation, changes) = (call.spec().id, call.spec().changes());
            let reply = gate.inner.clone().oneshot(call).await?;
            match gate.passing(operation, changes, &reply) {
                Passing::Through => Ok(reply),
                Passing::Lost => Err(Error::no_answer(format!("the reply to `{operation}` was lost"))),
                Passing::Crash => {
                    gate.own.notify_one();
                    std::future::pending().await
                }
            }
        })
    }
}
