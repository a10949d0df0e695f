//! The execution: what was asked for (`Spec`, written once), where it stands (`Hot`), and its payloads.

pub use super::hold::*;
pub use super::lease::*;
pub use super::policy::*;
pub use super::public_state::*;

use super::attempt::{Attempt, Failure};
use super::member::{Inlets, Member};
use super::trouble::Trouble;
use super::{Content, Key, Lazy, known};
use crate::codec::{self, Decode, DecodeError};
use crate::id::ExecutionId;
use crate::limits;
use crate::schema::{Due, PartMask, Timer, Value, execution as schema};
use crate::text::{Capabilities, Text};
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was submitted. Fixed for life, apart from the priority, which lives in `Hot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub namespace: Text,
    pub lane: Text,
    pub kind: Text,
    pub content_type: Option<Text>,
    pub creator: Text,
    pub capabilities: Capabilities,
    pub concurrency_key: Option<Bytes>,
    /// Stored with its form: a relative one is armed again by a replay.
    pub deadline: Option<Deadline>,
    pub policy: Policy,
    pub parent: Option<ExecutionId>,
    pub idempotency_key: Option<Bytes>,
    pub fingerprint: [u8; 32],
    pub trace: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deadline {
    At(Time),
    InMs(u64),
}

/// The hot part: everything a transition changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    pub state: State,
    pub priority: u32,
    /// Number of leases ever issued.
    pub epoch: u64,
    /// Number of attempts ever created, which is the index of the next.
    pub attempts: u32,
    pub retries_used: u32,
    pub reclaims: u32,
    pub reclaims_in_row: u32,
    pub replays: u32,
    /// Number of children ever spawned.
    pub children: u32,
    pub last_lease: Option<LastLease>,
    /// The attempt that is running or paused. Attempt records hold ended ones only and never change.
    pub open: Option<Attempt>,
    pub progress: Option<Progress>,
    /// What the last `wait_children` was decided as; handed to the claim that resumes.
    pub waited: Option<Waited>,
    /// How it ended before the last replay, until it ends again.
    pub previous: Option<(Outcome, Option<u32>)>,
    pub deadline_at: Option<Time>,
    pub created_at: Time,
    pub first_started_at: Option<Time>,
    /// Last change of state.
    pub changed_at: Time,
    /// Last write of any kind.
    pub updated_at: Time,
    pub input_bytes: Option<u32>,
    pub checkpoint: Content,
    pub steps: Steps,
}

/// The recorded steps: those numbered `from..next` are of this run, those before were cleared by a replay and wait for
/// the purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Steps {
    pub from: u32,
    pub next: u32,
    /// The sum of those of this run.
    pub bytes: u64,
}

impl Steps {
    pub const fn count(self) -> u32 {
        self.next - self.from
    }

    pub const fn clear(&mut self) {
        self.from = self.next;
        self.bytes = 0;
    }
}

/// Where an execution stands. Forbidden combinations cannot be written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Claimable now. `order` is its place in the queue, smaller first.
    Ready { since: Time, order: i64, next: Next },
    /// Waits for a time.
    Delayed { until: Time, why: Why, next: Next },
    /// Waits for one or more holds.
    Blocked { holds: Holds, not_before: Option<(Time, Why)>, since: Time, next: Next },
    /// A worker has it. `parked` holds count from the moment it is not.
    Active { lease: Lease, timeout_due: Option<Time>, cancel: Option<Cancel>, parked: Holds },
    /// Terminal.
    Done { outcome: Outcome, reason: Reason, by: Text, at: Time, attempt: Option<u32>, purge_at: Option<Time> },
}

/// What the next claim does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    First,
    Retry {
        of: u32,
    },
    Reclaim {
        of: u32,
        cause: EndCause,
    },
    Replay {
        of: Option<u32>,
        by: Text,
        reason: Text,
    },
    /// Continues the paused attempt.
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    Start,
    RetryBackoff,
    ReclaimBackoff,
    WorkerDelay,
}

impl Why {
    pub const fn name(self) -> &'static str {
        match self {
            Why::Start => "start",
            Why::RetryBackoff => "retry_backoff",
            Why::ReclaimBackoff => "reclaim_backoff",
            Why::WorkerDelay => "worker_delay",
        }
    }
}

/// A cancel that the holder has been asked to act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub reason: Text,
    pub by: Text,
    pub why: Reason,
    pub requested_at: Time,
    pub kill_at: Option<Time>,
    /// Its children are to be cancelled with it.
    pub cascade: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    Success,
    Failed,
    Cancelled,
    Expired,
    Skipped,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Expired => "expired",
            Outcome::Skipped => "skipped",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    Worker,
    Operator,
    Client,
    Parent,
    NotRetryable,
    RetriesExhausted,
    NoTimeForRetry,
    ReclaimLimit,
    AttemptTimeout,
    Deadline,
    /// Another upstream of its group was enough, or the group became impossible.
    Sibling,
    /// Its flow ended.
    Flow,
    /// A group of its edges became impossible.
    Dependency,
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Worker => "worker",
            Reason::Operator => "operator",
            Reason::Client => "client",
            Reason::Parent => "parent",
            Reason::NotRetryable => "not_retryable",
            Reason::RetriesExhausted => "retries_exhausted",
            Reason::NoTimeForRetry => "no_time_for_retry",
            Reason::ReclaimLimit => "reclaim_limit",
            Reason::AttemptTimeout => "attempt_timeout",
            Reason::Deadline => "deadline",
            Reason::Sibling => "sibling",
            Reason::Flow => "flow",
            Reason::Dependency => "dependency",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub percent: Option<u8>,
    pub message: Option<Text>,
    pub at: Time,
}

/// Belongs to the execution and is handed to every later claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub bytes: Bytes,
    pub attempt: u32,
    pub at: Time,
    /// Stored in the hot part, which says whether there is a checkpoint.
    #[serde(skip)]
    pub content_type: Option<Text>,
}

/// A result that an operator gave while no attempt was open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedResult {
    pub bytes: Option<Bytes>,
    pub content_type: Option<Text>,
}

/// The format in which forced results are written: several, each with its number of replays.
const RESULTS_VERSION: u8 = 2;

/// Reads them. Format 1 holds the one that was given since the last replay.
fn forced_results(parts: &[(u8, Bytes)], replays: u32) -> Result<Vec<(u32, ForcedResult)>, DecodeError> {
    match codec::part(parts, schema::RESULT) {
        None => Ok(Vec::new()),
        Some(bytes) if bytes.first() == Some(&codec::VERSION) => Ok(vec![(replays, codec::decode("result", bytes)?)]),
        Some(bytes) => codec::decode_as(RESULTS_VERSION, "result", bytes),
    }
}

/// The verb of the action that keeps the message of a failure without an attempt.
pub(crate) const FORCE_FAIL: &str = "force_fail";

/// Something a client or operator did to an execution, for its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    pub at: Time,
    pub epoch: u64,
    pub during: During,
    pub verb: Text,
    pub by: Text,
    pub reason: Text,
}

/// State of the execution when an action came. With the epoch it orders actions and leases as they were committed, which
/// times of one millisecond cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum During {
    /// The lease of the action's epoch has ended, or there was none yet.
    Wait,
    Lease,
    /// The execution had its outcome.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actions {
    pub kept: Vec<Action>,
    pub dropped: u32,
}

/// One execution, decoded. Change `hot` freely; the other parts through their setters, which note what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub id: ExecutionId,
    pub spec: Arc<Spec>,
    pub hot: Hot,
    tags: Arc<BTreeMap<Text, Text>>,
    trouble: Option<Trouble>,
    member: Option<Arc<Member>>,
    inlets: Lazy<Arc<Inlets>>,
    input: Lazy<Option<Bytes>>,
    checkpoint: Lazy<Option<Checkpoint>>,
    actions: Lazy<Actions>,
    /// Each with how often the execution had been replayed when it was given. What downstreams were handed stays theirs
    /// when their upstream is replayed, so those before the last are kept.
    results: Lazy<Vec<(u32, ForcedResult)>>,
    dirty: PartMask,
}

impl Execution {
    /// A fresh execution: every part is known and has yet to be written.
    pub fn new(id: ExecutionId, spec: Spec, hot: Hot, tags: BTreeMap<Text, Text>, input: Option<Bytes>) -> Self {
        let dirty = PartMask::of(schema::HOT)
            .with(PartMask::of(schema::SPEC))
            .with(if tags.is_empty() { PartMask::NONE } else { PartMask::of(schema::TAGS) })
            .with(if input.is_none() { PartMask::NONE } else { PartMask::of(schema::INPUT) });
        Self {
            id,
            spec: Arc::new(spec),
            hot,
            tags: Arc::new(tags),
            trouble: None,
            member: None,
            inlets: Lazy::Loaded(Arc::default()),
            input: Lazy::Loaded(input),
            checkpoint: Lazy::Loaded(None),
            actions: Lazy::Loaded(Actions::default()),
            results: Lazy::Loaded(Vec::new()),
            dirty,
        }
    }

    pub fn public_state(&self) -> PublicState {
        self.hot.public_state()
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.hot.state {
            State::Active { lease, .. } => Some(lease),
            _ => None,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.hot.state, State::Done { .. })
    }

    pub fn tags(&self) -> &Arc<BTreeMap<Text, Text>> {
        &self.tags
    }

    pub fn set_tags(&mut self, tags: BTreeMap<Text, Text>) {
        self.tags = Arc::new(tags);
        self.touch(schema::TAGS);
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    pub fn set_trouble(&mut self, trouble: Option<Trouble>) {
        if self.trouble != trouble {
            self.trouble = trouble;
            self.touch(schema::TROUBLE);
        }
    }

    /// What makes it a member of a flow.
    pub fn member(&self) -> Option<&Arc<Member>> {
        self.member.as_ref()
    }

    /// To be changed; only of a member.
    pub fn member_mut(&mut self) -> &mut Member {
        self.touch(schema::MEMBER);
        Arc::make_mut(self.member.as_mut().expect("execution: it is a member of a flow"))
    }

    pub fn set_member(&mut self, member: Member) {
        self.member = Some(Arc::new(member));
        self.touch(schema::MEMBER);
    }

    /// Where the edges are that lead to it; ask the transaction for the part first.
    pub fn inlets(&self) -> &Arc<Inlets> {
        self.inlets.loaded().expect("execution: inlets were asked for")
    }

    pub fn set_inlets(&mut self, inlets: Inlets) {
        self.inlets = Lazy::Loaded(Arc::new(inlets));
        self.touch(schema::INLETS);
    }

    /// It has had a lease since it was last opened.
    pub fn has_begun(&self) -> bool {
        self.member.as_ref().is_some_and(|member| self.hot.epoch > member.opened_epoch)
    }

    /// It has ended before and waits, or has ended, again: by a replay of its own, or because one above it was replayed. Work
    /// for an earlier end may be left.
    pub fn was_reopened(&self) -> bool {
        let groups = self.member.iter().flat_map(|member| &member.groups);
        self.hot.replays > 0 || groups.into_iter().any(|group| group.opening > 0)
    }

    /// The input; ask the transaction for the part first.
    pub fn input(&self) -> Option<&Bytes> {
        self.input.loaded().expect("execution: input was asked for").as_ref()
    }

    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.loaded().expect("execution: checkpoint was asked for").as_ref()
    }

    pub fn set_checkpoint(&mut self, checkpoint: Option<Checkpoint>) {
        if checkpoint.is_none() && !self.hot.checkpoint.is_there() {
            return;
        }
        self.hot.checkpoint = Content::of(checkpoint.as_ref().map(|saved| &saved.content_type));
        self.checkpoint = Lazy::Loaded(checkpoint);
        self.touch(schema::CHECKPOINT);
    }

    pub fn actions(&self) -> &Actions {
        self.actions.loaded().expect("execution: actions were asked for")
    }

    /// Appends to the history; the oldest entries beyond the limit are counted and dropped.
    pub fn push_action(&mut self, action: Action) {
        let Lazy::Loaded(actions) = &mut self.actions else { panic!("execution: actions were asked for") };
        actions.kept.push(action);
        if actions.kept.len() > limits::ACTIONS_MAX {
            actions.kept.remove(0);
            actions.dropped += 1;
        }
        self.touch(schema::ACTIONS);
    }

    /// What an operator said who failed it while no attempt was open. Wants the actions.
    pub fn forced_failure(&self) -> Option<Failure> {
        let State::Done { outcome: Outcome::Failed, reason: Reason::Operator, attempt: None, .. } = &self.hot.state
        else {
            return None;
        };
        let action = self.actions().kept.iter().rev().find(|action| &*action.verb == FORCE_FAIL)?;
        Some(Failure::by_operator(action.reason.clone()))
    }

    /// What an operator gave since the last replay; ask the transaction for the part first.
    pub fn forced_result(&self) -> Option<&ForcedResult> {
        self.forced_result_of(self.hot.replays)
    }

    /// What an operator gave when it had been replayed so often. An edge of format 1 does not know the number: the first
    /// one that is left is what it was resolved with.
    pub fn forced_result_of(&self, replays: u32) -> Option<&ForcedResult> {
        let results = self.results.loaded().expect("execution: result was asked for");
        results.iter().find(|(number, _)| *number >= replays).map(|(_, result)| result)
    }

    /// Adds to what operators gave; ask the transaction for the part first.
    pub fn push_forced_result(&mut self, result: ForcedResult) {
        let Lazy::Loaded(results) = &mut self.results else { panic!("execution: result was asked for") };
        results.push((self.hot.replays, result));
        self.touch(schema::RESULT);
    }

    /// Writes what operators gave in the format that says when; ask the transaction for the part first.
    pub fn keep_forced_results(&mut self) {
        assert!(self.results.loaded().is_some(), "execution: result was asked for");
        self.touch(schema::RESULT);
    }

    pub fn drop_forced_results(&mut self) {
        self.results = Lazy::Loaded(Vec::new());
        self.touch(schema::RESULT);
    }

    fn touch(&mut self, part: u8) {
        self.dirty = self.dirty.with(PartMask::of(part));
    }

    pub fn key(&self) -> Key {
        Key::Execution(self.id)
    }

    pub fn facets(&self) -> Vec<Value> {
        let spec = &self.spec;
        let holder = self.lease().filter(|lease| lease.session.is_some()).map(|lease| &lease.instance);
        let (ready_order, worker, claim_ref, finished_at) = match &self.hot.state {
            State::Ready { order, .. } => (Some(*order), None, None, None),
            State::Active { lease, .. } => (None, Some(&lease.instance), lease.claim_ref, None),
            State::Done { at, .. } => (None, None, None, Some(*at)),
            State::Delayed { .. } | State::Blocked { .. } => (None, None, None, None),
        };
        vec![
            Value::text(&spec.namespace),
            Value::text(&spec.lane),
            Value::text(&spec.kind),
            Value::text(spec.capabilities.joined()),
            Value::Bytes(spec.concurrency_key.clone().unwrap_or_default()),
            spec.parent.map_or(Value::Null, |id| Value::bytes(id.uuid().as_bytes())),
            Value::Int(self.hot.created_at.as_i64()),
            Value::Text(self.public_state().text()),
            Value::Int(i64::from(self.hot.priority)),
            Value::opt_int(ready_order),
            Value::Int(i64::from(self.hot.attempts)),
            worker.map_or(Value::Null, Value::text),
            claim_ref.map_or(Value::Null, |digest| Value::bytes(&digest)),
            Value::opt_time(finished_at),
            Value::Int(self.hot.updated_at.as_i64()),
            if self.public_state().is_usual() { Value::Null } else { Value::Text(self.public_state().text()) },
            holder.map_or(Value::Null, Value::text),
            self.member.as_ref().map_or(Value::Null, |member| Value::bytes(member.flow.uuid().as_bytes())),
            self.member.as_ref().map_or(Value::Null, |member| Value::Int(i64::from(member.number))),
            match &self.member {
                Some(member) if !self.is_done() => Value::bytes(member.flow.uuid().as_bytes()),
                _ => Value::Null,
            },
        ]
    }

    /// The armed timers as the state says, before failures of scanners move them.
    pub fn timers(&self) -> Vec<Due> {
        let mut due = Vec::with_capacity(3);
        let mut arm = |timer, at: Option<Time>| due.extend(at.map(|at| Due { timer, at }));
        arm(Timer::GroupCancel, self.member.as_ref().and_then(|member| member.owed_since()));
        match &self.hot.state {
            State::Ready { .. } => {}
            State::Delayed { until, .. } => arm(Timer::Until, Some(*until)),
            State::Blocked { holds, .. } => {
                if let Some(Hold::Children(hold)) = holds.get(HoldKey::Children) {
                    arm(Timer::ChildrenTimeout, hold.timeout_at);
                }
            }
            State::Active { lease, timeout_due, cancel, .. } => {
                arm(Timer::Lease, Some(lease.expires_at));
                arm(Timer::AttemptTimeout, *timeout_due);
                arm(Timer::CancelGrace, cancel.as_ref().and_then(|cancel| cancel.kill_at));
            }
            State::Done { purge_at, .. } => {
                arm(Timer::Retention, *purge_at);
                return due;
            }
        }
        arm(Timer::Deadline, self.hot.deadline_at);
        due
    }

    pub fn due(&self) -> Vec<Due> {
        let timers = self.timers();
        match &self.trouble {
            None => timers,
            Some(trouble) => trouble.apply(timers),
        }
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        let mut parts = Vec::with_capacity(4);
        let mut put = |part: u8, bytes: &dyn Fn() -> Option<Bytes>| {
            if mask.has(part) {
                parts.push((part, bytes()));
            }
        };
        put(schema::HOT, &|| Some(codec::encode(&self.hot)));
        put(schema::SPEC, &|| Some(codec::encode(&*self.spec)));
        put(schema::TAGS, &|| (!self.tags.is_empty()).then(|| codec::encode(&*self.tags)));
        put(schema::TROUBLE, &|| self.trouble.as_ref().map(codec::encode));
        put(schema::INPUT, &|| self.input.loaded().cloned().flatten());
        put(schema::CHECKPOINT, &|| self.checkpoint.loaded().and_then(|part| part.as_ref().map(codec::encode)));
        put(schema::ACTIONS, &|| self.actions.loaded().map(codec::encode));
        put(schema::RESULT, &|| {
            let results = self.results.loaded().filter(|results| !results.is_empty());
            results.map(|results| codec::encode_as(RESULTS_VERSION, results))
        });
        put(schema::MEMBER, &|| self.member.as_deref().map(codec::encode));
        put(schema::INLETS, &|| {
            self.inlets.loaded().filter(|inlets| !inlets.is_empty()).map(|inlets| codec::encode(&**inlets))
        });
        parts
    }

    pub fn loaded(&self) -> PartMask {
        let mut mask = schema::LIGHT;
        let mut add = |part, loaded: bool| {
            if loaded {
                mask = mask.with(PartMask::of(part));
            }
        };
        add(schema::INPUT, self.input.loaded().is_some());
        add(schema::CHECKPOINT, self.checkpoint.loaded().is_some());
        add(schema::ACTIONS, self.actions.loaded().is_some());
        add(schema::RESULT, self.results.loaded().is_some());
        add(schema::INLETS, self.inlets.loaded().is_some());
        mask
    }

    pub fn dirty(&self) -> PartMask {
        self.dirty.with(PartMask::of(schema::HOT))
    }

    pub fn mark_clean(&mut self) {
        self.dirty = PartMask::NONE;
    }

    pub fn weight(&self) -> usize {
        self.weight_of(self.loaded())
    }

    /// About how many bytes a commit carries that writes it as it is now.
    pub fn written_weight(&self) -> usize {
        self.weight_of(self.dirty())
    }

    fn weight_of(&self, parts: PartMask) -> usize {
        let part = |part: u8, bytes: Option<usize>| if parts.has(part) { bytes.unwrap_or(0) } else { 0 };
        let input = self.input.loaded().and_then(|input| input.as_ref().map(Bytes::len));
        let checkpoint = self.checkpoint.loaded().and_then(|saved| saved.as_ref().map(|saved| saved.bytes.len()));
        let length = |(_, result): &(u32, ForcedResult)| result.bytes.as_ref().map_or(0, Bytes::len);
        let results = self.results.loaded().map(|results| results.iter().map(length).sum());
        640 + part(schema::INPUT, input)
            + part(schema::CHECKPOINT, checkpoint)
            + part(schema::TAGS, Some(self.tags.len() * 96))
            + part(schema::MEMBER, self.member.as_ref().map(|member| 160 + member.groups.len() * 96))
            + part(schema::INLETS, self.inlets.loaded().map(|inlets| inlets.len() * 40))
            + part(schema::RESULT, results)
            + part(schema::ACTIONS, self.actions.loaded().map(|actions| actions.kept.len() * 128))
    }

    pub fn absorb(&mut self, other: &Execution) {
        fn fill<T: Clone>(into: &mut Lazy<T>, from: &Lazy<T>) {
            if into.loaded().is_none() {
                into.clone_from(from);
            }
        }
        fill(&mut self.input, &other.input);
        fill(&mut self.checkpoint, &other.checkpoint);
        fill(&mut self.actions, &other.actions);
        fill(&mut self.results, &other.results);
        fill(&mut self.inlets, &other.inlets);
    }
}

impl Hot {
    pub fn public_state(&self) -> PublicState {
        match &self.state {
            State::Ready { .. } => PublicState::Waiting,
            State::Delayed { .. } => PublicState::Delayed,
            State::Blocked { holds, .. } => match holds.get(HoldKey::Operator) {
                Some(_) => PublicState::Held,
                // Waits for others to end: upstreams or children.
                None => PublicState::WaitingChildren,
            },
            State::Active { .. } => PublicState::Active,
            State::Done { outcome, .. } => PublicState::of_end(*outcome),
        }
    }
}

/// What can still be read of an execution that does not decode as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remnant {
    /// Where it stood.
    pub hot: Option<Box<Hot>>,
    pub member: Option<Member>,
    pub parent: Option<ExecutionId>,
    pub namespace: Option<Text>,
}

impl Remnant {
    fn of(parts: &[(u8, Bytes)]) -> Self {
        let hot: Option<Hot> = codec::required("hot", parts, schema::HOT).ok();
        let spec: Option<Spec> = codec::required("spec", parts, schema::SPEC).ok();
        let member = codec::required("member", parts, schema::MEMBER).ok();
        let namespace = spec.as_ref().map(|spec| spec.namespace.clone());
        Self { hot: hot.map(Box::new), member, parent: spec.and_then(|spec| spec.parent), namespace }
    }
}

impl Decode for Execution {
    type Id = ExecutionId;

    fn decode(id: ExecutionId, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Self, DecodeError> {
        Self::decode_whole(id, parts, asked).map_err(|error| {
            let remnant = Some(Box::new(Remnant::of(parts)));
            match codec::part(parts, schema::MEMBER).filter(|_| error.part == "member").and_then(|it| known::member(it))
            {
                Some(why) => DecodeError { remnant, ..DecodeError::unknown_policy("member", why) },
                None => DecodeError { remnant, ..error },
            }
        })
    }
}

impl Execution {
    fn decode_whole(id: ExecutionId, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Self, DecodeError> {
        fn lazy<T>(asked: bool, read: impl FnOnce() -> Result<T, DecodeError>) -> Result<Lazy<T>, DecodeError> {
            if asked { read().map(Lazy::Loaded) } else { Ok(Lazy::Unloaded) }
        }
        let hot: Hot = codec::required("hot", parts, schema::HOT)?;
        let checkpoint = || {
            let saved: Option<Checkpoint> = codec::optional("checkpoint", parts, schema::CHECKPOINT)?;
            let content_type = hot.checkpoint.content_type().cloned();
            Ok(saved.map(|saved| Checkpoint { content_type, ..saved }))
        };
        Ok(Self {
            id,
            spec: Arc::new(codec::required("spec", parts, schema::SPEC)?),
            tags: Arc::new(codec::optional("tags", parts, schema::TAGS)?.unwrap_or_default()),
            trouble: codec::optional("trouble", parts, schema::TROUBLE)?,
            input: lazy(asked.has(schema::INPUT), || Ok(codec::part(parts, schema::INPUT).cloned()))?,
            checkpoint: lazy(asked.has(schema::CHECKPOINT), checkpoint)?,
            actions: lazy(asked.has(schema::ACTIONS), || {
                Ok(codec::optional("actions", parts, schema::ACTIONS)?.unwrap_or_default())
            })?,
            results: lazy(asked.has(schema::RESULT), || forced_results(parts, hot.replays))?,
            member: codec::optional("member", parts, schema::MEMBER)?.map(Arc::new),
            inlets: lazy(asked.has(schema::INLETS), || {
                Ok(Arc::new(codec::optional("inlets", parts, schema::INLETS)?.unwrap_or_default()))
            })?,
            hot,
            dirty: PartMask::NONE,
        })
    }
}
