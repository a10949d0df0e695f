//! The loop by hand, a step at a time: on a store in memory, with a clock that stands still until it is moved.

mod losses;
mod serial;
mod shared;

use super::*;
use crate::request::{ClaimReply, ClaimSpec, LaneMode, LaneWish, Submission};
use crate::runtime::BoxFuture;
use futures_util::FutureExt;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::sync::mpsc::UnboundedReceiver;
use weft_core::limits;
use weft_core::text::{Capabilities, LANE_DEFAULT};
use weft_store::{MemoryStore, Store};

struct Hand {
    clock: AtomicU64,
    drawn: AtomicU64,
}

impl Runtime for Hand {
    fn clock(&self) -> Time {
        Time::from_ms(self.clock.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: u64) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<()>) {}

    fn random(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed)
    }
}

const HERE: PartitionId = PartitionId(0);

/// One partition of a store that has several.
struct Bench {
    partition: Partition,
    store: MemoryStore,
    hand: Arc<Hand>,
    /// Store calls that have not been answered.
    calls: Vec<Effect>,
    scans: usize,
}

type ClaimAnswer = UnboundedReceiver<Result<ClaimReply, Rejection>>;

impl Bench {
    fn new(config: Config) -> Self {
        let hand = Arc::new(Hand { clock: AtomicU64::new(1_000_000), drawn: AtomicU64::new(1) });
        let of_store = hand.clone();
        let store = MemoryStore::new(2, Arc::new(move || of_store.clock())).shared();
        Self::on(store, hand, config)
    }

    /// Another node with this partition, on the same store.
    fn beside(&self) -> Self {
        Self::on(self.store.node_handle(), self.hand.clone(), self.partition.node.config.clone())
    }

    fn on(store: MemoryStore, hand: Arc<Hand>, config: Config) -> Self {
        let runtime: Arc<dyn Runtime> = hand.clone();
        let description = store.describe();
        let node = Surroundings {
            config,
            hub: Arc::default(),
            counters: Arc::default(),
            telemetry: Arc::new(Telemetry::new(description.partitions, std::iter::empty())),
            clock: Arc::new(Clock::new(runtime.clone())),
            runtime,
            heads: Arc::default(),
            membership: Arc::new(Membership::alone(uuid::Uuid::nil(), description.partitions)),
            seen: Arc::new(Seen::new(description.partitions)),
            description,
        };
        let partition = Partition::new(HERE, Arc::new(node), Head::default());
        Self { partition, store, hand, calls: Vec::new(), scans: 0 }
    }

    /// Runs until nothing is left to do but to wait for the store.
    fn step(&mut self) -> usize {
        for steps in 1.. {
            let effects = self.partition.step();
            let done = effects.is_empty() && !self.partition.has_more();
            self.scans += effects.iter().filter(|effect| matches!(effect, Effect::Scan { .. })).count();
            self.calls.extend(effects);
            self.partition.reply();
            if done {
                return steps;
            }
        }
        unreachable!("the loop is left when nothing is to be done");
    }

    /// The same, with the store answering whatever it is asked.
    fn settle(&mut self) {
        self.step();
        while !self.calls.is_empty() {
            for effect in std::mem::take(&mut self.calls) {
                let arrival = self.perform(effect);
                self.partition.arrive(arrival);
            }
            self.step();
        }
    }

    fn perform(&self, effect: Effect) -> Arrival {
        let now = "the store in memory answers at once";
        match effect {
            Effect::Commit(batch) => Arrival::Committed(self.store.commit(HERE, batch).now_or_never().expect(now)),
            Effect::Load { keys, stamp, turn } => {
                let read = self.store.read(HERE, keys.clone()).now_or_never().expect(now);
                Arrival::Loaded { keys, stamp, turn, read }
            }
            Effect::Scan { tag, scan, stamp, turn } => {
                let parts = scan.parts;
                let pages = self.store.scan(Some(HERE), scan).now_or_never().expect(now);
                Arrival::Scanned(Scanned { tag, parts, stamp, turn, pages })
            }
            Effect::Resolve { id, .. } => Arrival::Resolved(self.store.resolve(HERE, id).now_or_never().expect(now)),
        }
    }

    /// Lets time pass, with the ticks that the loop asks for meanwhile. Answers how many these were.
    fn pass(&mut self, ms: u64) -> usize {
        let end = self.hand.clock() + ms;
        let mut ticks = 0;
        while let Some(at) = self.partition.next_tick().filter(|at| *at <= end) {
            let at = at.max(self.hand.clock());
            self.hand.clock.store(at.ms(), Ordering::Relaxed);
            self.partition.tick();
            self.settle();
            ticks += 1;
            assert!(ticks <= ms as usize + 1, "the loop asks for the same tick again and again");
        }
        self.hand.clock.store(end.ms(), Ordering::Relaxed);
        ticks
    }

    fn submit(&mut self, submission: Submission) -> ExecutionId {
        let id = ExecutionId::new(HERE, crate::engine::fresh_uuid(&*self.hand, self.hand.clock()));
        let command = submission.command(id, &self.partition.node.config.policy).expect("a good submission");
        self.call(shop(), Command::Submit(Box::new(command)));
        id
    }

    fn call(&mut self, principal: Principal, command: Command) -> oneshot::Receiver<Vec<Answer>> {
        self.send(vec![Call { principal, request_id: None, expected_revision: None, command }])
    }

    /// The calls of one batch.
    fn send(&mut self, calls: Vec<Call>) -> oneshot::Receiver<Vec<Answer>> {
        let (reply, answer) = oneshot::channel();
        self.partition.handle(Input::Job(Job::new(calls, reply)));
        answer
    }

    /// A call that waits here as in every other partition.
    fn wait(&mut self, seat: &Arc<Seat>, claim_ref: Option<[u8; 32]>) -> ClaimAnswer {
        self.wait_in(LANE_DEFAULT, seat, claim_ref)
    }

    fn wait_in(&mut self, lane: &str, seat: &Arc<Seat>, claim_ref: Option<[u8; 32]>) -> ClaimAnswer {
        let (reply, answer) = mpsc::unbounded_channel();
        let job = ClaimJob::everywhere(spec(lane, claim_ref), 1, seat.clone(), reply);
        self.partition.handle(Input::Claim(job));
        answer
    }

    /// Somebody says that there may be work.
    fn wake(&mut self) {
        let lanes = vec![("shop".into(), LANE_DEFAULT.into())];
        self.partition.handle(Input::Wake(Wake { partition: HERE, lanes, due: None }));
    }
}

fn shop() -> Principal {
    Principal::all("shop", "test")
}

fn spec(lane: &str, claim_ref: Option<[u8; 32]>) -> Arc<ClaimSpec> {
    Arc::new(ClaimSpec {
        namespace: "shop".into(),
        worker: "mailer".into(),
        instance: "mailer-1".into(),
        lanes: vec![LaneWish { lane: lane.into(), weight: 1 }],
        mode: LaneMode::Weighted,
        kinds: None,
        capabilities: Capabilities::default(),
        lease_ms: 30_000,
        max_bytes: limits::CLAIM_BYTES_DEFAULT,
        claim_ref,
        session: None,
        principal: shop(),
    })
}

fn handed(answer: &mut ClaimAnswer) -> usize {
    answer.try_recv().map_or(0, |reply| reply.expect("not refused").executions.len())
}

#[test]
fn sd_27_a_claim_that_another_partition_held_for_a_moment_is_served_after_it() {
    let mut bench = Bench::new(Config::default());
    let seat = Seat::new();
    let mut answer = bench.wait(&seat, None);
    bench.settle();
    assert!(seat.take(), "the other partition looks whether it has something");
    bench.submit(Submission::new("mail"));
    bench.settle();
    assert_eq!(handed(&mut answer), 0);
    assert!(seat.release());
    bench.pass(1);
    assert_eq!(handed(&mut answer), 1);
}

#[test]
fn sd_27_a_claim_that_stays_held_is_tried_ever_less_often() {
    let mut bench = Bench::new(Config::default());
    let seat = Seat::new();
    let mut answer = bench.wait(&seat, None);
    assert!(seat.take(), "the other partition waits for its commit");
    bench.submit(Submission::new("mail"));
    bench.settle();
    let ticks = bench.pass(1_000);
    assert!((10..50).contains(&ticks), "{ticks} tries in a second");
    assert!(seat.release());
    bench.pass(32);
    assert_eq!(handed(&mut answer), 1);
}

#[test]
fn sd_29_a_claim_whose_caller_left_is_not_tried_again() {
    let mut bench = Bench::new(Config::default());
    let seat = Seat::new();
    let answer = bench.wait(&seat, None);
    assert!(seat.take());
    bench.submit(Submission::new("mail"));
    bench.settle();
    assert!(!seat.leave(), "the other partition answers it");
    bench.pass(1);
    assert_eq!(bench.partition.next_tick(), None);
    assert!(answer.is_closed() || answer.sender_strong_count() == 0, "nothing waits here for it");
}

#[test]
fn sd_27_a_claim_that_is_tried_again_does_not_make_all_partitions_look_at_the_store() {
    let mut bench = Bench::new(Config::default());
    let (job, _now) = ClaimJob::new(spec(LANE_DEFAULT, None), 1, Seat::new(), true);
    bench.partition.handle(Input::Claim(job));
    bench.settle();
    let (seat, idle) = (Seat::new(), Seat::new());
    let _answers = (bench.wait(&seat, None), bench.wait_in("idle", &idle, None));
    bench.pass(bench.partition.node.config.recheck_ms);
    assert!(seat.take());
    bench.submit(Submission::new("mail"));
    bench.settle();
    let before = bench.scans;
    bench.pass(100);
    assert_eq!(bench.scans - before, 0, "the node looks at all partitions in one call");
}

#[test]
fn sd_29_claims_of_callers_that_have_gone_do_not_pile_up() {
    let mut bench = Bench::new(Config::default());
    let mut seats = Vec::new();
    bench.wake();
    for _ in 0..1_000 {
        let seat = Seat::new();
        bench.wait(&seat, None);
        // Something else comes in after each.
        bench.wake();
        seat.leave();
        seats.push(seat);
    }
    let kept = seats.iter().filter(|seat| Arc::strong_count(seat) > 1).count();
    assert!(kept < 200, "{kept} are kept");
}

#[test]
fn sd_27_a_failed_look_does_not_forget_a_claim_that_another_partition_holds() {
    let mut bench = Bench::new(Config::default());
    let seat = Seat::new();
    let mut answer = bench.wait(&seat, None);
    bench.wake();
    bench.step();
    assert!(seat.take(), "the other partition looks whether it has something");
    for effect in std::mem::take(&mut bench.calls) {
        let Effect::Scan { tag, scan, stamp, turn } = effect else { panic!("only the lane is looked at") };
        let pages = Err(Error::unavailable("the store is away"));
        bench.partition.arrive(Arrival::Scanned(Scanned { tag, parts: scan.parts, stamp, turn, pages }));
    }
    bench.partition.step();
    bench.calls.clear();
    assert!(seat.release());
    bench.submit(Submission::new("mail"));
    bench.settle();
    bench.pass(32);
    assert_eq!(handed(&mut answer), 1);
}

#[test]
fn ex_36_a_repeat_that_another_partition_held_for_a_moment_gets_what_the_first_call_took() {
    let mut bench = Bench::new(Config::default());
    let reference = Some([7; 32]);
    let mut first = bench.wait(&Seat::new(), reference);
    bench.submit(Submission::new("mail"));
    bench.settle();
    assert_eq!(handed(&mut first), 1);

    let seat = Seat::new();
    let mut again = bench.wait(&seat, reference);
    assert!(seat.take(), "the other partition looks whether it has something");
    bench.settle();
    assert_eq!(handed(&mut again), 0);
    assert!(seat.release());
    bench.pass(1);
    let reply = again.try_recv().expect("it is answered").expect("and not refused");
    assert!(reply.repeated && reply.executions.len() == 1);
}

#[test]
fn sd_28_claims_that_find_nothing_behind_a_commit_share_a_step() {
    let mut bench = Bench::new(Config::default());
    let seats: Vec<_> = (0..160).map(|_| Seat::new()).collect();
    let _answers: Vec<_> = seats.iter().map(|seat| bench.wait(seat, None)).collect();
    for _ in 0..2 {
        bench.settle();
        bench.submit(Submission::new("mail").needs("gpu"));
        bench.step();
    }
    assert!(bench.calls.iter().any(|call| matches!(call, Effect::Commit(_))), "it is on its way");
    bench.submit(Submission::new("mail").needs("gpu"));
    let steps = bench.step();
    assert!((10..20).contains(&steps), "{steps} steps for all");
}

/// With slow reads the backlog would move from the bounded mailbox to where it has no bound.
#[test]
fn api_31_calls_that_wait_for_records_take_up_room() {
    let mut bench = Bench::new(Config { batch_max: 4, ..Config::default() });
    for (taken, normal, urgent) in [(3, true, true), (1, false, true), (3, false, true), (1, false, false)] {
        for _ in 0..taken {
            let key = bench.hand.random().to_string();
            bench.submit(Submission::new("mail").idempotency_key(key));
        }
        bench.step();
        let room = [Urgency::Normal, Urgency::Urgent].map(|urgency| bench.partition.has_room(urgency));
        assert_eq!(room, [normal, urgent], "with {} that wait", bench.partition.stalled.len());
    }
    bench.settle();
    assert!(bench.partition.has_room(Urgency::Normal) && bench.partition.is_idle());
}

#[test]
fn ri_5_a_batch_whose_commands_rest_on_different_revisions_of_a_record_is_not_sent() {
    let mut bench = Bench::new(Config::default());
    let id = bench.submit(Submission::new("mail"));
    bench.settle();
    bench.submit(Submission::new("mail"));
    bench.step();
    let key = Key::Execution(id);
    let stale = Expire { key: Some(key), timer: Timer::Retention, due: Time::from_ms(500), entropy: 0 };
    let mut dropped = bench.call(Principal::engine(), Command::Expire(stale));
    bench.step();
    // While the commit is in flight, the record is loaded as another node left it.
    let record = bench.partition.cache.record(&key).expect("it was submitted here").clone();
    let other = CommitId(uuid::Uuid::from_u128(7));
    let (foreign, turn) = (bench.partition.foreign, bench.partition.turn);
    bench.partition.cache.put(key, Some((record, other)), foreign, turn);
    let hold = Command::Hold(weft_core::command::Hold { id, reason: "".into(), revoke: false });
    let mut held = bench.call(shop(), hold);
    bench.step();
    while bench.calls.len() > 1 {
        // The end of the audit log.
        let load = bench.calls.remove(1);
        let arrival = bench.perform(load);
        bench.partition.arrive(arrival);
        bench.step();
    }
    let commit = bench.calls.remove(0);
    let arrival = bench.perform(commit);
    bench.partition.arrive(arrival);
    let effects = bench.partition.step();
    assert!(matches!(&effects[..], [Effect::Load { keys, .. }] if keys[0].0 == key), "it is read once more");
    bench.calls.extend(effects);
    bench.settle();
    for answer in [&mut dropped, &mut held] {
        assert!(answer.try_recv().expect("it is answered")[0].is_ok());
    }
}
