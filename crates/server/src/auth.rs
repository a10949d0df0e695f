//! Who calls: the key of a request, looked up, compared, remembered for a moment.

use lru::LruCache;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_api::{Code, Problem};
use weft_core::KeyId;
use weft_core::command::{CreateKey, Principal, Scopes};
use weft_core::error::Rejection;
use weft_core::record::ApiKey;
use weft_core::record::api_key::{Attributes, Mac, RateClass, Reach};
use weft_dispatch::secret::{KeyText, Macs};
use weft_engine::{Engine, KeyCreation};

/// A change of a key holds here after this time at the latest.
const FRESH: Duration = Duration::from_secs(2);
/// How often the use of a key is told to the engine, which writes it down once an hour.
const TOUCH: Duration = Duration::from_secs(600);
const KEYS_MAX: usize = 10_000;

/// Keys that were used lately, and the ids of such as do not exist.
pub struct Keyring {
    engine: Engine,
    macs: Macs,
    known: Mutex<LruCache<KeyId, Known>>,
}

#[derive(Clone)]
struct Known {
    key: Option<Arc<ApiKey>>,
    state: Arc<KeyState>,
    read_at: Instant,
    touched_at: Option<Instant>,
}

/// What one key is doing on this node.
#[derive(Default)]
pub struct KeyState {
    pub waiting: AtomicUsize,
}

/// A key that is good.
#[derive(Clone)]
pub struct Good {
    pub key: Arc<ApiKey>,
    pub state: Arc<KeyState>,
}

impl Keyring {
    pub fn new(engine: Engine, macs: Macs) -> Self {
        let max = NonZeroUsize::new(KEYS_MAX).expect("auth: the number is not zero");
        Self { engine, macs, known: Mutex::new(LruCache::new(max)) }
    }

    /// The key whose text this is, if it is good now.
    pub async fn check(&self, text: Option<&str>) -> Result<Good, Problem> {
        let key = text.and_then(KeyText::parse).ok_or_else(unauthorized)?;
        let id: KeyId = key.id.parse().map_err(|_| unauthorized())?;
        let known = self.look_up(id).await.map_err(weft_dispatch::rejection::problem)?;
        let Some(stored) = known.key else {
            // An unknown id costs what a wrong secret costs.
            self.macs.fits(&key, &[0; 32]);
            return Err(unauthorized());
        };
        let now = self.engine.now();
        if !stored.good(now).any(|Mac(mac)| self.macs.fits(&key, mac)) {
            return Err(unauthorized());
        }
        self.touch(id);
        Ok(Good { key: stored, state: known.state })
    }

    async fn look_up(&self, id: KeyId) -> Result<Known, Rejection> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lock().get(&id).cloned();
        if let Some(known) = kept.as_ref().filter(|known| known.read_at.elapsed() < FRESH) {
            return Ok(known.clone());
        }
        let key = self.engine.find_key(id).await?.map(Arc::new);
        let (state, touched_at) = kept.map_or_else(Default::default, |known| (known.state, known.touched_at));
        let known = Known { key, state, read_at: Instant::now(), touched_at };
        lock().put(id, known.clone());
        Ok(known)
    }

    fn touch(&self, id: KeyId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get_mut(&id) else { return };
        if known.touched_at.is_some_and(|at| at.elapsed() < TOUCH) {
            return;
        }
        known.touched_at = Some(Instant::now());
        let engine = self.engine.clone();
        tokio::spawn(async move {
            if let Err(rejection) = engine.touch_key(id).await {
                tracing::debug!(%rejection, "could not note the use of a key");
            }
        });
    }

    /// Forgets what it knows of a key, so that a change made here holds at once.
    pub fn forget(&self, id: &str) {
        if let Ok(id) = id.parse() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).pop(&id);
        }
    }
}

/// One text for all: missing, malformed, unknown, wrong, expired, revoked.
fn unauthorized() -> Problem {
    Problem::new(Code::Unauthorized, "the key is missing or not good").hint("send `Authorization: Bearer weft_…`")
}

impl KeyState {
    /// Counts a call that waits, unless too many do.
    pub fn wait(self: &Arc<Self>, max: usize) -> Option<Waiting> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(self.clone());
        (before < max).then_some(waiting)
    }
}

/// A call that waits; it stops being counted when it ends.
pub struct Waiting(Arc<KeyState>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

pub const fn rate_class(key: &ApiKey) -> RateClass {
    key.body.attributes.rate_class
}

/// The first key of a deployment.
pub enum Bootstrap {
    /// Made now: this is the only time it can be shown.
    Created(String),
    /// There are keys already.
    KeysExist,
}

impl Bootstrap {
    /// Makes an administrator's key if there is no key at all; of several nodes that start together one does.
    pub async fn make(engine: &Engine, macs: &Macs, given: Option<&str>) -> Result<Self, Problem> {
        let internal = |_| Problem::new(Code::Internal, "the system gave no random bytes");
        let key = match given {
            None => KeyText::random().map_err(internal)?,
            Some(text) => KeyText::parse(text).ok_or_else(|| {
                Problem::invalid("auth.bootstrap_key", "is not a key; it looks like `weft_<id>_<secret>`")
            })?,
        };
        let create = CreateKey {
            id: key.id.parse().map_err(|_| Problem::invalid("auth.bootstrap_key", "has an id that no key can have"))?,
            mac: Mac(macs.of(&key)),
            name: "bootstrap".into(),
            scopes: Scopes::ADMIN.with(Scopes::OPERATE).with(Scopes::SUBMIT).with(Scopes::WORK).with(Scopes::SIGNAL),
            namespaces: Reach::All,
            attributes: Attributes::default(),
            expires_at: None,
            only_if_none: true,
        };
        let client = engine.client_as(Principal::all("", "bootstrap"));
        match client.create_key(create, None).await.map_err(weft_dispatch::rejection::problem)? {
            KeyCreation::Created(_) | KeyCreation::Repeated(_) => Ok(Bootstrap::Created(key.reveal())),
            KeyCreation::KeysExist => Ok(Bootstrap::KeysExist),
        }
    }
}

/// A name for the rate of an address: all of an IPv6 site share one.
pub fn address_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let parts = address.segments();
            format!("{:x}:{:x}:{:x}:{:x}::/64", parts[0], parts[1], parts[2], parts[3])
        }
    }
}
