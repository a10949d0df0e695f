//! One type for every kind of store, so that an engine, an export and a look at the registry are written once.

use weft_core::change::Batch;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::{CommitId, PartitionId, Time};
use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};
use weft_store_postgres::PostgresStore;
use weft_store_sqlite::SqliteStore;
use weft_store_valkey::ValkeyStore;

/// An open store of any kind.
pub enum AnyStore {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
    Valkey(Box<ValkeyStore>),
}

macro_rules! each {
    ($store:expr, $inner:ident => $call:expr) => {
        match $store {
            AnyStore::Sqlite($inner) => $call,
            AnyStore::Postgres($inner) => $call,
            AnyStore::Valkey($inner) => $call,
        }
    };
}

impl Store for AnyStore {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        each!(self, store => store.read(partition, keys).await)
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        each!(self, store => store.scan(partition, scan).await)
    }

    async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
        each!(self, store => store.commit(partition, batch).await)
    }

    async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
        each!(self, store => store.resolve(partition, id).await)
    }

    fn watch(&self) -> Wakes {
        each!(self, store => store.watch())
    }

    async fn now(&self) -> Result<Time, Error> {
        each!(self, store => store.now().await)
    }

    fn describe(&self) -> Description {
        each!(self, store => store.describe())
    }
}
