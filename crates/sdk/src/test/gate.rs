//! What stands between the worker and the engine: it loses replies and ends the worker where a test wants it.

use crate::Error;
use crate::transport::{Answering, Transport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tower::{Service, ServiceExt};
use weft_api::{Call, Reply};

#[derive(Clone)]
pub struct Gate {
    inner: Transport,
    state: Arc<Mutex<State>>,
    crash: Arc<Notify>,
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
        Self { inner, state: Arc::default(), crash: Arc::default() }
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

    /// Ready when the worker is to end at once.
    pub async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// What becomes of a reply that is there.
    fn passing(&self, operation: &str, reply: &Reply) -> Passing {
        let matters = matters(reply);
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

/// True if the call changed something that a worker relies on. Heartbeats are none of it: they go on for ever, and a crash
/// after one is a crash between two others.
fn matters(reply: &Reply) -> bool {
    match reply {
        Reply::Claim(claimed) => !claimed.executions.is_empty(),
        Reply::RegisterWorker(_)
        | Reply::Renew(_)
        | Reply::Settle(_)
        | Reply::Complete(_)
        | Reply::Fail(_)
        | Reply::Delay(_)
        | Reply::WaitChildren(_)
        | Reply::CancelHeld(_)
        | Reply::Progress(_)
        | Reply::TagHeld(_)
        | Reply::RecordSteps(_)
        | Reply::SpawnChildren(_)
        | Reply::SubmitExecution(_)
        | Reply::SubmitExecutions(_)
        | Reply::CancelExecution(_) => true,
        _ => false,
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
            let operation = call.spec().id;
            let reply = gate.inner.clone().oneshot(call).await?;
            match gate.passing(operation, &reply) {
                Passing::Through => Ok(reply),
                Passing::Lost => Err(Error::no_answer(format!("the reply to `{operation}` was lost"))),
                Passing::Crash => {
                    gate.crash();
                    std::future::pending().await
                }
            }
        })
    }
}
