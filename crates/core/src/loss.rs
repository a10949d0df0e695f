//! What is done when a store turns out to have lost acknowledged commits: the generation is raised once, which fences
//! whatever the lost commits handed out, and the loss is told in the feed in the place of what is gone.

use crate::change::{Batch, Head, Position};
use crate::event::{self, Event, Fact};
use crate::id::{CommitId, ExecutionId, PartitionId};
use crate::planted::{self, Defect};
use crate::time::Time;

/// Positions that are left free between the last one anybody saw and the first of the next generation, so that none is
/// ever used twice.
pub const GAP: u64 = 1 << 20;

/// Executions that the event names at most.
pub const NAMED_MAX: usize = 10_000;

/// A partition that somebody saw at `seen` is not that far, nor has anybody who saw as much raised it since.
pub fn is_proof(seen: Position, shown: Position) -> bool {
    match shown.generation.cmp(&seen.generation) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Equal => shown.seq < seen.seq,
        std::cmp::Ordering::Greater => !is_raised(seen, shown),
    }
}

/// Somebody who saw as much has raised the partition, so that what was lost up to `seen` is fenced and told.
pub fn is_raised(seen: Position, shown: Position) -> bool {
    shown.generation > seen.generation && shown.seq >= seen.seq + GAP
}

/// What a witness can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    pub partition: PartitionId,
    /// How far it has seen the partition.
    pub seen: Position,
    /// The last of what it saw that is still there.
    pub kept_seq: u64,
    /// Executions that it knows to have changed in the lost range.
    pub executions: Vec<ExecutionId>,
}

impl Witness {
    /// The one commit that follows from the proof. It applies only if the partition still stands at `shown`.
    pub fn raise(mut self, id: CommitId, shown: Head, by: &str, now: Time) -> Batch {
        self.executions.truncate(NAMED_MAX);
        let now = now.max(shown.now);
        let step = u64::from(!planted::on(Defect::GenerationNotRaised));
        let generation = shown.position.generation.max(self.seen.generation) + step;
        let raised = Position { generation, seq: self.seen.seq.max(shown.position.seq) + GAP };
        let fact = Fact::StoreDataLost {
            partition: self.partition.0,
            generation,
            kept_seq: self.kept_seq,
            seen_seq: self.seen.seq,
            executions: self.executions,
        };
        let empty: crate::text::Text = "".into();
        let event = Event {
            at: now,
            execution: None,
            flow: None,
            namespace: empty.clone(),
            lane: empty.clone(),
            kind: empty,
            epoch: 0,
            by: by.into(),
            fact,
        };
        Batch {
            id,
            expect: shown,
            fast: true,
            strict: true,
            now,
            raise: Some(raised),
            reads: Vec::new(),
            writes: Vec::new(),
            due_drops: Vec::new(),
            feed: event::encode(&[event]),
            lanes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(generation: u64, seq: u64) -> Position {
        Position { generation, seq }
    }

    #[test]
    fn rl_16_seeing_more_than_the_store_shows_is_proof() {
        for (shown, proof) in [
            (at(2, 99), true),
            (at(2, 100), false),
            (at(2, 101), false),
            (at(1, 5_000), true),
            // Raised by somebody who had seen less, and by somebody who had seen as much.
            (at(3, 99 + GAP), true),
            (at(3, 100 + GAP), false),
            (at(4, 100 + 3 * GAP), false),
        ] {
            assert_eq!(is_proof(at(2, 100), shown), proof, "{shown:?}");
        }
    }

    #[test]
    fn rl_17_a_raise_leads_beyond_everything_that_was_seen_and_tells_the_range() {
        let witness = Witness { partition: PartitionId(3), seen: at(2, 100), kept_seq: 90, executions: Vec::new() };
        let shown = Head { position: at(2, 90), now: Time::from_ms(50), ..Head::default() };
        let batch = witness.clone().raise(CommitId(uuid::Uuid::from_u128(7)), shown, "node-a", Time::from_ms(40));
        assert_eq!((batch.expect, batch.raise, batch.strict), (shown, Some(at(3, 100 + GAP)), true));
        assert_eq!(batch.now, Time::from_ms(50), "time does not go back");
        assert!(!is_proof(witness.seen, batch.raise.unwrap()), "the same witness raises once");
        let events = event::decode(&batch.feed).unwrap();
        let expected =
            Fact::StoreDataLost { partition: 3, generation: 3, kept_seq: 90, seen_seq: 100, executions: Vec::new() };
        assert_eq!(events.into_iter().map(|event| event.fact).collect::<Vec<_>>(), [expected]);
    }
}
