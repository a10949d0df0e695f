//! `weft flow submit`: a flow from a file.

use super::file::{self, Wanted};
use super::{end_of, put_ending};
use crate::End;
use crate::remote::{self, Form, Heard, Remote};
use crate::render::{self, count};
use crate::terminal;
use anyhow::Result;
use weft_api::flow::{FlowSubmitted, SubmitFlow};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Submit a flow: its members and the edges between them
#[derive(clap::Args)]
#[command(before_help = "example: weft flow submit etl.yaml")]
#[command(after_help = "A file holds one object as the HTTP API takes it, in YAML or JSON:\n  \
    kind: etl\n  \
    members:\n  \
    - {key: load, kind: load, input: {json: {day: 2026-11-16}}}\n  \
    - {key: merge, kind: merge}\n  \
    edges:\n  \
    - {from: load, to: merge, input: rows}")]
pub struct Args {
    /// File that holds the flow as YAML or JSON, or `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// Wait for its end; exit 5 if it ends without success
    #[arg(long)]
    wait: bool,
}

const WANTED: Wanted = Wanted { noun: "a flow", help: "weft flow submit" };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let flow: SubmitFlow = file::read(&args.file, &WANTED).await?;
    let submitted = remote.call::<op::SubmitFlow>("submit it", [], NoQuery {}, flow).await?;
    if submitted.duplicate {
        remote.say("the idempotency key is bound already; this is the flow it stands for");
    }
    if args.wait {
        return wait_for(&remote, &submitted).await;
    }
    remote.put(&submitted, &submitted.id, || {
        let state = render::flow::state(submitted.public_flow_state, remote.colour.out);
        format!("{}  {state}, {}", submitted.id, count(submitted.members.len() as u64, "member"))
    })?;
    Ok(End::Done)
}

/// The id is told before anything can happen to the wait.
async fn wait_for(remote: &Remote, submitted: &FlowSubmitted) -> Result<End> {
    match remote.form {
        Form::Ids => terminal::put(&submitted.id)?,
        _ => remote.say(&format!("{}  {}", submitted.id, submitted.public_flow_state.name())),
    }
    let short = render::id::short(&submitted.id);
    remote.if_interrupted(format!("`{}` goes on; `weft flow watch {short}` shows it", submitted.id));
    let ended = remote::until_flow_done(remote, &submitted.id, Heard::Before).await?;
    if remote.form != Form::Ids {
        put_ending(remote, &ended)?;
    }
    Ok(end_of(&ended))
}
