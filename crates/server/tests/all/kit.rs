//! A server on a port of its own, keys for it, and a client of one connection.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_core::Time;
use weft_core::command::Scopes;
use weft_dispatch::Reach;
use weft_dispatch::secret::{KeyText, Macs, MasterKey};
use weft_engine::{Config, Engine, TokioRuntime};
use weft_server::{App, Auth, Bootstrap, Finding, Keys, Listener, Options, RateClass, Stopped, StoredKey};
use weft_store::faulty::{Faults, Sleeper};
use weft_store::{Faulty, MemoryStore};

/// Nothing in these tests takes longer unless something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn memory(partitions: u16) -> MemoryStore {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
    MemoryStore::new(partitions, Arc::new(move || Time::from_ms(now())))
}

pub async fn engine() -> Engine {
    Engine::open(memory(2), Config::default()).await.expect("the memory store opens")
}

struct Tokio;

impl Sleeper for Tokio {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(task);
    }
}

/// An engine whose store takes its time from now on.
pub async fn slow_engine(config: Config, commit_ms: u64) -> Engine {
    let faulty = Arc::new(Faulty::new(Arc::new(memory(1)), Faults::default(), 7, Arc::new(Tokio)));
    let engine = Engine::open_on(faulty.clone(), config, Arc::new(TokioRuntime::current())).await.expect("it opens");
    faulty.set_faults(Faults { before_ms: (commit_ms, commit_ms), ..Faults::default() });
    engine
}

/// An engine whose store does not answer reads from now on.
pub async fn cut_off_engine() -> Engine {
    let faulty = Arc::new(Faulty::new(Arc::new(memory(1)), Faults::default(), 7, Arc::new(Tokio)));
    let runtime = Arc::new(TokioRuntime::current());
    let engine = Engine::open_on(faulty.clone(), Config::default(), runtime).await.expect("it opens");
    faulty.set_faults(Faults { read_error: 1000, ..Faults::default() });
    engine
}

/// Keys in memory.
#[derive(Default)]
pub struct KeyBox(Mutex<BTreeMap<String, StoredKey>>);

impl Keys for KeyBox {
    fn find(&self, id: &str) -> Finding<'_> {
        let found = self.0.lock().unwrap().get(id).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn used(&self, _: &str) {}
}

pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    pub keys: Arc<KeyBox>,
    macs: Macs,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<Stopped>>,
}

impl Server {
    pub async fn dev() -> Self {
        Self::start(engine().await, Options::dev()).await
    }

    /// One that asks for keys.
    pub async fn keyed() -> Self {
        Self::keyed_with(engine().await, |_| {}).await
    }

    pub async fn keyed_with(engine: Engine, set: impl FnOnce(&mut Options)) -> Self {
        let (macs, keys) = (MasterKey::new([7; 32]).macs(), Arc::new(KeyBox::default()));
        let mut options = Options::new(Auth::Keyed { macs: macs.clone(), keys: keys.clone() });
        set(&mut options);
        Self { keys, macs, ..Self::start(engine, options).await }
    }

    /// One whose keys are kept by its engine, and the first of them.
    pub async fn bootstrapped() -> (Self, String) {
        let (engine, macs) = (engine().await, MasterKey::new([7; 32]).macs());
        let made = Bootstrap::make(&engine, &macs, None).await.expect("there is no key yet");
        let Bootstrap::Created(key) = made else { panic!("there are keys already") };
        let options = Options::new(Auth::Keyed { macs, keys: Arc::new(engine.clone()) });
        (Self::start(engine, options).await, key)
    }

    pub async fn start(engine: Engine, options: Options) -> Self {
        let app = App::new(engine, options);
        let listener = Listener::bind(&app, ([127, 0, 0, 1], 0).into(), None).await.expect("a port is free");
        Self::run(app, listener)
    }

    pub fn run(app: App, listener: Listener) -> Self {
        let (stop, stopped) = oneshot::channel();
        let address = listener.address();
        let running = tokio::spawn(listener.run(async {
            // Without its server the test is over.
            let _ = stopped.await;
        }));
        let (keys, macs) = (Arc::default(), MasterKey::new([7; 32]).macs());
        Self { app, address, keys, macs, stop: Some(stop), running: Some(running) }
    }

    /// Makes a key with these scopes, good in these namespaces; `*` is all.
    pub fn key(&self, scopes: Scopes, namespaces: &[&str]) -> String {
        self.key_with(scopes, namespaces, |_| {})
    }

    pub fn key_with(&self, scopes: Scopes, namespaces: &[&str], set: impl FnOnce(&mut StoredKey)) -> String {
        let text = KeyText::random().expect("the system has random bytes");
        let reach = match namespaces {
            ["*"] => Reach::All,
            names => Reach::Some(names.iter().map(|name| (*name).into()).collect()),
        };
        let mut key = StoredKey {
            id: text.id.clone(),
            name: format!("key {}", text.id).into(),
            scopes,
            reach,
            read_only: false,
            rate: RateClass::Unlimited,
            macs: vec![(self.macs.of(&text), None)],
        };
        set(&mut key);
        self.keys.0.lock().unwrap().insert(text.id.clone(), key);
        text.reveal()
    }

    pub fn change_key(&self, text: &str, change: impl FnOnce(&mut StoredKey)) {
        let key = KeyText::parse(text).expect("it is a key");
        change(self.keys.0.lock().unwrap().get_mut(&key.id).expect("there is such a key"));
    }

    pub fn remove_key(&self, text: &str) {
        let key = KeyText::parse(text).expect("it is a key");
        self.keys.0.lock().unwrap().remove(&key.id);
    }

    pub async fn http(&self) -> Http {
        Http::connect(self.address).await
    }

    /// A client that calls with this key.
    pub async fn http_as(&self, key: &str) -> Http {
        let mut http = self.http().await;
        http.key = Some(key.to_string());
        http
    }

    /// A gauge without labels, as it stands now.
    pub fn level(&self, name: &str) -> u64 {
        let text = self.app.metrics_text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect("it is measured").parse::<f64>().expect("a gauge is a number") as u64
    }

    /// Begins to stop, without waiting for it.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Stops and tells how that went.
    pub async fn stop(&mut self) -> Stopped {
        self.begin_stop();
        let running = self.running.take().expect("it is stopped once");
        within(running).await.expect("the server does not panic")
    }
}

/// The result, or a loud failure.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it does not take so long")
}

/// Waits until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::task::yield_now().await;
    }
}

/// One connection.
pub struct Http {
    sender: http1::SendRequest<Full<Bytes>>,
    pub host: String,
    pub key: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_string()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("headers of replies are text"))
    }

    /// The body of a reply that must be good.
    #[track_caller]
    pub fn good(&self) -> Value {
        assert!(self.status < 300, "{self:?}");
        self.json()
    }

    /// A refusal with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"));
        problem
    }
}

impl Http {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        Self::over(stream, address.to_string()).await
    }

    pub async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, host: String) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it is HTTP");
        tokio::spawn(connection);
        Self { sender, host, key: None }
    }

    pub async fn send(&mut self, request: http::request::Builder, body: impl Into<Bytes>) -> Answer {
        self.try_send(request, body).await.expect("the server answers")
    }

    pub async fn try_send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Answer, hyper::Error> {
        let mut request = request.body(Full::new(body.into())).expect("it is a request");
        let headers = request.headers_mut();
        headers.entry("host").or_insert_with(|| self.host.parse().expect("a host"));
        if let Some(key) = &self.key {
            headers.entry("authorization").or_insert_with(|| format!("Bearer {key}").parse().expect("a key"));
        }
        within(async {
            self.sender.ready().await?;
            let (parts, body) = self.sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        })
        .await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(Request::get(path), "").await
    }

    pub async fn call(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        self.call_with(method, path, body, &[]).await
    }

    pub async fn call_with(&mut self, method: &str, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let method: Method = method.parse().expect("a method");
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let text = if body.is_null() { String::new() } else { body.to_string() };
        if !text.is_empty() {
            request = request.header("content-type", "application/json");
        }
        self.send(request, text).await
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Answer {
        self.call("POST", path, &body).await
    }

    /// Submits one execution and answers its id.
    pub async fn submit(&mut self, body: Value) -> String {
        let answer = self.post("/v1/executions", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        answer.json()["id"].as_str().expect("it has an id").to_string()
    }

    /// Claims one execution that must be there.
    pub async fn claim(&mut self) -> Task {
        let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 5000 });
        let claimed = self.post("/v1/work/claim", claim).await.good();
        Task(claimed["executions"][0].clone())
    }
}

/// Claimed work.
pub struct Task(pub Value);

impl Task {
    pub fn execution(&self) -> String {
        self.0["execution"].as_str().unwrap_or_else(|| panic!("nothing was claimed: {}", self.0)).to_string()
    }

    /// What fenced calls name it by, and more fields.
    pub fn held(&self, more: Value) -> Value {
        let lease = &self.0["lease"];
        let mut held = json!({ "execution": self.0["execution"], "lease": lease["id"], "epoch": lease["epoch"] });
        for (name, value) in more.as_object().expect("fields").clone() {
            held[name] = value;
        }
        held
    }
}
