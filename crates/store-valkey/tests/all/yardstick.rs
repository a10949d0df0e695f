//! The suite for all stores, and the store in memory beside this one.

use crate::servers;
use std::sync::Arc;
use weft_core::Time;
use weft_store::{MemoryStore, conformance, differential};
use weft_store_valkey::{Options, ValkeyStore, wipe};

async fn open_fresh(options: &Options, partitions: u16) -> ValkeyStore {
    wipe(options).await.unwrap();
    ValkeyStore::open(Options { partitions, ..options.clone() }).await.unwrap()
}

async fn conforms(options: Options) {
    conformance::all(|partitions| open_fresh(&options, partitions)).await;
    wipe(&options).await.unwrap();
}

async fn agrees(options: Options, calls: usize) {
    let memory = MemoryStore::new(3, Arc::new(|| Time::ZERO));
    let valkey = open_fresh(&options, 3).await;
    let report = differential::run(&memory, &valkey, 0x5eed, calls).await;
    let counts = [report.applied, report.repeated, report.conflicts, report.refused, report.found, report.barred];
    assert!(counts.iter().all(|count| *count > 0), "{report:?}");
    assert!(report.entries > 1000, "{report:?}");
    wipe(&options).await.unwrap();
}

#[tokio::test]
async fn a_standalone_server_conforms() {
    conforms(servers::standalone("conforms")).await;
}

#[tokio::test]
async fn sc_129_a_standalone_server_answers_as_the_store_in_memory() {
    agrees(servers::standalone("agrees"), 3000).await;
}

#[tokio::test]
async fn a_cluster_conforms() {
    conforms(servers::cluster("conforms")).await;
}

#[tokio::test]
async fn sc_129_a_cluster_answers_as_the_store_in_memory() {
    agrees(servers::cluster("agrees"), 2000).await;
}
