//! Connections that break in the middle, functions that go missing, memory that runs out, damage.

use crate::records::{P0, apply, batch, delete, insert, key, part, update};
use crate::servers;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use weft_core::change::Batch;
use weft_core::schema::{IndexId, PartMask};
use weft_servers::{Proxy, Valkey};
use weft_store::{Full, Outcome, Range, Resolution, Scan, Store, Target};
use weft_store_valkey::{Options, ValkeyStore};

/// A server, a proxy in front of it, and a store that goes through the proxy.
async fn behind_proxy() -> (Valkey, Proxy, ValkeyStore) {
    let server = Valkey::start(&[]).unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let url = format!("valkey://{}?partitions=1&call_timeout=5s", proxy.addr());
    let store = ValkeyStore::open(servers::options(&url, "proxy")).await.unwrap();
    (server, proxy, store)
}

fn forms(fresh: &Batch) -> [Batch; 2] {
    // The one goes as a transaction, the other as a call of the function.
    [fresh.clone(), Batch { fast: false, id: crate::records::mint(), ..fresh.clone() }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_10_a_commit_whose_reply_was_lost_is_unknown_and_was_applied() {
    let (_server, proxy, store) = behind_proxy().await;
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"0")])]).await;
    for at in 0..2 {
        let fresh = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"new")])]).await;
        let commit = forms(&fresh)[at].clone();
        let id = commit.id;
        proxy.cut_replies();
        let outcome = store.commit(P0, commit).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
        proxy.wait_tripped(Duration::from_secs(10)).unwrap();
        let resolved = store.resolve(P0, id).await.unwrap();
        let expected = fresh.expect.position.next();
        assert_eq!(resolved, Resolution::Applied { position: expected }, "the server had done it");
        assert_eq!(part(&store, key(P0, 1)).await.as_deref(), Some(&b"new"[..]));
        assert_eq!(store.read(P0, Vec::new()).await.unwrap().head.position, expected, "once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_12_a_commit_cut_off_on_its_way_is_unknown_and_never_happens() {
    let (_server, proxy, store) = behind_proxy().await;
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"0")])]).await;
    for at in 0..2 {
        let fresh = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"cut here")])]).await;
        let commit = forms(&fresh)[at].clone();
        proxy.cut_at_request(b"cut here");
        let outcome = store.commit(P0, commit.clone()).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
        proxy.wait_tripped(Duration::from_secs(10)).unwrap();
        assert_eq!(store.resolve(P0, commit.id).await.unwrap(), Resolution::NotApplied);
        let late = store.commit(P0, commit).await;
        assert!(matches!(late, Outcome::NotApplied { .. }), "it is barred: {late:?}");
        assert_eq!(part(&store, key(P0, 1)).await.as_deref(), Some(&b"0"[..]));
    }
    apply(&store, P0, vec![update(key(P0, 1), &[(0, b"goes on")])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_sent_is_not_applied() {
    let (_server, proxy, store) = behind_proxy().await;
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"0")])]).await;
    let commit = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"1")])]).await;
    proxy.refuse(true).unwrap();
    proxy.cut();
    // The connection may look open still; then the first commit is unknown.
    let first = store.commit(P0, commit.clone()).await;
    assert!(matches!(first, Outcome::Unknown { .. } | Outcome::NotApplied { .. }), "{first:?}");
    let second = store.commit(P0, Batch { id: crate::records::mint(), ..commit }).await;
    assert!(matches!(second, Outcome::NotApplied { .. }), "{second:?}");
    assert!(store.read(P0, Vec::new()).await.is_err());
    proxy.refuse(false).unwrap();
    apply(&store, P0, vec![update(key(P0, 1), &[(0, b"2")])]).await;
}

// On one thread nothing else runs while the read is polled, so the connection cannot be there before the poll is over.
#[tokio::test]
async fn a_read_that_is_not_polled_does_not_keep_the_connection_from_others() {
    let (_server, proxy, store) = behind_proxy().await;
    proxy.refuse(true).unwrap();
    proxy.cut();
    while store.read(P0, Vec::new()).await.is_ok() {}
    proxy.refuse(false).unwrap();
    let mut begun = pin!(store.read(P0, Vec::new()));
    assert!(poll_fn(|context| Poll::Ready(begun.as_mut().poll(context))).await.is_pending(), "it has to connect first");
    let others = futures_util::future::join_all((0..16).map(|_| store.read(P0, Vec::new())));
    let read = tokio::time::timeout(Duration::from_secs(10), others).await.expect("the connection is made");
    assert!(read.iter().all(Result::is_ok), "{read:?}");
    begun.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_10_killed_connections_lose_nothing_and_double_nothing() {
    let server = Valkey::start(&[]).unwrap();
    let store = ValkeyStore::open(Options { partitions: 1, ..servers::on(&server) }).await.unwrap();
    let (mut unknown, mut applied, mut number) = (0, Vec::new(), 0);
    while unknown < 5 {
        number += 1;
        assert!(number < 5000, "connections were killed and nothing was unknown");
        let write = insert(key(P0, number), &[(0, &number.to_be_bytes()), (4, &[7; 2000])]);
        answers(&store).await;
        let commit = batch(&store, P0, vec![write]).await;
        let id = commit.id;
        let kill = async {
            if number % 3 == 0 {
                tokio::task::spawn_blocking({
                    let mut connection = server.connect().unwrap();
                    move || connection.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).map(drop)
                })
                .await
                .unwrap()
                .unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(store.commit(P0, commit), kill);
        match outcome {
            Outcome::Applied { .. } => applied.push(number),
            Outcome::NotApplied { .. } => {}
            Outcome::Unknown { .. } => {
                unknown += 1;
                match resolve(&store, id).await {
                    Resolution::Applied { .. } => applied.push(number),
                    Resolution::NotApplied => assert_eq!(part(&store, key(P0, number)).await, None),
                }
            }
            Outcome::Conflict { .. } | Outcome::Lost { .. } => panic!("nobody else writes here"),
        }
    }
    for number in &applied {
        let expected = number.to_be_bytes();
        assert_eq!(part(&store, key(P0, *number)).await.as_deref(), Some(&expected[..]), "{number} is there");
    }
    let feed = server.command(&["XLEN", "test_own:{p0}feed"]).unwrap();
    assert_eq!(feed, weft_servers::Reply::Integer(applied.len() as i64), "one entry per applied commit");
}

/// Waits for a read to come through, as the engine does: one may be met by a connection that has just been killed.
async fn answers(store: &ValkeyStore) {
    for _ in 0..100 {
        if store.read(P0, Vec::new()).await.is_ok() {
            return;
        }
    }
    panic!("the store never answered");
}

/// `resolve` as the engine asks it: again until the store answers.
async fn resolve(store: &ValkeyStore, id: weft_core::CommitId) -> Resolution {
    for _ in 0..100 {
        if let Ok(resolution) = store.resolve(P0, id).await {
            return resolution;
        }
    }
    panic!("the store never answered");
}

#[tokio::test]
async fn rl_36_functions_that_were_flushed_are_loaded_again() {
    let server = Valkey::start(&[]).unwrap();
    let store = ValkeyStore::open(Options { partitions: 2, ..servers::on(&server) }).await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"a")])]).await;

    server.command(&["FUNCTION", "FLUSH"]).unwrap();
    let slow = Batch { fast: false, ..batch(&store, P0, vec![update(key(P0, 1), &[(0, b"b")])]).await };
    assert!(matches!(store.commit(P0, slow).await, Outcome::Applied { .. }));

    server.command(&["FUNCTION", "FLUSH"]).unwrap();
    let target = Target::Index(IndexId::ByCreated);
    let ranges = vec![Range::default()];
    let scan = Scan { target, ranges, limit: 9, descending: false, parts: Some(PartMask::ALL) };
    let pages = store.scan(Some(P0), scan).await.unwrap();
    assert_eq!(pages[0].entries[0].found.as_ref().unwrap().parts[0].1, &b"b"[..]);

    server.command(&["FUNCTION", "FLUSH"]).unwrap();
    assert_eq!(store.resolve(P0, crate::records::mint()).await.unwrap(), Resolution::NotApplied);
}

#[tokio::test]
async fn a_server_that_was_killed_comes_back_with_all_that_was_acknowledged() {
    let server = Valkey::start(&[]).unwrap();
    let store = ValkeyStore::open(Options { partitions: 1, ..servers::on(&server) }).await.unwrap();
    for number in 0..50 {
        apply(&store, P0, vec![insert(key(P0, number), &[(0, b"x")])]).await;
    }
    let before = store.read(P0, Vec::new()).await.unwrap().head;
    server.kill().unwrap();
    assert!(store.read(P0, Vec::new()).await.is_err());
    server.restart().unwrap();
    assert_eq!(store.read(P0, Vec::new()).await.unwrap().head, before);
    apply(&store, P0, vec![update(key(P0, 49), &[(0, b"y")])]).await;
}

#[tokio::test]
async fn rl_41_a_full_server_refuses_commits_and_takes_deletes() {
    let server = Valkey::start(&[]).unwrap();
    let store = ValkeyStore::open(Options { partitions: 1, ..servers::on(&server) }).await.unwrap();
    let large = vec![7; 100_000];
    for number in 0..5 {
        apply(&store, P0, vec![insert(key(P0, number), &[(0, b"x"), (4, &large)])]).await;
    }
    server.command(&["CONFIG", "SET", "maxmemory", "1mb"]).unwrap();
    for fast in [true, false] {
        let commit = Batch { fast, ..batch(&store, P0, vec![insert(key(P0, 9), &[(0, b"x"), (4, &large)])]).await };
        let outcome = store.commit(P0, commit).await;
        assert!(matches!(&outcome, Outcome::NotApplied { source, .. } if source.is::<Full>()), "{outcome:?}");
    }
    assert_eq!(part(&store, key(P0, 9)).await, None);
    apply(&store, P0, (0..5).map(|number| delete(key(P0, number))).collect()).await;
    assert_eq!(part(&store, key(P0, 1)).await, None);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    apply(&store, P0, vec![insert(key(P0, 9), &[(0, b"x"), (4, &large)])]).await;
}

#[tokio::test]
async fn rl_33_a_commit_that_fails_half_way_parks_its_partition_on_this_node() {
    let server = Valkey::start(&[]).unwrap();
    let options = Options { partitions: 2, ..servers::on(&server) };
    let other = weft_core::PartitionId(1);
    for fast in [true, false] {
        let store = ValkeyStore::open(options.clone()).await.unwrap();
        apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"a")])]).await;
        server.command(&["SET", "test_own:{p0}due", "not a sorted set"]).unwrap();
        let mut write = update(key(P0, 1), &[(0, b"b")]);
        let lease = weft_core::schema::Due { timer: weft_core::schema::Timer::Lease, at: weft_core::Time::from_ms(5) };
        write.due_add.push(lease);
        let commit = Batch { fast, ..batch(&store, P0, vec![write]).await };
        let outcome = store.commit(P0, commit).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
        let next = batch(&store, P0, vec![update(key(P0, 1), &[(0, b"c")])]).await;
        match store.commit(P0, next).await {
            Outcome::NotApplied { source, .. } => assert!(source.to_string().contains("parked"), "{source}"),
            outcome => panic!("{outcome:?}"),
        }
        apply(&store, other, vec![insert(key(other, if fast { 1 } else { 2 }), &[(0, b"x")])]).await;
        assert!(part(&store, key(P0, 1)).await.is_some(), "it can still be read");

        server.command(&["DEL", "test_own:{p0}due"]).unwrap();
        let store = ValkeyStore::open(options.clone()).await.unwrap();
        apply(&store, P0, vec![delete(key(P0, 1))]).await;
    }
}
