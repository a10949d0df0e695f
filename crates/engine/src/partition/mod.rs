//! The loop of one partition: a state machine without I/O. Commands, answers of the store and wakes go in; store calls
//! come out as effects and replies go to their callers.
//!
//! Commands run on an open batch while the commit before it is on its way, so an idle partition answers after one
//! commit and a busy one shares each commit among many. An answer is sent only after the commit that makes it true.

mod base;
mod cache;
mod claims;
mod commit;
mod complaints;
mod load;
mod loss;
mod ready;
mod seat;
#[cfg(test)]
mod tests;

pub use claims::ClaimJob;
pub use ready::{Class, Heads, LaneKey, QueueKey, after_class, class_of_place, queue_prefix};
pub use seat::Seat;

use crate::client::Urgency;
use crate::clock::Clock;
use crate::config::Config;
use crate::hub::Hub;
use crate::membership::{Membership, Seen};
use crate::runtime::Runtime;
use crate::stats::Counters;
use crate::telemetry::Telemetry;
use base::View;
use cache::Cache;
use claims::Claims;
use commit::{Flying, Open, Settled};
use complaints::Complaints;
use ready::Ready;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::oneshot;
use weft_core::apply::Applied;
use weft_core::change::{Batch, Head, Position};
use weft_core::command::{Call, Command, Expire, Principal};
use weft_core::error::{BusyCause, Rejection};
use weft_core::record::{Key, Record};
use weft_core::schema::{PartMask, Timer};
use weft_core::tx::{List, Miss, Stop, Tx};
use weft_core::{CommitId, ExecutionId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Wake};

/// The answer to one call.
pub type Answer = Result<Applied, Rejection>;

/// Calls that are answered together, in order.
pub struct Job {
    calls: Vec<Call>,
    reply: oneshot::Sender<Vec<Answer>>,
}

impl Job {
    pub fn new(calls: Vec<Call>, reply: oneshot::Sender<Vec<Answer>>) -> Self {
        Self { calls, reply }
    }
}

/// What comes in.
pub enum Input {
    Job(Job),
    Claim(ClaimJob),
    Wake(Wake),
    /// Another node has seen more than the store has just shown.
    Witness {
        seen: Position,
        shown: Head,
    },
    /// Look whether the store still has what this node committed last.
    Verify,
    /// Answer everything that waits and take no more.
    Stop,
}

/// What the store answered.
pub enum Arrival {
    Committed(Outcome),
    Loaded { keys: Vec<(Key, PartMask)>, stamp: u64, turn: u64, read: Result<Read, Error> },
    Scanned(Scanned),
    Resolved(Result<Resolution, Error>),
}

/// The answer to a scan, with what was known when it was asked for.
pub struct Scanned {
    pub tag: ScanTag,
    /// The parts that were asked for: one that is not here was not looked at.
    pub parts: Option<PartMask>,
    pub stamp: u64,
    pub turn: u64,
    pub pages: Result<Vec<Page>, Error>,
}

/// What a scan was for.
#[derive(Clone, Debug)]
pub enum ScanTag {
    /// Which queues of a lane have work.
    Discover(ready::LaneKey),
    /// More of one queue.
    Refill(ready::QueueKey),
    List(List, Option<ExecutionId>),
    /// The executions that a claim call with this reference took.
    ByClaim([u8; 32]),
    /// The commits that a store which lost some still has.
    Kept,
    /// Entries of the feed in which other nodes name losses.
    Named,
    /// The last commit of this node, by its id.
    Own(CommitId),
}

/// What goes out: a store call. The driver brings its answer back.
pub enum Effect {
    Commit(Batch),
    Load { keys: Vec<(Key, PartMask)>, stamp: u64, turn: u64 },
    Scan { tag: ScanTag, scan: Scan, stamp: u64, turn: u64 },
    Resolve { id: CommitId, after_ms: u64 },
}

/// One call on its way.
struct Item {
    job: u64,
    at: usize,
    call: Call,
    /// When it came in: on a shared store an answer without a write must rest on records read since.
    turn: u64,
    /// How often it was run again because an invariant would have broken.
    reloads: u32,
    /// How often it missed something.
    rounds: u32,
    /// How often it was run again after a conflict with another writer.
    reruns: u32,
    /// Work that a commit left, of which one piece or few share a batch.
    left_over: bool,
}

impl Item {
    /// The left-over work that it goes on with.
    fn work(&self) -> Option<(Key, Timer)> {
        match &self.call.command {
            Command::Expire(Expire { key: Some(key), timer, .. }) if self.left_over => Some((*key, *timer)),
            _ => None,
        }
    }
}

struct Waiting {
    answers: Vec<Option<Answer>>,
    left: usize,
    reply: oneshot::Sender<Vec<Answer>>,
}

/// What the loop shares with its node.
pub struct Surroundings {
    pub config: Config,
    pub description: Description,
    pub hub: Arc<Hub>,
    pub counters: Arc<Counters>,
    pub telemetry: Arc<Telemetry>,
    pub clock: Arc<Clock>,
    pub runtime: Arc<dyn Runtime>,
    pub heads: Arc<Heads>,
    pub membership: Arc<Membership>,
    pub seen: Arc<Seen>,
}

pub struct Partition {
    id: PartitionId,
    node: Arc<Surroundings>,
    head: Head,
    /// Grows whenever another node turns out to have written: records loaded before need a check of their own.
    foreign: u64,
    /// Grows with every input.
    turn: u64,
    /// Numbers batches; `acked` is the last one whose outcome is known.
    batch: u64,
    acked: u64,
    now: Time,
    cache: Cache,
    lists: base::Lists,
    queue: VecDeque<Item>,
    /// Work that commits left. It has a queue of its own, or calls would wait behind all of it.
    left: VecDeque<Item>,
    /// What is in it: a piece of work is there once.
    left_works: BTreeSet<(Key, Timer)>,
    /// The last batch had no room for any of it: it comes first in this one.
    left_waited: bool,
    jobs: BTreeMap<u64, Waiting>,
    next_job: u64,
    /// Items that wait for records.
    stalled: Vec<Item>,
    stalled_jobs: BTreeSet<u64>,
    wanted: BTreeMap<Key, PartMask>,
    loading: BTreeMap<Key, PartMask>,
    wanted_lists: BTreeSet<(List, Option<ExecutionId>)>,
    open: Open,
    flying: Option<Flying>,
    settled: Vec<Settled>,
    loss: loss::Loss,
    complaints: Complaints,
    ready: Ready,
    claims: Claims,
    effects: Vec<Effect>,
    effort: Effort,
    /// The last batch was full before all claims had their turn: they come first in this one, or a long row of commands
    /// that fill a batch each would keep them waiting.
    claims_waited: bool,
    stopping: bool,
}

/// What commands cost, counted here and told to the node with the answers.
#[derive(Default)]
struct Effort {
    hits: u64,
    misses: u64,
    reruns: u64,
    violations: u64,
}

impl Partition {
    pub fn new(id: PartitionId, node: Arc<Surroundings>, head: Head) -> Self {
        let cache_bytes = node.config.cache_bytes / usize::from(node.description.partitions.max(1));
        Self {
            id,
            head,
            foreign: 1,
            turn: 1,
            batch: 1,
            acked: 0,
            now: head.now,
            cache: Cache::new(cache_bytes),
            lists: base::Lists::default(),
            queue: VecDeque::new(),
            left: VecDeque::new(),
            left_works: BTreeSet::new(),
            left_waited: false,
            jobs: BTreeMap::new(),
            next_job: 0,
            stalled: Vec::new(),
            stalled_jobs: BTreeSet::new(),
            wanted: BTreeMap::new(),
            loading: BTreeMap::new(),
            wanted_lists: BTreeSet::new(),
            open: Open::default(),
            flying: None,
            settled: Vec::new(),
            loss: loss::Loss::default(),
            complaints: Complaints::default(),
            ready: Ready::new(node.config.window),
            claims: Claims::default(),
            effects: Vec::new(),
            effort: Effort::default(),
            claims_waited: false,
            stopping: false,
            node,
        }
    }

    /// Takes one input. Nothing happens to it before `step`.
    pub fn handle(&mut self, input: Input) {
        self.turn += 1;
        match input {
            Input::Job(job) => self.take_job(job),
            Input::Claim(claim) => self.take_claim(claim),
            Input::Wake(wake) => self.wake(wake),
            Input::Witness { seen, shown } => self.hear_witness(seen, shown),
            Input::Verify => self.verify_own(),
            Input::Stop => self.stop(),
        }
    }

    pub fn arrive(&mut self, arrival: Arrival) {
        self.turn += 1;
        match arrival {
            Arrival::Committed(outcome) => self.committed(outcome),
            Arrival::Resolved(resolution) => self.resolved(resolution),
            Arrival::Loaded { keys, stamp, turn, read } => self.loaded(keys, stamp, turn, read),
            Arrival::Scanned(scanned) => self.scanned(scanned),
        }
    }

    /// Runs what can run, and says which store calls to make. To be called again until it asks for none: a commit is
    /// sent before the batch after it is begun.
    pub fn step(&mut self) -> Vec<Effect> {
        if self.is_given_up() {
            self.refuse_behind();
        } else if !self.seal() {
            // A batch that gathered behind the last commit is complete and encoded, and has gone without delay.
            if std::mem::take(&mut self.left_waited) {
                self.run_left();
            }
            if std::mem::take(&mut self.claims_waited) {
                self.serve_waited();
            }
            self.run_queue();
            self.serve_claims();
            self.run_left();
            if !self.seal() {
                self.open.overlay.encode_ahead();
            }
        }
        self.load_wanted();
        std::mem::take(&mut self.effects)
    }

    /// Sends the answers that the last commit made true. Waiting for them costs the commit behind it nothing. True if
    /// there were any.
    pub fn reply(&mut self) -> bool {
        let told = !self.settled.is_empty();
        for Settled { done, served, tally } in std::mem::take(&mut self.settled) {
            self.answer_all(done, served);
            if let Some(tally) = tally {
                self.node.telemetry.applied(tally);
                self.tell_effort();
            }
        }
        told
    }

    fn tell_effort(&mut self) {
        let Effort { hits, misses, reruns, violations } = std::mem::take(&mut self.effort);
        let telemetry = &self.node.telemetry;
        for (counter, by) in [
            (&telemetry.hits, hits),
            (&telemetry.misses, misses),
            (&telemetry.reruns, reruns),
            (&telemetry.violations, violations),
        ] {
            if by > 0 {
                counter.add(by);
            }
        }
        telemetry.cached(self.id, self.cache.weight());
    }

    /// True if another `step` has work to do although nothing comes in.
    pub fn has_more(&self) -> bool {
        let queued = !self.queue.is_empty() && !self.open.closed;
        (queued || self.claims.has_fresh() || self.can_go_on()) && !self.is_full() && !self.is_given_up()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// True if another input may be taken: the open batch has room, and not too many wait for records. These go on when
    /// the store answers, which needs no input. What is urgent may come on top of a batch of others that wait.
    pub fn has_room(&self, urgency: Urgency) -> bool {
        let stalled_max = match urgency {
            Urgency::Normal => self.node.config.batch_max,
            Urgency::Urgent => self.node.config.batch_max * 2,
        };
        self.queue.len() < 64 && self.stalled.len() < stalled_max && !self.is_full()
    }

    /// Everything has been answered and nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.flying.is_none()
            && self.queue.is_empty()
            && self.left.is_empty()
            && self.stalled.is_empty()
            && self.open.is_empty()
            && !self.loss.is_pending()
    }

    /// When the loop wants to be called although nothing comes in, on the node's clock.
    pub fn next_tick(&self) -> Option<Time> {
        let unknown = self.flying.as_ref().and_then(|flying| flying.give_up_at());
        [unknown, self.recheck_at(), self.claims.retry_at(), self.loss.retry_at()].into_iter().flatten().min()
    }

    pub fn tick(&mut self) {
        let clock = self.node.runtime.clock();
        self.give_up_unknown(clock);
        self.claims.retry_put_off(clock);
        if self.recheck_at().is_some_and(|at| at <= clock) {
            self.recheck_claims(clock);
        }
    }

    /// When the store is looked at for claims that wait. Of several partitions the node looks at all in one call.
    fn recheck_at(&self) -> Option<Time> {
        let alone = !self.node.description.exclusive && self.node.description.partitions == 1;
        self.claims.recheck_at().filter(|_| alone)
    }

    /// Store time for the next command: never less than that of a command before it.
    fn tell_time(&mut self) -> Time {
        self.now = self.now.max(self.node.clock.now()).max(self.head.now);
        self.now
    }

    fn is_full(&self) -> bool {
        self.open.overlay.records() >= self.node.description.batch_records
            || self.open.overlay.weight() >= self.node.description.batch_bytes
            || self.open.done.len() >= self.node.config.batch_max
    }

    fn take_job(&mut self, job: Job) {
        let number = self.next_job;
        self.next_job += 1;
        if job.calls.is_empty() {
            // The caller may have gone.
            let _ = job.reply.send(Vec::new());
            return;
        }
        let count = job.calls.len();
        let waiting = Waiting { answers: (0..count).map(|_| None).collect(), left: count, reply: job.reply };
        self.jobs.insert(number, waiting);
        let turn = self.turn;
        self.queue.extend(job.calls.into_iter().enumerate().map(|(at, call)| Item {
            job: number,
            at,
            call,
            turn,
            reloads: 0,
            rounds: 0,
            reruns: 0,
            left_over: false,
        }));
    }

    /// Takes work further that a commit left. Nobody waits for it.
    fn go_on(&mut self, key: Key, timer: Timer, due: Time) {
        let job = self.next_job;
        self.next_job += 1;
        let entropy = self.node.runtime.random();
        let command = Command::Expire(Expire { key: Some(key), timer, due, entropy });
        let call = Call { principal: Principal::engine(), request_id: None, expected_revision: None, command };
        let item = Item { job, at: 0, call, turn: self.turn, reloads: 0, rounds: 0, reruns: 0, left_over: true };
        if self.left_works.insert((key, timer)) {
            self.left.push_back(item);
        } else if let Some(known) = self.left.iter_mut().find(|known| known.work() == Some((key, timer))) {
            *known = item;
        }
    }

    /// Whether there is left-over work and the batch has room for a piece of it. While one waits for its thousands of
    /// records no other asks for as many.
    fn can_go_on(&self) -> bool {
        let has_room = !self.open.closed && self.open.overlay.records() <= BULKY_ROOM;
        has_room && !self.left.is_empty() && !self.stalled.iter().any(|item| item.left_over)
    }

    /// Does a piece of the work that commits left.
    fn run_left(&mut self) {
        if self.can_go_on()
            && let Some(item) = self.left.pop_front()
        {
            if let Some(work) = item.work() {
                self.left_works.remove(&work);
            }
            self.open.went_on = true;
            self.run_item(item);
        }
    }

    /// Puts an item back to where it came from, in front.
    fn put_back(&mut self, item: Item) {
        match item.work() {
            None => self.queue.push_front(item),
            Some(work) if self.left_works.insert(work) => self.left.push_front(item),
            // What came after it says the same.
            Some(_) => {}
        }
    }

    /// Leaves it to the scanners: the store takes no commits now, and trying again at once would never end.
    fn put_off_left(&mut self, refusal: &Rejection) {
        self.left_works.clear();
        for item in std::mem::take(&mut self.left) {
            self.answer(&item, Err(refusal.clone()));
        }
    }

    fn run_queue(&mut self) {
        // Behind a commit that is on its way only a few at a time: its answer must not wait for them.
        let mut left = if self.flying.is_some() { SLICE } else { usize::MAX };
        while left > 0 && !self.is_full() && !self.open.closed {
            let Some(item) = self.queue.pop_front() else { return };
            left -= 1;
            if item.call.command.is_bulky() && self.open.overlay.records() > BULKY_ROOM {
                self.queue.push_front(item);
                self.open.closed = true;
                return;
            }
            self.run_item(item);
        }
    }

    fn run_item(&mut self, mut item: Item) {
        // Items of a job stay in order: behind one that waits for a record, the others only say what they need.
        let probe = self.stalled_jobs.contains(&item.job);
        let answer = match self.run_after(&item.call, item.turn, probe, item.rounds) {
            Ran::Answer(Err(Rejection::Internal { what }), looked)
                if !looked.reads.is_empty() && (item.reloads == 0 || self.is_mixed(&looked)) =>
            {
                if item.reloads < RELOADS_MAX {
                    let verb = item.call.command.verb();
                    tracing::warn!(partition = %self.id, verb, %what, "refused; loading again");
                    self.effort.violations += 1;
                    item.reloads += 1;
                    let misses = self.forget_looked(&looked);
                    return self.stall(item, misses);
                }
                // Other nodes keep writing these records, so nothing shows whether an invariant is broken.
                Err(CONTENDED)
            }
            // A refusal is verified by no commit. Between two moments another node may have done what is refused here.
            Ran::Answer(Err(_), looked) if item.reloads == 0 && self.is_mixed(&looked) => {
                item.reloads += 1;
                let misses = self.forget_looked(&looked);
                return self.stall(item, misses);
            }
            Ran::Answer(answer, _) => answer,
            Ran::Miss(misses) => {
                item.rounds += 1;
                return self.stall(item, misses);
            }
        };
        if probe {
            return self.stall(item, Vec::new());
        }
        // Only final refusals are audited: a command whose records are loaded again may succeed.
        let misses = answer.as_ref().err().map(|refusal| self.audit_refusal(&item.call, refusal)).unwrap_or_default();
        if misses.is_empty() {
            self.open.done.push((item, answer));
        } else {
            item.rounds += 1;
            self.stall(item, misses);
        }
    }

    /// Drops what a command has read from memory. Returns what loads all of it together again.
    fn forget_looked(&mut self, looked: &Looked) -> Vec<Miss> {
        let records = looked.reads.iter().map(|key| Miss::Record(*key, self.loaded_parts(key)));
        let misses = records.chain(looked.lists.iter().map(|(list, after)| Miss::List(*list, *after))).collect();
        self.forget(&looked.reads);
        self.lists.forget(&looked.lists);
        misses
    }

    /// Parts of a record that are in memory. A joint reload of several records asks for all of them, because a part that is
    /// missing would be read in another turn than the rest.
    fn loaded_parts(&self, key: &Key) -> PartMask {
        self.cache.record(key).map_or(PartMask::NONE, Record::loaded)
    }

    /// Whether a command read records of different moments, between which another node may have written: those that the
    /// batch has not changed were not read in one turn, or one that it has changed was read after them.
    fn is_mixed(&self, looked: &Looked) -> bool {
        let turn = |key: &Key| self.cache.turn(key);
        let mut turns = looked.reads.iter().filter_map(turn);
        let Some(first) = turns.next() else { return false };
        let is_later = |key: &Key| turn(key).is_some_and(|turn| turn > first);
        !self.node.description.exclusive && (turns.any(|turn| turn != first) || looked.batch_reads.iter().any(is_later))
    }

    fn run(&mut self, call: &Call, turn: u64, probe: bool) -> Ran {
        self.run_after(call, turn, probe, 0)
    }

    /// Runs one command on the open batch, which has missed something so often. A probe leaves no trace.
    fn run_after(&mut self, call: &Call, turn: u64, probe: bool, rounds: u32) -> Ran {
        let now = self.tell_time();
        let view = View { cache: &self.cache, flying: self.flying.as_ref(), lists: &self.lists };
        let mut tx = Tx::new(&view, &self.open.overlay, now, &self.node.config.limits)
            .in_generation(self.head.position.generation)
            .after_rounds(rounds)
            .closed_at(self.node.description.batch_records);
        let applied = catch_unwind(AssertUnwindSafe(|| weft_core::apply::apply(&mut tx, call)));
        let has_missed = tx.misses().next().is_some();
        match answer_of(applied, has_missed) {
            Err(Stop::Miss) => {
                self.effort.misses += 1;
                Ran::Miss(tx.misses().collect())
            }
            Err(Stop::Rejected(rejection)) => {
                self.effort.hits += 1;
                let looked = Looked::of(&tx);
                self.unless_stale(looked, turn, Err(rejection))
            }
            Ok(reply) => {
                self.effort.hits += 1;
                let looked = Looked::of(&tx);
                match tx.finish() {
                    // Records that are not of the same moment may only look as if an invariant broke.
                    Err(rejection) => self.unless_stale(looked, turn, Err(rejection)),
                    Ok(effects) if effects.is_empty() => self.unless_stale(looked, turn, Ok(reply)),
                    Ok(_) if probe => Ran::Answer(Ok(reply), looked),
                    Ok(effects) => {
                        let keys: Vec<Key> = effects.keys().copied().collect();
                        effects.merge(&mut self.open.overlay, &view);
                        self.note_changes(&keys);
                        Ran::Answer(Ok(reply), looked)
                    }
                }
            }
        }
    }

    /// Adds to the batch what the audit log says of a refused call, if it says anything. Returns what must be loaded
    /// before that.
    fn audit_refusal(&mut self, call: &Call, rejection: &Rejection) -> Vec<Miss> {
        if !weft_core::audit::is_audited(call) {
            return Vec::new();
        }
        let now = self.tell_time();
        let view = View { cache: &self.cache, flying: self.flying.as_ref(), lists: &self.lists };
        let mut tx = Tx::new(&view, &self.open.overlay, now, &self.node.config.limits);
        match weft_core::audit::refused(&mut tx, call, rejection) {
            Err(Stop::Miss) => return tx.misses().collect(),
            Err(Stop::Rejected(error)) => {
                tracing::error!(partition = %self.id, %error, "a refusal could not be added to the audit log");
            }
            Ok(()) => match tx.finish() {
                Ok(effects) => effects.merge(&mut self.open.overlay, &view),
                Err(error) => tracing::error!(partition = %self.id, %error, "an entry of the audit log is not right"),
            },
        }
        Vec::new()
    }

    /// An answer that writes nothing is verified by no commit. On a shared store it must rest on records that were read since
    /// the call came in. If one was not, all are read again, together: one that is fresh by itself may be older than what
    /// another node then did to the rest.
    fn unless_stale(&self, looked: Looked, turn: u64, answer: Answer) -> Ran {
        if self.node.description.exclusive {
            return Ran::Answer(answer, looked);
        }
        let is_ours = |key: &Key| {
            self.open.overlay.get(key).is_some() || self.flying.as_ref().is_some_and(|flying| flying.has(key))
        };
        let others: Vec<&Key> = looked.reads.iter().filter(|key| !is_ours(key)).collect();
        let is_fresh = !others.iter().any(|key| self.cache.is_older(key, turn))
            && !looked.lists.iter().any(|rest| self.lists.is_older(rest, turn));
        if is_fresh {
            return Ran::Answer(answer, looked);
        }
        let records = others.into_iter().map(|key| Miss::Record(*key, self.loaded_parts(key)));
        Ran::Miss(records.chain(looked.lists.iter().map(|(list, after)| Miss::List(*list, *after))).collect())
    }

    /// Tells the ready queues what a command changed.
    fn note_changes(&mut self, keys: &[Key]) {
        for key in keys {
            if let Key::Execution(_) = key
                && let Some(Some(Record::Execution(execution))) = self.open.overlay.get(key)
            {
                self.ready.note(execution, self.batch);
            }
        }
    }

    fn forget(&mut self, keys: &[Key]) {
        for key in keys {
            self.cache.remove(key);
        }
    }

    fn wake(&mut self, wake: Wake) {
        if let Some(at) = wake.due.filter(|_| self.node.membership.is_mine(self.id)) {
            self.node.hub.look_by(self.node.runtime.clock() + at.since(self.node.clock.now()));
        }
        for lane in wake.lanes {
            let lane = ready::LaneKey { namespace: lane.0, lane: lane.1 };
            self.ready.stir(&lane);
            self.claims.lane_changed(&lane);
        }
    }

    /// From now on waiting claims are answered, and no new ones wait.
    fn stop(&mut self) {
        self.stopping = true;
        self.drain_claims();
    }

    /// Fills in one answer of a job, and sends the job's reply when it was the last.
    fn answer(&mut self, item: &Item, answer: Answer) {
        let Some(waiting) = self.jobs.get_mut(&item.job) else {
            if let (Err(_), Command::Expire(expire)) = (&answer, &item.call.command) {
                // The loop's own work could not be done: the scanner whose duty it is takes it up.
                self.node.hub.hint(expire.timer, self.id, expire.due);
            }
            return;
        };
        if waiting.answers[item.at].replace(answer).is_none() {
            waiting.left -= 1;
        }
        if waiting.left == 0
            && let Some(waiting) = self.jobs.remove(&item.job)
        {
            let answers = waiting.answers.into_iter().flatten().collect();
            // The caller may have gone; what it asked for stands.
            let _ = waiting.reply.send(answers);
        }
    }
}

/// What a command came to that may have panicked. A panic after a miss is a miss: the command may only have gone on without
/// a record that is not loaded.
fn answer_of(ran: std::thread::Result<Result<Applied, Stop>>, has_missed: bool) -> Result<Applied, Stop> {
    ran.unwrap_or_else(|_| match has_missed {
        true => Err(Stop::Miss),
        false => Err(Stop::Rejected(Rejection::internal("a rule panicked"))),
    })
}

enum Ran {
    Answer(Answer, Looked),
    Miss(Vec<Miss>),
}

/// Records and lists that a command has read.
struct Looked {
    /// Records that the open batch has not written.
    reads: Vec<Key>,
    /// Records as commands of the open batch left them.
    batch_reads: Vec<Key>,
    lists: Vec<base::Rest>,
}

impl Looked {
    fn of(tx: &Tx<'_>) -> Self {
        Self {
            reads: tx.read_keys().copied().collect(),
            batch_reads: tx.batch_read_keys().copied().collect(),
            lists: tx.read_lists().copied().collect(),
        }
    }
}

/// How often a command runs again because records of different moments look as if an invariant broke.
const RELOADS_MAX: u32 = 16;

/// How often a command of a scanner runs again after conflicts with other writers. Its next pass finds the item again.
const RERUNS_MAX: u32 = 3;

/// The refusal of a command that other nodes keep from its records.
const CONTENDED: Rejection = Rejection::Busy { retry_after_ms: 100, cause: BusyCause::Contended };

/// Commands that run before the store is asked again whether the commit on its way has arrived.
const SLICE: usize = 16;

/// Records that may be in the open batch when a command of up to a thousand records joins it.
const BULKY_ROOM: usize = 500;
