//! Refusals: one stable code each, with one status, one class and one title, the same in every client.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use utoipa::ToSchema;
use utoipa::openapi::{ObjectBuilder, Type};

/// Why a call was refused, as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:weft:error:` and the code
    pub r#type: String,
    pub title: String,
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    pub code: Code,
    pub class: Class,
    /// What happened, for people
    pub detail: String,
    /// What to do, for people
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The facts of the refusal
    #[serde(default)]
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The same call may succeed after this time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What a client does about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The call is wrong; do not repeat it
    Fix,
    /// Abandon this work; somebody else has it or nobody may
    Stop,
    /// Look first, then decide
    Conflict,
    /// The same call may succeed after the given time
    Later,
}

macro_rules! codes {
    ($($name:ident $text:literal $status:literal $class:ident $title:literal,)+) => {
        /// The stable name of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[serde(rename = $text)] $name,)+
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)+];

            pub const fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }

            pub const fn status(self) -> u16 {
                match self { $(Code::$name => $status,)+ }
            }

            pub const fn class(self) -> Class {
                match self { $(Code::$name => Class::$class,)+ }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)+ }
            }
        }
    };
}

codes! {
    InvalidArgument "invalid_argument" 400 Fix "a field of the request is wrong",
    InvalidId "invalid_id" 400 Fix "the id is not one of this deployment",
    InvalidCursor "invalid_cursor" 400 Fix "the cursor is not one that this list gave out",
    InvalidJson "invalid_json" 400 Fix "the body is not JSON",
    FenceRequired "fence_required" 400 Fix "lease id and epoch are needed",
    NamespaceRequired "namespace_required" 400 Fix "the namespace must be named",
    DeadlineInPast "deadline_in_past" 400 Fix "the deadline is not ahead",
    NotAChild "not_a_child" 400 Fix "the execution is not a child of the caller's",
    Unauthorized "unauthorized" 401 Fix "the key is missing or not good",
    Forbidden "forbidden" 403 Fix "the key may not do this",
    ExecutionNotFound "execution_not_found" 404 Conflict "there is no such execution",
    FlowNotFound "flow_not_found" 404 Conflict "there is no such flow",
    WorkerNotFound "worker_not_found" 404 Conflict "there is no such worker",
    KeyNotFound "key_not_found" 404 Conflict "there is no such key",
    NotFound "not_found" 404 Conflict "there is no such thing",
    RouteNotFound "route_not_found" 404 Conflict "there is no such route",
    MethodNotAllowed "method_not_allowed" 405 Fix "the route has no such method",
    NotAcceptable "not_acceptable" 406 Fix "the reply cannot be given in that form",
    RequestTimeout "request_timeout" 408 Later "the request took too long",
    LeaseExpired "lease_expired" 409 Stop "the lease ran out",
    LeaseRevoked "lease_revoked" 409 Stop "the lease was revoked",
    LeaseLost "lease_lost" 409 Stop "the lease ended",
    Cancelled "cancelled" 409 Stop "the execution was cancelled",
    StaleLease "stale_lease" 409 Stop "the lease is not the current one",
    ExecutionNotActive "execution_not_active" 409 Stop "nobody holds the execution",
    InstanceSuperseded "instance_superseded" 409 Stop "another process took this instance name",
    WorkerDead "worker_dead" 409 Stop "the worker was marked dead",
    ExecutionTerminal "execution_terminal" 409 Conflict "the execution has ended",
    ExecutionNotTerminal "execution_not_terminal" 409 Conflict "the execution has not ended",
    NotDelayed "not_delayed" 409 Conflict "the execution waits for no time",
    NotClaimable "not_claimable" 409 Conflict "the execution cannot be claimed now",
    CancelRequested "cancel_requested" 409 Conflict "a cancel is requested",
    IdempotencyMismatch "idempotency_mismatch" 409 Conflict "the key was used with another body",
    ReplayLimit "replay_limit" 409 Conflict "the execution was replayed too often",
    FlowClosed "flow_closed" 409 Conflict "the flow takes no more",
    FlowTerminal "flow_terminal" 409 Conflict "the flow has ended",
    FlowNotTerminal "flow_not_terminal" 409 Conflict "the flow has not ended",
    GroupDecided "group_decided" 409 Conflict "the group is decided",
    DownstreamBegun "downstream_begun" 409 Conflict "the downstream has begun",
    StillImpossible "still_impossible" 409 Conflict "the member would be skipped again",
    NameTaken "name_taken" 409 Conflict "the name is taken",
    RevisionMismatch "revision_mismatch" 412 Conflict "it has changed since",
    PayloadTooLarge "payload_too_large" 413 Fix "too many bytes",
    UriTooLong "uri_too_long" 414 Fix "the URL is too long",
    UnsupportedMediaType "unsupported_media_type" 415 Fix "the body is of a type that is not taken here",
    EmptyFlow "empty_flow" 422 Fix "a sealed flow needs a member",
    UnknownNode "unknown_node" 422 Fix "the flow has no member of that key",
    DuplicateNode "duplicate_node" 422 Fix "the key of a member is there twice",
    SelfEdge "self_edge" 422 Fix "an edge leads from a member to itself",
    DuplicateEdge "duplicate_edge" 422 Fix "the edge is there twice",
    DuplicateInput "duplicate_input" 422 Fix "the name of an input is there twice",
    EmptyGroup "empty_group" 422 Fix "no edge is in the group",
    GroupConflict "group_conflict" 422 Fix "the group has another policy",
    QuorumUnreachable "quorum_unreachable" 422 Fix "the group wants more edges than it has",
    ThresholdUnreachable "threshold_unreachable" 422 Fix "the flow wants more successes than it has members",
    Cycle "cycle" 422 Fix "the edges close a cycle",
    GraphTooLarge "graph_too_large" 422 Fix "the graph is too large to be checked for cycles",
    UnknownPolicy "unknown_policy" 422 Fix "this version does not know the policy",
    LimitExceeded "limit_exceeded" 422 Fix "there would be too many",
    HeadersTooLarge "headers_too_large" 431 Fix "the headers are too large",
    RateLimited "rate_limited" 429 Later "too many requests from you",
    Internal "internal" 500 Conflict "an invariant would have been broken",
    Busy "busy" 503 Later "the call cannot be taken now",
    Unavailable "unavailable" 503 Later "the store could not be reached",
    Draining "draining" 503 Later "the node is stopping",
    NotReady "not_ready" 503 Later "the node is not ready",
}

impl utoipa::PartialSchema for Code {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let names = Code::ALL.iter().map(|code| code.name());
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }
}

impl ToSchema for Code {}

impl Code {
    pub fn from_name(name: &str) -> Option<Code> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            r#type: format!("urn:weft:error:{}", code.name()),
            title: code.title().to_string(),
            status: code.status(),
            code,
            class: code.class(),
            detail: detail.into(),
            hint: None,
            fields: Map::new(),
            request_id: None,
            retry_after_ms: None,
        }
    }

    /// A wrong field: which, and what is wrong with it.
    pub fn invalid(field: impl Into<String>, why: impl fmt::Display) -> Self {
        let field = field.into();
        Self::new(Code::InvalidArgument, format!("`{field}` {why}")).field("field", field)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_string(), value.into());
        self
    }

    /// The same call may be sent again after `ms`.
    pub fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Adds the nearest of `known`, if one is near.
    pub fn suggest<'a>(self, wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(wrong, known) {
            Some(right) => self.hint(format!("did you mean `{right}`?")).field("did_you_mean", right),
            None => self,
        }
    }
}

/// The most similar of `known`, unless all are far.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|word| (strsim::jaro_winkler(wrong, word), word));
    scored.filter(|(score, _)| *score >= 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_33_the_class_of_a_code_follows_from_its_status() {
        for code in Code::ALL {
            let expected = match code.status() {
                400 | 401 | 403 | 405 | 406 | 413 | 414 | 415 | 422 | 431 => Class::Fix,
                404 | 410 | 412 | 500 => Class::Conflict,
                408 | 429 | 503 => Class::Later,
                409 => continue,
                other => panic!("{other} is no status of this API"),
            };
            assert_eq!(code.class(), expected, "{}", code.name());
        }
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_nearest() {
        assert_eq!(nearest("priorty", ["lane", "priority"]), Some("priority"));
        assert_eq!(nearest("zebra", ["lane", "priority"]), None);
    }
}
