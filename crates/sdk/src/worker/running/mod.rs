//! A worker that runs: one loop that owns every lease. Calls in flight are polled by the loop itself; only handlers are
//! tasks of their own. A permit comes first and a claim second; only while handlers are short is some work claimed ahead,
//! for permits that will be free before another call could bring it, and what waits in vain goes back.

mod claim;
mod control;
mod drain;
mod held;
mod listen;
mod registry;
mod renew;
mod settings;
mod settle;

pub(crate) use control::Control;
pub use control::Health;
pub(crate) use settings::Settings;

use super::TaskService;
use super::handler::Router;
use super::outcome::Outcome;
use super::state::States;
use super::task::Task;
use super::token::Cause;
use crate::{Client, Error};
use claim::Claiming;
use futures_util::FutureExt;
use held::{Held, Phase};
use listen::Listening;
use registry::Registration;
use renew::Renewing;
use settle::{Settling, Unsent};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use tower::ServiceExt;
use tracing::Instrument;
use weft_api::{Class, Code, Problem};

/// Who runs a task.
#[derive(Clone)]
pub(crate) enum Dispatcher {
    Plain(Arc<Router>),
    Layered(TaskService),
}

impl Dispatcher {
    async fn run(self, task: Task) -> Outcome {
        match self {
            Dispatcher::Plain(router) => router.call(task).await,
            Dispatcher::Layered(service) => service.oneshot(task).await.unwrap_or_else(Outcome::Failed),
        }
    }
}

type Flight<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

pub(crate) struct Running {
    /// For calls of handlers
    client: Client,
    /// For calls of the loop, which repeats them itself
    once: Client,
    /// For those among them that leases depend on: one that hangs leaves time for two more
    swift: Client,
    settings: Settings,
    instance: String,
    states: Arc<States>,
    dispatcher: Dispatcher,
    control: Arc<Control>,

    held: BTreeMap<u64, Held>,
    next_slot: u64,
    queue: VecDeque<u64>,
    /// The handlers that run and since when; in order of their start, because tasks start in the order of their slots
    started: BTreeMap<u64, Instant>,
    /// How long handlers take, smoothed; none before the first has ended
    pace: Option<Duration>,

    ended_by: UnboundedSender<(u64, Outcome)>,
    claiming: Claiming,
    settling: Settling,
    renewing: Renewing,
    registration: Registration,
    listening: Listening,
    /// Nothing that a clock decides happens before
    check_at: Option<Instant>,
    drain: Option<drain::Drain>,
}

/// Handlers shorter than this are worth claiming ahead for.
const SHORT: Duration = Duration::from_millis(10);
/// A handler that runs for this long is not short. Well above it, so that a process that gets little of its processor does
/// not take its short ones for long.
const LONG: Duration = Duration::from_millis(100);
/// What was claimed ahead and has not begun after this goes to others.
const STALE: Duration = Duration::from_millis(500);
/// A call of the loop without an answer after this has none, beside what it asks the server to wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a worker waits for each of its last things.
const GOODBYE: Duration = Duration::from_secs(2);
const FAR: Duration = Duration::from_secs(3_600);
const _: () = assert!(SHORT.as_millis() < LONG.as_millis() && LONG.as_millis() < STALE.as_millis());

impl Running {
    pub fn new(
        client: Client,
        settings: Settings,
        states: Arc<States>,
        dispatcher: Dispatcher,
        control: Arc<Control>,
    ) -> Self {
        let (ended_by, _) = unbounded_channel();
        let instance = settings.instance(client.world());
        let (once, swift) = (client.once(PATIENCE), client.once(settings.lease / 3));
        Self {
            client,
            once,
            swift,
            instance,
            states,
            dispatcher,
            control,
            held: BTreeMap::new(),
            next_slot: 0,
            queue: VecDeque::new(),
            started: BTreeMap::new(),
            pace: None,
            ended_by,
            claiming: Claiming::default(),
            settling: Settling::default(),
            renewing: Renewing::default(),
            registration: Registration::default(),
            listening: Listening::default(),
            check_at: None,
            drain: None,
            settings,
        }
    }

    pub async fn run_until<S: Future>(mut self, signal: S) -> Result<(), Error> {
        let (ended_by, mut ended) = unbounded_channel();
        self.ended_by = ended_by;
        tracing::info!(worker = self.settings.pool, instance = self.instance, "the worker begins");
        let result = self.turn(&mut ended, signal).await;
        if let Err(error) = &result {
            tracing::error!(%error, "the worker cannot go on");
            for held in self.held.values_mut() {
                held.told(Cause::Shutdown, &error.to_string(), None);
            }
        }
        self.drop_handlers(ended).await;
        self.deregister().await;
        result
    }

    /// Nothing may run here any more when the server gives its leases to others. A handler that blocks its thread cannot
    /// be dropped, and is not waited for.
    async fn drop_handlers(&mut self, mut ended: UnboundedReceiver<(u64, Outcome)>) {
        self.held.clear();
        // Every handler has a sender: when the last is gone, so are they.
        self.ended_by = unbounded_channel().0;
        let _ = timeout(GOODBYE, async { while ended.recv().await.is_some() {} }).await;
    }

    async fn turn<S: Future>(&mut self, ended: &mut UnboundedReceiver<(u64, Outcome)>, signal: S) -> Result<(), Error> {
        tokio::pin!(signal);
        let timer = sleep_until(Instant::now() + FAR);
        tokio::pin!(timer);
        let mut stopped = false;
        let mut outcomes = Vec::with_capacity(64);
        let control = self.control.clone();
        loop {
            let now = Instant::now();
            self.check(now);
            self.start_queued(now);
            self.register(now);
            self.claim(now);
            self.settle(now);
            self.renew(now);
            self.beat(now);
            self.listen(now);
            if self.is_drained() {
                return Ok(());
            }
            self.control.note(self.running(), self.held.len(), self.drain.is_some());
            let wake = self.wake_at().unwrap_or(now + FAR);
            if timer.deadline() != wake {
                timer.as_mut().reset(wake);
            }
            tokio::select! {
                biased;
                _ = ended.recv_many(&mut outcomes, 256) => {
                    let now = Instant::now();
                    for (slot, outcome) in outcomes.drain(..) {
                        self.ended(slot, outcome, now);
                    }
                }
                reply = flown(&mut self.settling.flight) => self.settled(reply)?,
                reply = flown(&mut self.claiming.flight) => self.claimed(reply)?,
                reply = flown(&mut self.renewing.flight) => self.renewed(reply)?,
                reply = flown(&mut self.registration.joining) => self.registered(reply)?,
                reply = flown(&mut self.registration.beating) => self.beaten(reply)?,
                heard = self.listening.heard() => self.heard(heard)?,
                _ = &mut signal, if !stopped => {
                    stopped = true;
                    self.begin_drain("shutdown");
                }
                () = control.drained() => self.begin_drain("drain"),
                () = timer.as_mut() => {}
            }
        }
    }

    /// When the loop has something to do although nothing has happened.
    fn wake_at(&self) -> Option<Instant> {
        let own = [self.claiming.after, self.settling.after, self.renewing.wake_at(), self.check_at];
        own.into_iter()
            .chain([self.registration.wake_at(self.drain.is_some()), self.listening.after, self.drain_at()])
            .flatten()
            .min()
    }

    /// Looks again at `at` for what a clock decides.
    fn look_at(&mut self, at: Instant) {
        self.check_at = Some(self.check_at.map_or(at, |old| old.min(at)));
    }

    fn running(&self) -> usize {
        self.started.len()
    }

    fn start_queued(&mut self, now: Instant) {
        while self.running() < self.settings.concurrency && self.drain.is_none() {
            let Some(slot) = self.queue.pop_front() else { return };
            self.start(slot, now);
        }
    }

    fn start(&mut self, slot: u64, now: Instant) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        let task = Task { ctx: held.ctx.clone() };
        let claimed = held.ctx.claimed();
        // Of the highest level, so that no filter that lets a handler's warnings through takes away whose they are.
        let span = tracing::error_span!(
            "task",
            execution = claimed.execution,
            attempt = claimed.attempt.index,
            kind = claimed.kind,
            lane = claimed.lane,
            trace = claimed.trace
        );
        if let Some(context) = &claimed.trace {
            weft_api::trace::adopt(&span, context);
        }
        let trace = claimed.trace.clone();
        let (dispatcher, ended_by, ctx) = (self.dispatcher.clone(), self.ended_by.clone(), held.ctx.clone());
        let run = async move {
            // A handler that panics while it makes its future is caught as well.
            let running = AssertUnwindSafe(async move { dispatcher.run(task).await }).catch_unwind();
            let outcome = running.await.unwrap_or_else(|panic| held::panicked(&*panic));
            if matches!(outcome, Outcome::Failed(_)) && ctx.riders().checkpoint.is_some() {
                // The next attempt wants it. If the lease is gone there is nobody to tell.
                let _ = ctx.flush().await;
            }
            // The loop is gone only if the worker is.
            let _ = ended_by.send((slot, outcome));
        };
        let run = crate::transport::traced(trace, run);
        let handle = tokio::spawn(run.instrument(span)).abort_handle();
        held.phase = Phase::Running { _handle: held::AbortOnDrop(handle) };
        self.started.insert(slot, now);
    }

    /// A handler has ended by itself.
    fn ended(&mut self, slot: u64, outcome: Outcome, now: Instant) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        let Some(since) = self.started.remove(&slot) else { return };
        let took = now.saturating_duration_since(since);
        self.pace = Some(self.pace.map_or(took, |pace| (pace * 7 + took) / 8));
        match held.answer(outcome) {
            Some(item) => {
                held.phase = Phase::Settling;
                self.settling.outbox.push(Unsent { slot, item, replaced: false });
            }
            None => drop(self.held.remove(&slot)),
        }
    }

    /// Everything that a clock decides: leases that ran out, attempts whose time is over, handlers whose grace is over,
    /// tasks that wait here for too long.
    fn check(&mut self, now: Instant) {
        if self.check_at.is_none_or(|at| at > now) {
            return;
        }
        self.check_at = None;
        let slots: Vec<u64> = self.held.keys().copied().collect();
        for slot in slots {
            self.check_one(slot, now);
        }
    }

    fn check_one(&mut self, slot: u64, now: Instant) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        let expires_at = held.ctx.expires_at();
        if !held.lost && expires_at <= now {
            held.lose("the lease ran out before it was renewed", Some(now + self.settings.grace));
        }
        if held.timeout_at.is_some_and(|at| at <= now) && !held.lost {
            held.told(Cause::Timeout, "the time of the attempt is over", Some(now + self.settings.grace));
        }
        let is_stale = matches!(held.phase, Phase::Queued { since } if since + STALE <= now);
        if held.lost && !matches!(held.phase, Phase::Running { .. }) {
            tracing::warn!(
                execution = held.ctx.id(),
                kind = held.ctx.kind(),
                "a lease ran out before its outcome was sent"
            );
            self.forget(slot);
        } else if is_stale {
            // Handlers are not what they were when it was claimed.
            self.pace = self.pace.max(Some(STALE));
            self.hand_back(slot);
        } else if held.kill_at.is_some_and(|at| at <= now) {
            self.kill(slot);
        }
        if let Some(held) = self.held.get(&slot) {
            let next = held.next_check(STALE);
            self.look_at(next);
        }
    }

    /// Nothing more is done about it.
    fn forget(&mut self, slot: u64) {
        self.queue.retain(|queued| *queued != slot);
        self.settling.outbox.retain(|unsent| unsent.slot != slot);
        self.held.remove(&slot);
    }

    /// Gives what has not begun to others.
    fn hand_back(&mut self, slot: u64) {
        self.queue.retain(|queued| *queued != slot);
        let Some(held) = self.held.get_mut(&slot) else { return };
        let item = held.fenced(super::outcome::hand_back());
        held.phase = Phase::Settling;
        self.settling.outbox.push(Unsent { slot, item, replaced: false });
    }

    /// Drops a handler whose grace is over, and says what that means.
    fn kill(&mut self, slot: u64) {
        let Some(held) = self.held.get_mut(&slot) else { return };
        if !matches!(held.phase, Phase::Running { .. }) {
            held.kill_at = None;
            return;
        }
        tracing::warn!(
            execution = held.ctx.id(),
            kind = held.ctx.kind(),
            "a handler was told to stop and did not; it is dropped"
        );
        self.started.remove(&slot);
        match held.killed() {
            Some(item) => {
                held.phase = Phase::Settling;
                held.kill_at = None;
                self.settling.outbox.push(Unsent { slot, item, replaced: false });
            }
            None => drop(self.held.remove(&slot)),
        }
    }

    fn find(&self, execution: &str, epoch: u64) -> Option<u64> {
        let is = |held: &Held| {
            let claimed = held.ctx.claimed();
            claimed.lease.epoch == epoch && claimed.execution == execution
        };
        self.held.iter().find(|(_, held)| is(held)).map(|(slot, _)| *slot)
    }

    /// The server says that a lease is not ours any more.
    fn lost(&mut self, slot: u64, cause: Cause, reason: &str) {
        let kill_at = Instant::now() + self.settings.grace;
        let Some(held) = self.held.get_mut(&slot) else { return };
        // A lease that ended by a pause or is being settled has ended by our own doing.
        if held.lost || held.ctx.is_paused() || matches!(held.phase, Phase::Settling) {
            return;
        }
        held.lost = true;
        held.told(cause, reason, Some(kill_at));
        match held.phase {
            Phase::Running { .. } => self.look_at(kill_at),
            _ => self.forget(slot),
        }
    }

    /// The server asks for an end within a time.
    fn cancel_requested(&mut self, slot: u64, reason: &str, kill_in_ms: Option<u64>) {
        let grace = kill_in_ms.map_or(self.settings.grace, Duration::from_millis);
        let kill_at = Instant::now() + grace;
        let Some(held) = self.held.get_mut(&slot) else { return };
        held.told(Cause::Cancel, reason, Some(kill_at));
        match held.phase {
            Phase::Running { .. } => self.look_at(kill_at),
            Phase::Queued { .. } => {
                let item = held.fenced(super::outcome::cancel(reason));
                held.phase = Phase::Settling;
                self.queue.retain(|queued| *queued != slot);
                self.settling.outbox.push(Unsent { slot, item, replaced: false });
            }
            Phase::Settling => {}
        }
    }
}

/// The reply of a call in flight; never ready while there is none.
async fn flown<T>(flight: &mut Option<Flight<T>>) -> Result<T, Error> {
    match flight {
        Some(running) => {
            let reply = running.await;
            *flight = None;
            reply
        }
        None => std::future::pending().await,
    }
}

/// True for a refusal that may not come again. A defect of the server is one, as long as the lease is good: it has changed
/// nothing, and what was done here must not be thrown away for it.
fn may_pass(problem: &Problem) -> bool {
    problem.class == Class::Later || problem.code == Code::Internal
}

/// True for what no repetition and no waiting will change.
fn is_fatal(error: &Error) -> bool {
    let codes = [Code::Unauthorized, Code::Forbidden, Code::InstanceSuperseded, Code::NamespaceRequired];
    matches!(error, Error::Config(_)) || error.code().is_some_and(|code| codes.contains(&code))
}
