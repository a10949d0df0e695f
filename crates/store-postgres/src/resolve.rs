//! Whether a commit was applied, and the bar that keeps it from ever being so if it was not. One transaction.
//!
//! The partition's row is taken first, so a lost commit whose backend still runs has either ended before, or finds the
//! bar when its turn comes.

use crate::column::Param;
use crate::commit::first_error;
use crate::link::{Link, Step, Unsent};
use crate::sql::Stmt;
use crate::verdict::{self, Moment, Verdict};
use std::sync::Arc;
use weft_core::change::Position;
use weft_core::{CommitId, PartitionId};
use weft_store::{Error, Resolution};

pub async fn resolve(link: &mut Link, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
    let home = Param::Int2(partition.0 as i16);
    let steps = [
        Step::bare(Stmt::Begin),
        Step::new(Stmt::Lock, [home]),
        Step::new(Stmt::Resolve, [home, Param::Uuid(id.0)]),
        Step::bare(Stmt::Commit),
    ];
    link.prepare(&steps).await.map_err(|error| failed(&error, Moment::Unsent))?;
    let answers = link.run(&steps).await.map_err(|Unsent(error)| failed(&error, Moment::Unsent))?;
    if let Some((error, moment)) = first_error(&answers) {
        return Err(failed(error, moment));
    }
    if let Some(warning) = link.warnings().first() {
        return Err(Error::Indeterminate(source(format!("the server warned: {warning}"))));
    }
    let row = answers[2].as_ref().ok().and_then(|rows| rows.first());
    let Some(row) = row else { return Err(Error::unavailable("the server did not tell what it resolved")) };
    let number = |at: usize| row.try_get::<_, Option<i64>>(at).map_err(verdict::of_read);
    Ok(match (number(0)?, number(1)?) {
        (Some(generation), Some(seq)) => {
            Resolution::Applied { position: Position { generation: generation as u64, seq: seq as u64 } }
        }
        _ => Resolution::NotApplied,
    })
}

fn failed(error: &tokio_postgres::Error, moment: Moment) -> Error {
    match verdict::of(error, moment) {
        Verdict::Unknown => Error::Indeterminate(source(verdict::told(error))),
        _ => Error::unavailable(verdict::told(error)),
    }
}

pub fn source(why: String) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(why))
}
