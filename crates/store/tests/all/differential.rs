//! The random stream, driven through the yardstick twice.

use crate::memory;
use weft_store::differential::{Report, run};
use weft_store::{Faulty, MemoryStore};

#[tokio::test]
async fn memory_agrees_with_memory() {
    for seed in 0..5 {
        run(&memory(3), &memory(3).shared(), seed, 2_000).await;
    }
}

#[tokio::test]
async fn the_stream_reaches_every_answer() {
    let report = run(&memory(2), &memory(2), 7, 5_000).await;
    let &Report { applied, repeated, conflicts, head_conflicts, lost, refused, found, barred, .. } = &report;
    let &Report { reads, scans, entries, rejected, .. } = &report;
    for (name, count, least) in [
        ("applied", applied, 500),
        ("repeated", repeated, 50),
        ("conflicts", conflicts, 50),
        ("head_conflicts", head_conflicts, 50),
        ("lost", lost, 50),
        ("refused", refused, 10),
        ("found", found, 20),
        ("barred", barred, 20),
        ("reads", reads, 100),
        ("scans", scans, 300),
        ("entries", entries, 1_000),
        ("rejected", rejected, 100),
    ] {
        assert!(count >= least, "{name}: {count} of {least} in {report:?}");
    }
}

#[tokio::test]
async fn sc_129_a_stream_ends_when_every_verb_has_succeeded() {
    let report = run(&memory(2), &memory(2), 7, 1).await;
    let verbs = "submit_flow grow_flow seal_flow cancel_flow finish_flow change_flow purge_flow verify_flow audit_flow \
                 claim complete fail delay submit cancel hold release force_fail purge replay expire submit_all renew \
                 progress record_steps wait_children revoke force_complete reschedule change_priority set_tags";
    for verb in verbs.split(' ') {
        assert!(report.commands.contains_key(verb), "{verb} in {report:?}");
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_stream() {
    let (one, two) = (memory(2), memory(2));
    let reports = (run(&one, &memory(2), 3, 500).await, run(&two, &memory(2), 3, 500).await);
    assert_eq!(reports.0, reports.1);
    for partition in [0, 1].map(weft_core::PartitionId) {
        assert_eq!(one.dump(partition), two.dump(partition));
    }
}

#[tokio::test]
#[should_panic(expected = "stores differ at seed 1")]
async fn a_store_that_loses_commits_is_found_out() {
    let faults = weft_store::faulty::Faults { commit_not_applied: 20, ..Default::default() };
    let faulty = Faulty::new(memory(2).into(), faults, 1, std::sync::Arc::new(crate::faulty::Tasks::default()));
    run::<MemoryStore, _>(&memory(2), &faulty, 1, 1_000).await;
}
