//! Arbitrary interleavings of the calls, loads and commits of two nodes leave what the acknowledged commands leave one after
//! another.

use super::shared::{force_fail, replay, seal};
use super::*;
use weft_core::change::DueEntry;
use weft_core::command::{Cancel, CancelFlow, CancelMode, ChangePriority, ChildrenRule, Complete, Fence, Hold};
use weft_core::command::{Purge, Release, Submit, WaitChildren};
use weft_core::flow::member_id;
use weft_core::record::Record;
use weft_core::record::flow::{Mode, Remaining};
use weft_core::reply::Reply;
use weft_core::schema::{Kind, Value};
use weft_core::{FlowId, LeaseId};
use weft_store::memory::Dump;

const SEEDS: u64 = 3_000;
const ACTS: u64 = 120;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn pick<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }
}

struct Node {
    bench: Bench,
    /// What the store has answered and the loop has not seen.
    arrivals: Vec<Arrival>,
    answers: Vec<oneshot::Receiver<Vec<Answer>>>,
}

struct Race {
    /// Of only two executions: a parent, and the child that it waits for.
    is_family: bool,
    dice: Dice,
    nodes: [Node; 2],
    executions: Vec<ExecutionId>,
    flows: Vec<FlowId>,
    fences: BTreeMap<ExecutionId, Fence>,
    /// What was acknowledged, in the order of the commits.
    history: Vec<(Call, Applied)>,
}

impl Race {
    fn new(seed: u64) -> Self {
        let bench = Bench::new(Config::default());
        let other = bench.beside();
        let nodes = [bench, other].map(|bench| Node { bench, arrivals: Vec::new(), answers: Vec::new() });
        let (executions, flows, fences, history) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        let is_family = seed % 2 == 1;
        let mut race = Self { is_family, dice: Dice(seed), nodes, executions, flows, fences, history };
        if is_family {
            race.submit(None);
            race.finish();
            let parent = race.executions[0];
            race.claim(0, parent);
            race.finish();
            race.submit(Some((parent, race.fences[&parent])));
            race.finish();
            return race;
        }
        for _ in 0..2 {
            race.submit(None);
        }
        for sealed in [true, false] {
            let (flow, command) = race.nodes[0].bench.flow(&["a", "b"], sealed);
            race.executions.extend(["a", "b"].map(|key| member_id(flow, key)));
            race.flows.push(flow);
            race.call(0, shop(), command);
        }
        race.finish();
        race
    }

    fn uuid(&self) -> uuid::Uuid {
        let hand = &self.nodes[0].bench.hand;
        crate::engine::fresh_uuid(&**hand, hand.clock())
    }

    fn call(&mut self, node: usize, principal: Principal, command: Command) {
        let answer = self.nodes[node].bench.call(principal, command);
        self.nodes[node].answers.push(answer);
        self.nodes[node].bench.step();
    }

    fn submit(&mut self, parent: Option<(ExecutionId, Fence)>) {
        let id = ExecutionId::new(HERE, self.uuid());
        let node = self.dice.below(2);
        let command = Submission::new("mail").command(id, &self.nodes[node].bench.partition.node.config.policy);
        let command = Submit { parent, ..command.expect("a good submission") };
        self.executions.push(id);
        self.call(node, shop(), Command::Submit(Box::new(command)));
    }

    /// One thing happens: a call, an answer of the store, or a record goes out of memory.
    fn act(&mut self) {
        let node = self.dice.below(2);
        match self.dice.below(12) {
            0..3 => self.ask(node),
            3..6 => self.perform(node),
            6..10 => self.deliver(node),
            _ => {
                let keys: Vec<Key> = self.nodes[0].bench.store.dump(HERE).records.into_keys().collect();
                let key = self.dice.pick(&keys);
                self.nodes[node].bench.partition.forget(&[key]);
            }
        }
    }

    fn claim(&mut self, node: usize, id: ExecutionId) {
        let lease = LeaseId::new(HERE, self.uuid());
        self.call(node, shop(), spec(LANE_DEFAULT, None).command(id, lease));
    }

    /// A command of the family, or now and then a row of them.
    fn ask_family(&mut self, node: usize) {
        let (parent, child) = (self.executions[0], self.executions[1]);
        match self.dice.below(8) {
            0..2 => self.claim(node, parent),
            2 | 3 => self.call(node, shop(), wait(parent, self.fences[&parent])),
            4 => self.call(node, shop(), force_fail(child)),
            5 | 6 => self.call(node, shop(), replay(child)),
            _ => self.end_before_wait(node, parent, child),
        }
    }

    /// The child ends while the parent runs. Before the commit of that, the parent waits by the other node, and a command
    /// on it comes into the same batch.
    fn end_before_wait(&mut self, node: usize, parent: ExecutionId, child: ExecutionId) {
        self.call(node, shop(), force_fail(child));
        self.finish();
        self.claim(node, parent);
        self.finish();
        self.call(node, shop(), replay(child));
        self.finish();
        for node in &mut self.nodes {
            node.bench.partition.forget(&[Key::Execution(parent), Key::Execution(child)]);
        }
        self.submit_beside(node);
        self.call(node, shop(), force_fail(child));
        self.load(node);
        self.call(1 - node, shop(), wait(parent, self.fences[&parent]));
        (0..24).for_each(|_| self.serve(1 - node));
        self.nodes[node].bench.partition.forget(&[Key::Execution(parent)]);
        let priority = self.dice.below(9) as u32;
        self.call(node, shop(), Command::ChangePriority(ChangePriority { id: parent, priority, reason: "".into() }));
        self.load(node);
    }

    /// A submission that nothing else is about, so that the commands after it gather behind its commit.
    fn submit_beside(&mut self, node: usize) {
        let id = ExecutionId::new(HERE, self.uuid());
        let command = Submission::new("mail").command(id, &self.nodes[node].bench.partition.node.config.policy);
        self.call(node, shop(), Command::Submit(Box::new(command.expect("a good submission"))));
    }

    /// The node gets all that it loads; its commit stays in flight.
    fn load(&mut self, node: usize) {
        let Node { bench, .. } = &mut self.nodes[node];
        while let Some(at) = bench.calls.iter().position(|call| !matches!(call, Effect::Commit(_))) {
            let effect = bench.calls.remove(at);
            let arrival = bench.perform(effect);
            bench.partition.arrive(arrival);
            bench.step();
        }
    }

    /// The store does a call of the node, and the node gets the answer.
    fn serve(&mut self, node: usize) {
        self.perform(node);
        self.deliver(node);
    }

    /// A submission with one of few keys: most find an execution that an earlier one made.
    fn submit_with_key(&mut self, node: usize) {
        let id = ExecutionId::new(HERE, self.uuid());
        let key = self.dice.pick(&[b"one", b"two"]);
        let submission = Submission::new("mail").idempotency_key(&key[..]);
        let command = submission.command(id, &self.nodes[node].bench.partition.node.config.policy);
        self.call(node, shop(), Command::Submit(Box::new(command.expect("a good submission"))));
    }

    fn ask(&mut self, node: usize) {
        if self.is_family {
            return self.ask_family(node);
        }
        let id = self.dice.pick(&self.executions);
        let fence = self.fences.get(&id).copied();
        let reason = || "".into();
        let command = match (self.dice.below(20), fence) {
            (0..3, Some(fence)) if self.executions.len() < 12 => return self.submit(Some((id, fence))),
            (0..4, _) => return self.claim(node, id),
            (4..8, Some(fence)) => wait(id, fence),
            (8 | 9, Some(_)) => {
                let (result, content_type) = (None, None);
                Command::Complete(Complete { id, fence, result, content_type, steps: Vec::new() })
            }
            (10, _) => Command::Hold(Hold { id, reason: reason(), revoke: false }),
            (11, _) => Command::Release(Release { id, reason: reason() }),
            (12, _) => force_fail(id),
            (13, _) => {
                let mode = CancelMode::Immediate;
                Command::Cancel(Cancel { id, fence: None, reason: reason(), mode, cascade: true })
            }
            (14, _) => replay(id),
            (15, _) => return self.expire(node),
            (16, _) => seal(self.dice.pick(&self.flows)),
            (17, _) => Command::Purge(Purge { id, reason: reason() }),
            (18, _) => return self.submit_with_key(node),
            (19, _) => {
                let (flow, remaining) = (self.dice.pick(&self.flows), Remaining::Cancel(Mode::Immediate));
                Command::CancelFlow(CancelFlow { flow, remaining, reason: reason() })
            }
            _ => {
                let priority = self.dice.below(9) as u32;
                Command::ChangePriority(ChangePriority { id, priority, reason: reason() })
            }
        };
        self.call(node, shop(), command);
    }

    /// A timer that is due, as a scanner finds it, or one that nobody has.
    fn expire(&mut self, node: usize) {
        let now = self.nodes[0].bench.hand.clock();
        let dump = self.nodes[0].bench.store.dump(HERE);
        let keys: Vec<Key> = dump.records.keys().copied().collect();
        let key = self.dice.pick(&keys);
        let due = decode(&dump, &key).due().into_iter().find(|due| due.at <= now);
        let (timer, due) = due.map_or((Timer::Retention, Time::from_ms(500)), |due| (due.timer, due.at));
        let command = Command::Expire(Expire { key: Some(key), timer, due, entropy: 0 });
        self.call(node, Principal::engine(), command);
    }

    /// The store does one of the calls it was sent.
    fn perform(&mut self, node: usize) {
        let Node { bench, arrivals, .. } = &mut self.nodes[node];
        if bench.calls.is_empty() {
            return;
        }
        let at = self.dice.below(bench.calls.len());
        if matches!(bench.calls[at], Effect::Commit(_)) && self.dice.below(3) > 0 {
            // Commits take longer than reads, so that batches gather behind them.
            return;
        }
        let effect = bench.calls.remove(at);
        let arrival = bench.perform(effect);
        if let Arrival::Committed(Outcome::Applied { .. }) = &arrival {
            let flying = bench.partition.flying.as_ref().expect("it was sent");
            let done = flying.done.iter();
            self.history.extend(done.filter_map(|(item, answer)| Some((item.call.clone(), answer.clone().ok()?))));
        }
        arrivals.push(arrival);
    }

    /// The loop sees one of the answers.
    fn deliver(&mut self, node: usize) {
        let Node { bench, arrivals, answers } = &mut self.nodes[node];
        if !arrivals.is_empty() {
            let arrival = arrivals.remove(self.dice.below(arrivals.len()));
            bench.partition.arrive(arrival);
            bench.step();
        }
        for answer in answers {
            if let Ok(answers) = answer.try_recv()
                && let [Ok(Applied { reply: Reply::Claimed(claimed), .. })] = &answers[..]
            {
                self.fences.insert(claimed.id, Fence { lease: claimed.lease, epoch: claimed.epoch });
            }
        }
    }

    /// Lets both nodes do all they have to do.
    fn finish(&mut self) {
        let is_idle = |node: &Node| node.bench.calls.is_empty() && node.arrivals.is_empty();
        for _ in 0..10_000 {
            if self.nodes.iter().all(is_idle) {
                assert!(self.nodes.iter().all(|node| node.bench.partition.is_idle()), "all calls are answered");
                return;
            }
            for node in 0..2 {
                self.perform(node);
                self.deliver(node);
            }
        }
        panic!("the nodes hold each other up");
    }
}

/// Waits for all children.
fn wait(id: ExecutionId, fence: Fence) -> Command {
    let (fence, rule, children) = (Some(fence), ChildrenRule::AllOf, None);
    Command::WaitChildren(WaitChildren { id, fence, children, rule, timeout_ms: None, checkpoint: None })
}

fn decode(dump: &Dump, key: &Key) -> Record {
    let parts: Vec<_> = dump.records[key].parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
    Record::decode(*key, &parts, PartMask::ALL).expect("it decodes")
}

type State = (BTreeMap<Key, (Vec<Value>, BTreeMap<u8, bytes::Bytes>)>, BTreeSet<DueEntry>);

/// Records and timers without the audit log, which also has refused calls. Panics if indexes differ from the records.
fn state(store: &MemoryStore) -> State {
    let mut dump = store.dump(HERE);
    let is_log = |kind: u8| [Kind::Audit, Kind::Register].iter().any(|log| *log as u8 == kind);
    dump.records.retain(|key, _| !is_log(key.kind() as u8));
    dump.due.retain(|entry| !is_log(entry.kind));
    let mut due = BTreeSet::new();
    for (key, stored) in &dump.records {
        let record = decode(&dump, key);
        assert_eq!(stored.facets, record.facets(), "the index entries of {key:?}");
        due.extend(record.due().into_iter().map(|due| DueEntry::new(due, *key)));
    }
    assert_eq!(dump.due, due, "the timers of all records");
    (dump.records.into_iter().map(|(key, stored)| (key, (stored.facets, stored.parts))).collect(), due)
}

/// What the commands leave one after another, each on what is stored.
fn replayed(history: Vec<(Call, Applied)>) -> (State, usize) {
    let mut bench = Bench::new(Config::default());
    let mut changed = 0;
    for (call, applied) in history {
        let saved = bench.store.save(HERE);
        // A stopping partition starts no commands of its own: the history has them.
        bench.partition.stopping = true;
        let mut answer = bench.call(call.principal, call.command);
        bench.settle();
        if answer.try_recv().expect("it is answered")[0] == Ok(applied) {
            changed += 1;
        } else {
            // Only an answer that writes nothing need not be the one of its place among the commits.
            bench.store.go_back(&saved);
            bench = bench.beside();
        }
    }
    (state(&bench.store), changed)
}

/// Panics if the commits of the two nodes leave something else than their commands one after another. Returns how many
/// commands changed something.
fn run_seed(seed: u64) -> usize {
    let mut race = Race::new(seed);
    for _ in 0..ACTS {
        race.act();
    }
    race.finish();
    let (serial, changed) = replayed(std::mem::take(&mut race.history));
    assert_eq!(state(&race.nodes[0].bench.store), serial, "seed {seed}");
    changed
}

#[test]
fn ri_5_two_nodes_leave_what_their_commits_leave_one_after_another() {
    let changed: usize = (0..SEEDS).map(run_seed).sum();
    assert!(changed > SEEDS as usize * 8, "only {changed} commands went through");
}

#[cfg(feature = "planted")]
#[test]
fn ri_5_the_planted_defect_that_a_first_read_is_not_verified_is_found() {
    use weft_core::planted::{Defect, plant};
    plant(Some(Defect::FirstReadNotVerified));
    let found = (0..50).find(|seed| std::panic::catch_unwind(|| run_seed(*seed)).is_err());
    plant(None);
    assert!(found.is_some(), "no seed of 50 ends red");
}
