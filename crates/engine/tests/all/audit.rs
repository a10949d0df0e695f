//! The audit log: what is in it, in which order, and what a walk over it finds.

use crate::keys::{admin, id, key};
use crate::kit::*;
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::command::{Origin, Principal, Scopes};
use weft_core::record::api_key::Reach;
use weft_core::record::{Audit, Key, Record};
use weft_core::schema::PartMask;
use weft_core::{CommitId, ExecutionId, PartitionId, Time};
use weft_engine::{AuditFilter, BrokenEntry, Client, Config, Engine, Holding, Submission};
use weft_store::{MemoryStore, Outcome, Store};

fn operator(kit: &Kit, name: &str) -> Client {
    kit.engine.client_as(Principal::new("shop", name, Scopes::OPERATE))
}

async fn some(kit: &Kit, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for number in 0..count {
        ids.push(kit.submit(Submission::new("send").idempotency_key(number.to_be_bytes().to_vec())).await);
    }
    ids
}

fn lines(entries: &[Audit]) -> Vec<String> {
    let line = |entry: &Audit| {
        let act = &entry.body.act;
        format!("{} {} {} {}", act.at.ms() - 1_000_000, act.principal, act.verb, act.result)
    };
    entries.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn api_28_the_log_of_all_partitions_is_listed_newest_first_page_by_page() {
    let kit = open_with(4, Config::default()).await;
    let ids = some(&kit, 8).await;
    assert!(ids.iter().any(|id| id.partition() != ids[0].partition()), "{ids:?}");
    let ann = operator(&kit, "ann");
    // Two acts at each time: ties are told apart, also in different partitions.
    for pair in ids.chunks(2) {
        pass(10).await;
        for id in pair {
            ann.hold(Holding::new(*id, "because")).await.unwrap();
        }
    }
    let root = admin(&kit.engine);
    let whole = root.audit(AuditFilter::default()).await.unwrap();
    assert!(whole.next_cursor.is_none());
    let mut sorted = whole.entries.clone();
    sorted.sort_by_key(|entry| std::cmp::Reverse((entry.body.act.at, entry.number, entry.partition)));
    assert_eq!((whole.entries.len(), &sorted), (8, &whole.entries));

    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let page = root.audit(AuditFilter { limit: Some(3), cursor, ..AuditFilter::default() }).await.unwrap();
        paged.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, whole.entries);
    let bad = AuditFilter { cursor: Some("1.x.0".into()), ..AuditFilter::default() };
    assert_eq!(root.audit(bad).await.unwrap_err().code(), "invalid_cursor");
}

#[tokio::test(start_paused = true)]
async fn api_28_filters_choose_by_who_what_and_when() {
    let kit = open_with(2, Config::default()).await;
    let (ann, bob, root) = (operator(&kit, "ann"), operator(&kit, "bob"), admin(&kit.engine));
    let ids = some(&kit, 2).await;
    let start = kit.engine.now();
    for (at, (client, held)) in [(&ann, ids[0]), (&bob, ids[1]), (&ann, ids[1])].into_iter().enumerate() {
        pass(if at == 0 { 0 } else { 100 }).await;
        client.hold(Holding::new(held, "because")).await.unwrap();
    }
    ann.release(ids[0]).await.unwrap();
    root.create_key(key("aaaaaaaa", "ops"), None).await.unwrap();
    let count = async |filter: AuditFilter| root.audit(filter).await.unwrap().entries.len();
    let all = AuditFilter::default;
    assert_eq!(count(all()).await, 5);
    assert_eq!(count(AuditFilter { principal: Some("ann".into()), ..all() }).await, 3);
    assert_eq!(count(AuditFilter { verb: Some("hold".into()), ..all() }).await, 3);
    assert_eq!(count(AuditFilter { target: Some(ids[1].to_string().into()), ..all() }).await, 2);
    assert_eq!(count(AuditFilter { from: Some(start + 100), ..all() }).await, 4);
    assert_eq!(count(AuditFilter { until: Some(start + 100), ..all() }).await, 2);
    assert_eq!(count(AuditFilter { from: Some(start + 1), until: Some(start + 199), ..all() }).await, 1);
    let shop = Reach::Some(std::sync::Arc::new(["shop".into()]));
    assert_eq!(count(AuditFilter { within: Some(shop), ..all() }).await, 4, "keys belong to no namespace");
}

#[tokio::test(start_paused = true)]
async fn sec_12_a_refusal_is_written_before_it_is_answered() {
    let kit = open().await;
    let ids = some(&kit, 1).await;
    let ann = operator(&kit, "ann");
    ann.purge(ids[0]).await.unwrap_err();
    let gone = ExecutionId::new(PartitionId(0), Uuid::from_u128(7));
    let (held, refused) =
        tokio::join!(ann.hold(Holding::new(ids[0], "because")), ann.hold(Holding::new(gone, "because")),);
    assert!(held.is_ok() && refused.is_err());
    let root = admin(&kit.engine);
    root.revoke_key(id("aaaaaaaa"), None, None).await.unwrap_err();
    let log = root.audit(AuditFilter::default()).await.unwrap().entries;
    let expected = [
        "0 root revoke_key key_not_found",
        "0 ann hold execution_not_found",
        "0 ann hold ok",
        "0 ann purge execution_not_terminal",
    ];
    assert_eq!(lines(&log), expected);
}

#[tokio::test(start_paused = true)]
async fn api_28_every_refusal_is_in_the_log_and_those_that_are_alike_share_an_entry() {
    let kit = open().await;
    let from = |address: &str, key: &str| {
        let origin = Origin { key: key.into(), address: address.into(), request: "first".into() };
        Principal { origin: Some(Arc::new(origin)), ..Principal::new("", "unknown", Scopes::NONE) }
    };
    let refuse = |who: &Principal, verb: &str, target: &str| {
        kit.engine.audit_refusal(who, verb, target, "unauthorized");
    };
    let (near, far, keyed) = (from("10.0.0.7", ""), from("10.0.0.8", ""), from("10.0.0.7", "abcdefgh"));
    refuse(&near, "authenticate", "");
    pass(1).await;
    for _ in 0..50 {
        refuse(&near, "authenticate", "");
        refuse(&far, "authenticate", "");
        refuse(&keyed, "hold_execution", "x_1");
    }
    refuse(&keyed, "hold_execution", "x_2");
    refuse(&keyed, "purge_execution", "x_2");
    pass(1_000).await;
    pass(1_000).await;
    let log = || async {
        let entries = admin(&kit.engine).audit(AuditFilter::default()).await.unwrap().entries;
        let mut lines: Vec<String> = entries
            .iter()
            .map(|entry| {
                let act = &entry.body.act;
                format!("{}/{}/{}/{}/{}", act.address, act.key, act.verb, act.target, act.change)
            })
            .collect();
        lines.sort();
        lines
    };
    let expected = [
        "10.0.0.7//authenticate//",
        "10.0.0.7//authenticate//50 times",
        "10.0.0.7/abcdefgh/hold_execution/x_1/51 times, of several targets",
        "10.0.0.7/abcdefgh/purge_execution/x_2/",
        "10.0.0.8//authenticate//50 times",
    ];
    assert_eq!(log().await, expected);
    assert!(admin(&kit.engine).verify_audit(PartitionId(0)).await.unwrap().broken.is_none());
}

#[tokio::test(start_paused = true)]
async fn api_28_a_stop_loses_no_refusal() {
    let kit = open().await;
    let nobody = Principal::new("", "unknown", Scopes::NONE);
    kit.engine.audit_refusal(&nobody, "authenticate", "", "unauthorized");
    pass(1).await;
    for _ in 0..9 {
        kit.engine.audit_refusal(&nobody, "authenticate", "", "unauthorized");
    }
    kit.engine.shutdown().await;
    let again = Engine::open(kit.store.clone(), Config::default()).await.unwrap();
    let log = admin(&again).audit(AuditFilter::default()).await.unwrap().entries;
    let changes: Vec<&str> = log.iter().map(|entry| &*entry.body.act.change).collect();
    assert_eq!(changes, ["9 times", ""]);
}

/// Changes the store behind the back of the engine, as somebody with access to its files could.
async fn tamper(store: &MemoryStore, writes: Vec<Write>) {
    let partition = writes[0].key.partition();
    let head = store.read(partition, Vec::new()).await.unwrap().head;
    let batch = Batch {
        id: CommitId(Uuid::from_u128(0xbad)),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads: Vec::new(),
        writes,
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    };
    assert!(matches!(store.commit(partition, batch).await, Outcome::Applied { .. }));
}

async fn entry(store: &MemoryStore, number: u64) -> Audit {
    let key = Key::Audit(PartitionId(0), number);
    let found = store.read(PartitionId(0), vec![(key, PartMask::ALL)]).await.unwrap().found.remove(0).unwrap();
    match Record::decode(key, &found.parts, PartMask::ALL).unwrap() {
        Record::Audit(audit) => *audit,
        other => panic!("{other:?}"),
    }
}

fn put(old: &Audit, new: Audit) -> Write {
    let (old, new) = (Record::Audit(Box::new(old.clone())), Record::Audit(Box::new(new)));
    let body = Body { facets: new.facets(), parts: new.encode(PartMask::ALL) };
    let what = Change::Update { old: old.facets(), body };
    Write { key: new.key(), what, due_add: Vec::new(), due_remove: Vec::new() }
}

fn remove(old: &Audit) -> Write {
    let old = Record::Audit(Box::new(old.clone()));
    let what = Change::Delete { old: Some(old.facets()) };
    Write { key: old.key(), what, due_add: Vec::new(), due_remove: old.due() }
}

/// An engine whose log has five entries.
async fn five() -> (Kit, Client) {
    let kit = open().await;
    let root = admin(&kit.engine);
    for number in 0..5 {
        pass(10).await;
        root.create_key(key(&format!("{number:08}"), &format!("key-{number}")), None).await.unwrap();
    }
    (kit, root)
}

#[tokio::test(start_paused = true)]
async fn sec_12_a_walk_over_an_honest_log_finds_nothing() {
    let (kit, root) = five().await;
    let check = root.verify_audit(PartitionId(0)).await.unwrap();
    assert_eq!((check.entries, check.broken), (5, None));
    assert_eq!(check.end, entry(&kit.store, 5).await.end());
    assert!(root.verify_audit(PartitionId(1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn sec_12_a_changed_entry_is_found() {
    let (kit, root) = five().await;
    let old = entry(&kit.store, 3).await;
    let mut new = old.clone();
    new.body.act.principal = "eve".into();
    tamper(&kit.store, vec![put(&old, new)]).await;
    let broken = root.verify_audit(PartitionId(0)).await.unwrap().broken;
    assert_eq!(broken, Some(BrokenEntry { number: 3, why: "was changed" }));
}

#[tokio::test(start_paused = true)]
async fn sec_12_an_entry_that_was_forged_with_its_hash_does_not_fit_the_next() {
    let (kit, root) = five().await;
    let old = entry(&kit.store, 3).await;
    let mut act = old.body.act.clone();
    act.principal = "eve".into();
    tamper(&kit.store, vec![put(&old, Audit::after(&old.body.previous, PartitionId(0), act, old.body.kept_ms))]).await;
    let broken = root.verify_audit(PartitionId(0)).await.unwrap().broken;
    assert_eq!(broken, Some(BrokenEntry { number: 4, why: "does not follow the one before" }));
}

#[tokio::test(start_paused = true)]
async fn sec_12_a_removed_entry_is_found_wherever_it_was() {
    for number in 1..=5 {
        let (kit, root) = five().await;
        tamper(&kit.store, vec![remove(&entry(&kit.store, number).await)]).await;
        let broken = root.verify_audit(PartitionId(0)).await.unwrap().broken;
        assert_eq!(broken, Some(BrokenEntry { number, why: "was removed" }));
    }
}

#[tokio::test(start_paused = true)]
async fn sec_12_entries_that_changed_places_are_found() {
    let (kit, root) = five().await;
    let (two, three) = (entry(&kit.store, 2).await, entry(&kit.store, 3).await);
    let swapped = [put(&two, Audit { number: 2, ..three.clone() }), put(&three, Audit { number: 3, ..two.clone() })];
    tamper(&kit.store, swapped.into()).await;
    let broken = root.verify_audit(PartitionId(0)).await.unwrap().broken;
    assert_eq!(broken, Some(BrokenEntry { number: 2, why: "was changed" }));
}

#[tokio::test(start_paused = true)]
async fn sec_12_entries_that_were_kept_for_a_year_are_not_missed() {
    let (kit, root) = five().await;
    pass(weft_core::limits::AUDIT_KEPT_MS - 10).await;
    root.create_key(key("late0000", "late"), None).await.unwrap();
    // The scanner removes the old ones; a read of the last of them tells when it has.
    let last = vec![(Key::Audit(PartitionId(0), 5), PartMask::NONE)];
    let mut looks = 0;
    while kit.store.read(PartitionId(0), last.clone()).await.unwrap().found[0].is_some() {
        pass(1_000).await;
        looks += 1;
        assert!(looks < 1_000, "the old entries are removed");
    }
    let check = root.verify_audit(PartitionId(0)).await.unwrap();
    assert_eq!((check.entries, check.broken), (1, None));
    assert!(check.end.at > Time::ZERO && check.end.number == 6);
}
