//! One file per record kind, and the two enums that join them: `Key` says where a record is, `Record` what it holds.
//!
//! A record has *parts* that are stored and written separately, so that a hot transition does not rewrite cold bytes.

pub mod api_key;
pub mod attempt;
pub mod audit;
pub mod bulk_job;
pub mod content;
pub mod continuation;
pub mod dead_letter;
pub mod dedup;
pub mod edge;
pub mod execution;
pub mod flow;
pub mod hold;
mod known;
pub mod lease;
pub mod member;
pub mod node;
pub mod policy;
pub mod public_state;
pub mod register;
pub mod step;
pub mod summary;
pub mod tombstone;
pub mod trouble;
pub mod worker;

pub use api_key::ApiKey;
pub use attempt::Attempt;
pub use audit::Audit;
pub use bulk_job::BulkJob;
pub use content::Content;
pub use continuation::Continuation;
pub use dead_letter::DeadLetter;
pub use dedup::Dedup;
pub use edge::Edge;
pub use execution::Execution;
pub use flow::Flow;
pub use member::Member;
pub use node::Node;
pub use register::Register;
pub use step::Step;
pub use tombstone::Tombstone;
pub use worker::Worker;

use crate::codec::{Decode, DecodeError};
use crate::id::{ExecutionId, FlowId, KeyId, PartitionId};
use crate::schema::{Due, Kind, PartMask, Value};
use crate::text::Text;
use bytes::Bytes;
use trouble::Trouble;
use uuid::Uuid;

/// Where a record is, inside its partition. Cheap to copy, ordered by kind and then by bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    Execution(ExecutionId),
    Attempt(ExecutionId, u32),
    Dedup(PartitionId, [u8; 32]),
    Continuation(ExecutionId, continuation::Work),
    DeadLetter(PartitionId, Uuid),
    Node(PartitionId, Uuid),
    Step(ExecutionId, u32),
    /// By the digest of its namespace and instance.
    Worker(PartitionId, [u8; 32]),
    BulkJob(PartitionId, Uuid, bulk_job::Role),
    ApiKey(PartitionId, KeyId),
    Audit(PartitionId, u64),
    Register(PartitionId, register::Subject),
    Flow(FlowId),
    /// By its upstream and its number among that one's edges.
    Edge(ExecutionId, u32),
    Tombstone(ExecutionId),
}

impl Key {
    pub const fn kind(&self) -> Kind {
        match self {
            Key::Execution(_) => Kind::Execution,
            Key::Attempt(..) => Kind::Attempt,
            Key::Dedup(..) => Kind::Dedup,
            Key::Continuation(..) => Kind::Continuation,
            Key::DeadLetter(..) => Kind::DeadLetter,
            Key::Node(..) => Kind::Node,
            Key::Step(..) => Kind::Step,
            Key::Worker(..) => Kind::Worker,
            Key::BulkJob(..) => Kind::BulkJob,
            Key::ApiKey(..) => Kind::ApiKey,
            Key::Audit(..) => Kind::Audit,
            Key::Register(..) => Kind::Register,
            Key::Flow(_) => Kind::Flow,
            Key::Edge(..) => Kind::Edge,
            Key::Tombstone(_) => Kind::Tombstone,
        }
    }

    pub const fn partition(&self) -> PartitionId {
        match self {
            Key::Execution(id) | Key::Attempt(id, _) | Key::Continuation(id, _) | Key::Step(id, _) => id.partition(),
            Key::Edge(id, _) | Key::Tombstone(id) => id.partition(),
            Key::Flow(id) => id.partition(),
            Key::Dedup(partition, _) | Key::DeadLetter(partition, _) | Key::Node(partition, _) => *partition,
            Key::Worker(partition, _) => *partition,
            Key::BulkJob(partition, ..) => *partition,
            Key::ApiKey(partition, _) | Key::Audit(partition, _) | Key::Register(partition, _) => *partition,
        }
    }

    /// The bytes that name this record among those of its kind and partition. Injective; byte order is key order.
    pub fn to_bytes(&self) -> KeyBytes {
        let mut bytes = KeyBytes::default();
        match self {
            Key::Execution(id) | Key::Tombstone(id) => bytes.push(id.uuid().as_bytes()),
            Key::Flow(id) => bytes.push(id.uuid().as_bytes()),
            Key::Attempt(id, number) | Key::Step(id, number) | Key::Edge(id, number) => {
                bytes.push(id.uuid().as_bytes());
                bytes.push(&number.to_be_bytes());
            }
            Key::Dedup(_, digest) | Key::Worker(_, digest) => bytes.push(digest),
            Key::Continuation(id, work) => {
                bytes.push(id.uuid().as_bytes());
                bytes.push(&[*work as u8]);
            }
            Key::DeadLetter(_, uuid) | Key::Node(_, uuid) => bytes.push(uuid.as_bytes()),
            Key::BulkJob(_, uuid, role) => {
                bytes.push(uuid.as_bytes());
                bytes.push(&[*role as u8]);
            }
            Key::ApiKey(_, id) => bytes.push(id.as_bytes()),
            // The log is listed over all partitions: the name of an entry is its own in the whole store.
            Key::Audit(partition, number) => {
                bytes.push(&number.to_be_bytes());
                bytes.push(&partition.0.to_be_bytes());
            }
            Key::Register(_, subject) => bytes.push(&[*subject as u8]),
        }
        bytes
    }

    /// The reverse of `to_bytes`; `None` for bytes that name no record of this kind.
    pub fn from_bytes(partition: PartitionId, kind: Kind, bytes: &[u8]) -> Option<Key> {
        let uuid = |bytes: &[u8]| Uuid::from_slice(bytes).ok();
        let id = |bytes: &[u8]| uuid(bytes).map(|uuid| ExecutionId::new(partition, uuid));
        let numbered = |bytes: &[u8]| {
            let (owner, number) = bytes.split_at_checked(16)?;
            Some((id(owner)?, u32::from_be_bytes(number.try_into().ok()?)))
        };
        match kind {
            Kind::Execution => id(bytes).map(Key::Execution),
            Kind::Attempt => numbered(bytes).map(|(id, index)| Key::Attempt(id, index)),
            Kind::Dedup => Some(Key::Dedup(partition, bytes.try_into().ok()?)),
            Kind::Continuation => {
                let (owner, work) = bytes.split_at_checked(16)?;
                let &[work] = work else { return None };
                Some(Key::Continuation(id(owner)?, continuation::Work::from_u8(work)?))
            }
            Kind::DeadLetter => uuid(bytes).map(|uuid| Key::DeadLetter(partition, uuid)),
            Kind::Node => uuid(bytes).map(|uuid| Key::Node(partition, uuid)),
            Kind::Step => numbered(bytes).map(|(id, number)| Key::Step(id, number)),
            Kind::Worker => Some(Key::Worker(partition, bytes.try_into().ok()?)),
            Kind::BulkJob => {
                let (job, role) = bytes.split_at_checked(16)?;
                let &[role] = role else { return None };
                Some(Key::BulkJob(partition, uuid(job)?, bulk_job::Role::from_u8(role)?))
            }
            Kind::ApiKey => KeyId::from_bytes(bytes).map(|id| Key::ApiKey(partition, id)),
            Kind::Audit => {
                let (number, place) = bytes.split_at_checked(8)?;
                let number = u64::from_be_bytes(number.try_into().ok()?);
                (place == partition.0.to_be_bytes()).then_some(Key::Audit(partition, number))
            }
            Kind::Register => {
                let &[subject] = bytes else { return None };
                Some(Key::Register(partition, register::Subject::from_u8(subject)?))
            }
            Kind::Flow => uuid(bytes).map(|uuid| Key::Flow(FlowId::new(partition, uuid))),
            Kind::Edge => numbered(bytes).map(|(id, number)| Key::Edge(id, number)),
            Kind::Tombstone => id(bytes).map(Key::Tombstone),
        }
    }
}

/// The bytes of a key, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct KeyBytes {
    bytes: [u8; 32],
    len: u8,
}

impl KeyBytes {
    fn push(&mut self, more: &[u8]) {
        let start = self.len as usize;
        self.bytes[start..start + more.len()].copy_from_slice(more);
        self.len += more.len() as u8;
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// A part that is loaded only when somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Lazy<T> {
    #[default]
    Unloaded,
    Loaded(T),
}

impl<T> Lazy<T> {
    pub fn loaded(&self) -> Option<&T> {
        match self {
            Lazy::Unloaded => None,
            Lazy::Loaded(value) => Some(value),
        }
    }
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Execution(Box<Execution>),
    Attempt(Box<Attempt>),
    Dedup(Box<Dedup>),
    Continuation(Box<Continuation>),
    DeadLetter(Box<DeadLetter>),
    Node(Box<Node>),
    Step(Box<Step>),
    Worker(Box<Worker>),
    BulkJob(Box<BulkJob>),
    ApiKey(Box<ApiKey>),
    Audit(Box<Audit>),
    Register(Box<Register>),
    Flow(Box<Flow>),
    Edge(Box<Edge>),
    Tombstone(Box<Tombstone>),
}

macro_rules! each {
    ($record:expr, $inner:ident => $body:expr) => {
        match $record {
            Record::Execution($inner) => $body,
            Record::Attempt($inner) => $body,
            Record::Dedup($inner) => $body,
            Record::Continuation($inner) => $body,
            Record::DeadLetter($inner) => $body,
            Record::Node($inner) => $body,
            Record::Step($inner) => $body,
            Record::Worker($inner) => $body,
            Record::BulkJob($inner) => $body,
            Record::ApiKey($inner) => $body,
            Record::Audit($inner) => $body,
            Record::Register($inner) => $body,
            Record::Flow($inner) => $body,
            Record::Edge($inner) => $body,
            Record::Tombstone($inner) => $body,
        }
    };
}

impl Record {
    pub fn key(&self) -> Key {
        each!(self, inner => inner.key())
    }

    /// The values of the kind's facets, in the order the schema declares them.
    pub fn facets(&self) -> Vec<Value> {
        each!(self, inner => inner.facets())
    }

    /// The entries this record has in the due index, at most one per timer.
    pub fn due(&self) -> Vec<Due> {
        each!(self, inner => inner.due())
    }

    /// Armed timers of the record at their own times, before any delay after a failure.
    pub fn timers(&self) -> Vec<Due> {
        match self {
            Record::Execution(execution) => execution.timers(),
            Record::Flow(flow) => flow.timers(),
            Record::Continuation(continuation) => continuation.timers(),
            Record::BulkJob(job) => job.timers(),
            other => other.due(),
        }
    }

    /// Failures of scanners on the record, per timer.
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Record::Execution(execution) => execution.trouble(),
            Record::Flow(flow) => flow.trouble(),
            Record::Continuation(continuation) => continuation.body.trouble.as_ref(),
            Record::BulkJob(job) => job.trouble(),
            _ => None,
        }
    }

    /// Replaces the failures of scanners; ignored for kinds that keep no account.
    pub fn set_trouble(&mut self, trouble: Option<Trouble>) {
        let trouble = trouble.filter(|trouble| !trouble.items.is_empty());
        match self {
            Record::Execution(execution) => execution.set_trouble(trouble),
            Record::Flow(flow) => flow.set_trouble(trouble),
            Record::Continuation(continuation) => continuation.body.trouble = trouble,
            Record::BulkJob(job) => *job.trouble_mut() = trouble,
            _ => {}
        }
    }

    /// The namespace it belongs to; `None` for what belongs to none, or to another record.
    pub fn namespace(&self) -> Option<&Text> {
        Some(match self {
            Record::Execution(execution) => &execution.spec.namespace,
            Record::Flow(flow) => &flow.definition.namespace,
            Record::Continuation(continuation) => &continuation.body.namespace,
            Record::BulkJob(job) => &job.definition().namespace,
            Record::Dedup(dedup) => &dedup.body.namespace,
            Record::Worker(worker) => &worker.body.namespace,
            _ => return None,
        })
    }

    /// The encoded bytes of the parts in `mask`; `None` for a part that is absent.
    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        each!(self, inner => inner.encode(mask))
    }

    /// Which parts are in memory.
    pub fn loaded(&self) -> PartMask {
        each!(self, inner => inner.loaded())
    }

    /// Which parts differ from what is stored. A fresh record has all of them.
    pub fn dirty(&self) -> PartMask {
        each!(self, inner => inner.dirty())
    }

    /// Called when the record is taken as the state of a commit: nothing differs any more.
    pub fn mark_clean(&mut self) {
        each!(self, inner => inner.mark_clean())
    }

    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        each!(self, inner => inner.weight())
    }

    /// About how many bytes a commit carries that writes it as it is now.
    pub fn written_weight(&self) -> usize {
        match self {
            Record::Execution(execution) => execution.written_weight(),
            other => other.weight(),
        }
    }

    /// Adds parts that were loaded later to a record that is in memory.
    pub fn absorb(&mut self, other: &Record) {
        match (self, other) {
            (Record::Execution(into), Record::Execution(from)) => into.absorb(from),
            (Record::Attempt(into), Record::Attempt(from)) => into.absorb(from),
            (Record::Step(into), Record::Step(from)) => into.absorb(from),
            _ => {}
        }
    }

    /// Builds a record from the parts a store returned. A part outside `asked` reads as not loaded.
    pub fn decode(key: Key, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Record, DecodeError> {
        Ok(match key {
            Key::Execution(id) => Record::Execution(Box::new(Execution::decode(id, parts, asked)?)),
            Key::Attempt(id, index) => Record::Attempt(Box::new(Attempt::decode((id, index), parts, asked)?)),
            Key::Dedup(partition, digest) => Record::Dedup(Box::new(Dedup::decode((partition, digest), parts, asked)?)),
            Key::Continuation(id, work) => {
                Record::Continuation(Box::new(Continuation::decode((id, work), parts, asked)?))
            }
            Key::DeadLetter(partition, uuid) => {
                Record::DeadLetter(Box::new(DeadLetter::decode((partition, uuid), parts, asked)?))
            }
            Key::Node(partition, uuid) => Record::Node(Box::new(Node::decode((partition, uuid), parts, asked)?)),
            Key::Step(id, number) => Record::Step(Box::new(Step::decode((id, number), parts, asked)?)),
            Key::Worker(partition, digest) => {
                Record::Worker(Box::new(Worker::decode((partition, digest), parts, asked)?))
            }
            Key::BulkJob(partition, uuid, role) => {
                Record::BulkJob(Box::new(BulkJob::decode((partition, uuid, role), parts, asked)?))
            }
            Key::ApiKey(partition, id) => Record::ApiKey(Box::new(ApiKey::decode((partition, id), parts, asked)?)),
            Key::Audit(partition, number) => Record::Audit(Box::new(Audit::decode((partition, number), parts, asked)?)),
            Key::Register(partition, subject) => {
                Record::Register(Box::new(Register::decode((partition, subject), parts, asked)?))
            }
            Key::Flow(id) => Record::Flow(Box::new(Flow::decode(id, parts, asked)?)),
            Key::Edge(id, number) => Record::Edge(Box::new(Edge::decode((id, number), parts, asked)?)),
            Key::Tombstone(id) => Record::Tombstone(Box::new(Tombstone::decode(id, parts, asked)?)),
        })
    }
}
