//! Workers: most of them do what they should; some stall, die, lie, or do everything twice.

use crate::checker::{Ack, Note};
use crate::outside::{Answer, Caller, Work};
use crate::workload;
use weft_core::LeaseId;
use weft_core::command::{ChildrenRule, Fence};
use weft_core::error::{Class, Rejection};
use weft_core::reply::{Children, Claimed};
use weft_core::text::Text;
use weft_engine::{
    Cancellation, Claim, Client, Completion, Delaying, Failing, Progressing, Recording, Renewal, Waiting,
};

/// One worker process. A restart keeps its instance id.
pub struct Worker {
    caller: Caller,
    instance: Text,
    offer: crate::checker::Offer,
    /// A lease it held before, to be mixed up with later ones.
    old_lease: Option<LeaseId>,
}

/// What a worker does with an execution it got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Finish,
    Fail,
    Delay,
    Progress,
    Renew,
    Record,
    Cancel,
    StallThenComplete,
    CompleteTwice,
    Forge,
    Die,
}

const GOOD: [(u32, Act); 7] = [
    (40, Act::Finish),
    (15, Act::Fail),
    (8, Act::Delay),
    (10, Act::Progress),
    (14, Act::Renew),
    (10, Act::Record),
    (3, Act::Cancel),
];
const BAD: [(u32, Act); 4] = [(4, Act::StallThenComplete), (3, Act::CompleteTwice), (4, Act::Forge), (3, Act::Die)];

impl Worker {
    pub fn new(mut caller: Caller, number: usize) -> Self {
        let instance: Text = format!("w{number}").into();
        let offer = workload::offer(&caller.outside.settings, &mut caller.dice);
        caller.outside.cluster.judge.lock().register(instance.clone(), offer.clone());
        Self { caller, instance, offer, old_lease: None }
    }

    /// Takes everything and never misbehaves; stays at one node.
    pub fn good(mut caller: Caller, node: usize) -> Self {
        let instance: Text = format!("good{node}").into();
        let offer = workload::offer_everything(&caller.outside.settings);
        caller.node = node;
        caller.outside.cluster.judge.lock().register(instance.clone(), offer.clone());
        Self { caller, instance, offer, old_lease: None }
    }

    /// Works until the faults end.
    pub async fn run(mut self) {
        while !self.caller.outside.cluster.is_healed() {
            if self.caller.dice.chance(100) {
                self.caller.switch_node();
            }
            let works = self.claim().await;
            if works.is_empty() {
                let pause_ms = self.caller.dice.between(10, 800);
                self.caller.sleep(pause_ms).await;
            }
            for work in works {
                self.treat(&work).await;
                self.old_lease = Some(work.lease);
                if self.caller.outside.cluster.is_healed() {
                    return;
                }
            }
        }
    }

    /// Works off what is left after the faults have ended.
    pub async fn run_good(mut self) {
        while !self.caller.outside.is_stopped() {
            let wait_ms = self.caller.dice.between(1_000, 20_000);
            let claim = self.request(8, wait_ms, 30_000);
            let mut note = self.caller.note("claim");
            for work in self.claim_once(&mut note, claim).await.unwrap_or_default() {
                self.complete(&work, false).await;
            }
        }
    }

    fn request(&self, max: usize, wait_ms: u64, lease_ms: u64) -> Claim {
        let mut claim = Claim::new("pool", self.instance.clone()).max(max).wait_ms(wait_ms).lease_ms(lease_ms);
        for lane in &self.offer.lanes {
            claim = claim.lane(lane.clone());
        }
        for kind in self.offer.kinds.iter().flatten() {
            claim = claim.kind(kind.clone());
        }
        for token in self.offer.capabilities.joined().split(',').filter(|token| !token.is_empty()) {
            claim = claim.offers(token);
        }
        claim
    }

    async fn claim(&mut self) -> Vec<Claimed> {
        let settings = &self.caller.outside.settings;
        let (least, most) = settings.lease_ms;
        let dice = &mut self.caller.dice;
        let (max, lease_ms) = (dice.weighted(&[(6, 1), (2, 2), (1, 5)]), dice.between(least, most));
        let wait_ms = if dice.chance(700) { dice.between(100, 8_000) } else { 0 };
        let (named, repeats) = (dice.chance(400), dice.chance(300));
        let mut claim = self.request(max, wait_ms, lease_ms);
        let mut note = self.caller.note("claim");
        if !named {
            return self.claim_once(&mut note, claim).await.unwrap_or_default();
        }
        claim.request_id = Some(format!("claim {}", note.token).into_bytes().into());
        for _ in 0..3 {
            if let Some(first) = self.claim_once(&mut note, claim.clone()).await {
                if repeats && !first.is_empty() && !note.uncertain {
                    self.claim_again(note, claim, &first).await;
                }
                return first;
            }
        }
        Vec::new()
    }

    /// The same claim once more, although its reply has arrived; now and then at another node.
    async fn claim_again(&mut self, mut note: Note, claim: Claim, first: &[Claimed]) {
        if self.caller.dice.chance(400) {
            self.caller.switch_node();
        }
        let (wait_ms, sent_ms) = (claim.wait_ms, self.caller.outside.now_ms());
        let Some(again) = self.claim_once(&mut note, claim).await.filter(|_| !note.uncertain) else { return };
        // A call whose time ran out before the store answered says nothing about what it holds.
        let ran_out = again.is_empty() && self.caller.outside.now_ms() >= sent_ms + wait_ms && wait_ms > 0;
        if !ran_out {
            self.caller.outside.cluster.judge.lock().claim_repeated(first, &again);
        }
    }

    async fn claim_once(&mut self, note: &mut Note, claim: Claim) -> Option<Vec<Claimed>> {
        let outside = self.caller.outside.clone();
        let wait_ms = claim.wait_ms;
        let judge = outside.cluster.judge.clone();
        let waits = (wait_ms > 0).then(|| judge.lock().wait_begins(self.instance.clone(), outside.now_ms(), wait_ms));
        let answer = self
            .caller
            .send(note, wait_ms, |client: Client| {
                let claim = claim.clone();
                Box::pin(async move { client.claim(claim).await.map(|reply| Ack::Claimed(reply.executions)) })
            })
            .await;
        if let Some(number) = waits {
            judge.lock().wait_ends(number);
        }
        match answer {
            Some(Ok(Ack::Claimed(works))) => Some(works),
            Some(_) => {
                self.caller.sleep(100).await;
                None
            }
            None => None,
        }
    }

    async fn treat(&mut self, work: &Claimed) {
        let children = work.tags.get(workload::CHILDREN_TAG).and_then(|count| count.parse::<u64>().ok());
        if let Some(children) = children.filter(|_| !work.resumed && self.caller.dice.chance(800)) {
            return self.spawn(work, children).await;
        }
        let bad = self.caller.outside.settings.bad_worker;
        let act = if self.caller.dice.chance(bad) {
            self.caller.dice.weighted(&BAD)
        } else {
            self.caller.dice.weighted(&GOOD)
        };
        match act {
            Act::Finish => {
                self.think(work).await;
                self.complete(work, false).await;
            }
            Act::Fail => {
                self.think(work).await;
                self.fail(work).await;
            }
            Act::Delay => self.delay(work).await,
            Act::Progress => {
                self.progress(work).await;
                self.think(work).await;
                self.complete(work, false).await;
            }
            Act::Renew => self.renew_for_a_while(work).await,
            Act::Record => self.record(work).await,
            Act::Cancel => self.cancel(work).await,
            Act::StallThenComplete => self.stall(work).await,
            Act::CompleteTwice => {
                self.complete(work, false).await;
                self.complete(work, true).await;
            }
            Act::Forge => {
                self.forge(work).await;
                self.complete(work, false).await;
            }
            Act::Die => self.die().await,
        }
    }

    /// Some of the time the lease gives; now and then until the very moment at which a timer is due.
    async fn think(&mut self, work: &Claimed) {
        let ms = self.caller.dice.below(work.lease_ms * 7 / 10);
        let ms = if self.caller.dice.chance(500) { ms.min(50) } else { ms };
        let now_ms = self.caller.outside.now_ms();
        let deadline_ms = work.deadline_at.map(|at| at.ms().saturating_sub(now_ms));
        let due_ms = [deadline_ms, work.timeout_left_ms].into_iter().flatten().min();
        let aim_ms = due_ms.filter(|due_ms| *due_ms < work.lease_ms * 9 / 10 && self.caller.dice.chance(500));
        self.caller.sleep(aim_ms.unwrap_or(ms)).await;
    }

    async fn fenced(
        &mut self,
        verb: &'static str,
        work: &Claimed,
        make: impl Fn(Client, Text) -> Work,
    ) -> Option<Answer> {
        let note = self.caller.note_fenced(verb, work.id, fence(work));
        let token = note.token.clone();
        self.caller.persist(note, 3, move |client| make(client, token.clone())).await
    }

    async fn complete(&mut self, work: &Claimed, again: bool) -> Option<Answer> {
        let note = Note { again, ..self.caller.note_fenced("complete", work.id, fence(work)) };
        self.complete_as(note).await
    }

    async fn complete_as(&mut self, note: Note) -> Option<Answer> {
        let completion = note
            .id
            .zip(note.fence)
            .map(|(id, fence)| Completion::new(id, fence).result(note.token.as_bytes().to_vec()))?;
        self.caller
            .persist(note, 3, move |client| {
                let completion = completion.clone();
                Box::pin(async move { client.complete(completion).await.map(Ack::Completed) })
            })
            .await
    }

    async fn fail(&mut self, work: &Claimed) {
        let category = self.caller.dice.weighted(&[(4, "application"), (1, "fatal")]);
        let wish = self.caller.dice.below(10);
        let failing = Failing::of(work).category(category);
        let failing = match wish {
            0 => failing.never(),
            1 => failing.after_ms(self.caller.dice.below(2_000)),
            _ => failing,
        };
        self.fenced("fail", work, move |client, token| {
            let failing = failing.clone().message(token);
            Box::pin(async move { client.fail(failing).await.map(|answer| Ack::Failed(answer.value)) })
        })
        .await;
    }

    async fn delay(&mut self, work: &Claimed) {
        let ms = self.caller.dice.weighted(&[(1, 0), (2, 500), (1, 8_000)]);
        let ms = self.caller.dice.between(0, ms);
        let saves = self.caller.dice.chance(500);
        let work = work.clone();
        self.fenced("delay", &work.clone(), move |client, token| {
            let mut delaying = Delaying::of(&work).by_ms(ms);
            delaying.checkpoint = saves.then(|| token.as_bytes().to_vec().into());
            Box::pin(async move { client.delay(delaying).await.map(|answer| Ack::Delayed(answer.value)) })
        })
        .await;
    }

    async fn progress(&mut self, work: &Claimed) {
        let work = work.clone();
        self.fenced("progress", &work.clone(), move |client, token| {
            let progress = Progressing::of(&work).percent(50).checkpoint(token.as_bytes().to_vec());
            Box::pin(async move { client.progress(progress).await.map(|answer| Ack::Progressed(answer.value)) })
        })
        .await;
    }

    async fn renew_for_a_while(&mut self, work: &Claimed) {
        for _ in 0..self.caller.dice.between(1, 4) {
            let pause_ms = self.caller.dice.below(work.lease_ms * 8 / 10);
            self.caller.sleep(pause_ms).await;
            let renewal = Renewal::of(work);
            let answer = self
                .fenced("renew", work, move |client, _| {
                    let renewal = renewal.clone();
                    Box::pin(async move { client.renew(renewal).await.map(|answer| Ack::Renewed(answer.value)) })
                })
                .await;
            if is_told_to_stop(&answer) {
                return;
            }
        }
        self.complete(work, false).await;
    }

    /// Records steps under a few names, some of which are taken; ends in one way or another.
    async fn record(&mut self, work: &Claimed) {
        for _ in 0..self.caller.dice.between(1, 3) {
            let name = Text::from(format!("s{}", self.caller.dice.below(4)));
            let work = work.clone();
            let answer = self
                .fenced("record_steps", &work.clone(), move |client, token| {
                    let recording = Recording::of(&work).step(name.clone(), token.as_bytes().to_vec());
                    Box::pin(
                        async move { client.record_steps(recording).await.map(|answer| Ack::Recorded(answer.value)) },
                    )
                })
                .await;
            if is_told_to_stop(&answer) {
                return;
            }
        }
        match self.caller.dice.below(3) {
            0 => self.fail(work).await,
            1 => self.delay(work).await,
            _ => drop(self.complete(work, false).await),
        }
    }

    async fn cancel(&mut self, work: &Claimed) {
        let work = work.clone();
        self.fenced("cancel", &work.clone(), move |client, token| {
            let cancellation = Cancellation::new(work.id, token).held(&work);
            Box::pin(async move { client.cancel(cancellation).await.map(|answer| Ack::Cancelled(answer.value)) })
        })
        .await;
    }

    /// Sleeps past its lease and completes all the same.
    async fn stall(&mut self, work: &Claimed) {
        let over_ms = self.caller.dice.weighted(&[(2, 1), (3, 60), (1, 3_000)]);
        let over_ms = self.caller.dice.below(over_ms);
        self.caller.sleep(work.lease_ms + over_ms).await;
        self.complete(work, false).await;
    }

    /// Completes under fences that no lease has.
    async fn forge(&mut self, work: &Claimed) {
        let right = fence(work);
        let other = self.old_lease.unwrap_or(LeaseId::new(work.id.partition(), uuid::Uuid::from_u128(7)));
        let forged = [
            Fence { epoch: right.epoch + 1, ..right },
            Fence { epoch: right.epoch.wrapping_sub(1), ..right },
            Fence { lease: other, ..right },
        ];
        let chosen = self.caller.dice.below(forged.len() as u64) as usize;
        let note = Note { forged: true, ..self.caller.note_fenced("complete", work.id, forged[chosen]) };
        self.complete_as(note).await;
    }

    /// Gone without a word; another process with the same instance id takes its place.
    async fn die(&mut self) {
        let gone_ms = self.caller.dice.between(10, 5_000);
        self.caller.sleep(gone_ms).await;
        self.caller.switch_node();
        self.old_lease = None;
        self.caller.outside.cluster.judge.lock().sometimes("worker restarts with same instance id");
    }

    /// Spawns children and waits for them; completes if there is nothing to wait for.
    async fn spawn(&mut self, work: &Claimed, count: u64) {
        for _ in 0..count {
            let mut note = self.caller.note("submit");
            let child = workload::child(&self.caller.outside.settings, &mut self.caller.dice);
            let key = format!("child {}", note.token).into_bytes();
            note.key = Some(key.clone().into());
            let child = child.child_of(work).idempotency_key(key).input(note.token.as_bytes().to_vec());
            let answer = self
                .caller
                .persist(note, 3, move |client| {
                    let child = child.clone();
                    Box::pin(async move { client.submit(child).await.map(|answer| Ack::Submitted(answer.value)) })
                })
                .await;
            match answer {
                Some(Ok(Ack::Submitted(submitted))) => self.caller.outside.learn(submitted.id),
                answer if is_told_to_stop(&answer) => return,
                _ => {}
            }
        }
        let mut waiting = Waiting::of(work);
        waiting.rule = self.caller.dice.weighted(&[(3, ChildrenRule::AllOf), (2, ChildrenRule::AnyOf)]);
        waiting.timeout_ms = self.caller.dice.chance(300).then(|| self.caller.dice.between(100, 20_000));
        let answer = self
            .fenced("wait_children", work, move |client, _| {
                let waiting = waiting.clone();
                Box::pin(async move { client.wait_children(waiting).await.map(|answer| Ack::Children(answer.value)) })
            })
            .await;
        if matches!(answer, Some(Ok(Ack::Children(Children::Decided { .. })))) {
            self.complete(work, false).await;
        }
    }
}

fn fence(work: &Claimed) -> Fence {
    Fence { lease: work.lease, epoch: work.epoch }
}

fn is_told_to_stop(answer: &Option<Answer>) -> bool {
    let stops = |rejection: &Rejection| matches!(rejection.class(), Class::Stop | Class::Conflict);
    matches!(answer, Some(Err(rejection)) if stops(rejection))
}
