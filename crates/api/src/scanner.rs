//! Scanners: how those of a node are doing, and the items that they have parked.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The scanners of the node that answers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Scanners {
    /// The id of that node
    pub node: String,
    pub node_name: String,
    pub at: u64,
    pub items: Vec<Scanner>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scanner {
    pub name: String,
    pub state: ScannerState,
    /// With timers: how long an item waits that was left or failed; without: time between two passes
    pub interval_ms: u64,
    /// Absent if it handles items of every namespace and tag
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<ScannerFilter>,
    /// Partitions of the node that it goes over
    pub partitions: u32,
    /// Absent until the first cycle has ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_cycle: Option<ScannerCycle>,
    /// How long ago the oldest known item that is not handled became due
    pub lag_ms: u64,
    /// How late 99 of 100 handled items were at most, since the node began; absent if it has handled none
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ms: Option<u64>,
    /// Items that wait, where that is counted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Items that it has parked, in the whole deployment, counted up to 10 000 of all scanners together; absent if a
    /// partition did not answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<u64>,
    /// Passes that panicked since the node began
    pub restarts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScannerState {
    Ok,
    /// Due items wait for longer than two intervals and a second
    Late,
    /// The last cycle had errors
    Failing,
    /// A cycle is open for longer than 30 seconds and three intervals
    Stuck,
}

/// Which items a scanner handles: those for which all that is given here holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScannerFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `key=value`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScannerCycle {
    pub ended_at: u64,
    pub took_ms: u64,
    pub processed: u64,
    pub errors: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ParkedQuery {
    /// Only items that this scanner has parked
    pub scanner: Option<String>,
    /// Only items of this namespace; otherwise those of every namespace that the key reaches
    pub namespace: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// An item that a scanner could not handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParkedItem {
    pub id: String,
    pub scanner: String,
    pub why: ParkedWhy,
    /// What it is: `execution`, `flow`, `continuation`, …; absent if it names no record that could exist
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The id of the item; of a continuation, that of its execution
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The bytes of an entry that names no record that could exist, in hex
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    pub timer: String,
    /// Absent if it is not known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    pub since: u64,
    pub tries: u32,
    /// When it is tried again by itself; absent for what is not
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<u64>,
    pub last_error: String,
    /// When it goes by itself; absent for what stays until it is handled
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParkedWhy {
    /// A rule refuses it again and again
    Failing,
    /// Its record does not decode
    Damaged,
    /// An entry of the due index that names no record that could exist
    Poison,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryParked {
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What became of an item that was to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedItem {
    pub id: String,
    pub outcome: RetryOutcome,
    /// Why it is still damaged
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryOutcome {
    /// It is no longer parked, and due now with three fresh tries
    Retried,
    /// Its record does not decode; nothing has changed
    StillDamaged,
    /// There was no record to try again; it is no longer parked
    NothingLeft,
}

/// Which items are to be tried again: those for which all that is given here holds, a thousand in one call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryAllParked {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scanner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `next_cursor` of the call before, for the items after those that it tried
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedItems {
    /// No longer parked, and due now
    pub retried: u64,
    pub still_damaged: u64,
    /// No longer parked, because there was no record to try again
    pub nothing_left: u64,
    /// Still parked, because they could not be retried now
    #[serde(default)]
    pub refused: u64,
    /// There are more than one call retries, or items that could not be retried now
    pub more: bool,
    /// For the next call, if there are more than this one has tried
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscardParked {
    /// Why, for the record
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
    /// Recognises a repeat, which gets the first answer
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardedItem {
    pub id: String,
    pub discarded: bool,
}
