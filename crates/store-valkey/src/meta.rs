//! What is written once for the whole store: its format, its number of partitions, its id.

use crate::check;
use crate::error::OpenError;
use crate::info::{ask, pairs};
use crate::keys::Keys;
use crate::library;
use crate::link::Dial;
use crate::options::{Mode, Options};
use crate::route::Layout;
use crate::slots::slot;
use uuid::Uuid;

/// The format this program writes.
pub const FORMAT: u64 = 2;

/// What each format after the first one brings. Kinds, parts and indexes have keys of their own, so that nothing is
/// rewritten for them. The number is raised all the same, to keep out programs that know less: such a one would leave parts
/// behind when it deletes a record, and take the timers of others for poison.
const UPGRADES: [&str; FORMAT as usize - 1] =
    ["add flows: graphs of executions, their edges, and what is left of purged members"];

const PARTITIONS: u16 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub format: u64,
    pub partitions: u16,
    pub id: Uuid,
}

/// What a migration did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The format that was found; `None` if there was no store.
    pub found: Option<u64>,
    /// The format that this program writes.
    pub format: u64,
    /// In the order they are done. None if the store is up to date.
    pub steps: Vec<String>,
    /// False if it was only looked at.
    pub done: bool,
}

/// Makes the store, or brings it up to date. With `check` it only says what it would do. Doing it twice is harmless.
pub async fn migrate(options: &Options, check: bool) -> Result<Plan, OpenError> {
    let survey = check::survey(options).await?;
    if let Some(problem) = survey.problems.into_iter().next() {
        return Err(problem);
    }
    let found = read(options, &survey.layout).await?;
    let mut plan = Plan { found: found.map(|meta| meta.format), format: FORMAT, steps: Vec::new(), done: !check };
    match found {
        Some(meta) => {
            verify(options, meta)?;
            let done = meta.format.saturating_sub(1) as usize;
            plan.steps = UPGRADES.iter().skip(done).map(|step| (*step).to_owned()).collect();
            if !check {
                upgrade(options, &survey.layout, meta).await?;
            }
        }
        None => {
            let partitions = wanted(options);
            plan.steps.push(format!("make a store with {partitions} partitions under the prefix `{}`", options.prefix));
            if !check {
                create(options, &survey.layout).await?;
            }
        }
    }
    for server in &survey.servers {
        let dial = Dial::new(server.address.clone(), options);
        let failed = |why: String| OpenError::Server { address: server.address.clone(), why };
        if let Some(foreign) = check::foreign_library(options, &server.address).await {
            return Err(foreign);
        }
        if !library_is_loaded(&dial).await {
            plan.steps.push(format!("load the library `{}` on `{}`", library::NAME, server.address));
            if !check {
                let link = crate::link::Link::new(dial);
                link.load(library::CODE).await.map_err(|fault| failed(fault.to_string()))?;
            }
        }
    }
    Ok(plan)
}

async fn library_is_loaded(dial: &Dial) -> bool {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(library::NAME);
    let Ok(mut connection) = dial.connect().await else { return false };
    matches!(ask(&mut connection, &list).await, Ok(redis::Value::Array(found)) if !found.is_empty())
}

fn wanted(options: &Options) -> u16 {
    if options.partitions == 0 { PARTITIONS } else { options.partitions }
}

/// The server that has the key. A standalone one has all of them.
fn dial(options: &Options, layout: &Layout) -> Dial {
    let key = Keys::new(&options.prefix).meta();
    let owner = layout.owner(slot(key.as_bytes())).filter(|_| options.mode == Mode::Cluster);
    Dial::new(owner.unwrap_or(&options.addresses[0]).clone(), options)
}

/// `None` if there is no store under the prefix.
pub async fn read(options: &Options, layout: &Layout) -> Result<Option<Meta>, OpenError> {
    let dial = dial(options, layout);
    let key = Keys::new(&options.prefix).meta();
    let asked = async {
        let mut connection = dial.connect().await?;
        ask(&mut connection, redis::cmd("HGETALL").arg(&key)).await
    };
    let damaged = |why: &str| OpenError::Damaged { url: options.url(), key: key.clone(), why: why.to_owned() };
    let reply = asked.await.map_err(|error| match error.code() {
        Some("WRONGTYPE") => damaged("it is not a hash"),
        _ => OpenError::Server { address: dial.address.clone(), why: error.to_string() },
    })?;
    let fields = pairs(&reply);
    if fields.is_empty() {
        return Ok(None);
    }
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
    let format = number("format").ok_or_else(|| damaged("it has no format"))?;
    if format > FORMAT {
        return Err(OpenError::Newer { url: options.url(), found: format, known: FORMAT });
    }
    let partitions = number("partitions").and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
    let id = fields.get("id").and_then(|id| Uuid::try_parse(id).ok());
    Ok(Some(Meta {
        format,
        partitions: partitions.ok_or_else(|| damaged("it has no number of partitions"))?,
        id: id.ok_or_else(|| damaged("it has no id"))?,
    }))
}

/// Refuses a store that has another number of partitions than was asked for.
pub fn verify(options: &Options, meta: Meta) -> Result<(), OpenError> {
    let (asked, stored) = (options.partitions, meta.partitions);
    match asked == 0 || asked == stored {
        true => Ok(()),
        false => Err(OpenError::Partitions { url: options.url(), asked, stored }),
    }
}

/// Brings an older store up to date; one that is so already is left alone, and so is one with another number of
/// partitions than was asked for. Several programs may do this at once: none lowers what a newer one has written.
pub async fn upgrade(options: &Options, layout: &Layout, mut meta: Meta) -> Result<Meta, OpenError> {
    verify(options, meta)?;
    let dial = dial(options, layout);
    let key = Keys::new(&options.prefix).meta();
    while meta.format < FORMAT {
        let raised = async {
            let mut connection = dial.connect().await?;
            redis::cmd("WATCH").arg(&key).exec_async(&mut connection).await?;
            let found: Option<u64> = redis::cmd("HGET").arg(&key).arg("format").query_async(&mut connection).await?;
            if found == Some(meta.format) {
                let mut raise = redis::pipe();
                raise.atomic().cmd("HSET").arg(&key).arg("format").arg(FORMAT).ignore();
                // Null if somebody was faster; what it wrote is read below.
                raise.query_async::<redis::Value>(&mut connection).await?;
            }
            Ok::<(), redis::RedisError>(())
        };
        let failed =
            |error: redis::RedisError| OpenError::Server { address: dial.address.clone(), why: error.to_string() };
        raised.await.map_err(failed)?;
        meta = read(options, layout).await?.ok_or_else(|| OpenError::Absent { url: options.url() })?;
    }
    Ok(meta)
}

/// Makes the store, or finds that somebody else was faster: every field is only written where it is missing, and all of
/// them at once.
pub async fn create(options: &Options, layout: &Layout) -> Result<Meta, OpenError> {
    let dial = dial(options, layout);
    let failed = |why: String| OpenError::Server { address: dial.address.clone(), why };
    let key = Keys::new(&options.prefix).meta();
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| failed(error.to_string()))?;
    let id = uuid::Builder::from_random_bytes(id).into_uuid();
    let mut all = redis::pipe();
    all.atomic();
    for (name, value) in
        [("format", FORMAT.to_string()), ("partitions", wanted(options).to_string()), ("id", id.to_string())]
    {
        all.cmd("HSETNX").arg(&key).arg(name).arg(value);
    }
    let made = async {
        let mut connection = dial.connect().await?;
        all.exec_async(&mut connection).await
    };
    made.await.map_err(|error| failed(error.to_string()))?;
    let meta = read(options, layout).await?;
    meta.ok_or_else(|| OpenError::Damaged { url: options.url(), key, why: "it vanished".to_owned() })
}
