//! The thread that owns the only connection that writes. Takes commits in order, answers each after its transaction.
//!
//! Batches of different partitions that wait at the same time share a transaction, and so an fsync; two of the same
//! partition never do. After an error of the disk nothing is written any more.

use crate::commit::{Applier, Decision};
use crate::connection;
use crate::log::Log;
use crate::options::{OnIoError, OpenError};
use crate::stats::{Counters, add};
use crate::verdict::{self, FULL_RETRY_MS, Moment, Verdict};
use rusqlite::{Connection, Error, Result, Statement};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use weft_core::change::{Batch, DueEntry, Head};
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Full, Outcome, Resolution};

/// A transaction takes in no further batch once it carries this much.
const GROUP_BYTES: usize = 8 << 20;

/// How long the thread looks for the next job before it sleeps.
const LOOK: Duration = Duration::from_micros(150);

const STOPPED: &str = "the store writes nothing any more, because the disk failed or the file is damaged";

type Resolved = std::result::Result<Resolution, weft_store::Error>;

pub enum Job {
    Commit(Commit),
    Resolve {
        partition: PartitionId,
        id: CommitId,
        now: Time,
        answer: oneshot::Sender<Resolved>,
    },
    /// Lets the file grow to so many bytes.
    Limit {
        bytes: u64,
        answer: oneshot::Sender<Result<()>>,
    },
    /// Adds an entry of the due index outside a commit.
    InsertDue {
        partition: PartitionId,
        entry: DueEntry,
        answer: oneshot::Sender<Result<()>>,
    },
    /// The file has been found damaged.
    Damaged(String),
    Stop,
}

pub struct Commit {
    pub partition: PartitionId,
    /// Shared with the caller, who lets go of it last: taking a batch apart is no work for the only thread that writes.
    pub batch: Arc<Batch>,
    pub answer: oneshot::Sender<Outcome>,
}

/// Starts the thread, and waits until it has prepared its statements.
pub fn spawn(
    connection: Connection,
    path: &Path,
    partitions: u16,
    counters: Arc<Counters>,
    on_io_error: OnIoError,
) -> std::result::Result<(Sender<Job>, JoinHandle<()>), OpenError> {
    let (sender, jobs) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let started = thread::Builder::new().name("weft-write".to_owned()).spawn(move || {
        match Writer::new(&connection, partitions, &counters, on_io_error) {
            Ok(writer) => {
                drop(ready.send(Ok(())));
                writer.run(&jobs);
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
    let thread = started.map_err(OpenError::Thread)?;
    let prepared = is_ready.recv().expect("writer: the thread reports before it ends");
    prepared.map_err(|source| OpenError::sqlite(path, source))?;
    Ok((sender, thread))
}

/// The next job. Looks for it a little while before it sleeps: the answer to one commit often brings the next, and
/// waking a thread takes longer than that.
fn next(jobs: &Receiver<Job>) -> Option<Job> {
    let began = Instant::now();
    while began.elapsed() < LOOK {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => thread::yield_now(),
        }
    }
    jobs.recv().ok()
}

struct Writer<'c> {
    connection: &'c Connection,
    counters: &'c Counters,
    on_io_error: OnIoError,
    begin: Statement<'c>,
    commit: Statement<'c>,
    applier: Applier<'c>,
    log: Log<'c>,
    partitions: u16,
    stopped: bool,
}

/// An error that concerns the whole transaction, and where it came up.
type Broken = (Error, Moment);

impl<'c> Writer<'c> {
    fn new(
        connection: &'c Connection,
        partitions: u16,
        counters: &'c Counters,
        on_io_error: OnIoError,
    ) -> Result<Self> {
        Ok(Self {
            connection,
            counters,
            on_io_error,
            begin: connection.prepare("begin immediate")?,
            commit: connection.prepare("commit")?,
            applier: Applier::new(connection, partitions)?,
            log: Log::new(connection)?,
            partitions,
            stopped: false,
        })
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        let mut held = None;
        while let Some(job) = held.take().or_else(|| next(jobs)) {
            match job {
                Job::Commit(first) => {
                    let group;
                    (group, held) = self.gather(first, jobs);
                    self.commit_group(group);
                }
                // Whoever asked may be gone; a failed send is no error here and below.
                Job::Resolve { partition, id, now, answer } => drop(answer.send(self.resolve(partition, id, now))),
                Job::Limit { bytes, answer } => drop(answer.send(connection::limit(self.connection, bytes))),
                Job::InsertDue { partition, entry, answer } => {
                    drop(answer.send(self.applier.insert_due(partition, &entry)));
                }
                Job::Damaged(what) => self.stop(&format!("the store is damaged ({what}); restore a backup")),
                Job::Stop => break,
            }
            self.tend_log();
        }
        if !self.stopped
            && let Err(error) = self.log.close()
        {
            tracing::warn!(%error, "could not empty the write-ahead log; the next start does it");
        }
    }

    /// The commits that can share a transaction with `first`, and the job that came after them.
    fn gather(&self, first: Commit, jobs: &Receiver<Job>) -> (Vec<Commit>, Option<Job>) {
        let mut weight = first.batch.weight();
        let mut group = vec![first];
        while group.len() < usize::from(self.partitions) && weight < GROUP_BYTES {
            match jobs.try_recv() {
                Ok(Job::Commit(next)) if group.iter().all(|commit| commit.partition != next.partition) => {
                    weight += next.batch.weight();
                    group.push(next);
                }
                Ok(other) => return (group, Some(other)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    fn commit_group(&mut self, group: Vec<Commit>) {
        if self.stopped {
            return answer_all(group, || Outcome::NotApplied { retry_after_ms: 1000, source: source(STOPPED) });
        }
        match self.transact(&group) {
            Ok(decisions) => {
                add(&self.counters.transactions, 1);
                for (commit, decision) in group.into_iter().zip(decisions) {
                    let outcome = self.outcome(&commit, decision);
                    drop(commit.batch);
                    drop(commit.answer.send(outcome));
                }
            }
            Err(broken) => {
                let verdict = self.broke(&broken);
                let error: Arc<dyn std::error::Error + Send + Sync> = Arc::new(broken.0);
                answer_all(group, || outcome_of(verdict, error.clone()));
            }
        }
    }

    /// One transaction for all of them. A batch that fails on its own is rolled back alone.
    fn transact(&mut self, group: &[Commit]) -> std::result::Result<Vec<Result<Decision>>, Broken> {
        let inside = |error| (error, Moment::Inside);
        self.begin.execute([]).map_err(inside)?;
        let mut decisions = Vec::with_capacity(group.len());
        for commit in group {
            let decision = match group.len() {
                1 => self.applier.commit(commit.partition, &commit.batch).map_err(inside)?,
                _ => match self.commit_apart(commit).map_err(inside)? {
                    Ok(decision) => decision,
                    Err(error) => {
                        decisions.push(Err(error));
                        continue;
                    }
                },
            };
            decisions.push(Ok(decision));
        }
        self.commit.execute([]).map_err(|error| (error, Moment::Commit))?;
        Ok(decisions)
    }

    /// The batch under a savepoint: the inner error is of this batch only.
    fn commit_apart(&mut self, commit: &Commit) -> Result<Result<Decision>> {
        self.connection.execute_batch("savepoint batch")?;
        let decision = self.applier.commit(commit.partition, &commit.batch);
        match decision {
            Err(error) if verdict::of(&error, Moment::Inside) != Verdict::NotApplied => return Err(error),
            Err(_) => self.connection.execute_batch("rollback to batch; release batch")?,
            Ok(_) => self.connection.execute_batch("release batch")?,
        }
        Ok(decision)
    }

    /// The answer to a batch whose transaction is durable.
    fn outcome(&mut self, commit: &Commit, decision: Result<Decision>) -> Outcome {
        match decision {
            Ok(Decision::Applied(head)) => {
                self.applier.settle(commit.partition, commit.batch.id, head);
                add(&self.counters.commits, 1);
                add(&self.counters.records_written, commit.batch.writes.len() as u64);
                Outcome::Applied { head }
            }
            Ok(Decision::Repeated(head)) => Outcome::Applied { head },
            Ok(Decision::Conflict { keys, head }) => Outcome::Conflict { keys, head },
            Ok(Decision::Lost { head }) => Outcome::Lost { head },
            Ok(Decision::Refused(why)) => Outcome::NotApplied { retry_after_ms: 0, source: source(why) },
            Err(error) => outcome_of(Verdict::NotApplied, Arc::new(error)),
        }
    }

    fn resolve(&mut self, partition: PartitionId, id: CommitId, now: Time) -> Resolved {
        if self.stopped {
            return Err(weft_store::Error::unavailable(STOPPED));
        }
        match self.try_resolve(partition, id, now) {
            Ok(None) => Err(weft_store::Error::refused(format!("there is no partition {partition}"))),
            Ok(Some((resolution, head))) => {
                if let Some(head) = head {
                    self.applier.settle_bar(partition, id, head);
                }
                Ok(resolution)
            }
            Err(broken) => match self.broke(&broken) {
                Verdict::Unknown | Verdict::Disk => Err(weft_store::Error::Indeterminate(Arc::new(broken.0))),
                Verdict::Wait { .. } | Verdict::Full | Verdict::NotApplied => {
                    Err(weft_store::Error::unavailable(broken.0))
                }
            },
        }
    }

    fn try_resolve(
        &mut self,
        partition: PartitionId,
        id: CommitId,
        now: Time,
    ) -> std::result::Result<Option<(Resolution, Option<Head>)>, Broken> {
        let inside = |error| (error, Moment::Inside);
        self.begin.execute([]).map_err(inside)?;
        let resolved = self.applier.resolve(partition, id, now).map_err(inside)?;
        self.commit.execute([]).map_err(|error| (error, Moment::Commit))?;
        Ok(resolved)
    }

    /// Cleans up after a transaction that broke, and says what that means for its batches.
    fn broke(&mut self, (error, moment): &Broken) -> Verdict {
        let verdict = verdict::of(error, *moment);
        if verdict == Verdict::Disk {
            self.stop_after(error);
            return verdict;
        }
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            self.stop_after(&error);
            return Verdict::Unknown;
        }
        // A commit that may have happened has moved its head or has not: only the file knows.
        if let Err(error) = self.applier.reload() {
            self.stop_after(&error);
        }
        verdict
    }

    fn tend_log(&mut self) {
        if self.stopped {
            return;
        }
        match self.log.tend(self.counters) {
            Err(error) if verdict::of(&error, Moment::Commit) == Verdict::Disk => self.stop_after(&error),
            // The pages stay in the log, where they are as durable; the next commit tries again.
            Err(error) => tracing::warn!(%error, "could not copy the write-ahead log into the file"),
            Ok(()) => {}
        }
    }

    /// Writes nothing from here on: another fsync could report success over pages that are lost.
    fn stop_after(&mut self, error: &Error) {
        self.stop(&format!("the disk under the store failed, so it stops; the next start recovers: {error}"));
    }

    fn stop(&mut self, line: &str) {
        self.stopped = true;
        tracing::error!("{line}");
        (self.on_io_error)(line);
    }
}

fn outcome_of(verdict: Verdict, source: Arc<dyn std::error::Error + Send + Sync>) -> Outcome {
    match verdict {
        Verdict::Wait { retry_after_ms } => Outcome::NotApplied { retry_after_ms, source },
        Verdict::Full => {
            Outcome::NotApplied { retry_after_ms: FULL_RETRY_MS, source: Arc::new(Full(source.to_string())) }
        }
        Verdict::NotApplied => Outcome::NotApplied { retry_after_ms: 0, source },
        Verdict::Unknown | Verdict::Disk => Outcome::Unknown { source },
    }
}

fn answer_all(group: Vec<Commit>, outcome: impl Fn() -> Outcome) {
    for commit in group {
        drop(commit.batch);
        drop(commit.answer.send(outcome()));
    }
}

pub fn source(text: &str) -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations;
    use bytes::Bytes;
    use uuid::Uuid;
    use weft_core::ExecutionId;
    use weft_core::change::{Body, Change, Write};
    use weft_core::record::Key;
    use weft_core::schema::{Kind, Type, Value};

    fn insert(partition: u16, number: u128, sound: bool) -> Write {
        let facets = Kind::Execution.table().facets.iter().map(|facet| match facet.ty {
            _ if !sound || facet.nullable => Value::Null,
            Type::Int => Value::Int(0),
            Type::Text => Value::Text("".into()),
            Type::Bytes => Value::bytes(b""),
        });
        let key = Key::Execution(ExecutionId::new(PartitionId(partition), Uuid::from_u128(number)));
        let body = Body { facets: facets.collect(), parts: Vec::new() };
        Write { key, what: Change::Insert(body), due_add: Vec::new(), due_remove: Vec::new() }
    }

    fn commit(partition: u16, writes: Vec<Write>) -> Commit {
        let batch = Batch {
            id: CommitId(Uuid::from_u128(partition.into())),
            expect: Head::default(),
            fast: true,
            strict: false,
            now: Time::ZERO,
            raise: None,
            reads: Vec::new(),
            writes,
            due_drops: Vec::new(),
            feed: Bytes::new(),
            lanes: Vec::new(),
        };
        Commit { partition: PartitionId(partition), batch: Arc::new(batch), answer: oneshot::channel().0 }
    }

    #[test]
    fn a_batch_that_fails_half_way_is_rolled_back_alone() {
        let connection = Connection::open_in_memory().unwrap();
        migrations::prepare(&connection, Path::new("x"), None, 3).unwrap();
        let counters = Counters::default();
        let mut writer = Writer::new(&connection, 3, &counters, Box::new(|_| ())).unwrap();
        let group = [
            commit(0, vec![insert(0, 1, true)]),
            commit(1, vec![insert(1, 2, true), insert(1, 3, false)]),
            commit(2, vec![insert(2, 4, true)]),
        ];
        let decisions = writer.transact(&group).unwrap();
        let applied: Vec<bool> = decisions.iter().map(|found| matches!(found, Ok(Decision::Applied(_)))).collect();
        assert_eq!(applied, [true, false, true]);
        let rows = "select group_concat(partition order by partition) from executions";
        assert_eq!(connection.query_row(rows, [], |row| row.get::<_, String>(0)).unwrap(), "0,2");
        let feed = "select group_concat(partition order by partition) from feed";
        assert_eq!(connection.query_row(feed, [], |row| row.get::<_, String>(0)).unwrap(), "0,2");
    }

    #[test]
    fn only_batches_of_different_partitions_share_a_transaction() {
        let connection = Connection::open_in_memory().unwrap();
        migrations::prepare(&connection, Path::new("x"), None, 3).unwrap();
        let counters = Counters::default();
        let writer = Writer::new(&connection, 3, &counters, Box::new(|_| ())).unwrap();
        let (sender, jobs) = mpsc::channel();
        for partition in [1, 0, 2] {
            sender.send(Job::Commit(commit(partition, Vec::new()))).unwrap();
        }
        let (group, held) = writer.gather(commit(0, Vec::new()), &jobs);
        let partitions: Vec<u16> = group.iter().map(|commit| commit.partition.0).collect();
        assert_eq!(partitions, [0, 1]);
        assert!(matches!(held, Some(Job::Commit(next)) if next.partition == PartitionId(0)));
    }

    #[test]
    fn rl_78_a_damaged_file_is_written_no_more() {
        let connection = Connection::open_in_memory().unwrap();
        migrations::prepare(&connection, Path::new("x"), None, 1).unwrap();
        let (told, lines) = mpsc::channel();
        let counters = Counters::default();
        let tell = Box::new(move |line: &str| told.send(line.to_owned()).unwrap());
        let writer = Writer::new(&connection, 1, &counters, tell).unwrap();
        let (sender, jobs) = mpsc::channel();
        let (answer, mut answered) = oneshot::channel();
        sender.send(Job::Damaged("page 7 is lost".to_owned())).unwrap();
        sender.send(Job::Commit(Commit { answer, ..commit(0, Vec::new()) })).unwrap();
        sender.send(Job::Stop).unwrap();
        writer.run(&jobs);
        assert!(lines.recv().unwrap().contains("page 7 is lost"));
        assert!(matches!(answered.try_recv(), Ok(Outcome::NotApplied { .. })));
    }
}
