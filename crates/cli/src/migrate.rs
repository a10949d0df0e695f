//! `weft migrate`: makes a store, or brings an older one up to date.

use crate::store::{self, StoreArg};
use crate::{End, terminal};
use anyhow::Result;
use serde::Serialize;

/// Make a store, or bring it up to date
#[derive(clap::Args)]
#[command(before_help = "example: weft migrate")]
pub struct Args {
    #[command(flatten)]
    store: StoreArg,

    /// Change nothing; exit with 1 if something is due
    #[arg(long)]
    check: bool,

    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Migration {
    store: String,
    due: bool,
    done: bool,
    steps: Vec<String>,
}

pub fn run(args: Args) -> Result<End> {
    let address = args.store.address()?;
    let plan = store::runtime()?.block_on(address.migrate(args.check))?;
    let due = !plan.steps.is_empty();
    let done = due && !args.check;
    let migration = Migration { store: address.to_string(), due, done, steps: plan.steps };
    match args.json {
        true => terminal::put(&serde_json::to_string(&migration)?)?,
        false => terminal::put(&lines(&migration))?,
    }
    Ok(if args.check && due { End::Refused } else { End::Done })
}

fn lines(migration: &Migration) -> String {
    let title = match (migration.due, migration.done) {
        (false, _) => format!("{}: up to date", migration.store),
        (true, true) => format!("{}: done", migration.store),
        (true, false) => format!("{}: due", migration.store),
    };
    migration.steps.iter().fold(title, |lines, step| format!("{lines}\n  {step}"))
}
