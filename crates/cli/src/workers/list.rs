//! `weft workers`: who asks for work, and what each holds.

use super::all;
use crate::End;
use crate::remote::{Form, Remote};
use crate::render::{time, worker};
use crate::terminal;
use anyhow::Result;
use serde::Serialize;
use weft_api::op;
use weft_api::operation::{NoBody, NoQuery};
use weft_api::page::PageQuery;
use weft_api::worker::{HeldLease, Worker, WorkerState, WorkersQuery};

/// List workers, or show one with what it holds
#[derive(clap::Args)]
#[command(before_help = "example: weft workers --lane mail")]
pub struct Args {
    /// One worker process, by its instance name
    #[arg(value_name = "INSTANCE", conflicts_with_all = ["pool", "lane", "kind", "cap", "state"])]
    instance: Option<String>,

    /// Only those of this pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,

    /// Only those that ask for this lane
    #[arg(long)]
    lane: Option<String>,

    /// Only those that handle this kind
    #[arg(long)]
    kind: Option<String>,

    /// Only those that offer this capability
    #[arg(long, value_name = "NAME")]
    cap: Option<String>,

    /// Only those in this state
    #[arg(long, value_name = "STATE", value_parser = ["active", "draining", "drained", "dead"])]
    state: Option<String>,
}

/// One worker with its leases, for programs.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    worker: Worker,
    leases: Vec<HeldLease>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    if let Some(instance) = args.instance {
        return one(&remote, instance).await;
    }
    let state = args.state.as_deref().map(|state| match state {
        "active" => WorkerState::Active,
        "draining" => WorkerState::Draining,
        "drained" => WorkerState::Drained,
        _ => WorkerState::Dead,
    });
    let query = WorkersQuery {
        worker: args.pool,
        lane: args.lane,
        kind: args.kind,
        capability: args.cap,
        state,
        ..WorkersQuery::default()
    };
    let workers = all(&remote, query).await?;
    if workers.is_empty() && remote.form == Form::People {
        remote.say("no worker is selected; `weft worker --exec CMD` makes any program one");
        return Ok(End::Done);
    }
    remote.put_all(
        &workers,
        |worker| worker.instance.clone(),
        || worker::table(&workers, time::now_ms(), remote.colour.out),
    )?;
    Ok(End::Done)
}

async fn one(remote: &Remote, instance: String) -> Result<End> {
    let worker = remote.call::<op::GetWorker>("get it", [instance.clone()], NoQuery {}, NoBody {}).await?;
    let query = PageQuery { limit: Some(super::PAGE_MAX), cursor: None };
    let leases = remote.call::<op::ListLeases>("list its leases", [instance], query, NoBody {}).await?;
    let whole = Whole { worker, leases: leases.items };
    remote.put(&whole, &whole.worker.instance, || {
        worker::card(&whole.worker, &whole.leases, time::now_ms(), remote.colour.out)
    })?;
    if leases.next_cursor.is_some() && remote.form == Form::People {
        terminal::say("only the first of its leases are shown");
    }
    Ok(End::Done)
}
