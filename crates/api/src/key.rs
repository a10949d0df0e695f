//! API keys and the audit log.

use crate::time::Moment;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    Submit,
    Work,
    Signal,
    Operate,
    Admin,
}

impl KeyScope {
    pub const ALL: [KeyScope; 5] =
        [KeyScope::Submit, KeyScope::Work, KeyScope::Signal, KeyScope::Operate, KeyScope::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            KeyScope::Submit => "submit",
            KeyScope::Work => "work",
            KeyScope::Signal => "signal",
            KeyScope::Operate => "operate",
            KeyScope::Admin => "admin",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateClass {
    #[default]
    Default,
    Worker,
    None,
}

/// A key to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    pub name: String,
    #[schema(min_items = 1)]
    pub scopes: Vec<KeyScope>,
    /// Namespaces it is good in; `*` means all
    #[schema(min_items = 1)]
    pub namespaces: Vec<String>,
    /// It may read and nothing else
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_class: Option<RateClass>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Key {
    pub id: String,
    pub name: String,
    pub scopes: Vec<KeyScope>,
    pub namespaces: Vec<String>,
    pub read_only: bool,
    pub rate_class: RateClass,
    pub creator: String,
    pub created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// To the hour
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<u64>,
    /// The secret before the last rotation is good until then
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<u64>,
}

/// A key with its secret, which is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    pub key: Key,
    pub secret: String,
}

/// A value that is there, `null` included.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// What to change about a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<KeyScope>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_class: Option<RateClass>,
    /// `null`: it is good for ever from now on
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub expires_at: Option<Option<Moment>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// How long the old secret stays good; 24 hours unless given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RevokedKey {
    pub revoked: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    pub principal: Option<String>,
    pub verb: Option<String>,
    pub target: Option<String>,
    pub from: Option<Moment>,
    pub until: Option<Moment>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// What a walk over the whole audit log found.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AuditChecked {
    /// Every entry is as it was written, and none is missing
    pub sound: bool,
    pub logs: Vec<AuditLog>,
}

/// The log of one partition.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditLog {
    pub partition: u16,
    pub entries: u64,
    /// Number of the last entry, and the hash over all of them: whoever keeps it can tell later whether the log was cut
    pub last: u64,
    pub chain: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<BrokenAudit>,
}

/// The first entry that is not as it was written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BrokenAudit {
    pub no: u64,
    pub why: String,
}

/// One act that was recorded.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    pub no: u64,
    pub partition: u16,
    pub at: u64,
    pub principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub verb: String,
    pub target: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    pub result: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_20_an_expiry_can_be_taken_away_or_left_alone() {
        let read = |text: &str| serde_json::from_str::<KeyChange>(text).unwrap().expires_at;
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"expires_at": null}"#), Some(None));
        assert_eq!(read(r#"{"expires_at": 7}"#), Some(Some(Moment(7))));
        let forever = KeyChange { expires_at: Some(None), ..KeyChange::default() };
        assert_eq!(serde_json::to_string(&forever).unwrap(), r#"{"expires_at":null}"#);
    }
}
