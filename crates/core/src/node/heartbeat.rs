//! A node says that it lives, or that it goes, and hears whether it is wanted to stop. Owns the node's own record, and
//! takes back the wish that a node stops when it has.

use super::{drains, drains_key, put_drains};
use crate::command::Heartbeat;
use crate::record::{Key, Node, Record, node::Body};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};

/// Writes the record anew. A position that the node saw is never taken back: it may be what proves a loss.
pub fn heartbeat(tx: &mut Tx<'_>, cmd: &Heartbeat) -> Result<Reply, Stop> {
    // Loaded together with the record.
    tx.prefetch(drains_key(cmd.partition), PartMask::NONE);
    let known = match tx.get(Key::Node(cmd.partition, cmd.node), PartMask::NONE)? {
        Some(Record::Node(node)) => node.body.seen,
        _ => Vec::new(),
    };
    let mut drains = drains(tx, cmd.partition)?;
    let drain = drains.get(&cmd.node).cloned();
    if cmd.left && drains.remove(&cmd.node).is_some() {
        put_drains(tx, cmd.partition, drains);
    }
    let furthest = |(at, seen): (usize, &(u64, u64))| known.get(at).map_or(*seen, |known| *seen.max(known));
    let body = Body {
        name: cmd.name.clone(),
        version: cmd.version.clone(),
        started_at: cmd.started_at,
        seen_at: tx.now(),
        left: cmd.left,
        claimed: cmd.claimed.clone(),
        filters: cmd.filters.clone(),
        seen: cmd.seen.iter().enumerate().map(furthest).collect(),
    };
    tx.put(Record::Node(Box::new(Node { partition: cmd.partition, uuid: cmd.node, body })));
    Ok(Reply::Node { drain })
}
