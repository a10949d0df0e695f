//! A store that went back in time.

use crate::kit::*;
use crate::nodes::Node;
use std::time::Duration;
use weft_core::PartitionId;
use weft_core::change::{Body, Change, Position, Write};
use weft_core::event::{self, Fact};
use weft_core::loss::GAP;
use weft_core::record::execution::PublicState;
use weft_core::schema::PartMask;
use weft_engine::{Completion, Config, Prioritising, Replaying, Submission};
use weft_store::MemoryStore;
use weft_store::faulty::Faults;

const P0: PartitionId = PartitionId(0);

/// The losses that the feed of the partition tells of: (generation, kept, seen, executions).
fn losses(store: &MemoryStore) -> Vec<(u64, u64, u64, usize)> {
    let feed = store.dump(P0).feed;
    let events = feed.iter().flat_map(|entry| event::decode(&entry.events).expect("the feed decodes"));
    events
        .filter_map(|event| match event.fact {
            Fact::StoreDataLost { generation, kept_seq, seen_seq, executions, .. } => {
                Some((generation, kept_seq, seen_seq, executions.len()))
            }
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn rl_17_a_loss_is_noticed_by_the_next_commit_told_once_and_work_goes_on() {
    let store = memory(1).shared();
    let node = Node::start(&store, "a").await;
    let kept = node.client.submit(Submission::new("mail")).await.unwrap().id;
    pass(5).await;
    let saved = store.save(P0);
    let kept_seq = store.dump(P0).head.position.seq;
    let lost = node.client.submit(Submission::new("mail")).await.unwrap().id;
    let work = node.client.claim(worker()).await.unwrap().executions.remove(0);
    assert_eq!(work.id, kept);
    let seen_seq = store.dump(P0).head.position.seq;
    store.go_back(&saved);

    let refused = node.client.complete(Completion::of(&work)).await.unwrap_err();
    assert_eq!(refused.code(), "execution_not_active", "a lease of the lost window fences nothing in");
    assert_eq!(losses(&store), [(1, kept_seq, seen_seq, 2)]);
    let head = store.dump(P0).head.position;
    assert!(head.generation == 1 && head.seq > seen_seq + GAP - 1);
    assert_eq!(node.engine.stats().data_lost, 1);
    assert!(node.client.get(lost).await.is_err(), "what is lost is not shown from memory");

    let again = node.client.claim(worker()).await.unwrap().executions.remove(0);
    assert_eq!((again.id, again.epoch), (kept, 1), "the same epoch again, under another lease and generation");
    assert_ne!(again.lease, work.lease);
    node.client.complete(Completion::of(&again)).await.unwrap();
    assert_eq!(node.client.get(kept).await.unwrap().public_state, PublicState::Completed);
    assert_eq!(losses(&store).len(), 1, "told once");
}

#[tokio::test(start_paused = true)]
async fn rl_16_a_node_that_starts_after_the_loss_learns_of_it_from_the_registry() {
    let store = memory(8).shared();
    let node = Node::start(&store, "a").await;
    // Its record must survive the loss: it is in another partition.
    let (mut witness, mut saved) = (None, None);
    while witness.is_none() {
        let before: Vec<_> = (0..8).map(|index| store.save(PartitionId(index))).collect();
        let id = node.client.submit(Submission::new("mail")).await.unwrap().id;
        let home = weft_engine::registry::nodes(&store).await.unwrap()[0].partition;
        if id.partition() != home {
            witness = Some(id);
            saved = before.into_iter().nth(usize::from(id.partition().0));
        }
    }
    let partition = witness.unwrap().partition();
    let seen = store.dump(partition).head.position;
    tokio::time::sleep(Duration::from_secs(4)).await;
    node.kill();
    store.go_back(&saved.unwrap());

    let fresh = Node::start(&store, "b").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let head = store.dump(partition).head.position;
    assert_eq!(head.generation, seen.generation + 1, "raised although nobody who saw it lives");
    assert!(head.seq >= seen.seq + GAP);
    assert_eq!(fresh.engine.stats().data_lost, 1);
}

#[tokio::test(start_paused = true)]
async fn rl_17_two_nodes_that_saw_the_same_raise_once_and_both_go_on() {
    let store = memory(1).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    let saved = store.save(P0);
    for node in [&a, &b, &a, &b] {
        node.client.submit(Submission::new("mail")).await.unwrap();
    }
    store.go_back(&saved);
    for node in [&b, &a, &b, &a] {
        node.client.submit(Submission::new("mail")).await.unwrap();
    }
    let losses = losses(&store);
    assert!(losses.len() <= 2 && losses.iter().any(|(_, _, seen, _)| *seen >= 4), "{losses:?}");
    for _ in 0..4 {
        let work = a.client.claim(worker()).await.unwrap().executions.remove(0);
        b.client.complete(Completion::of(&work)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn rl_16_a_loss_shows_although_a_bar_has_filled_the_gap() {
    let shared = memory(1).shared();
    let (store, faulty, engine) = open_faulty_on(shared, Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    client.submit(Submission::new("mail")).await.unwrap();
    let saved = store.save(P0);
    let lost = client.submit(Submission::new("mail")).await.unwrap().id;
    // The next commit never arrives; its bar is the first thing the set-back store gets, in the place of the lost commit.
    faulty.set_faults(Faults { commit_unknown_lost: 1000, ..Faults::default() });
    let submitting = client.clone();
    let submitted = tokio::spawn(async move { submitting.submit(Submission::new("mail")).await });
    pass(20).await;
    store.go_back(&saved);
    faulty.set_faults(Faults::default());
    submitted.await.unwrap().unwrap();
    assert_eq!(losses(&store).len(), 1);
    assert!(client.get(lost).await.is_err());
}

/// A primary that was replaced and has written on, or a lost tail that others have overwritten since: the histories have
/// parted, and neither position says so.
#[tokio::test(start_paused = true)]
async fn rl_16_a_history_that_parted_is_noticed_however_long_it_is() {
    for foreign in [1, 2, 5] {
        let store = memory(1).shared();
        let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
        let kept = a.client.submit(Submission::new("mail")).await.unwrap().id;
        b.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
        let saved = store.save(P0);
        let work = a.client.claim(worker()).await.unwrap().executions.remove(0);
        let lost = a.client.submit(Submission::new("mail")).await.unwrap().id;
        let kept_seq = store.dump(P0).head.position.seq - 2;
        store.go_back(&saved);
        for _ in 0..foreign {
            b.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
        }
        assert_eq!(losses(&store), [], "who has lost nothing does not notice");

        let refused = a.client.complete(Completion::of(&work)).await.unwrap_err();
        assert_eq!(refused.code(), "execution_not_active", "{foreign}: a lease of the lost window fences nothing in");
        let told = losses(&store);
        assert_eq!(told.len(), 1, "{foreign}: {told:?}");
        let (generation, kept_told, seen, executions) = told[0];
        assert_eq!((generation, seen, executions), (1, kept_seq + 2, 2), "{foreign}");
        assert!(kept_told <= kept_seq, "{foreign}: of what this node saw, all up to {kept_seq} is there at most");
        assert!(a.client.get(lost).await.is_err(), "{foreign}: what is lost is not shown from memory");
        let again = b.client.claim(worker()).await.unwrap().executions.remove(0);
        assert_eq!(again.id, kept);
        a.client.complete(Completion::of(&again)).await.unwrap();
        assert_eq!(losses(&store).len(), 1, "{foreign}: told once");
    }
}

#[tokio::test(start_paused = true)]
async fn rl_18_a_record_of_a_lost_commit_is_not_built_on_although_the_position_holds() {
    let store = memory(1).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    b.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
    a.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
    let saved = store.save(P0);
    let lost = b.client.submit(Submission::new("mail")).await.unwrap().id;
    let rejected = a.client.replay(Replaying::new(lost, "again")).await;
    rejected.expect_err("what has not ended is not replayed; its record is loaded now");
    store.go_back(&saved);
    let changed = a.client.change_priority(Prioritising::new(lost, 7)).await;
    assert!(changed.is_err(), "what is gone is not changed: {changed:?}");
    assert!(!store.dump(P0).records.keys().any(|key| *key == weft_core::record::Key::Execution(lost)));
}

#[tokio::test(start_paused = true)]
async fn rl_17_a_loss_is_told_although_the_store_is_slow_to_answer_and_fails() {
    for faults in [
        Faults { read_error: 1000, ..Faults::default() },
        Faults { commit_not_applied: 1000, ..Faults::default() },
        Faults { commit_unknown_lost: 1000, ..Faults::default() },
        Faults { before_ms: (500, 2_000), after_ms: (500, 2_000), ..Faults::default() },
    ] {
        let shared = memory(1).shared();
        let (store, faulty, engine) = open_faulty_on(shared, Faults::default(), Config::default()).await;
        let client = engine.client("shop").unwrap();
        client.submit(Submission::new("mail")).await.unwrap();
        let saved = store.save(P0);
        client.submit(Submission::new("mail")).await.unwrap();
        store.go_back(&saved);
        faulty.set_faults(faults);
        for _ in 0..20 {
            let (submitting, claiming) = (client.clone(), client.clone());
            tokio::spawn(async move { submitting.submit(Submission::new("mail")).await });
            tokio::spawn(async move { claiming.claim(worker().wait_ms(3_000)).await });
            pass(100).await;
        }
        faulty.set_faults(Faults::default());
        pass(10_000).await;
        let going_on = client.submit(Submission::new("mail"));
        tokio::time::timeout(Duration::from_secs(60), going_on).await.expect("work goes on").unwrap();
        assert_eq!(losses(&store).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rl_17_a_witness_who_saw_more_tells_it_however_much_was_committed_since_the_first_raise() {
    let store = memory(1).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    for node in [&a, &b] {
        node.client.submit(Submission::new("mail")).await.unwrap();
    }
    let saved = store.save(P0);
    b.client.submit(Submission::new("mail")).await.unwrap();
    a.client.submit(Submission::new("mail")).await.unwrap();
    let seen_seq = store.dump(P0).head.position.seq;
    store.go_back(&saved);
    for _ in 0..5 {
        b.client.submit(Submission::new("mail")).await.unwrap();
    }
    assert_eq!(losses(&store).len(), 1);
    a.client.submit(Submission::new("mail")).await.unwrap();
    let told = losses(&store);
    assert!(told.len() == 2 && told[1].2 >= seen_seq, "{told:?}: what only `a` saw, up to {seen_seq}, is told too");
    b.client.submit(Submission::new("mail")).await.unwrap();
    assert_eq!(losses(&store).len(), 2, "and told once");
}

#[tokio::test(start_paused = true)]
async fn rl_17_after_a_second_loss_the_range_begins_at_what_is_kept() {
    let store = memory(1).shared();
    let node = Node::start(&store, "a").await;
    node.client.submit(Submission::new("mail")).await.unwrap();
    let saved = store.save(P0);
    let kept_seq = store.dump(P0).head.position.seq;
    for generation in [1, 2] {
        node.client.submit(Submission::new("mail")).await.unwrap();
        store.go_back(&saved);
        node.client.submit(Submission::new("mail")).await.unwrap();
        let told = losses(&store);
        assert_eq!((told.len(), told[0].0, told[0].1), (1, generation, kept_seq), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rl_5_a_claim_that_ran_before_the_raise_is_answered_with_the_generation_it_is_committed_in() {
    let store = memory(1).shared();
    let node = Node::start(&store, "a").await;
    node.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
    let saved = store.save(P0);
    node.client.submit(Submission::new("bulk").lane("other")).await.unwrap();
    let claiming = node.client.clone();
    let claimed = tokio::spawn(async move { claiming.claim(worker().wait_ms(5_000)).await });
    pass(5).await;
    store.go_back(&saved);
    node.client.submit(Submission::new("mail")).await.unwrap();
    let work = claimed.await.unwrap().unwrap().executions.remove(0);
    assert_eq!((work.generation, store.dump(P0).head.position.generation), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn rl_16_a_loss_is_noticed_although_nobody_commits_in_the_partition_again() {
    let store = memory(8).shared();
    let node = Node::start(&store, "a").await;
    let home = weft_engine::registry::nodes(&store).await.unwrap()[0].partition;
    let (saved, lost) = loop {
        let before: Vec<_> = (0..8).map(|index| store.save(PartitionId(index))).collect();
        let id = node.client.submit(Submission::new("mail")).await.unwrap().id;
        if id.partition() != home {
            break (before.into_iter().nth(usize::from(id.partition().0)).unwrap(), id.partition());
        }
    };
    store.go_back(&saved);
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(store.dump(lost).head.position.generation, 1);
    assert_eq!(node.engine.stats().data_lost, 1);
}

#[tokio::test(start_paused = true)]
async fn rl_17_a_dead_witness_who_saw_more_is_compared_after_a_raise_by_one_who_saw_less() {
    let store = memory(8).shared();
    let (a, b) = (Node::start(&store, "a").await, Node::start(&store, "b").await);
    let nodes = weft_engine::registry::nodes(&store).await.unwrap();
    let id = loop {
        let id = a.client.submit(Submission::new("mail")).await.unwrap().id;
        if nodes.iter().all(|node| node.partition != id.partition()) {
            break id;
        }
    };
    let saved = store.save(id.partition());
    b.client.change_priority(Prioritising::new(id, 1)).await.unwrap();
    for priority in 2..12 {
        a.client.change_priority(Prioritising::new(id, priority)).await.unwrap();
    }
    let seen = store.dump(id.partition()).head.position;
    tokio::time::sleep(Duration::from_secs(4)).await;
    a.kill();
    store.go_back(&saved);
    b.client.change_priority(Prioritising::new(id, 1)).await.unwrap();
    let head = store.dump(id.partition()).head.position;
    assert!(head.generation == 1 && head.seq < seen.seq + GAP, "{head:?}: raised by `b`, who saw less than {seen:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let head = store.dump(id.partition()).head.position;
    assert!(head.generation == 2 && head.seq >= seen.seq + GAP, "{head:?}: what `a` saw, up to {seen:?}, is told too");
}

#[tokio::test(start_paused = true)]
async fn rl_17_dead_witnesses_of_two_generations_are_each_compared() {
    let store = memory(2).shared();
    let a = Node::start(&store, "a").await;
    let saved = store.save(P0);
    let id = loop {
        let id = a.client.submit(Submission::new("mail")).await.unwrap().id;
        if id.partition() == P0 {
            break id;
        }
    };
    store.go_back(&saved);
    a.client.change_priority(Prioritising::new(id, 1)).await.expect_err("it is lost");
    pass(5).await;
    let told = losses(&store);
    let head = store.dump(P0).head.position;
    assert!(told.len() == 1 && head.generation == 1, "{told:?}, {head:?}");
    a.kill();
    let witnesses = [Position { generation: 0, seq: told[0].2 + 50 }, Position { seq: head.seq + 50, ..head }];
    let elsewhere = PartitionId(1);
    for (number, seen) in witnesses.into_iter().enumerate() {
        let mut gone = weft_engine::registry::nodes(&store).await.unwrap().remove(0);
        (gone.partition, gone.uuid) = (elsewhere, uuid::Uuid::from_u128(number as u128 + 1));
        gone.body.seen = vec![(seen.generation, seen.seq), (0, 0)];
        let what = Change::Insert(Body { facets: gone.facets(), parts: gone.encode(PartMask::ALL) });
        let write = Write { key: gone.key(), what, due_add: gone.due(), due_remove: Vec::new() };
        plant::commit(&store, elsewhere, vec![write]).await;
    }
    let fresh = Node::start(&store, "b").await;
    pass(5).await;
    let seen: Vec<u64> = losses(&store).iter().map(|(_, _, seen, _)| *seen).collect();
    assert_eq!(seen, [told[0].2, witnesses[0].seq, witnesses[1].seq]);
    assert_eq!(fresh.engine.stats().data_lost, 2);
}
