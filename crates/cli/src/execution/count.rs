//! `weft count`: exact numbers, or lower bounds if counting takes too long.

use crate::End;
use crate::remote::{Filter, Form, Remote};
use crate::{render, terminal};
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
    if counts.at_least && !tells_bounds(remote.form, &args.by) {
        terminal::warn("counting took too long; the numbers are lower bounds");
    }
    if remote.form == Form::Jsonl && !args.by.is_empty() {
        remote.put_all(&counts.groups, |group| group.count.to_string(), String::new)?;
        return Ok(End::Done);
    }
    remote.put(&counts, &counts.total.to_string(), || render::list::counts(&counts, &args.by, remote.colour.out))?;
    Ok(End::Done)
}

/// Whether what is written to stdout says by itself that numbers are lower bounds.
fn tells_bounds(form: Form, by: &[String]) -> bool {
    match form {
        Form::People | Form::Json => true,
        Form::Jsonl => by.is_empty(),
        Form::Ids => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_is_not_taken_for_an_exact_number() {
        let by = ["lane".to_owned()];
        for (form, alone, grouped) in [
            (Form::People, true, true),
            (Form::Json, true, true),
            (Form::Jsonl, true, false),
            (Form::Ids, false, false),
        ] {
            assert_eq!((tells_bounds(form, &[]), tells_bounds(form, &by)), (alone, grouped), "{form:?}");
        }
    }
}
