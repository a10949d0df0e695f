//! Out of a file, into an empty store.

use super::format::{Next, Reader};
use super::walk::{Walk, heads, verify};
use super::{Error, Origin, Progress, Raw, Step, Summary};
use crate::{Outcome, Resolution, Store};
use bytes::Bytes;
use std::io::{Read, Seek, SeekFrom};
use uuid::Uuid;
use weft_core::change::{Batch, Body, Change, Head, Position, Write};
use weft_core::limits::BYTES_PER_COMMIT_MAX;
use weft_core::record::{Key, Record};
use weft_core::schema::{Due, PartMask};
use weft_core::{CommitId, PartitionId, Time, digest};

/// Largest share of a record that one commit carries; a larger record takes several.
const PIECE_BYTES: usize = BYTES_PER_COMMIT_MAX - (1 << 20);

/// About what a write costs beside its bytes.
const WRITE_BYTES: usize = 160;

/// Reads a file to its end: where it comes from and what it holds. A file that is cut off, damaged or holds a record that
/// cannot be read is refused.
pub fn inspect<R: Read>(source: R, progress: Progress<'_>) -> Result<(Origin, Summary), Error> {
    let mut file = Reader::begin(source)?;
    let mut summary = Summary::default();
    loop {
        match file.next()? {
            Next::Record(record) => {
                record.decode()?;
                summary.add(&record);
                if summary.records().is_multiple_of(256) {
                    progress(Step::Checking, summary.records(), None);
                }
            }
            Next::End(told) if told == summary => return Ok((file.origin, summary)),
            Next::End(_) => return Err(Error::Damaged("it does not hold what its end says".to_owned())),
        }
    }
}

/// Fills an empty store from a file: first the file is read to its end, then every record is written, then the store is
/// read and compared. Breaking it off leaves a store that is not empty and not whole, which a second import refuses.
/// Blocks on `source`.
pub async fn import<S: Store, R: Read + Seek>(
    mut source: R,
    store: &S,
    progress: Progress<'_>,
) -> Result<(Origin, Summary), Error> {
    let begin = source.stream_position()?;
    let (origin, summary) = inspect(&mut source, progress)?;
    let targets = store.describe().partitions.into();
    if origin.heads.len() > targets {
        return Err(Error::TooFew { source_partitions: origin.heads.len(), target_partitions: targets });
    }
    refuse_filled(store).await?;

    source.seek(SeekFrom::Start(begin))?;
    let mut import = Import::new(store, &origin, &summary, store.now().await?);
    let mut file = Reader::begin(&mut source)?;
    let total = summary.records();
    let mut done = 0;
    while let Next::Record(record) = file.next()? {
        import.record(record).await?;
        done += 1;
        if u64::is_multiple_of(done, 256) {
            progress(Step::Importing, done, Some(total));
        }
    }
    import.finish().await?;
    let mut verifying = |_: Step, done: u64, _: Option<u64>| progress(Step::Verifying, done, Some(total));
    let found = verify(store, &mut verifying).await?;
    match summary.difference(&found) {
        None => Ok((origin, summary)),
        Some(difference) => Err(Error::Different(difference)),
    }
}

async fn refuse_filled<S: Store>(store: &S) -> Result<(), Error> {
    for (partition, head) in heads(store).await?.into_iter().enumerate() {
        if head.position != Position::default() {
            let found = format!("partition {partition} of the store has been written to");
            return Err(Error::NotEmpty { found });
        }
    }
    match Walk::new(store).page().await?.and_then(|page| page.into_iter().next()) {
        None => Ok(()),
        Some(record) => {
            Err(Error::NotEmpty { found: format!("the store holds records of `{}`", record.kind.table().name) })
        }
    }
}

/// An import under way: for every partition of the target what waits to be committed there.
struct Import<'s, S> {
    store: &'s S,
    records_max: usize,
    bytes_max: usize,
    /// Makes the commit ids of this import its own.
    seed: [u8; 32],
    commits: u64,
    lanes: Vec<Lane>,
}

struct Lane {
    /// As the last commit left it.
    head: Head,
    /// What the partition's clock had shown in the source; it never goes back.
    now: Time,
    /// Where the partition ends up.
    raise: Position,
    writes: Vec<Write>,
    bytes: usize,
}

impl<'s, S: Store> Import<'s, S> {
    fn new(store: &'s S, origin: &Origin, summary: &Summary, now: Time) -> Self {
        let described = store.describe();
        let heads = &origin.heads;
        let latest = heads.iter().map(|head| head.now).max().unwrap_or(Time::ZERO);
        let generation = heads.iter().map(|head| head.position.generation).max().unwrap_or(0);
        let unknown = Head { position: Position { generation, seq: 0 }, now: latest, ..Head::default() };
        let lane = |partition: u16| {
            let head = heads.get(usize::from(partition)).unwrap_or(&unknown);
            let raise = Position { generation: head.position.generation + 1, seq: head.position.seq + 1 };
            Lane { head: Head::default(), now: head.now, raise, writes: Vec::new(), bytes: 0 }
        };
        Self {
            store,
            records_max: described.batch_records.max(1),
            bytes_max: described.batch_bytes.clamp(1, PIECE_BYTES),
            seed: digest::digest(&[b"import", format!("{now:?} {summary:?} {heads:?}").as_bytes()]),
            commits: 0,
            lanes: (0..described.partitions).map(lane).collect(),
        }
    }

    async fn record(&mut self, raw: Raw) -> Result<(), Error> {
        let record = raw.decode()?;
        if let Record::Dedup(dedup) = &record
            && let Some(signpost) = dedup.signpost(self.lanes.len() as u16)
        {
            let signpost = Record::Dedup(Box::new(signpost));
            let body = Body { facets: signpost.facets(), parts: signpost.encode(PartMask::ALL) };
            self.write(insert(signpost.key(), body, signpost.due())).await?;
        }
        let (key, facets, due) = (record.key(), record.facets(), record.due());
        let mut pieces = pieces(raw.parts).into_iter();
        let first = Body { facets: facets.clone(), parts: pieces.next().unwrap_or_default() };
        self.write(insert(key, first, due)).await?;
        for parts in pieces {
            let body = Body { facets: facets.clone(), parts };
            let what = Change::Update { old: facets.clone(), body };
            // Each in a commit of its own: together they would be as large as the whole.
            self.commit(raw.partition, None).await?;
            self.write(Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }).await?;
        }
        Ok(())
    }

    /// Queues a write, behind a commit of what waits if both do not fit.
    async fn write(&mut self, write: Write) -> Result<(), Error> {
        let partition = write.key.partition();
        let bytes = WRITE_BYTES + payload(&write);
        let lane = &self.lanes[usize::from(partition.0)];
        let full = lane.writes.len() >= self.records_max || lane.bytes + bytes > self.bytes_max;
        if full && !lane.writes.is_empty() {
            self.commit(partition, None).await?;
        }
        let lane = &mut self.lanes[usize::from(partition.0)];
        lane.bytes += bytes;
        lane.writes.push(write);
        Ok(())
    }

    /// Commits what waits, and takes every partition to a generation that the source never had.
    async fn finish(mut self) -> Result<(), Error> {
        for partition in (0..self.lanes.len() as u16).map(PartitionId) {
            let lane = &self.lanes[usize::from(partition.0)];
            let seq = lane.raise.seq.max(lane.head.position.seq + 1);
            let raise = Position { seq, ..lane.raise };
            self.commit(partition, Some(raise)).await?;
        }
        Ok(())
    }

    async fn commit(&mut self, partition: PartitionId, raise: Option<Position>) -> Result<(), Error> {
        let id = self.fresh_id();
        let lane = &mut self.lanes[usize::from(partition.0)];
        lane.bytes = 0;
        // A record that comes in pieces was begun by the commit right before.
        let seen = |write: &Write| (write.key, matches!(write.what, Change::Update { .. }).then_some(lane.head.last));
        let reads = lane.writes.iter().map(seen).collect();
        let batch = Batch {
            id,
            expect: lane.head,
            fast: true,
            strict: true,
            now: lane.now,
            raise,
            reads,
            writes: std::mem::take(&mut lane.writes),
            due_drops: Vec::new(),
            feed: Bytes::new(),
            lanes: Vec::new(),
        };
        let failed = |why: String| Error::Commit { partition, why };
        lane.head = match self.store.commit(partition, batch).await {
            Outcome::Applied { head } => head,
            Outcome::Lost { .. } => return Err(failed("the store has lost what it had taken".to_owned())),
            Outcome::Conflict { .. } => return Err(failed("somebody else writes to the store".to_owned())),
            Outcome::NotApplied { source, .. } => return Err(failed(source.to_string())),
            Outcome::Unknown { source } => match self.store.resolve(partition, id).await? {
                Resolution::Applied { position } => Head { position, last: id, now: lane.now },
                Resolution::NotApplied => return Err(failed(source.to_string())),
            },
        };
        Ok(())
    }

    fn fresh_id(&mut self) -> CommitId {
        self.commits += 1;
        let digest = digest::digest(&[&self.seed, &self.commits.to_be_bytes()]);
        CommitId(Uuid::from_bytes(*digest.first_chunk().expect("import: a digest has 32 bytes")))
    }
}

fn insert(key: Key, body: Body, due_add: Vec<Due>) -> Write {
    Write { key, what: Change::Insert(body), due_add, due_remove: Vec::new() }
}

/// The parts of a record, cut so that each piece fits into a commit.
fn pieces(parts: Vec<(u8, Bytes)>) -> Vec<Vec<(u8, Option<Bytes>)>> {
    let mut pieces = vec![Vec::new()];
    let mut bytes = 0;
    for (part, content) in parts {
        if bytes > 0 && bytes + content.len() > PIECE_BYTES {
            pieces.push(Vec::new());
            bytes = 0;
        }
        bytes += content.len();
        pieces.last_mut().expect("import: there is a first piece").push((part, Some(content)));
    }
    pieces
}

fn payload(write: &Write) -> usize {
    match &write.what {
        Change::Insert(body) | Change::Update { body, .. } => {
            body.parts.iter().map(|(_, bytes)| bytes.as_ref().map_or(0, Bytes::len)).sum()
        }
        Change::Delete { .. } => 0,
    }
}
