//! What callers hand in, as builders: `Submission::new("mail").lane("bulk").delay_ms(5_000)`.

mod claim_spec;

pub(crate) use claim_spec::ClaimSpec;

use crate::notices::Told;
use bytes::Bytes;
use std::collections::BTreeMap;
use weft_core::command::{
    self, CancelMode, ChildrenRule, DeadlineWish, Downstream, Fence, Payload, RetryWish, Step, Steps, When,
};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::execution::Policy;
use weft_core::reply::Claimed;
use weft_core::text::{self, Capabilities, LANE_DEFAULT, Text};
use weft_core::{CommitId, ExecutionId, Time};

/// An execution to be. Everything but the kind has a default.
#[derive(Clone, Debug)]
pub struct Submission {
    pub kind: Text,
    pub lane: Text,
    pub input: Option<Bytes>,
    pub content_type: Option<Text>,
    pub priority: Option<u32>,
    pub capabilities: Vec<Text>,
    pub concurrency_key: Option<Bytes>,
    pub start: Option<When>,
    pub deadline: Option<When>,
    /// The engine's default policy if absent.
    pub policy: Option<Policy>,
    pub tags: BTreeMap<Text, Text>,
    pub idempotency_key: Option<Bytes>,
    pub request_id: Option<Bytes>,
    pub parent: Option<(ExecutionId, Fence)>,
    /// A child of a member stays outside its flow.
    pub outside: bool,
    /// A bad end of a child that joins a flow does not count against it.
    pub uncritical: bool,
    pub trace: Option<Text>,
}

impl Submission {
    pub fn new(kind: impl Into<Text>) -> Self {
        Self {
            kind: kind.into(),
            lane: LANE_DEFAULT.into(),
            input: None,
            content_type: None,
            priority: None,
            capabilities: Vec::new(),
            concurrency_key: None,
            start: None,
            deadline: None,
            policy: None,
            tags: BTreeMap::new(),
            idempotency_key: None,
            request_id: None,
            parent: None,
            outside: false,
            uncritical: false,
            trace: None,
        }
    }

    pub fn lane(mut self, lane: impl Into<Text>) -> Self {
        self.lane = lane.into();
        self
    }

    pub fn input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = Some(input.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Text>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// 0 to 9000, larger first.
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// A token that the worker must offer.
    pub fn needs(mut self, capability: impl Into<Text>) -> Self {
        self.capabilities.push(capability.into());
        self
    }

    pub fn concurrency_key(mut self, key: impl Into<Bytes>) -> Self {
        self.concurrency_key = Some(key.into());
        self
    }

    pub fn delay_ms(mut self, ms: u64) -> Self {
        self.start = Some(When::InMs(ms));
        self
    }

    pub fn start_at(mut self, at: Time) -> Self {
        self.start = Some(When::At(at));
        self
    }

    pub fn deadline_in_ms(mut self, ms: u64) -> Self {
        self.deadline = Some(When::InMs(ms));
        self
    }

    pub fn deadline_at(mut self, at: Time) -> Self {
        self.deadline = Some(When::At(at));
        self
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    pub fn tag(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// A second submission with this key never makes a second execution.
    pub fn idempotency_key(mut self, key: impl Into<Bytes>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A repeat of this call gets the same answer.
    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The running execution that spawns this one.
    pub fn child_of(mut self, parent: &Claimed) -> Self {
        self.parent = Some((parent.id, fence(parent)));
        self
    }

    pub fn trace(mut self, trace: impl Into<Text>) -> Self {
        self.trace = Some(trace.into());
        self
    }

    pub(crate) fn command(self, id: ExecutionId, default: &Policy) -> Result<command::Submit, Rejection> {
        Ok(command::Submit {
            id: Some(id),
            capabilities: Capabilities::new(&self.capabilities)?,
            lane: self.lane,
            kind: self.kind,
            input: self.input,
            content_type: self.content_type,
            priority: self.priority,
            concurrency_key: self.concurrency_key,
            start: self.start,
            deadline: self.deadline,
            policy: self.policy.unwrap_or_else(|| default.clone()),
            tags: self.tags,
            idempotency_key: self.idempotency_key,
            parent: self.parent,
            outside: self.outside,
            uncritical: self.uncritical,
            trace: self.trace,
        })
    }
}

/// The fence of a claimed execution.
pub fn fence(work: &Claimed) -> Fence {
    Fence { lease: work.lease, epoch: work.epoch }
}

/// A request for work. Waits for it if `wait_ms` is given; answers as soon as there is some.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The pool of workers, and this process of it.
    pub worker: Text,
    pub instance: Text,
    /// That of the process, as registering gave it. A claim of another one than the current is refused.
    pub session: Option<u64>,
    /// Take this one, whatever its lane and its place in the queue, or be refused. Such a claim does not wait.
    pub execution: Option<ExecutionId>,
    /// Absent: those that the process registered or claimed with before, else `default`. An empty list is refused.
    pub lanes: Option<Vec<LaneWish>>,
    pub lane_mode: LaneMode,
    /// Absent: those that the process registered, else any. An empty list is refused.
    pub kinds: Option<Vec<Text>>,
    /// Absent: those that the process registered, else none. An empty list means none.
    pub capabilities: Option<Vec<Text>>,
    pub max: usize,
    pub wait_ms: u64,
    pub lease_ms: u64,
    pub max_bytes: usize,
    pub request_id: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneWish {
    pub lane: Text,
    pub weight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMode {
    /// Lanes share by weight.
    Weighted,
    /// A lane is looked at only when those before it have nothing.
    Strict,
}

impl Claim {
    pub fn new(worker: impl Into<Text>, instance: impl Into<Text>) -> Self {
        Self {
            worker: worker.into(),
            instance: instance.into(),
            session: None,
            execution: None,
            lanes: None,
            lane_mode: LaneMode::Weighted,
            kinds: None,
            capabilities: None,
            max: 1,
            wait_ms: 0,
            lease_ms: limits::LEASE_MS_DEFAULT,
            max_bytes: limits::CLAIM_BYTES_DEFAULT,
            request_id: None,
        }
    }

    /// In the name of a registered process.
    pub fn session(mut self, session: u64) -> Self {
        self.session = Some(session);
        self
    }

    /// This execution and no other.
    pub fn execution(mut self, id: ExecutionId) -> Self {
        self.execution = Some(id);
        self
    }

    /// Adds a lane.
    pub fn lane(self, lane: impl Into<Text>) -> Self {
        self.weighted_lane(lane, 1)
    }

    pub fn weighted_lane(mut self, lane: impl Into<Text>, weight: u32) -> Self {
        self.lanes.get_or_insert_default().push(LaneWish { lane: lane.into(), weight });
        self
    }

    pub fn strict(mut self) -> Self {
        self.lane_mode = LaneMode::Strict;
        self
    }

    pub fn kind(mut self, kind: impl Into<Text>) -> Self {
        self.kinds.get_or_insert_default().push(kind.into());
        self
    }

    pub fn offers(mut self, capability: impl Into<Text>) -> Self {
        self.capabilities.get_or_insert_default().push(capability.into());
        self
    }

    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    pub fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = ms;
        self
    }

    pub fn lease_ms(mut self, ms: u64) -> Self {
        self.lease_ms = ms;
        self
    }

    pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), Rejection> {
        text::check_token("worker", &self.worker, limits::WORKER_MAX)?;
        text::check_token("instance", &self.instance, limits::WORKER_MAX)?;
        text::check_range("max", self.max as u64, 1, limits::CLAIM_MAX as u64)?;
        text::check_range("wait_ms", self.wait_ms, 0, limits::CLAIM_WAIT_MAX_MS)?;
        text::check_range("lease_ms", self.lease_ms, limits::LEASE_MS_MIN, limits::LEASE_MS_MAX)?;
        if self.execution.is_some() && self.wait_ms > 0 {
            return Err(Rejection::invalid("wait_ms", "is given, but a claim of one execution does not wait"));
        }
        not_empty("lanes", &self.lanes)?;
        if self.lanes.as_ref().is_some_and(|lanes| lanes.len() > limits::CLAIM_LANES_MAX) {
            return Err(Rejection::invalid("lanes", "has more than 64 entries"));
        }
        for wish in self.lanes.iter().flatten() {
            text::check_name("lanes", &wish.lane)?;
            text::check_range("weight", u64::from(wish.weight), 1, 1000)?;
        }
        not_empty("kinds", &self.kinds)?;
        if self.kinds.as_ref().is_some_and(|kinds| kinds.len() > limits::CLAIM_KINDS_MAX) {
            return Err(Rejection::invalid("kinds", "has more than 256 entries"));
        }
        for kind in self.kinds.iter().flatten() {
            text::check_token("kinds", kind, limits::KIND_MAX)?;
        }
        if let Some(id) = &self.request_id {
            text::check_key("request_id", id)?;
        }
        Ok(())
    }
}

/// Refuses an empty list where it would match no execution at all.
pub(crate) fn not_empty<T>(field: &'static str, list: &Option<Vec<T>>) -> Result<(), Rejection> {
    match list {
        Some(list) if list.is_empty() => {
            Err(Rejection::invalid(field, "is an empty list, which matches nothing; name at least one or leave it out"))
        }
        _ => Ok(()),
    }
}

/// What a claim got. Empty means that at one moment during the call nothing was claimable by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimReply {
    pub executions: Vec<Claimed>,
    /// There may be more: what was found at once is given out, and too many refusals end a search. Ask again.
    pub more: bool,
    /// The node is shutting down, or the worker process is draining: claim elsewhere, or no more.
    pub draining: bool,
    /// These are the leases that an earlier call with the same request id took.
    pub repeated: bool,
    /// What its process should know.
    pub told: Told,
}

impl ClaimReply {
    /// Adds what another partition gave.
    pub(crate) fn absorb(&mut self, other: ClaimReply) {
        self.executions.extend(other.executions);
        self.more |= other.more;
        self.draining |= other.draining;
        self.repeated |= other.repeated;
    }
}

macro_rules! fenced {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            pub id: ExecutionId,
            pub fence: Option<Fence>,
            pub request_id: Option<Bytes>,
            $(pub $field: $ty,)*
        }

        impl $name {
            /// For work that was claimed.
            pub fn of(work: &Claimed) -> Self {
                Self::new(work.id, fence(work))
            }

            pub fn new(id: ExecutionId, fence: Fence) -> Self {
                Self { id, fence: Some(fence), request_id: None, $($field: $default,)* }
            }

            pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
                self.request_id = Some(id.into());
                self
            }
        }
    };
}

fenced!(
    /// Keeps a lease.
    Renewal {
        lease_ms: Option<u64> = None,
        percent: Option<u8> = None,
        message: Option<Text> = None,
        checkpoint: Option<Payload> = None,
        steps: Vec<Step> = Vec::new(),
    }
);

impl Renewal {
    pub fn lease_ms(mut self, ms: u64) -> Self {
        self.lease_ms = Some(ms);
        self
    }

    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = Some(percent);
        self
    }

    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub fn checkpoint(mut self, checkpoint: impl Into<Payload>) -> Self {
        self.checkpoint = Some(checkpoint.into());
        self
    }
}

fenced!(
    /// Records results of parts of the work. The first of a name stays; a repeat is answered with it.
    Recording { steps: Vec<Step> = Vec::new() }
);

/// Adds `step` and `typed_step` to the requests that carry steps.
macro_rules! carries_steps {
    ($($name:ident),+) => {
        $(
            impl $name {
                /// Records a result of a part of the work under a name, in the same commit.
                pub fn step(mut self, name: impl Into<Text>, bytes: impl Into<Bytes>) -> Self {
                    self.steps.push(Step { name: name.into(), bytes: bytes.into(), content_type: None });
                    self
                }

                pub fn typed_step(
                    mut self,
                    name: impl Into<Text>,
                    bytes: impl Into<Bytes>,
                    content_type: impl Into<Text>,
                ) -> Self {
                    let content_type = Some(content_type.into());
                    self.steps.push(Step { name: name.into(), bytes: bytes.into(), content_type });
                    self
                }
            }
        )+
    };
}

carries_steps!(Renewal, Recording, Completion, Failing, Delaying);

fenced!(
    /// The work is done.
    Completion { result: Option<Bytes> = None, content_type: Option<Text> = None, steps: Vec<Step> = Vec::new() }
);

impl Completion {
    pub fn result(mut self, result: impl Into<Bytes>) -> Self {
        self.result = Some(result.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Text>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }
}

fenced!(
    /// The attempt failed; the policy decides about a retry unless the worker does.
    Failing {
        category: Text = "application".into(),
        message: Text = "".into(),
        detail: Option<Payload> = None,
        retry: RetryWish = RetryWish::Policy,
        steps: Vec<Step> = Vec::new(),
    }
);

impl Failing {
    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.message = message.into();
        self
    }

    pub fn category(mut self, category: impl Into<Text>) -> Self {
        self.category = category.into();
        self
    }

    pub fn detail(mut self, detail: impl Into<Payload>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn never(mut self) -> Self {
        self.retry = RetryWish::Never;
        self
    }

    pub fn after_ms(mut self, ms: u64) -> Self {
        self.retry = RetryWish::AfterMs(ms);
        self
    }
}

fenced!(
    /// Tells how far the work is, and saves a checkpoint. At least one field must be given.
    Progressing {
        percent: Option<u8> = None,
        message: Option<Text> = None,
        checkpoint: Option<Payload> = None,
        renew_ms: Option<u64> = None,
    }
);

impl Progressing {
    pub fn percent(mut self, percent: u8) -> Self {
        self.percent = Some(percent);
        self
    }

    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub fn checkpoint(mut self, checkpoint: impl Into<Payload>) -> Self {
        self.checkpoint = Some(checkpoint.into());
        self
    }
}

fenced!(
    /// Hands the work back until a time; the same attempt goes on afterwards.
    Delaying { until: When = When::InMs(0), checkpoint: Option<Payload> = None, steps: Vec<Step> = Vec::new() }
);

impl Delaying {
    pub fn by_ms(mut self, ms: u64) -> Self {
        self.until = When::InMs(ms);
        self
    }

    pub fn checkpoint(mut self, checkpoint: impl Into<Payload>) -> Self {
        self.checkpoint = Some(checkpoint.into());
        self
    }
}

fenced!(
    /// Hands the work back until children have ended.
    Waiting {
        children: Option<Vec<ExecutionId>> = None,
        rule: ChildrenRule = ChildrenRule::AllOf,
        timeout_ms: Option<u64> = None,
        checkpoint: Option<Payload> = None,
    }
);

/// A request about one execution by a client or operator: with an id of its own if a repeat is to be recognised, and with
/// the revision that the caller saw if it is to count only for that.
macro_rules! steered {
    (
        $(#[$doc:meta])*
        $name:ident($($given:ident : $given_ty:ty = $arg:ty),*) { $($field:ident : $ty:ty = $default:expr),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            pub id: ExecutionId,
            $(pub $given: $given_ty,)*
            $(pub $field: $ty,)*
            pub request_id: Option<Bytes>,
            pub expected_revision: Option<CommitId>,
        }

        impl $name {
            pub fn new(id: ExecutionId, $($given: $arg),*) -> Self {
                Self {
                    id,
                    $($given: $given.into(),)*
                    $($field: $default,)*
                    request_id: None,
                    expected_revision: None,
                }
            }

            /// A repeat of this call gets the same answer.
            pub fn request_id(mut self, id: impl Into<Bytes>) -> Self {
                self.request_id = Some(id.into());
                self
            }

            /// Refused unless the execution is still as it was seen.
            pub fn expected_revision(mut self, revision: CommitId) -> Self {
                self.expected_revision = Some(revision);
                self
            }
        }
    };
}

steered!(
    /// A cancel, by a client or operator, or by the holder with its fence.
    Cancellation(reason: Text = impl Into<Text>) {
        fence: Option<Fence> = None,
        mode: CancelMode = CancelMode::Immediate,
        cascade: bool = true,
    }
);

impl Cancellation {
    /// Asks the worker first and ends the execution after `grace_ms`.
    pub fn graceful(mut self, grace_ms: u64) -> Self {
        self.mode = CancelMode::Graceful { grace_ms };
        self
    }

    /// The holder cancels its own work.
    pub fn held(mut self, work: &Claimed) -> Self {
        self.fence = Some(fence(work));
        self
    }
}

steered!(
    /// Moves the time that an execution waits for.
    Rescheduling(start: When = When) { reason: Text = Text::default() }
);

steered!(
    /// Changes the priority; it keeps the time it became ready.
    Prioritising(priority: u32 = u32) { reason: Text = Text::default() }
);

steered!(
    /// Changes to tags, all or nothing; by the holder with its fence.
    Tagging() {
        fence: Option<Fence> = None,
        set: BTreeMap<Text, Text> = BTreeMap::new(),
        remove: Vec<Text> = Vec::new(),
        reason: Text = Text::default(),
    }
);

impl Tagging {
    pub fn set(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    pub fn remove(mut self, key: impl Into<Text>) -> Self {
        self.remove.push(key.into());
        self
    }

    /// The holder tags its own work.
    pub fn held(mut self, work: &Claimed) -> Self {
        self.fence = Some(fence(work));
        self
    }
}

steered!(
    /// Takes the lease away; another attempt follows.
    Revoking(reason: Text = impl Into<Text>) { expected_epoch: Option<u64> = None, hold: bool = false }
);

impl Revoking {
    /// Only the lease with this epoch; a repeat is then harmless.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.expected_epoch = Some(epoch);
        self
    }

    /// Keeps it from running afterwards.
    pub fn hold(mut self) -> Self {
        self.hold = true;
        self
    }
}

steered!(
    /// Keeps an execution from running.
    Holding(reason: Text = impl Into<Text>) { revoke: bool = false }
);

impl Holding {
    /// Takes the lease away too, if somebody has it.
    pub fn revoke(mut self) -> Self {
        self.revoke = true;
        self
    }
}

steered!(
    /// Lifts the operator's hold.
    Releasing() { reason: Text = Text::default() }
);

/// Those whose reason is not asked for, and can be given.
macro_rules! reasoned {
    ($($type:ident),+) => {
        $(impl $type {
            /// Why, for the history and the audit log.
            pub fn reason(mut self, reason: impl Into<Text>) -> Self {
                self.reason = reason.into();
                self
            }
        })+
    };
}

reasoned!(Rescheduling, Prioritising, Tagging, Releasing, Purging);

impl From<ExecutionId> for Releasing {
    fn from(id: ExecutionId) -> Self {
        Self::new(id)
    }
}

steered!(
    /// Ends an execution as a success.
    ForceCompleting(reason: Text = impl Into<Text>) { result: Option<Bytes> = None, content_type: Option<Text> = None }
);

impl ForceCompleting {
    pub fn result(mut self, result: impl Into<Bytes>) -> Self {
        self.result = Some(result.into());
        self
    }

    pub fn content_type(mut self, content_type: impl Into<Text>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }
}

steered!(
    /// Ends an execution as failed, without any retry.
    ForceFailing(message: Text = impl Into<Text>, reason: Text = impl Into<Text>) {}
);

steered!(
    /// Removes an ended execution now, whatever its retention says.
    Purging() { reason: Text = Text::default() }
);

impl From<ExecutionId> for Purging {
    fn from(id: ExecutionId) -> Self {
        Self::new(id)
    }
}

steered!(
    /// Opens an ended execution again.
    Replaying(reason: Text = impl Into<Text>) {
        deadline: DeadlineWish = DeadlineWish::Keep,
        delay_ms: Option<u64> = None,
        priority: Option<u32> = None,
        steps: Steps = Steps::Clear,
        downstream: Downstream = Downstream::Reopen,
        ignore_dependencies: bool = false,
    }
);

impl Replaying {
    /// Goes on after the last recorded step instead of from the beginning.
    pub fn keep_steps(mut self) -> Self {
        self.steps = Steps::Keep;
        self
    }
}
