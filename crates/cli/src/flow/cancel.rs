//! `weft flow cancel`: ends a flow before it has ended by itself.

use crate::End;
use crate::fault::Fault;
use crate::remote::{self, Heard, Remote, TIMED_OUT, duration, flow_name};
use crate::render::{self, count};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::time::Duration;
use weft_api::execution::CancelMode;
use weft_api::flow::{CancelFlow, CancelPolicy, FlowCancelled};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Cancel a flow
#[derive(clap::Args)]
#[command(before_help = "example: weft flow cancel 3c9e01 --reason 'wrong file' --policy let_active_finish")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// What becomes of its members: all are cancelled, or those that run may end, or all run on [default: cancel_all]
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    policy: Option<CancelPolicy>,

    /// Ask workers first, and end what they do after this time, like `10s`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,

    /// Wait this long until nothing of it lives, like `30s`; exit 3 if something still does
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
}

fn policies() -> impl TypedValueParser<Value = CancelPolicy> {
    PossibleValuesParser::new(["cancel_all", "let_active_finish", "flow_only"]).map(|name| match name.as_str() {
        "let_active_finish" => CancelPolicy::LetActiveFinish,
        "flow_only" => CancelPolicy::FlowOnly,
        _ => CancelPolicy::CancelAll,
    })
}

pub async fn run(args: Args, mut remote: Remote) -> Result<End> {
    if args.grace.is_some() && args.policy.is_some_and(|policy| policy != CancelPolicy::CancelAll) {
        return Err(Fault::usage("`--grace` is for `--policy cancel_all`: the others ask no worker to stop"));
    }
    let id = flow_name(&remote, &args.id).await?;
    let body = CancelFlow {
        reason: args.reason,
        policy: args.policy,
        mode: args.grace.map(|_| CancelMode::Graceful),
        grace_ms: args.grace.map(|grace| grace.as_millis() as u64),
        ..CancelFlow::default()
    };
    let mut told = remote.call::<op::CancelFlow>("cancel it", [id.clone()], NoQuery {}, body).await?;
    let mut late = None;
    if let Some(wait) = args.wait.filter(|_| !told.done) {
        remote.patience = Some(wait);
        remote.if_interrupted(format!("`{id}` is ending; `weft flow watch {}` shows it", render::id::short(&id)));
        match remote::until_flow_done(&remote, &id, Heard::Before).await {
            Ok(ended) => {
                told.public_flow_state = ended.public_flow_state;
                told.cancelled = ended.summary.members_cancelled;
                (told.owed, told.active, told.done) = (0, 0, true);
            }
            Err(error) if Fault::named_parts(&error).0 == TIMED_OUT => late = Some(error),
            Err(error) => return Err(error),
        }
    }
    remote.put(&told, &id, || format!("{id}  {}", shown(&told)))?;
    late.map_or(Ok(End::Done), Err)
}

fn shown(told: &FlowCancelled) -> String {
    let word = match (told.done, told.already) {
        (true, _) => told.public_flow_state.name(),
        (false, true) => "was ending already",
        (false, false) => "ending",
    };
    let mut parts = vec![word.to_owned()];
    parts.push(format!("{} cancelled", count(told.cancelled.into(), "member")));
    if told.owed > 0 {
        parts.push(format!("{} still to be cancelled", told.owed));
    }
    if told.active > 0 {
        parts.push(format!("{} with a worker", told.active));
    }
    parts.join(", ")
}
