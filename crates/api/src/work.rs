//! What workers ask: claim, renew, settle, and the verbs of work they hold.

mod task;

pub use task::*;

use crate::execution::{Outcome, Submit};
use crate::payload::Payload;
use crate::time::Moment;
use crate::unique::unique;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A request for work. Answers as soon as there is some, or empty after `wait_ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The pool this process belongs to
    pub worker: String,
    /// This process of it
    pub instance: String,
    /// As `POST /v1/workers` gave it; a claim of an older one is refused
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Unless given those that the process registered or claimed with before, else `default`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 64)]
    pub lanes: Option<Vec<LaneWish>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_mode: Option<LaneMode>,
    /// Unless given those that the process registered, else any
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 256)]
    pub kinds: Option<Vec<String>>,
    /// Unless given those that the process registered, else none; an empty list means none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// 1 unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 256)]
    pub max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 60000)]
    pub wait_ms: Option<u64>,
    /// 30 seconds unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 3600000)]
    pub lease_ms: Option<u64>,
    /// Bytes of input in the reply; the first execution is given whatever its size
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Claims this one, whatever its place in the queue and its lane; without `lanes`, `max` and `wait_ms`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// Of `execution`: whatever capabilities it needs. Needs the scope `operate`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_capabilities: bool,
    /// While leases of a call with this id are good, a repeat gets exactly those
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LaneWish {
    pub lane: String,
    /// Share among the lanes of this claim
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneMode {
    /// Lanes share by weight
    Weighted,
    /// A lane is looked at only when those before it have nothing
    Strict,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    pub executions: Vec<Task>,
    /// What this worker should know about leases it holds
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Notices were dropped before they could be told; a heartbeat with `holding` tells what they said
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// There may be more; ask again
    pub more: bool,
    /// The node, or this worker, is stopping; claim elsewhere, or not at all
    pub draining: bool,
    /// How long the call had waited when the leases began; they are counted from so long after it was sent
    #[serde(default)]
    pub waited_ms: u64,
}

/// Recorded steps, in the order they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Steps {
    pub items: Vec<Step>,
    /// There are more; read them
    pub more: bool,
}

impl Steps {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.more
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    pub name: String,
    pub value: Payload,
    /// The attempt that recorded it
    pub attempt: u32,
    pub at: u64,
    /// Its place in the order
    pub no: u32,
}

/// A step to record. The first write of a name wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStep {
    pub name: String,
    pub value: Payload,
}

/// Something a worker should know about a lease it holds. A hint: its next call tells too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// Grows. A notice comes with one reply and down every stream; who reads both knows it by its number
    pub no: u64,
    #[serde(flatten)]
    pub what: NoticeKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoticeKind {
    /// Stop and discard
    Cancelled { execution: String, epoch: u64, reason: String, by: String },
    /// Finish, save a checkpoint or cancel within the time
    CancelRequested {
        execution: String,
        epoch: u64,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kill_in_ms: Option<u64>,
    },
    /// Stop and discard
    LeaseLost { execution: String, epoch: u64, cause: String },
    /// Take no more work
    Drain {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_in_ms: Option<u64>,
    },
    /// Take work again
    Undrain,
    /// Another process took this instance name
    Superseded,
    /// The node shuts down; leases are unaffected
    NodeStopping,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// That of the claim unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<NewProgress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NewStep>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProgress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// Count it from the moment the request was sent
    pub expires_in_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_left_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelNotice>,
    /// What became of the steps that came along, in their order
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RecordedStep>,
}

/// What became of each lease, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RenewReply {
    #[schema(inline)]
    pub results: Vec<crate::page::Item<Renewed>>,
    /// What the workers should know that hold the renewed leases
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Notices were dropped before they could be told; a heartbeat with `holding` tells what they said
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelNotice {
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_in_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NewStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Completed {
    pub outcome: Outcome,
    pub attempt: u32,
    pub cancel_was_requested: bool,
    /// The call was a repeat; nothing changed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// `application` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryWish>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NewStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// `"policy"`, `"never"` or `{"after_ms": 5000}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryWish {
    /// As the policy of the execution says
    Policy,
    Never,
    AfterMs(u64),
}

/// What became of a failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Failed {
    Retry {
        retry_at: u64,
        retries_left: u32,
        /// The call was a repeat; nothing changed
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    Ended {
        outcome: Outcome,
        reason: String,
        /// The call was a repeat; nothing changed
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progressed {
    pub expires_in_ms: u64,
}

/// Hands the work back until a time; the same attempt goes on afterwards. A delay of 0 hands it to another worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NewStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delayed {
    pub until_at: u64,
    /// The call was a repeat; nothing changed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// Hands the work back until children have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitChildrenItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// `all`, which means all unfinished ones, unless given
    #[serde(default, deserialize_with = "some_children", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChildrenWish>)]
    pub children: Option<Vec<String>>,
    /// `all_of` unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<ChildrenRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Ids, or `all`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ChildrenWish {
    These(Vec<String>),
    Word(AllChildren),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllChildren {
    All,
}

fn some_children<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong = |_| serde::de::Error::custom("is neither `all` nor a list of ids");
    Ok(match Option::<ChildrenWish>::deserialize(value).map_err(wrong)? {
        Some(ChildrenWish::These(ids)) => Some(ids),
        Some(ChildrenWish::Word(AllChildren::All)) | None => None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChildrenRule {
    AllOf {},
    AnyOf {},
    Quorum { k: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WaitingChildren {
    /// The rule was decided already: the lease stays, and `read_children` tells the outcomes
    Decided { verdict: String },
    /// The lease has ended; the claim that resumes carries the outcomes
    Waiting {
        waiting: u32,
        /// The call was a repeat; nothing changed
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
}

/// The holder cancels its own work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelHeldItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default)]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// One item of a mixed batch: a verb, and the fields of that verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    pub verb: SettleVerb,
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Of `complete`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Of `fail`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Of `fail`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Of `fail`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Payload>,
    /// Of `fail`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryWish>,
    /// Of `delay`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Of `delay`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_at: Option<Moment>,
    /// Of `wait_children`
    #[serde(default, deserialize_with = "some_children", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChildrenWish>)]
    pub children: Option<Vec<String>>,
    /// Of `wait_children`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<ChildrenRule>,
    /// Of `wait_children`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Of `delay` and `wait_children`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    /// Of `cancel`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of `complete`, `fail` and `delay`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NewStep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettleVerb {
    #[default]
    Complete,
    Fail,
    Delay,
    WaitChildren,
    Cancel,
}

/// An item of a mixed batch, as the verb it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Settling {
    Complete(CompleteItem),
    Fail(FailItem),
    Delay(DelayItem),
    WaitChildren(WaitChildrenItem),
    Cancel(CancelHeldItem),
}

impl Settle {
    /// The item as its verb; the error is the name of a field that this verb does not have.
    pub fn verb(self) -> Result<Settling, &'static str> {
        let is = |verbs: &[SettleVerb]| verbs.contains(&self.verb);
        let (complete, fail, delay) = (SettleVerb::Complete, SettleVerb::Fail, SettleVerb::Delay);
        let wait = SettleVerb::WaitChildren;
        let given = [
            ("result", self.result.is_some(), is(&[complete])),
            ("category", self.category.is_some(), is(&[fail])),
            ("message", self.message.is_some(), is(&[fail])),
            ("detail", self.detail.is_some(), is(&[fail])),
            ("retry", self.retry.is_some(), is(&[fail])),
            ("delay_ms", self.delay_ms.is_some(), is(&[delay])),
            ("until_at", self.until_at.is_some(), is(&[delay])),
            ("children", self.children.is_some(), is(&[wait])),
            ("rule", self.rule.is_some(), is(&[wait])),
            ("timeout_ms", self.timeout_ms.is_some(), is(&[wait])),
            ("checkpoint", self.checkpoint.is_some(), is(&[delay, wait])),
            ("reason", self.reason.is_some(), is(&[SettleVerb::Cancel])),
            ("steps", !self.steps.is_empty(), is(&[complete, fail, delay])),
        ];
        if let Some((field, ..)) = given.iter().find(|(_, given, fits)| *given && !fits) {
            return Err(field);
        }
        let Settle { execution, lease, epoch, steps, checkpoint, request_id, .. } = self;
        Ok(match self.verb {
            SettleVerb::Complete => {
                Settling::Complete(CompleteItem { execution, lease, epoch, result: self.result, steps, request_id })
            }
            SettleVerb::Fail => Settling::Fail(FailItem {
                execution,
                lease,
                epoch,
                category: self.category,
                message: self.message.unwrap_or_default(),
                detail: self.detail,
                retry: self.retry,
                steps,
                request_id,
            }),
            SettleVerb::Delay => Settling::Delay(DelayItem {
                execution,
                lease,
                epoch,
                delay_ms: self.delay_ms,
                until_at: self.until_at,
                checkpoint,
                steps,
                request_id,
            }),
            SettleVerb::WaitChildren => Settling::WaitChildren(WaitChildrenItem {
                execution,
                lease,
                epoch,
                children: self.children,
                rule: self.rule,
                timeout_ms: self.timeout_ms,
                checkpoint,
                request_id,
            }),
            SettleVerb::Cancel => Settling::Cancel(CancelHeldItem {
                execution,
                lease,
                epoch,
                reason: self.reason.unwrap_or_default(),
                request_id,
            }),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Settled {
    Complete(Completed),
    Fail(Failed),
    Delay(Delayed),
    WaitChildren(WaitingChildren),
    Cancel(crate::execution::Cancelled),
}

/// Tags of work that is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TagItem {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, deserialize_with = "unique")]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub remove: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordSteps {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1000)]
    pub steps: Vec<NewStep>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedSteps {
    pub steps: Vec<RecordedStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedStep {
    pub name: String,
    /// It was recorded before; `value` is what stands
    pub existed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadSteps {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The last `no` that is known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// 1000 unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Asks how children of work that is held have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadChildren {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1000)]
    pub children: Vec<String>,
}

/// How children have ended, in the order they were asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChildrenRead {
    /// As many as fit, at least one; ask again for the rest
    pub children: Vec<ChildOutcome>,
}

/// Children of work that is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnChildren {
    pub execution: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<Submit>,
}
