//! One task: a program is run for it, and what the program says becomes what the server is told.

use crate::render::plain;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use weft_api::Payload;
use weft_exec::{Body, Failure as Failed, Finish, Input, InputFailure, Member, Program, Report, Retry, Task, brief};
use weft_sdk::worker::Cause;
use weft_sdk::{Ctx, Failure, Inputs, Raw};

/// What a program may be ahead of what the server was told.
const REPORTS_MAX: usize = 16;

/// The first pause of an execution whose program did not run: another worker may have the program. It doubles each time
/// the same execution comes back.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Executions whose pauses are remembered.
const PAUSES_MAX: usize = 10_000;

/// A worker gives up after this many tasks in a row whose program did not run. If another has run or runs, they must be of so
/// many executions: a single one may be at fault itself, and must not stop a worker that serves others.
pub const NOT_STARTED_MAX: usize = 5;
const EXECUTIONS_MIN: usize = 2;
const _: () = assert!(EXECUTIONS_MIN <= NOT_STARTED_MAX);

/// Why a program did not run.
#[derive(Clone, Debug)]
pub struct Reason {
    pub why: String,
    /// The line of `--exec` could not be started, or what it runs; otherwise this machine could not prepare the task
    pub is_line: bool,
}

/// Tasks since a program last ran.
#[derive(Default)]
struct Row {
    tasks: usize,
    executions: BTreeSet<String>,
    /// A program of this worker has run
    has_run: bool,
    /// Tasks under way
    running: usize,
    /// Why the last of them did not run
    reason: Option<Reason>,
}

impl Row {
    fn add(&mut self, execution: &str, why: &str, is_line: bool) {
        self.tasks += 1;
        self.executions.insert(execution.to_owned());
        self.reason = Some(Reason { why: brief(why), is_line });
    }

    fn is_too_long(&self) -> bool {
        let serves_others = self.has_run || self.running > 0;
        self.tasks >= NOT_STARTED_MAX && (!serves_others || self.executions.len() >= EXECUTIONS_MIN)
    }
}

/// Tasks that ended without their program having run.
#[derive(Default)]
pub struct NotStarted {
    row: watch::Sender<Row>,
    /// The next pause of each execution whose program did not run here, and when it was last seen
    pauses: Mutex<HashMap<String, (Duration, Instant)>>,
}

/// A task under way.
struct Running<'a>(&'a NotStarted);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.row.send_modify(|row| row.running -= 1);
    }
}

impl NotStarted {
    fn begin(&self) -> Running<'_> {
        self.row.send_modify(|row| row.running += 1);
        Running(self)
    }

    fn see(&self, execution: &str, finish: &Finish) {
        self.row.send_modify(|row| match finish {
            Finish::NotStarted(why) => row.add(execution, why, true),
            Finish::NotPrepared(why) => row.add(execution, why, false),
            Finish::Stopped => {}
            _ => *row = Row { has_run: true, running: row.running, ..Row::default() },
        });
        if !matches!(finish, Finish::NotStarted(_) | Finish::NotPrepared(_) | Finish::Stopped) {
            self.pauses().remove(execution);
        }
    }

    /// How long an execution rests whose program did not run: 1 s, 2 s, 4 s and so on up to 60 s, until its program runs.
    fn pause(&self, execution: &str) -> Duration {
        let mut pauses = self.pauses();
        let pause = pauses.get(execution).map_or(PAUSE_MIN, |(next, _)| *next);
        pauses.insert(execution.to_owned(), ((pause * 2).min(PAUSE_MAX), Instant::now()));
        if pauses.len() > PAUSES_MAX {
            // It probably ran elsewhere long ago.
            let oldest = pauses.iter().min_by_key(|(_, (_, at))| *at).map(|(id, _)| id.clone());
            pauses.remove(&oldest.unwrap_or_default());
        }
        pause
    }

    fn pauses(&self) -> MutexGuard<'_, HashMap<String, (Duration, Instant)>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves to the last reason once there are [`NOT_STARTED_MAX`] in a row; of at least two executions if a program has
    /// run before or runs.
    pub async fn too_many(&self) -> Reason {
        let mut seen = self.row.subscribe();
        let row = seen.wait_for(Row::is_too_long).await.expect("the sender is borrowed here");
        row.reason.clone().expect("there are several")
    }
}

pub async fn run(
    (program, not_started): (Arc<Program>, Arc<NotStarted>),
    ctx: Ctx,
    inputs: Inputs,
    Raw(input): Raw,
) -> Result<Option<Payload>, Failure> {
    let _running = not_started.begin();
    let (finish, told) = match member(&ctx, &inputs).await {
        Ok(member) => {
            let task = Task { member, ..task(&ctx, input) };
            let (reports, said) = mpsc::channel(REPORTS_MAX);
            let ran = weft_exec::run(&program, task, ctx.cancelled(), reports);
            tokio::join!(ran, tell(&ctx, said))
        }
        Err(NoInputs::NotFetched(failure)) => return Err(failure),
        // Another machine cannot give the files these names either.
        Err(NoInputs::NotWritten(error))
            if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::InvalidFilename) =>
        {
            return Err(Failure::retry(format!("could not write its inputs to files: {error}")));
        }
        Err(NoInputs::NotWritten(error)) => {
            (Finish::NotPrepared(format!("could not write its inputs to files: {error}")), Ok(()))
        }
    };
    let checkpoint = match &finish {
        Finish::Delay { checkpoint, .. } => checkpoint.clone(),
        _ => None,
    };
    log_bad_end(&ctx, &finish);
    not_started.see(ctx.id(), &finish);
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
        Finish::NotStarted(_) | Finish::NotPrepared(_) => Err(Failure::delay(not_started.pause(ctx.id()))),
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
        // In one line, whatever was written as the reason.
        (Some((what, reason)), _) => tracing::info!("{what}: {}", plain(reason)),
        (None, Finish::Failed(failed)) => {
            let message = failed.brief();
            let again = if failed.retry == Retry::Never { ", and no retry will help" } else { "" };
            tracing::info!(category = failed.category, "it failed: {message}{again}");
        }
        (None, Finish::NotStarted(why) | Finish::NotPrepared(why)) => {
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

/// Why a member has no files of what it gets from others.
enum NoInputs {
    NotFetched(Failure),
    /// The fault of this machine
    NotWritten(io::Error),
}

impl From<Failure> for NoInputs {
    fn from(failure: Failure) -> Self {
        NoInputs::NotFetched(failure)
    }
}

impl From<io::Error> for NoInputs {
    fn from(error: io::Error) -> Self {
        NoInputs::NotWritten(error)
    }
}

/// What a member of a flow gets from the others, written to files: one result after the other, because all of them may be
/// more than there is memory for.
async fn member(ctx: &Ctx, inputs: &Inputs) -> Result<Option<Member>, NoInputs> {
    // None is no failure here.
    let Ok(flow) = ctx.flow() else { return Ok(None) };
    let mut files = weft_exec::Inputs::new(inputs.missing().to_vec())?;
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
        files = files.add(input, bytes).await?;
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

#[cfg(test)]
mod tests {
    use super::super::not_started_fault;
    use super::*;
    use crate::fault::Fault;
    use futures_util::FutureExt;

    #[test]
    fn cli_12_an_execution_whose_program_never_runs_rests_longer_each_time() {
        let seen = NotStarted::default();
        let back = |id: &str| {
            seen.see(id, &Finish::NotStarted("exited with code 127".into()));
            seen.pause(id).as_secs()
        };
        let others = || seen.see("other", &Finish::Completed { result: None });
        let pauses: Vec<u64> = (0..8).map(|_| (others(), back("bad")).1).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(back("new"), 1, "each execution has pauses of its own");
        seen.see("bad", &Finish::Stopped);
        assert_eq!(back("bad"), 60, "a stop says nothing about the program");
        seen.see("bad", &Finish::Completed { result: None });
        assert_eq!(back("bad"), 1, "it ran");
        for number in 0..PAUSES_MAX {
            back(&number.to_string());
        }
        let remembered = seen.pauses().len();
        assert_eq!((remembered, back("0"), back("bad")), (PAUSES_MAX, 2, 1), "the oldest is forgotten");
    }

    #[tokio::test]
    async fn cli_12_only_a_line_that_does_not_run_is_said_to_be_at_fault() {
        for (finish, is_line) in [(Finish::NotStarted as fn(_) -> _, true), (Finish::NotPrepared, false)] {
            let seen = NotStarted::default();
            for number in 0..NOT_STARTED_MAX {
                seen.see(&number.to_string(), &finish("why".to_owned()));
            }
            let reason = seen.too_many().await;
            assert_eq!((reason.why.as_str(), reason.is_line), ("why", is_line));
            let (_, message, hint) = Fault::told(&not_started_fault(&reason).into());
            assert!(message.ends_with("handed back: why"), "{message}");
            assert_eq!(hint.is_some_and(|hint| hint.contains("`--exec`")), is_line);
        }
    }

    #[test]
    fn cli_12_one_bad_execution_does_not_stop_a_worker() {
        let seen = NotStarted::default();
        let bad = || seen.see("bad", &Finish::NotStarted("exited with code 127".into()));
        let gives_up = || seen.too_many().now_or_never().is_some();
        seen.see("other", &Finish::Completed { result: None });
        (0..3 * NOT_STARTED_MAX).for_each(|_| bad());
        assert!(!gives_up());
        seen.see("other", &Finish::Completed { result: None });
        bad();
        seen.see("worse", &Finish::NotStarted("exited with code 127".into()));
        assert!(!gives_up(), "two tasks in a row");
        (2..NOT_STARTED_MAX).for_each(|_| bad());
        assert!(gives_up(), "of two executions");
    }

    #[test]
    fn cli_12_a_worker_none_of_whose_programs_ever_ran_stops_after_five_tasks_of_one_execution() {
        let seen = NotStarted::default();
        for number in 1..=NOT_STARTED_MAX {
            seen.see("only", &Finish::NotStarted("exited with code 127".into()));
            assert_eq!(seen.too_many().now_or_never().is_some(), number == NOT_STARTED_MAX);
        }
        let other = seen.begin();
        assert!(seen.too_many().now_or_never().is_none(), "it serves another one");
        drop(other);
        assert!(seen.too_many().now_or_never().is_some());
    }
}
