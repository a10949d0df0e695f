//! The suite for all stores, and the store in memory beside this one.

use crate::server::open_fresh;
use std::sync::Arc;
use weft_core::Time;
use weft_store::differential::{self, Report};
use weft_store::{MemoryStore, conformance};

#[tokio::test]
async fn the_store_conforms() {
    conformance::all(open_fresh).await;
}

#[tokio::test]
async fn sc_129_answers_are_those_of_the_store_in_memory() {
    let memory = MemoryStore::new(3, Arc::new(|| Time::ZERO));
    let postgres = open_fresh(3).await;
    let report = differential::run(&memory, &postgres, 0x5eed, 3000).await;
    let Report { applied, repeated, conflicts, head_conflicts, lost, refused, found, barred, .. } = report;
    let counts = [applied, repeated, conflicts, head_conflicts, lost, refused, found, barred];
    assert!(counts.iter().all(|count| *count > 0), "{report:?}");
    assert!(report.entries > 1000, "{report:?}");
}
