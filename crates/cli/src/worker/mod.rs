//! `weft worker --exec`: any program as a worker. Claims, leases and outcomes are the client library's, processes are
//! those of `weft-exec`; here they meet.

mod task;

use crate::fault::{Code, Fault};
use crate::node::Stop;
use crate::remote::{self, duration};
use crate::terminal::{self, Colour};
use crate::{End, log, settings, store};
use anyhow::Result;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use task::{NOT_STARTED_MAX, NotStarted, Reason};
use weft_exec::{Program, check_line, this_binary};
use weft_sdk::{Ctx, Inputs, Raw, Worker};

/// The first argument of the process that a worker starts for each of its tasks.
pub const SUPERVISE: &str = "exec-supervisor";

/// How much longer the library waits for a task than the program may take to end.
const SLACK: Duration = Duration::from_secs(5);

const FROM_ENVIRONMENT: [&str; 2] = ["log.", "otel."];

/// Make any program a worker: a process for each task
#[derive(clap::Args)]
#[command(before_help = "example: weft worker --kind hello --exec 'tr a-z A-Z'")]
#[command(
    after_help = "The program gets the input on stdin, and about its task WEFT_EXECUTION, WEFT_ATTEMPT, WEFT_KIND, \
    WEFT_LANE, WEFT_TAGS (JSON) and perhaps WEFT_CHECKPOINT_FILE. A member of a flow also gets WEFT_FLOW, WEFT_MEMBER (its key) and \
    WEFT_INPUTS, a folder with what upstreams handed over: a file for each result, named as the input of the edge, for \
    `name[]` a folder with the files 0, 1, …, and inputs.json, which tells how each of them ended. What it writes to stdout is the result, stderr goes to \
    the log. Exit codes: 0 completes, 65 fails for good, 126 and 127 (not executable, not found) hand the work back for 1 s, and for twice as long each time up to 60 s, 75 and \
    any other fails and is retried as the execution's policy says.\n\nOn the pipe WEFT_CONTROL it may say more, an object of JSON per line: {\"progress\": {\"percent\": 40, \
    \"message\": …}}, {\"checkpoint\": …}, {\"step\": {\"name\": …, \"value\": …}}, {\"delay_ms\": …}, {\"fail\": \
    {\"message\": …, \"retry\": \"never\"}}; the last two decide the outcome.\n\nA cancel, a lost lease or a stop of the \
    worker is SIGTERM to the program's process group, and SIGKILL for what is left of it after --grace."
)]
pub struct Args {
    /// Line for the shell that does one task
    #[arg(long, value_name = "CMD")]
    exec: OsString,

    /// Kind of executions to take; may be given several times
    #[arg(long, value_name = "KIND", required = true)]
    kind: Vec<String>,

    /// Lane to take them from; may be given several times [default: `default`]
    #[arg(long, value_name = "LANE")]
    lane: Vec<String>,

    /// Capability that this worker offers; may be given several times
    #[arg(long, value_name = "CAP")]
    cap: Vec<String>,

    /// Programs at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,

    /// Length of a lease, which is renewed while the program runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    lease: Duration,

    /// How long a program may take to end after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    grace: Duration,

    /// How long programs may go on when the worker is told to stop
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    drain: Duration,

    /// Largest result; a program that writes more is stopped, and its task fails for good
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    max_result: usize,

    /// What the names of the task's variables begin with
    #[arg(long, value_name = "PREFIX", default_value = "WEFT_", value_parser = prefix)]
    env_prefix: String,

    /// Give the input as a file named by WEFT_INPUT_FILE instead of on stdin
    #[arg(long)]
    input_file: bool,

    /// Pool that this worker belongs to
    #[arg(long, value_name = "NAME", default_value = "exec")]
    pool: String,

    #[command(flatten)]
    options: remote::Options,
}

pub fn run(args: Args, before: remote::Options, colour: Colour) -> Result<End> {
    let options = args.options.clone().or(before);
    if options.is_json() {
        return Err(Fault::usage(
            "`--json` is given, and a worker has nothing to say in JSON; `WEFT_LOG_FORMAT=json` is for its log",
        ));
    }
    check_line(&args.exec).map_err(|why| Fault::usage(format!("`--exec`: {why}")))?;
    if options.is_quiet() {
        terminal::be_quiet();
    }
    settings::warn_of_unknown_variables();
    let settings = settings::from_environment(&FROM_ENVIRONMENT)?;
    store::runtime()?.block_on(async {
        let _guard = log::start(&settings, colour.err)?;
        let stop = Stop::listen()?;
        let (client, url) = (options.client().await?, options.find_url());
        let mut worker = Worker::new(client)
            .pool(&args.pool)
            .concurrency(args.concurrency.into())
            // What waits here for its turn could run elsewhere.
            .prefetch(0)
            .lease(args.lease)
            .grace(args.grace.saturating_add(SLACK))
            .drain_timeout(args.drain)
            .drain_kill(args.grace.saturating_add(SLACK))
            .version(env!("CARGO_PKG_VERSION"));
        for lane in &args.lane {
            worker = worker.lane(lane);
        }
        for cap in &args.cap {
            worker = worker.capability(cap);
        }
        let (program, not_started) = (Arc::new(program(&args)), Arc::new(NotStarted::default()));
        for kind in &args.kind {
            let with = (program.clone(), not_started.clone());
            let run = move |ctx: Ctx, inputs: Inputs, input: Raw| task::run(with.clone(), ctx, inputs, input);
            worker = worker.handle(kind, run);
        }
        // What is wrong with it is told before anything else.
        worker.check().map_err(|error| remote::fault("begin", error))?;
        let what = colour.err.bold(&args.kind.join(", "));
        terminal::say(&format!("takes {what} from {url}, {} at a time; Ctrl-C stops it", args.concurrency));
        let mut gave_up = None;
        let until = async {
            tokio::select! {
                () = stop.begun() => {}
                reason = not_started.too_many() => {
                    tracing::warn!("the program did not run {NOT_STARTED_MAX} times in a row; the worker stops");
                    gave_up = Some(reason);
                }
            }
        };
        worker.run_until(until).await.map_err(|error| remote::fault("go on working", error))?;
        match gave_up {
            None => Ok(End::Done),
            Some(reason) => Err(not_started_fault(&reason).into()),
        }
    })
}

fn not_started_fault(Reason { why, is_line }: &Reason) -> Fault {
    let times =
        format!("the program did not run {NOT_STARTED_MAX} times in a row, and its tasks were handed back: {why}");
    let fault = Fault::new(Code::Refused, times);
    match is_line {
        true => {
            fault.hint("make `--exec` a line that runs here; exit codes 126 and 127 say that a program was not started")
        }
        false => fault,
    }
}

fn program(args: &Args) -> Program {
    Program {
        grace: args.grace,
        result_max: args.max_result,
        env_prefix: args.env_prefix.clone(),
        input_as_file: args.input_file,
        ..Program::shell(&args.exec, this_binary(SUPERVISE))
    }
}

fn size(text: &str) -> Result<usize, String> {
    let size = weft_config::size::parse(text).and_then(|bytes| usize::try_from(bytes).ok());
    size.ok_or_else(|| "write a number and a unit: `512B`, `64KiB`, `1MiB`".to_owned())
}

/// A name of a variable may not begin otherwise.
fn prefix(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match !text.is_empty() && text.bytes().all(good) && !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        true => Ok(text.to_owned()),
        false => Err("take letters, digits and `_`, like `JOB_`".to_owned()),
    }
}
