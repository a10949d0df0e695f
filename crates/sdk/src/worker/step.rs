//! Steps: what ran once and is remembered. Owns the names that a run has used and what the server has recorded; only
//! successes are recorded, and a step returns only after its record is durable.

use super::ctx::Ctx;
use super::failure::Failure;
use crate::payload;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;
use weft_api::work::{NewStep, ReadSteps, RecordSteps, Steps};
use weft_api::{Args, Payload, op};

pub const STEP_NAME_MAX: usize = 200;
/// What of its kind is in the key of a child that joins a flow.
const CHILD_KIND_BYTES_MAX: usize = 64;

/// What one run of a handler knows of its steps.
pub(crate) struct Journal {
    recorded: BTreeMap<String, Payload>,
    /// The last of the recorded ones that is known, and whether there are others.
    last: Option<u32>,
    more: bool,
    /// How often each name was used.
    used: BTreeMap<String, u32>,
    /// The names that steps of this run are recorded under.
    given: BTreeSet<String>,
    running: BTreeSet<String>,
    /// The children that were waited for.
    waits: BTreeSet<BTreeSet<String>>,
}

impl Journal {
    pub fn of(steps: Steps) -> Self {
        let mut journal = Self {
            recorded: BTreeMap::new(),
            last: None,
            more: false,
            used: BTreeMap::new(),
            given: BTreeSet::new(),
            running: BTreeSet::new(),
            waits: BTreeSet::new(),
        };
        journal.learn(steps);
        journal
    }

    fn learn(&mut self, steps: Steps) {
        self.more = steps.more;
        for step in steps.items {
            self.last = self.last.max(Some(step.no));
            self.recorded.insert(step.name, step.value);
        }
    }

    /// The name as it is recorded: the second use of a name in one run is another step. A name that another step has
    /// already, because somebody chose one with a number, is passed over.
    fn name(&mut self, name: &str) -> String {
        let used = self.used.entry(name.to_string()).or_default();
        loop {
            *used += 1;
            let candidate = match *used {
                1 => name.to_string(),
                again => format!("{name}#{again}"),
            };
            if self.given.insert(candidate.clone()) {
                return candidate;
            }
        }
    }

    /// True for the first wait for exactly these children in this run.
    pub fn waits_first_for(&mut self, children: &BTreeSet<String>) -> bool {
        self.waits.insert(children.clone())
    }
}

tokio::task_local! {
    /// Set while the function of a step is polled.
    static INSIDE: ();
}

/// The turn of one step: no other of its name runs meanwhile.
struct Turn<'a> {
    ctx: &'a Ctx,
    name: &'a str,
    recorded_as: String,
    /// It runs inside another step, whose turn it is.
    inside: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.inside {
            self.ctx.journal().running.remove(self.name);
            self.ctx.stepped().notify_waiters();
        }
    }
}

impl Ctx {
    /// Runs `f` once and remembers what it answered: a later attempt, or the same one after a pause, gets that at once.
    /// A failure is not remembered. `f` may run more than once if the worker dies before its result is recorded.
    pub async fn step<T, E, F, Fut>(&self, name: &str, f: F) -> Result<T, Failure>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: Into<Failure>,
    {
        let turn = self.turn(name).await?;
        if let Some(found) = self.recorded(&turn.recorded_as).await? {
            return read(&found, &turn.recorded_as);
        }
        let value = INSIDE.scope((), f()).await.map_err(Into::into)?;
        let payload = payload::json(&value)?;
        match self.record(&turn.recorded_as, payload).await? {
            Some(first) => read(&first, &turn.recorded_as),
            None => Ok(value),
        }
    }

    /// A key that stays the same over all attempts, for services outside that know a repeat by one.
    pub fn step_key(&self, name: &str) -> String {
        format!("{}/{name}", self.id())
    }

    /// The time of the first run, at every later one too.
    pub async fn now(&self, name: &str) -> Result<SystemTime, Failure> {
        let ms = self.remember(name, || self.client().world().now_ms()).await?;
        Ok(UNIX_EPOCH + Duration::from_millis(ms))
    }

    /// A random id, the same at every later run.
    pub async fn uuid(&self, name: &str) -> Result<Uuid, Failure> {
        let world = self.client().world();
        let fresh = || (u128::from(world.random()) << 64) | u128::from(world.random());
        let made = || uuid::Builder::from_random_bytes(fresh().to_be_bytes()).into_uuid().to_string();
        let text: String = self.remember(name, made).await?;
        text.parse().map_err(|_| Failure::permanent(format!("the step `{name}` is no id")))
    }

    /// A random number, the same at every later run.
    pub async fn random(&self, name: &str) -> Result<u64, Failure> {
        self.remember(name, || self.client().world().random()).await
    }

    async fn remember<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        self.step(name, || std::future::ready(Ok::<_, Failure>(make()))).await
    }

    async fn turn<'a>(&'a self, name: &'a str) -> Result<Turn<'a>, Failure> {
        self.going()?;
        if name.is_empty() || name.len() > STEP_NAME_MAX {
            let why = format!("a step has a name of 1 to {STEP_NAME_MAX} bytes, this one has {}", name.len());
            return Err(Failure::permanent(why).category("usage"));
        }
        let inside = INSIDE.try_with(|()| ()).is_ok();
        if inside && self.is_strict() {
            return Err(Failure::permanent(format!("the step `{name}` runs inside another step")).category("usage"));
        }
        loop {
            let stepped = self.stepped().notified();
            tokio::pin!(stepped);
            {
                let mut journal = self.journal();
                if inside || journal.running.insert(name.to_string()) {
                    let recorded_as = journal.name(name);
                    drop(journal);
                    let turn = Turn { ctx: self, name, recorded_as, inside };
                    return match turn.recorded_as.len() <= STEP_NAME_MAX {
                        true => Ok(turn),
                        false => {
                            let name = &turn.recorded_as;
                            let why = format!("the step is recorded as `{name}`, which is over {STEP_NAME_MAX} bytes");
                            Err(Failure::permanent(why).category("usage"))
                        }
                    };
                }
                // Registered while the journal is locked, so that the end of the other step is not missed.
                stepped.as_mut().enable();
            }
            if self.is_strict() {
                return Err(Failure::permanent(format!("two steps `{name}` run at once")).category("usage"));
            }
            stepped.await;
        }
    }

    /// The name under which the next use of `name` in this run is recorded, and what is there already.
    pub(crate) async fn remembered(&self, name: &str) -> Result<(String, Option<Payload>), Failure> {
        let turn = self.turn(name).await?;
        let found = self.recorded(&turn.recorded_as).await?;
        Ok((turn.recorded_as.clone(), found))
    }

    pub(crate) async fn recorded(&self, name: &str) -> Result<Option<Payload>, Failure> {
        loop {
            let after = {
                let mut journal = self.journal();
                if let Some(found) = journal.recorded.remove(name) {
                    return Ok(Some(found));
                }
                if !journal.more {
                    return Ok(None);
                }
                journal.last
            };
            let claimed = self.claimed();
            let body = ReadSteps {
                execution: claimed.execution.clone(),
                lease: Some(claimed.lease.id.clone()),
                epoch: Some(claimed.lease.epoch),
                after,
                limit: None,
            };
            let steps = self.fenced::<op::ReadSteps>(Args { body, ..Args::default() }).await?;
            self.journal().learn(steps);
        }
    }

    /// Records a value; answers the one that stands if there was one before.
    pub(crate) async fn record(&self, name: &str, value: Payload) -> Result<Option<Payload>, Failure> {
        let claimed = self.claimed();
        let body = RecordSteps {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            steps: vec![NewStep { name: name.to_string(), value }],
            request_id: None,
        };
        let args = Args::new([], Default::default(), body);
        let reply = self.fenced::<op::RecordSteps>(args).await?;
        Ok(reply.steps.into_iter().next().filter(|step| step.existed).and_then(|step| step.value))
    }
}

pub(crate) fn read<T: DeserializeOwned>(payload: &Payload, name: &str) -> Result<T, Failure> {
    let value = payload::from_json(Some(payload), &format!("the recorded step `{name}`"));
    value.map_err(|error| Failure::decode(error.to_string()))
}

impl Ctx {
    /// The key of the next child of `kind` in this run. One that joins the flow has a key among all members, so that it
    /// says whose child it is.
    pub(crate) fn child_key(&self, kind: &str, joins_flow: bool) -> String {
        let name = match joins_flow {
            // A kind may be as long as the key of a member; those that are cut alike are numbered.
            true => format!("{}/{}", self.id(), kind.get(..CHILD_KIND_BYTES_MAX).unwrap_or(kind)),
            false => format!("weft.child/{kind}"),
        };
        self.journal().name(&name)
    }
}
