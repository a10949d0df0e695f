//! One verb for all executions of a filter, as a bulk job: the server goes on with it by itself, and this follows it.

use super::{Filter, Remote};
use crate::fault::{Code, Fault};
use crate::terminal::Progress;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use weft_api::bulk::{self as wire, BulkJob, BulkState, StartBulk, StopBulk};
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};

/// A verb as a bulk job does it.
pub struct Bulk {
    verb: wire::Verb,
    args: Map<String, Value>,
}

/// Time between two looks at a job: short at first, for the many jobs that are short.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(1);

impl Bulk {
    /// `body` is what the verb takes for one execution.
    pub fn new(verb: wire::Verb, body: &impl Serialize) -> Result<Self> {
        match serde_json::to_value(body)? {
            Value::Object(args) => Ok(Self { verb, args }),
            _ => anyhow::bail!("the arguments of a verb are an object"),
        }
    }

    /// Starts the job and follows it to its end. None if the key may not start bulk jobs; then nothing was done.
    pub async fn run(self, remote: &Remote, doing: &str, filter: &Filter, total: u64) -> Result<Option<BulkJob>> {
        let Self { verb, args } = self;
        let body = StartBulk { filter: filter.bulk(), verb, args, dry_run: false, max: None, request_id: None };
        let job = match remote.call::<op::StartBulk>(doing, [], NoQuery {}, body).await {
            Ok(job) => job,
            Err(error) if Fault::exit_code(&error) == Code::NotAllowed as u8 => return Ok(None),
            Err(error) => return Err(error),
        };
        follow(remote, doing, job, total).await.map(Some)
    }
}

/// Follows a job to its end, which must not be a stop.
pub async fn follow(remote: &Remote, doing: &str, mut job: BulkJob, total: u64) -> Result<BulkJob> {
    remote.stop_if_interrupted(&job);
    let progress = Progress::new(remote.colour, doing, total);
    let mut pause = LOOK_FIRST;
    while !job.state.is_over() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
        let looking = format!("look after the bulk job `{}`, which goes on", job.id);
        job = remote.call::<op::GetBulk>(&looking, [job.id.clone()], NoQuery {}, NoBody {}).await?;
        progress.reach(met(&job));
        remote.stop_if_interrupted(&job);
    }
    progress.end();
    if job.state == BulkState::Stopped {
        let text = format!("cannot {doing} the rest: the bulk job `{}` was stopped after {}", job.id, met(&job));
        return Err(Fault::new(Code::Refused, text).named("stopped").into());
    }
    if let Some(count) = job.refused.get("forbidden") {
        let text = format!("cannot {doing} {count} of them: the key may not");
        return Err(Fault::new(Code::NotAllowed, text).named("forbidden").into());
    }
    Ok(job)
}

/// Executions that are done with, one way or the other.
fn met(job: &BulkJob) -> u64 {
    job.done + job.refused.values().sum::<u64>() + job.unreadable
}

impl Remote {
    /// Who interrupts this means the work, not the watching.
    fn stop_if_interrupted(&self, job: &BulkJob) {
        let line = format!("interrupted: the bulk job `{}` stops; {} were done and stay so", job.id, job.done);
        let (client, id) = (self.client.clone(), job.id.clone());
        self.if_interrupted_then(line, async move {
            let args = weft_sdk::Args { path: [id], body: StopBulk::default(), ..weft_sdk::Args::default() };
            // Nobody is left to be told why not.
            drop(client.call::<op::StopBulk>(args).await);
        });
    }
}
