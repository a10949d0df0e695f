//! How groups of edges and whole flows are judged.

use super::*;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use std::fmt;
use std::marker::PhantomData;

/// What is an object with a `kind`, and may be given as that word alone.
trait Kinded: Sized {
    const EXPECTED: &'static str;
    fn of_object<'de, D: Deserializer<'de>>(object: D) -> Result<Self, D::Error>;
}

struct WordOrObject<T>(PhantomData<T>);

impl<'de, T: Kinded> Visitor<'de> for WordOrObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
        T::of_object(MapDeserializer::new(std::iter::once(("kind", word))))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::of_object(MapAccessDeserializer::new(object))
    }
}

/// Reads words and objects, and writes objects.
macro_rules! kinded {
    ($($name:ident $expected:literal)*) => {
    $(
        impl Kinded for $name {
            const EXPECTED: &'static str = $expected;

            fn of_object<'de, D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
                // What is derived, not the trait below.
                $name::deserialize(object)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
                given.deserialize_any(WordOrObject(PhantomData))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
    )*

        /// The names of all of them.
        pub(crate) const KINDED: &[&str] = &[$(stringify!($name)),*];
    };
}

kinded! {
    GroupPolicy "a word such as `all_of`, or an object such as `{kind: quorum, k: 2}`"
    Then "a word such as `cancel_remaining`, or an object such as `{kind: cancel_remaining, mode: graceful}`"
    Remaining "a word such as `let_run`, or an object such as `{kind: cancel, mode: graceful}`"
    FailurePolicy "a word such as `fail_fast`, or an object such as `{kind: fail_fast, remaining: let_run}`"
    CompletionPolicy "a word such as `all_terminal`, or an object such as `{kind: root, key: report}`"
}

/// How many edges of a group must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum GroupPolicy {
    AllOf {},
    AnyOf {},
    Quorum {
        #[schema(minimum = 1)]
        k: u32,
    },
}

/// What becomes of the upstreams that still run when a group is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Then {
    LetRun {},
    /// Those that nobody else needs are cancelled
    CancelRemaining {
        /// `immediate` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<CancelMode>,
        /// With `graceful`; 10 seconds unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
}

/// Which end of the upstream meets an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum On {
    #[default]
    Success,
    Failure,
    Any,
}

/// What becomes of live members when the outcome of their flow is decided before they have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Remaining {
    LetRun {},
    /// Those that run may end their attempt; the others are cancelled
    FinishActive {},
    Cancel {
        /// `immediate` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<CancelMode>,
        /// With `graceful`; 10 seconds unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
}

/// What a member that ends badly means for its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FailurePolicy {
    /// Those that depend on it follow their edges, the rest goes on, and in the end the flow has failed
    Isolate {},
    /// The flow has failed at once
    FailFast {
        /// `cancel` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining: Option<Remaining>,
    },
    /// As `isolate`, but the flow completes: a failure is data
    CollectAll {},
}

/// When the outcome of a flow is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CompletionPolicy {
    /// When all have ended, by the failure policy
    AllTerminal {},
    /// When this member ends, as it does
    Root {
        key: String,
        /// `let_run` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining: Option<Remaining>,
    },
    /// When so many have succeeded
    Threshold {
        #[schema(minimum = 1)]
        successes: u32,
        /// `cancel` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining: Option<Remaining>,
    },
    /// When a client or a member says so
    Declared {
        /// `cancel` unless given
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remaining: Option<Remaining>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    Dynamic,
    /// Takes no members and edges once it is sealed
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowOutcome {
    Completed,
    Failed,
    Cancelled,
}

impl FlowOutcome {
    pub const fn name(self) -> &'static str {
        match self {
            FlowOutcome::Completed => "completed",
            FlowOutcome::Failed => "failed",
            FlowOutcome::Cancelled => "cancelled",
        }
    }
}

/// The one word that lists and filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublicFlowState {
    Open,
    Running,
    Blocked,
    Ending,
    Completed,
    Failed,
    Cancelled,
}

impl PublicFlowState {
    pub const ALL: [PublicFlowState; 7] = [
        PublicFlowState::Open,
        PublicFlowState::Running,
        PublicFlowState::Blocked,
        PublicFlowState::Ending,
        PublicFlowState::Completed,
        PublicFlowState::Failed,
        PublicFlowState::Cancelled,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            PublicFlowState::Open => "open",
            PublicFlowState::Running => "running",
            PublicFlowState::Blocked => "blocked",
            PublicFlowState::Ending => "ending",
            PublicFlowState::Completed => "completed",
            PublicFlowState::Failed => "failed",
            PublicFlowState::Cancelled => "cancelled",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub const fn is_terminal(self) -> bool {
        matches!(self, PublicFlowState::Completed | PublicFlowState::Failed | PublicFlowState::Cancelled)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupState {
    Pending,
    Satisfied,
    Impossible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeState {
    Pending,
    Met,
    Unmet,
}

impl EdgeState {
    pub const fn name(self) -> &'static str {
        match self {
            EdgeState::Pending => "pending",
            EdgeState::Met => "met",
            EdgeState::Unmet => "unmet",
        }
    }
}
