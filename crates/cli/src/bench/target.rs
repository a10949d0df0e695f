//! The SQLite store as a target of measurements: a fresh file for every run, removed after it.

use crate::store::FILE;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weft_bench::{Bed, Floor, Target};
use weft_engine::{Config, Engine};
use weft_store::Store;
use weft_store_sqlite::{Options, SqliteStore, floor};

/// Executions per transaction of the floor.
const FLOOR_BATCH: usize = 128;

pub struct SqliteTarget {
    /// Holds a folder for every run, and goes away with all of them.
    folder: TempDir,
    durability: String,
}

impl SqliteTarget {
    /// Takes a temporary folder, or one beside the file that `url` names. That file must not exist: a measurement never
    /// comes near anybody's data.
    pub fn new(url: Option<&str>) -> Result<Self> {
        let folder = match url {
            None => TempDir::with_prefix("weft-bench-").context("cannot create a temporary folder")?,
            Some(url) => beside(&Options::from_url(url)?.path)?,
        };
        let probe = SqliteStore::open(Options::new(folder.path().join("probe").join(FILE)))?;
        Ok(Self { durability: probe.describe().durability, folder })
    }

    fn fresh(&self) -> Result<TempDir> {
        TempDir::new_in(self.folder.path()).context("could not create the folder of a run")
    }
}

fn beside(path: &Path) -> Result<TempDir> {
    if path.exists() {
        bail!("cannot use `{}`: it exists, and a measurement takes only fresh files", path.display());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    TempDir::with_prefix_in("weft-bench-", &parent)
        .with_context(|| format!("cannot create a folder in `{}`", parent.display()))
}

impl Target for SqliteTarget {
    fn store(&self) -> String {
        "sqlite".to_owned()
    }

    fn durability(&self) -> String {
        self.durability.clone()
    }

    async fn open(&self) -> Result<Bed> {
        let place = self.fresh()?;
        let store = SqliteStore::open(Options::new(place.path().join(FILE)))?;
        Ok(Bed::new(Engine::open(store, Config::default()).await?, place))
    }

    fn floor(&self, n: u64, payload: usize) -> Result<Floor> {
        let place = self.fresh()?;
        let floor = floor::floor(&place.path().join(FILE), n as usize, FLOOR_BATCH, payload);
        let floor = floor.context("could not measure the floor")?;
        Ok(Floor { per_s: floor.lifecycles_per_s, commit_ms: floor.commit_ms })
    }
}
