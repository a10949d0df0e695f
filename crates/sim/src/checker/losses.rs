//! A store that goes back in time: what the judge knew of the partition goes back with it, and every lost commit that
//! was acknowledged to a live node must be named in the feed.

use super::facts::Facts;
use super::{Judge, Note, Seen};
use std::collections::{BTreeMap, BTreeSet};
use weft_core::change::{Head, Position};
use weft_core::event::{Event, Fact};
use weft_core::loss::GAP;
use weft_core::record::execution::State;
use weft_core::record::{Execution, Key};
use weft_core::{CommitId, PartitionId};
use weft_store::memory::Committed;

/// Answers of the store that are on their way to a node when the store goes back arrive within this time, and calls rest on
/// them.
const ON_ITS_WAY_MS: u64 = 50;

/// State of the judge for a partition at one moment.
pub struct Memory {
    pub partition: PartitionId,
    records: BTreeMap<Key, Seen>,
    head: Option<Head>,
    applied: BTreeMap<CommitId, (PartitionId, Head)>,
    commits: u64,
    barred: BTreeMap<CommitId, PartitionId>,
    facts: Facts,
}

/// Losses of partitions, and the ranges that the feed names as lost.
#[derive(Default)]
pub struct Losses {
    /// Store time at which each partition went back last.
    at_ms: BTreeMap<PartitionId, u64>,
    /// Number of commits of each partition that are not lost.
    pub(super) commits: BTreeMap<PartitionId, u64>,
    /// Lost ranges named in the feed since then: after the first position, up to the second, and by which commit.
    told: BTreeMap<PartitionId, Vec<(u64, u64, CommitId)>>,
    /// Commits that were acknowledged to a node, as long as that node lives.
    acknowledged: BTreeMap<CommitId, Acknowledged>,
    /// Each lost commit with those that name it in the feed, which may be lost too.
    named: BTreeSet<(CommitId, CommitId)>,
    /// The last position of each partition that its last loss left.
    kept: BTreeMap<PartitionId, Position>,
    /// The highest position that each partition ever had.
    pub(super) highest: BTreeMap<PartitionId, u64>,
}

struct Acknowledged {
    /// The number of the node, another one in each of its lives.
    node: u64,
    partition: PartitionId,
    position: Position,
}

impl Judge {
    /// Takes down what is known of the partition, for a store that will go back to this moment.
    pub fn save(&self, partition: PartitionId) -> Memory {
        let of_partition = |(_, it): &(&CommitId, &(PartitionId, Head))| it.0 == partition;
        let records = self.records.iter().filter(|(key, _)| key.partition() == partition);
        Memory {
            partition,
            records: records.map(|(key, seen)| (*key, seen.clone())).collect(),
            head: self.heads.get(&partition).copied(),
            applied: self.applied.iter().filter(of_partition).map(|(id, it)| (*id, *it)).collect(),
            commits: self.commits_of(partition),
            barred: self.barred.iter().filter(|(_, of)| **of == partition).map(|(id, of)| (*id, *of)).collect(),
            facts: self.facts.clone(),
        }
    }

    /// Whether commits were applied since `memory` was taken: a store that goes back to it loses them.
    pub fn has_moved_since(&self, memory: &Memory) -> bool {
        self.heads.get(&memory.partition) != memory.head.as_ref()
    }

    fn commits_of(&self, partition: PartitionId) -> u64 {
        self.losses.commits.get(&partition).copied().unwrap_or(0)
    }

    /// How many commits the partition would lose by going back to `memory`.
    pub fn commits_since(&self, memory: &Memory) -> u64 {
        self.commits_of(memory.partition) - memory.commits
    }

    /// Counts what makes a loss hard: leases that are held while the store goes back, and several nodes that have had
    /// replies to the commits that it loses.
    fn note_loss(&mut self, memory: &Memory) {
        let partition = memory.partition;
        let is_held = |execution: &Execution| matches!(execution.hot.state, State::Active { .. });
        if self.executions().any(|execution| execution.id.partition() == partition && is_held(execution)) {
            self.sometimes("loss under a held lease");
        }
        let is_lost = |(id, it): &(&CommitId, &Acknowledged)| {
            it.partition == partition && self.applied.contains_key(*id) && !memory.applied.contains_key(*id)
        };
        let lost = self.losses.acknowledged.iter().filter(is_lost);
        if lost.map(|(_, it)| it.node).collect::<BTreeSet<u64>>().len() > 1 {
            self.sometimes("loss with two witnesses");
        }
    }

    /// The store has gone back to that moment.
    pub fn go_back(&mut self, memory: &Memory, now_ms: u64) {
        let partition = memory.partition;
        self.now_ms = now_ms;
        self.note_loss(memory);
        self.losses.commits.insert(partition, memory.commits);
        let before = self.applied.len();
        self.applied.retain(|id, (of, _)| *of != partition || memory.applied.contains_key(id));
        let lost = before - self.applied.len();
        self.log.line(&format!("{now_ms} partition {partition} loses {lost} commits"));
        self.barred.retain(|_, of| *of != partition);
        self.barred.extend(memory.barred.iter().map(|(id, of)| (*id, *of)));
        self.records.retain(|key, _| key.partition() != partition);
        self.records.extend(memory.records.iter().map(|(key, seen)| (*key, seen.clone())));
        match memory.head {
            Some(head) => self.heads.insert(partition, head),
            None => self.heads.remove(&partition),
        };
        self.facts.go_back(partition, &memory.facts, now_ms);
        let inputs = &self.facts.inputs;
        self.ledger.go_back(partition, |id| inputs.contains_key(id));
        self.losses.at_ms.insert(partition, now_ms);
        self.losses.told.remove(&partition);
        self.losses.kept.insert(partition, memory.head.unwrap_or_default().position);
    }

    /// Notes that a node got the reply that its commit is applied. If the commit was lost while the reply was on its way, a
    /// range that the feed names since then may hold it.
    pub fn acknowledged(&mut self, node: u64, partition: PartitionId, id: CommitId, position: Position) {
        let told = self.losses.told.get(&partition).into_iter().flatten();
        let naming =
            told.filter(|(kept, seen, _)| (kept + 1..=*seen).contains(&position.seq)).map(|(.., by)| (id, *by));
        if !self.applied.contains_key(&id) {
            self.losses.named.extend(naming);
        }
        self.losses.acknowledged.insert(id, Acknowledged { node, partition, position });
    }

    /// A node has ended: commits that only it knew of can no longer be named as lost.
    pub fn node_ended(&mut self, node: u64) {
        self.losses.acknowledged.retain(|_, it| it.node != node);
    }

    /// The partition has lost commits on which the answer to a call of that time may rest.
    pub fn lost_since(&self, partition: PartitionId, sent_ms: u64) -> bool {
        self.losses.at_ms.get(&partition).is_some_and(|at_ms| sent_ms <= at_ms + ON_ITS_WAY_MS)
    }

    /// Whether the partition of a call has lost commits since it was sent; any partition for a call that names none.
    pub(super) fn met_loss(&self, note: &Note) -> bool {
        match note.id {
            Some(id) => self.lost_since(id.partition(), note.sent_ms),
            None => self.losses.at_ms.keys().any(|partition| self.lost_since(*partition, note.sent_ms)),
        }
    }

    /// RL-16: a store says that something is lost only if it is.
    pub(super) fn check_lost(&mut self, partition: PartitionId, id: CommitId, expect: Head, head: Head) {
        if !self.losses.at_ms.contains_key(&partition)
            || (self.applied.contains_key(&expect.last) && expect.position <= head.position)
        {
            let what = format!("partition {partition}: {id} was told of a loss at {head:?}, but nothing is lost");
            self.violation("RL-16", what);
        }
    }

    /// RL-17: one commit raises the generation and names the lost range, for each witness that saw more.
    pub(super) fn check_raise(&mut self, commit: &Committed<'_>, events: &[Event]) {
        let (partition, before, head) = (commit.partition, commit.before.position, commit.head.position);
        let told = events.iter().find_map(|event| match &event.fact {
            Fact::StoreDataLost { generation, kept_seq, seen_seq, .. } => Some((*generation, *kept_seq, *seen_seq)),
            _ => None,
        });
        let raised = commit.batch.raise.is_some();
        let Some((generation, kept_seq, seen_seq)) = told.filter(|_| raised) else {
            if told.is_some() || raised {
                self.violation("RL-17", format!("partition {partition}: a loss and a raise are not in one commit"));
            }
            return;
        };
        self.sometimes("a loss was told in the feed");
        let leaps = head.seq == seen_seq.max(before.seq) + GAP;
        if head.generation <= before.generation || head.generation != generation || !leaps {
            let what = format!("partition {partition}: raised from {before:?} to {head:?}, seen was {seen_seq}");
            self.violation("RL-17", what);
        }
        if !self.losses.at_ms.contains_key(&partition) {
            self.violation("RL-16", format!("partition {partition}: was raised, but nothing is lost"));
        }
        let told = self.losses.told.entry(partition).or_default();
        let again = told.iter().any(|(kept, seen, _)| *kept <= kept_seq && *seen >= seen_seq);
        told.push((kept_seq, seen_seq, commit.batch.id));
        if again {
            self.violation("RI-21", format!("partition {partition}: was raised again, and tells nothing new"));
        }
        let in_range =
            |it: &Acknowledged| it.partition == partition && (kept_seq + 1..=seen_seq).contains(&it.position.seq);
        let named = self.losses.acknowledged.iter().filter(|(id, it)| in_range(it) && !self.applied.contains_key(id));
        self.losses.named.extend(named.map(|(id, _)| (*id, commit.batch.id)));
        self.check_range(partition, kept_seq, seen_seq, events);
    }

    /// RI-21: the range begins after the last commit of the witness that is still there, and ends at a commit that was.
    fn check_range(&mut self, partition: PartitionId, kept_seq: u64, seen_seq: u64, events: &[Event]) {
        let kept = self.losses.kept.get(&partition).copied().unwrap_or_default();
        let by = events.first().and_then(|event| event.by.strip_prefix('n')?.parse::<u64>().ok());
        let is_kept = |(id, it): &(&CommitId, &Acknowledged)| {
            it.partition == partition
                && Some(it.node / 1_000) == by
                && it.position <= kept
                && it.position.seq <= seen_seq
                && self.applied.contains_key(id)
        };
        let last = self.losses.acknowledged.iter().filter(is_kept).map(|(_, it)| it.position.seq).max();
        if last.is_some_and(|last| last > kept_seq) {
            let what = format!("partition {partition}: lost is said to be all after {kept_seq}, but {last:?} is there");
            self.violation("RI-21", what);
        }
        let highest = self.losses.highest.get(&partition).copied().unwrap_or_default();
        if seen_seq > highest {
            let what =
                format!("partition {partition}: lost is said to be all up to {seen_seq}, but {highest} was the last");
            self.violation("RI-21", what);
        }
    }

    /// RI-1: every lost commit that was acknowledged to a live node is named in the feed.
    pub fn check_losses_named(&mut self) {
        let still_named = self.losses.named.iter().filter(|(_, by)| self.applied.contains_key(by));
        let named: BTreeSet<CommitId> = still_named.map(|(id, _)| *id).collect();
        let unnamed: Vec<String> = self
            .losses
            .acknowledged
            .iter()
            .filter(|(id, _)| !self.applied.contains_key(id) && !named.contains(id))
            .map(|(id, it)| format!("partition {}: {id} at {:?}, of node {}", it.partition, it.position, it.node))
            .collect();
        if let Some(first) = unnamed.first() {
            let what = format!("{} commits are lost that no range names; {first}", unnamed.len());
            self.violation("RI-1", what);
        }
    }
}
