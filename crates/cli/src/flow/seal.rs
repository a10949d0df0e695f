//! `weft flow seal`: says that edges are known, and that a flow may finish.

use crate::End;
use crate::remote::{Remote, flow_name};
use crate::render::count;
use anyhow::Result;
use weft_api::flow::Seal;
use weft_api::op;
use weft_api::operation::NoQuery;

/// Say that all edges to these members are known; without keys to all members, and that the flow may finish
#[derive(clap::Args)]
#[command(before_help = "example: weft flow seal 3c9e01")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Keys of members
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = flow_name(&remote, &args.id).await?;
    let what = match args.keys.len() {
        0 => String::new(),
        keys => format!(" for {}", count(keys as u64, "member")),
    };
    let body = Seal { keys: (!args.keys.is_empty()).then_some(args.keys), request_id: None };
    let sealed = remote.call::<op::SealFlow>("seal it", [id.clone()], NoQuery {}, body).await?;
    let word = if sealed.already { "was sealed already" } else { "sealed" };
    remote.put(&sealed, &id, || format!("{id}  {word}{what}"))?;
    Ok(End::Done)
}
