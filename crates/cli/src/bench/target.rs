//! Where measurements take place: in fresh files, or on a server under names of their own.

use super::file::FileTarget;
use super::server::ServerTarget;
use crate::store::Address;
use anyhow::Result;
use weft_bench::{Bed, Floor, Served, Target};
use weft_engine::Engine;

/// Executions per transaction of the floor.
pub const FLOOR_BATCH: usize = 128;

pub enum Place {
    File(FileTarget),
    Server(ServerTarget),
}

impl Place {
    pub async fn open(address: Option<Address>) -> Result<Self> {
        Ok(match address {
            None => Place::File(FileTarget::new(None)?),
            Some(Address::Sqlite { path, .. }) => Place::File(FileTarget::new(Some(&path))?),
            Some(server) => Place::Server(ServerTarget::new(server).await?),
        })
    }

    /// Removes what is left. Files go by themselves.
    pub async fn clean(&self) {
        if let Place::Server(target) = self {
            target.clean().await;
        }
    }
}

macro_rules! each {
    ($place:expr, $target:ident => $call:expr) => {
        match $place {
            Place::File($target) => $call,
            Place::Server($target) => $call,
        }
    };
}

impl Target for Place {
    fn store(&self) -> String {
        each!(self, target => target.store())
    }

    fn durability(&self) -> String {
        each!(self, target => target.durability())
    }

    async fn open(&self, nodes: usize) -> Result<Bed> {
        each!(self, target => target.open(nodes).await)
    }

    async fn floor(&self, n: u64, payload: usize) -> Result<Floor> {
        each!(self, target => target.floor(n, payload).await)
    }

    async fn serve(&self, engine: &Engine) -> Result<Served> {
        each!(self, target => target.serve(engine).await)
    }
}
