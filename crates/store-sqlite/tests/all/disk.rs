//! A disk that is full, and one that fails.

use crate::records::{P0, apply, batch, commit, folder, get, head, insert, key, open};
use bytes::Bytes;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_core::PartitionId;
use weft_core::change::{Change, Head};
use weft_core::schema::Value;
use weft_store::{Full, Outcome, Store};
use weft_store_sqlite::{EXIT_IO, Options, SqliteStore};

const MIB: u64 = 1 << 20;

fn heavy(number: u64) -> Vec<weft_core::change::Write> {
    vec![insert(key(P0, number), &[(4, Some(Bytes::from(vec![1; 100_000])))])]
}

#[tokio::test]
async fn rl_77_a_full_disk_refuses_commits_and_nothing_else() {
    let folder = folder();
    let options = Options { bytes_max: Some(2 * MIB), ..Options::new(folder.path().join("weft.db")) };
    let store = SqliteStore::open(options).unwrap();
    let mut applied = 0;
    let retry = loop {
        match commit(&store, P0, heavy(applied)).await {
            Outcome::Applied { .. } => applied += 1,
            Outcome::NotApplied { retry_after_ms, source } if source.is::<Full>() => break retry_after_ms,
            other => panic!("{other:?}"),
        }
        assert!(applied < 100, "the file grew past its limit");
    };
    assert!(applied > 3 && retry > 0);
    assert_eq!(head(&store, P0).await.position.seq, applied);
    assert_eq!(get(&store, key(P0, applied)).await, None);
    assert!(get(&store, key(P0, 0)).await.is_some());

    store.set_bytes_max(64 * MIB).await.unwrap();
    apply(&store, heavy(applied)).await;
    assert_eq!(head(&store, P0).await.position.seq, applied + 1);
}

#[tokio::test]
async fn a_batch_that_cannot_be_written_spoils_no_other() {
    let folder = folder();
    let options = Options::new(folder.path().join("weft.db")).partitions(3);
    let store = SqliteStore::open(options).unwrap();
    let on = |partition: u16, id| {
        let partition = PartitionId(partition);
        (partition, batch(Head::default(), id, vec![insert(key(partition, 1), &[])]))
    };
    let (first, second, mut third) = (on(0, 1), on(1, 2), on(2, 3));
    let Change::Insert(body) = &mut third.1.writes[0].what else { panic!("it is an insert") };
    body.facets[0] = Value::Null;
    let (first, third, second) =
        tokio::join!(store.commit(first.0, first.1), store.commit(third.0, third.1), store.commit(second.0, second.1));
    assert!(matches!(first, Outcome::Applied { .. }), "{first:?}");
    assert!(matches!(second, Outcome::Applied { .. }), "{second:?}");
    assert!(matches!(third, Outcome::NotApplied { .. }), "{third:?}");
    assert_eq!(head(&store, PartitionId(2)).await, Head::default());
    assert!(get(&store, key(PartitionId(1), 1)).await.is_some());
}

/// Tells the tests below, run again as a child under a limit of the file size, what to do and where.
const FOLDER: &str = "WEFT_TEST_FAILING_DISK";

/// Runs one test of this file again as a process that cannot write files beyond 2 MiB: to SQLite that is a failing disk.
fn under_failing_disk(test: &str, folder: &Path) -> std::process::Output {
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact \"$1\" --nocapture";
    Command::new("bash")
        .args(["--posix", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(FOLDER, folder)
        .output()
        .unwrap()
}

/// Tells the parent what was acknowledged, on a line each.
#[allow(clippy::print_stdout)]
async fn commit_until(store: &SqliteStore, mut done: impl FnMut(&Outcome) -> bool) {
    for number in 0.. {
        let outcome = commit(store, P0, heavy(number)).await;
        if matches!(outcome, Outcome::Applied { .. }) {
            println!("acknowledged {}", number + 1);
        }
        if done(&outcome) {
            return;
        }
    }
}

#[tokio::test]
async fn rl_75_a_failing_disk_ends_the_process_and_loses_nothing() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = SqliteStore::open(Options::new(Path::new(&folder).join("weft.db"))).unwrap();
        return commit_until(&store, |_| false).await;
    }
    let folder = folder();
    let output = under_failing_disk("disk::rl_75_a_failing_disk_ends_the_process_and_loses_nothing", folder.path());
    assert_eq!(output.status.code(), Some(EXIT_IO), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let acknowledged: u64 =
        text.lines().filter_map(|line| line.rsplit_once("acknowledged ")).next_back().unwrap().1.parse().unwrap();
    assert!(acknowledged > 3);
    let store = open(&folder);
    assert!(head(&store, P0).await.position.seq >= acknowledged);
    assert!(get(&store, key(P0, acknowledged - 1)).await.is_some());
}

#[tokio::test]
async fn rl_75_after_a_failure_of_the_disk_nothing_more_is_written() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let on_io_error = Box::new(move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let path = Path::new(&folder).join("weft.db");
        let store = SqliteStore::open(Options { on_io_error, ..Options::new(path) }).unwrap();
        commit_until(&store, |outcome| matches!(outcome, Outcome::Unknown { .. })).await;
        assert!(matches!(commit(&store, P0, Vec::new()).await, Outcome::NotApplied { .. }));
        assert!(get(&store, key(P0, 0)).await.is_some(), "reads go on");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        return;
    }
    let folder = folder();
    let output = under_failing_disk("disk::rl_75_after_a_failure_of_the_disk_nothing_more_is_written", folder.path());
    assert!(output.status.success(), "{output:?}");
}
