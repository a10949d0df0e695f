//! When the heads of the due index are looked at: all partitions in one call, and each by itself while that call does not
//! show all of them. A look without an answer delays no other look.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_core::{PartitionId, Time};

/// A look that is not answered by then keeps no other one waiting.
pub(super) const LATE_MS: u64 = 1_000;
/// How long the next look waits after one that was not answered.
const RETRY_MS: u64 = 1_000;
/// Other nodes ring for every timer they arm; looking more often than this would not make timers more exact.
const PAUSE_MS: u64 = 100;
/// Looks at single partitions that are under way at a time.
const AT_ONCE: usize = 8;

/// The looks under way, and when the next one begins. Times are of the node's clock.
pub(super) struct Looks {
    /// Time between two looks.
    every_ms: u64,
    next_at: Time,
    /// When the last look at all partitions began.
    began_at: Time,
    /// The look at all partitions is under way.
    joint: bool,
    stage: Stage,
    /// Looks of rounds at single partitions that are under way, by when they began.
    single: BTreeMap<PartitionId, Time>,
    /// Partitions that a look probes. No round waits for a probe, and none takes the place of a look in a round.
    probes: BTreeSet<PartitionId>,
    /// The last round over single partitions was not answered whole.
    is_partial: bool,
}

enum Stage {
    /// Nothing is under way that the next look waits for.
    Idle,
    /// The look at all partitions is waited for.
    Joint,
    /// Partitions that this round still has to look at, and whether all others have answered.
    Round { rest: VecDeque<PartitionId>, is_whole: bool },
}

/// The first call of a look.
pub(super) enum Begin {
    Joint,
    /// The look at all partitions, and a round beside it: the last round was not answered whole, so that this look will hardly be
    /// answered in time.
    Both,
    /// The look at all partitions that began earlier is not answered, so that only a round shows anything.
    Round,
}

impl Looks {
    pub fn new(every_ms: u64, clock: Time) -> Self {
        Self {
            every_ms,
            next_at: clock,
            began_at: Time::ZERO,
            joint: false,
            stage: Stage::Idle,
            single: BTreeMap::new(),
            probes: BTreeSet::new(),
            is_partial: false,
        }
    }

    /// The next look is wanted by then.
    pub fn by(&mut self, at: Time) {
        self.next_at = self.next_at.min(at.max(self.began_at + PAUSE_MS));
    }

    /// When the last look at all partitions began.
    pub fn began_at(&self) -> Time {
        self.began_at
    }

    /// The first call of the next look, if it is time for it.
    pub fn begin(&mut self, clock: Time) -> Option<Begin> {
        if !matches!(self.stage, Stage::Idle) || self.next_at > clock {
            return None;
        }
        (self.began_at, self.next_at) = (clock, clock + self.every_ms);
        if self.joint {
            return Some(Begin::Round);
        }
        (self.joint, self.stage) = (true, Stage::Joint);
        Some(if self.is_partial { Begin::Both } else { Begin::Joint })
    }

    /// Whether the look at all partitions has had no answer for `LATE_MS`.
    pub fn is_late(&self, clock: Time) -> bool {
        matches!(self.stage, Stage::Joint) && clock.since(self.began_at) >= LATE_MS
    }

    /// The look at all partitions has ended.
    pub fn joint_ended(&mut self) {
        self.joint = false;
    }

    /// True if the look at all partitions is still waited for.
    pub fn awaits_joint(&self) -> bool {
        matches!(self.stage, Stage::Joint)
    }

    /// Ends the wait for the look at all partitions. If it `showed_all`, and the last round was answered whole, nothing else
    /// is to be looked at; else a round over these partitions begins, and each of `aside` counts as not answered.
    pub fn joint_over(
        &mut self,
        showed_all: bool,
        mine: Vec<PartitionId>,
        aside: impl Fn(PartitionId) -> bool,
    ) -> bool {
        let needs_round = !showed_all || self.is_partial;
        self.stage = match needs_round {
            false => Stage::Idle,
            true => {
                let under_way = |partition: &PartitionId| self.is_under_way(*partition);
                let count = mine.len();
                let rest: VecDeque<PartitionId> =
                    mine.into_iter().filter(|partition| !aside(*partition) && !under_way(partition)).collect();
                Stage::Round { is_whole: rest.len() == count, rest }
            }
        };
        !needs_round
    }

    /// The single partitions whose look begins now.
    pub fn begin_single(&mut self, clock: Time) -> Vec<PartitionId> {
        let Stage::Round { rest, .. } = &mut self.stage else { return Vec::new() };
        let in_time = self.single.values().filter(|began| clock.since(**began) < LATE_MS).count();
        let begins: Vec<PartitionId> = rest.drain(..rest.len().min(AT_ONCE.saturating_sub(in_time))).collect();
        self.single.extend(begins.iter().map(|partition| (*partition, clock)));
        begins
    }

    /// True if a look at this partition begins now, outside a round. One that is under way serves as well.
    pub fn begin_probe(&mut self, partition: PartitionId) -> bool {
        !self.is_under_way(partition) && self.probes.insert(partition)
    }

    fn is_under_way(&self, partition: PartitionId) -> bool {
        self.single.contains_key(&partition) || self.probes.contains(&partition)
    }

    /// Partitions whose look has had no answer for a second.
    pub fn silent(&self, clock: Time) -> impl Iterator<Item = PartitionId> {
        self.single.iter().filter(move |(_, began)| clock.since(**began) >= LATE_MS).map(|(partition, _)| *partition)
    }

    /// The look at a single partition has ended.
    pub fn single_ended(&mut self, partition: PartitionId, answered: bool) {
        if self.probes.remove(&partition) {
            return;
        }
        self.single.remove(&partition);
        if let Stage::Round { is_whole, .. } = &mut self.stage {
            *is_whole &= answered;
        }
    }

    /// True if the round is over: every look of it has ended or is late.
    pub fn round_over(&mut self, clock: Time) -> bool {
        let Stage::Round { rest, is_whole } = &self.stage else { return false };
        let in_time = self.single.values().any(|began| clock.since(*began) < LATE_MS);
        if !rest.is_empty() || in_time {
            return false;
        }
        self.is_partial = !is_whole || !self.single.is_empty();
        self.stage = Stage::Idle;
        if self.is_partial || self.joint {
            self.next_at = self.next_at.min(clock + RETRY_MS);
        }
        true
    }

    /// The look at all partitions failed: the next one comes soon.
    pub fn retry(&mut self, clock: Time) {
        self.next_at = self.next_at.min(clock + RETRY_MS);
    }

    /// When something is to be begun or given up.
    pub fn wakes_at(&self, clock: Time) -> Time {
        let late = |began: &Time| Some(*began + LATE_MS).filter(|late| *late > clock);
        match &self.stage {
            Stage::Idle => self.next_at,
            Stage::Joint => self.began_at + LATE_MS,
            Stage::Round { .. } => self.single.values().filter_map(late).min().unwrap_or(Time::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u16 = 32;

    fn parts(numbers: impl Iterator<Item = u16>) -> Vec<PartitionId> {
        numbers.map(PartitionId).collect()
    }

    /// Looks whose joint call has failed, so that a round begins.
    fn failed(clock: Time, aside: impl Fn(PartitionId) -> bool) -> Looks {
        let mut looks = Looks::new(1_000, clock);
        assert!(matches!(looks.begin(clock), Some(Begin::Joint)));
        looks.joint_ended();
        looks.retry(clock);
        assert!(!looks.joint_over(false, parts(0..ALL), aside));
        looks
    }

    #[test]
    fn sr_10_a_round_looks_at_eight_partitions_at_a_time_and_leaves_silent_ones_after_a_second() {
        let mut clock = Time::from_ms(5_000);
        let mut looks = failed(clock, |_| false);
        let first = looks.begin_single(clock);
        assert_eq!(first, parts(0..8));
        assert!(looks.begin_single(clock).is_empty());
        looks.single_ended(first[0], true);
        assert_eq!(looks.begin_single(clock), parts(8..9), "the place of one that has answered");
        assert_eq!(looks.wakes_at(clock), clock + LATE_MS);
        clock = clock + LATE_MS;
        assert_eq!(looks.begin_single(clock), parts(9..17), "those that are silent give their places up");
        assert_eq!(looks.silent(clock).count(), 8);
    }

    #[test]
    fn sr_10_sr_17_probes_of_silent_partitions_keep_no_round_open_and_take_no_place_in_it() {
        let mut clock = Time::from_ms(5_000);
        let is_aside = |partition: PartitionId| partition.0 >= 8;
        let mut looks = failed(clock, is_aside);
        for partition in parts(8..ALL) {
            assert!(looks.begin_probe(partition));
            assert!(!looks.begin_probe(partition), "one that is under way serves as well");
        }
        let round = looks.begin_single(clock);
        assert_eq!(round, parts(0..8), "all healthy partitions at once");
        round.iter().for_each(|partition| looks.single_ended(*partition, true));
        assert!(looks.round_over(clock), "no probe is waited for");
        assert_eq!(
            looks.wakes_at(clock),
            clock + RETRY_MS,
            "partitions were left out, so that the next round comes soon"
        );
        looks.single_ended(PartitionId(8), false);
        assert!(looks.begin_probe(PartitionId(8)));

        clock = clock + RETRY_MS;
        assert!(matches!(looks.begin(clock), Some(Begin::Both)), "healthy partitions do not wait for the joint call");
        assert!(!looks.joint_over(false, parts(0..ALL), is_aside));
        assert_eq!(looks.begin_single(clock), parts(0..8));
        parts(0..8).iter().for_each(|partition| looks.single_ended(*partition, true));
        assert!(looks.round_over(clock));
        clock = clock + RETRY_MS;
        assert!(matches!(looks.begin(clock), Some(Begin::Round)), "the joint call has not come back");
    }
}
