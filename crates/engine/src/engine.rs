//! Opening, running and closing an engine on this node.

use crate::census::{self, Census};
use crate::client::{Client, Urgency};
use crate::clock::Clock;
use crate::config::{Config, Filters};
use crate::driver::{self, Mail};
use crate::hub::Hub;
use crate::lanes::{self, Lanes};
use crate::membership::{Membership, Seen};
use crate::notices::Notice;
use crate::partition::{Heads, Input, Partition, Surroundings};
use crate::pulse::{Finding, Held, Pulse};
use crate::reads;
use crate::refusals::{self, Refusals};
use crate::registry::{self, Beat};
use crate::room;
use crate::runtime;
use crate::runtime::{Runtime, TokioRuntime};
use crate::scanner::{self, Scanner};
use crate::stats::{Counters, Stats};
use crate::store::{AnyStore, Counted};
use crate::telemetry::meters::ScannerMeter;
use crate::telemetry::{self, Activity, Telemetry};
use crate::worker::{self, Roster};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc, watch};
use uuid::Uuid;
use weft_core::command::Principal;
use weft_core::error::{BusyCause, Rejection};
use weft_core::limits::Limits;
use weft_core::record::Node;
use weft_core::record::api_key::Reach;
use weft_core::record::execution::Policy;
use weft_core::record::register::Drain;
use weft_core::text;
use weft_core::{BulkId, ExecutionId, FlowId, PartitionId, Time};
use weft_store::{Description, Store};

/// A running engine. Dropping the last handle does not stop it; `shutdown` does.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("could not read the store: {0}")]
    Store(#[from] weft_store::Error),
    #[error("`{field}` is {got}, at most {max} is allowed")]
    Limit { field: &'static str, got: u64, max: u64 },
    #[error("cannot register the scanner `{name}`: {why}")]
    Scanner { name: &'static str, why: &'static str },
    #[error("`{field}` names `{name}`, and there is no such scanner; did you mean `{near}`?")]
    UnknownScanner { field: &'static str, name: &'static str, near: &'static str },
    #[error("cannot filter the scanner `{scanner}`: {why}")]
    Filter { scanner: &'static str, why: Rejection },
}

/// What all parts of a node share.
pub(crate) struct Shared {
    pub config: Config,
    pub store: Arc<dyn AnyStore>,
    pub runtime: Arc<dyn Runtime>,
    pub description: Description,
    pub partitions: Vec<Mailbox>,
    pub hub: Arc<Hub>,
    pub counters: Arc<Counters>,
    pub telemetry: Arc<Telemetry>,
    pub census: Census,
    pub nodes: registry::Nodes,
    pub clock: Arc<Clock>,
    pub heads: Arc<Heads>,
    pub lanes: Lanes,
    pub membership: Arc<Membership>,
    pub seen: Arc<Seen>,
    pub roster: Roster,
    /// The filters of its scanners, as the registry shows them.
    pub filters: Filters,
    pub scanners: Vec<Arc<dyn Scanner>>,
    /// Failures of items of the embedding program's scanners.
    pub failures: scanner::failures::Accounts,
    /// Where passes of scanners go on.
    pub cursors: scanner::Cursors,
    pub silences: scanner::Silences,
    /// Those of the partition loops, in order.
    pulses: Vec<Arc<Pulse>>,
    pub scanner_pulse: Arc<Pulse>,
    pub started_at: Time,
    closing: AtomicBool,
    pub closed: Notify,
    draining: AtomicBool,
    /// Claims that wait are let go.
    pub drained: Notify,
    /// Who wants this node to stop.
    drain_wanted: watch::Sender<Option<Drain>>,
    /// A node has come or gone.
    pub nodes_changed: Notify,
    /// Executions that were placed in whatever partition had its turn.
    placed: AtomicU64,
    /// Refusals that the audit log is not told of yet.
    pub refusals: Refusals,
    /// Tasks that are still running; shutdown waits until there are none.
    running: watch::Sender<usize>,
}

pub(crate) struct Mailbox {
    urgent: mpsc::Sender<Input>,
    normal: mpsc::Sender<Input>,
}

const BUSY_RETRY_MS: u64 = 50;
/// A store that does not tell the time so fast is no store to work with.
const READY_WAIT_MS: u64 = 2_000;
/// Partitions of a store that take new work at a time: enough for commits side by side, few enough for each to carry a
/// lot. Nodes share them, but each has some.
const HOT: u64 = 8;
const HOT_MIN: u64 = 2;
/// Executions that are placed in one of them before the next has its turn.
const TOGETHER: u64 = 64;
/// Executions that each of them takes before others have their turn, so that all fill evenly in the long run.
const STAY: u64 = 4096;
/// How long shutdown waits for the node's last word to the others.
const LEAVE_WAIT_MS: u64 = 2_000;
/// How long shutdown waits for what is on its way.
pub(crate) const SHUTDOWN_WAIT_MS: u64 = 15_000;

impl Engine {
    /// Opens an engine on tokio. Scanners and partition loops run until `shutdown`.
    pub async fn open<S: Store>(store: S, config: Config) -> Result<Engine, OpenError> {
        Self::open_on(Arc::new(store), config, Arc::new(TokioRuntime::current())).await
    }

    /// Opens an engine in a world of the caller's choice.
    pub async fn open_on<S: Store>(
        store: Arc<S>,
        config: Config,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Engine, OpenError> {
        check_limits(&config)?;
        scanner::own::check(&config.scanners.own)?;
        config.scanners.check()?;
        let counters = Arc::new(Counters::default());
        let scanners = scanner::all(&config.scanners);
        let names = scanners.iter().map(|scanner| scanner.name());
        let telemetry = Arc::new(Telemetry::new(store.describe().partitions, names));
        let store: Arc<dyn AnyStore> =
            Arc::new(Counted::new(store, counters.clone(), telemetry.clone(), runtime.clone()));
        let description = store.describe();
        let clock = Arc::new(Clock::new(runtime.clone()));
        let asked_at = runtime.clock();
        clock.measured(store.now().await?, runtime.clock().since(asked_at));
        let (hub, heads) = (Arc::new(Hub::default()), Arc::new(Heads::default()));
        let node = random_uuid(&*runtime);
        let membership = Arc::new(Membership::alone(node, description.partitions));
        let seen = Arc::new(Seen::new(description.partitions));
        let surroundings = Arc::new(Surroundings {
            config: config.clone(),
            description: description.clone(),
            hub: hub.clone(),
            counters: counters.clone(),
            telemetry: telemetry.clone(),
            clock: clock.clone(),
            runtime: runtime.clone(),
            heads: heads.clone(),
            membership: membership.clone(),
            seen: seen.clone(),
        });
        let mut loops = Vec::new();
        let mut mailboxes = Vec::new();
        let all = (0..description.partitions).map(|index| store.read(PartitionId(index), Vec::new()));
        for (index, read) in futures_util::future::join_all(all).await.into_iter().enumerate() {
            let (id, head) = (PartitionId(index as u16), read?.head);
            seen.note(id, head.position);
            let (urgent, urgent_mail) = mpsc::channel(config.queue_max.max(1));
            let (normal, normal_mail) = mpsc::channel(config.queue_max.max(1));
            mailboxes.push(Mailbox { urgent, normal });
            let mail = Mail { urgent: urgent_mail, normal: normal_mail };
            loops.push((id, Partition::new(id, surroundings.clone(), head), mail));
        }
        let pulses: Vec<Arc<Pulse>> = loops.iter().map(|_| Arc::default()).collect();
        let filters = scanner::filters(&config.scanners);
        let shared = Arc::new(Shared {
            config,
            store,
            runtime,
            description,
            partitions: mailboxes,
            hub,
            counters,
            telemetry,
            census: Census::default(),
            nodes: registry::Nodes::default(),
            clock: clock.clone(),
            heads,
            lanes: Lanes::default(),
            membership,
            seen,
            roster: Roster::default(),
            filters,
            scanners,
            failures: Default::default(),
            cursors: scanner::Cursors::default(),
            silences: scanner::Silences::default(),
            pulses,
            scanner_pulse: Arc::default(),
            started_at: clock.now(),
            closing: AtomicBool::new(false),
            closed: Notify::new(),
            draining: AtomicBool::new(false),
            drained: Notify::new(),
            drain_wanted: watch::Sender::new(None),
            nodes_changed: Notify::new(),
            placed: AtomicU64::new(0),
            refusals: Refusals::default(),
            running: watch::Sender::new(0),
        });
        for (id, partition, mail) in loops {
            let pulse = Held::new(shared.pulses[usize::from(id.0)].clone());
            shared.start(driver::run(shared.clone(), id, partition, mail, pulse));
        }
        // Before the first claim: one that was told to stop is not handed work because the node is new.
        worker::roster::refresh(&shared, None).await;
        if !shared.description.exclusive {
            // Before anything is due: a node that shares the partitions does not begin with all of them.
            registry::beat(&shared, shared.started_at, Beat::First).await;
            shared.start(registry::run(shared.clone(), shared.started_at));
            shared.start(lanes::recheck(shared.clone()));
        }
        let pulse = Held::new(shared.scanner_pulse.clone());
        shared.start(scanner::runner::run(shared.clone(), pulse));
        shared.start(scanner::watch::run(shared.clone()));
        Ok(Engine { shared })
    }

    /// A client that may do everything in one namespace.
    pub fn client(&self, namespace: &str) -> Result<Client, Rejection> {
        text::check_name("namespace", namespace)?;
        Ok(self.client_as(Principal::all(namespace, "embedded")))
    }

    /// A client with the rights of `principal`.
    pub fn client_as(&self, principal: Principal) -> Client {
        Client::new(self.shared.clone(), principal)
    }

    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Every metric of the engine as it stands. What has to be counted in the store is counted again in the
    /// background, at most every ten seconds, and told as it was found last.
    pub fn metrics(&self) -> Vec<telemetry::Readings> {
        census::refresh_gauges(&self.shared);
        telemetry::read(&self.shared)
    }

    /// Entries of the audit log from here on, as this node commits them. The last who asks gets them.
    pub fn audited(&self) -> tokio::sync::mpsc::UnboundedReceiver<weft_core::record::Audit> {
        self.shared.hub.audited()
    }

    /// Ends that stream after what is in it.
    pub fn stop_audited(&self) {
        self.shared.hub.stop_audited();
    }

    /// The store as it is at this moment, which may differ from what it was when it was opened.
    pub fn described_now(&self) -> Description {
        self.shared.store.describe()
    }

    pub fn describe(&self) -> &Description {
        &self.shared.description
    }

    /// Store time as this node knows it.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// What submissions get that give no policy.
    pub fn policy(&self) -> &Policy {
        &self.shared.config.policy
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    /// How long the leases of claims last that do not say.
    pub fn lease_ms(&self) -> u64 {
        self.shared.config.lease_ms
    }

    /// The name of this node.
    pub fn node(&self) -> &text::Text {
        &self.shared.config.node
    }

    /// When this engine was opened.
    pub fn started_at(&self) -> Time {
        self.shared.started_at
    }

    /// The namespace that an execution is in, if there is such an execution.
    pub async fn namespace_of(&self, id: ExecutionId) -> Result<Option<text::Text>, Rejection> {
        reads::namespace_of(&self.shared, id).await
    }

    /// The namespaces after `after` that hold executions, in order, at most `limit` of them.
    pub async fn namespaces(&self, after: Option<&str>, limit: usize) -> Result<Vec<text::Text>, Rejection> {
        reads::namespaces(&self.shared, after, limit).await
    }

    /// The namespaces after `after` that have worker processes, in order, at most `limit` of them. Those whose processes
    /// only claim are known to the node that they claim from.
    pub async fn worker_namespaces(&self, after: Option<&str>, limit: usize) -> Result<Vec<text::Text>, Rejection> {
        let shared = &self.shared;
        let claiming = shared.hub.namespaces(shared.now()).into_iter();
        let claiming = claiming.filter(|name| after.is_none_or(|after| &**name > after));
        let mut names: BTreeSet<text::Text> = claiming.collect();
        names.extend(reads::worker_namespaces(shared, after, limit).await?);
        Ok(names.into_iter().take(limit).collect())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The namespace of a flow, if there is such a flow.
    pub async fn namespace_of_flow(&self, id: FlowId) -> Result<Option<text::Text>, Rejection> {
        crate::flow::reads::namespace_of(&self.shared, id).await
    }

    /// The same of a bulk job.
    pub async fn namespace_of_bulk(&self, id: BulkId) -> Result<Option<text::Text>, Rejection> {
        crate::bulk::namespace_of(&self.shared, id).await
    }

    /// What this node has seen lately of the namespaces within reach, taken together.
    pub fn activity(&self, reach: &Reach) -> Activity {
        self.shared.telemetry.activity(reach, self.shared.now(), self.shared.started_at)
    }

    /// What the scanners of this node have done and have to do, by their names.
    pub fn scanners(&self) -> impl Iterator<Item = (&'static str, &ScannerMeter)> {
        self.shared.telemetry.scanners()
    }

    /// One pass of a scanner over a partition, now, as its own passes are: same filter, same commands. Whoever looks after
    /// the partition may be at it at the same time. `None` if there is no such scanner or partition.
    pub async fn scan(&self, scanner: &str, partition: PartitionId) -> Option<scanner::Report> {
        let shared = &self.shared;
        shared.partitions.get(usize::from(partition.0))?;
        let scanner = shared.scanners.iter().find(|known| known.name() == scanner)?;
        let report = scanner::pass(shared, &**scanner, partition).await.report;
        if let Some(meter) = shared.telemetry.scanner(scanner.name()) {
            meter.passed(&report);
        }
        Some(report)
    }

    /// Partitions whose timers this node looks after.
    pub fn partitions_claimed(&self) -> u16 {
        let all = (0..self.shared.description.partitions).map(PartitionId);
        all.filter(|partition| self.shared.membership.is_mine(*partition)).count() as u16
    }

    /// The id of this node in the registry.
    pub fn node_id(&self) -> Uuid {
        self.shared.membership.node
    }

    /// Every node that is known, live or not, this one among them.
    pub async fn nodes(&self) -> Result<Vec<Node>, Rejection> {
        registry::all(&self.shared).await
    }

    /// Why this node takes no work now; none if it does.
    pub async fn not_ready(&self) -> Option<&'static str> {
        if self.shared.is_closing() {
            return Some("draining");
        }
        let shared = &self.shared;
        let look = async {
            shared.measure().await?;
            // Nobody sends work to a node that is not ready, so nothing else shows that there is room again.
            match shared.telemetry.store.full() {
                Some(full) => room::probe(shared, full).await,
                None => Ok(()),
            }
        };
        match runtime::timeout(&*shared.runtime, READY_WAIT_MS, look).await {
            Some(Ok(())) => {
                let full = || shared.telemetry.store.full().map(|_| "store_full");
                shared.not_turning().or_else(full).or(shared.clock.doubt(shared.config.clock_skew_max_ms))
            }
            Some(Err(_)) => Some("store_unreachable"),
            None => Some("store_slow"),
        }
    }

    /// Resolves once an operator wants this node to stop, with who that was. The engine goes on: its owner lets calls end
    /// and shuts it down, as on a signal. One that asks later is answered at once.
    pub async fn drain_wanted(&self) -> Drain {
        let mut wanted = self.shared.drain_wanted.subscribe();
        let told = wanted.wait_for(Option::is_some).await.ok().and_then(|drain| drain.clone());
        told.expect("drain_wanted: the sender is held by this engine")
    }

    /// Answers claims that wait, tells workers that the node stops, and hands out nothing more. All else goes on.
    pub fn drain(&self) {
        if !self.shared.draining.swap(true, Ordering::AcqRel) {
            self.shared.hub.mailboxes.notify_all(&Notice::NodeStopping);
            self.shared.drained.notify_waiters();
        }
    }

    /// Stops taking calls, answers those that wait, finishes what is on its way. Leases stay valid. A second call waits
    /// for the first.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        // While the log can still be written to.
        runtime::timeout(&*shared.runtime, LEAVE_WAIT_MS, refusals::write(shared)).await;
        if !shared.closing.swap(true, Ordering::AcqRel) {
            if !shared.description.exclusive {
                let leave = registry::beat(shared, shared.started_at, Beat::Last);
                runtime::timeout(&*shared.runtime, LEAVE_WAIT_MS, leave).await;
            }
            shared.hub.mailboxes.notify_all(&Notice::NodeStopping);
            shared.hub.due.notify_one();
            shared.closed.notify_waiters();
            for mailbox in &shared.partitions {
                // A full mailbox is emptied by its loop, which then meets the stop.
                let _ = mailbox.normal.send(Input::Stop).await;
            }
        }
        let mut running = shared.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        let _ = crate::runtime::timeout(&*shared.runtime, SHUTDOWN_WAIT_MS, ended).await;
    }
}

fn check_limits(config: &Config) -> Result<(), OpenError> {
    use weft_core::limits::*;
    let limits = &config.limits;
    let check = |field, got: usize, max: usize| match got > max {
        true => Err(OpenError::Limit { field, got: got as u64, max: max as u64 }),
        false => Ok(()),
    };
    check("input_max", limits.input_max, INPUT_CEILING)?;
    check("result_max", limits.result_max, RESULT_CEILING)?;
    check("checkpoint_max", limits.checkpoint_max, CHECKPOINT_CEILING)?;
    check("step_max", limits.step_max, STEP_CEILING)?;
    check("request_ttl_ms", limits.request_ttl_ms as usize, REQUEST_TTL_CEILING_MS as usize)
}

impl Shared {
    /// Store time, as far as this node knows it.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Reads the store's clock.
    pub async fn measure(&self) -> Result<(), weft_store::Error> {
        let asked_at = self.runtime.clock();
        let now = self.store.now().await.inspect_err(|_| self.clock.failed())?;
        self.clock.measured(now, self.runtime.clock().since(asked_at));
        Ok(())
    }

    /// Which kind of loop has ended or hangs; none if all turn.
    fn not_turning(&self) -> Option<&'static str> {
        let now = self.runtime.clock();
        let partitions = self.pulses.iter().map(|pulse| pulse.look(now));
        let worst = partitions.max_by_key(|finding| *finding as u8).unwrap_or(Finding::Turns);
        match (worst, self.scanner_pulse.look(now)) {
            (Finding::Ended, _) => Some("partition_ended"),
            (Finding::Stuck, _) => Some("partition_stuck"),
            (_, Finding::Ended) => Some("scanners_ended"),
            (_, Finding::Stuck) => Some("scanners_stuck"),
            (Finding::Turns, Finding::Turns) => None,
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// True if no more work is handed out.
    pub fn is_draining(&self) -> bool {
        self.is_closing() || self.draining.load(Ordering::Acquire)
    }

    /// This node is wanted to stop. Who asked first is told.
    pub fn want_drain(&self, drain: Drain) {
        self.drain_wanted.send_if_modified(|wanted| {
            let first = wanted.is_none();
            wanted.get_or_insert(drain);
            first
        });
    }

    /// A version 7 id: ordered by time, so that new records lie beside each other.
    pub fn fresh_uuid(&self) -> Uuid {
        fresh_uuid(&*self.runtime, self.now())
    }

    /// Where `count` executions go that may go anywhere: to one of this node's partitions. Calls that come together go to
    /// the same one, so that they share a commit, and the claims after them too.
    pub fn next_partition(&self, count: usize) -> PartitionId {
        let placed = self.placed.fetch_add(count as u64, Ordering::Relaxed);
        let spin = turn_of(placed, (HOT / self.membership.live()).max(HOT_MIN));
        let any = || PartitionId((spin % self.partitions.len() as u64) as u16);
        self.membership.pick(spin).unwrap_or_else(any)
    }

    /// Puts an input into a mailbox, or refuses it: waiting room is bounded.
    pub fn send(&self, partition: PartitionId, input: Input, urgency: Urgency) -> Result<(), Rejection> {
        if self.is_closing() && matches!(input, Input::Job(_)) && urgency == Urgency::Normal {
            return Err(Rejection::Unavailable { retry_after_ms: 1_000, outcome_unknown: false });
        }
        let mailbox = self.partitions.get(usize::from(partition.0)).ok_or(Rejection::InvalidId { expected: "x" })?;
        let sender = match urgency {
            Urgency::Urgent => &mailbox.urgent,
            Urgency::Normal => &mailbox.normal,
        };
        sender.try_send(input).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                self.counters.busy.add(1);
                Rejection::Busy { retry_after_ms: BUSY_RETRY_MS, cause: BusyCause::Overload }
            }
            mpsc::error::TrySendError::Closed(_) => {
                Rejection::Unavailable { retry_after_ms: 1_000, outcome_unknown: false }
            }
        })
    }

    /// Inputs that wait in all mailboxes.
    pub fn queued(&self) -> usize {
        let waiting = |sender: &mpsc::Sender<Input>| sender.max_capacity() - sender.capacity();
        self.partitions.iter().map(|mailbox| waiting(&mailbox.urgent) + waiting(&mailbox.normal)).sum()
    }

    /// Runs a task that shutdown waits for. It has let go of the engine before it counts as ended, so that dropping the
    /// engine after its shutdown closes the store. A task that panics has ended too.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.running.send_modify(|running| *running += 1);
        let running = Running(self.running.clone());
        self.runtime.spawn(Box::pin(async move {
            let _running = running;
            task.await;
        }));
    }
}

/// A task that is counted as running until this is dropped.
struct Running(watch::Sender<usize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// Which partition, counted through, has its turn when so many executions have been placed, `hot` of them at a time.
fn turn_of(placed: u64, hot: u64) -> u64 {
    placed / (hot * STAY) * hot + placed / TOGETHER % hot
}

/// A version 7 id made of the given time and fresh entropy.
pub(crate) fn fresh_uuid(runtime: &dyn Runtime, now: Time) -> Uuid {
    let high = (u128::from(now.ms()) << 80) | (u128::from(runtime.random() & 0xfff) << 64);
    let low = u128::from(runtime.random());
    let version = 0x7u128 << 76;
    let variant = 0x2u128 << 62;
    Uuid::from_u128(high | version | variant | (low & 0x3fff_ffff_ffff_ffff))
}

/// An id that is nothing but entropy.
pub(crate) fn random_uuid(runtime: &dyn Runtime) -> Uuid {
    Uuid::from_u128((u128::from(runtime.random()) << 64) | u128::from(runtime.random()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn few_partitions_take_new_work_at_a_time_and_all_take_as_much_in_the_end() {
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        for placed in 0..64 * STAY {
            *taken.entry(turn_of(placed, HOT) % 64).or_default() += 1;
            let hot = HOT * (placed / (HOT * STAY) + 1);
            assert!(taken.len() as u64 <= hot, "{} partitions after {placed}", taken.len());
        }
        assert!(taken.len() == 64 && taken.values().all(|count| *count == STAY), "{taken:?}");
        assert_eq!(turn_of(0, HOT), turn_of(TOGETHER - 1, HOT), "what comes together stays together");
    }
}
