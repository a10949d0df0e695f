//! Questions about the deployment.

use crate::rejection::problem;
use crate::{Acting, Answer, Reach};
use weft_api::node as wire;
use weft_api::{Problem, Reply};
use weft_core::limits;

/// Namespaces that are named in one answer.
const NAMESPACES_MAX: usize = 1_000;

impl Acting<'_> {
    pub fn version(&self) -> Answer {
        let store = self.engine.describe().name.to_string();
        let version = env!("CARGO_PKG_VERSION").to_string();
        let features = ["steps", "notices", "revisions"].map(str::to_string).to_vec();
        Reply::GetVersion(wire::Version { version, store, features }).into()
    }

    pub fn capabilities(&self) -> Answer {
        let (store, set) = (self.engine.describe(), self.engine.limits());
        Reply::GetCapabilities(wire::Capabilities {
            durability: wire::Durability {
                store: store.name.to_string(),
                level: store.durability.level.name().to_string(),
                acknowledged: store.durability.acknowledged.clone(),
                can_lose: store.durability.can_lose.clone(),
            },
            partitions: store.partitions,
            limits: wire::Limits {
                input_bytes: set.input_max as u64,
                result_bytes: set.result_max as u64,
                checkpoint_bytes: set.checkpoint_max as u64,
                step_bytes: set.step_max as u64,
                batch_items: limits::BATCH_ITEMS_MAX as u64,
                batch_bytes: limits::BATCH_BYTES_MAX as u64,
                claim_max: limits::CLAIM_MAX as u64,
                wait_ms: limits::CLAIM_WAIT_MAX_MS,
            },
        })
        .into()
    }

    /// Those of the caller that hold executions; all of them for a caller that reaches all.
    pub async fn namespaces(&self) -> Result<Answer, Problem> {
        let names = self.engine.namespaces(None, NAMESPACES_MAX).await.map_err(problem)?;
        let mut names: Vec<String> =
            names.into_iter().filter(|name| self.caller.reach.holds(name)).map(|name| name.to_string()).collect();
        if let Reach::Some(own) = &self.caller.reach {
            names.extend(own.iter().map(|name| name.to_string()));
        }
        names.sort();
        names.dedup();
        let items = names.into_iter().map(|name| wire::Namespace { name }).collect();
        Ok(Reply::ListNamespaces(wire::Namespaces { items }).into())
    }

    pub async fn nodes(&self) -> Result<Answer, Problem> {
        let now = self.engine.now();
        let mut nodes = self.engine.nodes().await.map_err(problem)?;
        nodes.sort_by_key(|node| (node.body.started_at, node.uuid));
        let items = nodes.into_iter().map(|node| wire::Node {
            id: format!("n_{}", node.uuid),
            name: node.body.name.to_string(),
            version: node.body.version.to_string(),
            started_at: node.body.started_at.ms(),
            seen_at: node.body.seen_at.ms(),
            live: node.is_live(now),
            partitions: node.body.claimed.clone(),
        });
        Ok(Reply::ListNodes(wire::Nodes { items: items.collect() }).into())
    }
}
