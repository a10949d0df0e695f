//! One random stream of calls through two stores, whose answers must be the same.
//!
//! The stream is made of legal batches only: fixed facets never change, a record has each timer once, an index has no
//! null, and text holds no NUL. The reference tells what is there; the other store must agree at every call, and in a dump
//! every hundred. The last partition is kept for flows: there the rules make the batches, once on what each store holds,
//! and both must come to the same.

mod draw;
mod flows;
mod graph;
mod rules;
mod stream;

use crate::{Outcome, Read, Resolution, Scan, Store, conformance};
use draw::Draw;
use flows::Flows;
use std::collections::BTreeMap;
use stream::{Call, Stream};
use weft_core::change::{Batch, Head};
use weft_core::error::Rejection;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId};

/// How often whole dumps are compared.
const DUMP_EVERY: usize = 100;

/// How many calls of a hundred are about flows.
const ABOUT_FLOWS: usize = 40;

/// A verb that has not succeeded within this many calls never does.
const ALL_VERBS_WITHIN: usize = 20_000;

/// How often each kind of answer came, so that a test can tell whether the stream reached them all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub applied: usize,
    /// Arrivals of a commit that was applied before.
    pub repeated: usize,
    pub conflicts: usize,
    /// Conflicts for which no record is to blame.
    pub head_conflicts: usize,
    pub lost: usize,
    pub refused: usize,
    pub found: usize,
    pub barred: usize,
    pub reads: usize,
    pub scans: usize,
    /// Entries that scans returned.
    pub entries: usize,
    /// Commands of flows and their members that went through, by verb.
    pub commands: BTreeMap<&'static str, usize>,
    /// Commands that the rules refused.
    pub rejected: usize,
}

impl Report {
    /// Verbs of which no command went through.
    fn missing(&self) -> Vec<&'static str> {
        flows::VERBS.into_iter().filter(|verb| !self.commands.contains_key(verb)).collect()
    }
}

/// Drives `calls` calls through both stores, and more until every verb has succeeded once. The stores must be empty and have
/// as many partitions, at least two. Panics where they differ, where a verb never succeeds, and where a command is refused
/// because it would have broken an invariant, with the seed and the call.
pub async fn run<R: Store, S: Store>(reference: &R, other: &S, seed: u64, calls: usize) -> Report {
    let partitions = reference.describe().partitions;
    assert_eq!(partitions, other.describe().partitions, "both stores have as many partitions");
    assert!(partitions >= 2, "one partition is kept for flows");
    let mut pair = Pair { reference, other, seed, call: 0, report: Report::default() };
    let mut stream = Stream::new(seed, partitions - 1);
    let mut flows = Flows::new(seed, PartitionId(partitions - 1));
    let mut which = Draw::new(seed);
    let mut call = 0;
    while call < calls || !pair.report.missing().is_empty() {
        assert!(
            call < calls.max(ALL_VERBS_WITHIN),
            "seed {seed}: no command went through of {:?}",
            pair.report.missing()
        );
        pair.call = call;
        match which.chance(ABOUT_FLOWS) {
            true => pair.command(&mut flows).await,
            false => match stream.next(reference).await {
                Call::Commit(partition, batch) => pair.commit(partition, batch, &mut stream).await,
                Call::Resolve(partition, id) => pair.resolve(partition, id, &mut stream).await,
                Call::Read(partition, keys) => pair.read(partition, keys).await,
                Call::Scan(partition, scan) => pair.scan(partition, scan).await,
            },
        }
        call += 1;
        if call.is_multiple_of(DUMP_EVERY) {
            pair.dumps(partitions).await;
        }
    }
    pair.dumps(partitions).await;
    pair.report
}

/// An outcome as far as stores have to agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Applied(Head),
    Repeated(Head),
    Conflict(Vec<Key>, Head),
    Lost(Head),
    NotApplied,
    Unknown,
}

fn verdict(outcome: Outcome, repeated: bool) -> Verdict {
    match outcome {
        Outcome::Applied { head } if repeated => Verdict::Repeated(head),
        Outcome::Applied { head } => Verdict::Applied(head),
        Outcome::Conflict { mut keys, head } => {
            keys.sort_unstable();
            Verdict::Conflict(keys, head)
        }
        Outcome::Lost { head } => Verdict::Lost(head),
        Outcome::NotApplied { .. } => Verdict::NotApplied,
        Outcome::Unknown { .. } => Verdict::Unknown,
    }
}

struct Pair<'a, R, S> {
    reference: &'a R,
    other: &'a S,
    seed: u64,
    call: usize,
    report: Report,
}

impl<R: Store, S: Store> Pair<'_, R, S> {
    async fn commit(&mut self, partition: PartitionId, batch: Batch, stream: &mut Stream) {
        let repeated = stream.was_applied(partition, batch.id);
        let expected = verdict(self.reference.commit(partition, batch.clone()).await, repeated);
        let answer = verdict(self.other.commit(partition, batch.clone()).await, repeated);
        self.same(&expected, &answer, || format!("commit to {partition:?} of {batch:?}"));
        match expected {
            Verdict::Applied(_) => {
                self.report.applied += 1;
                stream.applied(partition, batch);
            }
            Verdict::Repeated(_) => self.report.repeated += 1,
            Verdict::Conflict(keys, _) if keys.is_empty() => self.report.head_conflicts += 1,
            Verdict::Conflict(..) => self.report.conflicts += 1,
            Verdict::Lost(_) => self.report.lost += 1,
            Verdict::NotApplied => self.report.refused += 1,
            Verdict::Unknown => panic!("the reference knows what became of a commit"),
        }
    }

    /// A command about flows, as the engine would run it on each of the stores.
    async fn command(&mut self, flows: &mut Flows) {
        let asked = flows.next(self.reference).await;
        let expected = rules::run(self.reference, &asked).await;
        let answer = rules::run(self.other, &asked).await;
        self.same(&expected, &answer, || format!("what comes of {:?}", asked.call));
        if let Some(batch) = &expected.batch {
            let outcomes = [
                verdict(self.reference.commit(asked.partition, batch.clone()).await, false),
                verdict(self.other.commit(asked.partition, batch.clone()).await, false),
            ];
            self.same(&outcomes[0], &outcomes[1], || format!("commit of {:?} as {batch:?}", asked.call));
            assert!(
                matches!(outcomes[0], Verdict::Applied(_)),
                "a commit that nothing speaks against: {:?}",
                outcomes[0]
            );
        }
        match &expected.reply {
            Ok(_) => *self.report.commands.entry(asked.call.command.verb()).or_default() += 1,
            Err(broken @ Rejection::Internal { .. }) => {
                panic!("the rules break at seed {}, call {}: {:?}: {broken:?}", self.seed, self.call, asked.call)
            }
            Err(_) => self.report.rejected += 1,
        }
        flows.told(&asked, &expected);
        self.scan(Some(asked.partition), flows.scan()).await;
    }

    async fn resolve(&mut self, partition: PartitionId, id: CommitId, stream: &mut Stream) {
        let expected = self.reference.resolve(partition, id).await.expect("the reference resolves");
        let answer = self.other.resolve(partition, id).await.expect("the other store resolves");
        self.same(&expected, &answer, || format!("resolve {id} in {partition:?}"));
        match expected {
            Resolution::Applied { .. } => self.report.found += 1,
            Resolution::NotApplied => {
                self.report.barred += 1;
                stream.barred(partition, id);
            }
        }
        let heads = (self.head(self.reference, partition).await, self.head(self.other, partition).await);
        self.same(&heads.0, &heads.1, || format!("head of {partition:?} after resolve {id}"));
    }

    async fn head<T: Store>(&self, store: &T, partition: PartitionId) -> Head {
        store.read(partition, Vec::new()).await.expect("a read without keys succeeds").head
    }

    async fn read(&mut self, partition: PartitionId, keys: Vec<(Key, PartMask)>) {
        let expected: Read = self.reference.read(partition, keys.clone()).await.expect("the reference reads");
        let answer = self.other.read(partition, keys.clone()).await.expect("the other store reads");
        self.same(&expected, &answer, || format!("read in {partition:?} of {keys:?}"));
        self.report.reads += 1;
    }

    async fn scan(&mut self, partition: Option<PartitionId>, scan: Scan) {
        let expected = self.reference.scan(partition, scan.clone()).await.expect("the reference scans");
        let answer = self.other.scan(partition, scan.clone()).await.expect("the other store scans");
        self.same(&expected, &answer, || format!("scan in {partition:?}: {scan:?}"));
        self.report.scans += 1;
        self.report.entries += expected.iter().map(|page| page.entries.len()).sum::<usize>();
    }

    async fn dumps(&self, partitions: u16) {
        for partition in (0..partitions).map(PartitionId) {
            let expected = conformance::dump(self.reference, partition).await;
            let answer = conformance::dump(self.other, partition).await;
            for (expected, answer) in expected.iter().zip(&answer) {
                self.same(expected, answer, || format!("dump of {partition:?}"));
            }
            self.same(&expected.len(), &answer.len(), || format!("length of the dump of {partition:?}"));
            let heads = (self.head(self.reference, partition).await, self.head(self.other, partition).await);
            self.same(&heads.0, &heads.1, || format!("head of {partition:?}"));
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&self, expected: &T, answer: &T, what: impl Fn() -> String) {
        let (seed, call) = (self.seed, self.call);
        assert!(
            expected == answer,
            "stores differ at seed {seed}, call {call}: {}\nreference: {expected:?}\nother:     {answer:?}",
            what()
        );
    }
}
