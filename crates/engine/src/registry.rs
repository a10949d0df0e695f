//! The node's heartbeat: it tells the others that it lives and how far it has seen every partition, learns who else
//! lives, and compares what they saw with what the store shows. One scan and one commit every few seconds, and at once when
//! a node has come or gone.
//!
//! A store that only this process can write to has no other nodes and no heartbeat.

use crate::client::Urgency;
use crate::engine::Shared;
use crate::outage;
use crate::partition::Input;
use crate::reads::unavailable;
use crate::runtime;
use futures_util::future;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use weft_core::apply::Applied;
use weft_core::change::Position;
use weft_core::command::{Call, Command, Heartbeat, Principal};
use weft_core::digest::digest;
use weft_core::error::Rejection;
use weft_core::limits::{NODE_HEARTBEAT_MS, NODE_TTL_MS};
use weft_core::loss;
use weft_core::record::node::Body;
use weft_core::record::{Node, Record};
use weft_core::reply::Reply;
use weft_core::schema::{Kind, PartMask};
use weft_core::{PartitionId, Time};
use weft_store::{Error, Range, Scan, Store, Target};

/// Nodes that are read at most; more than that are left out of the sharing.
const NODES_MAX: usize = 1_000;
/// How long a call is waited for before the heartbeat is written.
const ANSWER_WAIT_MS: u64 = 1_500;
/// Two calls of `read` and one of `compare` come before each heartbeat. So a partition that does not answer makes no node
/// late.
const _: () = assert!(NODE_HEARTBEAT_MS + 3 * ANSWER_WAIT_MS < NODE_TTL_MS);

/// The nodes as they were read last.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<Vec<Node>>);

impl Nodes {
    /// Records in partitions that do not answer stay as they were, so that their nodes count as live until they would have
    /// been expected to write again.
    fn renew(&self, read: Vec<Node>, silent: &BTreeSet<PartitionId>) -> Vec<Node> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|node| silent.contains(&node.partition));
        nodes.extend(read);
        nodes.clone()
    }
}

/// Which heartbeat it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The node has just come: it compares all partitions with what others saw.
    First,
    /// Whoever looks after a partition compares it.
    Usual,
    /// The node goes.
    Last,
}

/// Beats until the engine closes.
pub(crate) async fn run(shared: Arc<Shared>, started_at: Time) {
    loop {
        let closed = shared.closed.notified();
        if shared.is_closing() {
            return;
        }
        beat(&shared, started_at, Beat::Usual).await;
        let changed = shared.nodes_changed.notified();
        futures_util::pin_mut!(closed, changed);
        future::select(future::select(closed, changed), shared.runtime.sleep(NODE_HEARTBEAT_MS)).await;
    }
}

/// Reads the registry, takes the node's share, looks for proof of a loss, and writes the node's own record.
pub(crate) async fn beat(shared: &Shared, started_at: Time, which: Beat) {
    // A node that leaves needs nothing of the others, and has little time.
    if which != Beat::Last {
        match read(shared).await {
            Ok(nodes) => {
                share(shared, &nodes);
                compare(shared, &nodes, which).await;
            }
            Err(error) => tracing::warn!(%error, "could not read the registry of nodes"),
        }
    }
    let node = shared.membership.node;
    let home = home(node, shared.description.partitions);
    // The heartbeat's commit shows a loss in its own partition.
    for partition in (0..shared.description.partitions).map(PartitionId).filter(|partition| *partition != home) {
        // A partition whose queue is full commits often enough to notice a loss by itself.
        let _ = shared.send(partition, Input::Verify, Urgency::Urgent);
    }
    let heartbeat = Heartbeat {
        partition: home,
        node,
        name: shared.config.node.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_at,
        left: which == Beat::Last,
        claimed: shared.membership.mine().iter().map(|partition| partition.0).collect(),
        filters: shared.filters.clone(),
        seen: shared.seen.all().iter().map(|position| (position.generation, position.seq)).collect(),
    };
    let call = Call {
        principal: Principal::engine(),
        request_id: None,
        expected_revision: None,
        command: Command::Heartbeat(heartbeat),
    };
    match shared.run(vec![Ok(call)], Urgency::Urgent).await.pop() {
        Some(Err(rejection)) => tracing::warn!(%rejection, "the heartbeat was not taken"),
        Some(Ok(Applied { reply: Reply::Node { drain: Some(drain) }, .. })) => shared.want_drain(drain),
        _ => {}
    }
}

/// Where a node's record is.
fn home(node: Uuid, partitions: u16) -> PartitionId {
    let digest = digest(&[b"node", node.as_bytes()]);
    PartitionId(u16::from_be_bytes([digest[0], digest[1]]) % partitions.max(1))
}

/// This node, for a store that keeps no registry.
pub(crate) fn own(shared: &Shared, started_at: Time) -> Node {
    let node = shared.membership.node;
    Node {
        partition: home(node, shared.description.partitions),
        uuid: node,
        body: Body {
            name: shared.config.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at,
            seen_at: shared.now(),
            left: false,
            claimed: shared.membership.mine().iter().map(|partition| partition.0).collect(),
            filters: shared.filters.clone(),
            seen: shared.seen.all().iter().map(|position| (position.generation, position.seq)).collect(),
        },
    }
}

/// Every node that is known, live or not, this one among them.
pub(crate) async fn all(shared: &Shared) -> Result<Vec<Node>, Rejection> {
    let mut nodes = match shared.description.exclusive {
        true => Vec::new(),
        false => read(shared).await.map_err(unavailable)?,
    };
    let uuid = shared.membership.node;
    if !nodes.iter().any(|node| node.uuid == uuid) {
        nodes.push(own(shared, shared.started_at));
    }
    Ok(nodes)
}

/// Reads the registry. Nodes of partitions without an answer are those known before; fails if no partition answers.
pub(crate) async fn read(shared: &Shared) -> Result<Vec<Node>, Error> {
    let (pages, silent) = outage::scan_within(shared, ANSWER_WAIT_MS, registry_scan()).await?;
    Ok(shared.nodes.renew(nodes_of(pages), &silent))
}

/// Every node that the registry of a store knows, live or not.
pub async fn nodes<S: Store>(store: &S) -> Result<Vec<Node>, Error> {
    Ok(nodes_of(store.scan(None, registry_scan()).await?))
}

fn registry_scan() -> Scan {
    Scan {
        target: Target::Records(Kind::Node),
        ranges: vec![Range::default()],
        limit: NODES_MAX,
        descending: false,
        parts: Some(PartMask::ALL),
    }
}

fn nodes_of(pages: Vec<weft_store::Page>) -> Vec<Node> {
    let entries = pages.into_iter().flat_map(|page| page.entries);
    let decoded = entries.filter_map(|entry| {
        let (key, found) = (entry.key()?, entry.found?);
        match Record::decode(key, &found.parts, PartMask::ALL) {
            Ok(Record::Node(node)) => Some(*node),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(?key, %error, "a node's record does not decode");
                None
            }
        }
    });
    decoded.collect()
}

fn share(shared: &Shared, nodes: &[Node]) {
    let now = shared.now();
    let me = shared.membership.node;
    let others: Vec<&Node> = nodes.iter().filter(|node| node.uuid != me && node.is_live(now)).collect();
    let equal = others.iter().filter(|node| node.body.filters == shared.filters).map(|node| node.uuid);
    let equal: Vec<Uuid> = equal.chain([me]).collect();
    let live: Vec<Uuid> = others.iter().map(|node| node.uuid).chain([me]).collect();
    if shared.membership.share(&live, &equal, shared.description.partitions) {
        // What was due while nobody looked is handled at once.
        shared.hub.look_by(shared.runtime.clock());
    }
}

/// Compares the positions that other nodes have seen with the store. One that this node knows neither as reached nor as lost
/// is read from the store: a store that does not reach it has lost data.
async fn compare(shared: &Shared, nodes: &[Node], which: Beat) {
    let mut beyond: Vec<(PartitionId, BTreeMap<u64, Position>)> = Vec::new();
    for (index, known) in shared.seen.all().into_iter().enumerate() {
        let partition = PartitionId(index as u16);
        let concerned = which == Beat::First || shared.membership.places_in(partition);
        // After a raise the highest position may belong to a node that saw less before the raise than another.
        let is_beyond = |seen: &Position| concerned && loss::is_proof(*seen, known);
        // The furthest of each generation: a raise for one names nothing that was lost in another.
        let mut furthest: BTreeMap<u64, Position> = BTreeMap::new();
        for seen in nodes.iter().filter_map(|node| node.seen(partition)).filter(is_beyond) {
            let known = furthest.entry(seen.generation).or_insert(seen);
            *known = seen.max(*known);
        }
        if !furthest.is_empty() {
            beyond.push((partition, furthest));
        }
    }
    let reads = beyond.iter().map(|(partition, _)| {
        runtime::timeout(&*shared.runtime, ANSWER_WAIT_MS, shared.store.read(*partition, Vec::new()))
    });
    let reads = future::join_all(reads).await;
    for ((partition, furthest), read) in beyond.into_iter().zip(reads) {
        let Some(Ok(read)) = read else { continue };
        for seen in furthest.into_values() {
            if loss::is_proof(seen, read.head.position) {
                let _ = shared.send(partition, Input::Witness { seen, shown: read.head }, Urgency::Urgent);
            } else {
                shared.seen.note(partition, seen);
            }
        }
    }
}
