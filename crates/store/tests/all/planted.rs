//! Planted defects of a store are found by the suite or by the differential test.

use crate::faulty::Tasks;
use crate::{P0, insert, memory};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use weft_core::planted::{Defect, plant};
use weft_store::faulty::{Faults, Faulty};
use weft_store::{Store, conformance};

/// Whether `check` panics while the defect is in. A defect is planted on one thread, so all of it runs on this one.
fn is_found(defect: Defect, check: impl Future<Output = ()>) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    plant(Some(defect));
    let found = catch_unwind(AssertUnwindSafe(|| runtime.block_on(check))).is_err();
    plant(None);
    found
}

async fn suite() {
    conformance::all(|partitions| async move { memory(partitions) }).await;
}

#[test]
fn conformance_finds_every_planted_defect_of_a_store() {
    let store_defects = [
        Defect::CommitIgnoresRevisions,
        Defect::FastPathThoughSeqMoved,
        Defect::ResolveDoesNotBar,
        Defect::CommitRepeated,
    ];
    for defect in store_defects {
        assert!(is_found(defect, suite()), "{defect:?} passes the suite");
    }
    assert!(!is_found(Defect::LeaseIdNotCompared, suite()), "a defect elsewhere is no business of a store");
}

#[test]
fn ri_3_an_adapter_that_repeats_commits_is_seen_by_an_observer() {
    let applied = Arc::new(Mutex::new(Vec::new()));
    let log = applied.clone();
    let once = async {
        let inner = memory(1);
        inner.set_observer(Box::new(move |committed| log.lock().unwrap().push(committed.batch.id)));
        let faults = Faults { commit_unknown_applied: 1000, ..Faults::default() };
        let store = Faulty::new(Arc::new(inner), faults, 1, Arc::new(Tasks::default()));
        store.commit(P0, insert(1)).await;
    };
    assert!(!is_found(Defect::CommitRepeated, once));
    assert_eq!(*applied.lock().unwrap(), [crate::commit_id(1); 2]);
}
