//! Random calls over a few executions. `World` checks every commit: the invariants of each record, due entries against
//! timers, facets against records, episodes against epochs. Here: what must hold between commits.

mod kit;

use bytes::Bytes;
use kit::{Stored, World};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weft_core::change::DueEntry;
use weft_core::command::*;
use weft_core::error::Rejection;
use weft_core::id::ExecutionId;
use weft_core::record::execution::{Deadline, State};
use weft_core::record::{Execution, Key};
use weft_core::reply::Reply;
use weft_core::schema::Kind;
use weft_core::text::Capabilities;

/// One thing that happens. Small numbers choose among what exists.
#[derive(Clone, Debug)]
struct Step {
    pass_ms: u64,
    what: u8,
    execution: usize,
    /// Which of the leases ever given is used as the fence, counted from the newest.
    fence: usize,
    tamper: u8,
    value: u8,
    request: Option<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![8 => Just(0u64), 6 => 1..200u64, 3 => 200..3_000u64, 1 => 3_000..40_000u64];
    let fence = prop_oneof![4 => Just(0usize), 1 => 0..6usize];
    let tamper = prop_oneof![12 => Just(0u8), 1 => 1..4u8];
    let request = prop_oneof![5 => Just(None), 1 => (0..3u8).prop_map(Some)];
    (pass, 0..40u8, 0..4usize, fence, tamper, any::<u8>(), request).prop_map(
        |(pass_ms, what, execution, fence, tamper, value, request)| Step {
            pass_ms,
            what,
            execution,
            fence,
            tamper,
            value,
            request,
        },
    )
}

/// A world, and what a test remembers of it.
#[derive(Default)]
struct Run {
    world: World,
    ids: Vec<ExecutionId>,
    leases: BTreeMap<ExecutionId, Vec<Fence>>,
    replies: Vec<Result<Reply, Rejection>>,
    /// Ended attempts and recorded steps as they were written.
    ended: BTreeMap<Key, BTreeMap<u8, Bytes>>,
    high: BTreeMap<ExecutionId, (u64, u32, u32)>,
}

impl Run {
    fn play(steps: &[Step]) -> Run {
        let mut run = Run::default();
        for step in steps {
            run.world.now = run.world.now + step.pass_ms;
            if step.what < 4 {
                run.world.scan();
            } else {
                run.call(step);
            }
            run.check();
        }
        run
    }

    fn call(&mut self, step: &Step) {
        let command = if step.what < 8 || self.ids.is_empty() { self.submit(step) } else { self.command(step) };
        let request_id = step.request.map(|id| Bytes::copy_from_slice(&[id]));
        let call = Call { request_id, ..kit::calls::call(command) };
        let before = self.told();
        let reply = self.world.call(&call);
        match &reply {
            Ok(Reply::Submitted(done)) if !done.duplicate && !self.ids.contains(&done.id) => self.ids.push(done.id),
            Ok(Reply::Claimed(claimed)) => {
                let fence = Fence { lease: claimed.lease, epoch: claimed.epoch };
                self.leases.entry(claimed.id).or_default().push(fence);
            }
            Err(rejection) => {
                assert_ne!(rejection.code(), "internal", "{call:?}");
                assert_eq!(before, self.told(), "EX-3 a rejection changes nothing: {call:?}");
            }
            _ => {}
        }
        self.replies.push(reply);
    }

    /// Everything but the audit log, which tells of refusals too.
    fn told(&self) -> (BTreeMap<Key, Stored>, BTreeSet<DueEntry>, usize) {
        let mut records = self.world.records.clone();
        records.retain(|key, _| !matches!(key, Key::Audit(..) | Key::Register(..)));
        let mut due = self.world.due.clone();
        due.retain(|entry| entry.kind != Kind::Audit as u8);
        (records, due, self.world.events.len())
    }

    fn submit(&mut self, step: &Step) -> Command {
        let id = self.world.fresh_id();
        let value = step.value;
        let mut cmd = Submit { id: Some(id), ..kit::calls::submit() };
        cmd.input = (value & 1 > 0).then(|| Bytes::copy_from_slice(&[value]));
        cmd.start = (value % 5 == 2).then_some(When::InMs(u64::from(value) * 10));
        cmd.deadline = (value % 7 == 4).then_some(When::InMs(20_000 + u64::from(value)));
        cmd.policy.attempt_timeout_ms = (value & 8 > 0).then_some(5_000);
        cmd.policy.max_reclaims = u32::from(value % 5);
        cmd.policy.retry.max_retries = u32::from(value % 3);
        cmd.policy.max_replays = 3;
        cmd.policy.retention_ms = value.is_multiple_of(6).then_some(u64::from(value) * 20);
        cmd.idempotency_key = value.is_multiple_of(5).then(|| Bytes::copy_from_slice(&[value % 3]));
        cmd.priority = Some(u32::from(value));
        if value & 64 > 0
            && let Some(parent) = self.pick(step, |execution| execution.lease().is_some())
            && let Some(fence) = self.fence(parent, step)
        {
            cmd.parent = Some((parent, fence));
        }
        Command::Submit(Box::new(cmd))
    }

    fn fence(&self, id: ExecutionId, step: &Step) -> Option<Fence> {
        let leases = self.leases.get(&id)?;
        let fence = *leases.iter().rev().nth(step.fence)?;
        match step.tamper {
            1 => None,
            2 => Some(Fence { epoch: fence.epoch + 1, ..fence }),
            3 => Some(Fence { lease: leases[0].lease, ..fence }),
            _ => Some(fence),
        }
    }

    /// One of the executions for which `fits` holds.
    fn pick(&self, step: &Step, fits: impl Fn(&Execution) -> bool) -> Option<ExecutionId> {
        let fitting: Vec<ExecutionId> = self.world.executions().filter(fits).map(|execution| execution.id).collect();
        (!fitting.is_empty()).then(|| fitting[step.execution % fitting.len()])
    }

    fn command(&mut self, step: &Step) -> Command {
        let any = self.ids[self.ids.len() - 1 - step.execution % self.ids.len()];
        let fits = match step.what {
            8..=15 => self.pick(step, |execution| matches!(execution.hot.state, State::Ready { .. })),
            16..=26 | 28 | 32 => self.pick(step, |execution| execution.lease().is_some()),
            39 => self.pick(step, Execution::is_done),
            _ => None,
        };
        // Now and then one that does not fit, for the refusals.
        let id = fits.filter(|_| !step.value.is_multiple_of(8)).unwrap_or(any);
        let fence = self.fence(id, step);
        let value = step.value;
        let ms = u64::from(value) * 40;
        let content_type = (value & 2 > 0).then(|| "image/png".into());
        let result = (value & 1 > 0).then(|| Bytes::copy_from_slice(&[value]));
        let checkpoint = result.clone().map(|bytes| Payload { bytes, content_type });
        let steps = (0..value % 4).map(|n| kit::calls::step(&format!("s{}", (value / 16 + n) % 6), &[value])).collect();
        match step.what {
            8..=15 => Command::Claim(Claim {
                id,
                lease: self.world.fresh_lease(),
                worker: "pool".into(),
                instance: "pool-1".into(),
                lease_ms: 1_000 + ms,
                kinds: None,
                capabilities: Capabilities::default(),
                claim_ref: None,
                session: None,
            }),
            16 if value & 1 > 0 => Command::RecordSteps(RecordSteps { id, fence, steps }),
            16 => Command::Renew(Renew { id, fence, lease_ms: None, percent: None, message: None, checkpoint, steps }),
            17 => Command::Progress(Progress {
                id,
                fence,
                percent: Some(value % 101),
                message: None,
                checkpoint,
                renew_ms: None,
            }),
            18..=19 => Command::Complete(Complete { id, fence, result, content_type: None, steps }),
            20..=21 => Command::Fail(Fail {
                id,
                fence,
                category: "application".into(),
                message: "".into(),
                detail: checkpoint,
                retry: [RetryWish::Policy, RetryWish::Never, RetryWish::AfterMs(ms)][usize::from(value % 3)],
                steps,
                entropy: u64::from(value),
            }),
            22..=23 => {
                let until = When::InMs(ms * u64::from(value & 1));
                Command::Delay(Delay { id, fence, until, checkpoint, steps })
            }
            24..=26 => Command::WaitChildren(WaitChildren {
                id,
                fence,
                children: None,
                rule: if value & 2 > 0 { ChildrenRule::AllOf } else { ChildrenRule::AnyOf },
                timeout_ms: (value & 4 > 0).then_some(ms),
                checkpoint,
            }),
            27 => Command::Cancel(Cancel {
                id,
                fence: None,
                reason: "r".into(),
                mode: if value & 1 > 0 { CancelMode::Immediate } else { CancelMode::Graceful { grace_ms: ms } },
                cascade: value & 2 > 0,
            }),
            28 => Command::Cancel(Cancel {
                id,
                fence: fence.or(Some(Fence { lease: self.world.fresh_lease(), epoch: 1 })),
                reason: "r".into(),
                mode: CancelMode::Immediate,
                cascade: true,
            }),
            29 => Command::Reschedule(Reschedule { id, start: When::InMs(ms), reason: "".into() }),
            30 => Command::ChangePriority(ChangePriority { id, priority: u32::from(value % 4), reason: "".into() }),
            31 => Command::SetTags(SetTags {
                id,
                fence: None,
                set: [("t".into(), format!("{}", value % 3).into())].into(),
                remove: Vec::new(),
                reason: "".into(),
            }),
            32 => Command::Revoke(Revoke { id, expected_epoch: None, reason: "r".into(), hold: value & 1 > 0 }),
            33..=34 => Command::Hold(Hold { id, reason: "r".into(), revoke: value & 1 > 0 }),
            35..=36 => Command::Release(Release { id, reason: "".into() }),
            37 => Command::ForceComplete(ForceComplete { id, result, content_type: None, reason: "r".into() }),
            38 if value.is_multiple_of(4) => Command::Purge(Purge { id, reason: "".into() }),
            38 => Command::ForceFail(ForceFail { id, message: "m".into(), reason: "r".into() }),
            _ => Command::Replay(Replay {
                id,
                reason: "r".into(),
                deadline: [DeadlineWish::Keep, DeadlineWish::None, DeadlineWish::New(Deadline::InMs(ms + 1))]
                    [usize::from(value % 3)],
                delay_ms: None,
                priority: None,
                steps: if value & 8 > 0 { Steps::Keep } else { Steps::Clear },
                downstream: Downstream::Reopen,
                ignore_dependencies: false,
            }),
        }
    }

    fn check(&mut self) {
        for execution in self.world.executions() {
            let hot = &execution.hot;
            let seen = (hot.epoch, hot.attempts, hot.replays);
            let high = self.high.insert(execution.id, seen).unwrap_or_default();
            assert!(high.0 <= seen.0 && high.1 <= seen.1 && high.2 <= seen.2, "E24 {high:?} then {seen:?}");
            if let State::Blocked { .. } | State::Ready { .. } | State::Delayed { .. } = hot.state {
                assert!(execution.lease().is_none(), "E2");
            }
        }
        for (key, stored) in &self.world.records {
            if let Key::Attempt(..) | Key::Step(..) | Key::Audit(..) = key {
                let first = self.ended.entry(*key).or_insert_with(|| stored.parts.clone());
                assert_eq!(*first, stored.parts, "E4 and SDK-20: what is written once never changes");
            }
        }
        // Walking the log checks its chain.
        self.world.audit(kit::PARTITION);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn e1_to_e24_hold_after_any_calls_and_the_same_calls_give_the_same(steps in proptest::collection::vec(step(), 1..120)) {
        let first = Run::play(&steps);
        let second = Run::play(&steps);
        prop_assert_eq!(&first.world, &second.world);
        prop_assert_eq!(first.replies, second.replies);

        let ends = first.world.facts().iter().filter(|fact| **fact == "finished").count();
        let replays = first.world.facts().iter().filter(|fact| **fact == "replayed").count();
        let purged = first.world.facts().iter().filter(|fact| **fact == "purged").count();
        let done = first.world.executions().filter(|execution| execution.is_done()).count();
        prop_assert_eq!(ends, done + purged + replays, "E16 one `finished` for each end");

        // E20: whoever waits for a time gets there, and nothing stays due for ever.
        let mut world = first.world;
        while let Some(next) = world.due.first().map(|entry| entry.at) {
            world.now = world.now.max(next);
            world.scan();
        }
        for execution in world.executions() {
            let stranded = match &execution.hot.state {
                State::Ready { .. } | State::Done { .. } => false,
                State::Blocked { .. } => execution.public_state().name() != "held" && world.executions().all(|child| child.is_done()),
                State::Active { .. } | State::Delayed { .. } => true,
            };
            prop_assert!(!stranded, "E20 {:?}", execution);
        }
    }
}
