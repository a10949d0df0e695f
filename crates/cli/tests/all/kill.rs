use crate::process::{Running, text, weft};
use std::collections::BTreeMap;
use std::path::Path;
use weft_core::ExecutionId;
use weft_core::record::attempt::AttemptState;
use weft_core::record::execution::{Outcome, PublicState};
use weft_engine::{Claim, Client, Completion, Config, Engine, ListFilter};
use weft_store_sqlite::{Options, SqliteStore};

const ROUNDS: u64 = 20;

/// What the killed nodes had been told.
#[derive(Default)]
struct Ledger {
    begun: u64,
    submitted: BTreeMap<String, ExecutionId>,
    completed: BTreeMap<ExecutionId, String>,
}

impl Ledger {
    fn read(path: &Path) -> Self {
        let mut ledger = Ledger::default();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["begin", _] => ledger.begun += 1,
                ["submitted", key, id] => {
                    let id: ExecutionId = id.parse().unwrap();
                    let before = ledger.submitted.insert((*key).to_owned(), id);
                    assert!(before.is_none_or(|before| before == id), "the key {key} made two executions");
                }
                ["completed", id, result] => {
                    let before = ledger.completed.insert(id.parse().unwrap(), (*result).to_owned());
                    assert!(before.is_none(), "{id} was acknowledged as completed twice");
                }
                // Nobody was told what a cut line says; only the last one of a round can be cut.
                other => assert!(other.len() < 4, "{line}"),
            }
        }
        ledger
    }
}

#[test]
fn ops_30_nothing_acknowledged_is_lost_over_twenty_kills() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ledger) = (dir.path().join("data"), dir.path().join("ledger"));
    for round in 0..ROUNDS {
        let (store, ledger, number) = (store.to_str().unwrap(), ledger.to_str().unwrap(), round.to_string());
        let node = Running::out(&["crash-node", "--dir", store, "--ledger", ledger, "--round", &number]);
        // A different amount of work each time, so that the kill meets every place of the loop.
        let enough = 40 + (round * 7919) % 600;
        node.wait_for("enough acknowledged work", |line| {
            line.strip_prefix("acknowledged ").is_some_and(|count| count.parse::<u64>().unwrap() >= enough)
        });
        node.kill();
    }
    let ledger = Ledger::read(&ledger);
    assert!(ledger.submitted.len() > 200 && ledger.completed.len() > 200, "the rounds had no load");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(check(&store, &ledger));
}

async fn check(store: &Path, ledger: &Ledger) {
    let store = SqliteStore::open(Options::new(store.join("weft.db"))).unwrap();
    let engine = Engine::open(store, Config::default()).await.unwrap();
    let client = engine.client("crash").unwrap();
    check_acknowledged(&client, ledger).await;
    drain(&client).await;
    // What was left is done now; what was done before has not changed by it.
    check_acknowledged(&client, ledger).await;
    for (key, id) in &ledger.submitted {
        let view = client.get(*id).await.unwrap();
        assert_eq!(view.public_state, PublicState::Completed, "{key}");
        assert_eq!(succeeded(&client, *id).await.len(), 1, "{key}");
    }
    let counts = client.count(ListFilter::default()).await.unwrap();
    let total: u64 = counts.values().sum();
    assert!(total >= ledger.submitted.len() as u64 && total <= ledger.begun, "{total} executions");
    assert!(counts.keys().all(|(_, _, state)| *state == PublicState::Completed), "{counts:?}");
    engine.shutdown().await;
}

async fn check_acknowledged(client: &Client, ledger: &Ledger) {
    for (key, id) in &ledger.submitted {
        let view = client.get(*id).await.unwrap_or_else(|rejection| panic!("{key} is lost: {rejection}"));
        assert_eq!(view.execution.spec.kind.as_ref(), "crash");
    }
    for (id, result) in &ledger.completed {
        let view = client.result(*id, 0).await.unwrap();
        assert_eq!(view.outcome, Outcome::Success, "{id}");
        assert_eq!(view.bytes.as_deref(), Some(result.as_bytes()), "{id}");
        assert_eq!(succeeded(client, *id).await, [result.as_bytes()], "{id}");
    }
}

/// The results of the attempts that succeeded.
async fn succeeded(client: &Client, id: ExecutionId) -> Vec<bytes::Bytes> {
    let attempts = client.attempts(id).await.unwrap();
    let succeeded = attempts.iter().filter(|attempt| attempt.state == AttemptState::Succeeded);
    succeeded.map(|attempt| attempt.result().cloned().unwrap_or_default()).collect()
}

/// Completes everything that is left, including what killed workers still hold for a moment.
async fn drain(client: &Client) {
    loop {
        let counts = client.count(ListFilter::default()).await.unwrap();
        if counts.keys().all(|(_, _, state)| state.is_terminal()) {
            return;
        }
        let claim = Claim::new("rest", "rest-1").max(100).wait_ms(30_000);
        let held = client.claim(claim).await.unwrap().executions;
        assert!(!held.is_empty(), "something is left that cannot be claimed");
        let completions = held.iter().map(|work| Completion::of(work).result("rest")).collect();
        for completed in client.complete_batch(completions).await {
            completed.unwrap();
        }
    }
}

#[test]
fn ops_29_a_second_process_on_one_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ledger) = (dir.path().join("data"), dir.path().join("ledger"));
    let (store, ledger) = (store.to_str().unwrap(), ledger.to_str().unwrap());
    let first = Running::out(&["crash-node", "--dir", store, "--ledger", ledger, "--round", "0"]);
    first.wait_for("that it is ready", |line| line == "ready");
    let second = weft(&["demo", "--dir", store]);
    assert_eq!(second.status.code(), Some(1));
    let told = text(&second.stderr);
    let holder = format!("process {}", first.child.id());
    assert!(told.starts_with("error: cannot open") && told.contains(&holder) && told.contains("has it open"), "{told}");
    first.kill();
}
