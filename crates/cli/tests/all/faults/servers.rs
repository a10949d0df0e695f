//! Servers that are killed and come back, and connections that are cut in the middle of a commit.

use super::checker::{Loss, check};
use super::deployment::{Deployment, Node};
use super::rounds;
use crate::process::PATIENCE;
use weft_servers::{Postgres, Proxy, Valkey};

/// Two nodes work while the server dies and comes back.
fn with_two_nodes(mut deployment: Deployment, rounds: u64, fault: impl Fn(u64)) {
    let nodes = [deployment.start(), deployment.start()];
    for round in 0..rounds {
        nodes[0].go_on(50 + (round * 7919) % 300);
        fault(round);
        for node in &nodes {
            node.go_on(50);
        }
    }
    nodes.into_iter().for_each(Node::kill);
    check(&deployment, Loss::Never);
}

#[test]
fn rl_50_nothing_acknowledged_is_lost_when_postgres_is_killed_or_stopped_at_once() {
    let server = Postgres::start().unwrap();
    with_two_nodes(Deployment::postgres(&server.url(), "killed"), rounds(4), |round| {
        match round % 3 {
            0 => server.kill().unwrap(),
            1 => server.stop_immediate().unwrap(),
            _ => server.stop_fast().unwrap(),
        }
        server.restart().unwrap();
    });
}

#[test]
fn rl_30_nothing_acknowledged_is_lost_when_valkey_at_level_local_is_killed() {
    let server = Valkey::start(&[]).unwrap();
    with_two_nodes(Deployment::valkey(&server.url(), "killed", "local"), rounds(4), |_| {
        server.kill().unwrap();
        server.restart().unwrap();
    });
}

/// A node works through a proxy that cuts: at a byte of a request, and at a reply, so that what was asked has happened and
/// the node cannot know.
fn cut_off(mut deployment: Deployment, proxy: &Proxy, through: String) {
    let node = deployment.start_at(through, 0);
    for round in 0..rounds(12) {
        node.go_on(20);
        match round % 3 {
            0 => proxy.cut_replies(),
            1 => proxy.cut_after_request(((round * 7919) % 20_000) as usize),
            _ => proxy.cut(),
        }
        if round % 3 != 2 {
            proxy.wait_tripped(PATIENCE).unwrap();
        }
        node.go_on(20);
    }
    node.kill();
    check(&deployment, Loss::Never);
}

#[test]
fn rl_53_a_commit_to_postgres_of_which_nobody_heard_is_resolved() {
    let server = Postgres::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let deployment = Deployment::postgres(&server.url(), "cut");
    let through = deployment.url.replace(&server.addr().to_string(), &proxy.addr().to_string());
    assert_ne!(through, deployment.url);
    cut_off(deployment, &proxy, through);
}

#[test]
fn rl_12_a_commit_to_valkey_of_which_nobody_heard_is_resolved() {
    let server = Valkey::start(&[]).unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let deployment = Deployment::valkey(&server.url(), "cut", "local");
    let through = deployment.url.replace(&server.addr().to_string(), &proxy.addr().to_string());
    assert_ne!(through, deployment.url);
    cut_off(deployment, &proxy, through);
}
