//! Finds out why a commit was refused, in one snapshot: head, keys and the id itself as of one moment. Only reads.

use crate::column::Param;
use crate::link::{Link, Step, Unsent};
use crate::sort::{self, Seen, Sets};
use crate::sql::Stmt;
use crate::verdict;
use tokio_postgres::{Error, Row};
use weft_core::change::{Batch, Head, Position};
use weft_core::limits::{BYTES_PER_COMMIT_MAX, RECORDS_PER_COMMIT_MAX};
use weft_core::record::Key;
use weft_core::schema::Kind;
use weft_core::{CommitId, PartitionId, Time};

/// Why a batch is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Barred,
    /// This id was applied before, and left this head.
    Repeated(Head),
    Conflict {
        keys: Vec<Key>,
        head: Head,
    },
    /// The batch is built on a commit that is not there.
    Lost {
        head: Head,
    },
    Refused(&'static str),
    /// Nothing speaks against it any more.
    None {
        head: Head,
    },
}

/// True if the batch cannot be applied whatever the store holds, so that there is no use in sending it.
pub fn is_hopeless(partition: PartitionId, batch: &Batch) -> bool {
    shape_error(partition, batch).is_some()
        || batch.raise.is_some_and(|raise| raise <= batch.expect.position)
        || sort::misplaced(partition, &batch.reads).next().is_some()
}

fn shape_error(partition: PartitionId, batch: &Batch) -> Option<&'static str> {
    if batch.writes.len() > RECORDS_PER_COMMIT_MAX || batch.weight() > BYTES_PER_COMMIT_MAX {
        return Some("the commit is larger than a store has to take");
    }
    let foreign = batch.writes.iter().any(|write| write.key.partition() != partition);
    foreign.then_some("the commit names a record of another partition")
}

/// Weighs the batch against what the store holds, in the same order as every store does.
pub async fn diagnose(link: &mut Link, partition: PartitionId, batch: &Batch) -> Result<Reason, String> {
    let home = Param::Int2(partition.0 as i16);
    let seen = sort::seen(partition, &batch.reads);
    let standing = [home, Param::Uuid(batch.id.0), Param::Uuid(batch.expect.last.0)];
    let mut steps = vec![Step::bare(Stmt::BeginRead), Step::new(Stmt::Standing, standing)];
    for (kind, seen) in seen.iter() {
        steps.push(Step::new(Stmt::Changed(kind), [home, Param::SeenIds(seen), Param::SeenRevisions(seen)]));
    }
    steps.push(Step::bare(Stmt::Commit));
    link.prepare(&steps).await.map_err(|error| verdict::told(&error))?;
    let answers = link.run(&steps).await.map_err(|Unsent(error)| verdict::told(&error))?;
    let answers: Result<Vec<Vec<Row>>, Error> = answers.into_iter().collect();
    let weighed = answers.and_then(|answers| weigh(partition, batch, &seen, &answers));
    weighed.map_err(|error| verdict::told(&error))
}

fn weigh(
    partition: PartitionId,
    batch: &Batch,
    seen: &Sets<Kind, Seen>,
    answers: &[Vec<Row>],
) -> Result<Reason, Error> {
    let Some(standing) = answers[1].first() else { return Ok(Reason::Refused("there is no such partition")) };
    let head = head_of(standing, 0)?;
    if standing.try_get(4)? {
        return Ok(Reason::Barred);
    }
    if standing.try_get::<_, Option<i64>>(5)?.is_some() {
        return Ok(Reason::Repeated(head_of(standing, 5)?));
    }
    let expect = batch.expect;
    let holds = expect.is_at(&head);
    if head.has_lost(&expect, standing.try_get(9)?) {
        return Ok(Reason::Lost { head });
    }
    if expect.position.generation != head.position.generation || batch.now < head.now || (batch.strict && !holds) {
        return Ok(Reason::Conflict { keys: Vec::new(), head });
    }
    if !(batch.fast && holds) {
        let keys = differing(partition, batch, seen, &answers[2..])?;
        if !keys.is_empty() {
            return Ok(Reason::Conflict { keys, head });
        }
    }
    if let Some(why) = shape_error(partition, batch) {
        return Ok(Reason::Refused(why));
    }
    if batch.raise.is_some_and(|raise| raise <= head.position) {
        return Ok(Reason::Refused("the commit raises the partition to where it already is"));
    }
    Ok(Reason::None { head })
}

fn differing(
    partition: PartitionId,
    batch: &Batch,
    seen: &Sets<Kind, Seen>,
    answers: &[Vec<Row>],
) -> Result<Vec<Key>, Error> {
    let mut keys: Vec<Key> = sort::misplaced(partition, &batch.reads).collect();
    for ((_, seen), rows) in seen.iter().zip(answers) {
        for row in rows {
            let number: i64 = row.try_get(0)?;
            keys.push(seen[number as usize - 1].key);
        }
    }
    Ok(keys)
}

/// A head from four columns: generation, seq, now, last.
pub fn head_of(row: &Row, first: usize) -> Result<Head, Error> {
    let number = |at: usize| row.try_get::<_, i64>(first + at).map(|number| number as u64);
    let position = Position { generation: number(0)?, seq: number(1)? };
    Ok(Head { position, last: CommitId(row.try_get(first + 3)?), now: Time::from_ms(number(2)?) })
}
