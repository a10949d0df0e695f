//! Stores that are made for a moment, beside whatever else is on a server, and removed again.

use super::{Address, reason};
use anyhow::{Result, bail};
use weft_store::Floor;
use weft_store_postgres as postgres;
use weft_store_valkey as valkey;

impl Address {
    /// The same server with another schema or prefix, which is made when it is opened.
    pub fn named(&self, name: &str) -> Result<Address> {
        Ok(match self {
            Address::Sqlite { .. } => bail!("a file has no schema and no prefix"),
            Address::Postgres { options, server } => {
                let options = (**options).clone().schema(name).map_err(|error| reason::postgres(self, error))?;
                let options = Box::new(options.migrate(postgres::Migrate::Auto));
                Address::Postgres { options, server: server.clone() }
            }
            Address::Valkey(options) => {
                let named =
                    valkey::Options { prefix: name.to_owned(), migrate: valkey::Migrate::Auto, ..(**options).clone() };
                Address::Valkey(Box::new(named))
            }
        })
    }

    /// Removes the schema, or every key under the prefix. Only for what `named` has named.
    pub async fn remove(&self) -> Result<()> {
        match self {
            Address::Sqlite { .. } => bail!("a file is removed by hand"),
            Address::Postgres { options, .. } => {
                postgres::drop_schema(options).await.map_err(|error| reason::postgres(self, error))?;
            }
            Address::Valkey(options) => valkey::wipe(options).await.map_err(|error| reason::valkey(self, error))?,
        }
        Ok(())
    }

    /// What the store itself can do for `n` lifecycles, by hand-written statements on `loops` connections.
    pub async fn floor(&self, n: usize, batch: usize, payload: usize, loops: usize) -> Result<Floor> {
        match self {
            Address::Sqlite { .. } => bail!("the floor of a file is measured on a fresh one"),
            Address::Postgres { options, .. } => {
                let floor = postgres::floor::floor(options, n, batch, payload, loops).await;
                floor.map_err(|error| reason::postgres(self, error))
            }
            Address::Valkey(options) => {
                let floor = valkey::floor(options, n, batch, payload, loops).await;
                floor.map_err(|error| reason::valkey(self, error))
            }
        }
    }

    /// Removes what a floor left that was broken off. Measuring a floor begins and ends with that.
    pub async fn remove_floor(&self) -> Result<()> {
        self.floor(0, 1, 8, 1).await.map(drop)
    }
}
