//! Which nodes there are, which partitions this one looks after, and how far it has seen each of them.
//!
//! Sharing out partitions is advice: it spreads scanners and keeps nodes out of each other's way. No commit and no rule
//! depends on it, so a stale view costs time and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
use uuid::Uuid;
use weft_core::PartitionId;
use weft_core::change::Position;
use weft_core::digest::digest;

/// The partitions of this node, among those of all nodes that live.
pub struct Membership {
    /// Drawn at start.
    pub node: Uuid,
    mine: RwLock<Vec<PartitionId>>,
    /// How many nodes there are, this one included.
    live: AtomicU64,
}

impl Membership {
    /// A node that has met no other: everything is its own.
    pub fn alone(node: Uuid, partitions: u16) -> Self {
        Self { node, mine: RwLock::new((0..partitions).map(PartitionId).collect()), live: AtomicU64::new(1) }
    }

    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    pub fn mine(&self) -> Vec<PartitionId> {
        self.read().clone()
    }

    pub fn is_mine(&self, partition: PartitionId) -> bool {
        self.read().binary_search(&partition).is_ok()
    }

    /// One of this node's partitions; `None` if it has none.
    pub fn pick(&self, number: u64) -> Option<PartitionId> {
        let mine = self.read();
        (!mine.is_empty()).then(|| mine[(number % mine.len() as u64) as usize])
    }

    /// Takes the share that falls to this node among `live`, itself included. True if partitions came to it.
    pub fn share(&self, live: &[Uuid], partitions: u16) -> bool {
        let share = share_of(self.node, live, partitions);
        self.live.store(live.len().max(1) as u64, Ordering::Relaxed);
        let mut mine = self.mine.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gained = share.iter().any(|partition| mine.binary_search(partition).is_err());
        *mine = share;
        gained
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<PartitionId>> {
        // Whole lists are swapped in, so a panic elsewhere leaves a good one.
        self.mine.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The partitions for which `node` has the highest score of all `live` nodes. A node that comes or goes moves only its
/// own share.
fn share_of(node: Uuid, live: &[Uuid], partitions: u16) -> Vec<PartitionId> {
    let score = |node: &Uuid, partition: u16| (digest(&[node.as_bytes(), &partition.to_be_bytes()]), *node);
    let wins = |partition: &u16| {
        let own = score(&node, *partition);
        live.iter().all(|other| *other == node || score(other, *partition) < own)
    };
    (0..partitions).filter(wins).map(PartitionId).collect()
}

/// The last position that this node saw of each partition: what it can bear witness to.
pub struct Seen(Mutex<Vec<Position>>);

impl Seen {
    pub fn new(partitions: u16) -> Self {
        Self(Mutex::new(vec![Position::default(); usize::from(partitions)]))
    }

    /// What was seen is never taken back.
    pub fn note(&self, partition: PartitionId, position: Position) {
        let known = &mut self.lock()[usize::from(partition.0)];
        *known = position.max(*known);
    }

    pub fn all(&self) -> Vec<Position> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Position>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_50_every_partition_has_one_node_and_only_the_share_of_a_leaver_moves() {
        let nodes: Vec<Uuid> = (1..=5).map(Uuid::from_u128).collect();
        let owners = |live: &[Uuid]| -> Vec<Uuid> {
            let shares: Vec<_> = live.iter().map(|node| (*node, share_of(*node, live, 64))).collect();
            let owner = |partition| {
                let mut having = shares.iter().filter(|(_, share)| share.contains(&PartitionId(partition)));
                let owner = having.next().expect("every partition has a node").0;
                assert!(having.next().is_none(), "and only one");
                owner
            };
            (0..64).map(owner).collect()
        };
        let (all, without_last) = (owners(&nodes), owners(&nodes[..4]));
        for (before, after) in all.iter().zip(&without_last) {
            assert!(before == after || *before == nodes[4], "what the others had stays where it was");
        }
        assert!(nodes.iter().all(|node| all.iter().filter(|owner| *owner == node).count() >= 4), "shares are even");
    }

    #[test]
    fn a_node_says_when_partitions_came_to_it() {
        let [me, other] = [1, 2].map(Uuid::from_u128);
        let membership = Membership::alone(me, 16);
        assert_eq!(membership.mine().len(), 16);
        assert!(!membership.share(&[me, other], 16), "it only gave some away");
        let mine = membership.mine();
        assert!(!mine.is_empty() && mine.len() < 16 && membership.is_mine(mine[0]));
        assert!(membership.share(&[me], 16), "the other has gone");
        assert_eq!(membership.pick(17), Some(PartitionId(1)));
    }
}
