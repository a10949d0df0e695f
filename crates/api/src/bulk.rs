//! Bulk jobs: one verb for all executions that a filter names.

use crate::decode::mistake_of_json;
use crate::execution::PublicState;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::time::Moment;
use crate::unique::unique_object;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Starts a bulk job. It goes on by itself and survives restarts; whoever started it is named as the one who did the verb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBulk {
    pub filter: Filter,
    pub verb: Verb,
    /// What the verb takes when it is called for one execution
    #[serde(default, skip_serializing_if = "Map::is_empty", deserialize_with = "unique_object")]
    #[schema(value_type = Object, example = json!({ "reason": "no longer needed" }))]
    pub args: Map<String, Value>,
    /// Counts what would be done, and changes nothing
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Ends once it was done to exactly so many executions
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl StartBulk {
    /// The arguments as those of the verb for one execution.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        #[derive(Deserialize)]
        struct Given<T> {
            args: T,
        }
        let given = json!({ "args": self.args });
        let given: Given<T> = serde_path_to_error::deserialize(Reader::new(given, false)).map_err(mistake_of_json)?;
        Ok(given.args)
    }
}

/// Which executions, of those that exist when the job starts. Nothing given means all of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Any of these
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PublicState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `key=value`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The text of the key, or `b64:` and its bytes in base64
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Members of this flow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Those whose end counts against their flow, or those of which that is not so
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<bool>,
    /// Held by this worker instance
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_from: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_until: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_from: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_until: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_since: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Cancel,
    Replay,
    Hold,
    Release,
    Revoke,
    ForceComplete,
    ForceFail,
    Purge,
    Priority,
    Tag,
    Reschedule,
}

impl Verb {
    pub const ALL: [Verb; 11] = [
        Verb::Cancel,
        Verb::Replay,
        Verb::Hold,
        Verb::Release,
        Verb::Revoke,
        Verb::ForceComplete,
        Verb::ForceFail,
        Verb::Purge,
        Verb::Priority,
        Verb::Tag,
        Verb::Reschedule,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Verb::Cancel => "cancel",
            Verb::Replay => "replay",
            Verb::Hold => "hold",
            Verb::Release => "release",
            Verb::Revoke => "revoke",
            Verb::ForceComplete => "force_complete",
            Verb::ForceFail => "force_fail",
            Verb::Purge => "purge",
            Verb::Priority => "priority",
            Verb::Tag => "tag",
            Verb::Reschedule => "reschedule",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopBulk {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// How far a bulk job is. It is kept for a day after its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkJob {
    pub id: String,
    pub namespace: String,
    pub verb: Verb,
    pub filter: Filter,
    pub dry_run: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Whoever started it
    pub by: String,
    pub state: BulkState,
    pub created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Executions that the filter named when they were met
    pub matched: u64,
    /// Those that the verb was done to; in a dry run: would have been
    pub done: u64,
    /// Those that refused it, by code
    pub refused: BTreeMap<String, u64>,
    /// Executions that could not be read, and may have been meant
    pub unreadable: u64,
    pub partitions: u32,
    pub partitions_done: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkState {
    Running,
    /// Asked to stop, and about to
    Stopping,
    Stopped,
    Done,
}

impl BulkState {
    pub const fn is_over(self) -> bool {
        matches!(self, BulkState::Stopped | BulkState::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{Cancel, Priority};

    fn start(args: Value) -> StartBulk {
        serde_json::from_value(json!({ "filter": {}, "verb": "cancel", "args": args })).unwrap()
    }

    #[test]
    fn api_22_a_wrong_argument_of_a_verb_is_named_with_its_place() {
        let right: Cancel = start(json!({ "reason": "over" })).args().unwrap();
        assert_eq!(right.reason, "over");
        let unknown = start(json!({ "reson": "over" })).args::<Cancel>().unwrap_err();
        assert_eq!(
            (unknown.fields["field"].as_str(), unknown.fields["did_you_mean"].as_str()),
            (Some("args.reson"), Some("reason"))
        );
        let missing = start(json!({})).args::<Priority>().unwrap_err();
        assert_eq!(missing.fields["field"].as_str(), Some("args.priority"));
    }

    #[test]
    fn api_22_verbs_are_written_by_their_names() {
        for verb in Verb::ALL {
            assert_eq!(serde_json::to_value(verb).unwrap(), verb.name());
        }
    }
}
