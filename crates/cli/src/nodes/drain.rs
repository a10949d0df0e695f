//! `weft nodes drain`: lets a node stop, whichever node is asked.

use crate::End;
use crate::remote::Remote;
use anyhow::Result;
use weft_api::node::DrainNode;
use weft_api::op;
use weft_api::operation::NoQuery;

/// Let a node answer what it has and stop, as on SIGTERM; leases stay valid
#[derive(clap::Args)]
#[command(before_help = "example: weft nodes drain web-2 --reason 'new kernel'")]
pub struct Args {
    /// Its id, or its name if no other live node has it
    #[arg(value_name = "NODE")]
    node: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = DrainNode { reason: args.reason, ..DrainNode::default() };
    let asked = remote.call::<op::DrainNode>("drain the node", [args.node], NoQuery {}, body).await?;
    remote.put(&asked, &asked.node, || format!("{}  draining", asked.node))?;
    Ok(End::Done)
}
