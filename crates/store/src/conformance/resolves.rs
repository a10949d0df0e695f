//! `resolve` closes the door: what it calls not applied can never happen.

use super::probe::{P0, P1, Probe, execution, some, update};
use crate::{Outcome, Resolution, Store};
use weft_core::CommitId;
use weft_core::PartitionId;
use weft_core::change::{Batch, Head};

async fn resolve<S: Store>(probe: &Probe<S>, partition: PartitionId, id: CommitId) -> Resolution {
    probe.store.resolve(partition, id).await.expect("resolve on a sound store succeeds")
}

pub(super) async fn an_applied_commit_is_found<S: Store>(probe: &Probe<S>) {
    let first = probe.batch(P0, vec![some(execution(P0, 1))]).await;
    let id = first.id;
    let position = probe.apply(P0, first).await.position;
    let empty = probe.batch(P0, Vec::new()).await;
    let empty_id = empty.id;
    let empty_position = probe.apply(P0, empty).await.position;
    let before = probe.dump(P0).await;
    for _ in 0..2 {
        assert_eq!(resolve(probe, P0, id).await, Resolution::Applied { position }, "found, at its own position");
        let expected = Resolution::Applied { position: empty_position };
        assert_eq!(resolve(probe, P0, empty_id).await, expected, "a commit without writes is found too");
    }
    assert_eq!(probe.dump(P0).await, before, "finding a commit changes nothing");
}

pub(super) async fn an_unknown_commit_is_barred<S: Store>(probe: &Probe<S>) {
    probe.write(P0, vec![some(execution(P0, 1))]).await;
    let batch = probe.batch(P0, vec![some(execution(P0, 2))]).await;
    let (head, entries) = probe.dump(P0).await;
    assert_eq!(resolve(probe, P0, batch.id).await, Resolution::NotApplied, "a commit that never came");
    let after = probe.head(P0).await;
    assert_eq!(after.position.seq, head.position.seq + 1, "a bar moves `seq` on");
    assert_eq!(Head { position: head.position, ..after }, head, "and nothing else");

    for batch in [batch.clone(), Batch { expect: after, fast: true, ..batch.clone() }] {
        let outcome = probe.store.commit(P0, batch).await;
        assert!(matches!(outcome, Outcome::NotApplied { .. }), "a barred commit is not applied, not {outcome:?}");
    }
    assert_eq!(resolve(probe, P0, batch.id).await, Resolution::NotApplied, "asked again, the answer stands");
    assert_eq!(probe.dump(P0).await, (after, entries), "a barred commit leaves no trace, nor does asking again");
    probe.apply(P0, Batch { id: probe.mint(), expect: after, ..batch }).await;
}

pub(super) async fn a_commit_id_is_applied_once<S: Store>(probe: &Probe<S>) {
    let key = execution(P0, 1);
    let batch = probe.batch(P0, vec![some(key)]).await;
    let first = probe.apply(P0, batch.clone()).await;
    probe.write(P0, vec![update(key, &[], &[(0, Some(b"newer"))])]).await;
    let before = probe.dump(P0).await;
    for repeated in [batch.clone(), Batch { expect: before.0, fast: true, now: before.0.now, ..batch.clone() }] {
        match probe.store.commit(P0, repeated).await {
            Outcome::Applied { head } => assert_eq!(head, first, "where it was the first time"),
            other => panic!("a commit that was applied before is answered as applied, not {other:?}"),
        }
        assert_eq!(probe.dump(P0).await, before, "the second time changes nothing");
    }
    let expected = Resolution::Applied { position: first.position };
    assert_eq!(resolve(probe, P0, batch.id).await, expected, "and it stays where it was");
}

pub(super) async fn partitions_resolve_on_their_own<S: Store>(probe: &Probe<S>) {
    let batch = probe.batch(P0, vec![some(execution(P0, 1))]).await;
    assert_eq!(resolve(probe, P1, batch.id).await, Resolution::NotApplied, "it is not in that partition");
    probe.apply(P0, batch.clone()).await;
    assert_eq!(resolve(probe, P1, batch.id).await, Resolution::NotApplied, "nor is it afterwards");
    assert!(matches!(resolve(probe, P0, batch.id).await, Resolution::Applied { .. }), "it is in its own");
}
