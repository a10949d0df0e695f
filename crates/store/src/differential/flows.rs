//! Random calls about small flows and their members. What they write is decided by the rules, so that the stores are
//! compared on records that hang together, and on what a rule finds when it reads them.

use super::draw::Draw;
use super::graph::{self, Graph};
use super::rules::{self, Asked, Made};
use crate::{Range, Scan, Store, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_core::command::*;
use weft_core::flow::member_id;
use weft_core::flow::plan::Plan;
use weft_core::limits::Limits;
use weft_core::record::flow::{FlowOutcome, Growth};
use weft_core::record::{Key, Record};
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, Kind, PartMask, Timer, Value};
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, FlowId, LeaseId, PartitionId, Time};

const NAMESPACE: &str = "shop";

/// All verbs that are drawn, by what is chosen first.
pub(super) const VERBS: [&str; 31] = [
    "submit_flow",
    "submit_all",
    "claim",
    "complete",
    "fail",
    "delay",
    "submit",
    "renew",
    "progress",
    "record_steps",
    "wait_children",
    "expire",
    "verify_flow",
    "audit_flow",
    "grow_flow",
    "seal_flow",
    "cancel_flow",
    "finish_flow",
    "change_flow",
    "purge_flow",
    "cancel",
    "hold",
    "release",
    "force_fail",
    "purge",
    "replay",
    "revoke",
    "force_complete",
    "reschedule",
    "change_priority",
    "set_tags",
];

/// More flows than these are not tended; the oldest go on by their timers alone.
const FLOWS_MAX: usize = 12;

pub(super) struct Flows {
    draw: Draw,
    partition: PartitionId,
    now: Time,
    flows: Vec<(FlowId, BTreeSet<Text>)>,
    held: BTreeMap<ExecutionId, Fence>,
}

impl Flows {
    pub fn new(seed: u64, partition: PartitionId) -> Self {
        // Another stream than that of the hand-made batches.
        let draw = Draw::new(seed ^ 0x0f10_0f10);
        Self { draw, partition, now: Time::from_ms(1_000_000), flows: Vec::new(), held: BTreeMap::new() }
    }

    pub async fn next<S: Store>(&mut self, reference: &S) -> Asked {
        // Mostly moments, seldom so much that leases and kept records run out.
        let ms = if self.draw.chance(3) { self.draw.below(600_000) } else { self.draw.below(2_000) };
        self.now = self.now + ms as u64;
        let command = self.command(reference).await;
        let by_engine = matches!(command, Command::Expire(_) | Command::VerifyFlow(_) | Command::AuditFlow(_));
        let principal = if by_engine { Principal::engine() } else { Principal::all(NAMESPACE, "ann") };
        let request_id = (!by_engine && self.draw.chance(10)).then(|| self.draw.commit_id().0.to_string().into());
        let call = Call { principal, request_id, expected_revision: None, command };
        let (commit, fast) = (self.draw.commit_id(), self.draw.chance(50));
        Asked { partition: self.partition, call, commit, fast, now: self.now }
    }

    /// Remembers what a call has made.
    pub fn told(&mut self, asked: &Asked, made: &Made) {
        match (&made.reply, &asked.call.command) {
            (Ok(Reply::FlowSubmitted(new)), _) if !new.duplicate => {
                let keys = new.members.iter().map(|(key, _)| key.clone()).collect();
                self.flows.push((new.id, keys));
                if self.flows.len() > FLOWS_MAX {
                    self.flows.remove(0);
                }
            }
            (Ok(Reply::FlowGrown(grown)), Command::GrowFlow(grow)) => {
                if let Some((_, keys)) = self.flows.iter_mut().find(|(id, _)| *id == grow.flow) {
                    keys.extend(grown.members.iter().map(|(key, ..)| key.clone()));
                }
            }
            (Ok(Reply::Claimed(claimed)), _) => {
                self.held.insert(claimed.id, Fence { lease: claimed.lease, epoch: claimed.epoch });
            }
            (_, Command::Complete(Complete { id, .. }) | Command::Fail(Fail { id, .. })) => {
                self.held.remove(id);
            }
            _ => {}
        }
    }

    /// A walk over something of flows, with records or without.
    pub fn scan(&mut self) -> Scan {
        let flow = self.flow().map_or_else(|| Value::bytes(b"none"), |(id, _)| Value::bytes(id.uuid().as_bytes()));
        let (target, prefix) = match self.draw.below(7) {
            0 => (Target::Index(IndexId::Members), vec![flow]),
            1 => (Target::Index(IndexId::LiveMembers), vec![flow]),
            2 => (Target::Index(IndexId::Tombstones), vec![flow]),
            3 => (Target::Index(IndexId::Flows), vec![Value::Text(NAMESPACE.into())]),
            4 => (Target::Records(Kind::Edge), Vec::new()),
            5 => (Target::Records(Kind::Flow), Vec::new()),
            _ => (Target::Due, Vec::new()),
        };
        let ranges = vec![Range { prefix, ..Range::default() }];
        let parts = (target != Target::Due && self.draw.chance(60)).then(|| self.draw.mask());
        Scan { target, ranges, limit: 1 + self.draw.below(8), descending: self.draw.chance(50), parts }
    }

    async fn command<S: Store>(&mut self, reference: &S) -> Command {
        let drawn = match self.draw.below(100) {
            0..7 => None,
            7 => Some(self.submit_all()),
            8..28 => self.claim(reference).await,
            28..55 => self.held(),
            55..68 => self.timer(reference).await,
            68..84 => self.about_a_flow(),
            _ => self.about_a_member(),
        };
        match drawn {
            Some(command) => command,
            None => self.submit_flow(),
        }
    }

    fn submit_flow(&mut self) -> Command {
        let graph = Graph::draw(&mut self.draw, &BTreeSet::new());
        let flow = graph::flow(&mut self.draw, graph);
        let plan = Plan::new(flow, &Limits::default(), self.now).expect("only sound graphs are drawn");
        let id = Some(FlowId::new(self.partition, self.draw.commit_id().0));
        Command::SubmitFlow(SubmitFlow { id, plan: Arc::new(plan), from: 0 })
    }

    /// Some executions outside of flows.
    fn submit_all(&mut self) -> Command {
        let items = (0..=self.draw.below(3)).map(|_| {
            let id = Some(ExecutionId::new(self.partition, self.draw.commit_id().0));
            Submit { id, ..graph::submission(&mut self.draw) }
        });
        Command::SubmitAll(SubmitAll { items: items.collect() })
    }

    /// One of the flows that are tended, with the keys of its members.
    fn flow(&mut self) -> Option<(FlowId, BTreeSet<Text>)> {
        let at = self.draw.below(self.flows.len());
        self.flows.get(at).cloned()
    }

    fn member(&mut self) -> Option<ExecutionId> {
        let (flow, keys) = self.flow()?;
        let at = self.draw.below(keys.len());
        keys.iter().nth(at).map(|key| member_id(flow, key))
    }

    async fn claim<S: Store>(&mut self, reference: &S) -> Option<Command> {
        let target = Target::Index(IndexId::Ready);
        let scan = Scan { target, ranges: vec![Range::default()], limit: 20, descending: false, parts: None };
        let pages = reference.scan(Some(self.partition), scan).await.expect("the reference scans");
        let entries = &pages.first()?.entries;
        let Some(Key::Execution(id)) = entries.get(self.draw.below(entries.len()))?.key() else { return None };
        Some(Command::Claim(Claim {
            id,
            lease: LeaseId::new(self.partition, self.draw.commit_id().0),
            worker: "pool".into(),
            instance: "pool-1".into(),
            lease_ms: 60_000,
            kinds: None,
            capabilities: Capabilities::default(),
            claim_ref: self.draw.chance(30).then_some([7; 32]),
            session: None,
        }))
    }

    /// What the holder of a lease does.
    fn held(&mut self) -> Option<Command> {
        let at = self.draw.below(self.held.len());
        let (id, fence) = self.held.iter().nth(at).map(|(id, fence)| (*id, *fence))?;
        let (steps, held) = (Vec::new(), Some(fence));
        let payload = |draw: &mut Draw| draw.chance(50).then(|| Payload { bytes: draw.blob(), content_type: None });
        Some(match self.draw.below(17) {
            0..6 => {
                let result = self.draw.chance(70).then(|| self.draw.blob());
                Command::Complete(Complete { id, fence: held, result, content_type: None, steps })
            }
            6..9 => {
                let retry = if self.draw.chance(50) { RetryWish::Never } else { RetryWish::AfterMs(500) };
                let (category, message) = ("application".into(), "no luck".into());
                Command::Fail(Fail { id, fence: held, category, message, detail: None, retry, steps, entropy: 0 })
            }
            9 => Command::Delay(Delay { id, fence: held, until: When::InMs(3_000), checkpoint: None, steps }),
            10 => {
                let (lease_ms, checkpoint) = (None, payload(&mut self.draw));
                Command::Renew(Renew { id, fence: held, lease_ms, percent: Some(7), message: None, checkpoint, steps })
            }
            11 => {
                let (message, checkpoint, renew_ms) = (Some("so far".into()), payload(&mut self.draw), None);
                Command::Progress(Progress { id, fence: held, percent: None, message, checkpoint, renew_ms })
            }
            12 => {
                let step = Step {
                    name: ["one", "two", "three"][self.draw.below(3)].into(),
                    bytes: self.draw.blob(),
                    content_type: None,
                };
                Command::RecordSteps(RecordSteps { id, fence: held, steps: vec![step] })
            }
            13 | 14 => {
                let (timeout_ms, checkpoint) = (Some(5_000), payload(&mut self.draw));
                let rule = if self.draw.chance(50) { ChildrenRule::AllOf } else { ChildrenRule::AnyOf };
                Command::WaitChildren(WaitChildren { id, fence: held, children: None, rule, timeout_ms, checkpoint })
            }
            _ => {
                let parent = Some((id, fence));
                let new = Some(ExecutionId::new(self.partition, self.draw.commit_id().0));
                let (outside, uncritical) = (self.draw.chance(25), self.draw.chance(25));
                let child = Submit { id: new, parent, outside, uncritical, ..graph::submission(&mut self.draw) };
                Command::Submit(Box::new(child))
            }
        })
    }

    /// The work of a scanner: one of the first timers that are due.
    async fn timer<S: Store>(&mut self, reference: &S) -> Option<Command> {
        let until = Some(Value::Int(self.now.as_i64()));
        let first =
            |timer: &Timer| Range { prefix: vec![Value::Int(*timer as i64)], until: until.clone(), after: None };
        let ranges = Timer::ALL.iter().map(first).collect();
        let scan = Scan { target: Target::Due, ranges, limit: 3, descending: false, parts: None };
        let pages = reference.scan(Some(self.partition), scan).await.expect("the reference scans");
        let due: Vec<_> = pages.iter().flat_map(|page| &page.entries).collect();
        let entry = due.get(self.draw.below(due.len()))?;
        let (Some(key), Value::Int(timer), Value::Int(at)) =
            (entry.key(), &entry.place.columns[0], &entry.place.columns[1])
        else {
            return None;
        };
        let (timer, due) = (Timer::from_u8(*timer as u8)?, Time::from_ms(*at as u64));
        match (timer, key) {
            (Timer::FlowVerify, Key::Flow(flow)) => {
                let Some((Ok(Record::Flow(found)), _)) = rules::record(reference, key, PartMask::NONE).await else {
                    return None;
                };
                let (change_no, counted) = (found.summary.change_no, Box::new(found.summary));
                Some(Command::VerifyFlow(VerifyFlow { flow, due, change_no, counted, edges: true, now: self.now }))
            }
            (Timer::DependencyAudit, Key::Flow(flow)) => {
                Some(Command::AuditFlow(AuditFlow { flow, due, ended: Vec::new() }))
            }
            _ => Some(Command::Expire(Expire { key: Some(key), timer, due, entropy: 0 })),
        }
    }

    fn about_a_flow(&mut self) -> Option<Command> {
        let (flow, keys) = self.flow()?;
        let (within, reason) = (None, "so it is".into());
        Some(match self.draw.below(12) {
            0..3 => {
                let Graph { members, edges } = Graph::draw(&mut self.draw, &keys);
                let (seal, expected_revision) = (self.draw.chance(60), None);
                Command::GrowFlow(Box::new(GrowFlow { flow, members, edges, seal, expected_revision, within }))
            }
            3..6 => {
                let keys = self.draw.chance(30).then(|| keys.into_iter().take(2).collect());
                Command::SealFlow(SealFlow { flow, keys, within, checked: None })
            }
            6 => {
                let remaining = graph::remaining(&mut self.draw);
                Command::CancelFlow(CancelFlow { flow, remaining, reason })
            }
            7 => {
                let outcome = if self.draw.chance(50) { FlowOutcome::Completed } else { FlowOutcome::Failed };
                Command::FinishFlow(FinishFlow { flow, outcome, reason, within })
            }
            8 => {
                let growth = self.draw.chance(30).then_some(Growth::Fixed);
                let set = BTreeMap::from([("team".into(), "a".into())]);
                Command::ChangeFlow(Box::new(ChangeFlow { flow, set, remove: Vec::new(), growth, reason }))
            }
            _ => Command::PurgeFlow(PurgeFlow { flow, reason }),
        })
    }

    fn about_a_member(&mut self) -> Option<Command> {
        let (id, reason) = (self.member()?, Text::from("so it is"));
        Some(match self.draw.below(16) {
            0 => {
                let mode = CancelMode::Graceful { grace_ms: 5_000 };
                Command::Cancel(Cancel { id, fence: None, reason, mode, cascade: self.draw.chance(50) })
            }
            1 | 2 => Command::Hold(Hold { id, reason, revoke: self.draw.chance(30) }),
            3 | 4 => Command::Release(Release { id, reason }),
            5 => Command::ForceFail(ForceFail { id, message: "stop it".into(), reason }),
            6 => Command::Purge(Purge { id, reason }),
            7 => Command::Revoke(Revoke { id, expected_epoch: None, reason, hold: self.draw.chance(30) }),
            8 => {
                let result = self.draw.chance(50).then(|| self.draw.blob());
                Command::ForceComplete(ForceComplete { id, result, content_type: None, reason })
            }
            9 => Command::Reschedule(Reschedule { id, start: When::InMs(self.draw.below(9_000) as u64), reason }),
            10 => Command::ChangePriority(ChangePriority { id, priority: self.draw.below(9) as u32, reason }),
            11 | 12 => {
                let set = BTreeMap::from([("team".into(), ["a", "b"][self.draw.below(2)].into())]);
                Command::SetTags(SetTags { id, fence: None, set, remove: Vec::new(), reason })
            }
            _ => Command::Replay(Replay {
                id,
                reason,
                deadline: DeadlineWish::Keep,
                delay_ms: None,
                priority: None,
                steps: Steps::Clear,
                downstream: if self.draw.chance(70) { Downstream::Reopen } else { Downstream::Keep },
                ignore_dependencies: self.draw.chance(30),
            }),
        })
    }
}
