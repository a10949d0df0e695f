//! SR-90: which entries the due index must have for a record. Computed independently of the code by which the engine
//! writes them.

use std::collections::BTreeSet;
use weft_core::record::Record;
use weft_core::schema::Due;

/// The entries of a record: every armed timer at its time, or at the next try if a scanner failed on it; none for a timer
/// that was given up.
pub(super) fn armed(record: &Record) -> BTreeSet<Due> {
    let mut entries = BTreeSet::new();
    for due in record.timers() {
        let account = record.trouble().and_then(|trouble| trouble.items.iter().find(|item| item.timer == due.timer));
        match account {
            None => entries.insert(due),
            Some(account) if account.given_up.is_some() => false,
            Some(account) => entries.insert(Due { timer: due.timer, at: due.at.max(account.next_try_at) }),
        };
    }
    entries
}

/// The rule that a difference breaks.
pub(super) fn rule(record: Option<&Record>) -> &'static str {
    match record.and_then(Record::trouble) {
        Some(_) => "SR-90",
        None => "E11",
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::{Judge, SharedJudge};
    use bytes::Bytes;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use uuid::Uuid;
    use weft_core::change::{Batch, Body, Change, Write};
    use weft_core::record::continuation::{self, Rest};
    use weft_core::record::trouble::{Failing, GivenUp, Trouble};
    use weft_core::record::{Continuation, Record};
    use weft_core::schema::{Due, PartMask, Timer};
    use weft_core::{CommitId, ExecutionId, PartitionId, Time};
    use weft_store::{MemoryStore, Outcome, Store};

    const HOUR_MS: u64 = 3_600_000;

    /// Work that is parked and due in an hour, or given up.
    fn parked(given_up: bool) -> Record {
        let timer = Timer::Purge;
        let given_up = given_up.then(|| GivenUp { by: "ops".into(), reason: "known".into(), at: Time::ZERO });
        let item = Failing {
            timer,
            due: Time::ZERO,
            scanner: "retention_trimmer".into(),
            fails: 18,
            round: 5,
            next_try_at: Time::from_ms(HOUR_MS),
            first_at: Time::ZERO,
            last_at: Time::ZERO,
            last_error: "no way".into(),
            parked: given_up.is_none(),
            letter: given_up.is_none().then(|| Uuid::from_u128(7)),
            given_up,
        };
        let rest = Rest::Purge { next: 0, attempts: 1, next_step: 0, steps: 0 };
        let body = continuation::Body {
            namespace: "sim".into(),
            created_at: Time::ZERO,
            rest,
            trouble: Some(Trouble { items: vec![item] }),
        };
        let owner = ExecutionId::new(PartitionId(0), Uuid::from_u128(1));
        Record::Continuation(Box::new(Continuation { owner, body }))
    }

    /// What the judge says of a commit that writes the record with these entries.
    fn judged(record: &Record, due_add: Vec<Due>) -> Vec<String> {
        let judge = SharedJudge::new(Judge::default());
        let store = MemoryStore::new(1, Arc::new(|| Time::ZERO));
        let watcher = judge.clone();
        store.set_observer(Box::new(move |commit| watcher.lock().observe(commit, 0)));
        let body = Body { facets: record.facets(), parts: record.encode(PartMask::ALL) };
        let head = at_once(store.read(PartitionId(0), Vec::new())).expect("memory can be read").head;
        let batch = Batch {
            id: CommitId(Uuid::from_u128(2)),
            expect: head,
            fast: true,
            strict: false,
            now: head.now,
            raise: None,
            reads: Vec::new(),
            writes: vec![Write { key: record.key(), what: Change::Insert(body), due_add, due_remove: Vec::new() }],
            due_drops: Vec::new(),
            feed: Bytes::new(),
            lanes: Vec::new(),
        };
        let outcome = at_once(store.commit(PartitionId(0), batch));
        assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
        let violations = judge.lock().violations().to_vec();
        violations.into_iter().filter(|line| line.starts_with("SR-90")).collect()
    }

    /// The answer of a store that waits for nothing.
    fn at_once<T>(call: impl Future<Output = T>) -> T {
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("memory answers at once"),
        }
    }

    fn at(ms: u64) -> Due {
        Due { timer: Timer::Purge, at: Time::from_ms(ms) }
    }

    #[test]
    fn sr_90_a_parked_item_has_its_entry_at_the_next_try_and_one_that_was_given_up_has_none() {
        for (given_up, entries, sound) in [
            (false, vec![at(HOUR_MS)], true),
            (false, vec![], false),
            (false, vec![at(0)], false),
            (true, vec![], true),
            (true, vec![at(HOUR_MS)], false),
        ] {
            let found = judged(&parked(given_up), entries.clone());
            assert_eq!(found.is_empty(), sound, "given up: {given_up}, {entries:?}: {found:?}");
        }
    }

    #[cfg(feature = "planted")]
    #[test]
    fn sr_90_the_planted_defect_that_parked_items_are_never_tried_again_is_found() {
        use weft_core::planted::{Defect, plant};
        let derived = || judged(&parked(false), parked(false).due());
        assert_eq!(derived(), [""; 0]);
        plant(Some(Defect::ParkedNeverTriedAgain));
        let found = derived();
        plant(None);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
