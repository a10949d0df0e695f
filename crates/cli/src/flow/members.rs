//! `weft flow members`: the executions of a flow.

use crate::End;
use crate::remote::{Form, Remote, flow_name, states};
use crate::render::{self, time};
use crate::terminal;
use anyhow::Result;
use weft_api::execution::{Execution, PublicState};
use weft_api::flow::{MemberOrder, MembersQuery};
use weft_api::op;
use weft_api::operation::NoBody;

/// List the members of a flow, in the order they were added or by their keys
#[derive(clap::Args)]
#[command(before_help = "example: weft flow members 3c9e01 --state waiting,active")]
pub struct Args {
    /// The id of the flow, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Only those in this state; may be given more than once
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states(), help_heading = "Selection")]
    state: Vec<PublicState>,

    /// Only those whose end counts against the flow
    #[arg(long, help_heading = "Selection")]
    against: bool,

    /// By their keys instead of the order they were added in
    #[arg(long)]
    by_key: bool,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    limit: u32,

    /// However many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// Rows of one table: beyond that a table per page is written, so that a long list needs no memory.
const PAGE: u32 = 1_000;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let id = flow_name(&remote, &args.id).await?;
    let limit = if args.all { usize::MAX } else { args.limit as usize };
    // One more than wanted tells whether there are more.
    let page = u32::try_from(limit).map_or(PAGE, |limit| PAGE.min(limit.saturating_add(1)));
    let mut query = MembersQuery {
        state: args.state,
        against: args.against.then_some(true),
        order: args.by_key.then_some(MemberOrder::Key),
        limit: Some(page),
        ..MembersQuery::default()
    };
    let (mut written, mut more) = (0_usize, false);
    let mut kept: Vec<Execution> = Vec::new();
    loop {
        let page = remote.call::<op::ListMembers>("list members", [id.clone()], query.clone(), NoBody {}).await?;
        if !page.damaged.is_empty() {
            remote.say(&format!("cannot be read: {}; `weft doctor --deep` tells more", page.damaged.join(", ")));
        }
        let mut items = page.items;
        more = more || items.len() > limit - written;
        items.truncate(limit - written);
        written += items.len();
        match remote.form {
            Form::Json => kept.append(&mut items),
            _ if !items.is_empty() => put(&remote, &items)?,
            _ => {}
        }
        match page.next_cursor {
            Some(cursor) if !more => query.cursor = Some(cursor),
            _ => break,
        }
    }
    if remote.form == Form::Json {
        put(&remote, &kept)?;
    }
    if written == 0 {
        remote.say("no member is selected");
    } else if more {
        remote.say("there are more; `--limit` or `--all` shows them");
    }
    Ok(End::Done)
}

fn put(remote: &Remote, page: &[Execution]) -> Result<()> {
    let shown = || render::member::table(page, time::now_ms(), terminal::width(), remote.colour.out);
    remote.put_all(page, |member| member.id.clone(), shown)
}
