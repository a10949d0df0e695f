//! The SQLite store as a target of measurements: a fresh file for every run, removed after it.

use super::served;
use super::target::FLOOR_BATCH;
use crate::store::FILE;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weft_bench::{Bed, Floor, Served, Target};
use weft_engine::{Config, Engine};
use weft_store::Store;
use weft_store_sqlite::{Options, SqliteStore, floor};

pub struct FileTarget {
    /// Holds a folder for every run, and goes away with all of them.
    folder: TempDir,
    durability: String,
}

impl FileTarget {
    /// Takes a temporary folder, or one beside `path`. That file must not exist: a measurement never comes near
    /// anybody's data.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let folder = match path {
            None => TempDir::with_prefix("weft-bench-").context("cannot create a temporary folder")?,
            Some(path) => beside(path)?,
        };
        let probe = SqliteStore::open(Options::new(folder.path().join("probe").join(FILE)))?;
        Ok(Self { durability: probe.describe().durability.to_string(), folder })
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

impl Target for FileTarget {
    fn store(&self) -> String {
        "sqlite".to_owned()
    }

    fn durability(&self) -> String {
        self.durability.clone()
    }

    async fn open(&self, nodes: usize) -> Result<Bed> {
        anyhow::ensure!(nodes == 1, "cannot open a file {nodes} times");
        let place = self.fresh()?;
        let store = SqliteStore::open(Options::new(place.path().join(FILE)))?;
        Ok(Bed::new(vec![Engine::open(store, Config::default()).await?], place))
    }

    async fn floor(&self, n: u64, payload: usize) -> Result<Floor> {
        let place = self.fresh()?;
        let floor = floor::floor(&place.path().join(FILE), n as usize, FLOOR_BATCH, payload);
        let floor = floor.context("could not measure the floor")?;
        Ok(Floor { per_s: floor.lifecycles_per_s, commit_ms: floor.commit_ms })
    }

    async fn serve(&self, engine: &Engine) -> Result<Served> {
        served::serve(engine).await
    }
}
