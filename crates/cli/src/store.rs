//! Stores by their addresses: reading an address, opening what it names, making it and looking at it. The only place that
//! knows which kinds of stores there are.

mod address;
mod any;
mod configured;
mod fresh;
mod reason;

pub use address::Address;
pub use any::AnyStore;

use crate::settings::{Arguments, StoreArguments};
use anyhow::{Context, Result};
use std::path::Path;
use weft_store::Finding;
use weft_store_postgres as postgres;
use weft_store_sqlite as sqlite;
use weft_store_valkey as valkey;

/// The file of the store inside its folder.
pub const FILE: &str = "weft.db";

/// Threads of the runtime. The SQLite writer has a thread of its own besides.
const THREADS: usize = 2;

pub fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(THREADS).enable_all().build().context("could not start the runtime")
}

/// The same for a process that serves others: a thread per processor, but never less than that.
pub fn runtime_for_server() -> Result<tokio::runtime::Runtime> {
    let threads = std::thread::available_parallelism().map_or(THREADS, |count| count.get().max(THREADS));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().context("could not start the runtime")
}

/// Opens the store in `dir`; both are made if they are not there.
pub fn open_dir(dir: &Path) -> Result<AnyStore> {
    Ok(AnyStore::Sqlite(Box::new(sqlite::SqliteStore::open(sqlite::Options::new(dir.join(FILE)))?)))
}

/// The store that a command is about: what `weft serve` would open with the same file, environment and flags.
#[derive(clap::Args)]
pub struct StoreArg {
    #[command(flatten)]
    arguments: StoreArguments,
}

impl StoreArg {
    /// The store with all that is set about it.
    pub fn address(&self) -> Result<Address> {
        Address::configured(&self.arguments.0.load()?)
    }

    /// The same for a command that opens it: one that is to be up to date already is refused if it is not.
    pub fn current(&self) -> Result<Address> {
        let settings = self.arguments.0.load()?;
        let address = Address::configured(&settings)?;
        address.refuse_due(&settings)?;
        Ok(address)
    }

    /// The store as the flag names it, whatever else is configured; none if it is not named.
    pub fn named(&self) -> Option<Result<Address>> {
        self.arguments.0.flag("store").map(Address::parse)
    }

    /// Whether the command line says anything about a store.
    pub fn is_named(&self) -> bool {
        self.arguments.0.is_given()
    }

    pub fn arguments(&self) -> &Arguments {
        &self.arguments.0
    }
}

/// What making or upgrading a store did, or would do, a sentence each.
pub struct Plan {
    pub steps: Vec<String>,
}

impl Address {
    /// Opens the store. A file is made or upgraded; on a server that is left to `weft migrate`, unless the address says
    /// otherwise.
    pub async fn open(&self) -> Result<AnyStore> {
        Ok(match self {
            Address::Sqlite { .. } => {
                let store = sqlite::SqliteStore::open(self.sqlite_options()?);
                AnyStore::Sqlite(Box::new(store.map_err(reason::sqlite)?))
            }
            Address::Postgres { options, .. } => {
                let store = postgres::PostgresStore::open((**options).clone()).await;
                AnyStore::Postgres(Box::new(store.map_err(|error| reason::postgres(self, error))?))
            }
            Address::Valkey(options) => {
                let store = valkey::ValkeyStore::open((**options).clone()).await;
                AnyStore::Valkey(Box::new(store.map_err(|error| reason::valkey(self, error))?))
            }
        })
    }

    /// Opens a store that must be there already: a file is not made.
    pub async fn open_existing(&self) -> Result<AnyStore> {
        if let Address::Sqlite { path, .. } = self {
            anyhow::ensure!(path.exists(), "cannot open `{}`: there is no such file", path.display());
        }
        self.open().await
    }

    /// Creates the store or brings it up to date; with `check` only says what would be done.
    pub async fn migrate(&self, check: bool) -> Result<Plan> {
        let steps = match self {
            Address::Sqlite { path, .. } => {
                let plan = sqlite::plan(path).map_err(reason::sqlite)?;
                if plan.is_due() && !check {
                    drop(self.open().await?);
                }
                match plan.found {
                    Some(found) if found == plan.wanted => Vec::new(),
                    Some(found) => vec![format!("upgrade `{}` from format {found} to {}", path.display(), plan.wanted)],
                    None => vec![format!("make `{}` with format {}", path.display(), plan.wanted)],
                }
            }
            Address::Postgres { options, .. } => {
                postgres::migrate(options, check).await.map_err(|error| reason::postgres(self, error))?.steps
            }
            Address::Valkey(options) => {
                valkey::migrate(options, check).await.map_err(|error| reason::valkey(self, error))?.steps
            }
        };
        Ok(Plan { steps })
    }

    /// Looks at the store without changing it.
    pub async fn inspect(&self) -> Vec<Finding> {
        match self {
            Address::Sqlite { path, .. } => sqlite::inspect(path),
            Address::Postgres { options, .. } => postgres::inspect(options).await,
            Address::Valkey(options) => valkey::inspect(options).await,
        }
    }
}
