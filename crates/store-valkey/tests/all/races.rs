//! Two nodes on one partition, and a commit that a node sends again.

use crate::records::{P0, apply, batch, get, insert, key, update};
use crate::servers;
use bytes::Bytes;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::Key;
use weft_core::schema::{IndexId, PartMask, Value, execution as facet};
use weft_store::{Outcome, Range, Resolution, Scan, Store, Target};
use weft_store_valkey::{Options, ValkeyStore, wipe};

const EACH: u64 = 60;

/// Adds one to the counter again and again, as a node does that commits fast and starts over after a conflict.
async fn count(store: ValkeyStore) -> (u64, u64) {
    let counter = key(P0, 1);
    let (mut conflicts, mut done) = (0, 0);
    while done < EACH {
        let found = get(&store, counter).await.unwrap();
        let next = u64::from_be_bytes(found.parts[0].1.as_ref().try_into().unwrap()) + 1;
        // Position and revision come from one read after the value: if it has changed since, the batch is not fast.
        let fresh = batch(&store, P0, vec![update(counter, &[(0, &next.to_be_bytes())])]).await;
        if fresh.reads[0].1 != Some(found.revision) {
            conflicts += 1;
            continue;
        }
        match store.commit(P0, fresh).await {
            Outcome::Applied { .. } => done += 1,
            Outcome::Conflict { .. } => conflicts += 1,
            other => panic!("a race is decided as applied or conflict, not {other:?}"),
        }
    }
    (done, conflicts)
}

async fn two_nodes_race(options: Options) {
    wipe(&options).await.unwrap();
    let options = Options { partitions: 2, ..options };
    let first = ValkeyStore::open(options.clone()).await.unwrap();
    let second = ValkeyStore::open(options.clone()).await.unwrap();
    apply(&first, P0, vec![insert(key(P0, 1), &[(0, &0u64.to_be_bytes())])]).await;
    let (a, b) = tokio::join!(tokio::spawn(count(first)), tokio::spawn(count(second)));
    let conflicts = a.unwrap().1 + b.unwrap().1;
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    let found = get(&store, key(P0, 1)).await.unwrap();
    assert_eq!(found.parts[0].1, (2 * EACH).to_be_bytes()[..], "no increment is lost");
    assert!(conflicts > 0, "nodes that count together get in each other's way");
    let head = store.read(P0, Vec::new()).await.unwrap().head;
    assert_eq!(head.position.seq, 2 * EACH + 1, "conflicts do not move `seq`");
    wipe(&options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_count_together_lose_nothing() {
    two_nodes_race(servers::standalone("race")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_count_together_on_a_cluster_lose_nothing() {
    two_nodes_race(servers::cluster("race")).await;
}

/// A record that is listed under the state which its part 0 names.
fn listed(key: Key, old: Option<&str>, new: &str) -> Write {
    let facets = |state: &str| {
        let mut facets = crate::records::facets(key);
        facets[facet::LISTED] = Value::Text(state.into());
        facets
    };
    let body = Body { facets: facets(new), parts: vec![(0, Some(Bytes::copy_from_slice(new.as_bytes())))] };
    let what = match old {
        Some(old) => Change::Update { old: facets(old), body },
        None => Change::Insert(body),
    };
    Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_and_its_record_are_as_of_one_moment() {
    let options = Options { partitions: 1, ..servers::standalone("moment") };
    wipe(&options).await.unwrap();
    let (writer, reader) =
        (ValkeyStore::open(options.clone()).await.unwrap(), ValkeyStore::open(options.clone()).await.unwrap());
    let keys: Vec<Key> = (0..8).map(|number| key(P0, number)).collect();
    apply(&writer, P0, keys.iter().map(|key| listed(*key, None, "even")).collect()).await;
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = done.clone();
    let writing = tokio::spawn(async move {
        let mut states = ["even", "odd"];
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            apply(&writer, P0, keys.iter().map(|key| listed(*key, Some(states[0]), states[1])).collect()).await;
            states.reverse();
        }
    });
    let (mut seen, mut moved) = (0, 0);
    let started = std::time::Instant::now();
    while seen < 2000 || moved == 0 {
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "{seen} entries seen, {moved} had moved");
        let ranges = vec![Range::default()];
        let target = Target::Index(IndexId::ByState);
        let scan = Scan { target, ranges, limit: 100, descending: false, parts: Some(PartMask::ALL) };
        let page = reader.scan(Some(P0), scan).await.unwrap().remove(0);
        moved += 8 - page.entries.len();
        seen += page.entries.len();
        for entry in page.entries {
            let Value::Text(state) = &entry.place.columns[1] else { panic!("the state is text") };
            assert_eq!(
                entry.found.unwrap().parts[0].1,
                state.as_bytes(),
                "the record is in the state it is listed under"
            );
        }
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    writing.await.unwrap();
    wipe(&options).await.unwrap();
}

#[tokio::test]
async fn ri_3_an_id_is_applied_once_on_whatever_way_it_comes() {
    let options = Options { partitions: 1, ..servers::standalone("twice") };
    wipe(&options).await.unwrap();
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    let other = ValkeyStore::open(options.clone()).await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"a")])]).await;
    let first = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"b")])]).await;
    let Outcome::Applied { head } = store.commit(P0, first.clone()).await else { panic!("it is applied") };
    let later = apply(&store, P0, vec![update(key(P0, 1), &[(0, b"c")])]).await;
    for fast in [true, false] {
        let again = Batch { fast, expect: later, ..first.clone() };
        let Outcome::Applied { head: told } = store.commit(P0, again).await else { panic!("it was applied") };
        assert_eq!(told, head, "where it was the first time");
    }
    assert_eq!(store.read(P0, Vec::new()).await.unwrap().head, later, "and nothing has changed");

    let barred = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"d")])]).await;
    assert_eq!(other.resolve(P0, barred.id).await.unwrap(), Resolution::NotApplied);
    for store in [&store, &other] {
        let expect = store.read(P0, Vec::new()).await.unwrap().head;
        let outcome = store.commit(P0, barred.clone()).await;
        assert!(!matches!(outcome, Outcome::Applied { .. }), "what was barred elsewhere is not applied: {outcome:?}");
        let outcome = store.commit(P0, Batch { expect, ..barred.clone() }).await;
        assert!(matches!(outcome, Outcome::NotApplied { .. }), "nor when it is brought up to date: {outcome:?}");
    }
    wipe(&options).await.unwrap();
}
