//! What is there after a store was closed, left open or copied.

use crate::records::{P0, apply, folder, get, head, insert, key, open, try_open};
use bytes::Bytes;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use weft_store::{Outcome, Severity};
use weft_store_sqlite::{OpenError, SqliteStore};

const COMMITS: u64 = 50;

async fn fill(store: &SqliteStore) {
    for number in 0..COMMITS {
        let part = Bytes::from(vec![number as u8; 300]);
        apply(store, vec![insert(key(P0, number), &[(0, Some(part))])]).await;
    }
}

async fn is_full(store: &SqliteStore) {
    assert_eq!(head(store, P0).await.position.seq, COMMITS);
    for number in 0..COMMITS {
        assert_eq!(get(store, key(P0, number)).await.unwrap().parts[0].1, vec![number as u8; 300]);
    }
}

/// The files as a crash at this moment would leave them. Copied by another process: closing a descriptor of the database
/// in this one would drop the locks that SQLite holds on it.
fn crash_image(folder: &TempDir) -> TempDir {
    let image = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(folder.path().join(".")).arg(image.path()).status().unwrap();
    assert!(copied.success());
    image
}

#[tokio::test]
async fn rl_71_a_store_that_was_not_closed_keeps_every_commit() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    let image = crash_image(&folder);
    assert!(fs::metadata(image.path().join("weft.db-wal")).unwrap().len() > 0);
    let recovered = open(&image);
    is_full(&recovered).await;
    assert_eq!(recovered.id(), store.id());
    apply(&recovered, vec![insert(key(P0, COMMITS), &[])]).await;
}

#[tokio::test]
async fn rl_71_a_log_whose_database_is_gone_or_empty_is_refused_and_loses_nothing() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    let image = crash_image(&folder);
    let [path, log, moved] = ["weft.db", "weft.db-wal", "moved.db"].map(|name| image.path().join(name));
    let logged = fs::read(&log).unwrap();
    fs::rename(&path, &moved).unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(&path, "").unwrap();
        }
        let error = try_open(path.clone()).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::OrphanedLog { .. }), "{error}");
        for named in [&path, &log] {
            assert!(error.to_string().contains(&format!("`{}`", named.display())), "{error}");
        }
        assert!(weft_store_sqlite::plan(&path).is_err());
        assert_eq!(weft_store_sqlite::inspect(&path)[0].severity, Severity::Problem);
        assert_eq!((path.exists(), fs::read(&log).unwrap()), (empty, logged.clone()));
    }
    fs::rename(&moved, &path).unwrap();
    is_full(&open(&image)).await;
}

#[tokio::test]
async fn a_store_that_was_closed_is_one_file_and_keeps_every_commit() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    drop(store);
    assert!(!folder.path().join("weft.db-wal").exists());
    is_full(&open(&folder)).await;
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    let before = head(&store, P0).await;
    store.close();
    store.close();
    let outcome = weft_store::Store::commit(&store, P0, crate::records::batch(before, 999, Vec::new())).await;
    assert!(matches!(outcome, Outcome::NotApplied { .. }), "{outcome:?}");
    let error = weft_store::Store::read(&store, P0, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

#[tokio::test]
async fn rl_78_damage_is_noticed_after_an_unclean_end() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    store.close();
    let path = folder.path().join("weft.db");
    let mut file = fs::read(&path).unwrap();
    let half = file.len() / 2;
    file[half..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(&path, file).unwrap();
    fs::write(folder.path().join("weft.db-wal"), "left over").unwrap();
    let error = try_open(path).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn rl_79_a_backup_is_a_store_of_its_own() {
    let folder = folder();
    let store = open(&folder);
    fill(&store).await;
    let copy = folder.path().join("copy.db");
    let backup = store.backup(&copy).unwrap();
    assert_eq!(backup.bytes, fs::metadata(&copy).unwrap().len());
    assert!(store.backup(&copy).is_err(), "a copy is never written over something");
    apply(&store, vec![insert(key(P0, COMMITS), &[])]).await;

    let copied = try_open(copy).unwrap();
    is_full(&copied).await;
    assert_eq!(copied.id(), store.id());
    assert_eq!(head(&store, P0).await.position.seq, COMMITS + 1);
}
