//! Which server has which partition, and how a call finds its way there.
//!
//! Owns the slot map and the connections. Follows redirects, which are only given for calls that were not carried out;
//! never sends anything again that may have been.

use crate::durability::Needs;
use crate::keys::Keys;
use crate::link::{Dial, Fault};
use crate::options::{Address, Mode, Options};
use crate::primary::{Primary, Request};
use crate::slots::{SLOTS, slot};
use crate::verdict::{self, Verdict};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use weft_core::PartitionId;

/// Redirects in a row that are followed. A slot moves once; more are a server that does not know its place.
const HOPS_MAX: usize = 8;
/// How often a read is sent again after its connection broke.
const READ_AGAIN_MAX: usize = 2;
/// How long to wait before asking again for keys that are partly here and partly there.
const AGAIN: Duration = Duration::from_millis(10);
/// The slot map is not asked for more often than this.
const REFRESH_PAUSE: Duration = Duration::from_millis(200);

pub struct Router {
    options: Options,
    needs: Needs,
    keys: Keys,
    /// The slot of each partition.
    slots: Vec<u16>,
    /// The primary of each partition, as far as is known.
    owners: RwLock<Vec<Arc<Primary>>>,
    primaries: Mutex<BTreeMap<Address, Arc<Primary>>>,
    /// Every server that was ever named, for when the primaries are gone.
    known: Mutex<BTreeSet<Address>>,
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// A router that knows the layout.
    pub fn new(options: Options, needs: Needs, partitions: u16, layout: &Layout) -> Arc<Self> {
        let keys = Keys::new(&options.prefix);
        let slots = (0..partitions).map(|partition| slot(&keys.of(PartitionId(partition)).head())).collect();
        let router = Self {
            known: Mutex::new(options.addresses.iter().cloned().collect()),
            options,
            needs,
            keys,
            slots,
            owners: RwLock::default(),
            primaries: Mutex::default(),
            refreshed: tokio::sync::Mutex::default(),
        };
        router.adopt(layout);
        Arc::new(router)
    }

    fn primary(&self, address: &Address) -> Arc<Primary> {
        let mut primaries = lock(&self.primaries);
        let make = || {
            let dial = Dial::new(address.clone(), &self.options);
            let partitions = self.slots.len() as u16;
            Arc::new(Primary::new(dial, self.needs.wait(address), self.keys.clone(), partitions))
        };
        primaries.entry(address.clone()).or_insert_with(make).clone()
    }

    /// Connections to all primaries: those that calls use now, and those that wait for one.
    pub fn connections(&self) -> (usize, usize) {
        let all = lock(&self.primaries).values().map(|primary| primary.connections()).collect::<Vec<_>>();
        all.into_iter().fold((0, 0), |(used, idle), (more_used, more_idle)| (used + more_used, idle + more_idle))
    }

    pub fn owner(&self, partition: PartitionId) -> Arc<Primary> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner)[usize::from(partition.0)].clone()
    }

    fn set_owner(&self, partition: PartitionId, primary: &Arc<Primary>) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        // Other partitions may share the slot; they find out by themselves.
        owners[usize::from(partition.0)] = primary.clone();
    }

    fn adopt(&self, layout: &Layout) {
        lock(&self.known).extend(layout.servers.iter().cloned());
        let mut owners: Vec<Arc<Primary>> = Vec::with_capacity(self.slots.len());
        let before = self.owners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (partition, slot) in self.slots.iter().enumerate() {
            let address = layout.owner(*slot).unwrap_or(&self.options.addresses[0]);
            // A slot that nobody serves at the moment stays where it was.
            let kept = before.get(partition).filter(|_| layout.owner(*slot).is_none());
            owners.push(kept.cloned().unwrap_or_else(|| self.primary(address)));
        }
        let in_use: BTreeSet<&Address> = owners.iter().map(|primary| &primary.dial().address).collect();
        lock(&self.primaries).retain(|address, _| in_use.contains(address));
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// Asks the Cluster who has which slot, in the background. A call that is already under way is enough for all.
    fn refresh(self: &Arc<Self>) {
        if self.options.mode == Mode::Standalone {
            return;
        }
        let router = self.clone();
        tokio::spawn(async move {
            let Ok(mut last) = router.refreshed.try_lock() else { return };
            if last.is_some_and(|last| last.elapsed() < REFRESH_PAUSE) {
                tokio::time::sleep(REFRESH_PAUSE).await;
            }
            let known: Vec<Address> = lock(&router.known).iter().cloned().collect();
            match Layout::ask(&router.options, &known).await {
                Ok(layout) if layout.owners().iter().all(|owner| router.options.allows(owner)) => router.adopt(&layout),
                Ok(_) => tracing::warn!(
                    "the Cluster names a host that needs TLS or `plaintext=true`; its slots stay unknown"
                ),
                Err(why) => tracing::warn!(%why, "could not learn which node of the Cluster has which slot"),
            }
            *last = Some(Instant::now());
        });
    }

    /// Sends a request to the primary of a partition, following redirects.
    pub async fn call(self: &Arc<Self>, partition: PartitionId, request: Request<'_>) -> Result<Value, Fault> {
        let deadline = Instant::now() + self.options.call_timeout;
        let mut primary = self.owner(partition);
        let (mut asking, mut hops, mut loaded, mut broken) = (false, 0, false, 0);
        loop {
            let fault = match primary.send(partition, request, asking).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            hops += 1;
            let Fault::Reply { error, address } = &fault else {
                self.refresh();
                // A read changes nothing, and connections often break together.
                if matches!(request, Request::Read(_)) && broken < READ_AGAIN_MAX && Instant::now() < deadline {
                    (broken, asking, primary) = (broken + 1, false, self.owner(partition));
                    continue;
                }
                return Err(fault);
            };
            match verdict::of(error, address) {
                Verdict::Moved(Some(address)) if hops < HOPS_MAX && self.options.allows(&address) => {
                    primary = self.primary(&address);
                    asking = false;
                    self.set_owner(partition, &primary);
                    self.refresh();
                }
                Verdict::Ask(Some(address)) if hops < HOPS_MAX && self.options.allows(&address) => {
                    primary = self.primary(&address);
                    asking = true;
                }
                Verdict::Again if Instant::now() + AGAIN < deadline => {
                    tokio::time::sleep(AGAIN).await;
                    (asking, primary, hops) = (false, self.owner(partition), 0);
                }
                Verdict::Load if !loaded => {
                    // Nothing was carried out.
                    primary.load_library().await?;
                    loaded = true;
                }
                _ => {
                    if matches!(error.code(), "MOVED" | "ASK" | "CLUSTERDOWN" | "READONLY" | "LOADING" | "MASTERDOWN") {
                        self.refresh();
                    }
                    return Err(fault);
                }
            }
        }
    }

    /// The primaries that have partitions now.
    pub fn primaries(&self) -> Vec<Arc<Primary>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let by_address: BTreeMap<&Address, &Arc<Primary>> =
            owners.iter().map(|primary| (&primary.dial().address, primary)).collect();
        by_address.into_values().cloned().collect()
    }
}

/// Who has which slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    ranges: Vec<(u16, u16, Address)>,
    /// All servers that were named, replicas too.
    servers: BTreeSet<Address>,
}

impl Layout {
    /// One server that has everything.
    pub fn single(address: Address) -> Self {
        Self { ranges: vec![(0, SLOTS - 1, address.clone())], servers: [address].into() }
    }

    pub fn owner(&self, slot: u16) -> Option<&Address> {
        self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(_, _, address)| address)
    }

    pub fn owners(&self) -> BTreeSet<&Address> {
        self.ranges.iter().map(|(_, _, address)| address).collect()
    }

    pub fn covers_all(&self) -> bool {
        let covered: u32 = self.ranges.iter().map(|(first, last, _)| u32::from(last - first) + 1).sum();
        covered == u32::from(SLOTS)
    }

    /// Asks the servers one after the other until one answers.
    pub async fn ask(options: &Options, servers: &[Address]) -> Result<Self, String> {
        let mut why = "no server is named".to_owned();
        for address in servers {
            let dial = Dial::new(address.clone(), options);
            let asked = async {
                let mut connection = dial.connect().await?;
                connection.send_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await?.extract_error()
            };
            match asked.await {
                Ok(reply) => match Self::parse(&reply, address) {
                    Some(layout) => return Ok(layout),
                    None => why = format!("`{address}` answered something else than its slots"),
                },
                Err(error) => why = format!("`{address}`: {error}"),
            }
        }
        Err(why)
    }

    fn parse(reply: &Value, asked: &Address) -> Option<Self> {
        let mut layout = Self::default();
        let Value::Array(ranges) = reply else { return None };
        for range in ranges {
            let Value::Array(fields) = range else { return None };
            let [Value::Int(first), Value::Int(last), servers @ ..] = &fields[..] else { return None };
            let servers: Option<Vec<Address>> = servers.iter().map(|server| server_address(server, asked)).collect();
            let servers = servers?;
            let primary = servers.first()?.clone();
            layout.servers.extend(servers);
            layout.ranges.push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, primary));
        }
        Some(layout)
    }
}

/// A node as `CLUSTER SLOTS` names it. One that does not know its own host has the host it was asked under.
fn server_address(server: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(fields) = server else { return None };
    let [host, Value::Int(port), ..] = &fields[..] else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        Value::Nil => String::new(),
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { asked.host.clone() } else { host };
    Some(Address::new(host, u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_map_names_primaries_first() {
        let text = |text: &str| Value::BulkString(text.into());
        let node =
            |host: &str, port| Value::Array(vec![text(host), Value::Int(port), text("id"), Value::Array(vec![])]);
        let range =
            |first, last, nodes: Vec<Value>| Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat());
        let asked = Address::new("10.0.0.9", 7000);
        let reply = Value::Array(vec![
            range(0, 8191, vec![node("10.0.0.1", 7001), node("10.0.0.2", 7002)]),
            range(8192, 16383, vec![node("", 7003)]),
        ]);
        let layout = Layout::parse(&reply, &asked).unwrap();
        assert_eq!(layout.owner(8191), Some(&Address::new("10.0.0.1", 7001)));
        assert_eq!(layout.owner(8192), Some(&Address::new("10.0.0.9", 7003)));
        assert!(layout.covers_all() && layout.servers.len() == 3);
        let half = Value::Array(vec![range(0, 8191, vec![node("10.0.0.1", 7001)])]);
        let half = Layout::parse(&half, &asked).unwrap();
        assert!(!half.covers_all() && half.owner(9000).is_none());
        assert_eq!(Layout::parse(&Value::Okay, &asked), None);
    }
}
