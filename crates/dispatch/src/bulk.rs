//! Bulk jobs: the filter and the arguments of a verb from the wire to the engine, and how far a job is.

use crate::execution::mode;
use crate::read::{filter_of, key_text};
use crate::rejection::problem;
use crate::steer::{deadline, start, steps};
use crate::{Acting, Answer, request_id, text, view};
use weft_api::bulk as wire;
use weft_api::execution as x;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::{Args, Moment, Problem, Reply};
use weft_core::command::{DeadlineWish, Steps};
use weft_core::error::Rejection;
use weft_core::filter::Filter;
use weft_core::record::bulk_job::Verb;
use weft_core::text::Text;
use weft_core::{BulkId, Time};
use weft_engine::{BulkRequest, BulkState, BulkView, Client};

impl Acting<'_> {
    pub async fn start_bulk(&self, args: Args<[String; 0], NoQuery, wire::StartBulk>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let verb = verb(&args.body)?;
        let body = args.body;
        let request = BulkRequest {
            dry_run: body.dry_run,
            max: body.max,
            request_id,
            ..BulkRequest::new(filter(body.filter)?, verb)
        };
        let started = self.client()?.start_bulk(request).await.map_err(problem)?;
        Ok(Answer { replayed: started.repeated, ..Reply::StartBulk(job(started.value)).into() })
    }

    pub async fn bulk(&self, args: Args<[String; 1], NoQuery, NoBody>) -> Result<Answer, Problem> {
        let (id, client) = self.one_job(&args.path[0]).await?;
        let view = client.bulk(id).await.map_err(problem)?;
        Ok(Reply::GetBulk(job(view)).into())
    }

    pub async fn stop_bulk(&self, args: Args<[String; 1], NoQuery, wire::StopBulk>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let (id, client) = self.one_job(&args.path[0]).await?;
        let stopped = client.stop_bulk(id, request_id).await.map_err(problem)?;
        Ok(Answer { replayed: stopped.repeated, ..Reply::StopBulk(job(stopped.value)).into() })
    }

    /// The job that a call names, and a client in its namespace. One that the caller may not see is unknown.
    async fn one_job(&self, id: &str) -> Result<(BulkId, Client), Problem> {
        let id = bulk_id(id)?;
        let namespace = match self.caller.chosen()? {
            Some(namespace) => namespace.clone(),
            None => {
                let found = self.engine.namespace_of_bulk(id).await.map_err(problem)?;
                let unknown = || problem(Rejection::BulkNotFound);
                found.filter(|namespace| self.caller.reach.holds(namespace)).ok_or_else(unknown)?
            }
        };
        Ok((id, self.engine.client_as(self.caller.principal(namespace))))
    }
}

fn bulk_id(text: &str) -> Result<BulkId, Problem> {
    text.parse().map_err(|_| problem(Rejection::InvalidId { expected: "j" }).field("got", text))
}

fn filter(filter: wire::Filter) -> Result<Filter, Problem> {
    let query = x::ListQuery {
        state: filter.state,
        lane: filter.lane,
        kind: filter.kind,
        tag: filter.tag,
        concurrency_key: filter.concurrency_key,
        parent: filter.parent,
        flow: filter.flow,
        against: filter.against,
        worker: filter.worker,
        created_from: filter.created_from,
        created_until: filter.created_until,
        finished_from: filter.finished_from,
        finished_until: filter.finished_until,
        updated_since: filter.updated_since,
        ..x::ListQuery::default()
    };
    Ok(filter_of(&query)?.filter())
}

/// The verb with the arguments it takes for one execution, but for those that can only be about one.
fn verb(body: &wire::StartBulk) -> Result<Verb, Problem> {
    for (name, why) in [
        ("request_id", "is for one execution; give the job a `request_id`"),
        ("expected_epoch", "is of one execution, and a bulk job meets many"),
        ("result", "is of one execution, and a bulk job meets many"),
        ("ignore_dependencies", "is decided for one member of a flow at a time"),
    ] {
        if body.args.contains_key(name) {
            return Err(Problem::invalid(format!("args.{name}"), why));
        }
    }
    Ok(match body.verb {
        wire::Verb::Cancel => {
            let args: x::Cancel = body.args()?;
            let (mode, cascade) = (mode(args.mode, args.grace_ms)?, args.cascade.unwrap_or(true));
            Verb::Cancel { reason: text(args.reason), mode, cascade }
        }
        wire::Verb::Replay => {
            let args: x::Replay = body.args()?;
            let deadline = deadline(args.deadline_in_ms, args.deadline_at, args.no_deadline)?;
            let steps = steps(args.steps);
            replay(text(args.reason), deadline, args.delay_ms, args.priority, steps, args.downstream)
        }
        wire::Verb::Hold => {
            let args: x::HoldRequest = body.args()?;
            Verb::Hold { reason: text(args.reason), revoke: args.revoke }
        }
        wire::Verb::Release => Verb::Release { reason: text(body.args::<x::Release>()?.reason) },
        wire::Verb::Revoke => {
            let args: x::Revoke = body.args()?;
            Verb::Revoke { reason: text(args.reason), hold: args.hold }
        }
        wire::Verb::ForceComplete => {
            let args: x::ForceComplete = body.args()?;
            Verb::ForceComplete { reason: text(args.reason) }
        }
        wire::Verb::ForceFail => {
            let args: x::ForceFail = body.args()?;
            Verb::ForceFail { message: text(args.message), reason: text(args.reason) }
        }
        wire::Verb::Purge => Verb::Purge { reason: text(body.args::<x::Purge>()?.reason) },
        wire::Verb::Priority => {
            let args: x::Priority = body.args()?;
            Verb::Priority { priority: args.priority, reason: text(args.reason) }
        }
        wire::Verb::Tag => {
            let args: x::TagChange = body.args()?;
            let set = args.set.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            Verb::Tag { set, remove: args.remove.into_iter().map(text).collect(), reason: text(args.reason) }
        }
        wire::Verb::Reschedule => {
            let args: x::Reschedule = body.args()?;
            Verb::Reschedule { start: start(&args)?, reason: text(args.reason) }
        }
    })
}

/// A replay, which opens again what depends on it unless it is to keep that.
pub fn replay(
    reason: Text,
    deadline: DeadlineWish,
    delay_ms: Option<u64>,
    priority: Option<u32>,
    steps: Steps,
    downstream: Option<x::Downstream>,
) -> Verb {
    match downstream {
        Some(x::Downstream::Keep) => Verb::ReplayAlone { reason, deadline, delay_ms, priority, steps },
        Some(x::Downstream::Reopen) | None => Verb::Replay { reason, deadline, delay_ms, priority, steps },
    }
}

pub fn job(view: BulkView) -> wire::BulkJob {
    let definition = view.definition;
    let known = wire::Verb::ALL.into_iter().find(|verb| verb.name() == definition.verb.name());
    wire::BulkJob {
        id: view.id.to_string(),
        namespace: definition.namespace.to_string(),
        verb: known.expect("bulk: the verbs of the wire are those of the core"),
        filter: filter_view(definition.filter),
        dry_run: definition.dry_run,
        max: view.max,
        by: definition.by.to_string(),
        state: match view.state {
            BulkState::Running => wire::BulkState::Running,
            BulkState::Stopping => wire::BulkState::Stopping,
            BulkState::Stopped => wire::BulkState::Stopped,
            BulkState::Done => wire::BulkState::Done,
        },
        created_at: view.created_at.ms(),
        ended_at: view.ended_at.map(Time::ms),
        matched: view.counts.matched,
        done: view.counts.done,
        refused: view.counts.refused.into_iter().map(|(code, count)| (code.to_string(), count)).collect(),
        unreadable: view.counts.unreadable,
        partitions: view.partitions as u32,
        partitions_done: view.partitions_done as u32,
    }
}

fn filter_view(filter: Filter) -> wire::Filter {
    let moment = |at: Option<Time>| at.map(|at| Moment(at.ms()));
    wire::Filter {
        state: filter.states.into_iter().map(view::state).collect(),
        lane: filter.lane.map(|lane| lane.to_string()),
        kind: filter.kind.map(|kind| kind.to_string()),
        tag: filter.tag.map(|(key, value)| format!("{key}={value}")),
        concurrency_key: filter.concurrency_key.as_deref().map(key_text),
        parent: filter.parent.map(|parent| parent.to_string()),
        flow: filter.flow.map(|flow| flow.to_string()),
        against: filter.against,
        worker: filter.worker.map(|worker| worker.to_string()),
        created_from: moment(filter.created_from),
        created_until: moment(filter.created_until),
        finished_from: moment(filter.finished_from),
        finished_until: moment(filter.finished_until),
        updated_since: moment(filter.updated_since),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(verb: &str, args: serde_json::Value) -> Result<Verb, Problem> {
        let body = json!({ "filter": {}, "verb": verb, "args": args });
        self::verb(&serde_json::from_value(body).expect("a good body"))
    }

    #[test]
    fn api_40_every_verb_of_the_wire_is_one_of_the_core() {
        for verb in wire::Verb::ALL {
            let args = match verb {
                wire::Verb::Priority => json!({ "priority": 7 }),
                wire::Verb::Reschedule => json!({ "delay_ms": 5 }),
                _ => json!({}),
            };
            assert_eq!(read(verb.name(), args).map(|verb| verb.name()), Ok(verb.name()));
        }
    }

    #[test]
    fn api_40_an_argument_about_one_execution_is_refused() {
        for (verb, args, field) in [
            ("revoke", json!({ "expected_epoch": 3 }), "args.expected_epoch"),
            ("cancel", json!({ "request_id": "r" }), "args.request_id"),
            ("force_complete", json!({ "result": { "json": 1 } }), "args.result"),
            ("replay", json!({ "ignore_dependencies": true }), "args.ignore_dependencies"),
            ("cancel", json!({ "grace_ms": 3 }), "grace_ms"),
            ("purge", json!({ "reson": "old" }), "args.reson"),
        ] {
            let refused = read(verb, args).expect_err("it is refused");
            assert_eq!(refused.fields["field"], field);
        }
    }

    #[test]
    fn api_40_a_filter_that_could_select_nothing_because_it_names_several_is_refused() {
        for field in ["kind", "lane"] {
            let names = |names| serde_json::from_value(json!({ field: names })).expect("a filter");
            let refused = filter(names("mail,sms")).expect_err("no name has a comma");
            assert_eq!((&refused.fields["field"], refused.detail.contains("`mail,sms`")), (&json!(field), true));
            assert!(filter(names("mail")).is_ok());
        }
    }
}
