//! Calls of the API, carried out by an engine in this process: the one place where a wire request becomes an engine
//! call and an engine reply becomes a wire reply. The HTTP server and embedded clients both go through it, so that what
//! holds for one holds for the other. It checks who may call and in which namespace, and has no other rules.

mod across;
mod bulk;
pub mod caller;
mod cursor;
mod execution;
mod flow;
mod held;
mod key;
mod node;
mod notice;
mod obstacle;
mod once;
mod parked;
mod read;
pub mod rejection;
pub mod secret;
mod stats;
mod steer;
mod step;
mod submit;
mod view;
mod work;
mod worker;

pub use caller::{Caller, Reach};

pub use key::entry as audit_entry;
pub use node::filters as node_filters;
pub use notice::{Notices, Tiding};

use crate::secret::Macs;
use bytes::Bytes;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;
use weft_api::node::{Configuration, Setting};
use weft_api::operation::{NoQuery, Operation};
use weft_api::{Args, Call, Problem, Reply, Unreadable, op, work as work_api};
use weft_core::ExecutionId;
use weft_core::limits::WORKER_MAX;
use weft_core::text::{Text, check_token};
use weft_engine::{Client, Engine};

/// Carries out calls. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    engine: Engine,
    macs: Option<Macs>,
    /// What is set, for those who may ask.
    settings: Arc<RwLock<Vec<Setting>>>,
}

/// What a call was answered, and what its transport should add.
#[derive(Clone, Debug)]
pub struct Answer {
    pub reply: Reply,
    /// What was asked for existed before: 200 where a first call says 201.
    pub existed: bool,
    /// The call was a repeat, and this is the first answer.
    pub replayed: bool,
    /// The revision of the one thing that was read.
    pub revision: Option<String>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, existed: false, replayed: false, revision: None }
    }
}

/// Facts about a call that are not part of it.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The trace context of the request.
    pub trace: Option<String>,
}

impl Dispatch {
    pub fn new(engine: Engine) -> Self {
        Self { engine, macs: None, settings: Arc::default() }
    }

    /// Lets it make API keys, whose MACs these make. Without them keys can be listed and revoked only.
    pub fn with_macs(self, macs: Option<Macs>) -> Self {
        Self { macs, ..self }
    }

    /// Tells it what is set from now on: what `get_config` answers. Secrets must not be in it.
    pub fn set_settings(&self, settings: Vec<Setting>) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    fn configuration(&self) -> Configuration {
        Configuration { items: self.settings.read().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A claim whose wait ends early when `left` is told. What it answers is leased, whoever still listens.
    pub async fn claim(
        &self,
        caller: &Caller,
        args: Args<[String; 0], NoQuery, work_api::Claim>,
        around: &Around,
        left: &Notify,
    ) -> Result<Answer, Problem> {
        caller.may(op::Claim::SPEC)?;
        Acting { engine: &self.engine, macs: self.macs.as_ref(), caller, around }.claim(args, left).await
    }

    /// What a worker process should know about leases it holds, as it happens on this node; after the number that it
    /// heard last, if it tells.
    pub fn notices(&self, caller: &Caller, instance: &str, last: Option<u64>) -> Result<Notices, Problem> {
        check_token("instance", instance, WORKER_MAX).map_err(rejection::problem)?;
        let namespace = caller.namespace()?.clone();
        let notices = self.engine.client_as(caller.principal(namespace)).notices_after(instance, last);
        Ok(Notices { engine: self.engine.clone(), notices })
    }

    /// Carries out one call in the name of `caller`.
    pub async fn call(&self, caller: &Caller, call: Call, around: &Around) -> Result<Answer, Problem> {
        caller.may(call.spec())?;
        let it = Acting { engine: &self.engine, macs: self.macs.as_ref(), caller, around };
        match call {
            Call::SubmitExecution(args) => it.submit(*args).await,
            Call::SubmitExecutions(args) => it.submit_many(*args).await,
            Call::ListExecutions(args) => it.list(*args).await,
            Call::CountExecutions(args) => it.count(*args).await,
            Call::CancelExecutions(args) => it.cancel_many(*args).await,
            Call::GetExecution(args) => it.get(*args).await,
            Call::GetInput(args) => it.input(*args).await,
            Call::GetResult(args) => it.result(*args).await,
            Call::GetCheckpoint(args) => it.checkpoint(*args).await,
            Call::ListAttempts(args) => it.attempts(*args).await,
            Call::GetAttempt(args) => it.attempt(*args).await,
            Call::GetAttemptResult(args) => it.attempt_result(*args).await,
            Call::GetHistory(args) => it.history(*args).await,
            Call::ListChildren(args) => it.children(*args).await,
            Call::ExplainExecution(args) => it.explain(*args).await,
            Call::ListSteps(args) => it.steps(*args).await,
            Call::GetStep(args) => it.step(*args).await,
            Call::CancelExecution(args) => it.cancel(*args).await,
            Call::ReplayExecution(args) => it.replay(*args).await,
            Call::RescheduleExecution(args) => it.reschedule(*args).await,
            Call::SetPriority(args) => it.set_priority(*args).await,
            Call::SetTags(args) => it.set_tags(*args).await,
            Call::HoldExecution(args) => it.hold(*args).await,
            Call::ReleaseExecution(args) => it.release(*args).await,
            Call::RevokeExecution(args) => it.revoke(*args).await,
            Call::ForceComplete(args) => it.force_complete(*args).await,
            Call::ForceFail(args) => it.force_fail(*args).await,
            Call::PurgeExecution(args) => it.purge(*args).await,
            Call::Claim(args) => it.claim(*args, &Notify::new()).await,
            Call::Renew(args) => it.renew(*args).await,
            Call::Complete(args) => it.complete(*args).await,
            Call::Fail(args) => it.fail(*args).await,
            Call::Settle(args) => it.settle(*args).await,
            Call::Progress(args) => it.progress(*args).await,
            Call::Delay(args) => it.delay(*args).await,
            Call::WaitChildren(args) => it.wait_children(*args).await,
            Call::CancelHeld(args) => it.cancel_held(*args).await,
            Call::TagHeld(args) => it.tag_held(*args).await,
            Call::RecordSteps(args) => it.record_steps(*args).await,
            Call::ReadSteps(args) => it.read_steps(*args).await,
            Call::ReadChildren(args) => it.read_children(*args).await,
            Call::SpawnChildren(args) => it.spawn_children(*args).await,
            Call::SubmitFlow(args) => it.submit_flow(*args).await,
            Call::ListFlows(args) => it.list_flows(*args).await,
            Call::GetFlow(args) => it.get_flow(*args).await,
            Call::ListMembers(args) => it.list_members(*args).await,
            Call::ListEdges(args) => it.list_edges(*args).await,
            Call::ListGroups(args) => it.list_groups(*args).await,
            Call::GetGroup(args) => it.get_group(*args).await,
            Call::GetGraph(args) => it.get_graph(*args).await,
            Call::ExplainFlow(args) => it.explain_flow(*args).await,
            Call::AddMembers(args) => it.add_members(*args).await,
            Call::AddEdges(args) => it.add_edges(*args).await,
            Call::SealFlow(args) => it.seal_flow(*args).await,
            Call::FinishFlow(args) => it.finish_flow(*args).await,
            Call::CancelFlow(args) => it.cancel_flow(*args).await,
            Call::ChangeFlow(args) => it.change_flow(*args).await,
            Call::ReplayFlow(args) => it.replay_flow(*args).await,
            Call::PurgeFlow(args) => it.purge_flow(*args).await,
            Call::AddOwnMembers(args) => it.add_own_members(*args).await,
            Call::AddOwnEdges(args) => it.add_own_edges(*args).await,
            Call::SealOwnMembers(args) => it.seal_own_members(*args).await,
            Call::FinishOwnFlow(args) => it.finish_own_flow(*args).await,
            Call::ReadInput(args) => it.read_input(*args).await,
            Call::ReadInputs(args) => it.read_inputs(*args).await,
            Call::RegisterWorker(args) => it.register_worker(*args).await,
            Call::Heartbeat(args) => it.heartbeat(*args).await,
            Call::DeregisterWorker(args) => it.deregister_worker(*args).await,
            Call::ListWorkers(args) => it.list_workers(*args).await,
            Call::GetWorker(args) => it.get_worker(*args).await,
            Call::ListLeases(args) => it.list_leases(*args).await,
            Call::DrainWorkers(args) => it.drain_workers(*args).await,
            Call::UndrainWorkers(args) => it.undrain_workers(*args).await,
            Call::MarkWorkerDead(args) => it.mark_worker_dead(*args).await,
            Call::CreateKey(args) => it.create_key(*args).await,
            Call::ListKeys(args) => it.list_keys(*args).await,
            Call::GetKey(args) => it.get_key(*args).await,
            Call::ChangeKey(args) => it.change_key(*args).await,
            Call::RotateKey(args) => it.rotate_key(*args).await,
            Call::RevokeKey(args) => it.revoke_key(*args).await,
            Call::ListAudit(args) => it.list_audit(*args).await,
            Call::VerifyAudit(_) => it.verify_audit().await,
            Call::GetStats(_) => it.stats().await,
            Call::StartBulk(args) => it.start_bulk(*args).await,
            Call::GetBulk(args) => it.bulk(*args).await,
            Call::StopBulk(args) => it.stop_bulk(*args).await,
            Call::GetVersion(_) => Ok(it.version()),
            Call::GetCapabilities(_) => Ok(it.capabilities()),
            Call::ListNamespaces(args) => it.namespaces(args.query).await,
            Call::GetConfig(_) => Ok(Reply::GetConfig(self.configuration()).into()),
            Call::ListNodes(_) => it.nodes().await,
            Call::DrainNode(args) => it.drain_node(*args).await,
            Call::ListScanners(_) => it.list_scanners().await,
            Call::ListParked(args) => it.list_parked(*args).await,
            Call::RetryParked(args) => it.retry_parked(*args).await,
            Call::DiscardParked(args) => it.discard_parked(*args).await,
            Call::RetryAllParked(args) => it.retry_all_parked(*args).await,
        }
    }
}

/// One call being carried out.
pub(crate) struct Acting<'a> {
    engine: &'a Engine,
    macs: Option<&'a Macs>,
    caller: &'a Caller,
    around: &'a Around,
}

impl Acting<'_> {
    /// A client in the namespace of the call.
    fn client(&self) -> Result<Client, Problem> {
        let namespace = self.caller.namespace()?.clone();
        Ok(self.engine.client_as(self.caller.principal(namespace)))
    }

    /// The execution that a call names, and a client in its namespace. One that the caller may not see is unknown.
    async fn one(&self, id: &str) -> Result<(ExecutionId, Client), Problem> {
        let id = execution_id(id)?;
        let namespace = match self.caller.chosen()? {
            Some(namespace) => namespace.clone(),
            None => {
                let found = self.engine.namespace_of(id).await.map_err(rejection::problem)?;
                let unknown = || rejection::problem(weft_core::error::Rejection::ExecutionNotFound);
                found.filter(|namespace| self.caller.reach.holds(namespace)).ok_or_else(unknown)?
            }
        };
        Ok((id, self.engine.client_as(self.caller.principal(namespace))))
    }
}

fn execution_id(text: &str) -> Result<ExecutionId, Problem> {
    text.parse().map_err(|_| rejection::invalid_id("x", text))
}

/// The id that makes a repeat of a call recognisable: the header, or the field of the body, or both and equal.
fn request_id<P, Q, B>(args: &Args<P, Q, B>, field: Option<&String>) -> Result<Option<Bytes>, Problem> {
    match (&args.idempotency_key, field) {
        (Some(header), Some(field)) if header != field => {
            Err(Problem::invalid("request_id", "and the header `Idempotency-Key` differ; give one"))
        }
        (header, field) => Ok(header.as_ref().or(field).map(|id| Bytes::from(id.clone()))),
    }
}

/// Items of a batch have ids of their own; one for all would mean nothing.
fn no_batch_id<P, Q, B>(args: &Args<P, Q, B>) -> Result<(), Problem> {
    match args.idempotency_key {
        Some(_) => Err(Problem::invalid("Idempotency-Key", "is not for batches; give each item its own")),
        None => Ok(()),
    }
}

const _: () = assert!(weft_api::BATCH_ITEMS_MAX == weft_core::limits::BATCH_ITEMS_MAX);

/// Items of a batch as they were sent: in order, those that could not be read with what is wrong with them. A batch of
/// none or of too many is refused whole.
fn sent<T>(items: Vec<T>, unreadable: Vec<Unreadable>) -> Result<impl Iterator<Item = Result<T, Problem>>, Problem> {
    let max = weft_core::limits::BATCH_ITEMS_MAX;
    let len = items.len() + unreadable.len();
    match len {
        0 => return Err(Problem::invalid("items", "is empty; give at least one")),
        len if len > max => return Err(Problem::invalid("items", format!("has {len} entries, allowed are {max}"))),
        _ => {}
    }
    let (mut items, mut unreadable) = (items.into_iter(), unreadable.into_iter().peekable());
    Ok((0..len).filter_map(move |index| match unreadable.next_if(|bad| bad.index == index) {
        Some(bad) => Some(Err(bad.problem)),
        None => items.next().map(Ok),
    }))
}

fn text(value: String) -> Text {
    Text::from(value)
}
