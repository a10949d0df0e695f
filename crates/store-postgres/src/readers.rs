//! The connections that reads share, and reading records by their keys. Never writes.

use crate::column::Param;
use crate::connect;
use crate::diagnosis::head_of;
use crate::link::{Link, Step};
use crate::options::Options;
use crate::pool::{Pool, Use};
use crate::scan;
use crate::sql::Stmt;
use crate::stats::Counters;
use crate::verdict;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;
use weft_core::PartitionId;
use weft_core::record::{Key, KeyBytes};
use weft_core::schema::{Kind, PartMask};
use weft_store::{Error, Found, Read};

/// A few connections, opened when first needed.
pub struct Readers {
    pool: Pool,
    call_timeout: Duration,
}

impl Readers {
    pub fn new(options: Options, first: Link, counters: Arc<Counters>) -> Self {
        let call_timeout = options.call_timeout;
        let pool = Pool::new(Use::Read, options, counters);
        pool.put(first);
        Self { pool, call_timeout }
    }

    pub fn connections(&self) -> (usize, usize) {
        self.pool.connections()
    }

    /// Runs a call on a connection of its own. One that breaks off is closed, whoever gives up.
    pub async fn with<T>(&self, call: impl AsyncFnOnce(&mut Link) -> Result<T, Error>) -> Result<T, Error> {
        let work = async {
            let mut taken = self.pool.take().await.map_err(Error::unavailable)?;
            let answer = call(&mut taken.link).await;
            if answer.is_ok() || taken.link.is_alive().await {
                taken.give_back();
            }
            answer
        };
        connect::within(self.call_timeout, "read", work).await.map_err(Error::unavailable)?
    }
}

/// Keys of one kind of which the same parts are wanted, with their places in the question.
struct Group {
    kind: Kind,
    mask: PartMask,
    places: Vec<usize>,
    keys: Vec<KeyBytes>,
}

fn groups(partition: PartitionId, keys: &[(Key, PartMask)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let own = keys.iter().enumerate().filter(|(_, (key, _))| key.partition() == partition);
    for (place, (key, mask)) in own {
        let kind = key.kind();
        // Bits beyond the parts of the kind would make the same statement anew.
        let mask = PartMask(mask.0 & ((1u32 << kind.table().parts.len()) - 1) as u16);
        let at = groups.iter().position(|group| group.kind == kind && group.mask == mask).unwrap_or_else(|| {
            groups.push(Group { kind, mask, places: Vec::new(), keys: Vec::new() });
            groups.len() - 1
        });
        groups[at].places.push(place);
        groups[at].keys.push(key.to_bytes());
    }
    groups
}

/// The records and the head as of one moment: one statement if it can be, otherwise one snapshot in one round trip.
pub async fn read(link: &mut Link, partition: PartitionId, keys: &[(Key, PartMask)]) -> Result<Read, Error> {
    let home = Param::Int2(partition.0 as i16);
    let groups = groups(partition, keys);
    let step = |group: &'_ Group| Stmt::Read(group.kind, group.mask);
    let mut steps: Vec<Step<'_>> =
        groups.iter().map(|group| Step::new(step(group), [home, Param::Keys(&group.keys)])).collect();
    if steps.is_empty() {
        steps.push(Step::new(Stmt::Head, [home]));
    }
    let several = steps.len() > 1;
    if several {
        steps.insert(0, Step::bare(Stmt::BeginRead));
        steps.push(Step::bare(Stmt::Commit));
    }
    link.prepare(&steps).await.map_err(verdict::of_read)?;
    let answers = link.run(&steps).await.map_err(|unsent| verdict::of_read(unsent.0))?;
    let answers: Vec<Vec<Row>> = answers.into_iter().collect::<Result<_, _>>().map_err(verdict::of_read)?;
    let answers = &answers[usize::from(several)..];
    gather(&groups, answers, keys.len())
        .map_err(verdict::of_read)?
        .ok_or_else(|| Error::refused(format!("there is no partition {partition}")))
}

/// `None` if the partition has no row.
fn gather(groups: &[Group], answers: &[Vec<Row>], count: usize) -> Result<Option<Read>, tokio_postgres::Error> {
    let mut found: Vec<Option<Found>> = vec![None; count];
    let Some(first) = answers[0].first() else { return Ok(None) };
    for (group, rows) in groups.iter().zip(answers) {
        for row in rows {
            let Some(number) = row.try_get::<_, Option<i64>>(4)? else { continue };
            let place = group.places[number as usize - 1];
            found[place] = scan::found(row, 5, group.kind.table(), group.mask)?;
        }
    }
    Ok(Some(Read { head: head_of(first, 0)?, found }))
}
