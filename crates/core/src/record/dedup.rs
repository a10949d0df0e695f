//! What makes a repeated call harmless: a kept reply, or the binding of an idempotency key.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::id::{ExecutionId, FlowId, PartitionId};
use crate::record::execution::PublicState;
use crate::record::flow::PublicFlowState;
use crate::reply::Reply;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dedup {
    pub partition: PartitionId,
    pub digest: [u8; 32],
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    pub namespace: Text,
    pub fingerprint: [u8; 32],
    pub what: What,
    /// `None` while the execution that is bound lives.
    pub expires_at: Option<Time>,
    /// The number by which the submission was placed, `digest::place`; `None` if something else decided its partition.
    pub home: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The reply to a call with a request id.
    Request { reply: Reply },
    /// An idempotency key and the one execution it stands for; how that one had ended, once it is purged.
    Key { execution: ExecutionId, purged: Option<PublicState> },
    /// The name of a recorded step, and the number of the step that has it.
    Step { number: u32 },
    /// An idempotency key and the one flow it stands for; how that one had ended, once it is purged.
    Flow { flow: FlowId, purged: Option<PublicFlowState> },
}

impl Dedup {
    pub fn key(&self) -> Key {
        Key::Dedup(self.partition, self.digest)
    }

    /// Where the execution or the flow is that came of the submission this is about.
    fn place(&self) -> Option<PartitionId> {
        match &self.body.what {
            What::Key { execution, .. } => Some(execution.partition()),
            What::Flow { flow, .. } => Some(flow.partition()),
            What::Request { reply: Reply::Submitted(submitted) } => Some(submitted.id.partition()),
            What::Request { reply: Reply::SubmittedAll(all) } => all.first().map(|submitted| submitted.id.partition()),
            What::Request { reply: Reply::FlowSubmitted(submitted) } => Some(submitted.id.partition()),
            What::Request { .. } | What::Step { .. } => None,
        }
    }

    /// True for a copy in a partition where the execution or flow is not. An import leaves it where a repeat will look,
    /// because the store has more partitions than the one that it was placed in.
    pub fn is_signpost(&self) -> bool {
        self.place().is_some_and(|place| place != self.partition)
    }

    /// The copy that a store of so many partitions needs, if a repeat looks elsewhere than here.
    pub fn signpost(&self, partitions: u16) -> Option<Dedup> {
        let home = PartitionId((self.body.home? % u64::from(partitions)) as u16);
        (home != self.partition && !self.is_signpost()).then(|| Dedup { partition: home, ..self.clone() })
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![Value::text(&self.body.namespace), Value::opt_time(self.body.expires_at)]
    }

    pub fn due(&self) -> Vec<Due> {
        self.body.expires_at.map(|at| Due { timer: Timer::Retention, at }).into_iter().collect()
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        if mask.has(0) { vec![(0, Some(codec::encode(&self.body)))] } else { Vec::new() }
    }

    pub fn loaded(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn dirty(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        match &self.body.what {
            What::Request { reply: Reply::SubmittedAll(all) } => 320 + all.len() * 48,
            _ => 320,
        }
    }
}

impl Decode for Dedup {
    type Id = (PartitionId, [u8; 32]);

    fn decode((partition, digest): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { partition, digest, body: codec::required("body", parts, 0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Submitted;
    use uuid::Uuid;

    fn bound(partition: u16, execution: u16, home: Option<u64>) -> Dedup {
        let execution = ExecutionId::new(PartitionId(execution), Uuid::from_u128(7));
        let what = What::Key { execution, purged: None };
        let body = Body { namespace: "a".into(), fingerprint: [1; 32], what, expires_at: None, home };
        Dedup { partition: PartitionId(partition), digest: [2; 32], body }
    }

    #[test]
    fn ops_22_a_binding_is_copied_to_where_a_repeat_will_look() {
        let original = bound(1, 1, Some(9));
        assert_eq!(original.signpost(2), None, "nine is odd: it is where it belongs");
        let copy = original.signpost(8).filter(|copy| copy.partition == PartitionId(1));
        assert_eq!(copy, None, "nine modulo eight is one");
        let copy = original.signpost(5).expect("it is looked for in partition 4");
        assert_eq!((copy.partition, copy.is_signpost()), (PartitionId(4), true));
        assert_eq!(copy.signpost(7), None, "copies are made of originals only");
        assert_eq!(bound(1, 1, None).signpost(5), None, "what was placed by its parent stays there");
    }

    #[test]
    fn ops_22_a_kept_reply_knows_whether_it_is_a_copy() {
        let id = ExecutionId::new(PartitionId(0), Uuid::from_u128(7));
        let submitted = Submitted { id, public_state: PublicState::Waiting, duplicate: false, purged: false };
        let mut kept = bound(0, 0, Some(3));
        kept.body.what = What::Request { reply: Reply::Submitted(submitted) };
        assert!(!kept.is_signpost() && kept.signpost(2).is_some_and(|copy| copy.is_signpost()));
    }
}
