use crate::kit::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_core::change::Batch;
use weft_core::error::Rejection;
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::schema::PartMask;
use weft_core::{CommitId, ExecutionId, PartitionId, Time};
use weft_engine::{Claim, Completion, Config, Engine, Submission};
use weft_store::faulty::Faults;
use weft_store::{Description, Error, MemoryStore, Outcome, Page, Read, Resolution, Scan, Store, Wakes};

#[tokio::test(start_paused = true)]
async fn rl_12_an_unknown_outcome_is_resolved_before_anything_is_answered() {
    for faults in [
        Faults { commit_unknown_applied: 1000, ..Faults::default() },
        Faults { commit_unknown_lost: 300, ..Faults::default() },
        Faults { commit_unknown_applied: 300, commit_unknown_lost: 300, commit_conflict: 200, ..Faults::default() },
    ] {
        let (store, _faulty, engine) = open_faulty(faults, Config::default()).await;
        let client = engine.client("shop").unwrap();
        for _ in 0..30 {
            let id = client.submit(Submission::new("mail")).await.unwrap().id;
            let work = client.claim(worker()).await.unwrap().executions.remove(0);
            assert_eq!((work.id, work.epoch), (id, 1));
            client.complete(Completion::of(&work)).await.unwrap();
            assert_eq!(client.get(id).await.unwrap().public_state, PublicState::Completed);
        }
        assert_eq!(kept(&store).len(), 60);
    }
}

#[tokio::test(start_paused = true)]
async fn rl_77_a_store_that_takes_nothing_makes_callers_busy_and_comes_back() {
    let (_store, faulty, engine) =
        open_faulty(Faults { commit_not_applied: 1000, ..Faults::default() }, Config::default()).await;
    let client = engine.client("shop").unwrap();
    for _ in 0..3 {
        assert_eq!(client.submit(Submission::new("mail")).await.unwrap_err().code(), "busy");
    }
    faulty.set_faults(Faults::default());
    let id = client.submit(Submission::new("mail")).await.unwrap().id;
    assert_eq!(client.claim(worker()).await.unwrap().executions[0].id, id);
}

#[tokio::test(start_paused = true)]
async fn sr_20_an_outage_of_the_store_is_no_items_fault() {
    // SC-168: reads work, and for an hour no commit does.
    let (store, faulty, engine) = open_faulty(Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    let delayed = client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
    let leased = client.submit(Submission::new("mail")).await.unwrap().id;
    client.claim(worker().lease_ms(1_000)).await.unwrap();
    faulty.set_faults(Faults { commit_not_applied: 1000, ..Faults::default() });
    let before = engine.stats();
    for _ in 0..3_600 {
        linger(1_000).await;
    }
    let tried = engine.stats().since(before);
    assert!(tried.scanner_wakes > 100 && tried.scanner_errors > 100, "the scanners tried: {tried:?}");
    assert_eq!(tried.scanner_processed, 0);
    for id in [delayed, leased] {
        assert!(client.get(id).await.unwrap().execution.trouble().is_none(), "{id}");
    }
    faulty.set_faults(Faults::default());
    let mut claimed = Vec::new();
    while claimed.len() < 2 {
        claimed.extend(client.claim(worker().wait_ms(60_000)).await.unwrap().executions);
    }
    for work in claimed {
        assert!(client.get(work.id).await.unwrap().execution.trouble().is_none());
    }
    let is_letter = |key: &Key| key.kind() == weft_core::schema::Kind::DeadLetter;
    assert!(!kept(&store).iter().any(is_letter), "nothing is parked");
}

#[tokio::test(start_paused = true)]
async fn sr_20_an_item_whose_records_other_writers_keep_changing_is_left_for_the_next_pass() {
    let (_store, faulty, engine) = open_faulty(Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    let id = client.submit(Submission::new("mail").delay_ms(1_000)).await.unwrap().id;
    faulty.set_faults(Faults { commit_conflict: 1000, before_ms: (5, 5), ..Faults::default() });
    let before = engine.stats();
    linger(61_000).await;
    let tried = engine.stats().since(before);
    assert!((60..=90).contains(&tried.scanner_wakes), "a pass in an interval of 750 ms: {tried:?}");
    assert!((3..=4).contains(&(tried.conflicts / tried.scanner_wakes)), "{tried:?}");
    assert_eq!((tried.scanner_errors, tried.scanner_processed), (0, 0), "{tried:?}");
    let lag_ms = || {
        let meter = engine.scanners().find(|(name, _)| *name == "delayed_promoter").expect("it runs").1;
        meter.lag_ms(engine.now())
    };
    assert!(lag_ms() >= 59_000, "it has been due for a minute: {} ms", lag_ms());
    faulty.set_faults(Faults::default());
    linger(1_000).await;
    assert_eq!(lag_ms(), 0);
    let found = client.get(id).await.unwrap();
    assert!(found.public_state == PublicState::Waiting && found.execution.trouble().is_none(), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn sd_27_a_claim_ends_in_time_although_the_commits_that_serve_it_never_happen() {
    let conflicts = Faults { commit_conflict: 1000, before_ms: (400, 400), ..Faults::default() };
    let (_store, faulty, engine) = open_faulty(conflicts, Config::default()).await;
    let client = engine.client("shop").unwrap();
    let submitter = client.clone();
    let submitted = tokio::spawn(async move { submitter.submit(Submission::new("mail")).await });
    let waiting = client.claim(worker().wait_ms(1_000));
    let reply = tokio::time::timeout(std::time::Duration::from_millis(1_500), waiting).await;
    assert!(reply.expect("the claim ends with the commit after its time").unwrap().executions.is_empty());

    faulty.set_faults(Faults::default());
    let id = submitted.await.unwrap().unwrap().id;
    assert_eq!(client.claim(worker()).await.unwrap().executions[0].id, id, "nothing was leased to nobody");
}

/// A store with one connection for scans: whoever has it keeps it while a call takes its time.
struct OneConnection {
    store: MemoryStore,
    connection: tokio::sync::Mutex<()>,
}

impl Store for OneConnection {
    async fn read(&self, partition: PartitionId, keys: Vec<(Key, PartMask)>) -> Result<Read, Error> {
        self.store.read(partition, keys).await
    }

    async fn scan(&self, partition: Option<PartitionId>, scan: Scan) -> Result<Vec<Page>, Error> {
        let _connection = self.connection.lock().await;
        linger(700).await;
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

#[tokio::test(start_paused = true)]
async fn a_scan_that_waits_for_a_connection_does_not_keep_it_from_a_look() {
    let store = OneConnection { store: memory(2).shared(), connection: tokio::sync::Mutex::default() };
    let engine = Engine::open(store, Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    for number in 1..=20 {
        client.submit(Submission::new("mail").delay_ms(number * 450)).await.unwrap();
    }
    let all = async {
        let mut claimed = 0;
        while claimed < 20 {
            claimed += client.claim(worker().wait_ms(10_000)).await.unwrap().executions.len();
        }
    };
    tokio::time::timeout(Duration::from_secs(300), all).await.expect("every timer fires");
}

/// A loop to which something comes in at every moment looks at its clock nevertheless.
#[tokio::test(start_paused = true)]
async fn rl_14_callers_are_told_in_time_that_an_outcome_is_unknown_however_much_comes_in() {
    let config = Config { unknown_wait_ms: 100, ..Config::default() };
    let (_store, faulty, engine) = open_faulty(Faults::default(), config).await;
    let client = engine.client("shop").unwrap();
    client.submit(Submission::new("mail")).await.unwrap();
    faulty.set_faults(Faults { commit_unknown_lost: 1000, resolve_error: 1000, ..Faults::default() });
    let submit = |client: &weft_engine::Client| {
        let client = client.clone();
        tokio::spawn(async move { client.submit(Submission::new("mail")).await })
    };
    let first = submit(&client);
    for _ in 0..200 {
        submit(&client);
        pass(1).await;
    }
    assert!(first.is_finished(), "told after 100 ms");
    assert_eq!(first.await.unwrap().unwrap_err().code(), "unavailable");
}

#[tokio::test(start_paused = true)]
async fn rl_14_calls_and_claims_behind_a_commit_without_outcome_are_refused_and_can_be_sent_again() {
    let (_store, faulty, engine) = open_faulty(Faults::default(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    client.submit(Submission::new("mail")).await.unwrap();
    faulty.set_faults(Faults { commit_unknown_lost: 1000, resolve_error: 1000, ..Faults::default() });
    let submit = || {
        let client = client.clone();
        tokio::spawn(async move { client.submit(Submission::new("mail")).await.map(drop) })
    };
    let claim = || {
        let client = client.clone();
        tokio::spawn(async move { client.claim(worker()).await.map(drop) })
    };
    let sent = submit();
    linger(1_000).await;
    let behind = [submit(), claim()];
    linger(5_000).await;
    let later = [submit(), claim()];
    linger(100).await;
    let mut unknown = Vec::new();
    for call in [sent].into_iter().chain(behind).chain(later) {
        assert!(call.is_finished(), "nobody waits for the end of the outage");
        match call.await.unwrap() {
            Err(Rejection::Unavailable { outcome_unknown, .. }) => unknown.push(outcome_unknown),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown, [true, false, false, false, false], "only the first was sent");
    faulty.set_faults(Faults::default());
    linger(2_000).await;
    assert!(submit().await.unwrap().is_ok());
    let kept = client.claim(Claim { max: 10, ..worker() }).await.unwrap().executions.len();
    assert_eq!(kept, 2, "the first and the last: what was refused did not happen");
}

/// Work lies in every partition, and the one that gives no answer comes first in the order of claims.
#[tokio::test(start_paused = true)]
async fn sd_30_a_claim_passes_over_a_partition_that_does_not_answer() {
    for dead in (0..4).map(PartitionId) {
        let (_store, faulty, engine) = open_faulty_on(memory(4).shared(), Faults::default(), Config::default()).await;
        let client = engine.client("shop").unwrap();
        let mut placed = BTreeMap::new();
        for number in 0.. {
            let id = client.submit(Submission::new("mail").idempotency_key(format!("{number}"))).await.unwrap().id;
            placed.entry(id.partition()).or_insert_with(Vec::new).push(id);
            if placed.len() == 4 {
                break;
            }
        }
        faulty.set_faults(Faults { silent: Some(dead), slow_ms: (5, 5), ..Faults::default() });
        let beside = placed.iter().filter(|(partition, _)| **partition != dead).flat_map(|(_, ids)| ids);
        let beside: BTreeSet<ExecutionId> = beside.copied().collect();
        let mut taken = BTreeSet::new();
        for _ in 0..60 {
            for wait_ms in [0, 1_000] {
                if let Ok(reply) = client.claim(worker().wait_ms(wait_ms)).await {
                    taken.extend(reply.executions.iter().map(|work| work.id));
                }
            }
        }
        assert_eq!(taken, beside, "what lies beside {dead} is handed out");
    }
}
