//! Two nodes on one store: what one of them writes while the other loads.

use super::*;
use weft_core::change::{Body, Change, Write};
use weft_core::command::{CancelFlow, Complete, DeadlineWish, Downstream, Progress, Release, Replay, SealFlow, Steps};
use weft_core::command::{ChangePriority, ChildrenRule, Fence, ForceFail, Hold, NewEdge, NewFlow, NewMember};
use weft_core::command::{Submit, SubmitFlow, WaitChildren};
use weft_core::flow::member_id;
use weft_core::flow::plan::Plan;
use weft_core::record::Record;
use weft_core::record::edge::On;
use weft_core::record::execution::{self, HoldKey, PublicState, State};
use weft_core::record::flow::{CompletionPolicy, FailurePolicy, Growth, Mode, Remaining};
use weft_core::record::member::MAIN;
use weft_core::record::register::Subject;
use weft_core::tx::Overlay;
use weft_core::{CommitId, FlowId, LeaseId};

const NOW: &str = "the store in memory answers at once";

impl Bench {
    /// Takes a call through, on a partition that does nothing else.
    fn done(&mut self, command: Command) -> Answer {
        let mut answer = self.call(shop(), command);
        self.settle();
        answer.try_recv().expect("it is answered").remove(0)
    }

    /// A flow of these members, each of which waits for the one before it.
    pub(super) fn chain(&self, keys: &[&str]) -> (FlowId, Command) {
        self.flow(keys, true)
    }

    /// The same chain, sealed or not.
    pub(super) fn flow(&self, keys: &[&str], seal: bool) -> (FlowId, Command) {
        let id = FlowId::new(HERE, crate::engine::fresh_uuid(&*self.hand, self.hand.clock()));
        let config = &self.partition.node.config;
        let submit = Submission::new("mail").command(ExecutionId::new(HERE, id.uuid()), &config.policy);
        let submit = submit.expect("a good submission");
        let member =
            |key: &str| NewMember { key: key.into(), critical: true, groups: Vec::new(), submit: submit.clone() };
        let edge = |from: &str, to: &str| {
            let (group, policy, on) = (MAIN.into(), None, On::Success);
            NewEdge { from: from.into(), to: to.into(), group, policy, on, input: None }
        };
        let flow = NewFlow {
            kind: "etl".into(),
            name: None,
            tags: BTreeMap::new(),
            failure: FailurePolicy::Isolate,
            completion: CompletionPolicy::AllTerminal,
            growth: Growth::Dynamic,
            seal,
            seal_by_ms: None,
            deadline: None,
            retention_ms: Some(86_400_000),
            idempotency_key: None,
            idempotency_ttl_ms: 86_400_000,
            trace: None,
            members: keys.iter().map(|key| member(key)).collect(),
            edges: keys.windows(2).map(|pair| edge(pair[0], pair[1])).collect(),
        };
        let plan = Plan::new(flow, &config.limits, self.hand.clock()).expect("a good plan");
        (id, Command::SubmitFlow(SubmitFlow { id: Some(id), plan: Arc::new(plan), from: 0 }))
    }

    /// A flow with one member, which waits to be claimed.
    fn flow_of_one(&mut self) -> (FlowId, ExecutionId) {
        let (id, command) = self.chain(&["a"]);
        self.done(command).expect("the flow is made");
        (id, member_id(id, "a"))
    }

    /// Holds an execution, or releases one that is held. Both change the totals of its flow.
    fn toggle(&mut self, id: ExecutionId) {
        let Some(Record::Execution(execution)) = self.stored(Key::Execution(id)) else { panic!("{id} is there") };
        let reason = "".into();
        let command = match execution.public_state() {
            PublicState::Waiting => Command::Hold(Hold { id, reason, revoke: false }),
            _ => Command::Release(Release { id, reason }),
        };
        self.done(command).expect("it is held or released");
    }

    fn stored(&self, key: Key) -> Option<Record> {
        let read = self.store.read(HERE, vec![(key, PartMask::ALL)]).now_or_never().expect(NOW);
        let found = read.expect("it can be read").found.remove(0)?;
        Some(Record::decode(key, &found.parts, PartMask::ALL).expect("it decodes"))
    }

    /// The results of the calls of this verb in the audit log.
    fn audited(&self, verb: &str) -> Vec<String> {
        let dump = self.store.dump(HERE);
        let entries = dump.records.keys().filter_map(|key| self.stored(*key)).filter_map(|record| match record {
            Record::Audit(entry) if &*entry.body.act.verb == verb => Some(entry.body.act.result.to_string()),
            _ => None,
        });
        entries.collect()
    }

    /// Answers the next load, and returns what was loaded. With `one_by_one` each record is read by itself, as if each had
    /// been missed by itself; `between` runs after the read of `key`.
    fn answer_load(&mut self, one_by_one: bool, key: Key, between: impl FnOnce()) -> Vec<Key> {
        let at = self.calls.iter().position(|call| matches!(call, Effect::Load { .. })).expect("something is loaded");
        let Effect::Load { keys, stamp, turn } = self.calls.remove(at) else { unreachable!("a load was found") };
        let mut between = Some(between);
        for some in keys.chunks(if one_by_one { 1 } else { keys.len() }) {
            let turn = if one_by_one { self.partition.turn } else { turn };
            let arrival = self.perform(Effect::Load { keys: some.to_vec(), stamp, turn });
            if some.iter().any(|(loaded, _)| *loaded == key)
                && let Some(between) = between.take()
            {
                between();
            }
            self.partition.arrive(arrival);
        }
        self.step();
        keys.into_iter().map(|(key, _)| key).collect()
    }
}

pub(super) fn seal(flow: FlowId) -> Command {
    Command::SealFlow(SealFlow { flow, keys: None, within: None, checked: None })
}

pub(super) fn replay(id: ExecutionId) -> Command {
    Command::Replay(Replay {
        id,
        reason: "".into(),
        deadline: DeadlineWish::Keep,
        delay_ms: None,
        priority: None,
        steps: Steps::Clear,
        downstream: Downstream::Reopen,
        ignore_dependencies: false,
    })
}

pub(super) fn force_fail(id: ExecutionId) -> Command {
    Command::ForceFail(ForceFail { id, message: "stop it".into(), reason: "".into() })
}

#[test]
fn sec_18_a_command_on_records_of_different_moments_is_run_again_on_fresh_ones() {
    let mut other = Bench::new(Config::default());
    let (flow, id) = other.flow_of_one();
    let mut bench = other.beside();
    let mut answer = bench.call(shop(), force_fail(id));
    bench.step();
    let member = Key::Execution(id);
    assert!(bench.answer_load(false, member, || other.toggle(id)).contains(&member));
    assert!(bench.answer_load(false, member, || ()).contains(&Key::Flow(flow)), "as the other node left it");
    assert_eq!(bench.partition.effort.violations, 1, "the flow does not count the member as what it was");
    let again = bench.answer_load(false, member, || ());
    assert!([member, Key::Flow(flow)].iter().all(|key| again.contains(key)), "both are loaded together");
    bench.settle();
    assert!(answer.try_recv().expect("it is answered")[0].is_ok());
    assert_eq!(bench.audited("force_fail"), ["ok"], "it was not refused in between");
}

#[test]
fn sec_18_a_command_whose_records_are_never_of_one_moment_is_answered_busy() {
    let mut other = Bench::new(Config::default());
    let (_, id) = other.flow_of_one();
    let mut bench = other.beside();
    let mut answer = bench.call(shop(), force_fail(id));
    bench.step();
    let mut loads = 0;
    while matches!(bench.calls[..], [Effect::Load { .. }]) {
        bench.answer_load(true, Key::Execution(id), || other.toggle(id));
        loads += 1;
    }
    bench.settle();
    let answer = answer.try_recv().expect("it is answered").remove(0);
    assert_eq!(answer, Err(CONTENDED));
    // The member, its flow, and then both together.
    assert_eq!(loads, RELOADS_MAX + 2);
    assert_eq!(bench.audited("force_fail"), ["busy"], "only the answer is in the log");
}

#[test]
fn sec_18_a_waiting_claim_gets_work_whose_flow_another_node_has_changed() {
    let mut bench = Bench::new(Config::default());
    let (flow, command) = bench.chain(&["a", "b"]);
    bench.done(command).expect("the flow is made");
    let (a, b) = (member_id(flow, "a"), member_id(flow, "b"));
    bench.toggle(a);
    let mut other = bench.beside();
    let seat = Seat::new();
    let mut answer = bench.wait(&seat, None);
    bench.settle();
    // The flow is read after the claim came in, and before the other node changes it: then it counts no member that waits.
    bench
        .done(Command::ChangePriority(ChangePriority { id: b, priority: 7, reason: "".into() }))
        .expect("it is changed");
    bench.done(Command::Hold(Hold { id: b, reason: "".into(), revoke: false })).expect("it is held");
    other.toggle(a);
    bench.wake();
    bench.settle();
    let reply = answer.try_recv().expect("it is answered").expect("it is served");
    assert_eq!(reply.executions.len(), 1, "the member is ready");
}

#[test]
fn sec_18_a_claim_passes_over_work_whose_flow_breaks_an_invariant() {
    let mut other = Bench::new(Config::default());
    let (flow, _) = other.flow_of_one();
    miscount(&other, flow);
    let sound = other.submit(Submission::new("mail"));
    other.settle();
    let mut bench = other.beside();
    let seat = Seat::new();
    let mut answer = bench.wait(&seat, None);
    bench.wake();
    bench.settle();
    let reply = answer.try_recv().expect("it is answered").expect("it is served");
    assert_eq!(reply.executions.iter().map(|claimed| claimed.id).collect::<Vec<_>>(), [sound]);
}

/// Makes the totals of a flow wrong, as a fault of the engine might.
fn miscount(bench: &Bench, flow: FlowId) {
    let Some(Record::Flow(mut wrong)) = bench.stored(Key::Flow(flow)) else { panic!("the flow is there") };
    wrong.summary.by_state.swap(PublicState::Waiting as usize, PublicState::Active as usize);
    let record = Record::Flow(wrong);
    let body = Body { facets: record.facets(), parts: record.encode(PartMask::ALL) };
    let what = Change::Update { old: record.facets(), body };
    let write = Write { key: record.key(), what, due_add: Vec::new(), due_remove: Vec::new() };
    let (commit, head) = (CommitId(uuid::Uuid::from_u128(7)), bench.partition.head);
    let (empty, _) = Overlay::default().seal(commit, head, false, head.now);
    let outcome = bench.store.commit(HERE, Batch { writes: vec![write], ..empty }).now_or_never().expect(NOW);
    assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
}

#[test]
fn sec_18_a_broken_invariant_of_stored_records_is_answered_after_one_reload() {
    let mut other = Bench::new(Config::default());
    let (flow, id) = other.flow_of_one();
    miscount(&other, flow);
    let mut bench = other.beside();
    let answer = bench.done(force_fail(id));
    assert!(matches!(answer, Err(Rejection::Internal { .. })), "{answer:?}");
    assert_eq!(bench.partition.effort.violations, 1, "it was loaded again once");
    assert_eq!(bench.audited("force_fail"), [""; 0]);
}

#[test]
fn sec_18_a_list_is_scanned_again_with_the_records_of_a_command_that_is_run_again() {
    let mut other = Bench::new(Config::default());
    let (flow, id) = other.flow_of_one();
    miscount(&other, flow);
    let mut bench = other.beside();
    let (remaining, reason) = (Remaining::Cancel(Mode::Immediate), "".into());
    let answer = bench.done(Command::CancelFlow(CancelFlow { flow, remaining, reason }));
    assert!(matches!(answer, Err(Rejection::Internal { .. })), "{answer:?} {id}");
    assert_eq!((bench.partition.effort.violations, bench.scans), (1, 2));
}

#[test]
fn sec_18_a_record_of_the_open_batch_that_was_read_later_is_of_another_moment() {
    let mut other = Bench::new(Config::default());
    let (flow, id) = other.flow_of_one();
    let mut bench = other.beside();
    let keys = [Key::Execution(id), Key::Flow(flow), Key::Register(HERE, Subject::AuditEnd)];
    let load = |bench: &mut Bench, keys: &[Key]| {
        bench.partition.want(keys.iter().map(|key| Miss::Record(*key, PartMask::ALL)).collect());
        bench.settle();
    };
    load(&mut bench, &keys);
    other.toggle(id);
    bench.partition.forget(&keys[..1]);
    load(&mut bench, &keys[..1]);
    // The first leaves the member in the open batch. The second came before all this, and was loaded again once.
    let change = ChangePriority { id, priority: 7, reason: "".into() };
    let _changed = bench.call(shop(), Command::ChangePriority(change));
    let mut answer = bench.call(shop(), force_fail(id));
    let item = bench.partition.queue.back_mut().expect("it waits");
    (item.turn, item.reloads) = (0, 1);
    bench.step();
    let is_reload = |call: &Effect| matches!(call, Effect::Load { keys, .. } if keys.iter().any(|(key, _)| *key == Key::Flow(flow)));
    assert_eq!((bench.partition.effort.violations, bench.calls.iter().any(is_reload)), (1, true));
    bench.settle();
    let answer = answer.try_recv().expect("it is answered").remove(0);
    assert!(answer.is_ok(), "{answer:?}");
}

/// An execution that is held by a worker, and its children.
struct Family {
    parent: ExecutionId,
    fence: Fence,
}

impl Family {
    fn new(bench: &mut Bench) -> Self {
        let parent = bench.submit(Submission::new("mail"));
        bench.settle();
        let lease = LeaseId::new(HERE, crate::engine::fresh_uuid(&*bench.hand, bench.hand.clock()));
        bench.done(spec(LANE_DEFAULT, None).command(parent, lease)).expect("it is claimed");
        Self { parent, fence: Fence { lease, epoch: 1 } }
    }

    /// Submits a child, without waiting for it.
    fn submit(&self, bench: &mut Bench) -> ExecutionId {
        let id = ExecutionId::new(HERE, crate::engine::fresh_uuid(&*bench.hand, bench.hand.clock()));
        let command = Submission::new("mail").command(id, &bench.partition.node.config.policy);
        let command = Submit { parent: Some((self.parent, self.fence)), ..command.expect("a good submission") };
        bench.call(shop(), Command::Submit(Box::new(command)));
        id
    }

    fn child(&self, bench: &mut Bench) -> ExecutionId {
        let id = self.submit(bench);
        bench.settle();
        id
    }

    /// Waits for all children.
    fn wait(&self) -> Command {
        let (id, fence, rule) = (self.parent, Some(self.fence), ChildrenRule::AllOf);
        Command::WaitChildren(WaitChildren { id, fence, children: None, rule, timeout_ms: None, checkpoint: None })
    }

    /// The children that the parent waits for.
    fn waited_for(&self, bench: &Bench) -> Vec<ExecutionId> {
        let Some(Record::Execution(parent)) = bench.stored(Key::Execution(self.parent)) else { panic!("it is there") };
        let State::Blocked { holds, .. } = &parent.hot.state else { panic!("{:?}", parent.hot.state) };
        match holds.get(HoldKey::Children) {
            Some(execution::Hold::Children(hold)) => hold.children.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

/// Takes the first call of this kind to the store out of those that are not answered.
fn pick(bench: &mut Bench, is_it: fn(&Effect) -> bool) -> Effect {
    let at = bench.calls.iter().position(is_it).expect("such a call was made");
    bench.calls.remove(at)
}

fn is_scan(effect: &Effect) -> bool {
    matches!(effect, Effect::Scan { .. })
}

fn is_commit(effect: &Effect) -> bool {
    matches!(effect, Effect::Commit(_))
}

/// The store answers this call now.
fn answer(bench: &mut Bench, effect: Effect) {
    let arrival = bench.perform(effect);
    bench.partition.arrive(arrival);
    bench.step();
}

#[test]
fn a_list_that_was_scanned_before_a_commit_of_this_node_has_what_the_commit_added() {
    let mut bench = Bench::new(Config::default());
    let family = Family::new(&mut bench);
    let first = family.child(&mut bench);
    bench.partition.forget(&[Key::Execution(first)]);
    let second = family.submit(&mut bench);
    bench.step();
    let _wait = bench.call(shop(), family.wait());
    bench.step();
    // The scan is answered before the commit arrives at the store; the first child is loaded after it.
    for is_it in [is_scan, is_commit] {
        let effect = pick(&mut bench, is_it);
        answer(&mut bench, effect);
    }
    bench.settle();
    assert_eq!(family.waited_for(&bench), [first, second]);
}

#[test]
fn a_scan_that_is_answered_after_a_commit_of_this_node_has_what_the_commit_added() {
    let mut bench = Bench::new(Config::default());
    let family = Family::new(&mut bench);
    let first = family.child(&mut bench);
    let _wait = bench.call(shop(), family.wait());
    bench.step();
    let scan = pick(&mut bench, is_scan);
    let before = bench.perform(scan);
    let second = family.child(&mut bench);
    bench.partition.arrive(before);
    bench.settle();
    assert_eq!(family.waited_for(&bench), [first, second]);
}

#[test]
fn a_list_that_was_scanned_before_a_commit_of_another_node_is_scanned_again() {
    let mut bench = Bench::new(Config::default());
    let mut other = bench.beside();
    let family = Family::new(&mut bench);
    let first = family.child(&mut bench);
    let keys = [family.parent, first].map(Key::Execution);
    bench.partition.forget(&keys[1..]);
    bench.submit(Submission::new("mail"));
    bench.step();
    let _wait = bench.call(shop(), family.wait());
    bench.step();
    let scan = pick(&mut bench, is_scan);
    answer(&mut bench, scan);
    let second = family.child(&mut other);
    // The commit rests on nothing that the other node wrote, and is applied after it. The parent is loaded anew.
    let commit = pick(&mut bench, is_commit);
    bench.partition.forget(&keys);
    answer(&mut bench, commit);
    bench.settle();
    assert_eq!(family.waited_for(&bench), [first, second]);
}

#[test]
fn ri_5_a_batch_that_rests_on_a_list_runs_again_after_a_commit_of_another_node_came_before_ours() {
    let mut bench = Bench::new(Config::default());
    let mut other = bench.beside();
    let family = Family::new(&mut bench);
    let first = family.child(&mut bench);
    bench.submit(Submission::new("mail"));
    bench.step();
    let mut wait = bench.call(shop(), family.wait());
    bench.step();
    while let Some(at) = bench.calls.iter().position(|call| !is_commit(call)) {
        let effect = bench.calls.remove(at);
        answer(&mut bench, effect);
    }
    assert!(bench.partition.open.overlay.is_strict(), "it runs behind the commit in flight");
    other.submit(Submission::new("mail"));
    other.settle();
    let commit = pick(&mut bench, is_commit);
    let arrival = bench.perform(commit);
    bench.partition.arrive(arrival);
    assert!(bench.partition.open.is_empty(), "its list may lack what the other node has added");
    bench.settle();
    assert_eq!((family.waited_for(&bench), wait.try_recv().is_ok()), (vec![first], true));
}

#[test]
fn e20_a_member_that_a_replay_in_flight_revives_is_sealed_with_its_flow() {
    let mut bench = Bench::new(Config::default());
    let (flow, command) = bench.flow(&["a", "b"], false);
    bench.done(command).expect("the flow is made");
    let id = member_id(flow, "a");
    bench.done(force_fail(id)).expect("it ends unsealed");
    let _replay = bench.call(shop(), replay(id));
    bench.step();
    while let Some(at) = bench.calls.iter().position(|call| !is_commit(call)) {
        let effect = bench.calls.remove(at);
        answer(&mut bench, effect);
    }
    let mut seal = bench.call(shop(), seal(flow));
    bench.step();
    while let Some(at) = bench.calls.iter().position(|call| !is_commit(call)) {
        let effect = bench.calls.remove(at);
        answer(&mut bench, effect);
    }
    bench.settle();
    assert!(seal.try_recv().expect("it is answered")[0].is_ok());
    let Some(Record::Flow(flow)) = bench.stored(Key::Flow(flow)) else { panic!("it is there") };
    assert_eq!((flow.hot.unsealed, flow.hot.sealed_at.is_some()), (0, true));
}

#[test]
fn sr_20_a_command_of_a_scanner_is_left_to_its_next_pass_after_three_more_tries() {
    let [engine, client] = [Principal::engine(), shop()].map(|principal| {
        let mut other = Bench::new(Config::default());
        let id = other.submit(Submission::new("mail"));
        other.settle();
        let mut bench = other.beside();
        let is_engine = principal.is_engine();
        let command = match is_engine {
            // Only drops an entry that the record does not have.
            true => Command::Expire(Expire {
                key: Some(Key::Execution(id)),
                timer: Timer::Retention,
                due: Time::from_ms(500),
                entropy: 0,
            }),
            false => Command::ChangePriority(ChangePriority { id, priority: 7, reason: "".into() }),
        };
        let mut answer = bench.call(principal, command);
        let mut conflicts = 0;
        bench.step();
        while let Some(effect) = bench.calls.pop() {
            if is_commit(&effect) && conflicts < 6 {
                conflicts += 1;
                other.toggle(id);
            }
            let arrival = bench.perform(effect);
            bench.partition.arrive(arrival);
            bench.step();
        }
        (conflicts, answer.try_recv().expect("it is answered").remove(0).map(|_| ()))
    });
    assert_eq!((engine, client), ((4, Err(CONTENDED)), (6, Ok(()))));
}

#[test]
fn sec_18_a_panic_after_a_miss_is_a_miss() {
    let panicked = || Err(Box::new("no such record") as Box<dyn std::any::Any + Send>);
    assert_eq!(answer_of(panicked(), true), Err(Stop::Miss));
    assert!(matches!(answer_of(panicked(), false), Err(Stop::Rejected(Rejection::Internal { .. }))));
}

#[test]
fn an_answer_that_writes_nothing_rests_on_a_list_that_was_scanned_since_the_call() {
    let mut bench = Bench::new(Config::default());
    let mut other = bench.beside();
    let family = Family::new(&mut bench);
    let first = family.child(&mut bench);
    bench.done(force_fail(first)).expect("the child ends");
    // While a commit is in flight, so that the scanned list is kept.
    bench.submit(Submission::new("mail"));
    bench.step();
    let wait = |bench: &mut Bench| {
        bench.call(shop(), family.wait());
        bench.step();
        while let Some(at) = bench.calls.iter().position(|call| !is_commit(call)) {
            let effect = bench.calls.remove(at);
            answer(bench, effect);
        }
    };
    wait(&mut bench);
    assert_eq!(bench.partition.open.done.len(), 1, "there is nothing to wait for");
    let second = family.child(&mut other);
    wait(&mut bench);
    bench.settle();
    assert_eq!(family.waited_for(&bench), [second]);
}

/// A call with this request id.
fn request(id: &'static str, command: Command) -> Call {
    Call { principal: shop(), request_id: Some(id.into()), expected_revision: None, command }
}

#[test]
fn ex_79_a_refusal_of_a_repeat_rests_on_records_of_one_moment() {
    for is_cached in [true, false] {
        let mut other = Bench::new(Config::default());
        let id = other.submit(Submission::new("mail"));
        other.settle();
        let mut bench = other.beside();
        if is_cached {
            let change = ChangePriority { id, priority: 7, reason: "".into() };
            bench.done(Command::ChangePriority(change)).expect("it is in the cache from now on");
        }
        other.done(force_fail(id)).expect("it ends");
        let mut answer = bench.send(vec![request("r", replay(id))]);
        bench.step();
        let Some(Effect::Load { keys, .. }) = bench.calls.first() else { panic!("the kept reply is looked up") };
        let kept = keys.iter().map(|(key, _)| *key).find(|key| matches!(key, Key::Dedup(..))).expect("by its key");
        // The reply is looked up before the other node does what was asked for, and the execution is read after it.
        bench.answer_load(true, kept, || {
            other.send(vec![request("r", replay(id))]);
            other.settle();
        });
        bench.settle();
        let answer = answer.try_recv().expect("it is answered").remove(0);
        assert!(answer.as_ref().is_ok_and(|applied| applied.repeated), "cached: {is_cached}, {answer:?}");
    }
}

#[test]
fn ex_11_calls_of_one_batch_are_applied_in_order_also_after_a_conflict() {
    let mut other = Bench::new(Config::default());
    let mut bench = other.beside();
    let family = Family::new(&mut bench);
    let (id, fence) = (family.parent, Some(family.fence));
    let progress = Progress { id, fence, percent: Some(50), message: None, checkpoint: None, renew_ms: None };
    let complete = Complete { id, fence, result: None, content_type: None, steps: Vec::new() };
    // The second waits for the look-up of its request while the first is committed.
    let progress = Call { request_id: None, ..request("", Command::Progress(progress)) };
    let mut answers = bench.send(vec![progress, request("r", Command::Complete(complete))]);
    bench.step();
    let change = ChangePriority { id, priority: 3, reason: "".into() };
    other.done(Command::ChangePriority(change)).expect("it is changed");
    let commit = pick(&mut bench, is_commit);
    answer(&mut bench, commit);
    bench.settle();
    let answers = answers.try_recv().expect("they are answered");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}
