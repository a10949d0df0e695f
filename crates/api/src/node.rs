//! The deployment and its nodes: version, readiness, durability, what is going on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Version {
    pub version: String,
    pub store: String,
    pub features: Vec<String>,
}

/// Whether this node takes work, and if not why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    pub durability: Durability,
    pub partitions: u16,
    pub limits: Limits,
}

/// What an acknowledgement means on this store, as it is set now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Durability {
    pub store: String,
    pub level: String,
    pub acknowledged: String,
    pub can_lose: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    pub input_bytes: u64,
    pub result_bytes: u64,
    pub checkpoint_bytes: u64,
    pub step_bytes: u64,
    pub batch_items: u64,
    pub batch_bytes: u64,
    pub claim_max: u64,
    pub wait_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Namespaces {
    pub items: Vec<Namespace>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    pub name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    pub items: Vec<Node>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub id: String,
    pub name: String,
    pub version: String,
    pub started_at: u64,
    pub seen_at: u64,
    pub live: bool,
    pub partitions: Vec<u16>,
}
