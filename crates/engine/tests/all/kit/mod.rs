pub mod bench;
pub mod flows;
pub mod hand;
pub mod kinds;
pub mod log;
pub mod plant;
pub mod probe;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use weft_core::Time;
use weft_core::record::Key;
use weft_core::schema::Kind;
use weft_engine::{Claim, Client, Config, Engine, Submission, TokioRuntime};
use weft_store::faulty::{Faults, Sleeper};
use weft_store::{Faulty, MemoryStore};

/// A memory store whose clock is tokio's, which tests pause.
pub fn memory(partitions: u16) -> MemoryStore {
    let began = tokio::time::Instant::now();
    MemoryStore::new(partitions, Arc::new(move || Time::from_ms(1_000_000 + began.elapsed().as_millis() as u64)))
}

pub struct Kit {
    pub store: MemoryStore,
    pub engine: Engine,
    pub client: Client,
}

pub async fn open() -> Kit {
    open_with(1, Config::default()).await
}

pub async fn open_with(partitions: u16, config: Config) -> Kit {
    let store = memory(partitions);
    let engine = Engine::open(store.clone(), config).await.expect("the memory store opens");
    let client = engine.client("shop").expect("a good name");
    Kit { store, engine, client }
}

impl Kit {
    pub async fn submit(&self, submission: Submission) -> weft_core::ExecutionId {
        self.client.submit(submission).await.expect("a good submission").id
    }

    /// Claims one execution, which must be there.
    pub async fn claim(&self) -> weft_core::reply::Claimed {
        let mut reply = self.client.claim(worker()).await.expect("a good claim");
        assert_eq!(reply.executions.len(), 1, "one execution is claimable");
        reply.executions.remove(0)
    }

    pub async fn claim_nothing(&self) {
        let reply = self.client.claim(worker()).await.expect("a good claim");
        assert!(reply.executions.is_empty(), "nothing is claimable: {reply:?}");
    }
}

/// What the first partition holds beside the registry of workers, which whoever claims is entered in.
pub fn kept(store: &MemoryStore) -> Vec<Key> {
    let dump = store.dump(weft_core::PartitionId(0));
    dump.records.keys().copied().filter(|key| key.kind() != Kind::Worker).collect()
}

pub fn worker() -> Claim {
    Claim::new("mailer", "mailer-1")
}

pub async fn pass(ms: u64) {
    tokio::time::advance(std::time::Duration::from_millis(ms)).await;
}

/// Takes so long on the clock of the test, which others move.
pub async fn linger(ms: u64) {
    Tokio.sleep(ms).await;
}

/// Faults on tokio's clock.
struct Tokio;

impl Sleeper for Tokio {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(std::time::Duration::from_millis(ms)))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(task);
    }
}

/// An engine on a memory store behind faults that begin once it is open.
pub async fn open_faulty(faults: Faults, config: Config) -> (MemoryStore, Arc<Faulty<MemoryStore>>, Engine) {
    open_faulty_on(memory(1), faults, config).await
}

pub async fn open_faulty_on(
    store: MemoryStore,
    faults: Faults,
    config: Config,
) -> (MemoryStore, Arc<Faulty<MemoryStore>>, Engine) {
    let faulty = Arc::new(Faulty::new(Arc::new(store.clone()), Faults::default(), 7, Arc::new(Tokio)));
    let runtime = Arc::new(TokioRuntime::current());
    let engine = Engine::open_on(faulty.clone(), config, runtime).await.expect("the store opens");
    faulty.set_faults(faults);
    (store, faulty, engine)
}
