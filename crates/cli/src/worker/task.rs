//! One task: a program is run for it, and what the program says becomes what the server is told.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use weft_api::Payload;
use weft_exec::{
    Body, Failure as Failed, Finish, Input, InputFailure, Member, Program, Report, Retry, Task, brief, category,
};
use weft_sdk::worker::Cause;
use weft_sdk::{Ctx, Failure, Inputs, Raw};

/// What a program may be ahead of what the server was told.
const REPORTS_MAX: usize = 16;

/// How long a task rests whose program could not be started: another worker may have the program.
const HAND_BACK: Duration = Duration::from_secs(1);

/// A worker gives up after this many tasks in a row whose program could not be started.
pub const NOT_STARTED_MAX: usize = 5;

/// The reasons of the latest tasks that ended without their program having run.
#[derive(Default)]
pub struct NotStarted(watch::Sender<Vec<String>>);

impl NotStarted {
    fn see(&self, finish: &Finish) {
        self.0.send_modify(|reasons| match finish {
            Finish::NotStarted(why) => reasons.push(brief(why)),
            Finish::Stopped => {}
            _ => reasons.clear(),
        });
    }

    /// Resolves to the last reason once there are [`NOT_STARTED_MAX`] in a row.
    pub async fn too_many(&self) -> String {
        let mut seen = self.0.subscribe();
        let reasons = seen.wait_for(|reasons| reasons.len() >= NOT_STARTED_MAX).await;
        let reasons = reasons.expect("the sender is borrowed here");
        reasons.last().cloned().unwrap_or_default()
    }
}

pub async fn run(
    (program, not_started): (Arc<Program>, Arc<NotStarted>),
    ctx: Ctx,
    inputs: Inputs,
    Raw(input): Raw,
) -> Result<Option<Payload>, Failure> {
    let task = Task { member: member(&ctx, &inputs).await?, ..task(&ctx, input) };
    let (reports, said) = mpsc::channel(REPORTS_MAX);
    let ran = weft_exec::run(&program, task, ctx.cancelled(), reports);
    let (finish, told) = tokio::join!(ran, tell(&ctx, said));
    let checkpoint = match &finish {
        Finish::Delay { checkpoint, .. } => checkpoint.clone(),
        _ => None,
    };
    log_bad_end(&ctx, &finish);
    not_started.see(&finish);
    // Before the outcome: what was lost on the way must not be taken for told.
    told?;
    if let Some(checkpoint) = checkpoint {
        ctx.save(payload(checkpoint)).now().await?;
    }
    match finish {
        Finish::Completed { result } => Ok(result.map(payload)),
        Finish::Failed(failed) => Err(failure(failed)),
        Finish::Delay { ms, .. } => Err(Failure::delay(Duration::from_millis(ms))),
        // No fault of the task, so that it costs no attempt.
        Finish::NotStarted(_) => Err(Failure::delay(HAND_BACK)),
        // Why it was stopped decides what the server is told.
        Finish::Stopped => Err(Failure::retry("the program was stopped")),
    }
}

/// A line for what did not go well. Which task it was stands in the span around it.
fn log_bad_end(ctx: &Ctx, finish: &Finish) {
    let told = ctx.cancellation();
    let stopped = match told.as_ref().map(|told| (told.cause, told.reason.as_str())) {
        // What it wants is not heard any more.
        Some((Cause::LeaseLost, reason)) => Some(("its lease was lost", reason)),
        Some((cause, reason)) if matches!(finish, Finish::Stopped | Finish::Failed(_)) => Some(match cause {
            Cause::Cancel => ("it was cancelled", reason),
            Cause::Timeout => ("it took too long and was stopped", reason),
            Cause::Shutdown => ("it was stopped and is given back", reason),
            Cause::LeaseLost => ("its lease was lost", reason),
        }),
        _ => None,
    };
    match (stopped, finish) {
        // A server that has ended it says no more than that.
        (Some((what, "" | "cancelled")), _) => tracing::info!("{what}"),
        (Some((what, reason)), _) => tracing::info!("{what}: {reason}"),
        (None, Finish::Failed(failed)) => {
            let message = failed.brief();
            let again = if failed.retry == Retry::Never { ", and no retry will help" } else { "" };
            tracing::info!(category = failed.category, "it failed: {message}{again}");
        }
        (None, Finish::NotStarted(why)) => {
            tracing::warn!("its program did not run, and it is handed back: {}", brief(why));
        }
        (None, _) => {}
    }
}

fn task(ctx: &Ctx, input: Option<Payload>) -> Task {
    Task {
        execution: ctx.id().to_owned(),
        attempt: ctx.attempt(),
        kind: ctx.kind().to_owned(),
        lane: ctx.lane().to_owned(),
        tags: ctx.tagged().clone(),
        trace: weft_api::trace::current().or_else(|| ctx.trace().map(str::to_owned)),
        input: input.map(|input| input.bytes),
        checkpoint: ctx.checkpointed().map(|checkpoint| checkpoint.bytes.clone()),
        member: None,
    }
}

/// What a member of a flow gets from the others, written to files: one result after the other, because all of them may be
/// more than there is memory for.
async fn member(ctx: &Ctx, inputs: &Inputs) -> Result<Option<Member>, Failure> {
    // None is no failure here.
    let Ok(flow) = ctx.flow() else { return Ok(None) };
    let not_written = |error: std::io::Error| {
        Failure::retry(format!("could not write its inputs to files: {error}")).category(category::SPAWN)
    };
    let mut files = weft_exec::Inputs::new(inputs.missing().to_vec()).map_err(not_written)?;
    let mut values = inputs.values();
    while let Some((end, value)) = values.next().await? {
        let (bytes, content_type) = value.map(|value| (value.bytes, value.content_type)).unzip();
        let failure = end.failure.clone();
        let input = Input {
            name: end.name.clone(),
            upstream: end.upstream.clone(),
            execution: end.execution.clone(),
            outcome: end.outcome.name().to_owned(),
            content_type: content_type.flatten(),
            purged: end.purged,
            failure: failure.map(|it| InputFailure { category: it.category, message: it.message }),
        };
        files = files.add(input, bytes).await.map_err(not_written)?;
    }
    Ok(Some(Member { flow: flow.id().to_owned(), key: flow.key().to_owned(), inputs: files }))
}

/// Passes on what the program says, in order. The first thing that could not be told is the answer; what comes after it
/// is still received, so that the program is not held up.
async fn tell(ctx: &Ctx, mut said: mpsc::Receiver<Report>) -> Result<(), Failure> {
    let mut told = Ok(());
    while let Some(report) = said.recv().await {
        let passed = match report {
            Report::Log(line) => {
                // Which task it is stands in the span that the client library logs in.
                tracing::info!(target: "weft::program", "{line}");
                Ok(())
            }
            Report::Warning(what) => {
                tracing::warn!(target: "weft::program", "{what}");
                Ok(())
            }
            _ if told.is_err() => Ok(()),
            Report::Progress { percent, message } => {
                ctx.report(percent, message).later();
                Ok(())
            }
            Report::Checkpoint(body) => ctx.save(payload(body)).now().await,
            Report::Step { name, value } => ctx.record_step(&name, payload(value)).await.map(drop),
        };
        told = told.and(passed);
    }
    told
}

fn payload(body: Body) -> Payload {
    Payload::new(body.bytes, Some(body.content_type))
}

fn failure(failed: Failed) -> Failure {
    let Failed { category, message, retry, detail } = failed;
    let failure = match retry {
        Retry::Policy => Failure::retry(message),
        Retry::Never => Failure::permanent(message),
        Retry::AfterMs(ms) => Failure::retry_after(Duration::from_millis(ms)).message(message),
    };
    let failure = failure.category(category);
    match detail {
        None => failure,
        Some(detail) => match serde_json::from_slice::<serde_json::Value>(&detail.bytes) {
            Ok(json) => failure.detail(&json),
            Err(_) => failure.detail(&String::from_utf8_lossy(&detail.bytes)),
        },
    }
}
