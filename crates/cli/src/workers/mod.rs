//! Commands about workers: who is there, who shall stop, who is gone.

pub mod drain;
pub mod list;
pub mod mark_dead;
pub mod undrain;

use crate::fault::Fault;
use crate::remote::Remote;
use anyhow::Result;
use weft_api::op;
use weft_api::operation::NoBody;
use weft_api::worker::{DrainTarget, Worker, WorkersQuery};

/// The largest page of a list.
const PAGE_MAX: u32 = 1_000;

/// Which workers to tell.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct Target {
    /// One worker process, by its instance name
    #[arg(value_name = "INSTANCE", group = "target")]
    instance: Option<String>,

    /// All of this pool
    #[arg(long, value_name = "NAME", group = "target")]
    pool: Option<String>,

    /// All of this version
    #[arg(long, value_name = "VERSION", group = "target")]
    version: Option<String>,

    /// All with this label
    #[arg(long, value_name = "KEY=VALUE", group = "target")]
    label: Option<String>,
}

impl Target {
    fn request(&self) -> DrainTarget {
        DrainTarget {
            instance: self.instance.clone(),
            worker: self.pool.clone(),
            version: self.version.clone(),
            label: self.label.clone(),
            ..DrainTarget::default()
        }
    }

    fn names(&self, worker: &Worker) -> bool {
        let labelled = |label: &String| {
            label.split_once('=').is_some_and(|(key, value)| worker.labels.get(key).is_some_and(|held| held == value))
        };
        self.instance.as_ref().is_none_or(|instance| *instance == worker.instance)
            && self.pool.as_ref().is_none_or(|pool| *pool == worker.worker)
            && self.version.as_ref().is_none_or(|version| worker.version.as_ref() == Some(version))
            && self.label.as_ref().is_none_or(labelled)
    }

    /// How many workers it names now.
    async fn count(&self, remote: &Remote) -> Result<usize> {
        let query = WorkersQuery { worker: self.pool.clone(), ..WorkersQuery::default() };
        Ok(all(remote, query).await?.iter().filter(|worker| self.names(worker)).count())
    }

    fn is_one(&self) -> bool {
        self.instance.is_some()
    }
}

/// Every worker that the query selects.
async fn all(remote: &Remote, mut query: WorkersQuery) -> Result<Vec<Worker>> {
    query.limit = Some(PAGE_MAX);
    let mut workers = Vec::new();
    loop {
        let page = remote.call::<op::ListWorkers>("list workers", [], query.clone(), NoBody {}).await?;
        workers.extend(page.items);
        match page.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(workers),
        }
    }
}

/// `key=value`, or misuse.
fn check_label(label: Option<&String>) -> Result<()> {
    match label {
        Some(label) if !label.contains('=') => {
            Err(Fault::usage(format!("`--label {label}` is no label; write `key=value`")))
        }
        _ => Ok(()),
    }
}
