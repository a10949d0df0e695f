//! Keys of requests: looked up, compared, remembered for a moment.

use crate::waiting::Seats;
use lru::LruCache;
use std::future::Future;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weft_api::{Code, Problem};
use weft_core::Time;
use weft_core::command::Scopes;
use weft_core::error::Rejection;
use weft_core::text::Text;
use weft_dispatch::Reach;
use weft_dispatch::secret::{KeyText, Macs};
use weft_engine::Engine;

/// How often the use of a key is told to its keeper, who writes it down once an hour.
const TOUCH: Duration = Duration::from_secs(600);
const KEYS_MAX: usize = 10_000;

/// Where keys are kept.
pub trait Keys: Send + Sync + 'static {
    /// The key with this id, if there is one.
    fn find(&self, id: &str) -> Finding<'_>;

    /// A key was used. Told now and then, not for every call.
    fn used(&self, id: &str);
}

pub type Finding<'a> = Pin<Box<dyn Future<Output = Result<Option<StoredKey>, Rejection>> + Send + 'a>>;

/// A key as it is kept.
#[derive(Clone, Debug)]
pub struct StoredKey {
    pub id: String,
    pub name: Text,
    pub scopes: Scopes,
    pub reach: Reach,
    /// It may read and nothing else.
    pub read_only: bool,
    pub rate: RateClass,
    /// MACs of its secrets, each with the time until which it is good; none is for ever.
    pub macs: Vec<([u8; 32], Option<Time>)>,
}

/// How often a key may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateClass {
    Default,
    Worker,
    /// As often as it can.
    Unlimited,
}

/// Keys that were used lately, and ids that no key has.
pub struct Keyring {
    engine: Engine,
    macs: Macs,
    keys: Arc<dyn Keys>,
    /// A change of a key holds here after this time at the latest.
    trust: Duration,
    known: Mutex<LruCache<String, Known>>,
}

#[derive(Clone)]
struct Known {
    key: Option<Arc<StoredKey>>,
    state: Arc<KeyState>,
    read_at: Instant,
    distrusted: bool,
    touched_at: Option<Instant>,
}

/// What one key is doing on this node.
#[derive(Default)]
pub struct KeyState {
    pub waiting: Seats,
    pub streams: Seats,
}

/// A key that is good.
#[derive(Clone)]
pub struct Good {
    pub key: Arc<StoredKey>,
    pub state: Arc<KeyState>,
    /// The one of its secrets that was given.
    mac: [u8; 32],
}

impl Keyring {
    pub fn new(engine: Engine, macs: Macs, keys: Arc<dyn Keys>, trust: Duration) -> Self {
        let max = NonZeroUsize::new(KEYS_MAX).expect("auth: the number is not zero");
        Self { engine, macs, keys, trust, known: Mutex::new(LruCache::new(max)) }
    }

    /// The key whose text this is, if it is good now.
    pub async fn check(&self, text: Option<&str>) -> Result<Good, Problem> {
        let key = text.and_then(KeyText::parse).ok_or_else(unauthorized)?;
        let known = self.look_up(&key.id).await.map_err(weft_dispatch::rejection::problem)?;
        let Some(stored) = known.key else {
            // An unknown id costs what a wrong secret costs.
            self.macs.fits(&key, &[0; 32]);
            return Err(unauthorized());
        };
        let mut lasting = self.lasting(&stored);
        let mac = *lasting.find(|mac| self.macs.fits(&key, mac)).ok_or_else(unauthorized)?;
        drop(lasting);
        self.touch(&key.id);
        Ok(Good { key: stored, state: known.state, mac })
    }

    /// The same key as it is by now, if it is still good.
    pub async fn check_again(&self, good: &Good) -> Result<Arc<StoredKey>, Problem> {
        let known = self.look_up(&good.key.id).await.map_err(weft_dispatch::rejection::problem)?;
        let stored = known.key.ok_or_else(unauthorized)?;
        let is_good = self.lasting(&stored).any(|mac| *mac == good.mac);
        if is_good { Ok(stored) } else { Err(unauthorized()) }
    }

    /// The secrets of a key that have not run out.
    fn lasting<'a>(&self, key: &'a StoredKey) -> impl Iterator<Item = &'a [u8; 32]> + use<'a> {
        let now = self.engine.now();
        key.macs.iter().filter(move |(_, until)| until.is_none_or(|until| now < until)).map(|(mac, _)| mac)
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self, id: &str) -> Result<Known, Rejection> {
        let kept = self.lock().get(id).cloned();
        if let Some(known) = kept.as_ref().filter(|known| !known.distrusted && known.read_at.elapsed() < self.trust) {
            return Ok(known.clone());
        }
        let key = self.keys.find(id).await?.map(Arc::new);
        let (state, touched_at) = kept.map_or_else(Default::default, |known| (known.state, known.touched_at));
        let known = Known { key, state, read_at: Instant::now(), distrusted: false, touched_at };
        self.lock().put(id.to_string(), known.clone());
        Ok(known)
    }

    fn touch(&self, id: &str) {
        let mut all = self.lock();
        let Some(known) = all.get_mut(id) else { return };
        if known.touched_at.is_some_and(|at| at.elapsed() < TOUCH) {
            return;
        }
        known.touched_at = Some(Instant::now());
        drop(all);
        self.keys.used(id);
    }

    /// A key was changed here, which holds at once: it is read again before it is trusted. What it is doing goes on.
    pub fn distrust(&self, id: &str) {
        if let Some(known) = self.lock().get_mut(id) {
            known.distrusted = true;
        }
    }
}

/// One text for all: missing, malformed, unknown, wrong, expired, revoked.
fn unauthorized() -> Problem {
    Problem::new(Code::Unauthorized, "the key is missing or not good").hint("send `Authorization: Bearer weft_…`")
}

/// A name for the rate of an address: all of an IPv6 site share one.
pub fn address_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => {
                let parts = address.segments();
                format!("{:x}:{:x}:{:x}:{:x}::/64", parts[0], parts[1], parts[2], parts[3])
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_site_share_a_rate() {
        let name = |text: &str| address_name(text.parse().unwrap());
        assert_eq!(name("10.0.0.7"), "10.0.0.7");
        assert_eq!(name("::ffff:10.0.0.7"), "10.0.0.7");
        assert_eq!(name("2001:db8:1:2:3::4"), name("2001:db8:1:2:ffff::9"));
        assert_ne!(name("2001:db8:1:2::1"), name("2001:db8:1:3::1"));
    }
}
