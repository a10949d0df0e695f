//! `weft flow list`: flows, the newest first.

use crate::End;
use crate::remote::{Form, Remote, moment, tag};
use crate::render::{self, time};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use weft_api::execution::Order;
use weft_api::flow::{Flow, FlowsQuery, PublicFlowState};
use weft_api::operation::NoBody;
use weft_api::{Moment, op};

/// List flows, the newest first
#[derive(clap::Args)]
#[command(before_help = "example: weft flow list --state running --limit 3")]
pub struct Args {
    /// Only those in this state; may be given more than once
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states(), help_heading = "Selection")]
    state: Vec<PublicFlowState>,

    /// Only those of this kind
    #[arg(long, help_heading = "Selection")]
    kind: Option<String>,

    /// Only those with this tag
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag, help_heading = "Selection")]
    tag: Option<String>,

    /// Only those submitted since then: `2h` ago, or a time like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    since: Option<Moment>,

    /// Only those submitted before then, written alike
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Selection")]
    until: Option<Moment>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    limit: u32,

    /// However many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// The oldest first
    #[arg(long)]
    oldest_first: bool,
}

fn states() -> impl TypedValueParser<Value = PublicFlowState> {
    PossibleValuesParser::new(PublicFlowState::ALL.map(PublicFlowState::name))
        .map(|name| PublicFlowState::from_name(&name).expect("state: clap allows only names of states"))
}

/// Rows of one table: beyond that a table per page is written, so that a long list needs no memory.
const PAGE: u32 = 1_000;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let limit = if args.all { usize::MAX } else { args.limit as usize };
    // One more than wanted tells whether there are more.
    let page = u32::try_from(limit).map_or(PAGE, |limit| PAGE.min(limit.saturating_add(1)));
    let mut query = FlowsQuery {
        state: args.state,
        kind: args.kind,
        tag: args.tag,
        created_from: args.since,
        created_until: args.until,
        order: args.oldest_first.then_some(Order::Asc),
        limit: Some(page),
        ..FlowsQuery::default()
    };
    let (mut written, mut more) = (0_usize, false);
    let mut kept: Vec<Flow> = Vec::new();
    loop {
        let page = remote.call::<op::ListFlows>("list flows", [], query.clone(), NoBody {}).await?;
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
        remote.say("no flow is selected");
    } else if more {
        remote.say("there are more; `--limit` or `--all` shows them");
    }
    Ok(End::Done)
}

fn put(remote: &Remote, page: &[Flow]) -> Result<()> {
    let shown = || render::flow::table(page, time::now_ms(), remote.colour.out);
    remote.put_all(page, |flow| flow.id.clone(), shown)
}
