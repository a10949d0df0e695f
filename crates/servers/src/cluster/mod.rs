//! A Valkey Cluster of one's own: primaries that share the slots evenly, and replicas for each of them.
//!
//! Nodes keep their index for good, whatever roles they change to. At first the primaries are 0 to n-1, and the replicas
//! of primary p are n+p, 2n+p and so on.

mod form;
mod view;

use crate::error::{Error, Result};
use crate::valkey::Valkey;
use crate::wait;
use std::time::Duration;
pub use view::SLOTS;
use view::View;

pub struct Cluster {
    nodes: Vec<Valkey>,
}

/// How a replica is made primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Agreed with the primary, which has to be up: nothing is lost.
    Agreed,
    /// Without the primary, with the votes of the others.
    Force,
    /// Without asking anybody.
    Takeover,
}

/// A primary that is silent this long may be replaced.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(2);

const SETTINGS: &[(&str, &str)] = &[
    ("cluster-enabled", "yes"),
    ("cluster-node-timeout", "2000"),
    // A replica stands in however long it has been without its primary: tests kill primaries for seconds.
    ("cluster-replica-validity-factor", "0"),
    // Replicas stay where they were put.
    ("cluster-allow-replica-migration", "no"),
];

impl Cluster {
    /// Comes back when every node says that all slots are served and every replica is in step with its primary.
    pub fn start(primaries: usize, replicas_each: usize) -> Result<Cluster> {
        Cluster::start_with(primaries, replicas_each, &[])
    }

    /// With these settings for each node.
    pub fn start_with(primaries: usize, replicas_each: usize, settings: &[(&str, &str)]) -> Result<Cluster> {
        let settings: Vec<_> = SETTINGS.iter().chain(settings).copied().collect();
        let nodes = (0..primaries * (1 + replicas_each)).map(|_| Valkey::start(&settings));
        let cluster = Cluster { nodes: nodes.collect::<Result<_>>()? };
        form::form(&cluster, primaries)?;
        cluster.wait_ok(wait::LONG)?;
        Ok(cluster)
    }

    /// `valkey-cluster://127.0.0.1:P1,127.0.0.1:P2,...` with all nodes, the same after restarts.
    pub fn url(&self) -> String {
        let addrs: Vec<String> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        format!("valkey-cluster://{}", addrs.join(","))
    }

    /// # Panics
    /// If there is no such node.
    pub fn node(&self, index: usize) -> &Valkey {
        &self.nodes[index]
    }

    pub fn nodes(&self) -> &[Valkey] {
        &self.nodes
    }

    /// The primary that serves this slot, in the eyes of the first node that runs and sees all slots served.
    pub fn primary_of_slot(&self, slot: u16) -> Result<usize> {
        let primary = self.view()?.primary_of_slot(slot);
        primary.ok_or_else(|| self.deadline(format!("no primary serves slot {slot}")))
    }

    /// The replicas of this primary, in the same eyes.
    pub fn replicas_of(&self, primary: usize) -> Result<Vec<usize>> {
        Ok(self.view()?.replicas_of(primary))
    }

    pub fn kill(&self, index: usize) -> Result<()> {
        self.nodes[index].kill()
    }

    pub fn restart(&self, index: usize) -> Result<()> {
        self.nodes[index].restart()
    }

    /// Makes this replica the primary of its slots and waits until it says that it is. The others may learn it later:
    /// see `wait_ok`.
    pub fn promote(&self, replica: usize, how: Failover) -> Result<()> {
        let node = &self.nodes[replica];
        let words: &[&str] = match how {
            Failover::Agreed => &["CLUSTER", "FAILOVER"],
            Failover::Force => &["CLUSTER", "FAILOVER", "FORCE"],
            Failover::Takeover => &["CLUSTER", "FAILOVER", "TAKEOVER"],
        };
        node.command(words)?;
        wait::until(&format!("node {replica} to become primary"), wait::LONG, || {
            let own = View::of(self, replica)?;
            Ok(if own.is_primary(replica) { Ok(()) } else { Err("it still is a replica".to_owned()) })
        })
    }

    /// Waits until all nodes that run agree who serves which slot, that these run, and that every replica that runs is
    /// in step with its primary.
    pub fn wait_ok(&self, at_most: Duration) -> Result<()> {
        wait::until("the cluster to be whole", at_most, || Ok(self.whole()))
    }

    /// Waits until another node serves the slots of this one, in the eyes of one of the others: it was killed or paused.
    pub fn wait_replaced(&self, primary: usize, at_most: Duration) -> Result<()> {
        wait::until(&format!("node {primary} to be replaced"), at_most, || {
            let others = self.nodes.iter().enumerate().filter(|(index, node)| *index != primary && node.is_running());
            for (index, node) in others {
                let Ok(Ok(())) = view::state_ok(node) else { continue };
                if View::of(self, index).is_ok_and(|view| !view.is_primary(primary)) {
                    return Ok(Ok(()));
                }
            }
            Ok(Err("the others still take it for a primary, or see slots that nobody serves".to_owned()))
        })
    }

    /// What is not as it should be, if anything: a node that does not answer is a reason too, not an error.
    fn whole(&self) -> std::result::Result<(), String> {
        let mut agreed: Option<View> = None;
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
            let said = |error: Error| error.to_string();
            view::state_ok(node).map_err(said)??;
            view::in_step(node).map_err(said)??;
            let own = View::of(self, index).map_err(said)?;
            if let Some(down) = own.primaries().find(|primary| !self.nodes[*primary].is_running()) {
                return Err(format!("node {index} takes node {down} for a primary, and that is down"));
            }
            match &agreed {
                Some(agreed) if !agreed.same_owners(&own) => return Err(format!("node {index} sees other owners")),
                Some(_) => {}
                None => agreed = Some(own),
            }
        }
        agreed.map(drop).ok_or_else(|| "no node runs".to_owned())
    }

    fn view(&self) -> Result<View> {
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_running()) {
            if let Ok(Ok(())) = view::state_ok(node) {
                return View::of(self, index);
            }
        }
        Err(self.deadline("no node that runs sees all slots served".to_owned()))
    }

    fn deadline(&self, state: String) -> Error {
        Error::Deadline { what: "the cluster to be whole".to_owned(), waited_s: 0, state }
    }
}
