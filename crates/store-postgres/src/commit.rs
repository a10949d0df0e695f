//! One attempt to commit a batch: one pipeline, sent whole, applied whole or not at all.
//!
//! The statements come in a fixed order: take the partition's row, check, remove, write, add the feed entry, commit. A
//! check that fails ends the transaction on the server; why it failed is found out by somebody else.

use crate::column::Param;
use crate::link::{Answers, Link, Step, Unsent};
use crate::sort::{self, Seen, Sets, Sorted};
use crate::sql::{IfThere, Stmt, parts_of};
use crate::verdict::{self, Moment, Verdict};
use tokio_postgres::Error;
use weft_core::PartitionId;
use weft_core::change::{Batch, DueEntry, Head, Position};
use weft_core::schema::Kind;

/// How an attempt ended.
#[derive(Debug)]
pub enum Attempt {
    Applied(Head),
    /// The server has spoken against it, or the connection broke.
    Failed {
        verdict: Verdict,
        why: String,
    },
}

/// How much an attempt looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Care {
    /// Every record that was read. Otherwise the very head that the batch expects is asked for, and no record.
    pub records: bool,
    /// Entries of indexes that may be there already.
    pub entries: IfThere,
}

/// Sends the batch.
pub async fn attempt(link: &mut Link, partition: PartitionId, batch: &Batch, care: Care) -> Attempt {
    let sorted = Sorted::new(batch);
    let seen = if care.records { sort::seen(partition, &batch.reads) } else { Sets::default() };
    let steps = steps(partition, batch, care, &seen, &sorted);
    if let Err(error) = link.prepare(&steps).await {
        return failed(&error, Moment::Unsent);
    }
    let answers = match link.run(&steps).await {
        Ok(answers) => answers,
        Err(Unsent(error)) => return Attempt::Failed { verdict: Verdict::NotApplied, why: verdict::told(&error) },
    };
    match first_error(&answers) {
        Some((error, moment)) => failed(error, moment),
        None => match (link.warnings().first(), position(&answers, batch)) {
            // A wait for a standby that was cut short is told by nothing but a warning.
            (Some(warning), _) => unknown(format!("the server warned: {warning}")),
            (None, Some(position)) => Attempt::Applied(Head { position, last: batch.id, now: batch.now }),
            (None, None) => unknown("the server did not tell the position of a commit".to_owned()),
        },
    }
}

fn failed(error: &Error, moment: Moment) -> Attempt {
    Attempt::Failed { verdict: verdict::of(error, moment), why: verdict::told(error) }
}

fn unknown(why: String) -> Attempt {
    Attempt::Failed { verdict: Verdict::Unknown, why }
}

/// The first statement that failed decides: all behind it were refused because of it.
pub fn first_error(answers: &Answers) -> Option<(&Error, Moment)> {
    let last = answers.len() - 1;
    answers.iter().enumerate().find_map(|(at, answer)| {
        let moment = if at == last { Moment::Commit } else { Moment::Inside };
        answer.as_ref().err().map(|error| (error, moment))
    })
}

/// Where the commit is; its second statement took the place.
fn position(answers: &Answers, batch: &Batch) -> Option<Position> {
    let row = answers.get(1)?.as_ref().ok()?.first()?;
    let seq = row.try_get::<_, i64>(1).ok()?;
    Some(batch.raise.unwrap_or(Position { generation: batch.expect.position.generation, seq: seq as u64 }))
}

fn steps<'a>(
    partition: PartitionId,
    batch: &'a Batch,
    care: Care,
    seen: &'a Sets<Kind, Seen>,
    sorted: &'a Sorted<'a>,
) -> Vec<Step<'a>> {
    let home = Param::Int2(partition.0 as i16);
    let revision = Param::Uuid(batch.id.0);
    let mut steps = vec![Step::bare(Stmt::Begin), take(home, batch, care.records)];
    for (kind, seen) in seen.iter() {
        steps.push(Step::new(Stmt::Unchanged(kind), [home, Param::SeenIds(seen), Param::SeenRevisions(seen)]));
    }
    remove(&mut steps, home, sorted);
    for ((kind, mask), rows) in sorted.inserts.iter() {
        let table = kind.table();
        let facets = (0..table.facets.len()).map(|at| Param::Facet(rows, at));
        let parts = parts_of(table, mask).map(|part| Param::Part(rows, part));
        let params: Vec<_> = [home, revision, Param::Ids(rows)].into_iter().chain(facets).chain(parts).collect();
        steps.push(Step::new(Stmt::Insert(kind, mask), params));
    }
    for ((kind, mask), rows) in sorted.updates.iter() {
        let table = kind.table();
        let moving = table.facets.iter().enumerate().filter(|(_, facet)| !facet.fixed);
        let facets = moving.map(|(at, _)| Param::Facet(rows, at));
        let parts = parts_of(table, mask).map(|part| Param::Part(rows, part));
        let params: Vec<_> = [home, revision, Param::Ids(rows)].into_iter().chain(facets).chain(parts).collect();
        steps.push(Step::new(Stmt::Update(kind, mask), params));
    }
    for (index, rows) in sorted.entries_added.iter() {
        let facets = index.get().facets.iter().map(|at| Param::Facet(rows, *at));
        let params: Vec<_> = [home].into_iter().chain(facets).chain([Param::Ids(rows)]).collect();
        steps.push(Step::new(Stmt::EntryAdd(index, care.entries), params));
    }
    if !sorted.due_added.is_empty() {
        steps.push(Step::new(Stmt::DueAdd(care.entries), due(home, &sorted.due_added)));
    }
    let events = Param::Bytes((!batch.feed.is_empty()).then_some(&batch.feed));
    steps.push(Step::new(Stmt::Feed, [home, revision, events]));
    steps.push(Step::bare(Stmt::Commit));
    steps
}

fn take<'a>(home: Param<'a>, batch: &Batch, checked: bool) -> Step<'a> {
    let least = batch.expect.position.seq as i64;
    let greatest = if checked && !batch.strict { i64::MAX } else { least };
    let int = |number: u64| Param::Int8(Some(number as i64));
    let raise = |part: fn(Position) -> u64| Param::Int8(batch.raise.map(|raise| part(raise) as i64));
    Step::new(
        Stmt::Take,
        [
            home,
            int(batch.expect.position.generation),
            Param::Int8(Some(least)),
            Param::Int8(Some(greatest)),
            Param::Int8(Some(batch.now.as_i64())),
            raise(|position| position.generation),
            raise(|position| position.seq),
            Param::Uuid(batch.id.0),
            Param::Uuid(batch.expect.last.0),
        ],
    )
}

/// Everything that goes, before anything comes: an entry may leave and come back in one commit.
fn remove<'a>(steps: &mut Vec<Step<'a>>, home: Param<'a>, sorted: &'a Sorted<'a>) {
    if !sorted.due_removed.is_empty() {
        steps.push(Step::new(Stmt::DueRemove, due(home, &sorted.due_removed)));
    }
    for (index, rows) in sorted.entries_removed.iter() {
        let facets = index.get().facets.iter().map(|at| Param::Facet(rows, *at));
        let params: Vec<_> = [home].into_iter().chain(facets).chain([Param::Ids(rows)]).collect();
        steps.push(Step::new(Stmt::EntryRemove(index), params));
    }
    for (kind, rows) in sorted.deletes.iter() {
        steps.push(Step::new(Stmt::Delete(kind), [home, Param::Ids(rows)]));
    }
}

/// Adds an entry to the due index outside a commit.
pub async fn insert_due(link: &mut Link, partition: PartitionId, entry: &DueEntry) -> Result<(), weft_store::Error> {
    let rows = [sort::DueRow::from(entry)];
    let home = Param::Int2(partition.0 as i16);
    let steps = [Step::new(Stmt::DueAdd(IfThere::Keep), due(home, &rows))];
    link.prepare(&steps).await.map_err(verdict::of_read)?;
    let answers = link.run(&steps).await.map_err(|unsent| verdict::of_read(unsent.0))?;
    answers.into_iter().try_for_each(|answer| answer.map(drop)).map_err(verdict::of_read)
}

fn due<'a>(home: Param<'a>, rows: &'a [sort::DueRow<'a>]) -> [Param<'a>; 5] {
    [home, Param::DueTimers(rows), Param::DueTimes(rows), Param::DueKinds(rows), Param::DueIds(rows)]
}
