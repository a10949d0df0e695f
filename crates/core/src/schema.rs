//! The tables and indexes, declared once as data. SQL stores turn facets into typed columns and indexes into partial
//! indexes; others derive their index entries from the same declaration. No store knows more about a record than this.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kinds of records. The number is stored; it never changes its meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    Execution = 1,
    Attempt = 2,
    Dedup = 3,
    Continuation = 4,
    DeadLetter = 5,
    Node = 6,
    Step = 7,
    BulkJob = 8,
    ApiKey = 9,
    Audit = 10,
    Register = 11,
    Worker = 12,
    Flow = 13,
    Edge = 14,
    Tombstone = 15,
}

impl Kind {
    /// In the order of their numbers, which leave no gap: stores find what belongs to a kind by its number.
    pub const ALL: [Kind; 15] = [
        Kind::Execution,
        Kind::Attempt,
        Kind::Dedup,
        Kind::Continuation,
        Kind::DeadLetter,
        Kind::Node,
        Kind::Step,
        Kind::BulkJob,
        Kind::ApiKey,
        Kind::Audit,
        Kind::Register,
        Kind::Worker,
        Kind::Flow,
        Kind::Edge,
        Kind::Tombstone,
    ];

    pub fn from_u8(number: u8) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether records of the kind keep an account of failed tries of scanners: only timers of these kinds can be refused by
    /// a rule.
    pub const fn keeps_account(self) -> bool {
        matches!(self, Kind::Execution | Kind::Flow | Kind::Continuation | Kind::BulkJob)
    }

    pub const fn table(self) -> &'static Table {
        match self {
            Kind::Execution => &EXECUTIONS,
            Kind::Attempt => &ATTEMPTS,
            Kind::Dedup => &DEDUPS,
            Kind::Continuation => &CONTINUATIONS,
            Kind::DeadLetter => &DEAD_LETTERS,
            Kind::Node => &NODES,
            Kind::Step => &STEPS,
            Kind::Worker => &WORKERS,
            Kind::BulkJob => &BULK_JOBS,
            Kind::ApiKey => &API_KEYS,
            Kind::Audit => &AUDIT,
            Kind::Register => &REGISTERS,
            Kind::Flow => &FLOWS,
            Kind::Edge => &EDGES,
            Kind::Tombstone => &TOMBSTONES,
        }
    }
}

/// A queried value. Byte order is the only order: text compares by its bytes, `Null` before everything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    Null,
    Int(i64),
    Text(Arc<str>),
    Bytes(bytes::Bytes),
}

impl Value {
    pub fn opt_int(value: Option<i64>) -> Value {
        value.map_or(Value::Null, Value::Int)
    }

    pub fn opt_time(value: Option<Time>) -> Value {
        value.map_or(Value::Null, |time| Value::Int(time.as_i64()))
    }

    pub fn text(value: &Arc<str>) -> Value {
        Value::Text(value.clone())
    }

    pub fn bytes(value: &[u8]) -> Value {
        Value::Bytes(bytes::Bytes::copy_from_slice(value))
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    Int,
    Text,
    Bytes,
}

/// A field that is queried. `fixed` ones are written with the record and never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facet {
    pub name: &'static str,
    pub ty: Type,
    pub nullable: bool,
    pub fixed: bool,
}

/// An ordered way to find records: the named facets, then the record's key. If `when` names a facet, only records in
/// which that facet is not null are in the index, and in these no other facet of the index is null either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index {
    pub id: IndexId,
    pub name: &'static str,
    pub kind: Kind,
    pub facets: &'static [usize],
    pub when: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IndexId {
    /// The ready queues: namespace, lane, kind, capabilities, concurrency key, order.
    Ready,
    /// Listings: namespace, time of creation.
    ByCreated,
    /// Listings of what did not go the usual way: namespace, public state, time of creation.
    ByState,
    /// Children of an execution.
    Children,
    /// Active executions by the claim call that took them.
    ByClaim,
    /// Attempts of an execution.
    Attempts,
    /// Dead letters in the order they were parked, which is the order of their ids.
    DeadLetters,
    /// Active executions by the registered worker process that holds them.
    ByHolder,
    /// Worker processes of a namespace by their names.
    Workers,
    /// API keys by name.
    KeysByName,
    /// The audit log: time of the act.
    AuditByTime,
    /// Members of a flow in the order they were added.
    Members,
    /// Members of a flow that have not ended.
    LiveMembers,
    /// Flows of a namespace by time of creation.
    Flows,
    /// What is left of the members of a flow that were purged before it.
    Tombstones,
}

impl IndexId {
    pub const ALL: [IndexId; 15] = [
        IndexId::Ready,
        IndexId::ByCreated,
        IndexId::ByState,
        IndexId::Children,
        IndexId::ByClaim,
        IndexId::Attempts,
        IndexId::DeadLetters,
        IndexId::ByHolder,
        IndexId::Workers,
        IndexId::KeysByName,
        IndexId::AuditByTime,
        IndexId::Members,
        IndexId::LiveMembers,
        IndexId::Flows,
        IndexId::Tombstones,
    ];

    pub fn get(self) -> &'static Index {
        Kind::ALL
            .into_iter()
            .flat_map(|kind| kind.table().indexes)
            .find(|index| index.id == self)
            .expect("schema: every index id is declared in a table")
    }
}

pub struct Table {
    pub kind: Kind,
    pub name: &'static str,
    pub facets: &'static [Facet],
    /// Names of the parts; a part's number is its place here.
    pub parts: &'static [&'static str],
    /// Parts that every reader wants; the others are loaded when asked for.
    pub light: PartMask,
    pub indexes: &'static [Index],
}

/// A set of parts, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PartMask(pub u16);

impl PartMask {
    pub const NONE: PartMask = PartMask(0);
    pub const ALL: PartMask = PartMask(u16::MAX);

    pub const fn of(part: u8) -> PartMask {
        PartMask(1 << part)
    }

    pub const fn with(self, other: PartMask) -> PartMask {
        PartMask(self.0 | other.0)
    }

    pub const fn without(self, other: PartMask) -> PartMask {
        PartMask(self.0 & !other.0)
    }

    pub const fn has(self, part: u8) -> bool {
        self.0 & (1 << part) != 0
    }

    pub const fn covers(self, other: PartMask) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The timers and the left-over work of a partition, all in one index. The number is stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Timer {
    Lease = 1,
    AttemptTimeout = 2,
    Deadline = 3,
    Until = 4,
    CancelGrace = 5,
    ChildrenTimeout = 6,
    Retention = 7,
    /// A purge that is under way.
    Purge = 8,
    /// Children that are owed a cancel.
    CancelChildren = 9,
    /// A worker process that is silent, or drains for too long, or was kept long enough.
    Worker = 10,
    /// Leases of a worker process that are to be looked at.
    WorkerLeases = 11,
    /// A bulk job, or a share of one, that goes on.
    Bulk = 12,
    /// Out-edges of a member that ended, which its own commit had no room for.
    Resolve = 13,
    /// Edges below a replayed member that go back to pending.
    Reopen = 14,
    /// Siblings that a decided group still has to cancel.
    GroupCancel = 15,
    /// An unsealed flow that has had its time.
    SealBy = 16,
    /// Members that are sealed one after the other.
    FlowSeal = 17,
    /// Members that a flow which ends still has to cancel.
    FlowEnding = 18,
    /// The counters of a flow that has changed are to be compared with a recount.
    FlowVerify = 19,
    /// Members that have waited long are compared with their upstreams.
    DependencyAudit = 20,
    /// A flow that goes, record by record.
    FlowPurge = 21,
}

impl Timer {
    pub const ALL: [Timer; 21] = [
        Timer::Lease,
        Timer::AttemptTimeout,
        Timer::Deadline,
        Timer::Until,
        Timer::CancelGrace,
        Timer::ChildrenTimeout,
        Timer::Retention,
        Timer::Purge,
        Timer::CancelChildren,
        Timer::Worker,
        Timer::WorkerLeases,
        Timer::Bulk,
        Timer::Resolve,
        Timer::Reopen,
        Timer::GroupCancel,
        Timer::SealBy,
        Timer::FlowSeal,
        Timer::FlowEnding,
        Timer::FlowVerify,
        Timer::DependencyAudit,
        Timer::FlowPurge,
    ];

    pub fn from_u8(number: u8) -> Option<Timer> {
        Self::ALL.into_iter().find(|timer| *timer as u8 == number)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Timer::Lease => "lease",
            Timer::AttemptTimeout => "attempt_timeout",
            Timer::Deadline => "deadline",
            Timer::Until => "until",
            Timer::CancelGrace => "cancel_grace",
            Timer::ChildrenTimeout => "children_timeout",
            Timer::Retention => "retention",
            Timer::Purge => "purge",
            Timer::CancelChildren => "cancel_children",
            Timer::Worker => "worker",
            Timer::WorkerLeases => "worker_leases",
            Timer::Bulk => "bulk",
            Timer::Resolve => "resolve",
            Timer::Reopen => "reopen",
            Timer::GroupCancel => "group_cancel",
            Timer::SealBy => "seal_by",
            Timer::FlowSeal => "flow_seal",
            Timer::FlowEnding => "flow_ending",
            Timer::FlowVerify => "flow_verify",
            Timer::DependencyAudit => "dependency_audit",
            Timer::FlowPurge => "flow_purge",
        }
    }
}

/// One armed timer of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Due {
    pub timer: Timer,
    pub at: Time,
}

const fn fixed(name: &'static str, ty: Type) -> Facet {
    Facet { name, ty, nullable: false, fixed: true }
}

const fn fixed_null(name: &'static str, ty: Type) -> Facet {
    Facet { name, ty, nullable: true, fixed: true }
}

const fn moving(name: &'static str, ty: Type) -> Facet {
    Facet { name, ty, nullable: false, fixed: false }
}

const fn moving_null(name: &'static str, ty: Type) -> Facet {
    Facet { name, ty, nullable: true, fixed: false }
}

/// Places of the facets of an execution.
pub mod execution {
    use super::PartMask;
    pub const NAMESPACE: usize = 0;
    pub const LANE: usize = 1;
    pub const KIND: usize = 2;
    pub const CAPABILITIES: usize = 3;
    pub const CONCURRENCY_KEY: usize = 4;
    pub const PARENT: usize = 5;
    pub const CREATED_AT: usize = 6;
    pub const STATE: usize = 7;
    pub const PRIORITY: usize = 8;
    pub const READY_ORDER: usize = 9;
    pub const ATTEMPTS: usize = 10;
    pub const WORKER: usize = 11;
    pub const CLAIM_REF: usize = 12;
    pub const FINISHED_AT: usize = 13;
    pub const UPDATED_AT: usize = 14;
    /// The public state again, unless it is one that every execution passes through: waiting, active, completed. So the
    /// usual life of an execution does not touch the index of states.
    pub const LISTED: usize = 15;
    /// The worker process that holds the lease, if it took it in the name of a session: others pay for no index.
    pub const HOLDER: usize = 16;
    /// The flow it is a member of.
    pub const FLOW: usize = 17;
    /// Its place among the members, in the order they were added.
    pub const MEMBER_NO: usize = 18;
    /// Its flow again, until it has ended.
    pub const LIVE_IN: usize = 19;

    pub const HOT: u8 = 0;
    pub const SPEC: u8 = 1;
    pub const TAGS: u8 = 2;
    pub const TROUBLE: u8 = 3;
    pub const INPUT: u8 = 4;
    pub const CHECKPOINT: u8 = 5;
    pub const ACTIONS: u8 = 6;
    pub const RESULT: u8 = 7;
    /// What makes it a member of a flow; absent for all others.
    pub const MEMBER: u8 = 8;
    /// Where the edges are that lead to it.
    pub const INLETS: u8 = 9;
    pub const LIGHT: PartMask = PartMask::of(HOT)
        .with(PartMask::of(SPEC))
        .with(PartMask::of(TAGS))
        .with(PartMask::of(TROUBLE))
        .with(PartMask::of(MEMBER));
}

/// Places of the parts of an attempt.
pub mod attempt {
    use super::PartMask;
    pub const BODY: u8 = 0;
    pub const RESULT: u8 = 1;
    pub const DETAIL: u8 = 2;
    pub const LIGHT: PartMask = PartMask::of(BODY);
}

/// Places of the facets of a worker.
pub mod worker {
    pub const NAMESPACE: usize = 0;
    pub const INSTANCE: usize = 1;
    pub const SESSION: usize = 3;
    pub const STATE: usize = 4;
}

/// Places of the parts of a step.
pub mod step {
    use super::PartMask;
    pub const BODY: u8 = 0;
    pub const VALUE: u8 = 1;
    pub const LIGHT: PartMask = PartMask::of(BODY);
}

pub static EXECUTIONS: Table = Table {
    kind: Kind::Execution,
    name: "executions",
    facets: &[
        fixed("namespace", Type::Text),
        fixed("lane", Type::Text),
        fixed("kind", Type::Text),
        fixed("capabilities", Type::Text),
        fixed("concurrency_key", Type::Bytes),
        fixed_null("parent", Type::Bytes),
        fixed("created_at", Type::Int),
        moving("state", Type::Text),
        moving("priority", Type::Int),
        moving_null("ready_order", Type::Int),
        moving("attempts", Type::Int),
        moving_null("worker", Type::Text),
        moving_null("claim_ref", Type::Bytes),
        moving_null("finished_at", Type::Int),
        moving("updated_at", Type::Int),
        moving_null("listed", Type::Text),
        moving_null("holder", Type::Text),
        fixed_null("flow", Type::Bytes),
        fixed_null("member_no", Type::Int),
        moving_null("live_in", Type::Bytes),
    ],
    parts: &["hot", "spec", "tags", "trouble", "input", "checkpoint", "actions", "result", "member", "inlets"],
    light: execution::LIGHT,
    indexes: &[
        Index {
            id: IndexId::Ready,
            name: "executions_ready",
            kind: Kind::Execution,
            facets: &[
                execution::NAMESPACE,
                execution::LANE,
                execution::KIND,
                execution::CAPABILITIES,
                execution::CONCURRENCY_KEY,
                execution::READY_ORDER,
            ],
            when: Some(execution::READY_ORDER),
        },
        Index {
            id: IndexId::ByCreated,
            name: "executions_by_created",
            kind: Kind::Execution,
            facets: &[execution::NAMESPACE, execution::CREATED_AT],
            when: None,
        },
        Index {
            id: IndexId::ByState,
            name: "executions_by_state",
            kind: Kind::Execution,
            facets: &[execution::NAMESPACE, execution::LISTED, execution::CREATED_AT],
            when: Some(execution::LISTED),
        },
        Index {
            id: IndexId::Children,
            name: "executions_children",
            kind: Kind::Execution,
            facets: &[execution::PARENT],
            when: Some(execution::PARENT),
        },
        Index {
            id: IndexId::ByClaim,
            name: "executions_by_claim",
            kind: Kind::Execution,
            facets: &[execution::CLAIM_REF],
            when: Some(execution::CLAIM_REF),
        },
        Index {
            id: IndexId::ByHolder,
            name: "executions_by_holder",
            kind: Kind::Execution,
            facets: &[execution::NAMESPACE, execution::HOLDER],
            when: Some(execution::HOLDER),
        },
        Index {
            id: IndexId::Members,
            name: "executions_by_flow",
            kind: Kind::Execution,
            facets: &[execution::FLOW, execution::MEMBER_NO],
            when: Some(execution::FLOW),
        },
        Index {
            id: IndexId::LiveMembers,
            name: "executions_live",
            kind: Kind::Execution,
            facets: &[execution::LIVE_IN],
            when: Some(execution::LIVE_IN),
        },
    ],
};

pub static ATTEMPTS: Table = Table {
    kind: Kind::Attempt,
    name: "attempts",
    facets: &[
        fixed("execution", Type::Bytes),
        fixed("number", Type::Int),
        moving("state", Type::Text),
        moving("started_at", Type::Int),
        moving("ended_at", Type::Int),
    ],
    parts: &["body", "result", "detail"],
    light: attempt::LIGHT,
    // The key of an attempt begins with its execution, so the key order itself lists the attempts of one execution.
    indexes: &[Index { id: IndexId::Attempts, name: "attempts_by_key", kind: Kind::Attempt, facets: &[], when: None }],
};

pub static DEDUPS: Table = Table {
    kind: Kind::Dedup,
    name: "dedups",
    facets: &[fixed("namespace", Type::Text), moving_null("expires_at", Type::Int)],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[],
};

pub static CONTINUATIONS: Table = Table {
    kind: Kind::Continuation,
    name: "continuations",
    facets: &[fixed("namespace", Type::Text), fixed("work", Type::Text), fixed("created_at", Type::Int)],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[],
};

pub static DEAD_LETTERS: Table = Table {
    kind: Kind::DeadLetter,
    name: "dead_letters",
    facets: &[fixed("scanner", Type::Text), fixed("parked_at", Type::Int)],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[Index {
        id: IndexId::DeadLetters,
        name: "dead_letters_by_key",
        kind: Kind::DeadLetter,
        facets: &[],
        when: None,
    }],
};

pub static NODES: Table = Table {
    kind: Kind::Node,
    name: "nodes",
    facets: &[
        fixed("name", Type::Text),
        fixed("version", Type::Text),
        fixed("started_at", Type::Int),
        moving("seen_at", Type::Int),
    ],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[],
};

pub static STEPS: Table = Table {
    kind: Kind::Step,
    name: "steps",
    facets: &[
        fixed("execution", Type::Bytes),
        fixed("number", Type::Int),
        fixed("name", Type::Text),
        fixed("attempt", Type::Int),
        fixed("recorded_at", Type::Int),
        fixed("bytes", Type::Int),
    ],
    parts: &["body", "value"],
    light: step::LIGHT,
    // Steps are numbered without gaps and the execution knows the numbers: they are read by their keys.
    indexes: &[],
};

pub static WORKERS: Table = Table {
    kind: Kind::Worker,
    name: "workers",
    facets: &[
        fixed("namespace", Type::Text),
        fixed("instance", Type::Text),
        moving("worker", Type::Text),
        moving("session", Type::Int),
        moving("state", Type::Text),
        moving_null("version", Type::Text),
        moving("seen_at", Type::Int),
    ],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[Index {
        id: IndexId::Workers,
        name: "workers_by_instance",
        kind: Kind::Worker,
        facets: &[worker::NAMESPACE, worker::INSTANCE],
        when: None,
    }],
};

pub static API_KEYS: Table = Table {
    kind: Kind::ApiKey,
    name: "api_keys",
    facets: &[
        moving("name", Type::Text),
        fixed("created_at", Type::Int),
        moving_null("expires_at", Type::Int),
        moving_null("last_used_at", Type::Int),
    ],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[Index {
        id: IndexId::KeysByName,
        name: "api_keys_by_name",
        kind: Kind::ApiKey,
        facets: &[0],
        when: None,
    }],
};

pub static BULK_JOBS: Table = Table {
    kind: Kind::BulkJob,
    name: "bulk_jobs",
    facets: &[fixed("namespace", Type::Text), fixed("role", Type::Text), fixed("created_at", Type::Int)],
    parts: &["body"],
    light: PartMask::of(0),
    // A job names its partition and the partitions of its shares: they are read by their keys.
    indexes: &[],
};

pub static AUDIT: Table = Table {
    kind: Kind::Audit,
    name: "audit",
    facets: &[
        fixed("acted_at", Type::Int),
        fixed("principal", Type::Text),
        fixed("verb", Type::Text),
        fixed("target", Type::Text),
        fixed("result", Type::Text),
    ],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[Index { id: IndexId::AuditByTime, name: "audit_by_time", kind: Kind::Audit, facets: &[0], when: None }],
};

pub static REGISTERS: Table = Table {
    kind: Kind::Register,
    name: "registers",
    facets: &[fixed("subject", Type::Text)],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[],
};

/// Places of the facets and parts of a flow.
pub mod flow {
    use super::PartMask;
    pub const NAMESPACE: usize = 0;
    pub const CREATED_AT: usize = 1;
    pub const KIND: usize = 2;
    pub const STATE: usize = 4;

    pub const HOT: u8 = 0;
    pub const DEFINITION: u8 = 1;
    pub const SUMMARY: u8 = 2;
    pub const TAGS: u8 = 3;
    pub const TROUBLE: u8 = 4;
    pub const LIGHT: PartMask = PartMask(0b11111);
}

pub static FLOWS: Table = Table {
    kind: Kind::Flow,
    name: "flows",
    facets: &[
        fixed("namespace", Type::Text),
        fixed("created_at", Type::Int),
        fixed("kind", Type::Text),
        fixed_null("name", Type::Text),
        moving("state", Type::Text),
        moving("members", Type::Int),
        moving("live", Type::Int),
        moving_null("finished_at", Type::Int),
    ],
    parts: &["hot", "definition", "summary", "tags", "trouble"],
    light: flow::LIGHT,
    indexes: &[Index {
        id: IndexId::Flows,
        name: "flows_by_created",
        kind: Kind::Flow,
        facets: &[flow::NAMESPACE, flow::CREATED_AT],
        when: None,
    }],
};

pub static EDGES: Table = Table {
    kind: Kind::Edge,
    name: "edges",
    facets: &[
        fixed("flow", Type::Bytes),
        fixed("upstream", Type::Bytes),
        fixed("downstream", Type::Bytes),
        moving("state", Type::Text),
    ],
    parts: &["body"],
    light: PartMask::of(0),
    // The edges of an upstream are numbered without gaps, and a downstream knows the numbers of those that lead to it:
    // they are read by their keys.
    indexes: &[],
};

pub static TOMBSTONES: Table = Table {
    kind: Kind::Tombstone,
    name: "tombstones",
    facets: &[fixed("flow", Type::Bytes), fixed("member_no", Type::Int)],
    parts: &["body"],
    light: PartMask::of(0),
    indexes: &[Index {
        id: IndexId::Tombstones,
        name: "tombstones_by_flow",
        kind: Kind::Tombstone,
        facets: &[0, 1],
        when: None,
    }],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_from_one_without_gaps() {
        assert!(Kind::ALL.into_iter().zip(1..).all(|(kind, number)| kind as u8 == number));
    }

    #[test]
    fn every_index_is_declared_once_and_names_real_facets() {
        for id in IndexId::ALL {
            let index = id.get();
            let table = index.kind.table();
            assert!(index.facets.iter().chain(&index.when).all(|at| *at < table.facets.len()), "{id:?}");
        }
        let declared: usize = Kind::ALL.iter().map(|kind| kind.table().indexes.len()).sum();
        assert_eq!(declared, IndexId::ALL.len());
    }

    #[test]
    fn facet_places_match_their_names() {
        let name = |at: usize| EXECUTIONS.facets[at].name;
        assert_eq!(name(execution::CONCURRENCY_KEY), "concurrency_key");
        assert_eq!(name(execution::READY_ORDER), "ready_order");
        assert_eq!(name(execution::CLAIM_REF), "claim_ref");
        assert_eq!(name(execution::UPDATED_AT), "updated_at");
        assert_eq!(name(execution::LISTED), "listed");
        assert_eq!(name(execution::HOLDER), "holder");
        assert_eq!(name(execution::LIVE_IN), "live_in");
        assert_eq!(FLOWS.facets[flow::STATE].name, "state");
        assert_eq!(WORKERS.facets[worker::SESSION].name, "session");
        assert_eq!(WORKERS.facets[worker::STATE].name, "state");
        assert_eq!(EXECUTIONS.parts[execution::INLETS as usize], "inlets");
    }
}
