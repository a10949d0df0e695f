//! `weft audit`: what operators and administrators did.

use crate::End;
use crate::remote::{Form, Options, Remote, With, moment};
use crate::render;
use crate::terminal::{self, Colour};
use anyhow::Result;
use weft_api::key::AuditQuery;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::{Moment, op};

/// Read the audit log; without a command it is listed
#[derive(clap::Args)]
#[command(before_help = "example: weft audit list --since 24h", args_conflicts_with_subcommands = true)]
pub struct Audit {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: With<Args>,
}

#[derive(clap::Subcommand)]
enum Command {
    List(With<Args>),
    Verify(With<Verify>),
}

/// Check that no entry of the audit log was changed, removed or moved
#[derive(clap::Args)]
#[command(before_help = "example: weft audit verify")]
pub struct Verify {}

/// List what operators and administrators did, the newest first
#[derive(clap::Args)]
#[command(before_help = "example: weft audit list --since 24h")]
pub struct Args {
    /// Only acts of this principal
    #[arg(long, value_name = "WHO")]
    principal: Option<String>,

    /// Only this verb
    #[arg(long)]
    verb: Option<String>,

    /// Only acts on this target
    #[arg(long)]
    target: Option<String>,

    /// Only acts since then: `2h` ago, or a time like 2026-11-16T20:15:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Moment>,

    /// Only acts before then, written alike
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub fn run(audit: Audit, before: Options, colour: Colour) -> Result<End> {
    match audit.command {
        None => audit.list.run_anywhere(before, colour, list),
        Some(Command::List(with)) => with.run_anywhere(before, colour, list),
        Some(Command::Verify(with)) => with.run_anywhere(before, colour, verify),
    }
}

async fn list(args: Args, remote: Remote) -> Result<End> {
    let query = AuditQuery {
        principal: args.principal,
        verb: args.verb,
        target: args.target,
        from: args.since,
        until: args.until,
        limit: Some(args.limit),
        cursor: None,
    };
    let page = remote.call::<op::ListAudit>("read the audit log", [], query, NoBody {}).await?;
    if page.items.is_empty() && remote.form == Form::People {
        remote.say("no act is selected");
        return Ok(End::Done);
    }
    remote.put_all(&page.items, |entry| entry.no.to_string(), || render::key::audit(&page.items, remote.colour.out))?;
    if page.next_cursor.is_some() {
        remote.say("there are more; `--limit` or `--since` shows others");
    }
    Ok(End::Done)
}

async fn verify(_: Verify, remote: Remote) -> Result<End> {
    let checked = remote.call::<op::VerifyAudit>("check the audit log", [], NoQuery {}, NoBody {}).await?;
    match remote.form {
        Form::People => {
            let entries: u64 = checked.logs.iter().map(|log| log.entries).sum();
            for log in &checked.logs {
                if let Some(broken) = &log.broken {
                    remote.say(&format!("entry {} of partition {} {}", broken.no, log.partition, broken.why));
                }
            }
            let verdict = if checked.sound { "is as it was written" } else { "is not as it was written" };
            terminal::put(&format!("the audit log {verdict}: {entries} entries"))?;
        }
        _ => terminal::put(&serde_json::to_string(&checked)?)?,
    }
    Ok(if checked.sound { End::Done } else { End::Refused })
}
