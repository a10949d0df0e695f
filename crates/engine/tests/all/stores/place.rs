//! Engines on a store that can die.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_core::record::flow::Summary;
use weft_core::reply::Claimed;
use weft_core::{FlowId, Time};
use weft_engine::config::ScannerConfig;
use weft_engine::flow::FlowSubmission;
use weft_engine::runtime::BoxFuture;
use weft_engine::{Claim, Client, Config, Engine, Runtime, TokioRuntime};
use weft_store::Store;

/// How long anything that is bound to come may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// An engine that can be ended without a word, and a client of it.
pub struct Node {
    pub engine: Engine,
    pub client: Client,
    runtime: Arc<Mortal>,
}

impl Node {
    pub async fn start<S: Store>(store: &Arc<S>) -> Node {
        Self::with(store, Config::default()).await
    }

    /// One whose scanners run only when they are told to.
    pub async fn quiet<S: Store>(store: &Arc<S>) -> Node {
        let scanners = ScannerConfig { at_once: 0, ..ScannerConfig::default() };
        Self::with(store, Config { scanners, ..Config::default() }).await
    }

    async fn with<S: Store>(store: &Arc<S>, config: Config) -> Node {
        let runtime = Arc::new(Mortal { inner: TokioRuntime::current(), tasks: Mutex::default() });
        let engine = Engine::open_on(store.clone(), config, runtime.clone()).await.unwrap();
        let client = engine.client("shop").unwrap();
        Node { engine, client, runtime }
    }

    /// As kill -9 would.
    pub fn kill(self) {
        for task in self.runtime.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }

    pub async fn submit(&self, flow: FlowSubmission) -> FlowId {
        self.client.submit_flow(flow).await.unwrap().value.id
    }

    /// Claims this member, which must be there to be claimed.
    pub async fn claim(&self, flow: FlowId, key: &str) -> Claimed {
        self.claim_for(flow, key, 30_000).await
    }

    pub async fn claim_for(&self, flow: FlowId, key: &str, lease_ms: u64) -> Claimed {
        let execution = Some(weft_core::flow::member_id(flow, key));
        let claim = Claim { execution, lease_ms, ..Claim::new("mailer", "mailer-1") };
        self.client.claim(claim).await.unwrap().executions.remove(0)
    }

    pub async fn complete(&self, flow: FlowId, key: &str) {
        let held = self.claim(flow, key).await;
        let completion = weft_engine::Completion::of(&held).result(key.to_owned());
        self.client.complete(completion).await.unwrap();
    }

    /// Fails it for good.
    pub async fn fail(&self, flow: FlowId, key: &str) {
        let held = self.claim(flow, key).await;
        self.client.fail(weft_engine::Failing::of(&held)).await.unwrap();
    }

    /// The public states of these members.
    pub async fn states(&self, flow: FlowId, keys: &str) -> Vec<&'static str> {
        let mut states = Vec::new();
        for key in keys.split_whitespace() {
            states.push(self.client.member(flow, key).await.unwrap().public_state.name());
        }
        states
    }

    pub async fn state(&self, flow: FlowId) -> &'static str {
        self.client.flow(flow).await.unwrap().flow.public_state().name()
    }

    pub async fn summary(&self, flow: FlowId) -> Summary {
        self.client.flow(flow).await.unwrap().flow.summary
    }
}

/// Asks again until the answer is there.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answered = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    answered.await.unwrap_or_else(|_| panic!("{what} did not come within {DEADLINE:?}"))
}

struct Mortal {
    inner: TokioRuntime,
    tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Runtime for Mortal {
    fn clock(&self) -> Time {
        self.inner.clock()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<()> {
        self.inner.sleep(ms)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.tasks.lock().unwrap().push(tokio::spawn(task).abort_handle());
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
