//! Making a cluster out of empty nodes.

use super::{Cluster, SLOTS};
use crate::error::Result;
use crate::valkey::Valkey;
use crate::wait;

/// Gives the slots to the first nodes, makes all nodes known to each other, and makes the rest replicas.
pub fn form(cluster: &Cluster, primaries: usize) -> Result<()> {
    let nodes = cluster.nodes();
    let share = |index: usize| usize::from(SLOTS) * index / primaries;
    for (index, node) in nodes.iter().enumerate() {
        // Epochs of their own from the start: nodes that meet with the same one spend rounds on telling them apart.
        node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        if index < primaries {
            let (first, last) = (share(index).to_string(), (share(index + 1) - 1).to_string());
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
    }
    for node in nodes {
        for other in nodes.iter().filter(|other| other.addr() != node.addr()) {
            node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.addr().port().to_string()])?;
        }
    }
    for node in nodes {
        wait::until("the nodes to know each other", wait::LONG, || knows_all(node, nodes.len()))?;
    }
    for (index, node) in nodes.iter().enumerate().skip(primaries) {
        let primary = nodes[index % primaries].command(&["CLUSTER", "MYID"])?;
        node.command(&["CLUSTER", "REPLICATE", &primary.text().unwrap_or_default()])?;
    }
    Ok(())
}

/// A node in handshake has a made-up name and cannot be replicated.
fn knows_all(node: &Valkey, count: usize) -> Result<std::result::Result<(), String>> {
    let nodes = node.command(&["CLUSTER", "NODES"])?.text().unwrap_or_default();
    let known = nodes.lines().filter(|line| !line.contains("handshake")).count();
    let told = format!("{} knows {known} of {count}", node.addr());
    Ok(if known == count && !nodes.contains("handshake") { Ok(()) } else { Err(told) })
}
