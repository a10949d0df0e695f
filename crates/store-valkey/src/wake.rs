//! Wake-ups between nodes: a doorbell that rings after commits, and an ear for the doorbells of others.
//!
//! A hint that may be late, doubled or lost. It is published on one plain channel: a Cluster carries it to all its nodes,
//! so it needs no slot and outlives the move of one. A channel of a shard would cost less on the bus, but a node would
//! have to follow its slot; at most fifty rings a second per node do not justify that.

use crate::link::Dial;
use crate::options::{Address, Options};
use crate::route::Router;
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use weft_core::change::Batch;
use weft_core::{PartitionId, Time};
use weft_store::{PATIENCE_MS, Wake, Wakes};

/// Rings closer together than this are joined.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);
const RECONNECT: Duration = Duration::from_millis(500);
/// A silent connection is asked whether it still lives.
const PING: Duration = Duration::from_secs(15);
/// Lanes named in one ring of a partition. With more of them the hint says nothing any more, and the rest is found by
/// the catch-up of the scanners.
const LANES_MAX: usize = 64;

type Lane = (Arc<str>, Arc<str>);
type Token = [u8; 16];

#[derive(Default)]
struct Pending {
    lanes: BTreeSet<Lane>,
    due: Option<Time>,
}

/// What is shared by the store and its two tasks.
pub struct Wakeups {
    token: Token,
    pending: Mutex<BTreeMap<PartitionId, Pending>>,
    urgent: Notify,
    watchers: Mutex<Vec<mpsc::UnboundedSender<Wake>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeups {
    /// The token tells a node its own rings.
    pub fn new(token: Token) -> Self {
        Self { token, pending: Mutex::default(), urgent: Notify::new(), watchers: Mutex::default() }
    }

    pub fn watch(&self) -> Wakes {
        let (wakes, receiver) = mpsc::unbounded_channel();
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(wakes);
        receiver
    }

    /// Notes what a commit may have woken.
    pub fn ring(&self, partition: PartitionId, batch: &Batch) {
        let Some(wake) = Wake::of(partition, batch) else { return };
        let urgent = wake.is_urgent(batch.now);
        let mut pending = lock(&self.pending);
        let noted = pending.entry(partition).or_default();
        noted.due = noted.due.into_iter().chain(wake.due).min();
        let room = LANES_MAX.saturating_sub(noted.lanes.len());
        noted.lanes.extend(wake.lanes.into_iter().take(room));
        drop(pending);
        if urgent {
            self.urgent.notify_one();
        }
    }

    /// Publishes what was noted: at once what is urgent if the bell was silent for a pause, the rest with it or when
    /// patience ends.
    pub async fn publish(self: Arc<Self>, router: Arc<Router>, channel: String) {
        loop {
            // Either way there may be something to tell.
            let _ = tokio::time::timeout(PATIENCE, self.urgent.notified()).await;
            let noted = std::mem::take(&mut *lock(&self.pending));
            if !noted.is_empty() {
                let message = encode(&self.token, &noted);
                let command = redis::cmd("PUBLISH").arg(&channel).arg(message).to_owned();
                // On the connections for reads: a commit never waits behind a hint.
                if let Err(fault) = router.owner(PartitionId(0)).read(&command, false).await {
                    tracing::debug!(%fault, "a wake-up was not published");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Hands the rings of other nodes to the watchers, over one connection that is made again whenever it breaks.
    pub async fn listen(self: Arc<Self>, router: Arc<Router>, options: Options, channel: String) {
        loop {
            let address = router.owner(PartitionId(0)).dial().address.clone();
            if let Err(error) = self.listen_to(address.clone(), &options, &channel).await {
                tracing::debug!(%address, %error, "the connection for wake-ups broke");
            }
            tokio::time::sleep(RECONNECT).await;
        }
    }

    async fn listen_to(&self, address: Address, options: &Options, channel: &str) -> Result<(), redis::RedisError> {
        let pubsub = Dial::new(address, options).subscriber().await?;
        let (mut sink, mut messages) = pubsub.split();
        sink.subscribe(channel).await?;
        loop {
            match tokio::time::timeout(PING, messages.next()).await {
                Ok(Some(message)) => self.hear(message.get_payload_bytes()),
                Ok(None) => return Ok(()),
                Err(_) => {
                    let alive = tokio::time::timeout(options.call_timeout, sink.ping::<redis::Value>()).await;
                    if !matches!(alive, Ok(Ok(_))) {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn hear(&self, message: &[u8]) {
        let Some((token, wakes)) = decode(message) else { return };
        if token == self.token {
            return;
        }
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| wakes.iter().all(|wake| watcher.send(wake.clone()).is_ok()));
    }
}

fn encode(token: &Token, noted: &BTreeMap<PartitionId, Pending>) -> Vec<u8> {
    let mut out = token.to_vec();
    for (partition, pending) in noted {
        out.extend_from_slice(&partition.0.to_be_bytes());
        out.extend_from_slice(&pending.due.map_or(u64::MAX, Time::ms).to_be_bytes());
        out.extend_from_slice(&(pending.lanes.len() as u16).to_be_bytes());
        for name in pending.lanes.iter().flat_map(|(namespace, lane)| [namespace, lane]) {
            // Names are short; one that is not would be cut to nothing, which wakes nobody.
            let name = if name.len() > usize::from(u16::MAX) { "" } else { name };
            out.extend_from_slice(&(name.len() as u16).to_be_bytes());
            out.extend_from_slice(name.as_bytes());
        }
    }
    out
}

/// `None` for what another program may have published on the channel.
fn decode(message: &[u8]) -> Option<(Token, Vec<Wake>)> {
    let (token, mut rest) = message.split_first_chunk::<16>()?;
    let mut wakes = Vec::new();
    while !rest.is_empty() {
        let partition = PartitionId(u16::from_be_bytes(take(&mut rest)?));
        let due = Some(u64::from_be_bytes(take(&mut rest)?)).filter(|due| *due != u64::MAX).map(Time::from_ms);
        let count = u16::from_be_bytes(take(&mut rest)?);
        let lanes = (0..count).map(|_| Some((name(&mut rest)?, name(&mut rest)?))).collect::<Option<Vec<Lane>>>()?;
        wakes.push(Wake { partition, lanes, due });
    }
    Some((*token, wakes))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, more) = rest.split_first_chunk::<N>()?;
    *rest = more;
    Some(*taken)
}

fn name(rest: &mut &[u8]) -> Option<Arc<str>> {
    let length = usize::from(u16::from_be_bytes(take(rest)?));
    let (name, more) = rest.split_at_checked(length)?;
    *rest = more;
    std::str::from_utf8(name).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_reads_back_as_it_was_sent() {
        let lane = |a: &str, b: &str| (Arc::from(a), Arc::from(b));
        let noted = BTreeMap::from([
            (PartitionId(0), Pending { lanes: [lane("n", "mail"), lane("", "é")].into(), due: None }),
            (PartitionId(700), Pending { lanes: BTreeSet::new(), due: Some(Time::from_ms(9)) }),
        ]);
        let message = encode(&[7; 16], &noted);
        let wakes = vec![
            Wake { partition: PartitionId(0), lanes: vec![lane("", "é"), lane("n", "mail")], due: None },
            Wake { partition: PartitionId(700), lanes: Vec::new(), due: Some(Time::from_ms(9)) },
        ];
        assert_eq!(decode(&message), Some(([7; 16], wakes)));
        for cut in 0..message.len() {
            // Cut between two partitions it is a shorter ring; anywhere else it is nothing.
            assert!(decode(&message[..cut]).is_none_or(|(_, wakes)| wakes.len() < 2));
        }
    }
}
