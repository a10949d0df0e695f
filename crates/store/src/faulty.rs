//! A store that fails on purpose: it wraps a sound one and loses, doubles, delays or denies calls and their answers.
//!
//! Same seed, same calls in the same order, same faults. It breaks no promise of the seam: whatever it answers, a store
//! behind a bad network may answer too.

use crate::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use weft_core::change::Batch;
use weft_core::planted::{self, Defect};
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};

/// Time and tasks, given from outside so that a simulator can drive them.
pub trait Sleeper: Send + Sync {
    fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// How often each fault happens, in calls per thousand, and how long things take. The default is no fault, no delay.
///
/// The rates of one verb are added up: a call meets at most one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults {
    /// The commit is answered as a conflict on everything it read, and is not carried out.
    pub commit_conflict: u16,
    /// The commit is refused, and is not carried out.
    pub commit_not_applied: u16,
    /// The commit is carried out and its answer is lost.
    pub commit_unknown_applied: u16,
    /// The commit is lost on its way; the sender cannot know.
    pub commit_unknown_lost: u16,
    /// The sender gets `Unknown` at once; the commit is carried out after `late_ms`, if nobody has barred it by then.
    pub commit_late: u16,
    /// The commit is carried out twice; the first answer arrives.
    pub commit_twice: u16,
    /// `read`, `scan` and `now` fail.
    pub read_error: u16,
    /// A page of a scan ends before its limit and says that there is more.
    pub page_cut: u16,
    /// `resolve` fails and did nothing.
    pub resolve_error: u16,
    /// `resolve` does its work and its answer is lost.
    pub resolve_unknown: u16,
    /// A call takes `slow_ms` longer. It comes on top of other faults.
    pub slow: u16,
    /// A wake never arrives.
    pub wake_lost: u16,
    /// A wake arrives twice.
    pub wake_doubled: u16,
    /// A wake names another partition.
    pub wake_astray: u16,
    /// Between the call and its work; least and most.
    pub before_ms: (u64, u64),
    /// Between the work and its answer; least and most.
    pub after_ms: (u64, u64),
    pub slow_ms: (u64, u64),
    pub late_ms: (u64, u64),
    /// Every call about this partition, or about all, waits for `slow_ms` and fails; a commit of it is lost on its way.
    pub silent: Option<PartitionId>,
}

/// A store with faults in front of it.
pub struct Faulty<S> {
    inner: Arc<S>,
    dice: Arc<Dice>,
    sleeper: Arc<dyn Sleeper>,
}

/// What can go wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    CommitConflict,
    CommitNotApplied,
    CommitUnknownApplied,
    CommitUnknownLost,
    CommitLate,
    CommitTwice,
    ReadError,
    ResolveError,
    ResolveUnknown,
    Silence,
    WakeLost,
    WakeDoubled,
    WakeAstray,
}

impl Fault {
    /// The name it is counted under: that of its rate.
    const fn name(self) -> &'static str {
        match self {
            Fault::CommitConflict => "commit_conflict",
            Fault::CommitNotApplied => "commit_not_applied",
            Fault::CommitUnknownApplied => "commit_unknown_applied",
            Fault::CommitUnknownLost => "commit_unknown_lost",
            Fault::CommitLate => "commit_late",
            Fault::CommitTwice => "commit_twice",
            Fault::ReadError => "read_error",
            Fault::ResolveError => "resolve_error",
            Fault::ResolveUnknown => "resolve_unknown",
            Fault::Silence => "silence",
            Fault::WakeLost => "wake_lost",
            Fault::WakeDoubled => "wake_doubled",
            Fault::WakeAstray => "wake_astray",
        }
    }

    fn injected(self) -> Injected {
        Injected(self.name())
    }
}

impl Faults {
    /// `rates`, or nothing but silence if the call reaches the silent partition; without a partition it reaches all.
    fn at(&self, partition: Option<PartitionId>, rates: Vec<(Fault, u16)>) -> Vec<(Fault, u16)> {
        match self.silent {
            Some(silent) if partition.is_none_or(|partition| partition == silent) => vec![(Fault::Silence, 1000)],
            _ => rates,
        }
    }

    fn of_reads(&self) -> Vec<(Fault, u16)> {
        vec![(Fault::ReadError, self.read_error)]
    }

    fn of_commits(&self) -> Vec<(Fault, u16)> {
        vec![
            (Fault::CommitConflict, self.commit_conflict),
            (Fault::CommitNotApplied, self.commit_not_applied),
            (Fault::CommitUnknownApplied, self.commit_unknown_applied),
            (Fault::CommitUnknownLost, self.commit_unknown_lost),
            (Fault::CommitLate, self.commit_late),
            (Fault::CommitTwice, self.commit_twice),
        ]
    }

    fn of_resolves(&self) -> Vec<(Fault, u16)> {
        vec![(Fault::ResolveError, self.resolve_error), (Fault::ResolveUnknown, self.resolve_unknown)]
    }

    fn of_wakes(&self) -> Vec<(Fault, u16)> {
        vec![
            (Fault::WakeLost, self.wake_lost),
            (Fault::WakeDoubled, self.wake_doubled),
            (Fault::WakeAstray, self.wake_astray),
        ]
    }
}

/// What an injected failure says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("injected fault: {0}")]
pub struct Injected(pub &'static str);

impl<S: Store> Faulty<S> {
    pub fn new(inner: Arc<S>, faults: Faults, seed: u64, sleeper: Arc<dyn Sleeper>) -> Self {
        let rolls = Rolls { faults, random: ChaCha8Rng::seed_from_u64(seed), counts: BTreeMap::new() };
        Self { inner, dice: Arc::new(Dice(Mutex::new(rolls))), sleeper }
    }

    pub fn inner(&self) -> &Arc<S> {
        &self.inner
    }

    pub fn faults(&self) -> Faults {
        self.dice.lock().faults
    }

    /// Takes effect with the next call.
    pub fn set_faults(&self, faults: Faults) {
        self.dice.lock().faults = faults;
    }

    /// How often each fault was injected, by name.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.dice.lock().counts.clone()
    }

    async fn pause(&self, ms: u64) {
        if ms > 0 {
            self.sleeper.sleep(ms).await;
        }
    }

    /// Carries a read out between its delays, unless it fails.
    async fn reading<T>(&self, plan: Plan, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.pause(plan.before_ms).await;
        let answer = match plan.fault {
            Some(fault) => Err(Error::unavailable(fault.injected())),
            None => read.await,
        };
        self.pause(plan.after_ms).await;
        answer
    }

    async fn committing(&self, partition: PartitionId, batch: Batch, plan: &Plan) -> Outcome {
        let Some(fault) = plan.fault else { return self.inner.commit(partition, batch).await };
        match fault {
            Fault::CommitConflict => self.conflict(partition, batch).await,
            Fault::CommitUnknownLost | Fault::Silence => unknown(fault),
            Fault::CommitUnknownApplied => self.answer_lost(partition, batch).await,
            Fault::CommitLate => {
                self.deliver_late(partition, batch, plan.late_ms);
                unknown(fault)
            }
            Fault::CommitTwice => {
                let first = self.inner.commit(partition, batch.clone()).await;
                self.inner.commit(partition, batch).await;
                first
            }
            _ => not_applied(fault),
        }
    }

    async fn conflict(&self, partition: PartitionId, batch: Batch) -> Outcome {
        match self.inner.read(partition, Vec::new()).await {
            Ok(read) => {
                let keys = batch.reads.iter().map(|(key, _)| *key).collect();
                Outcome::Conflict { keys, head: read.head }
            }
            Err(_) => not_applied(Fault::CommitConflict),
        }
    }

    async fn answer_lost(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let repeated = planted::on(Defect::CommitRepeated).then(|| batch.clone());
        let outcome = self.inner.commit(partition, batch).await;
        if !matches!(outcome, Outcome::Applied { .. }) {
            self.dice.count("commit_unknown_refused");
        }
        match repeated {
            Some(batch) => self.repeat(partition, batch).await,
            None => unknown(Fault::CommitUnknownApplied),
        }
    }

    /// The planted defect: an adapter that sends the commit again, at the position it has learnt meanwhile.
    async fn repeat(&self, partition: PartitionId, mut batch: Batch) -> Outcome {
        let Ok(read) = self.inner.read(partition, Vec::new()).await else {
            return unknown(Fault::CommitUnknownApplied);
        };
        batch.expect = read.head;
        batch.fast = true;
        batch.now = batch.now.max(read.head.now);
        self.inner.commit(partition, batch).await
    }

    fn deliver_late(&self, partition: PartitionId, batch: Batch, late_ms: u64) {
        let (inner, dice) = (self.inner.clone(), self.dice.clone());
        let delay = (late_ms > 0).then(|| self.sleeper.sleep(late_ms));
        self.sleeper.spawn(Box::pin(async move {
            if let Some(delay) = delay {
                delay.await;
            }
            dice.count(match inner.commit(partition, batch).await {
                Outcome::Applied { .. } => "commit_late_applied",
                _ => "commit_late_refused",
            });
        }));
    }

    /// Cuts the pages of a scan short. At least one entry stays, so that whoever pages on makes progress.
    fn cut(&self, pages: &mut [Page]) {
        let mut rolls = self.dice.lock();
        let rate = rolls.faults.page_cut;
        for page in pages.iter_mut().filter(|page| page.entries.len() > 1) {
            if rolls.hit(rate) {
                let kept = 1 + rolls.below(page.entries.len() as u64 - 1) as usize;
                page.entries.truncate(kept);
                page.more = true;
                rolls.count("page_cut");
            }
        }
    }
}

impl<S: Store> Store for Faulty<S> {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        let plan = self.dice.plan(|faults| faults.at(Some(partition), faults.of_reads()));
        self.reading(plan, self.inner.read(partition, keys)).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        let plan = self.dice.plan(|faults| faults.at(partition, faults.of_reads()));
        let mut pages = self.reading(plan, self.inner.scan(partition, scan)).await?;
        self.cut(&mut pages);
        Ok(pages)
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        let plan = self.dice.plan(|faults| faults.at(Some(partition), faults.of_commits()));
        self.pause(plan.before_ms).await;
        let outcome = self.committing(partition, batch, &plan).await;
        self.pause(plan.after_ms).await;
        outcome
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        let plan = self.dice.plan(|faults| faults.at(Some(partition), faults.of_resolves()));
        self.pause(plan.before_ms).await;
        let answer = match plan.fault {
            None => self.inner.resolve(partition, id).await,
            Some(Fault::ResolveUnknown) => {
                let lost = Error::Indeterminate(Arc::new(Fault::ResolveUnknown.injected()));
                self.inner.resolve(partition, id).await.and(Err(lost))
            }
            Some(fault) => Err(Error::unavailable(fault.injected())),
        };
        self.pause(plan.after_ms).await;
        answer
    }

    fn watch(&self) -> Wakes {
        let mut wakes = self.inner.watch();
        let (sender, receiver) = mpsc::unbounded_channel();
        let dice = self.dice.clone();
        let partitions = u64::from(self.describe().partitions);
        self.sleeper.spawn(Box::pin(async move {
            while let Some(mut wake) = wakes.recv().await {
                let copies = match dice.wake_fault() {
                    Some(Fault::WakeLost) => 0,
                    Some(Fault::WakeDoubled) => 2,
                    Some(_) => {
                        wake.partition = PartitionId(dice.lock().below(partitions) as u16);
                        1
                    }
                    None => 1,
                };
                if (0..copies).any(|_| sender.send(wake.clone()).is_err()) {
                    break;
                }
            }
        }));
        receiver
    }

    async fn now(&self) -> Result<Time, Error> {
        self.reading(self.dice.plan(Faults::of_reads), self.inner.now()).await
    }

    fn describe(&self) -> Description {
        self.inner.describe()
    }
}

/// Where the faults come from. The lock is never held over an await.
struct Dice(Mutex<Rolls>);

struct Rolls {
    faults: Faults,
    random: ChaCha8Rng,
    counts: BTreeMap<&'static str, u64>,
}

/// What one call will meet, drawn in one go before it starts, so that it does not depend on what runs meanwhile.
struct Plan {
    fault: Option<Fault>,
    before_ms: u64,
    after_ms: u64,
    /// The delay of a commit that is carried out late.
    late_ms: u64,
}

impl Dice {
    fn lock(&self) -> MutexGuard<'_, Rolls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, name: &'static str) {
        self.lock().count(name);
    }

    fn plan(&self, rates: impl Fn(&Faults) -> Vec<(Fault, u16)>) -> Plan {
        let mut rolls = self.lock();
        let faults = rolls.faults;
        let fault = rolls.pick(&rates(&faults));
        let slow = rolls.hit(faults.slow) || fault == Some(Fault::Silence);
        let slow_ms = rolls.between(faults.slow_ms);
        let before_ms = rolls.between(faults.before_ms);
        let after_ms = rolls.between(faults.after_ms);
        let late_ms = rolls.between(faults.late_ms);
        if slow {
            rolls.count("slow");
        }
        Plan { fault, before_ms: before_ms + if slow { slow_ms } else { 0 }, after_ms, late_ms }
    }

    fn wake_fault(&self) -> Option<Fault> {
        let mut rolls = self.lock();
        let rates = rolls.faults.of_wakes();
        rolls.pick(&rates)
    }
}

impl Rolls {
    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// At most one of the faults, each with its rate; a hit is counted.
    fn pick(&mut self, rates: &[(Fault, u16)]) -> Option<Fault> {
        let mut roll = self.below(1000);
        for (fault, rate) in rates {
            if roll < u64::from(*rate) {
                self.count(fault.name());
                return Some(*fault);
            }
            roll -= u64::from(*rate);
        }
        None
    }

    fn hit(&mut self, rate: u16) -> bool {
        self.below(1000) < u64::from(rate)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound.max(1)
    }

    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }
}

fn not_applied(fault: Fault) -> Outcome {
    Outcome::NotApplied { retry_after_ms: 1, source: Arc::new(fault.injected()) }
}

fn unknown(fault: Fault) -> Outcome {
    Outcome::Unknown { source: Arc::new(fault.injected()) }
}
