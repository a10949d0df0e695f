//! An operator wants a node to stop. Owns the wish; the node's own record is left to the node, which hears of the wish
//! with its next heartbeat.

use super::{drains, put_drains};
use crate::command::{DrainNode, Principal};
use crate::error::Rejection;
use crate::limits::{NODE_KEEP_MS, REASON_MAX};
use crate::record::register::Drain;
use crate::record::{Key, Record};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::check_text;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &DrainNode) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)
}

/// Notes the wish. A repeat changes nothing: who asked first is told. A node that has left or is silent cannot be asked.
pub fn drain_node(tx: &mut Tx<'_>, who: &Principal, cmd: &DrainNode) -> Result<Reply, Stop> {
    let now = tx.now();
    tx.prefetch(super::drains_key(cmd.partition), PartMask::NONE);
    // A store that one process has to itself keeps no registry; that process vouches for itself.
    if let Some(Record::Node(node)) = tx.get(Key::Node(cmd.partition, cmd.node), PartMask::NONE)?
        && !node.is_live(now)
    {
        return Err(Rejection::NodeNotFound.into());
    }
    let mut drains = drains(tx, cmd.partition)?;
    // Nodes that died took no leave, and their records are gone by then as well.
    drains.retain(|_, drain| now.since(drain.at) < NODE_KEEP_MS);
    let fresh = || Drain { by: who.name.clone(), reason: cmd.reason.clone(), at: now };
    let drain = drains.entry(cmd.node).or_insert_with(fresh).clone();
    put_drains(tx, cmd.partition, drains);
    Ok(Reply::Node { drain: Some(drain) })
}
