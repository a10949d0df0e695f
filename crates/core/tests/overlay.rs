//! Several commands on one overlay.

mod kit;

use kit::{PARTITION, calls};
use uuid::Uuid;
use weft_core::apply::apply;
use weft_core::change::{Batch, Head};
use weft_core::command::{Call, Claim, Command, Submit};
use weft_core::limits::Limits;
use weft_core::record::Key;
use weft_core::text::Capabilities;
use weft_core::tx::{Base, List, Lookup, Overlay, Tx};
use weft_core::{CommitId, ExecutionId, LeaseId, Time};

/// A store without records.
struct Empty;

impl Base for Empty {
    fn get(&self, _: &Key) -> Lookup<'_> {
        Lookup::Absent
    }

    fn list(&self, _: List, _: Option<ExecutionId>) -> Option<Vec<ExecutionId>> {
        Some(Vec::new())
    }
}

/// The commit of the calls together; `after_each` sees the overlay after each of them.
fn commit(calls: &[Call], after_each: impl Fn(&mut Overlay)) -> Batch {
    let (now, limits) = (Time::from_ms(1_000), Limits::default());
    let mut overlay = Overlay::default();
    for call in calls {
        let mut tx = Tx::new(&Empty, &overlay, now, &limits);
        apply(&mut tx, call).expect("the call succeeds");
        let effects = tx.finish().expect("no invariant is broken");
        effects.merge(&mut overlay, &Empty);
        after_each(&mut overlay);
    }
    overlay.seal(CommitId(Uuid::from_u128(1)), Head::default(), false, now).0
}

#[test]
fn encoding_ahead_does_not_show_in_the_commit() {
    let id = |number| ExecutionId::new(PARTITION, Uuid::from_u128(number));
    let submit = |number| calls::call(Command::Submit(Box::new(Submit { id: Some(id(number)), ..calls::submit() })));
    let claim = calls::call(Command::Claim(Claim {
        id: id(1),
        lease: LeaseId::new(PARTITION, Uuid::from_u128(7)),
        worker: "ann".into(),
        instance: "ann-1".into(),
        lease_ms: 5_000,
        kinds: None,
        capabilities: Capabilities::default(),
        claim_ref: None,
        session: None,
    }));
    let calls = [submit(1), submit(2), claim, submit(3)];
    let plain = commit(&calls, |_| ());
    assert_eq!(plain.writes.len(), 3);
    assert_eq!(commit(&calls, Overlay::encode_ahead), plain);
}
