//! Which nodes there are, which partitions this one scans and which it prefers for work, and how far it has seen each.
//!
//! Sharing out partitions is advice: it spreads scanners and keeps nodes out of each other's way. New work and claims are
//! shared among all live nodes; scanning is shared among those with equal filters, so that each such group covers every
//! partition. No commit and no rule depends on it, so a stale view costs time and nothing else.

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
    shares: RwLock<Shares>,
    /// How many nodes there are, this one included.
    live: AtomicU64,
}

struct Shares {
    /// Partitions that this node scans, in order.
    scanned: Vec<PartitionId>,
    /// Partitions that new work goes to and that claims begin with, in order.
    placed: Vec<PartitionId>,
}

impl Membership {
    /// A node that has met no other: everything is its own.
    pub fn alone(node: Uuid, partitions: u16) -> Self {
        let all: Vec<PartitionId> = (0..partitions).map(PartitionId).collect();
        Self { node, shares: RwLock::new(Shares { scanned: all.clone(), placed: all }), live: AtomicU64::new(1) }
    }

    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Partitions whose timers this node looks after.
    pub fn mine(&self) -> Vec<PartitionId> {
        self.read().scanned.clone()
    }

    /// Whether this node scans the partition.
    pub fn is_mine(&self, partition: PartitionId) -> bool {
        self.read().scanned.binary_search(&partition).is_ok()
    }

    /// Whether this node goes first when work of the partition is handed out.
    pub fn places_in(&self, partition: PartitionId) -> bool {
        self.read().placed.binary_search(&partition).is_ok()
    }

    /// One of the partitions that this node places work in; `None` if it has none.
    pub fn pick(&self, number: u64) -> Option<PartitionId> {
        let placed = &self.read().placed;
        (!placed.is_empty()).then(|| placed[(number % placed.len() as u64) as usize])
    }

    /// Takes the shares that fall to this node among the `live` nodes and among the `equal` ones, which have its filters;
    /// it is in both itself. True if partitions to scan came to it.
    pub fn share(&self, live: &[Uuid], equal: &[Uuid], partitions: u16) -> bool {
        let fresh =
            Shares { scanned: share_of(self.node, equal, partitions), placed: share_of(self.node, live, partitions) };
        self.live.store(live.len().max(1) as u64, Ordering::Relaxed);
        let mut shares = self.shares.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let gained = fresh.scanned.iter().any(|partition| shares.scanned.binary_search(partition).is_err());
        *shares = fresh;
        gained
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Shares> {
        // Whole lists are swapped in, so a panic elsewhere leaves good ones.
        self.shares.read().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        assert!(!membership.share(&[me, other], &[me, other], 16), "it only gave some away");
        let mine = membership.mine();
        assert!(!mine.is_empty() && mine.len() < 16 && membership.is_mine(mine[0]));
        assert!(membership.share(&[me], &[me], 16), "the other has gone");
        assert_eq!(membership.pick(17), Some(PartitionId(1)));
    }

    #[test]
    fn sr_54_nodes_of_other_filters_share_work_and_no_scanning() {
        let [me, other] = [1, 2].map(Uuid::from_u128);
        let membership = Membership::alone(me, 16);
        membership.share(&[me, other], &[me], 16);
        assert_eq!(membership.mine().len(), 16, "nobody else scans for its filters");
        let placed = (0..16).filter(|index| membership.places_in(PartitionId(*index))).count();
        assert!(0 < placed && placed < 16, "{placed}");
        assert!((0..16).all(|number| membership.places_in(membership.pick(number).unwrap())));
    }
}
