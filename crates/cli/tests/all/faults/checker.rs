//! Compares what nodes were told with what the store knows.

use super::deployment::Deployment;
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use weft_core::event::{self, Fact};
use weft_core::record::attempt::AttemptState;
use weft_core::record::execution::{Outcome, PublicState};
use weft_core::schema::PartMask;
use weft_core::{ExecutionId, PartitionId};
use weft_engine::{AttemptFilter, Claim, Client, Completion, Config, Engine, ListFilter};
use weft_store::{Range, Scan, Store, Target};

/// What the nodes had been told, all of them together.
#[derive(Default)]
pub struct Ledger {
    begun: u64,
    submitted: BTreeMap<String, BTreeSet<ExecutionId>>,
    /// Every acknowledged completion; more than one only if the store lost the first.
    completed: BTreeMap<ExecutionId, Vec<String>>,
    /// Leases by (execution, epoch).
    claimed: BTreeMap<(ExecutionId, u64), BTreeSet<String>>,
}

impl Ledger {
    pub fn read<'a>(paths: impl Iterator<Item = &'a Path>) -> Self {
        let mut ledger = Ledger::default();
        for path in paths {
            let text = std::fs::read_to_string(path).unwrap();
            // Behind the last break is a line that is being written or was cut by a kill: nobody relies on it yet.
            for line in text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines() {
                ledger.take(line);
            }
        }
        ledger
    }

    fn take(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["begin", _] => self.begun += 1,
            ["submitted", key, id] => {
                self.submitted.entry((*key).to_owned()).or_default().insert(id.parse().unwrap());
            }
            ["claimed", id, epoch, lease] => {
                let lease_of = (id.parse().unwrap(), epoch.parse().unwrap());
                self.claimed.entry(lease_of).or_default().insert((*lease).to_owned());
            }
            ["completed", id, result] => {
                self.completed.entry(id.parse().unwrap()).or_default().push((*result).to_owned());
            }
            other => panic!("a ledger has no such line: {other:?}"),
        }
    }

    pub fn has_completed(&self, id: ExecutionId) -> bool {
        self.completed.contains_key(&id)
    }

    /// What was claimed and never acknowledged as completed.
    pub fn held(&self) -> BTreeSet<ExecutionId> {
        self.claimed.keys().map(|(id, _)| *id).filter(|id| !self.completed.contains_key(id)).collect()
    }
}

/// Whether the store may have lost something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    Never,
    /// If the loss was noticed and told in the feed of the partition.
    IfReported,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Verdict {
    pub acknowledged: usize,
    /// Acknowledged facts that the store does not know.
    pub lost: usize,
    /// Partitions that tell of a loss.
    pub reported: usize,
}

/// Everything that must hold after the faults. The store must be up.
pub fn check(deployment: &Deployment, allowed: Loss) -> Verdict {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ledgers = deployment.ledgers();
    let ledger = Ledger::read(ledgers.iter().map(|path| path.as_path()));
    assert!(ledger.submitted.len() > 100 && ledger.completed.len() > 100, "the rounds had no load");
    let verdict = runtime.block_on(async {
        let url = deployment.url.as_str();
        if url.starts_with("sqlite") {
            judge(|| async { weft_store_sqlite::SqliteStore::open_url(url).unwrap() }, &ledger, allowed).await
        } else if url.starts_with("postgres") {
            judge(|| async { weft_store_postgres::PostgresStore::open_url(url).await.unwrap() }, &ledger, allowed).await
        } else {
            judge(|| async { weft_store_valkey::ValkeyStore::open_url(url).await.unwrap() }, &ledger, allowed).await
        }
    });
    tell(&verdict);
    verdict
}

/// A line for whoever fills in the table of losses; `WEFT_FAULT_REPORT` names the file.
fn tell(verdict: &Verdict) {
    if let Some(path) = std::env::var_os("WEFT_FAULT_REPORT") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let test = std::thread::current();
        writeln!(file, "{}: {verdict:?}", test.name().unwrap_or_default()).unwrap();
    }
}

async fn judge<S: Store, F: Future<Output = S>>(open: impl Fn() -> F, ledger: &Ledger, allowed: Loss) -> Verdict {
    let engine = Engine::open(open().await, Config::default()).await.unwrap();
    let client = engine.client("crash").unwrap();
    drain(&client).await;
    engine.shutdown().await;
    drop((engine, client));

    let store = open().await;
    let reported = losses(&store).await;
    assert!(allowed == Loss::IfReported || reported.is_empty(), "a loss was reported: {reported:?}");
    let engine = Engine::open(store, Config::default()).await.unwrap();
    let client = engine.client("crash").unwrap();
    let mut judge = Judge { client, reported, verdict: Verdict::default() };
    judge.submissions(ledger).await;
    judge.completions(ledger).await;
    judge.leases(ledger);
    judge.whole(ledger).await;
    engine.shutdown().await;
    judge.verdict.reported = judge.reported.len();
    judge.verdict
}

struct Judge {
    client: Client,
    reported: BTreeSet<PartitionId>,
    verdict: Verdict,
}

impl Judge {
    /// An acknowledged fact is missing: right only where a loss was told.
    fn lost(&mut self, id: ExecutionId, what: String) {
        assert!(self.reported.contains(&id.partition()), "{what}, and no loss was reported in {}", id.partition());
        self.verdict.lost += 1;
    }

    fn may_have_lost(&self, id: ExecutionId) -> bool {
        self.reported.contains(&id.partition())
    }

    async fn submissions(&mut self, ledger: &Ledger) {
        for (key, ids) in &ledger.submitted {
            let first = *ids.first().unwrap();
            assert!(ids.len() == 1 || self.may_have_lost(first), "the key {key} made several executions: {ids:?}");
            self.verdict.acknowledged += ids.len();
        }
        let client = self.client.clone();
        let ids = ledger.submitted.values().flatten();
        for (id, view) in at_once(ids, |id| {
            let client = client.clone();
            async move { client.get(id).await }
        })
        .await
        {
            match view {
                Ok(view) => assert_eq!(view.public_state, PublicState::Completed, "{id}"),
                Err(rejection) => self.lost(id, format!("{id} is lost ({rejection})")),
            }
        }
    }

    async fn completions(&mut self, ledger: &Ledger) {
        for (id, results) in &ledger.completed {
            assert!(results.len() == 1 || self.may_have_lost(*id), "{id} was completed twice: {results:?}");
            self.verdict.acknowledged += results.len();
        }
        let client = self.client.clone();
        let seen = |id| {
            let client = client.clone();
            async move { (client.result(id, 0).await, client.attempts(id, AttemptFilter::default()).await) }
        };
        for (id, (view, attempts)) in at_once(ledger.completed.keys(), seen).await {
            let results = &ledger.completed[&id];
            let (Ok(view), Ok(attempts)) = (view, attempts) else {
                self.lost(id, format!("the completion of {id} is lost"));
                continue;
            };
            assert_eq!(view.outcome, Outcome::Success, "{id}");
            let stored = view.bytes.unwrap_or_default();
            let missing = results.iter().filter(|result| result.as_bytes() != stored.as_ref()).count();
            for _ in 0..missing {
                self.lost(id, format!("{id} was acknowledged with {results:?} and has {stored:?}"));
            }
            let succeeded = attempts.attempts.iter().filter(|attempt| attempt.state == AttemptState::Succeeded).count();
            assert_eq!(succeeded, 1, "{id} has one successful attempt");
        }
    }

    /// An epoch is handed out once.
    fn leases(&self, ledger: &Ledger) {
        for ((id, epoch), leases) in &ledger.claimed {
            assert!(leases.len() == 1 || self.may_have_lost(*id), "{id} had two leases of epoch {epoch}: {leases:?}");
        }
    }

    async fn whole(&self, ledger: &Ledger) {
        let counts = self.client.count(ListFilter::default()).await.unwrap();
        let total: u64 = counts.values().sum();
        assert!(total <= ledger.begun, "{total} executions of {} submissions", ledger.begun);
        assert!(counts.keys().all(|(_, _, state)| *state == PublicState::Completed), "{counts:?}");
    }
}

/// Asks about many executions, some at a time.
async fn at_once<'a, T, F: Future<Output = T>>(
    ids: impl Iterator<Item = &'a ExecutionId>,
    ask: impl Fn(ExecutionId) -> F + Clone,
) -> Vec<(ExecutionId, T)> {
    let asked = ids.map(|id| {
        let answer = ask.clone()(*id);
        async move { (*id, answer.await) }
    });
    futures_util::stream::iter(asked).buffer_unordered(32).collect().await
}

/// The partitions whose feed tells of a loss.
async fn losses<S: Store>(store: &S) -> BTreeSet<PartitionId> {
    let mut reported = BTreeSet::new();
    for partition in (0..store.describe().partitions).map(PartitionId) {
        let mut range = Range::default();
        loop {
            let scan = Scan {
                target: Target::Feed,
                ranges: vec![range.clone()],
                limit: 500,
                descending: false,
                parts: Some(PartMask::ALL),
            };
            let page = store.scan(Some(partition), scan).await.unwrap().remove(0);
            for found in page.entries.iter().filter_map(|entry| entry.found.as_ref()) {
                let events = found.parts.iter().flat_map(|(_, bytes)| event::decode(bytes).unwrap());
                if events.into_iter().any(|event| matches!(event.fact, Fact::StoreDataLost { .. })) {
                    reported.insert(partition);
                }
            }
            match page.entries.into_iter().last().filter(|_| page.more) {
                Some(last) => range.after = Some(last.place),
                None => break,
            }
        }
    }
    reported
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
        if held.is_empty() {
            let counts = client.count(ListFilter::default()).await.unwrap();
            let left = counts.iter().filter(|((_, _, state), _)| !state.is_terminal());
            assert_eq!(left.count(), 0, "something is left that cannot be claimed: {counts:?}");
            return;
        }
        let completions = held.iter().map(|work| Completion::of(work).result("rest")).collect();
        for completed in client.complete_batch(completions).await {
            completed.unwrap();
        }
    }
}
