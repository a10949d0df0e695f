//! Nodes that share a store which went back in time: what they name as lost.

use super::*;
use weft_core::event::{self, Fact};
use weft_core::loss::{GAP, is_proof};

/// The ranges of lost commits that the feed names: (kept, seen).
fn named(store: &MemoryStore) -> Vec<(u64, u64)> {
    let feed = store.dump(HERE).feed;
    let events = feed.iter().flat_map(|entry| event::decode(&entry.events).expect("the feed decodes"));
    let ranges = events.filter_map(|event| match event.fact {
        Fact::StoreDataLost { kept_seq, seen_seq, .. } => Some((kept_seq, seen_seq)),
        _ => None,
    });
    ranges.collect()
}

impl Bench {
    fn submit_one(&mut self) {
        self.submit(Submission::new("mail"));
        self.settle();
    }

    /// Compares the store with what a node that is gone has seen.
    fn hear_witness(&mut self, seq: u64) {
        let (seen, shown) = (Position { generation: 0, seq }, self.store.dump(HERE).head);
        self.partition.handle(Input::Witness { seen, shown });
        self.settle();
    }
}

/// Two nodes, the first of which has committed twice; the store has lost the second commit and can lose as much again.
fn two_nodes_after_a_loss() -> (Bench, Bench, weft_store::memory::Saved) {
    let mut a = Bench::new(Config::default());
    let b = a.beside();
    a.submit_one();
    let saved = a.store.save(HERE);
    a.submit_one();
    a.store.go_back(&saved);
    (a, b, saved)
}

#[test]
fn rl_17_a_witness_does_not_hide_the_lost_commits_of_the_node_that_compares() {
    let (mut a, mut b, _) = two_nodes_after_a_loss();
    (0..3).for_each(|_| b.submit_one());
    a.hear_witness(9);
    assert_eq!(named(&a.store), [(1, 9)]);
}

#[test]
fn rl_17_a_raise_by_another_node_settles_a_witness_only_if_it_names_the_lost_commits_of_this_node_too() {
    let (mut a, mut b, _) = two_nodes_after_a_loss();
    (0..3).for_each(|_| b.submit_one());
    let (seen, shown) = (Position { generation: 0, seq: 9 }, a.store.dump(HERE).head);
    a.partition.handle(Input::Witness { seen, shown });
    b.hear_witness(9);
    assert_eq!(named(&a.store), [(4, 9)], "what `b` knows to be there");
    a.settle();
    assert_eq!(named(&a.store), [(4, 9), (1, 9)]);
}

#[test]
fn rl_17_a_loss_is_named_again_when_the_raise_that_named_it_is_lost() {
    let (mut a, mut b, saved) = two_nodes_after_a_loss();
    b.hear_witness(2);
    a.partition.handle(Input::Verify);
    a.settle();
    assert_eq!(named(&a.store), [(1, 2)], "`a` has nothing to add");
    a.store.go_back(&saved);
    a.submit_one();
    let again = named(&a.store);
    assert!(again.iter().any(|(kept, seen)| *kept == 1 && *seen >= 2), "{again:?}");
}

/// Two nodes are gone: one saw more of generation 0 than the raise names, the other saw more of generation 1 than is left.
#[test]
fn rl_17_what_witnesses_of_two_generations_saw_is_named_in_whichever_order_they_are_heard() {
    for order in [[0, 1], [1, 0]] {
        let (a, mut b, _) = two_nodes_after_a_loss();
        b.hear_witness(2);
        b.submit_one();
        let shown = b.store.dump(HERE).head;
        assert_eq!((named(&a.store), shown.position), (vec![(1, 2)], Position { generation: 1, seq: GAP + 3 }));
        let seen = [Position { generation: 0, seq: 9 }, Position { generation: 1, seq: GAP + 9 }];
        assert!(seen.iter().all(|seen| is_proof(*seen, shown.position)));
        let mut fresh = a.beside();
        for witness in order {
            fresh.partition.handle(Input::Witness { seen: seen[witness], shown });
        }
        fresh.settle();
        let mut told = named(&a.store).split_off(1);
        told.sort_unstable();
        assert_eq!(told, [(1, 9), (GAP + 3, GAP + 9)], "{order:?}");
    }
}

#[test]
fn ex_36_a_repeat_on_another_node_tells_the_generation_in_which_the_lease_was_issued() {
    let mut a = Bench::new(Config::default());
    let mut b = a.beside();
    let claim = |bench: &mut Bench, reference: u8| {
        let mut answer = bench.wait(&Seat::new(), Some([reference; 32]));
        bench.settle();
        let work = answer.try_recv().expect("it is answered").expect("and not refused").executions.remove(0);
        (work.lease, work.generation)
    };
    a.submit_one();
    let before = claim(&mut a, 1);
    b.hear_witness(9);
    b.submit_one();
    let after = claim(&mut b, 2);
    assert_eq!((before.1, after.1), (0, 1));
    assert_eq!(claim(&mut b, 1), before);
    assert_eq!(claim(&mut a, 2), after, "although `a` has not met the raise");
}
