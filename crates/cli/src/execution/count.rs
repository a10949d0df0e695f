//! `weft count`: exact numbers, or lower bounds if counting takes too long.

use crate::End;
use crate::remote::{Filter, Form, Remote};
use crate::render;
use anyhow::Result;
use weft_api::execution::CountQuery;
use weft_api::op;
use weft_api::operation::NoBody;

/// Count executions; after 5 s the numbers so far, marked as lower bounds
#[derive(clap::Args)]
#[command(before_help = "example: weft count --by lane,state")]
pub struct Args {
    /// Groups to count by, joined by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = ["lane", "kind", "state", "namespace"])]
    by: Vec<String>,

    #[command(flatten)]
    filter: Filter,
}

pub async fn run(mut args: Args, remote: Remote) -> Result<End> {
    args.filter = args.filter.resolve(&remote).await?;
    let group_by = (!args.by.is_empty()).then(|| args.by.join(","));
    let query = CountQuery { group_by, ..args.filter.count() };
    let counts = remote.call::<op::CountExecutions>("count", [], query, NoBody {}).await?;
    if remote.form == Form::Jsonl && !args.by.is_empty() {
        remote.put_all(&counts.groups, |group| group.count.to_string(), String::new)?;
        return Ok(End::Done);
    }
    remote.put(&counts, &counts.total.to_string(), || render::list::counts(&counts, &args.by, remote.colour.out))?;
    Ok(End::Done)
}
