//! The registry of workers.

use crate::across::{Asked, Of};
use crate::notice::notices;
use crate::once::{Repeat, once};
use crate::read::{limit, one};
use crate::rejection::problem;
use crate::{Acting, Answer, execution_id, text, view};
use weft_api::operation::{NoBody, NoQuery, Operation, Scope};
use weft_api::page::PageQuery;
use weft_api::worker as wire;
use weft_api::{Args, Code, Problem, Reply, op};
use weft_core::command::Fence;
use weft_core::error::Rejection;
use weft_core::limits::WORKER_TTL_MS_DEFAULT;
use weft_core::record::worker::Drain;
use weft_core::text::{Text, check_token};
use weft_core::{CommitId, Time};
use weft_engine::Client;
use weft_engine::worker::{Beat, Body, Heartbeat, HeldLease, Holding, Registration, State, WorkerFilter, WorkerTarget};

type Plain<B> = Args<[String; 0], NoQuery, B>;
type One<B> = Args<[String; 1], NoQuery, B>;

impl Acting<'_> {
    pub async fn register_worker(&self, args: Plain<wire::Register>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::RegisterWorker::SPEC, &args, args.body.request_id.as_ref())?;
        let body = args.body;
        let registration = Registration {
            worker: text(body.worker),
            instance: text(body.instance),
            boot_id: text(body.boot_id),
            lanes: body.lanes.map(|lanes| lanes.into_iter().map(text).collect()),
            kinds: body.kinds.map(|kinds| kinds.into_iter().map(text).collect()),
            capabilities: body.capabilities.into_iter().map(text).collect(),
            capacity: body.capacity,
            version: body.version.map(text),
            host: body.host.map(text),
            labels: body.labels.into_iter().map(|(key, value)| (text(key), text(value))).collect(),
            ttl_ms: body.ttl_ms.unwrap_or(WORKER_TTL_MS_DEFAULT),
            abandon: body.abandon.unwrap_or(true),
        };
        once(&client, repeat, async {
            let registered = client.register(registration).await.map_err(problem)?;
            Ok(Reply::RegisterWorker(wire::Registered {
                session: registered.worker.session,
                state: state(&registered.worker.state),
                leases: registered.leases.iter().map(held_lease).collect(),
                next_in_ms: registered.next_in_ms,
            }))
        })
        .await
    }

    pub async fn heartbeat(&self, args: One<wire::Heartbeat>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::Heartbeat::SPEC, &args, args.body.request_id.as_ref())?;
        let instance = instance(args.path)?;
        let body = args.body;
        let holding = body.holding.map(|held| held.iter().map(holding).collect()).transpose()?;
        let heartbeat =
            Heartbeat { instance, session: body.session, holding, renew_ms: body.renew_ms, free: body.free };
        once(&client, repeat, async {
            let reply = client.heartbeat(heartbeat).await.map_err(problem)?;
            Ok(Reply::Heartbeat(beat(reply, self.engine.now())))
        })
        .await
    }

    pub async fn deregister_worker(
        &self,
        args: Args<[String; 1], wire::SessionQuery, NoBody>,
    ) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::DeregisterWorker::SPEC, &args, None)?;
        let (instance, id) = (instance(args.path)?, repeat.as_ref().map(Repeat::id));
        let session = self.own_session(args.query.session)?;
        once(&client, repeat, async {
            let leases = client.deregister_once(instance, session, id).await.map_err(problem)?;
            Ok(Reply::DeregisterWorker(wire::WorkerEnd { leases }))
        })
        .await
    }

    pub async fn list_workers(&self, args: Args<[String; 0], wire::WorkersQuery, NoBody>) -> Result<Answer, Problem> {
        let mut query = args.query;
        let asked = Asked { cursor: query.cursor.take(), limit: limit(query.limit.take())? };
        let given = |text: &Option<String>| text.as_deref().map(Text::from);
        let filter = WorkerFilter {
            worker: given(&query.worker),
            lane: one("lane", query.lane.as_deref())?,
            kind: one("kind", query.kind.as_deref())?,
            capability: given(&query.capability),
            state: query.state.map(|state| Text::from(word(state))),
            ..WorkerFilter::default()
        };
        let page = self.across(Of::Workers, "list_workers", &query, asked, |client, cursor, limit| {
            let filter = WorkerFilter { limit: Some(limit), cursor, ..filter.clone() };
            async move {
                let page = client.workers(filter).await.map_err(problem)?;
                Ok((page.workers.iter().map(worker).collect(), page.next_cursor))
            }
        });
        Ok(Reply::ListWorkers(page.await?).into())
    }

    /// The process of that name, wherever the caller may read it. If there are several, the caller has to say which.
    pub async fn get_worker(&self, args: One<NoBody>) -> Result<Answer, Problem> {
        let instance = instance(args.path)?;
        let mut found: Option<(Body, Option<CommitId>)> = None;
        for namespace in self.all_namespaces(Of::Workers).await? {
            let client = self.engine.client_as(self.caller.principal(namespace));
            match (client.worker_revised(instance.clone()).await, &found) {
                (Err(Rejection::WorkerNotFound), _) => {}
                (Err(rejection), _) => return Err(problem(rejection)),
                (Ok(one), None) => found = Some(one),
                (Ok((body, _)), Some((other, _))) => {
                    let (one, another) = (&other.namespace, &body.namespace);
                    let why = format!("there is a worker `{instance}` in `{one}` and one in `{another}`");
                    return Err(Problem::new(Code::NamespaceRequired, why).hint("send the header `Weft-Namespace`"));
                }
            }
        }
        let (body, revision) = found.ok_or_else(|| problem(Rejection::WorkerNotFound))?;
        let revision = revision.map(|revision| revision.to_string());
        Ok(Answer { revision, ..Reply::GetWorker(worker(&body)).into() })
    }

    pub async fn list_leases(&self, args: Args<[String; 1], PageQuery, NoBody>) -> Result<Answer, Problem> {
        let asked = Asked { cursor: args.query.cursor, limit: limit(args.query.limit)? };
        let instance = instance(args.path)?;
        let page = self.across(Of::Executions, "list_leases", &*instance, asked, |client, cursor, limit| {
            let instance = instance.clone();
            async move {
                let after = cursor.map(|text| text.parse()).transpose();
                let after = after.map_err(|_| problem(Rejection::InvalidCursor))?;
                let page = client.leases(instance, after, limit).await.map_err(problem)?;
                let next = page.next_cursor.map(|last| last.to_string());
                Ok((page.leases.iter().map(held_lease).collect(), next))
            }
        });
        Ok(Reply::ListLeases(page.await?).into())
    }

    pub async fn drain_workers(&self, args: Plain<wire::DrainTarget>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::DrainWorkers::SPEC, &args, args.body.request_id.as_ref())?;
        let wire::DrainTarget { instance, worker, version, label, reason, deadline_ms, session, request_id: _ } =
            args.body;
        let target = target(instance, worker, version, label)?;
        self.check_target(&client, &target, session).await?;
        once(&client, repeat, async {
            let told = client.drain(target, text(reason), deadline_ms).await.map_err(problem)?;
            Ok(Reply::DrainWorkers(instances(told)))
        })
        .await
    }

    pub async fn undrain_workers(&self, args: Plain<wire::UndrainTarget>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::UndrainWorkers::SPEC, &args, args.body.request_id.as_ref())?;
        let wire::UndrainTarget { instance, worker, version, label, session, request_id: _ } = args.body;
        let target = target(instance, worker, version, label)?;
        self.check_target(&client, &target, session).await?;
        once(&client, repeat, async {
            let told = client.undrain(target).await.map_err(problem)?;
            Ok(Reply::UndrainWorkers(instances(told)))
        })
        .await
    }

    /// A worker may tell itself, which its session proves; others are an operator's to tell.
    async fn check_target(&self, client: &Client, target: &WorkerTarget, session: Option<u64>) -> Result<(), Problem> {
        if self.caller.has(Scope::Operate) {
            return Ok(());
        }
        let WorkerTarget::Instance(instance) = target else {
            return Err(not_itself("to tell more than one instance needs the scope `operate`"));
        };
        let session = self.own_session(session)?;
        let body = client.worker(instance.clone()).await.map_err(problem)?;
        match Some(body.session) == session {
            true => Ok(()),
            false => Err(problem(Rejection::InstanceSuperseded { session: body.session })),
        }
    }

    /// The session of a worker that speaks for itself; an operator need not give one.
    fn own_session(&self, session: Option<u64>) -> Result<Option<u64>, Problem> {
        match session {
            None if !self.caller.has(Scope::Operate) => {
                Err(not_itself("to tell another process than the own needs the scope `operate`"))
            }
            session => Ok(session),
        }
    }

    pub async fn mark_worker_dead(&self, args: One<wire::MarkDead>) -> Result<Answer, Problem> {
        let client = self.client()?;
        let repeat = Repeat::of(op::MarkWorkerDead::SPEC, &args, args.body.request_id.as_ref())?;
        let instance = instance(args.path)?;
        once(&client, repeat, async {
            let leases = client.mark_dead(instance, text(args.body.reason)).await.map_err(problem)?;
            Ok(Reply::MarkWorkerDead(wire::WorkerEnd { leases }))
        })
        .await
    }
}

fn not_itself(why: &str) -> Problem {
    Problem::new(Code::Forbidden, why)
        .field("needs", vec!["operate"])
        .hint("a worker may tell itself: give its `instance` and the `session` that `POST /v1/workers` gave")
}

/// The instance that a path names.
fn instance([instance]: [String; 1]) -> Result<Text, Problem> {
    check_token("instance", &instance, weft_core::limits::WORKER_MAX).map_err(problem)?;
    Ok(text(instance))
}

fn holding(held: &wire::Holding) -> Result<Holding, Problem> {
    let lease = held
        .lease
        .parse()
        .map_err(|_| problem(Rejection::InvalidId { expected: "l" }).field("got", held.lease.as_str()))?;
    Ok(Holding { id: execution_id(&held.execution)?, fence: Fence { lease, epoch: held.epoch } })
}

/// Which workers are meant, and why. Exactly one field says which.
fn target(
    instance: Option<String>,
    worker: Option<String>,
    version: Option<String>,
    label: Option<String>,
) -> Result<WorkerTarget, Problem> {
    let label = match label {
        Some(label) => {
            let parts = label.split_once('=').map(|(key, value)| (Text::from(key), Text::from(value)));
            Some(parts.ok_or_else(|| Problem::invalid("label", "is not of the form `key=value`"))?)
        }
        None => None,
    };
    let wishes = [
        instance.map(|instance| WorkerTarget::Instance(text(instance))),
        worker.map(|worker| WorkerTarget::Worker(text(worker))),
        version.map(|version| WorkerTarget::Version(text(version))),
        label.map(|(key, value)| WorkerTarget::Label(key, value)),
    ];
    let mut wishes = wishes.into_iter().flatten();
    match (wishes.next(), wishes.next()) {
        (Some(target), None) => Ok(target),
        _ => Err(Problem::invalid("instance", "or `worker`, `version` or `label` must be given, and only one of them")),
    }
}

fn instances(told: Vec<Text>) -> wire::DrainReply {
    wire::DrainReply { instances: told.iter().map(|instance| instance.to_string()).collect() }
}

fn state(state: &State) -> wire::WorkerState {
    match state {
        State::Active => wire::WorkerState::Active,
        State::Draining(_) => wire::WorkerState::Draining,
        State::Drained(_) | State::Left { .. } => wire::WorkerState::Drained,
        State::Dead { .. } => wire::WorkerState::Dead,
    }
}

/// The word that the engine has for a state.
fn word(state: wire::WorkerState) -> &'static str {
    match state {
        wire::WorkerState::Active => "active",
        wire::WorkerState::Draining => "draining",
        wire::WorkerState::Drained => "drained",
        wire::WorkerState::Dead => "dead",
    }
}

fn drain(drain: &Drain) -> wire::Drain {
    wire::Drain {
        reason: drain.reason.to_string(),
        by: drain.by.to_string(),
        since: drain.since.ms(),
        deadline_at: drain.deadline_at.map(Time::ms),
    }
}

fn beat(beat: Beat, now: Time) -> wire::Beat {
    let renewed = beat.renewed.into_iter();
    let cancel = beat.cancel.into_iter();
    wire::Beat {
        state: state(&beat.state),
        drain_in_ms: beat.drain.as_ref().and_then(|drain| drain.deadline_at).map(|at| at.since(now)),
        drain: beat.drain.as_ref().map(drain),
        renewed: renewed
            .map(|(id, expires_in_ms)| wire::RenewedLease { execution: id.to_string(), expires_in_ms })
            .collect(),
        lost: beat
            .lost
            .into_iter()
            .map(|lost| wire::LostLease {
                execution: lost.execution.to_string(),
                epoch: lost.epoch,
                cause: lost.cause.to_string(),
            })
            .collect(),
        cancel: cancel
            .map(|cancel| wire::CancelledLease {
                execution: cancel.execution.to_string(),
                epoch: cancel.epoch,
                reason: cancel.reason.to_string(),
                kill_in_ms: cancel.kill_in_ms,
            })
            .collect(),
        unknown: beat.unknown.iter().map(held_lease).collect(),
        notices: notices(beat.told.notices, now),
        missed: beat.told.missed,
        next_in_ms: beat.next_in_ms,
    }
}

fn held_lease(held: &HeldLease) -> wire::HeldLease {
    wire::HeldLease {
        execution: held.execution.to_string(),
        kind: held.kind.to_string(),
        lane: held.lane.to_string(),
        lease: held.lease.to_string(),
        epoch: held.epoch,
        attempt: held.attempt,
        acquired_at: held.acquired_at.ms(),
        expires_at: held.expires_at.ms(),
        progress: held.progress.as_ref().map(view::progress),
    }
}

fn worker(body: &Body) -> wire::Worker {
    wire::Worker {
        namespace: body.namespace.to_string(),
        instance: body.instance.to_string(),
        worker: body.worker.to_string(),
        session: body.session,
        state: state(&body.state),
        lanes: body.lanes.iter().map(|lane| lane.to_string()).collect(),
        kinds: body.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.to_string()).collect()),
        capabilities: body.capabilities.tokens().map(str::to_string).collect(),
        capacity: body.capacity,
        free: body.free,
        version: body.version.as_ref().map(|version| version.to_string()),
        host: body.host.as_ref().map(|host| host.to_string()),
        labels: view::tags(&body.labels),
        ttl_ms: body.ttl_ms,
        registered_at: body.registered_at.ms(),
        last_seen_at: body.last_seen_at.ms(),
        drain: body.state.drain().map(drain),
        dead: match &body.state {
            State::Dead { at, marked, .. } => {
                let reason = marked.as_ref().map(|reason| reason.to_string());
                Some(wire::Dead { at: at.ms(), marked: marked.is_some(), reason })
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sd_54_a_drain_names_its_target_in_exactly_one_way() {
        let label = |text: &str| Some(text.to_string());
        assert_eq!(
            target(None, None, None, label("zone=a=b")).unwrap(),
            WorkerTarget::Label("zone".into(), "a=b".into())
        );
        let two = target(None, Some("mailer".into()), None, label("zone=a"));
        for refused in [target(None, None, None, None), two, target(None, None, None, label("zone"))] {
            assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
        }
    }
}
