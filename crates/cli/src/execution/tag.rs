//! `weft tag`: changes tags.

use super::{tag, tags};
use crate::End;
use crate::remote::{self, Bulk, Danger, Remote, Selection, Verb};
use anyhow::Result;
use weft_api::bulk;
use weft_api::execution::{TagChange, Tags};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Change tags of executions, by id or by a filter
#[derive(clap::Args)]
#[command(before_help = "example: weft tag 3c9e01 --set team=billing --remove draft")]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    selection: Selection,

    /// A tag to set; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag, group = "change")]
    set: Vec<(String, String)>,

    /// A tag to remove; may be given more than once
    #[arg(long, value_name = "KEY", group = "change")]
    remove: Vec<String>,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const VERB: Verb = Verb { name: "tag", past: "tagged", danger: Danger::None, states: &[] };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let body = TagChange { set: tags(args.set)?, remove: args.remove, reason: args.reason, request_id: None };
    let one = |id| remote.call::<op::SetTags>("change its tags", [id], NoQuery {}, body.clone());
    let shown = |now: &Tags| match now.tags.is_empty() {
        true => "no tags".to_owned(),
        false => now.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "),
    };
    let bulk = Bulk::new(bulk::Verb::Tag, &body)?;
    remote::apply(&remote, args.selection, &VERB, Some(bulk), one, shown).await
}
