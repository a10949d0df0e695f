//! Claims that wait, and handing them work. An execution that becomes ready in a batch is leased to a waiting claim in
//! the same commit. Among claims that match, the one with the fewest capabilities goes first, then the longest waiting.

use super::ready::{Asked, Best, Care, LaneKey, execution_at};
use super::{Partition, RELOADS_MAX, Ran, SLICE, ScanTag, Seat};
use crate::request::{ClaimReply, ClaimSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;
use weft_core::apply::Applied;
use weft_core::command::{Call, Principal};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::planted::{self, Defect};
use weft_core::record::execution::State;
use weft_core::record::{Key, Record};
use weft_core::reply::{Claimed, Reply};
use weft_core::schema::{IndexId, PartMask, Value, execution as schema};
use weft_core::tx::{Base, Lookup, Miss, Stop, Tx};
use weft_core::{LeaseId, Time};
use weft_store::{Page, Range, Scan, Target};

type ReplyTo = mpsc::UnboundedSender<Result<ClaimReply, Rejection>>;

/// A claim call at one partition.
pub struct ClaimJob {
    spec: Arc<ClaimSpec>,
    max: usize,
    seat: Arc<Seat>,
    /// Answer at once if there is nothing.
    answer_empty: bool,
    /// Takes nothing that an earlier call with its request id does not hold.
    again_only: bool,
    /// It waits in all partitions, and its node looks at the store for it.
    everywhere: bool,
    reply: ReplyTo,
}

impl ClaimJob {
    pub fn new(
        spec: Arc<ClaimSpec>,
        max: usize,
        seat: Arc<Seat>,
        answer_empty: bool,
    ) -> (Self, mpsc::UnboundedReceiver<Result<ClaimReply, Rejection>>) {
        let (reply, answer) = mpsc::unbounded_channel();
        (Self { spec, max, seat, answer_empty, again_only: false, everywhere: false, reply }, answer)
    }

    /// A call that waits in all partitions.
    pub fn everywhere(spec: Arc<ClaimSpec>, max: usize, seat: Arc<Seat>, reply: ReplyTo) -> Self {
        Self { spec, max, seat, answer_empty: false, again_only: false, everywhere: true, reply }
    }

    /// Only what an earlier call with its request id took.
    pub fn again_only(mut self) -> Self {
        self.again_only = true;
        self
    }
}

/// A claim that got something in the open batch, or is to be told that there is nothing.
pub struct Served {
    waiter: Waiter,
    reply: ClaimReply,
}

impl Served {
    /// How many executions it was handed.
    pub fn leases(&self) -> usize {
        self.reply.executions.len()
    }

    pub fn reference(&self) -> Option<&[u8; 32]> {
        self.waiter.job.spec.claim_ref.as_ref()
    }

    pub fn answer(self) {
        self.waiter.job.seat.finish();
        // A caller that has gone gets its leases back by its request id, or they run out.
        let _ = self.waiter.job.reply.send(Ok(self.reply));
    }

    pub fn refuse(self, refusal: Rejection) {
        self.waiter.job.seat.finish();
        let _ = self.waiter.job.reply.send(Err(refusal));
    }
}

pub struct Waiter {
    job: ClaimJob,
    /// When it came in.
    turn: u64,
    /// It has looked up what an earlier call with its request id took.
    looked_up: bool,
    /// Records it waits for; a failed load refuses it.
    loading: bool,
    /// When it is tried again because another partition holds its seat, on the node's clock.
    retry_at: Option<Time>,
    /// How long it was put off last.
    put_off_ms: u64,
}

impl Waiter {
    /// Whether its caller wants an answer at once.
    fn is_hasty(&self) -> bool {
        self.job.answer_empty || self.job.again_only
    }
}

/// How soon a claim is tried again whose seat another partition holds: at first, and when it has been held for long.
const PUT_OFF_MS: u64 = 1;
const PUT_OFF_MAX_MS: u64 = 32;
/// How long a claim that waits in every partition rests in one that cannot be read.
const LOAD_AGAIN_MS: u64 = 500;

/// So many claims come in before those are looked for whose callers have gone.
const DROP_EVERY: usize = 64;

/// Fewest capabilities first, then longest waiting.
type Place = (usize, u64);

pub struct Claims {
    waiting: BTreeMap<Place, Waiter>,
    next: u64,
    /// Claims that something has changed for.
    fresh: BTreeSet<Place>,
    /// Claims whose seat another partition holds, by when they are tried again: it may give the seat back.
    busy: BTreeSet<(Time, Place)>,
    by_lane: BTreeMap<LaneKey, BTreeSet<Place>>,
    /// Repeats of claims whose commit is on its way.
    behind: Vec<Waiter>,
    lookups: BTreeMap<[u8; 32], Vec<Waiter>>,
    recheck_at: Option<Time>,
    /// Claims that came in since those of callers that have gone were dropped.
    undropped: usize,
    /// Since the last lease, how often the records of a candidate were loaded again because an invariant would have broken.
    reloads: u32,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            // Numbers begin in the middle, so that a claim that is given back finds room in front.
            next: 1 << 32,
            fresh: BTreeSet::new(),
            busy: BTreeSet::new(),
            by_lane: BTreeMap::new(),
            behind: Vec::new(),
            lookups: BTreeMap::new(),
            recheck_at: None,
            undropped: 0,
            reloads: 0,
        }
    }
}

impl Claims {
    fn insert(&mut self, waiter: Waiter) -> Place {
        let place = (waiter.job.spec.capabilities.len(), self.next);
        self.next += 1;
        self.insert_at(place, waiter);
        place
    }

    fn insert_at(&mut self, place: Place, waiter: Waiter) {
        for lane in waiter.job.spec.lane_keys() {
            self.by_lane.entry(lane).or_default().insert(place);
        }
        self.fresh.insert(place);
        self.waiting.insert(place, waiter);
    }

    fn remove(&mut self, place: Place) -> Option<Waiter> {
        let mut waiter = self.waiting.remove(&place)?;
        self.fresh.remove(&place);
        if let Some(at) = waiter.retry_at.take() {
            self.busy.remove(&(at, place));
        }
        for lane in waiter.job.spec.lane_keys() {
            if let Some(places) = self.by_lane.get_mut(&lane) {
                places.remove(&place);
                if places.is_empty() {
                    self.by_lane.remove(&lane);
                }
            }
        }
        Some(waiter)
    }

    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Work may have come into the lane.
    pub fn lane_changed(&mut self, lane: &LaneKey) {
        if let Some(places) = self.by_lane.get(lane) {
            self.fresh.extend(places);
        }
    }

    pub fn retry_all(&mut self) {
        self.fresh.extend(self.waiting.keys());
    }

    /// Claims that waited for records which the commit on its way was changing.
    pub fn retry_loading(&mut self) {
        self.fresh.extend(self.waiting.iter().filter(|(_, waiter)| waiter.loading).map(|(place, _)| *place));
    }

    /// A claim whose commit did not happen waits again, in front of others that came later.
    pub fn give_back(&mut self, mut served: Served) {
        if !served.waiter.job.seat.release() {
            served.reply = ClaimReply::default();
            served.answer();
            return;
        }
        if served.waiter.job.spec.claim_ref.is_some() {
            // It may have been handed leases that it holds already: it looks them up again and takes no other.
            served.waiter.looked_up = false;
            self.behind.push(served.waiter);
            return;
        }
        let tokens = served.waiter.job.spec.capabilities.len();
        let first = self.waiting.range((tokens, 0)..=(tokens, u64::MAX)).next().map(|(place, _)| place.1);
        let place = (tokens, first.unwrap_or(self.next).saturating_sub(1));
        self.insert_at(place, served.waiter);
    }

    pub fn recheck_at(&self) -> Option<Time> {
        self.recheck_at.filter(|_| !self.waiting.is_empty())
    }

    /// Another partition holds its seat: it is tried again soon, and ever later while that lasts.
    fn put_off(&mut self, place: Place, clock: Time) {
        let Some(waiter) = self.waiting.get_mut(&place) else { return };
        if waiter.job.seat.is_over() {
            self.remove(place);
        } else if waiter.retry_at.is_none() {
            waiter.put_off_ms = (waiter.put_off_ms * 2).clamp(PUT_OFF_MS, PUT_OFF_MAX_MS);
            let at = clock + waiter.put_off_ms;
            waiter.retry_at = Some(at);
            self.busy.insert((at, place));
        }
    }

    /// Tries a claim again after records that it waited for could not be loaded.
    fn put_off_load(&mut self, place: Place, clock: Time) {
        let Some(waiter) = self.waiting.get_mut(&place) else { return };
        waiter.loading = false;
        if waiter.retry_at.is_none() {
            let at = clock + LOAD_AGAIN_MS;
            waiter.retry_at = Some(at);
            self.busy.insert((at, place));
        }
    }

    /// The same for one that still has to look up what an earlier call took.
    fn put_off_lookup(&mut self, waiter: Waiter, clock: Time) {
        let place = self.insert(waiter);
        self.fresh.remove(&place);
        self.put_off(place, clock);
    }

    /// Its seat was free.
    fn not_held(&mut self, place: Place) {
        if let Some(waiter) = self.waiting.get_mut(&place) {
            waiter.put_off_ms = 0;
            if let Some(at) = waiter.retry_at.take() {
                self.busy.remove(&(at, place));
            }
        }
    }

    /// When claims that were put off are tried again.
    pub fn retry_at(&self) -> Option<Time> {
        self.busy.first().map(|(at, _)| *at)
    }

    pub fn retry_put_off(&mut self, clock: Time) {
        while let Some((at, place)) = self.busy.first().copied()
            && at <= clock
        {
            self.busy.remove(&(at, place));
            if let Some(waiter) = self.waiting.get_mut(&place) {
                waiter.retry_at = None;
                self.fresh.insert(place);
            }
        }
    }
}

impl Partition {
    pub(super) fn take_claim(&mut self, job: ClaimJob) {
        let waiter = Waiter { job, turn: self.turn, looked_up: false, loading: false, retry_at: None, put_off_ms: 0 };
        self.claims.undropped += 1;
        // Each look goes over all that wait: the more there are, the less often.
        if self.claims.undropped >= DROP_EVERY.max(self.claims.waiting.len() / 2) {
            self.drop_closed_claims();
        }
        if !waiter.job.everywhere && self.claims.recheck_at().is_none() {
            self.claims.recheck_at = Some(self.node.runtime.clock() + self.node.config.recheck_ms);
        }
        self.admit(waiter);
    }

    fn admit(&mut self, waiter: Waiter) {
        let Some(reference) = waiter.job.spec.claim_ref.filter(|_| !waiter.looked_up) else {
            self.claims.insert(waiter);
            return;
        };
        self.replace_older(&reference);
        let open = self.open.served.iter().any(|served| served.reference() == Some(&reference));
        if open || self.flying.as_ref().is_some_and(|flying| flying.holds_claim(&reference)) {
            self.claims.behind.push(waiter);
            return;
        }
        self.claims.lookups.entry(reference).or_default().push(waiter);
        self.look_up_claim(reference);
    }

    /// Finds what an earlier call with this reference took.
    pub(super) fn look_up_claim(&mut self, reference: [u8; 32]) {
        let prefix = vec![Value::bytes(&reference)];
        let scan = Scan {
            target: Target::Index(IndexId::ByClaim),
            ranges: vec![Range { prefix, after: None, until: None }],
            limit: limits::CLAIM_MAX * usize::from(self.node.description.partitions.max(1)),
            descending: false,
            // With the records: an entry without one makes the cache forget it, and nothing could be handed out.
            parts: Some(schema::LIGHT.with(PartMask::of(schema::INPUT)).with(PartMask::of(schema::CHECKPOINT))),
        };
        self.push_scan(ScanTag::ByClaim(reference), scan);
    }

    /// A newer waiting call of the same instance and request id replaces the older, which answers empty.
    fn replace_older(&mut self, reference: &[u8; 32]) {
        let older =
            self.claims.waiting.iter().filter(|(_, other)| other.job.spec.claim_ref.as_ref() == Some(reference));
        let older: Vec<Place> = older.map(|(place, _)| *place).collect();
        for place in older {
            if let Some(waiter) = self.claims.remove(place)
                && waiter.job.seat.take()
            {
                Served { waiter, reply: ClaimReply::default() }.answer();
            }
        }
    }

    /// Leases that an earlier call with this request id took and that are still valid are handed out again.
    pub(super) fn found_by_claim(&mut self, reference: [u8; 32], page: Page) {
        let keys: Vec<Key> = page.entries.iter().filter_map(|entry| entry.key()).collect();
        let unsure = |key: &Key| {
            self.open.overlay.get(key).is_some() || self.flying.as_ref().is_some_and(|flying| flying.has(key))
        };
        if keys.iter().any(unsure) {
            // A commit that may not happen is about to change what the store shows: its outcome is waited for.
            self.claims.behind.extend(self.claims.lookups.remove(&reference).into_iter().flatten());
            return;
        }
        for mut waiter in self.claims.lookups.remove(&reference).into_iter().flatten() {
            match self.hand_out_again(&keys, &reference) {
                Err(misses) => {
                    self.want(misses);
                    self.claims.behind.push(waiter);
                }
                Ok(executions) if executions.is_empty() && !waiter.job.again_only => {
                    waiter.looked_up = true;
                    self.claims.insert(waiter);
                }
                Ok(executions) if waiter.job.seat.take() => {
                    let reply = ClaimReply { repeated: !executions.is_empty(), executions, ..ClaimReply::default() };
                    self.open.served.push(Served { waiter, reply });
                }
                Ok(_) => self.claims.put_off_lookup(waiter, self.node.runtime.clock()),
            }
        }
    }

    fn hand_out_again(&mut self, keys: &[Key], reference: &[u8; 32]) -> Result<Vec<Claimed>, Vec<Miss>> {
        let now = self.tell_time();
        let view = super::base::View { cache: &self.cache, flying: self.flying.as_ref(), lists: &self.lists };
        let mut executions = Vec::new();
        let mut misses = Vec::new();
        for key in keys {
            let Key::Execution(id) = key else { continue };
            let mut tx = Tx::new(&view, &self.open.overlay, now, &self.node.config.limits);
            match weft_core::execution::claim::again(&mut tx, *id, reference) {
                Ok(Some(claimed)) => executions.push(claimed),
                Ok(None) | Err(Stop::Rejected(_)) => {}
                Err(Stop::Miss) => misses.extend(tx.misses()),
            }
        }
        if misses.is_empty() { Ok(executions) } else { Err(misses) }
    }

    pub(super) fn claim_lookup_failed(&mut self, reference: [u8; 32]) {
        for waiter in self.claims.lookups.remove(&reference).into_iter().flatten() {
            match waiter.job.seat.take() {
                true => refuse(waiter),
                false => self.claims.put_off_lookup(waiter, self.node.runtime.clock()),
            }
        }
    }

    /// Gives work to claims for which the last batch had no room, up to half of this one.
    pub(super) fn serve_waited(&mut self) {
        while self.open.overlay.records() < self.node.description.batch_records / 2 {
            let Some(place) = self.claims.fresh.pop_first() else { return };
            self.serve(place);
        }
    }

    /// Gives work to the claims for which something has changed.
    pub(super) fn serve_claims(&mut self) {
        for lane in self.ready.take_dirty() {
            self.claims.lane_changed(&lane);
        }
        // Behind a commit that is on its way only what costs little: its answer must not wait for more.
        let mut left = if self.flying.is_some() { SLICE } else { usize::MAX };
        while left > 0 && !self.is_full() {
            let Some(place) = self.claims.fresh.pop_first() else { break };
            left -= 1;
            if self.serve(place) && self.flying.is_some() {
                break;
            }
        }
        if !self.claims.waiting.is_empty() || !self.open.served.is_empty() {
            let asked = self.asked();
            for queue in self.ready.running_low() {
                if let Some(scan) = self.ready.refill(&queue, asked) {
                    self.push_scan(ScanTag::Refill(queue), scan);
                }
            }
        }
    }

    /// Gives a claim work if there is any. True if it was answered in the open batch.
    fn serve(&mut self, place: Place) -> bool {
        let Some(waiter) = self.claims.waiting.get_mut(&place) else { return false };
        let mut hold = Hold { seat: waiter.job.seat.clone(), taken: false };
        if hold.seat.is_over() {
            self.claims.remove(place);
            return false;
        }
        if waiter.job.spec.claim_ref.is_some() && !waiter.looked_up {
            self.look_up_again(place, &hold);
            return false;
        }
        waiter.loading = false;
        let (spec, max, turn) = (waiter.job.spec.clone(), waiter.job.max, waiter.turn);
        let answer_empty = waiter.job.answer_empty;
        let care = match waiter.job.everywhere {
            true => Care::Told,
            false if self.node.description.exclusive || planted::on(Defect::ProgressNeedsWake) => Care::Known,
            false => Care::Fresh,
        };
        let (reply, end) = self.gather(&spec, max, turn, care, &mut hold);
        let answers = !reply.executions.is_empty() || reply.more || (matches!(end, End::Nothing) && answer_empty);
        if matches!(end, End::Held) || (answers && !hold.take()) {
            self.claims.put_off(place, self.node.runtime.clock());
            return false;
        }
        self.claims.not_held(place);
        if answers {
            let waiter = self.claims.remove(place);
            self.open.served.extend(waiter.map(|waiter| Served { waiter, reply }));
            return true;
        }
        if let Some(waiter) = self.claims.waiting.get_mut(&place) {
            waiter.loading = matches!(end, End::Asked);
        }
        if hold.taken
            && !hold.seat.release()
            && let Some(waiter) = self.claims.remove(place)
        {
            Served { waiter, reply: ClaimReply::default() }.answer();
        }
        false
    }

    /// What an earlier call took was found while another partition held the seat.
    fn look_up_again(&mut self, place: Place, hold: &Hold) {
        if hold.is_elsewhere() {
            self.claims.put_off(place, self.node.runtime.clock());
        } else if let Some(waiter) = self.claims.remove(place) {
            self.admit(waiter);
        }
    }

    /// Leases up to `max` executions in the open batch, best first. What was found goes out at once, nobody waits to fill
    /// `max`: a claim that stops before it knows that there is nothing else says that there is more.
    fn gather(
        &mut self,
        spec: &Arc<ClaimSpec>,
        max: usize,
        turn: u64,
        care: Care,
        hold: &mut Hold,
    ) -> (ClaimReply, End) {
        let mut reply = ClaimReply::default();
        let (mut bytes, mut refusals) = (0, 0);
        while reply.executions.len() < max {
            if refusals >= limits::CLAIM_REFUSALS_MAX || self.is_full() {
                return (ClaimReply { more: true, ..reply }, End::Nothing);
            }
            let (queue, rank) = match self.ready.best(spec, turn, care) {
                Best::Nothing => return (reply, End::Nothing),
                _ if hold.is_elsewhere() => return (reply, End::Held),
                Best::Ask { discover, refill } if reply.executions.is_empty() => {
                    self.ask(discover, refill);
                    return (reply, End::Asked);
                }
                Best::Ask { .. } => return (ClaimReply { more: true, ..reply }, End::Nothing),
                Best::Candidate { queue, rank } => (queue, rank),
            };
            let key = execution_at(self.id, rank);
            let size = match self.look(&key, rank) {
                Look::Ready { input_bytes } => input_bytes,
                Look::Other => {
                    self.ready.remove(&queue, rank);
                    continue;
                }
                Look::Unknown => return self.stop_short(reply, spec, max),
            };
            if !reply.executions.is_empty() && bytes + size > spec.max_bytes {
                return (ClaimReply { more: true, ..reply }, End::Nothing);
            }
            if !hold.take() {
                return (reply, End::Held);
            }
            match self.take(spec, key, turn) {
                Taken::Lease(claimed) => {
                    // What upstreams hand over is known only now: it keeps the next one out.
                    bytes += size + claimed.inline_bytes();
                    let weight =
                        spec.lanes.iter().find(|wish| wish.lane == queue.lane.lane).map_or(1, |wish| wish.weight);
                    self.ready.remove(&queue, rank);
                    self.ready.charge(&queue.lane, weight);
                    reply.executions.push(*claimed);
                }
                Taken::Refused => {
                    self.ready.remove(&queue, rank);
                    refusals += 1;
                }
                Taken::Miss => return self.stop_short(reply, spec, max),
            }
        }
        (reply, End::Nothing)
    }

    /// The next candidate is not loaded: a claim that has nothing yet waits for it.
    fn stop_short(&mut self, reply: ClaimReply, spec: &Arc<ClaimSpec>, max: usize) -> (ClaimReply, End) {
        if reply.executions.is_empty() {
            self.want_upcoming(spec, max);
            return (reply, End::Asked);
        }
        (ClaimReply { more: true, ..reply }, End::Nothing)
    }

    /// What is known about a candidate. An entry whose place is not the one its record has is left over from before.
    fn look(&self, key: &Key, rank: super::ready::Rank) -> Look {
        let view = super::base::View { cache: &self.cache, flying: self.flying.as_ref(), lists: &self.lists };
        let record = match self.open.overlay.get(key) {
            Some(record) => record,
            None => match view.get(key) {
                Lookup::Present { record, .. } => Some(record),
                Lookup::Absent | Lookup::Damaged(..) => None,
                Lookup::Unknown => return Look::Unknown,
            },
        };
        match record {
            Some(Record::Execution(execution)) => match execution.hot.state {
                State::Ready { order, .. } if order == rank.0 => {
                    Look::Ready { input_bytes: execution.hot.input_bytes.unwrap_or(0) as usize }
                }
                _ => Look::Other,
            },
            _ => Look::Other,
        }
    }

    fn take(&mut self, spec: &Arc<ClaimSpec>, key: Key, turn: u64) -> Taken {
        let Key::Execution(id) = key else { return Taken::Refused };
        let lease = LeaseId::new(self.id, crate::engine::fresh_uuid(&*self.node.runtime, self.now));
        let command = spec.command(id, lease);
        let principal = Principal::clone(&spec.principal);
        let call = Call { principal, request_id: None, expected_revision: None, command };
        match self.run(&call, turn, false) {
            Ran::Answer(Ok(Applied { reply: Reply::Claimed(claimed), .. }), _) => {
                self.claims.reloads = 0;
                Taken::Lease(claimed)
            }
            // Records of different moments may only look as if an invariant broke, and the work is ready.
            Ran::Answer(Err(Rejection::Internal { what }), looked)
                if self.claims.reloads < RELOADS_MAX && self.is_mixed(&looked) =>
            {
                tracing::warn!(partition = %self.id, execution = %id, %what, "not leased; loading again");
                self.effort.violations += 1;
                self.claims.reloads += 1;
                let misses = self.forget_looked(&looked);
                self.want(misses);
                Taken::Miss
            }
            Ran::Answer(_, _) => Taken::Refused,
            Ran::Miss(misses) => {
                self.want(misses);
                Taken::Miss
            }
        }
    }

    /// Loads the candidate together with those that may come after it.
    fn want_upcoming(&mut self, spec: &ClaimSpec, count: usize) {
        let parts = schema::LIGHT.with(PartMask::of(schema::INPUT));
        for rank in self.ready.upcoming(spec, count) {
            let key = execution_at(self.id, rank);
            let loaded = self.open.overlay.get(&key).is_some()
                || self.cache.record(&key).is_some_and(|record| record.loaded().covers(parts));
            if !loaded {
                self.want(vec![Miss::Record(key, parts)]);
            }
        }
    }

    fn asked(&self) -> Asked {
        Asked { turn: self.turn, acked: self.acked }
    }

    fn ask(&mut self, discover: Vec<LaneKey>, refill: Vec<super::ready::QueueKey>) {
        let asked = self.asked();
        for lane in discover {
            if let Some(scan) = self.ready.discover(&lane, asked) {
                self.push_scan(ScanTag::Discover(lane), scan);
            }
        }
        for queue in refill {
            if let Some(scan) = self.ready.refill(&queue, asked) {
                self.push_scan(ScanTag::Refill(queue), scan);
            }
        }
    }

    /// Refuses the claims that wait for records, because the store cannot be read. Those that wait in every partition go on:
    /// another one may have work for them, and this one is looked at again soon.
    pub(super) fn refuse_loading_claims(&mut self) {
        let places = self.claims.waiting.iter().filter(|(_, waiter)| waiter.loading).map(|(place, _)| *place);
        for place in places.collect::<Vec<_>>() {
            if self.claims.waiting.get(&place).is_some_and(|waiter| waiter.job.everywhere) {
                self.claims.put_off_load(place, self.node.runtime.clock());
                continue;
            }
            if !self.claims.waiting.get(&place).is_some_and(|waiter| waiter.job.seat.take()) {
                self.claims.put_off(place, self.node.runtime.clock());
            } else if let Some(waiter) = self.claims.remove(place) {
                refuse(waiter);
            }
        }
    }

    /// Refuses the claims that do not wait for work.
    pub(super) fn refuse_hasty_claims(&mut self) {
        let (behind, waits): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.claims.behind).into_iter().partition(Waiter::is_hasty);
        self.claims.behind = waits;
        let places = self.claims.waiting.iter().filter(|(_, waiter)| waiter.is_hasty()).map(|(place, _)| *place);
        let places: Vec<Place> = places.collect();
        let waiting: Vec<Waiter> = places.into_iter().filter_map(|place| self.claims.remove(place)).collect();
        for waiter in behind.into_iter().chain(waiting).filter(|waiter| waiter.job.seat.take()) {
            refuse(waiter);
        }
    }

    /// After a commit: repeats that waited for its outcome go on.
    pub(super) fn resume_claims(&mut self) {
        for waiter in std::mem::take(&mut self.claims.behind) {
            self.admit(waiter);
        }
    }

    /// Lost wake-ups are made good: every lane that is waited for is looked at again.
    pub(super) fn recheck_claims(&mut self, clock: Time) {
        self.drop_closed_claims();
        self.claims.recheck_at = Some(clock + self.node.config.recheck_ms);
        if planted::on(Defect::ProgressNeedsWake) {
            return;
        }
        for lane in self.claims.by_lane.keys() {
            self.ready.stir(lane);
        }
        self.turn += 1;
        for waiter in self.claims.waiting.values_mut() {
            waiter.turn = self.turn;
        }
        self.claims.retry_all();
    }

    fn drop_closed_claims(&mut self) {
        self.claims.undropped = 0;
        let closed = self.claims.waiting.iter().filter(|(_, waiter)| waiter.job.seat.is_over());
        for place in closed.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.claims.remove(place);
        }
    }

    /// The node stops: claims that wait are answered empty, so that their workers go elsewhere.
    pub(super) fn drain_claims(&mut self) {
        for place in self.claims.waiting.keys().copied().collect::<Vec<_>>() {
            if let Some(waiter) = self.claims.remove(place)
                && waiter.job.seat.take()
            {
                let reply = ClaimReply { draining: true, ..ClaimReply::default() };
                Served { waiter, reply }.answer();
            }
        }
    }
}

/// Tells a claim whose seat was taken for it that the store cannot be read.
fn refuse(waiter: Waiter) {
    let refusal = Rejection::Unavailable { retry_after_ms: 500, outcome_unknown: false };
    Served { waiter, reply: ClaimReply::default() }.refuse(refusal);
}

/// The seat of the claim that is looked at. It is taken when there is something to hand out and no sooner: partitions that
/// only look do not keep each other from serving.
struct Hold {
    seat: Arc<Seat>,
    taken: bool,
}

impl Hold {
    fn take(&mut self) -> bool {
        self.taken = self.taken || self.seat.take();
        self.taken
    }

    /// Another partition is about to answer the claim, or its caller has gone.
    fn is_elsewhere(&self) -> bool {
        !self.taken && !self.seat.is_free()
    }
}

enum End {
    Nothing,
    /// A store call is on its way that may show more.
    Asked,
    /// There may be something, but another partition holds the seat.
    Held,
}

enum Look {
    Ready { input_bytes: usize },
    Other,
    Unknown,
}

enum Taken {
    Lease(Box<Claimed>),
    Refused,
    Miss,
}
