//! Moving a store from kind to kind and back: everything arrives, and an engine goes on with it.

use crate::places;
use crate::process::{command, stdout, text, weft};
use crate::serve::Server;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use weft_core::ExecutionId;
use weft_core::record::execution::PublicState;
use weft_engine::{Claim, Client, Completion, Config, Engine, Failing, ListFilter, Submission};
use weft_store::Store;
use weft_store_postgres::PostgresStore;
use weft_store_sqlite::SqliteStore;
use weft_store_valkey::ValkeyStore;

const EXECUTIONS: u32 = 60;

fn submission(number: u32) -> Submission {
    let submission = Submission::new("count").input(number.to_be_bytes().to_vec());
    let submission = submission.idempotency_key(format!("key-{number}"));
    if number % 6 == 5 { submission.delay_ms(3_600_000) } else { submission }
}

async fn open(store: impl Store) -> (Engine, Client) {
    let engine = Engine::open(store, Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    (engine, client)
}

/// Executions of which some are done, some failed, some wait and some are delayed.
async fn fill(url: &str) -> Vec<ExecutionId> {
    let (engine, client) = open(SqliteStore::open_url(url).unwrap()).await;
    let mut ids = Vec::new();
    for number in 0..EXECUTIONS {
        ids.push(client.submit(submission(number)).await.unwrap().id);
    }
    let claimed = client.claim(Claim::new("counter", "one").max(20)).await.unwrap().executions;
    assert_eq!(claimed.len(), 20);
    for (number, work) in claimed.iter().enumerate() {
        match number % 2 {
            0 => drop(client.complete(Completion::of(work).result(&b"done"[..])).await.unwrap()),
            _ => drop(client.fail(Failing::of(work).message("no luck")).await.unwrap()),
        }
    }
    engine.shutdown().await;
    ids
}

/// What the engine finds in an imported store, and that it can go on.
async fn goes_on(store: impl Store, ids: &[ExecutionId]) {
    let (engine, client) = open(store).await;
    let counts = client.count(ListFilter::default()).await.unwrap();
    let of = |wanted| counts.iter().filter(|((_, _, state), _)| *state == wanted).map(|(_, count)| *count).sum::<u64>();
    assert_eq!(counts.values().sum::<u64>(), u64::from(EXECUTIONS));
    assert_eq!(of(PublicState::Completed), 10, "{counts:?}");
    let done = client.list(ListFilter::default()).await.unwrap();
    assert!(done.executions.iter().all(|view| ids.contains(&view.id)), "ids are what they were");
    for number in 0..EXECUTIONS {
        let repeat = client.submit(submission(number)).await.unwrap();
        assert!(repeat.duplicate && repeat.id == ids[number as usize], "key-{number} stands for the same execution");
    }
    let fresh = client.submit(Submission::new("count").lane("fresh")).await.unwrap();
    let claim = Claim::new("counter", "two").lane("fresh").wait_ms(10_000);
    let claimed = client.claim(claim).await.unwrap().executions;
    assert_eq!(claimed.iter().map(|work| work.id).collect::<Vec<_>>(), [fresh.id]);
    client.complete(Completion::of(&claimed[0])).await.unwrap();
    engine.shutdown().await;
}

fn moved(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&weft(&[args, &["--json"]].concat()))).unwrap()
}

fn export(file: &Path, url: &str) -> Value {
    moved(&["export", file.to_str().unwrap(), "--store", url])["kinds"].clone()
}

fn import(file: &Path, url: &str) -> Value {
    moved(&["import", file.to_str().unwrap(), "--store", url])["kinds"].clone()
}

#[test]
fn ops_22_a_store_moves_from_kind_to_kind_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let source = places::sqlite(dir.path(), "source");
    // Its end is the end of everything in it, so that nothing has the file open any more.
    let ids = tokio::runtime::Runtime::new().unwrap().block_on(fill(&source));
    let digests = export(&file("one"), &source);
    assert_eq!(digests[0]["records"], EXECUTIONS, "{digests}");

    let postgres = places::postgres("&migrate=auto");
    assert_eq!(import(&file("one"), &postgres), digests);
    assert_eq!(export(&file("two"), &postgres), digests);
    let valkey = places::valkey("&migrate=auto");
    assert_eq!(import(&file("two"), &valkey), digests);
    assert_eq!(export(&file("three"), &valkey), digests);
    let back = format!("{}?partitions=64", places::sqlite(dir.path(), "back"));
    assert_eq!(import(&file("three"), &back), digests);
    assert_eq!(export(&file("four"), &back), digests);

    tokio::runtime::Runtime::new().unwrap().block_on(async {
        goes_on(SqliteStore::open_url(&back).unwrap(), &ids).await;
        goes_on(PostgresStore::open_url(&postgres).await.unwrap(), &ids).await;
        goes_on(ValkeyStore::open_url(&valkey).await.unwrap(), &ids).await;
    });
}

#[test]
fn ops_22_what_cannot_be_moved_is_refused_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let source = places::sqlite(dir.path(), "source");
    stdout(&weft(&["migrate", "--store", &source]));
    let refused = |args: &[&str]| {
        let output = weft(args);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let file = dir.path().join("file");
    let name = file.to_str().unwrap();
    let export = ["export", name, "--store", &source];
    stdout(&weft(&export));
    assert!(refused(&export).contains("it exists, and nothing is overwritten"));
    let nowhere = dir.path().join("no-such-folder").join("file");
    let misused = |args: &[&str]| {
        let output = weft(args);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(misused(&["export", nowhere.to_str().unwrap(), "--store", &source]).contains("cannot write"));

    let target = places::sqlite(dir.path(), "target");
    let import = ["import", name, "--store", &target];
    stdout(&weft(&import));
    assert!(refused(&import).contains("an import goes into an empty store"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.pop();
    std::fs::write(&file, bytes).unwrap();
    let fresh = places::sqlite(dir.path(), "fresh");
    assert!(refused(&["import", name, "--store", &fresh]).contains("it ends in the middle"));
    assert!(misused(&["import", nowhere.to_str().unwrap(), "--store", &fresh]).contains("cannot read"));
    assert!(misused(&["import", dir.path().to_str().unwrap(), "--store", &fresh]).contains("cannot read"));
    std::fs::write(&file, "anything else than an export of Weft").unwrap();
    assert!(refused(&["import", name, "--store", &fresh]).contains("it is not an export of Weft"));
    assert!(!dir.path().join("fresh").exists() && !dir.path().join("fresh.db").exists(), "no store is made");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

#[test]
fn ops_22_a_move_says_which_master_key_to_copy_and_whether_it_arrived() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    for folder in [&old, &new] {
        std::fs::create_dir(folder).unwrap();
    }
    let said = |args: &[&str], folder: &Path| {
        let output = command(args).current_dir(folder).output().unwrap();
        stdout(&output);
        text(&output.stderr)
    };
    let server = Server::start(&old, &[]);
    let key = server.key.clone().unwrap();
    assert_eq!(server.interrupt(), Some(0));
    let told = said(&["export", "../file"], &old);
    assert!(told.contains("the master key is not in the file: copy `weft-data/master.key`"), "{told}");
    let told = said(&["import", "../file"], &new);
    assert!(told.contains("copy the master key of the exported store to `weft-data/master.key`"), "{told}");
    let master = |folder: &Path| folder.join("weft-data").join("master.key");
    let write = |folder: &Path, text: &str| {
        let path = master(folder);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    };
    let import = |name: &str| {
        let store = format!("sqlite:weft-data/{name}.db");
        said(&["import", "../file", "--store", &store], &new)
    };
    write(&new, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n");
    let told = said(&["import", "../file", "--quiet", "--store", "sqlite:weft-data/quiet.db"], &new);
    assert!(told.starts_with("warning: `weft-data/master.key` is not the master key"), "{told}");
    let told = import("other");
    assert!(told.contains("warning: `weft-data/master.key` is not the master key of the exported store"), "{told}");
    write(&new, &std::fs::read_to_string(master(&old)).unwrap());
    let told = import("same");
    assert!(told.contains("the master key in `weft-data/master.key` is that of the exported store"), "{told}");
    std::os::unix::fs::symlink(old.join("weft-data/weft.db"), new.join("link.db")).unwrap();
    let told = said(&["export", "../linked", "--store", "sqlite:link.db"], &new);
    let beside_file = std::fs::canonicalize(master(&old)).unwrap();
    assert!(told.contains(&format!("copy `{}`", beside_file.display())), "{told}");
    write(&old, "garbled");
    let told = said(&["export", "../again", "--quiet"], &old);
    assert!(told.starts_with("warning: the export cannot say which master key belongs to it: `weft-data"), "{told}");
    assert!(told.contains("holds no master key"), "{told}");
    let server = Server::start(&new, &[]);
    assert_eq!(server.caller(&key).call("GET", "/v1/executions", None).status, 200);
    assert_eq!(server.interrupt(), Some(0));
}
