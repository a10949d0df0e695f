//! A Valkey Cluster whose primaries die, and whose replicas take over.

use super::checker::{Loss, check};
use super::deployment::{Deployment, Node};
use super::rounds;
use crate::process::PATIENCE;
use weft_servers::{Cluster, Failover};

/// What happens to a primary.
#[derive(Clone, Copy)]
enum Fault {
    /// It is killed, and a replica is elected; later it comes back as a replica.
    Killed,
    /// It is paused until a replica has taken over, and resumed: for a moment it believes to be the primary still.
    Paused,
}

fn fail_over(durability: &str, fault: Fault, allowed: Loss, nodes: usize, rounds: u64) {
    let cluster = Cluster::start(3, 1).unwrap();
    let mut deployment = Deployment::valkey(&cluster.url(), "failover", durability);
    let nodes: Vec<Node> = (0..nodes).map(|_| deployment.start()).collect();
    for round in 0..rounds {
        nodes[0].go_on(50 + (round * 7919) % 300);
        let primary = cluster.primary_of_slot(((round * 6007) % 16_384) as u16).unwrap();
        match fault {
            Fault::Killed => cluster.kill(primary).unwrap(),
            Fault::Paused => cluster.node(primary).pause().unwrap(),
        }
        // Work goes on only when the partitions of the lost primary are back.
        cluster.wait_replaced(primary, PATIENCE).unwrap();
        match fault {
            Fault::Killed => cluster.restart(primary).unwrap(),
            Fault::Paused => cluster.node(primary).resume().unwrap(),
        }
        cluster.wait_ok(PATIENCE).unwrap();
        for node in &nodes {
            node.go_on(100);
        }
    }
    nodes.into_iter().for_each(Node::kill);
    check(&deployment, allowed);
}

#[test]
fn rl_17_a_loss_at_level_local_is_reported() {
    fail_over("local", Fault::Killed, Loss::IfReported, 2, rounds(1));
}

#[test]
fn rl_31_what_a_replaced_primary_acknowledged_at_level_local_is_reported() {
    fail_over("local", Fault::Paused, Loss::IfReported, 2, rounds(1));
}

#[test]
fn rl_32_nothing_is_lost_at_level_replicated() {
    fail_over("replicated", Fault::Killed, Loss::Never, 2, rounds(1));
}

#[test]
fn rl_31_nothing_that_a_replaced_primary_acknowledges_at_level_replicated_is_lost() {
    fail_over("replicated", Fault::Paused, Loss::Never, 2, rounds(1));
}

/// A replica that was down while its primary went on is promoted by force: here something is lost for certain.
#[test]
fn rl_17_a_lagging_replica_that_is_promoted_by_force_loses_and_the_loss_is_reported() {
    let cluster = Cluster::start(3, 1).unwrap();
    let mut deployment = Deployment::valkey(&cluster.url(), "lagging", "local");
    let node = deployment.start();
    node.reach(100);
    let primary = cluster.primary_of_slot(0).unwrap();
    let replica = cluster.replicas_of(primary).unwrap()[0];
    cluster.kill(replica).unwrap();
    node.go_on(400);
    // The primary goes before the replica comes back: what it wrote meanwhile is nowhere else.
    cluster.kill(primary).unwrap();
    cluster.restart(replica).unwrap();
    cluster.promote(replica, Failover::Takeover).unwrap();
    cluster.wait_replaced(primary, PATIENCE).unwrap();
    node.go_on(200);
    cluster.restart(primary).unwrap();
    cluster.wait_ok(PATIENCE).unwrap();
    node.kill();
    let verdict = check(&deployment, Loss::IfReported);
    assert!(verdict.lost > 0 && verdict.reported > 0, "something was lost, and told: {verdict:?}");
}
