//! The kinds of stores that a test can run on. Each test is written once; `on_every_store!` says where it runs.

use super::memory;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use weft_core::change::DueEntry;
use weft_core::schema::Timer;
use weft_core::{PartitionId, Time};
use weft_servers::{shared_postgres_url, shared_valkey_url};
use weft_store::{MemoryStore, Store};
use weft_store_postgres::PostgresStore;
use weft_store_sqlite::SqliteStore;
use weft_store_valkey::ValkeyStore;

/// How long one test may take on one store: a test that waits for what does not come ends, and says so.
const DEADLINE: Duration = Duration::from_secs(300);

/// Each of these tests on every kind of store, in a module by its name. Memory has tokio's clock paused, so that what is
/// looked for again and again costs no time; real servers are waited for.
macro_rules! on_every_store {
    ($($suite:ident :: $name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                crate::kit::kinds::in_time(super::$suite::$name(crate::kit::kinds::Memory)).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                crate::kit::kinds::in_time(super::$suite::$name(crate::kit::kinds::OnSqlite::new())).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                crate::kit::kinds::in_time(super::$suite::$name(crate::kit::kinds::OnPostgres)).await;
            })*
        }

        mod valkey {
            $(#[tokio::test]
            async fn $name() {
                crate::kit::kinds::in_time(super::$suite::$name(crate::kit::kinds::OnValkey)).await;
            })*
        }
    };
}

pub(crate) use on_every_store;

pub async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(DEADLINE, test).await.unwrap_or_else(|_| panic!("still waiting after {DEADLINE:?}"));
}

/// One kind of store.
pub trait Kind {
    type Store: Store;

    /// A store of one partition that nobody else uses.
    fn open(&self) -> impl Future<Output = Self::Store> {
        self.open_with(1)
    }

    /// The same with so many partitions.
    fn open_with(&self, partitions: u16) -> impl Future<Output = Self::Store>;

    /// One that lets several nodes in, where this kind of store does.
    fn open_shared(&self) -> impl Future<Output = Self::Store> {
        self.open()
    }

    /// Adds an entry to the due index outside a commit, as damage would: its key may name nothing.
    fn insert_due(&self, store: &Self::Store, partition: PartitionId, entry: &DueEntry) -> impl Future<Output = ()>;

    /// An entry among those of a timer that names nothing: where the store takes any bytes, bytes that are no entry.
    fn unreadable(&self, timer: Timer, bytes: Vec<u8>) -> DueEntry {
        DueEntry { at: Time::from_ms(5), timer: timer as u8, kind: 99, key: bytes.into() }
    }

    /// How large the scenarios are that are about size: it has to be more than what fits into a few commits.
    fn many(&self) -> usize;

    /// How deep a graph is that is about depth.
    fn deep(&self) -> usize;

    /// How often races are tried.
    fn often(&self) -> usize;
}

pub struct Memory;

impl Kind for Memory {
    type Store = MemoryStore;

    async fn open_with(&self, partitions: u16) -> MemoryStore {
        memory(partitions)
    }

    async fn open_shared(&self) -> MemoryStore {
        memory(1).shared()
    }

    async fn insert_due(&self, store: &MemoryStore, partition: PartitionId, entry: &DueEntry) {
        store.insert_due(partition, entry);
    }

    fn many(&self) -> usize {
        10_000
    }

    fn deep(&self) -> usize {
        100_000
    }

    fn often(&self) -> usize {
        1_000
    }
}

/// A name that nobody else uses.
fn name() -> String {
    static MINTED: AtomicU64 = AtomicU64::new(1);
    format!("flows_{}_{}", std::process::id(), MINTED.fetch_add(1, Ordering::Relaxed))
}

pub struct OnSqlite(TempDir);

impl OnSqlite {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Kind for OnSqlite {
    type Store = SqliteStore;

    async fn open_with(&self, partitions: u16) -> SqliteStore {
        let options = weft_store_sqlite::Options::new(self.0.path().join(name()));
        SqliteStore::open(options.partitions(partitions)).unwrap()
    }

    async fn insert_due(&self, store: &SqliteStore, partition: PartitionId, entry: &DueEntry) {
        store.insert_due(partition, entry.clone()).await.unwrap();
    }

    fn many(&self) -> usize {
        2_500
    }

    fn deep(&self) -> usize {
        10_000
    }

    fn often(&self) -> usize {
        100
    }
}

/// How long a server may take for a call: on a loaded machine it is slow and not dead.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct OnPostgres;

impl Kind for OnPostgres {
    type Store = PostgresStore;

    async fn open_with(&self, partitions: u16) -> PostgresStore {
        let url = format!("{}?schema={}", shared_postgres_url(), name());
        let mut options = weft_store_postgres::Options::from_url(&url).unwrap();
        (options.connect_timeout, options.call_timeout) = (PATIENCE, PATIENCE);
        let options = options.migrate(weft_store_postgres::Migrate::Auto).partitions(partitions);
        PostgresStore::open(options).await.unwrap()
    }

    async fn insert_due(&self, store: &PostgresStore, partition: PartitionId, entry: &DueEntry) {
        store.insert_due(partition, entry).await.unwrap();
    }

    fn many(&self) -> usize {
        1_500
    }

    fn deep(&self) -> usize {
        5_000
    }

    fn often(&self) -> usize {
        40
    }
}

pub struct OnValkey;

impl Kind for OnValkey {
    type Store = ValkeyStore;

    async fn open_with(&self, partitions: u16) -> ValkeyStore {
        let mut options = weft_store_valkey::Options::from_url(shared_valkey_url()).unwrap();
        (options.prefix, options.partitions) = (name(), partitions);
        (options.connect_timeout, options.call_timeout) = (PATIENCE, PATIENCE);
        options.migrate = weft_store_valkey::Migrate::Auto;
        ValkeyStore::open(options).await.unwrap()
    }

    async fn insert_due(&self, store: &ValkeyStore, partition: PartitionId, entry: &DueEntry) {
        store.insert_due(partition, entry).await.unwrap();
    }

    fn unreadable(&self, timer: Timer, bytes: Vec<u8>) -> DueEntry {
        let prefix = (timer as u64 ^ 1 << 63).to_be_bytes();
        DueEntry { at: Time::ZERO, timer: 0, kind: 0, key: [&prefix[..], &bytes].concat().into() }
    }

    fn many(&self) -> usize {
        1_500
    }

    fn deep(&self) -> usize {
        5_000
    }

    fn often(&self) -> usize {
        40
    }
}
