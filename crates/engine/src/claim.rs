//! Claiming: finding work in the partitions of a store, and waiting for it. What a claim takes is decided by the
//! partitions; this only asks them, one after the other or all at once.

use crate::client::{Client, Urgency, unexpected};
use crate::engine::Shared;
use crate::explain::{self, For, Obstacle};
use crate::lanes::{self, Vigil};
use crate::notices::Mailbox;
use crate::partition::{ClaimJob, Input, Seat};
use crate::place;
use crate::reads;
use crate::request::*;
use crate::runtime;
use crate::worker::roster::{Offer, Standing, Stirred};
use crate::worker::{self, Admitted};
use futures_util::future;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use weft_core::command;
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::execution::PublicState;
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, Value};
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, LeaseId, PartitionId};
use weft_store::{Range, Scan, Target};

/// How long a claim waits to learn whether an earlier call with its request id holds leases.
const LOOK_UP_MS: u64 = 3_000;

impl Client {
    /// Leases up to `max` executions, best first. With `wait_ms` it waits until there is at least one.
    pub async fn claim(&self, claim: Claim) -> Result<ClaimReply, Rejection> {
        self.claim_until(claim, &Notify::new()).await
    }

    /// The same, but the wait ends when `left` is told, as if its time were up. Unlike a call that is dropped it answers
    /// what has been leased all the same, so that it can be given back.
    pub async fn claim_until(&self, claim: Claim, left: &Notify) -> Result<ClaimReply, Rejection> {
        let (claims, began_us) = (&self.shared.telemetry.claims, self.shared.runtime.clock_us());
        let waiting = (claim.wait_ms > 0).then(|| claims.wait());
        let answer = self.claim_checked(claim, left).await;
        drop(waiting);
        claims.answered(&answer, self.shared.runtime.clock_us().saturating_sub(began_us));
        answer
    }

    async fn claim_checked(&self, claim: Claim, left: &Notify) -> Result<ClaimReply, Rejection> {
        self.principal.scopes.need(command::Scopes::WORK, "work")?;
        claim.check()?;
        let (mailboxes, now) = (&self.shared.hub.mailboxes, self.shared.now());
        let mailbox = mailboxes.seen(&self.principal.namespace, &claim.instance, now, None);
        let mut reply = self.claim_told(claim, left, &mailbox).await?;
        reply.told = mailbox.take();
        Ok(reply)
    }

    /// Claims; a wait ends when there is a notice for its process.
    async fn claim_told(&self, mut claim: Claim, left: &Notify, mailbox: &Mailbox) -> Result<ClaimReply, Rejection> {
        let waits = claim.wait_ms > 0;
        // What there is to tell goes out now, together with what there is to do.
        if mailbox.has_news() {
            claim.wait_ms = 0;
        }
        if self.shared.is_draining() {
            return Ok(draining());
        }
        let admitted = worker::admit(&self.shared, &self.principal, &claim).await?;
        let Admitted::Yes { session, stirred, offer } = admitted else { return Ok(draining()) };
        let spec = Arc::new(self.claim_spec(&claim, session, offer)?);
        let stirred = worker::claimed(&self.shared, &spec).unwrap_or(stirred);
        let mut leave = Leave { left, stirred, mailbox, spec: &spec };
        let began_at = self.shared.runtime.clock();
        let mut reply = self.claim_as(&claim, &spec, &mut leave).await?;
        let is_early = self.shared.runtime.clock().since(began_at) < claim.wait_ms || mailbox.has_news();
        if reply.executions.is_empty() && waits && spec.claim_ref.is_some() && is_early {
            // A notice or a process change may have ended the wait before the first call's executions were found.
            reply = self.claim_again(&claim, &spec, &mut leave).await?;
        }
        if reply.executions.is_empty() && waits {
            // The wait may have ended because its process, or this node, is to take no more work.
            let standing = worker::judge(&self.shared, &self.principal, &spec.instance, session)?;
            reply.draining |= matches!(standing, Standing::Draining { .. }) || self.shared.is_draining();
        }
        Ok(reply)
    }

    async fn claim_as(
        &self,
        claim: &Claim,
        spec: &Arc<ClaimSpec>,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        if let Some(id) = claim.execution {
            return self.claim_one(id, spec).await;
        }
        // A repeat gets what the first call took, wherever that is, and nothing else. A single partition looks by itself.
        let again = match self.shared.partitions.len() {
            1 => ClaimReply::default(),
            _ => self.claim_again(claim, spec, leave).await?,
        };
        if !again.executions.is_empty() {
            return Ok(again);
        }
        if self.shared.partitions.len() == 1 {
            return self.claim_at(PartitionId(0), spec, claim.max, Wish::Wait(claim.wait_ms), leave).await;
        }
        match self.claim_known(spec, claim.max, leave).await {
            Ok(reply) if !reply.executions.is_empty() || reply.more => return Ok(reply),
            Err(rejection) if !is_passed_over(&rejection) => return Err(rejection),
            // There may be work in partitions of which this node knows nothing.
            Ok(_) | Err(_) => {}
        }
        match claim.wait_ms {
            0 => self.claim_found(spec, claim.max, leave).await,
            wait_ms => self.claim_waiting(spec, claim.max, wait_ms, leave).await,
        }
    }

    /// What an earlier call with the same request id took and still holds.
    async fn claim_again(
        &self,
        claim: &Claim,
        spec: &Arc<ClaimSpec>,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let mut again = ClaimReply::default();
        for partition in self.partitions_of_claim(spec).await? {
            again.absorb(self.claim_at(partition, spec, claim.max, Wish::Again, leave).await?);
        }
        Ok(again)
    }

    /// Leases this one execution, or says why not.
    async fn claim_one(&self, id: ExecutionId, spec: &ClaimSpec) -> Result<ClaimReply, Rejection> {
        place::of_id(&self.shared, id)?;
        let lease = LeaseId::new(id.partition(), self.shared.fresh_uuid());
        let applied = self.one(self.call(spec.command(id, lease), None), Urgency::Normal).await?;
        match applied.reply {
            Reply::Claimed(claimed) => {
                let repeated = claimed.lease != lease;
                Ok(ClaimReply { executions: vec![*claimed], repeated, ..ClaimReply::default() })
            }
            // Its deadline was due: it has ended instead.
            Reply::Expired(_) => Err(Rejection::NotClaimable { public_state: PublicState::Expired }),
            other => Err(unexpected(other)),
        }
    }

    /// Why a claim of one execution was refused as not claimable, as it meets it: nothing if that is gone meanwhile.
    pub async fn explain_claim(&self, claim: &Claim) -> Result<Vec<Obstacle>, Rejection> {
        let Some(id) = claim.execution else { return Ok(Vec::new()) };
        let Admitted::Yes { session, offer, .. } = worker::admit(&self.shared, &self.principal, claim).await? else {
            return Ok(Vec::new());
        };
        let spec = self.claim_spec(claim, session, offer)?;
        let told = explain::explain(&self.shared, &self.principal, id, For::Claim(&spec)).await?;
        Ok(told.reasons)
    }

    /// The claim with what it leaves out filled in from what its process offers.
    fn claim_spec(&self, claim: &Claim, session: Option<u64>, offer: Offer) -> Result<ClaimSpec, Rejection> {
        let plain = |lane: Text| LaneWish { lane, weight: 1 };
        let lanes = match &claim.lanes {
            Some(lanes) => lanes.clone(),
            None => offer.lanes.into_iter().map(plain).collect(),
        };
        let capabilities = match &claim.capabilities {
            Some(capabilities) => Capabilities::new(capabilities)?,
            None => offer.capabilities,
        };
        let claim_ref = claim.request_id.as_ref().map(|id| {
            let parts = [b"claim", self.principal.namespace.as_bytes(), claim.instance.as_bytes(), id];
            weft_core::digest::digest(&parts)
        });
        Ok(ClaimSpec {
            namespace: self.principal.namespace.clone(),
            worker: claim.worker.clone(),
            instance: claim.instance.clone(),
            lanes,
            mode: claim.lane_mode,
            kinds: claim.kinds.clone().or(offer.kinds).map(|kinds| kinds.into_iter().collect()),
            capabilities,
            lease_ms: claim.lease_ms,
            max_bytes: claim.max_bytes,
            claim_ref,
            session,
            principal: self.principal.clone(),
        })
    }

    /// Takes what this node knows of. What it does not know of may be more.
    async fn claim_known(
        &self,
        spec: &Arc<ClaimSpec>,
        max: usize,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let order = self.shared.heads.order(spec, |partition| self.shared.membership.places_in(partition));
        let all = order.len() == self.shared.partitions.len();
        let mut reply = self.claim_from(order, spec, max, leave).await?;
        reply.more |= !all && !reply.executions.is_empty() && reply.executions.len() < max;
        Ok(reply)
    }

    /// Takes what a look at all partitions finds.
    async fn claim_found(
        &self,
        spec: &Arc<ClaimSpec>,
        max: usize,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let mut found = BTreeSet::new();
        for lane in spec.lane_keys() {
            let answer = lanes::look(&self.shared, lane).await;
            let gone = || Rejection::Unavailable { retry_after_ms: 100, outcome_unknown: false };
            found.extend(answer.map_err(|_| gone())?.map_err(reads::unavailable)?);
        }
        let (mine, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|partition| self.shared.membership.places_in(*partition));
        self.claim_from(mine.into_iter().chain(others).collect(), spec, max, leave).await
    }

    async fn claim_from(
        &self,
        partitions: Vec<PartitionId>,
        spec: &Arc<ClaimSpec>,
        max: usize,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let mut total = ClaimReply::default();
        let (mut left, mut refusal) = (partitions.len(), None);
        for partition in partitions {
            left -= 1;
            match self.claim_at(partition, spec, max - total.executions.len(), Wish::Now, leave).await {
                Ok(reply) => total.absorb(reply),
                Err(rejection) if is_passed_over(&rejection) => refusal = Some(rejection),
                // Leases of other partitions stand; this one's failure does not take them back.
                Err(rejection) if total.executions.is_empty() => return Err(rejection),
                Err(_) => break,
            }
            // Each further partition costs a commit: with half of what it wants a worker has enough to begin, and is told
            // that there may be more.
            if total.executions.len() * 2 >= max {
                total.more |= left > 0 && total.executions.len() < max;
                break;
            }
        }
        match refusal.filter(|_| total.executions.is_empty() && !total.more) {
            Some(refusal) => Err(refusal),
            None => Ok(total),
        }
    }

    async fn claim_at(
        &self,
        partition: PartitionId,
        spec: &Arc<ClaimSpec>,
        max: usize,
        wish: Wish,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let seat = Seat::new();
        let wait_ms = if let Wish::Wait(ms) = wish { ms } else { 0 };
        let (mut job, answer) = ClaimJob::new(spec.clone(), max, seat.clone(), wait_ms == 0);
        if wish == Wish::Again {
            job = job.again_only();
        }
        self.shared.send(partition, Input::Claim(job), Urgency::Normal)?;
        await_claim(&self.shared, seat, answer, wait_ms, leave).await
    }

    /// Where an earlier call with the same request id holds leases.
    async fn partitions_of_claim(&self, spec: &ClaimSpec) -> Result<BTreeSet<PartitionId>, Rejection> {
        let mut held = BTreeSet::new();
        let Some(reference) = spec.claim_ref else { return Ok(held) };
        let mut after = None;
        loop {
            let range = Range { prefix: vec![Value::bytes(&reference)], after, until: None };
            let scan = Scan {
                target: Target::Index(IndexId::ByClaim),
                ranges: vec![range],
                limit: limits::CLAIM_MAX,
                descending: false,
                parts: None,
            };
            // A partition that gives no answer may have leases of it, and then it takes no others.
            let unknown = || Rejection::Unavailable { retry_after_ms: 100, outcome_unknown: false };
            let found = runtime::timeout(&*self.shared.runtime, LOOK_UP_MS, self.shared.store.scan(None, scan)).await;
            let pages = found.ok_or_else(unknown)?.map_err(reads::unavailable)?;
            let Some(page) = pages.into_iter().next() else { return Ok(held) };
            held.extend(page.entries.iter().map(|entry| entry.partition));
            match page.entries.into_iter().last().filter(|_| page.more) {
                Some(last) => after = Some(last.place),
                None => return Ok(held),
            }
        }
    }

    /// Waits in every partition at once; the first that has work serves it.
    async fn claim_waiting(
        &self,
        spec: &Arc<ClaimSpec>,
        max: usize,
        wait_ms: u64,
        leave: &mut Leave<'_>,
    ) -> Result<ClaimReply, Rejection> {
        let seat = Seat::new();
        // As in `await_claim`: a caller that goes away takes its seat with it, in every partition.
        let _guard = SeatGuard(seat.clone());
        let vigil = Vigil::keep(&self.shared, spec.lane_keys().collect());
        let (answer_to, mut answers) = mpsc::unbounded_channel();
        let of_job = seat.clone();
        let ask = move |partition: PartitionId| {
            let job = ClaimJob::everywhere(spec.clone(), max, of_job.clone(), answer_to.clone());
            self.shared.send(partition, Input::Claim(job), Urgency::Normal)
        };
        // One that is full fails nothing: others may have begun to serve it.
        let (mut full, mut refusal, mut asked) = (Vec::new(), None, 0);
        for partition in (0..self.shared.partitions.len()).map(|index| PartitionId(index as u16)) {
            match ask(partition) {
                Ok(()) => asked += 1,
                Err(rejection) => {
                    full.extend(matches!(rejection, Rejection::Busy { .. }).then_some(partition));
                    refusal = Some(rejection);
                }
            }
        }
        if let Some(rejection) = refusal.filter(|_| asked == 0) {
            return Err(rejection);
        }
        // After it waits everywhere: what the look does not see comes later, and is told to those who wait.
        vigil.look();
        let lanes = &vigil;
        // Has `ask` for its own: when nobody is asked any more, the end of all who were shows.
        let knock = async move {
            while !full.is_empty() {
                self.shared.runtime.sleep(KNOCK_MS).await;
                let before = full.len();
                full.retain(|partition| matches!(ask(*partition), Err(Rejection::Busy { .. })));
                if full.len() < before {
                    // What was found there while it was full may have been told to nobody.
                    lanes.look();
                }
            }
        };
        let answer = async {
            let told = answers.recv();
            futures_util::pin_mut!(told, knock);
            match future::select(told, knock).await {
                future::Either::Left((answer, _)) => answer,
                future::Either::Right(((), told)) => told.await,
            }
        };
        match wait(&self.shared, wait_ms, leave, answer).await {
            Waited::Answered(answer) => answer.unwrap_or_else(|| Ok(ClaimReply::default())),
            Waited::Late if seat.leave() => Ok(ClaimReply::default()),
            Waited::Draining if seat.leave() => Ok(draining()),
            // A partition has begun to serve it: its commit decides.
            Waited::Late | Waited::Draining => answers.recv().await.unwrap_or_else(|| Ok(ClaimReply::default())),
        }
    }
}

/// Waits for the answer of one partition. When the time is up the seat is given back, unless it is being served.
async fn await_claim(
    shared: &Arc<Shared>,
    seat: Arc<Seat>,
    mut answer: mpsc::UnboundedReceiver<Result<ClaimReply, Rejection>>,
    wait_ms: u64,
    leave: &mut Leave<'_>,
) -> Result<ClaimReply, Rejection> {
    let gone = || Err(Rejection::Unavailable { retry_after_ms: 100, outcome_unknown: true });
    // Dropping the call gives the seat back, so that nothing is leased for a caller that has gone.
    let guard = SeatGuard(seat.clone());
    let reply = if wait_ms == 0 {
        answer.recv().await.unwrap_or_else(gone)
    } else {
        match wait(shared, wait_ms, leave, answer.recv()).await {
            Waited::Answered(reply) => reply.unwrap_or_else(gone),
            Waited::Late if seat.leave() => Ok(ClaimReply::default()),
            Waited::Draining if seat.leave() => Ok(draining()),
            // The partition has begun to serve it: its commit decides.
            Waited::Late | Waited::Draining => answer.recv().await.unwrap_or_else(gone),
        }
    };
    drop(guard);
    reply
}

/// Whether a partition that refuses a claim like this has leased nothing and others may have work.
fn is_passed_over(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Busy { .. } | Rejection::Unavailable { outcome_unknown: false, .. })
}

/// Nothing for a claim of a node that hands out nothing more.
fn draining() -> ClaimReply {
    ClaimReply { draining: true, ..ClaimReply::default() }
}

/// What makes a claim stop waiting before its time.
struct Leave<'a> {
    /// Its caller has gone, or wants no more.
    left: &'a Notify,
    /// Its process is no longer what it was when it was let in.
    stirred: Stirred,
    mailbox: &'a Mailbox,
    /// The claim, whose process lives while it waits.
    spec: &'a ClaimSpec,
}

/// What ended a wait.
enum Waited<T> {
    Answered(T),
    Late,
    Draining,
}

async fn wait<T>(
    shared: &Arc<Shared>,
    wait_ms: u64,
    leave: &mut Leave<'_>,
    answer: impl Future<Output = T>,
) -> Waited<T> {
    let (spec, seen_every_ms) = (leave.spec, leave.stirred.seen_every_ms);
    // Listened for before the look, so that a drain between the two is not missed.
    let drained = shared.drained.notified();
    let draining = async {
        match shared.is_draining() {
            true => (),
            false => drained.await,
        }
    };
    let (left, stirred, noticed) = (leave.left.notified(), leave.stirred.wait(), leave.mailbox.noticed());
    futures_util::pin_mut!(answer, draining, left, stirred, noticed);
    let stopped = future::select(draining, future::select(left, future::select(stirred, noticed)));
    let mut ended = future::select(answer, stopped);
    let mut left_ms = wait_ms;
    loop {
        let some_ms = left_ms.min(seen_every_ms);
        left_ms -= some_ms;
        match runtime::timeout(&*shared.runtime, some_ms, &mut ended).await {
            Some(future::Either::Left((answer, _))) => return Waited::Answered(answer),
            Some(future::Either::Right((future::Either::Left(_), _))) => return Waited::Draining,
            Some(future::Either::Right((future::Either::Right(_), _))) => return Waited::Late,
            None if left_ms == 0 => return Waited::Late,
            None => worker::waits(shared, spec),
        }
    }
}

/// How soon a claim that waits asks a partition again that took no more calls.
const KNOCK_MS: u64 = 50;

/// What a claim wants of one partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// What an earlier call with its request id took there, and nothing else.
    Again,
    /// What is there now.
    Now,
    Wait(u64),
}

struct SeatGuard(Arc<Seat>);

impl Drop for SeatGuard {
    fn drop(&mut self) {
        self.0.leave();
    }
}
