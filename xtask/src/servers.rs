//! The servers that tests share. Owns which there are and what the tests are told; how one is had and started belongs to
//! `weft-servers`. They end with this process, however it ends.

use anyhow::{Context, Result};
use weft_servers::{Cluster, Postgres, Valkey, variables};

pub struct Servers {
    postgres: Postgres,
    valkey: Valkey,
    cluster: Cluster,
}

impl Servers {
    /// All or none: tests without their server are red, so there is no going on without one.
    pub fn start() -> Result<Servers> {
        let postgres = Postgres::start().context("PostgreSQL is needed by the tests")?;
        println!("PostgreSQL      {}", postgres.url());
        let valkey = Valkey::start(&[]).context("Valkey is needed by the tests")?;
        println!("Valkey          {}", valkey.url());
        let cluster = Cluster::start(3, 1).context("a Valkey Cluster is needed by the tests")?;
        println!("Valkey Cluster  {}", cluster.url());
        Ok(Servers { postgres, valkey, cluster })
    }

    /// Where the tests find them.
    pub fn variables(&self) -> Vec<(String, String)> {
        let told = [
            (variables::POSTGRES, self.postgres.url()),
            (variables::VALKEY, self.valkey.url()),
            (variables::CLUSTER, self.cluster.url()),
        ];
        told.map(|(name, url)| (name.to_owned(), url)).to_vec()
    }
}
