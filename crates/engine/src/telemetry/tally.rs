//! What the events of one commit add up to. Made when the commit is sealed, on the partition's own thread, and handed
//! over whole once the commit is applied: a busy node pays one lock per commit and none per event.

use super::flows::FlowTally;
use weft_core::change::{Change, Write};
use weft_core::event::{Event, Fact};
use weft_core::record::attempt::AttemptKind;
use weft_core::record::dead_letter::Why;
use weft_core::record::execution::{EndCause, Outcome};
use weft_core::record::{DeadLetter, Key, Record};
use weft_core::schema::{Value, execution as schema};
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};

/// How the kinds of attempts and the outcomes are told apart in arrays.
pub const ATTEMPT_KINDS: [AttemptKind; 4] =
    [AttemptKind::Initial, AttemptKind::Retry, AttemptKind::Reclaim, AttemptKind::Replay];
pub const OUTCOMES: [Outcome; 5] =
    [Outcome::Success, Outcome::Failed, Outcome::Cancelled, Outcome::Expired, Outcome::Skipped];

/// Longer messages of failures are cut: many are kept, and whoever wants all of one reads the attempt.
const MESSAGE_MAX: usize = 300;

/// What happened in one lane of one namespace. Times are in milliseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Cell {
    pub namespace: Text,
    pub lane: Text,
    pub submitted: u32,
    pub claimed: [u32; ATTEMPT_KINDS.len()],
    pub finished: [u32; OUTCOMES.len()],
    pub retried: u32,
    /// From claimable to claimed.
    pub waits: Vec<u64>,
    /// Leased time of attempts that ended.
    pub runs: Vec<u64>,
    /// From submitted to ended.
    pub totals: Vec<u64>,
}

impl Cell {
    pub fn new(namespace: Text, lane: Text) -> Self {
        Self {
            namespace,
            lane,
            submitted: 0,
            claimed: [0; ATTEMPT_KINDS.len()],
            finished: [0; OUTCOMES.len()],
            retried: 0,
            waits: Vec::new(),
            runs: Vec::new(),
            totals: Vec::new(),
        }
    }
}

/// An attempt that failed, as people look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub execution: ExecutionId,
    pub kind: Text,
    pub lane: Text,
    pub attempt: u32,
    pub category: Text,
    pub message: Text,
    pub at: Time,
}

/// One commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub at: Time,
    /// By namespace and lane.
    pub cells: Vec<Cell>,
    /// Where the last event was counted: neighbours are mostly alike.
    pub(super) last: usize,
    /// With their namespaces.
    pub failures: Vec<(Text, Failure)>,
    pub lost: Vec<EndCause>,
    /// Executions that were leased by the commit that made them.
    pub handoffs: u32,
    /// Letters of items that were parked.
    pub parked: Vec<DeadLetter>,
    pub flows: FlowTally,
}

impl Tally {
    pub fn of(events: &[Event], at: Time) -> Self {
        let mut tally = Self { at, ..Self::default() };
        for event in events {
            tally.count(event);
        }
        tally
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.parked.is_empty()
    }

    fn count(&mut self, event: &Event) {
        self.flows.count(event);
        match &event.fact {
            Fact::Submitted { .. } => self.cell(&event.namespace, &event.lane).submitted += 1,
            Fact::Claimed { kind, waited_ms, .. } => {
                let cell = self.cell(&event.namespace, &event.lane);
                cell.claimed[*kind as usize] += 1;
                cell.waits.push(*waited_ms);
            }
            Fact::RetryScheduled { .. } => self.cell(&event.namespace, &event.lane).retried += 1,
            Fact::Finished { outcome, duration_ms, .. } => {
                let cell = self.cell(&event.namespace, &event.lane);
                cell.finished[*outcome as usize] += 1;
                cell.totals.push(*duration_ms);
            }
            Fact::LeaseLost { cause, .. } | Fact::Revoked { cause, .. } => self.lost.push(*cause),
            _ => {}
        }
    }

    /// Counts what the records of the commit tell and its events do not.
    pub fn look_at(&mut self, writes: &[Write], records: &[(Key, Option<Record>)]) {
        self.flows.look_at(writes, records);
        for write in writes {
            if let (Key::Execution(_), Change::Insert(body)) = (&write.key, &write.what)
                && matches!(body.facets.get(schema::STATE), Some(Value::Text(state)) if &**state == "active")
            {
                self.handoffs += 1;
            }
            // The log line of poison is that of the scanner that removed it.
            if let (Key::DeadLetter(..), Change::Insert(_)) = (&write.key, &write.what)
                && let Ok(at) = records.binary_search_by_key(&write.key, |(key, _)| *key)
                && let Some(Record::DeadLetter(letter)) = &records[at].1
                && letter.body.why != Why::Poison
            {
                self.parked.push((**letter).clone());
            }
        }
        // Both lie in the order of the ids, executions before attempts: one walk finds the execution of every attempt.
        let mut owner = 0;
        for (key, record) in records {
            let (Key::Attempt(id, _), Some(Record::Attempt(attempt))) = (key, record) else { continue };
            let wanted = Key::Execution(*id);
            while records[owner].0 < wanted {
                owner += 1;
            }
            if let (found, Some(Record::Execution(execution))) = &records[owner]
                && *found == wanted
            {
                let spec = &execution.spec;
                self.cell(&spec.namespace, &spec.lane).runs.push(attempt.active_ms);
                if let Some(failure) = &attempt.failure {
                    let failure = Failure {
                        execution: *id,
                        kind: spec.kind.clone(),
                        lane: spec.lane.clone(),
                        attempt: attempt.index,
                        category: failure.category.clone(),
                        message: cut(&failure.message),
                        at: attempt.ended_at.unwrap_or(self.at),
                    };
                    self.failures.push((spec.namespace.clone(), failure));
                }
            }
        }
    }

    fn cell(&mut self, namespace: &Text, lane: &Text) -> &mut Cell {
        let is = |cell: &Cell| cell.lane == *lane && cell.namespace == *namespace;
        if !self.cells.get(self.last).is_some_and(is) {
            let place = self.cells.binary_search_by(|cell| (&cell.namespace, &cell.lane).cmp(&(namespace, lane)));
            self.last = place.unwrap_or_else(|free| {
                self.cells.insert(free, Cell::new(namespace.clone(), lane.clone()));
                free
            });
        }
        &mut self.cells[self.last]
    }
}

fn cut(message: &Text) -> Text {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((at, _)) => message[..at].into(),
        None => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use weft_core::PartitionId;
    use weft_core::record::execution::{PublicState, Reason};

    fn event(namespace: &str, lane: &str, fact: Fact) -> Event {
        Event {
            at: Time::from_ms(7),
            execution: Some(ExecutionId::new(PartitionId(0), Uuid::from_u128(1))),
            flow: None,
            namespace: namespace.into(),
            lane: lane.into(),
            kind: "k".into(),
            epoch: 1,
            by: "ann".into(),
            fact,
        }
    }

    fn submitted() -> Fact {
        Fact::Submitted { public_state: PublicState::Waiting, priority: 0, start_at: None, deadline_at: None }
    }

    fn finished(outcome: Outcome, category: Option<&str>) -> Fact {
        Fact::Finished {
            outcome,
            reason: Reason::Worker,
            attempt: Some(2),
            attempts: 3,
            category: category.map(Text::from),
            message: category.map(Text::from),
            result_bytes: None,
            duration_ms: 40,
            from_state: PublicState::Active,
        }
    }

    #[test]
    fn ops_10_events_add_up_by_namespace_and_lane() {
        let events = [
            event("b", "mail", submitted()),
            event("a", "mail", submitted()),
            event("b", "mail", submitted()),
            event("a", "", finished(Outcome::Success, None)),
            event("a", "mail", finished(Outcome::Failed, Some("crash"))),
        ];
        let tally = Tally::of(&events, Time::from_ms(9));
        let shown: Vec<_> = tally.cells.iter().map(|cell| (&*cell.namespace, &*cell.lane, cell.submitted)).collect();
        assert_eq!(shown, [("a", "", 0), ("a", "mail", 1), ("b", "mail", 2)]);
        assert_eq!(tally.cells[1].finished, [0, 1, 0, 0, 0]);
        assert_eq!(tally.cells[1].totals, [40]);
    }

    #[test]
    fn long_messages_are_cut_between_letters() {
        assert_eq!(cut(&"é".repeat(400).into()).chars().count(), MESSAGE_MAX);
        assert_eq!(&*cut(&"short".into()), "short");
    }

    #[test]
    fn ops_10_the_arrays_are_in_the_order_of_their_enums() {
        for (at, kind) in ATTEMPT_KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
        for (at, outcome) in OUTCOMES.into_iter().enumerate() {
            assert_eq!(outcome as usize, at);
        }
    }
}
