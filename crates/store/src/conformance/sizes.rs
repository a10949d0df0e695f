//! What every store takes in one commit, and what none does.

use super::probe::{P0, Probe, execution, insert, some, update};
use crate::{Outcome, Store, Target};
use weft_core::change::Batch;
use weft_core::limits::{BYTES_PER_COMMIT_MAX, RECORDS_PER_COMMIT_MAX};
use weft_core::schema::Kind;

/// Bytes that do not compress and differ from place to place.
fn noise(len: usize) -> Vec<u8> {
    let mut state: u32 = 1;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| byte()).collect()
}

pub(super) async fn a_large_part_survives<S: Store>(probe: &Probe<S>) {
    let (key, large) = (execution(P0, 1), noise(1 << 20));
    probe.write(P0, vec![insert(key, &[], &[(0, Some(b"hot")), (4, Some(&large))])]).await;
    probe.write(P0, vec![update(key, &[], &[(0, Some(b"hotter"))])]).await;
    let found = probe.get(key).await.expect("the record is there");
    assert_eq!(found.parts[0].1, &b"hotter"[..], "the small part changed");
    assert!(found.parts[1].1 == large, "a part of 1 MiB is what it was");
}

pub(super) async fn a_thousand_records_fit<S: Store>(probe: &Probe<S>) {
    let keys: Vec<_> = (0..1000).map(|n| execution(P0, n)).collect();
    let revision = probe.write(P0, keys.iter().map(|key| some(*key)).collect()).await;
    let entries = probe.list(P0, Target::Records(Kind::Execution)).await;
    let found: Vec<_> = entries.iter().filter_map(|entry| entry.key()).collect();
    assert_eq!(found, keys, "a thousand records of one commit are all there");
    assert!(entries.iter().all(|entry| entry.found.as_ref().is_some_and(|found| found.revision == revision)));
    probe.write(P0, keys.iter().map(|key| update(*key, &[], &[(0, Some(b"again"))])).collect()).await;
}

pub(super) async fn the_largest_commit_fits<S: Store>(probe: &Probe<S>) {
    let records = (0..RECORDS_PER_COMMIT_MAX as u128).map(|n| some(execution(P0, n)));
    probe.write(P0, records.collect()).await;
    let part = noise(4 << 20);
    let heavy = |n: u128| insert(execution(P0, 100_000 + n), &[], &[(4, Some(&part))]);
    let batch = probe.batch(P0, (0..4).map(heavy).collect()).await;
    assert!(batch.weight() <= BYTES_PER_COMMIT_MAX, "the batch of this case is within the limit");
    probe.apply(P0, batch).await;
}

pub(super) async fn a_larger_commit_is_refused<S: Store>(probe: &Probe<S>) {
    let many = (0..=RECORDS_PER_COMMIT_MAX as u128).map(|n| some(execution(P0, n)));
    let part = vec![7; BYTES_PER_COMMIT_MAX / 4];
    let heavy = (0..4).map(|n| insert(execution(P0, n), &[], &[(4, Some(&part))]));
    let before = probe.dump(P0).await;
    for writes in [many.collect::<Vec<_>>(), heavy.collect()] {
        let batch = probe.batch(P0, writes).await;
        for fast in [false, true] {
            let batch = Batch { fast, id: probe.mint(), ..batch.clone() };
            let outcome = probe.store.commit(P0, batch).await;
            assert!(matches!(outcome, Outcome::NotApplied { .. }), "a commit over the limit was not refused");
        }
        assert_eq!(probe.dump(P0).await, before, "a commit over the limit leaves no trace");
    }
}
