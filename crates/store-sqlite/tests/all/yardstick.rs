//! The suite for all stores, and the store in memory beside this one.

use crate::records::{apply, folder, insert, key, open, update};
use bytes::Bytes;
use std::sync::Arc;
use weft_core::Time;
use weft_store::{MemoryStore, Store, conformance, differential};
use weft_store_sqlite::{Options, SqliteStore};

fn open_fresh(partitions: u16) -> Kept {
    let folder = folder();
    let store = SqliteStore::open(Options::new(folder.path().join("weft.db")).partitions(partitions)).unwrap();
    Kept { store, _folder: folder }
}

/// A store whose folder goes away with it.
struct Kept {
    store: SqliteStore,
    _folder: tempfile::TempDir,
}

mod kept {
    use super::Kept;
    use weft_core::change::Batch;
    use weft_core::record::Key;
    use weft_core::schema::PartMask;
    use weft_core::{CommitId, PartitionId, Time};
    use weft_store::{Description, Error, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

    impl Store for Kept {
        async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
            self.store.read(partition, keys).await
        }

        async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
            self.store.scan(partition, scan).await
        }

        async fn commit(&self, partition: PartitionId, batch: Batch) -> Outcome {
            self.store.commit(partition, batch).await
        }

        async fn resolve(&self, partition: PartitionId, id: CommitId) -> Result<Resolution, Error> {
            self.store.resolve(partition, id).await
        }

        fn watch(&self) -> Wakes {
            self.store.watch()
        }

        async fn now(&self) -> Result<Time, Error> {
            self.store.now().await
        }

        fn describe(&self) -> Description {
            self.store.describe()
        }
    }
}

#[tokio::test]
async fn the_store_conforms() {
    conformance::all(|partitions| async move { open_fresh(partitions) }).await;
}

#[tokio::test]
async fn sc_129_answers_are_those_of_the_store_in_memory() {
    let memory = MemoryStore::new(3, Arc::new(|| Time::ZERO));
    let sqlite = open_fresh(3);
    let report = differential::run(&memory, &sqlite, 0x5eed, 5000).await;
    let counts = [report.applied, report.repeated, report.conflicts, report.refused, report.found, report.barred];
    assert!(counts.iter().all(|count| *count > 0), "{report:?}");
    assert!(report.entries > 1000, "{report:?}");
}

#[tokio::test]
async fn a_watch_neither_sends_nor_ends() {
    let folder = folder();
    let store = open(&folder);
    let mut wakes = store.watch();
    apply(&store, vec![insert(key(crate::records::P0, 1), &[])]).await;
    assert!(matches!(wakes.try_recv(), Err(tokio::sync::mpsc::error::TryRecvError::Empty)));
}

#[tokio::test]
async fn statistics_count_what_was_done() {
    let folder = folder();
    let store = open(&folder);
    let first = key(crate::records::P0, 1);
    apply(&store, vec![insert(first, &[]), insert(key(crate::records::P0, 2), &[])]).await;
    apply(&store, vec![update(first, &[(0, Some(Bytes::from_static(b"hot")))])]).await;
    let stats = store.stats();
    assert_eq!((stats.commits, stats.transactions, stats.records_written, stats.reads), (2, 2, 3, 2));
}
