//! The registry of nodes as people are shown it.

use crate::store::AnyStore;
use anyhow::{Context, Result};
use weft_api::node::NodeFilter;
use weft_core::Time;
use weft_core::limits::NODE_TTL_MS;
use weft_core::record::Node;
use weft_store::Store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Live,
    /// Not heard of for longer than a live node would be.
    Silent,
    /// It has said that it goes.
    Left,
}

/// A node as the registry has it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: String,
    pub name: String,
    pub version: String,
    pub state: State,
    pub started_at: Time,
    /// When it was heard of last, by the store's clock.
    pub seen_at: Time,
    /// How long it has been up; for a node that is gone, until it was heard of last.
    pub up_ms: u64,
    /// Since the last heartbeat, by the store's clock.
    pub silent_ms: u64,
    pub partitions: Vec<u16>,
    pub filters: Vec<NodeFilter>,
    /// How late its scanners are, as far as somebody told.
    pub lag_ms: Option<u64>,
}

/// All nodes that are known, those that live first.
pub async fn nodes(store: &AnyStore) -> Result<Vec<Seen>> {
    let now = store.now().await.context("could not read the clock of the store")?;
    let known = weft_engine::registry::nodes(store).await.context("could not read the registry")?;
    let mut nodes: Vec<Seen> = known.iter().map(|node| Seen::new(node, now)).collect();
    nodes.sort_by(|a, b| (a.state as u8, &a.name, a.started_at).cmp(&(b.state as u8, &b.name, b.started_at)));
    Ok(nodes)
}

impl Seen {
    /// As a server tells of it, at a time by this machine's clock.
    pub fn told(node: weft_api::node::Node, now: u64) -> Self {
        let state = if node.live { State::Live } else { State::Silent };
        let until = if node.live { now } else { node.seen_at };
        Self {
            id: node.id,
            name: node.name,
            version: node.version,
            state,
            started_at: Time::from_ms(node.started_at),
            up_ms: until.saturating_sub(node.started_at),
            seen_at: Time::from_ms(node.seen_at),
            silent_ms: now.saturating_sub(node.seen_at),
            partitions: node.partitions,
            filters: node.filters,
            lag_ms: node.lag_ms,
        }
    }

    fn new(node: &Node, now: Time) -> Self {
        let body = &node.body;
        let silent_ms = now.since(body.seen_at);
        let state = match (body.left, silent_ms < NODE_TTL_MS) {
            (true, _) => State::Left,
            (false, true) => State::Live,
            (false, false) => State::Silent,
        };
        let until = if state == State::Live { now } else { body.seen_at };
        Self {
            id: format!("n_{}", node.uuid),
            name: body.name.to_string(),
            version: body.version.to_string(),
            state,
            started_at: body.started_at,
            up_ms: until.since(body.started_at),
            seen_at: body.seen_at,
            silent_ms,
            partitions: body.claimed.clone(),
            filters: weft_dispatch::node_filters(&body.filters),
            lag_ms: None,
        }
    }
}
