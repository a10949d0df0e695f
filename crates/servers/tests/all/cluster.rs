use std::time::Duration;
use weft_servers::{Cluster, Failover, Reply};

const DEADLINE: Duration = Duration::from_secs(60);

/// The slot of `a`.
const SLOT: u16 = 15_495;

#[test]
fn a_cluster_forms_fails_over_and_heals() {
    let cluster = Cluster::start(3, 1).unwrap();
    assert_eq!(cluster.url().split(',').count(), 6);
    let first = cluster.primary_of_slot(SLOT).unwrap();
    assert_eq!(cluster.replicas_of(first).unwrap(), [first + 3]);
    cluster.node(first).command(&["SET", "a", "1"]).unwrap();
    assert_eq!(cluster.node(first).command(&["WAIT", "1", "10000"]).unwrap(), Reply::Integer(1));

    cluster.kill(first).unwrap();
    cluster.wait_ok(DEADLINE).unwrap();
    let second = cluster.primary_of_slot(SLOT).unwrap();
    assert_eq!(second, first + 3);
    assert_eq!(cluster.node(second).command(&["GET", "a"]).unwrap(), Reply::Bytes(b"1".to_vec()));

    cluster.restart(first).unwrap();
    cluster.wait_ok(DEADLINE).unwrap();
    assert_eq!(cluster.replicas_of(second).unwrap(), [first]);

    cluster.promote(first, Failover::Agreed).unwrap();
    cluster.wait_ok(DEADLINE).unwrap();
    assert_eq!(cluster.primary_of_slot(SLOT).unwrap(), first);

    cluster.kill(first).unwrap();
    cluster.promote(second, Failover::Takeover).unwrap();
    cluster.wait_ok(DEADLINE).unwrap();
    assert_eq!(cluster.primary_of_slot(SLOT).unwrap(), second);
}
