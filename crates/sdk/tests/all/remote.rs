//! A server of its own on a port of this machine, which can go away and come back.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_core::Time;
use weft_dispatch::secret::MasterKey;
use weft_engine::{Config, Engine};
use weft_sdk::Client;
use weft_server::{App, Auth, Bootstrap, Listener, Options};
use weft_store::MemoryStore;

/// Nothing in these tests takes longer unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn memory() -> MemoryStore {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    MemoryStore::new(2, Arc::new(move || Time::from_ms(now())))
}

pub async fn engine_on(store: MemoryStore) -> Engine {
    Engine::open(store, Config::default()).await.unwrap()
}

pub struct Server {
    pub address: SocketAddr,
    engine: Engine,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Server {
    pub async fn start(store: MemoryStore, address: SocketAddr) -> Self {
        Self::with(engine_on(store).await, address, Options::dev()).await
    }

    /// One that asks for keys, and the first of them.
    pub async fn keyed() -> (Self, String) {
        let (engine, macs) = (engine_on(memory()).await, MasterKey::new([7; 32]).macs());
        let Bootstrap::Created(key) = Bootstrap::make(&engine, &macs, None).await.unwrap() else {
            panic!("there is a key already")
        };
        let options = Options::new(Auth::Keyed { macs, keys: Arc::new(engine.clone()) });
        (Self::with(engine, SocketAddr::from(([127, 0, 0, 1], 0)), options).await, key)
    }

    async fn with(engine: Engine, address: SocketAddr, options: Options) -> Self {
        let app = App::new(engine.clone(), Options { drain: Duration::from_secs(2), ..options });
        let listener = Listener::bind(&app, address, None).await.unwrap();
        let address = listener.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            listener.run(async move { drop(stopped.await) }).await;
        });
        Self { address, engine, stop, running }
    }

    pub async fn any() -> Self {
        Self::start(memory(), SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub async fn client(&self) -> Client {
        Client::connect(format!("http://{}", self.address)).check().build().await.unwrap()
    }

    pub async fn client_with(&self, key: &str) -> Client {
        let client = Client::connect(format!("http://{}", self.address)).key(key).namespace("default");
        client.check().build().await.unwrap()
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
        self.engine.shutdown().await;
    }
}

/// The output of something that must come soon.
pub async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("it came in time")
}
