//! `weft get`: one execution, now or until it has ended.

use super::end_of;
use crate::End;
use crate::fault::Fault;
use crate::remote::{Form, Patience, Remote, names};
use crate::render::{self, attempt, time};
use crate::terminal::{self, Paint};
use anyhow::Result;
use std::io::IsTerminal;
use std::time::Duration;
use weft_api::execution::{CancelState, Execution, GetQuery, PublicState};
use weft_api::op;
use weft_api::operation::NoBody;

/// Show an execution
#[derive(clap::Args)]
#[command(before_help = "example: weft get 3c9e01 --attempts")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Bring its input along
    #[arg(long)]
    input: bool,

    /// Bring its result along
    #[arg(long)]
    result: bool,

    /// Bring its attempts along
    #[arg(long)]
    attempts: bool,

    /// Show it again whenever it changes, until it has ended; exit 5 if it ends without success
    #[arg(long)]
    watch: bool,
}

/// How often a watched execution is read.
const EVERY: Duration = Duration::from_millis(500);

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    if args.watch && remote.form == Form::Json {
        return Err(Fault::usage("`--watch` tells of every change, and `--json` is one object; take `--jsonl`"));
    }
    let id = names(&remote, std::slice::from_ref(&args.id)).await?.remove(0);
    let patience = Patience::of(&remote);
    let execution = read(&remote, &args, &id).await?;
    if args.watch {
        return watch(&remote, &args, patience, execution).await;
    }
    remote.put(&execution, &execution.id, || shown(&execution, &remote))?;
    Ok(End::Done)
}

async fn read(remote: &Remote, args: &Args, id: &str) -> Result<Execution> {
    let wanted = [("input", args.input), ("result", args.result), ("attempts", args.attempts)];
    let include: Vec<&str> = wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect();
    let query = GetQuery { include: (!include.is_empty()).then(|| include.join(",")), ..GetQuery::default() };
    let mut execution = remote.call::<op::GetExecution>("get it", [id.to_owned()], query, NoBody {}).await?;
    if remote.form == Form::People && execution.public_state == PublicState::Cancelled {
        execution.cancel = cancel_of(remote, id).await?;
    }
    Ok(execution)
}

/// Who asked for the cancel that ended it, and why: that stands in its history alone.
async fn cancel_of(remote: &Remote, id: &str) -> Result<Option<CancelState>> {
    let history = super::history::read(remote, id).await?;
    let told = history.items.into_iter().rev().find(|entry| entry.what == "cancel" && entry.reason.is_some());
    Ok(told.map(|entry| CancelState {
        reason: entry.reason.unwrap_or_default(),
        by: entry.by.unwrap_or_default(),
        requested_at: entry.at,
        kill_at: None,
    }))
}

fn shown(execution: &Execution, remote: &Remote) -> String {
    text_of(execution, remote.colour.out)
}

/// An execution with its attempts, read and shown without colours.
#[cfg(feature = "top")]
pub async fn text(remote: &Remote, id: &str) -> Result<String> {
    let args = Args { id: id.to_owned(), input: true, result: true, attempts: true, watch: false };
    Ok(text_of(&read(remote, &args, id).await?, Paint::PLAIN))
}

fn text_of(execution: &Execution, paint: Paint) -> String {
    let now = time::now_ms();
    let card = render::execution::card(execution, now, paint);
    match &execution.attempt_list {
        Some(attempts) if !attempts.is_empty() => format!("{card}\n\n{}", attempt::table(attempts, now, paint)),
        _ => card,
    }
}

/// On a terminal the view is drawn over itself; elsewhere it is written once per change.
async fn watch(remote: &Remote, args: &Args, mut patience: Patience<'_>, mut execution: Execution) -> Result<End> {
    let over = remote.form == Form::People && std::io::stdout().is_terminal();
    let (mut rows, mut written) = (0, String::new());
    loop {
        if over {
            rows = terminal::redraw(rows, &shown(&execution, remote))?;
        } else if written != execution.revision {
            written = execution.revision.clone();
            remote.put(&execution, execution.public_state.name(), || shown(&execution, remote))?;
        }
        if execution.public_state.is_terminal() {
            return Ok(end_of(&execution));
        }
        if patience.is_over() {
            return Err(patience.timed_out(&execution));
        }
        tokio::time::sleep(patience.left().map_or(EVERY, |left| left.min(EVERY))).await;
        match read(remote, args, &execution.id).await {
            Ok(now) => {
                patience.answered();
                execution = now;
            }
            Err(error) => {
                patience.bear(error).await?;
                // What is said goes below the view.
                rows = 0;
            }
        }
    }
}
