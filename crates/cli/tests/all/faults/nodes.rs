//! Nodes that die, are replaced, fight over work, and sleep through their leases.

use super::checker::{Ledger, Loss, check};
use super::deployment::Deployment;
use super::rounds;
use crate::process::PATIENCE;
use std::time::Instant;
use weft_servers::{shared_cluster_url, shared_postgres_url, shared_valkey_url};

/// A different amount of work each time, so that the kill meets every place of the loop.
fn some_work(round: u64) -> u64 {
    40 + (round * 7919) % 600
}

#[test]
fn ops_30_nothing_acknowledged_is_lost_when_a_node_on_sqlite_is_killed() {
    let mut deployment = Deployment::sqlite();
    for round in 0..rounds(20) {
        let node = deployment.start();
        node.reach(some_work(round));
        node.kill();
    }
    check(&deployment, Loss::Never);
}

/// One of two nodes is killed, and another takes its place; the one that stays goes on all the while.
fn kill_one_of_two(mut deployment: Deployment) {
    let mut staying = deployment.start();
    for round in 0..rounds(4) {
        let dying = deployment.start();
        dying.reach(some_work(round));
        // The younger and the older take turns.
        let (dead, alive) = if round % 2 == 0 { (dying, staying) } else { (staying, dying) };
        dead.kill();
        alive.go_on(100);
        staying = alive;
    }
    staying.kill();
    check(&deployment, Loss::Never);
}

#[test]
fn ops_30_nothing_acknowledged_is_lost_when_a_node_on_postgres_is_killed() {
    kill_one_of_two(Deployment::postgres(shared_postgres_url(), "node_kill"));
}

#[test]
fn ops_30_nothing_acknowledged_is_lost_when_a_node_on_valkey_is_killed() {
    kill_one_of_two(Deployment::valkey(shared_valkey_url(), "node_kill", "local"));
}

#[test]
fn ops_30_nothing_acknowledged_is_lost_when_a_node_on_a_valkey_cluster_is_killed() {
    kill_one_of_two(Deployment::valkey(shared_cluster_url(), "node_kill", "local"));
}

/// Every node is replaced while others work.
fn restart_one_by_one(mut deployment: Deployment) {
    let mut nodes = vec![deployment.start(), deployment.start()];
    for round in 0..rounds(3) {
        nodes[0].reach(some_work(round));
        nodes.remove(0).stop();
        nodes.push(deployment.start());
        nodes[0].go_on(50);
    }
    for node in nodes {
        node.stop();
    }
    check(&deployment, Loss::Never);
}

#[test]
fn ops_25_a_rolling_restart_on_postgres_loses_nothing() {
    restart_one_by_one(Deployment::postgres(shared_postgres_url(), "rolling"));
}

#[test]
fn ops_25_a_rolling_restart_on_valkey_loses_nothing() {
    restart_one_by_one(Deployment::valkey(shared_valkey_url(), "rolling", "local"));
}

/// A node is stopped until another has done what it held, and then goes on as if nothing had been.
fn sleep_through_leases(mut deployment: Deployment) {
    let url = deployment.url.clone();
    for _ in 0..rounds(2) {
        // Long at work and short at completing, so that it surely sleeps in the middle of some work.
        let sleeper = deployment.start_at(url.clone(), 500);
        let awake = deployment.start_at(url.clone(), 0);
        sleeper.reach(100);
        sleeper.signal("-STOP");
        let held = Ledger::read([sleeper.ledger.as_path()].into_iter()).held();
        assert!(!held.is_empty(), "the sleeper holds something");
        let started = Instant::now();
        loop {
            awake.go_on(50);
            let done = Ledger::read([awake.ledger.as_path()].into_iter());
            if held.iter().any(|id| done.has_completed(*id)) {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "nobody took over what the sleeper held");
        }
        sleeper.signal("-CONT");
        sleeper.go_on(50);
        sleeper.kill();
        awake.kill();
    }
    check(&deployment, Loss::Never);
}

#[test]
fn ri_6_a_node_that_slept_through_its_leases_on_postgres_changes_nothing_with_them() {
    sleep_through_leases(Deployment::postgres(shared_postgres_url(), "sleeper"));
}

#[test]
fn ri_6_a_node_that_slept_through_its_leases_on_valkey_changes_nothing_with_them() {
    sleep_through_leases(Deployment::valkey(shared_valkey_url(), "sleeper", "local"));
}

/// Two nodes on one partition: every commit of one is in the way of the other.
fn fight(url: String) {
    let mut deployment = Deployment::new(url);
    for _ in 0..rounds(1) {
        let nodes = [deployment.start(), deployment.start()];
        for node in &nodes {
            node.reach(400);
        }
        for node in nodes {
            node.kill();
        }
    }
    check(&deployment, Loss::Never);
}

#[test]
fn two_nodes_that_fight_over_one_partition_of_postgres_do_everything_once() {
    fight(format!("{}?schema=fault_fight&partitions=1", shared_postgres_url()));
}

#[test]
fn two_nodes_that_fight_over_one_partition_of_valkey_do_everything_once() {
    fight(format!("{}?prefix=fault_fight&partitions=1", shared_valkey_url()));
}
