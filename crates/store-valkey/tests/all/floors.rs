//! The floor verifies what it wrote, on one server and on a cluster.

use crate::servers;
use weft_store_valkey::{Options, floor};

async fn the_floor_finishes(options: Options) {
    let floor = floor(&options, 300, 128, 64, 3).await.unwrap();
    assert_eq!(floor.lifecycles, 384);
    assert!(floor.lifecycles_per_s > 0.0 && floor.commit_ms > 0.0);
}

#[tokio::test]
async fn the_floor_of_one_server_verifies_what_it_wrote() {
    the_floor_finishes(servers::standalone("floor")).await;
}

#[tokio::test]
async fn the_floor_of_a_cluster_verifies_what_it_wrote() {
    the_floor_finishes(servers::cluster("floor")).await;
}
