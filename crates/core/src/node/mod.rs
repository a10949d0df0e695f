//! Commands about the nodes of a deployment, and the register of those that are wanted to stop.

pub mod drain_node;
pub mod heartbeat;

#[cfg(test)]
mod tests;

use crate::error::Rejection;
use crate::id::PartitionId;
use crate::record::register::{Body, Drain, Subject};
use crate::record::{Key, Record, Register};
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};
use std::collections::BTreeMap;
use uuid::Uuid;

pub(crate) const fn drains_key(partition: PartitionId) -> Key {
    Key::Register(partition, Subject::NodeDrains)
}

/// Who is wanted to stop, of the nodes whose records are in the partition.
pub(crate) fn drains(tx: &mut Tx<'_>, partition: PartitionId) -> Result<BTreeMap<Uuid, Drain>, Stop> {
    match tx.get(drains_key(partition), PartMask::NONE)? {
        Some(Record::Register(register)) => match register.body {
            Body::NodeDrains(drains) => Ok(drains),
            Body::AuditEnd(_) | Body::KeyNames(_) => {
                Err(Rejection::internal("the nodes that are wanted to stop are a register").into())
            }
        },
        _ => Ok(BTreeMap::new()),
    }
}

fn put_drains(tx: &mut Tx<'_>, partition: PartitionId, drains: BTreeMap<Uuid, Drain>) {
    tx.put(Record::Register(Box::new(Register { partition, body: Body::NodeDrains(drains) })));
}
