//! Every input, in one enum. Time comes with the transaction; fresh ids and entropy are in the command.

mod flow;
mod verb;
mod worker;

pub use flow::*;
pub use worker::*;

use crate::change::DueEntry;
use crate::error::Rejection;
use crate::filter::Filter;
use crate::id::{BulkId, CommitId, ExecutionId, KeyId, LeaseId, PartitionId};
use crate::record::api_key::{Attributes, Mac, RateClass, Reach};
use crate::record::bulk_job::{Counts, Definition, Place, Verb};
use crate::record::execution::{Deadline, Policy};
use crate::record::{ApiKey, Key};
use crate::schema::Timer;
use crate::text::{Capabilities, Text};
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One call: who, what, and whether a repeat of it must be recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub principal: Principal,
    pub request_id: Option<Bytes>,
    /// The revision that the execution must have; only for commands on one that exists.
    pub expected_revision: Option<CommitId>,
    pub command: Command,
}

/// Who calls. Commands act in its namespace and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub namespace: Text,
    pub name: Text,
    pub scopes: Scopes,
    /// Where the call came from, for the audit log; absent inside a process.
    pub origin: Option<Arc<Origin>>,
}

/// The way a call came in. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Id of the API key.
    pub key: Text,
    pub address: Text,
    pub request: Text,
}

impl Principal {
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>, scopes: Scopes) -> Self {
        Self { namespace: namespace.into(), name: name.into(), scopes, origin: None }
    }

    /// May do everything in `namespace`.
    pub fn all(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self::new(namespace, name, Scopes::ALL)
    }

    /// The owner of a key, acting in `namespace`, or in none yet. `None` if the key is not good there.
    pub fn of_key(key: &ApiKey, namespace: Option<Text>, address: Text, request: Text) -> Option<Self> {
        if namespace.as_ref().is_some_and(|namespace| !key.body.namespaces.holds(namespace)) {
            return None;
        }
        let origin = Origin { key: key.id.to_string().into(), address, request };
        let namespace = namespace.unwrap_or_else(|| "".into());
        Some(Self { origin: Some(Arc::new(origin)), ..Self::new(namespace, key.body.name.clone(), key.body.scopes) })
    }

    /// The engine itself: timers and continuations. It acts in every namespace.
    pub fn engine() -> Self {
        Self::new("", "engine", Scopes::ENGINE)
    }

    pub fn is_engine(&self) -> bool {
        self.scopes == Scopes::ENGINE
    }
}

/// What somebody may do. None holds another, except that an administrator may operate. The bits are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes(u8);

impl Scopes {
    pub const NONE: Scopes = Scopes(0);
    pub const SUBMIT: Scopes = Scopes(1);
    pub const WORK: Scopes = Scopes(2);
    pub const OPERATE: Scopes = Scopes(4);
    pub const ENGINE: Scopes = Scopes(8);
    pub const SIGNAL: Scopes = Scopes(16);
    pub const ADMIN: Scopes = Scopes(32);
    /// All that a key can have.
    pub const ALL: Scopes = Scopes(1 | 2 | 4 | 16 | 32);

    /// With their names, in the order in which they are told.
    pub const NAMED: [(Scopes, &'static str); 5] = [
        (Scopes::SUBMIT, "submit"),
        (Scopes::WORK, "work"),
        (Scopes::SIGNAL, "signal"),
        (Scopes::OPERATE, "operate"),
        (Scopes::ADMIN, "admin"),
    ];

    pub const fn with(self, other: Scopes) -> Scopes {
        Scopes(self.0 | other.0)
    }

    /// True if any scope of `wanted` is held.
    pub const fn any(self, wanted: Scopes) -> bool {
        let implied = if self.0 & Scopes::ADMIN.0 != 0 { Scopes::OPERATE.0 } else { 0 };
        (self.0 | implied) & wanted.0 != 0
    }

    /// The single scope itself is among these, not only implied by another.
    pub const fn has(self, scope: Scopes) -> bool {
        self.0 & scope.0 == scope.0
    }

    /// At least one, and none but those that a key can have.
    pub const fn is_of_keys(self) -> bool {
        self.0 != 0 && self.0 & !Scopes::ALL.0 == 0
    }

    /// Refuses a caller that holds none of `wanted`; `name` is what the answer asks for.
    pub fn need(self, wanted: Scopes, name: &'static str) -> Result<(), Rejection> {
        if self.any(wanted) { Ok(()) } else { Err(Rejection::Forbidden { needs: name }) }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Scopes::NAMED.into_iter().filter(|(scope, _)| self.has(*scope));
        f.write_str(&held.map(|(_, name)| name).collect::<Vec<_>>().join(","))
    }
}

/// (lease id, epoch): proves that a worker's view is fresh. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fence {
    pub lease: LeaseId,
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Command {
    Submit(Box<Submit>),
    SubmitAll(SubmitAll),
    Claim(Claim),
    Renew(Renew),
    Progress(Progress),
    RecordSteps(RecordSteps),
    Complete(Complete),
    Fail(Fail),
    Delay(Delay),
    WaitChildren(WaitChildren),
    Cancel(Cancel),
    Reschedule(Reschedule),
    ChangePriority(ChangePriority),
    SetTags(SetTags),
    Revoke(Revoke),
    Hold(Hold),
    Release(Release),
    ForceComplete(ForceComplete),
    ForceFail(ForceFail),
    Purge(Purge),
    Replay(Replay),
    /// The engine's own: a timer of the due index.
    Expire(Expire),
    /// The engine's own: a scanner failed on an item.
    RecordTrouble(RecordTrouble),
    /// The engine's own: an entry that can never be handled.
    DropEntry(DropEntry),
    /// The engine's own: a node lives, or goes.
    Heartbeat(Heartbeat),
    /// An operator lets a parked item be tried again.
    RetryParked(RetryParked),
    /// An operator removes a dead letter.
    DiscardParked(DiscardParked),
    RegisterWorker(Box<RegisterWorker>),
    BeatWorker(BeatWorker),
    DeregisterWorker(DeregisterWorker),
    DrainWorker(DrainWorker),
    UndrainWorker(UndrainWorker),
    MarkWorkerDead(MarkWorkerDead),
    /// The engine's own: it has looked at the leases of a worker process.
    SettleWorker(SettleWorker),
    /// The engine's own: a lease goes with its worker process.
    EndLease(EndLease),
    /// One verb for all executions that a filter names.
    StartBulk(Box<StartBulk>),
    StopBulk(StopBulk),
    /// The engine's own: a partition is told of its share of a bulk job, or that it is stopped.
    ShareBulk(Box<ShareBulk>),
    /// The engine's own: a bulk job, or a share of one, goes on.
    AdvanceBulk(AdvanceBulk),
    /// The engine's own: a share is done, and the job is told.
    ReportBulk(ReportBulk),
    CreateKey(Box<CreateKey>),
    ChangeKey(Box<ChangeKey>),
    RotateKey(RotateKey),
    RevokeKey(RevokeKey),
    /// The engine's own: a key is in use.
    TouchKey(TouchKey),
    /// The engine's own: a call was refused before it became a command.
    NoteRefusal(NoteRefusal),
    /// Keeps the answer of a call that is more than one command, or looks for it.
    KeepAnswer(KeepAnswer),
    /// An operator wants a node to stop.
    DrainNode(DrainNode),
    SubmitFlow(SubmitFlow),
    GrowFlow(Box<GrowFlow>),
    SealFlow(SealFlow),
    CancelFlow(CancelFlow),
    FinishFlow(FinishFlow),
    ChangeFlow(Box<ChangeFlow>),
    PurgeFlow(PurgeFlow),
    /// The engine's own: the counters of a flow beside a recount.
    VerifyFlow(VerifyFlow),
    /// The engine's own: edges that should be resolved and are not.
    AuditFlow(AuditFlow),
    /// The engine's own: the safety net behind the cancelling of siblings.
    ReconcileGroup(ReconcileGroup),
}

/// A start or a deadline as the caller gave it: an absolute time or a duration, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    At(Time),
    InMs(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Submit {
    /// Minted by the engine, in the partition where it is placed. Not part of what the caller gave.
    #[serde(skip)]
    pub id: Option<ExecutionId>,
    pub lane: Text,
    pub kind: Text,
    pub input: Option<Bytes>,
    pub content_type: Option<Text>,
    pub priority: Option<u32>,
    pub capabilities: Capabilities,
    pub concurrency_key: Option<Bytes>,
    pub start: Option<When>,
    pub deadline: Option<When>,
    pub policy: Policy,
    pub tags: BTreeMap<Text, Text>,
    pub idempotency_key: Option<Bytes>,
    /// The running execution that spawns this one, with its fence.
    pub parent: Option<(ExecutionId, Fence)>,
    /// A child of a member stays outside its flow.
    pub outside: bool,
    /// A bad end of a child that joins a flow does not count against it.
    pub uncritical: bool,
    #[serde(skip)]
    pub trace: Option<Text>,
}

/// What a replay does to the edges that leave a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub enum Downstream {
    /// They go back to pending where their downstreams have not begun.
    #[default]
    Reopen,
    Keep,
}

/// Several submissions, all of them or none. They are placed in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubmitAll {
    pub items: Vec<Submit>,
}

/// Leases one execution. The engine has chosen it; the core decides whether it may be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub id: ExecutionId,
    /// Minted by the engine.
    pub lease: LeaseId,
    pub worker: Text,
    pub instance: Text,
    pub lease_ms: u64,
    pub kinds: Option<Arc<[Text]>>,
    pub capabilities: Capabilities,
    pub claim_ref: Option<[u8; 32]>,
    /// That of the worker process, if it is registered.
    pub session: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renew {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    /// That of the claim unless given.
    pub lease_ms: Option<u64>,
    pub percent: Option<u8>,
    pub message: Option<Text>,
    pub checkpoint: Option<Payload>,
    pub steps: Vec<Step>,
}

/// Bytes and what they are, as a caller gave them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    pub bytes: Bytes,
    pub content_type: Option<Text>,
}

impl Payload {
    /// The size of what was given.
    pub fn len_of(given: &Option<Payload>) -> usize {
        given.as_ref().map_or(0, |payload| payload.bytes.len())
    }
}

impl<T: Into<Bytes>> From<T> for Payload {
    fn from(bytes: T) -> Self {
        Self { bytes: bytes.into(), content_type: None }
    }
}

/// A result of a part of the work, to be recorded under a name. The first of a name stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub name: Text,
    pub bytes: Bytes,
    pub content_type: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordSteps {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub percent: Option<u8>,
    pub message: Option<Text>,
    pub checkpoint: Option<Payload>,
    pub renew_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Complete {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub result: Option<Bytes>,
    pub content_type: Option<Text>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fail {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub category: Text,
    pub message: Text,
    pub detail: Option<Payload>,
    pub retry: RetryWish,
    pub steps: Vec<Step>,
    /// For the jitter of the backoff; drawn outside the core.
    #[serde(skip)]
    pub entropy: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RetryWish {
    /// As the policy says.
    Policy,
    Never,
    AfterMs(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delay {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    pub until: When,
    pub checkpoint: Option<Payload>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitChildren {
    pub id: ExecutionId,
    pub fence: Option<Fence>,
    /// `None`: all that have not finished.
    pub children: Option<Vec<ExecutionId>>,
    pub rule: ChildrenRule,
    pub timeout_ms: Option<u64>,
    pub checkpoint: Option<Payload>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ChildrenRule {
    AllOf,
    AnyOf,
    Quorum(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cancel {
    pub id: ExecutionId,
    /// Given by the holder that cancels its own work.
    pub fence: Option<Fence>,
    pub reason: Text,
    pub mode: CancelMode,
    pub cascade: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelMode {
    Immediate,
    Graceful { grace_ms: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reschedule {
    pub id: ExecutionId,
    pub start: When,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangePriority {
    pub id: ExecutionId,
    pub priority: u32,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetTags {
    pub id: ExecutionId,
    /// Given when the worker calls.
    pub fence: Option<Fence>,
    pub set: BTreeMap<Text, Text>,
    pub remove: Vec<Text>,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revoke {
    pub id: ExecutionId,
    pub expected_epoch: Option<u64>,
    pub reason: Text,
    pub hold: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    pub id: ExecutionId,
    pub reason: Text,
    pub revoke: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Release {
    pub id: ExecutionId,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForceComplete {
    pub id: ExecutionId,
    pub result: Option<Bytes>,
    pub content_type: Option<Text>,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForceFail {
    pub id: ExecutionId,
    pub message: Text,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Purge {
    pub id: ExecutionId,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replay {
    pub id: ExecutionId,
    pub reason: Text,
    pub deadline: DeadlineWish,
    pub delay_ms: Option<u64>,
    pub priority: Option<u32>,
    pub steps: Steps,
    /// What becomes of what its end had decided in its flow.
    pub downstream: Downstream,
    /// A skipped member runs although its groups are impossible.
    pub ignore_dependencies: bool,
}

/// What a replay does with the recorded steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Steps {
    /// The work begins anew.
    #[default]
    Clear,
    /// It goes on after the last recorded one.
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeadlineWish {
    /// The submitted one; a relative one counts from the replay.
    Keep,
    None,
    New(Deadline),
}

/// A timer of a record, as the due index named it. The record decides whether it still has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expire {
    #[serde(skip)]
    pub key: Option<Key>,
    pub timer: Timer,
    pub due: Time,
    /// For the jitter of a retry after a timeout; drawn outside the core.
    #[serde(skip)]
    pub entropy: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordTrouble {
    #[serde(skip)]
    pub key: Option<Key>,
    pub timer: Timer,
    pub due: Time,
    pub scanner: Text,
    pub interval_ms: u64,
    pub error: Text,
    /// Names the dead letter, should this failure park the item.
    pub fresh: uuid::Uuid,
}

/// Removes an entry of the due index and leaves a dead letter: poison, or a record that does not decode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropEntry {
    pub partition: crate::id::PartitionId,
    #[serde(skip)]
    pub entry: Option<DueEntry>,
    pub scanner: Text,
    pub error: Text,
    /// Poison belongs to no record and its dead letter goes after a while.
    pub poison: bool,
}

/// What a node tells the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heartbeat {
    /// Where its record is.
    pub partition: crate::id::PartitionId,
    pub node: uuid::Uuid,
    pub name: Text,
    pub version: Text,
    pub started_at: Time,
    pub left: bool,
    pub claimed: Vec<u16>,
    pub filters: crate::record::node::Filters,
    /// (generation, seq) of each partition, as far as it has seen them.
    pub seen: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrainNode {
    /// Where its record is.
    pub partition: crate::id::PartitionId,
    pub node: uuid::Uuid,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetryParked {
    pub letter: uuid::Uuid,
    pub partition: crate::id::PartitionId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscardParked {
    pub letter: uuid::Uuid,
    pub partition: crate::id::PartitionId,
    pub reason: Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartBulk {
    /// Minted by the engine. Not part of what the caller gave.
    #[serde(skip)]
    pub id: Option<BulkId>,
    /// How many partitions there are.
    #[serde(skip)]
    pub partitions: u16,
    pub filter: Filter,
    pub verb: Verb,
    /// Counts what would be done, and changes nothing.
    pub dry_run: bool,
    /// Ends once it was done to so many executions.
    pub max: Option<u64>,
}

impl StartBulk {
    pub(crate) fn is_replay_of_flow(&self) -> bool {
        self.filter.flow.is_some() && matches!(self.verb, Verb::Replay { .. } | Verb::ReplayAlone { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StopBulk {
    pub id: BulkId,
}

/// Makes the share of a partition unless it is there, and ends it with `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShareBulk {
    pub partition: PartitionId,
    pub job: BulkId,
    pub definition: Definition,
    /// To how many executions the verb may still be done.
    pub left: Option<u64>,
    pub stop: bool,
    /// When the job was read. What comes much later is not heeded: the share may have been there and gone.
    pub told_at: Time,
}

/// Takes a bulk job, or a share of one, further, if it is still where the engine saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdvanceBulk {
    #[serde(skip)]
    pub key: Option<Key>,
    pub due: Time,
    pub progress: BulkProgress,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum BulkProgress {
    /// A share: the executions behind `after` that seem to match, and how far the look for them went.
    Page { after: Option<Place>, found: Vec<Place>, through: Option<Place>, more: bool },
    /// A share: the job knows its counts.
    Reported,
    /// A job: these partitions know of their shares, or that these are stopped.
    Told { partitions: Vec<u16>, stopped: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportBulk {
    pub job: BulkId,
    pub partition: PartitionId,
    pub counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreateKey {
    /// Drawn with the secret. Neither is part of what the caller gave, so that a repeat is the same call.
    #[serde(skip)]
    pub id: KeyId,
    #[serde(skip)]
    pub mac: Mac,
    pub name: Text,
    pub scopes: Scopes,
    pub namespaces: Reach,
    pub attributes: Attributes,
    pub expires_at: Option<Time>,
    /// Do nothing if there is any key: of several nodes that start together one makes the first.
    pub only_if_none: bool,
}

/// What to change about a key; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeKey {
    pub id: KeyId,
    pub name: Option<Text>,
    pub scopes: Option<Scopes>,
    pub namespaces: Option<Reach>,
    pub read_only: Option<bool>,
    pub rate_class: Option<RateClass>,
    /// A time, or none from now on.
    pub expires_at: Option<Option<Time>>,
}

impl ChangeKey {
    /// Changes nothing yet.
    pub fn new(id: KeyId) -> Self {
        Self { id, name: None, scopes: None, namespaces: None, read_only: None, rate_class: None, expires_at: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RotateKey {
    pub id: KeyId,
    /// Of the secret that was drawn.
    #[serde(skip)]
    pub mac: Mac,
    pub overlap_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RevokeKey {
    pub id: KeyId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TouchKey {
    pub id: KeyId,
}

/// The answer of a call under its request id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeepAnswer {
    pub partition: crate::id::PartitionId,
    /// The word for what was called.
    pub verb: Text,
    /// Of all that the caller gave.
    pub fingerprint: [u8; 32],
    /// None only looks.
    pub answer: Option<Bytes>,
}

/// Who was refused what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteRefusal {
    /// Whose log it goes to.
    pub partition: crate::id::PartitionId,
    pub principal: Text,
    pub namespace: Text,
    pub origin: Option<Arc<Origin>>,
    pub verb: Text,
    /// Of the first, if there were several.
    pub target: Text,
    pub code: Text,
    /// How often it happened since the last entry, from the same place to the same end.
    pub times: u64,
    /// Not all of them were about that target.
    pub other_targets: bool,
}
