//! Finding members: the id of a member follows from its flow and key, so that one key never stands for two.

use super::damaged;
use crate::digest;
use crate::error::Rejection;
use crate::id::{ExecutionId, FlowId};
use crate::record::{Execution, Key, Record, Tombstone};
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};
use uuid::Uuid;

/// The id of the member with this key. A child without a key of its own has its id as key.
pub fn member_id(flow: FlowId, key: &str) -> ExecutionId {
    if let Ok(id) = key.parse::<ExecutionId>()
        && id.partition() == flow.partition()
    {
        return id;
    }
    let digest = digest::digest(&[b"member", flow.uuid().as_bytes(), key.as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Ids begin with a time: that of the flow keeps its members together.
    bytes[..6].copy_from_slice(&flow.uuid().as_bytes()[..6]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    ExecutionId::new(flow.partition(), Uuid::from_bytes(bytes))
}

/// What stands under a key of a flow.
pub(crate) enum Found {
    Live(Box<Execution>),
    Purged(Box<Tombstone>),
    Nobody,
}

/// Asks for all that `find` looks at.
pub(crate) fn prefetch(tx: &mut Tx<'_>, flow: FlowId, key: &str, parts: PartMask) -> bool {
    let id = member_id(flow, key);
    tx.prefetch(Key::Execution(id), parts) | tx.prefetch(Key::Tombstone(id), PartMask::NONE)
}

pub(crate) fn find(tx: &mut Tx<'_>, flow: FlowId, key: &str, parts: PartMask) -> Result<Found, Stop> {
    let id = member_id(flow, key);
    let found = match tx.find_execution(id, parts) {
        // One that was given up is as gone as one that was purged.
        Err(Stop::Rejected(_)) if damaged::stone(tx, id)?.is_some() => None,
        found => found?,
    };
    if let Some(execution) = found {
        let Some(member) = execution.member().filter(|member| member.flow == flow) else { return Ok(Found::Nobody) };
        if *member.key != *key {
            return Err(Rejection::internal(format!("FL-12 {id} is `{}`, not `{key}`", member.key)).into());
        }
        return Ok(Found::Live(Box::new(execution)));
    }
    match tx.get(Key::Tombstone(id), PartMask::NONE)? {
        Some(Record::Tombstone(tombstone)) if tombstone.body.flow == flow => Ok(Found::Purged(tombstone)),
        _ => Ok(Found::Nobody),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PartitionId;

    #[test]
    fn fl_12_a_key_is_one_id_and_looks_like_all_ids() {
        let flow = FlowId::new(PartitionId(7), Uuid::from_u128(0x0198_f2c4_7a1e_7b6c_9d20_e5b1_a4f3_c8d7));
        let id = member_id(flow, "join");
        assert_eq!((id, id.partition()), (member_id(flow, "join"), flow.partition()));
        assert_ne!(id, member_id(flow, "join2"));
        assert_eq!(id.uuid().get_version_num(), 7);
        assert_eq!(id.uuid().as_bytes()[..6], flow.uuid().as_bytes()[..6]);
        assert_eq!(member_id(flow, &id.to_string()), id, "a child may be named by its id");
    }
}
