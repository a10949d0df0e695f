//! Asking a node to stop: which node is meant, and telling it. Stopping is up to whoever owns its engine.

use crate::client::{Client, Urgency, answered};
use crate::engine::Shared;
use crate::verb::Answered;
use crate::{refusals, registry};
use bytes::Bytes;
use uuid::Uuid;
use weft_core::command::{Command, DrainNode, Scopes};
use weft_core::error::Rejection;
use weft_core::record::Node;
use weft_core::reply::Reply;
use weft_core::text::Text;

impl Client {
    /// Asks a node, named by its id `n_…` or by a name that no other live one has, to drain and stop. It hears of it
    /// within one heartbeat, and at once if it is this one. A repeat is a success. Answers the node.
    pub async fn drain_node(
        &self,
        named: &str,
        reason: impl Into<Text>,
        request_id: Option<Bytes>,
    ) -> Result<Answered<Uuid>, Rejection> {
        self.principal.scopes.need(Scopes::OPERATE, "operate")?;
        let node = find(&self.shared, named).await?.inspect_err(|rejection| {
            // The core hears of no node that is not there.
            refusals::note(&self.shared, &self.principal, "drain_node", named, rejection.code());
        })?;
        let command = DrainNode { partition: node.partition, node: node.uuid, reason: reason.into() };
        let call = self.call(Command::DrainNode(command), request_id);
        let told = answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::Node { drain: Some(drain) } => Ok(drain),
            other => Err(other),
        })?;
        if node.uuid == self.shared.membership.node {
            self.shared.want_drain(told.value);
        }
        Ok(Answered { value: node.uuid, repeated: told.repeated })
    }
}

/// The node that is meant, or why there is none. One that lives goes before one that does not, which is found as well:
/// the core knows whether the call about it was answered before.
async fn find(shared: &Shared, named: &str) -> Result<Result<Node, Rejection>, Rejection> {
    let nodes = registry::all(shared).await?;
    let id = named.strip_prefix("n_").and_then(|text| text.parse::<Uuid>().ok());
    if let Some(node) = nodes.iter().find(|node| Some(node.uuid) == id) {
        return Ok(Ok(node.clone()));
    }
    let now = shared.now();
    let alike: Vec<Node> = nodes.into_iter().filter(|node| *node.body.name == *named).collect();
    let mut live = alike.iter().filter(|node| node.is_live(now));
    Ok(match (live.next(), live.next()) {
        (Some(node), None) => Ok(node.clone()),
        (Some(_), Some(_)) => Err(Rejection::invalid("node", "is the name of several live nodes; give the id of one")),
        (None, _) => alike.into_iter().max_by_key(|node| node.body.seen_at).ok_or(Rejection::NodeNotFound),
    })
}
