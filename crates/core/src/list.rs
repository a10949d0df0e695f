//! Lists of executions that belong to something else: which index has them, and where it goes on.

use crate::id::{ExecutionId, FlowId};
use crate::schema::{IndexId, Value};

/// Executions that belong to something else, found through an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum List {
    /// Of an execution, in key order.
    Children(ExecutionId),
    /// Of a flow, those that have not ended, in key order.
    LiveMembers(FlowId),
    /// Of a flow, in the order they were added; only ever asked for from the start.
    Members(FlowId),
    /// The same, without those up to this number.
    MembersAfter(FlowId, u32),
    /// Purged before their flow, in the order they were added; only ever asked for from the start.
    Tombstones(FlowId),
}

impl List {
    /// The index, and the columns that all entries of the list begin with.
    pub fn index(self) -> (IndexId, Vec<Value>) {
        match self {
            List::Children(parent) => (IndexId::Children, vec![Value::bytes(parent.uuid().as_bytes())]),
            List::LiveMembers(flow) => (IndexId::LiveMembers, vec![Value::bytes(flow.uuid().as_bytes())]),
            List::Members(flow) | List::MembersAfter(flow, _) => {
                (IndexId::Members, vec![Value::bytes(flow.uuid().as_bytes())])
            }
            List::Tombstones(flow) => (IndexId::Tombstones, vec![Value::bytes(flow.uuid().as_bytes())]),
        }
    }

    /// The place in the index beyond which the list goes on after `after`: its columns, and its key.
    pub fn beyond(self, after: Option<ExecutionId>) -> Option<(Vec<Value>, [u8; 16])> {
        let (_, mut columns) = self.index();
        match (self, after) {
            (List::MembersAfter(_, number), _) => {
                columns.push(Value::Int(i64::from(number)));
                Some((columns, [0xff; 16]))
            }
            (_, Some(id)) => Some((columns, *id.uuid().as_bytes())),
            (_, None) => None,
        }
    }
}

/// How much of a list one command looks at.
pub const LIST_SCAN_MAX: usize = crate::limits::FANOUT_PER_COMMIT;
