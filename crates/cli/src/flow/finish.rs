//! `weft flow finish`: declares the outcome of a flow that waits for somebody to do so.

use crate::End;
use crate::remote::{Remote, flow_name};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use weft_api::flow::{Finish, FlowOutcome};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Declare the outcome of a flow whose completion policy is `declared`
#[derive(clap::Args)]
#[command(before_help = "example: weft flow finish 3c9e01 --reason 'all pages are in'")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// How it ended
    #[arg(long, value_name = "OUTCOME", default_value = "completed", value_parser = outcomes())]
    outcome: FlowOutcome,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

fn outcomes() -> impl TypedValueParser<Value = FlowOutcome> {
    let all = [FlowOutcome::Completed, FlowOutcome::Failed];
    PossibleValuesParser::new(all.map(FlowOutcome::name)).map(move |name| {
        all.into_iter().find(|outcome| outcome.name() == name).expect("finish: only these names are taken")
    })
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = flow_name(&remote, &args.id).await?;
    let body = Finish { outcome: args.outcome, reason: args.reason, request_id: None };
    let finished = remote.call::<op::FinishFlow>("finish it", [id.clone()], NoQuery {}, body).await?;
    let word = finished.outcome.name();
    let more = if finished.done { "" } else { " when what is left of its members has ended" };
    remote.put(&finished, &id, || format!("{id}  {word}{more}"))?;
    Ok(End::Done)
}
