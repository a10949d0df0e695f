//! Each fault does what it says, and the same seed brings the same faults.

use crate::{P0, commit_id, insert, key, memory};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use weft_core::PartitionId;
use weft_core::schema::{Kind, PartMask};
use weft_store::faulty::{Faults, Sleeper};
use weft_store::{Error, Faulty, MemoryStore, Outcome, Range, Resolution, Scan, Store, Target};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Sleeps take no time and are written down; tasks wait until they are run.
#[derive(Default)]
pub struct Tasks {
    slept: Mutex<Vec<u64>>,
    waiting: Mutex<Vec<Task>>,
}

impl Sleeper for Tasks {
    fn sleep(&self, ms: u64) -> Task {
        self.slept.lock().expect("no test panics under this lock").push(ms);
        Box::pin(async {})
    }

    fn spawn(&self, task: Task) {
        self.waiting.lock().expect("no test panics under this lock").push(task);
    }
}

impl Tasks {
    async fn run(&self) {
        let tasks: Vec<Task> = self.waiting.lock().expect("no test panics under this lock").drain(..).collect();
        for task in tasks {
            task.await;
        }
    }
}

fn faulty(faults: Faults) -> (Faulty<MemoryStore>, Arc<Tasks>) {
    let tasks = Arc::new(Tasks::default());
    (Faulty::new(Arc::new(memory(4)), faults, 1, tasks.clone()), tasks)
}

/// The store behind the faults has the record that `insert(number)` writes.
fn has(store: &Faulty<MemoryStore>, number: u8) -> bool {
    store.inner().dump(P0).records.contains_key(&key(number))
}

fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unknown { .. })
}

#[tokio::test]
async fn without_faults_nothing_happens() {
    let (store, tasks) = faulty(Faults::default());
    assert!(matches!(store.commit(P0, insert(1)).await, Outcome::Applied { .. }));
    assert!(has(&store, 1) && store.counts().is_empty());
    assert!(tasks.slept.lock().expect("no test panics under this lock").is_empty(), "nothing waits for no time");
}

#[tokio::test]
async fn commits_are_denied() {
    let (store, _) = faulty(Faults { commit_conflict: 1000, ..Faults::default() });
    let outcome = store.commit(P0, insert(1)).await;
    let Outcome::Conflict { keys, head } = outcome else { panic!("{outcome:?}") };
    assert_eq!((keys, head), (vec![key(1)], store.inner().dump(P0).head));
    store.set_faults(Faults { commit_not_applied: 1000, ..Faults::default() });
    assert!(matches!(store.commit(P0, insert(1)).await, Outcome::NotApplied { .. }));
    assert_eq!(store.inner().dump(P0), memory(4).dump(P0), "neither was carried out");
    assert_eq!(store.counts(), BTreeMap::from([("commit_conflict", 1), ("commit_not_applied", 1)]));
}

#[tokio::test]
async fn answers_and_commits_are_lost() {
    let (store, _) = faulty(Faults { commit_unknown_applied: 1000, ..Faults::default() });
    assert!(is_unknown(&store.commit(P0, insert(1)).await) && has(&store, 1), "carried out, the answer lost");
    assert!(matches!(store.resolve(P0, commit_id(1)).await, Ok(Resolution::Applied { .. })));
    store.set_faults(Faults { commit_unknown_lost: 1000, ..Faults::default() });
    assert!(is_unknown(&store.commit(P0, insert(2)).await) && !has(&store, 2), "lost on the way");
    assert!(matches!(store.resolve(P0, commit_id(2)).await, Ok(Resolution::NotApplied)));
}

#[tokio::test]
async fn late_commits_arrive_unless_barred() {
    let (store, tasks) = faulty(Faults { commit_late: 1000, late_ms: (70, 90), ..Faults::default() });
    for number in [1, 2] {
        assert!(is_unknown(&store.commit(P0, insert(number)).await) && !has(&store, number), "the sender gave up");
    }
    assert!(matches!(store.resolve(P0, commit_id(2)).await, Ok(Resolution::NotApplied)));
    tasks.run().await;
    assert!(has(&store, 1), "it arrived after all");
    assert!(!has(&store, 2), "`resolve` closed the door");
    assert!(tasks.slept.lock().expect("no test panics under this lock").iter().all(|ms| (70..=90).contains(ms)));
    let counts = store.counts();
    assert_eq!((counts["commit_late_applied"], counts["commit_late_refused"]), (1, 1));
}

#[tokio::test]
async fn ri_3_a_commit_carried_out_twice_is_applied_once() {
    let (store, _) = faulty(Faults { commit_twice: 1000, ..Faults::default() });
    assert!(matches!(store.commit(P0, insert(1)).await, Outcome::Applied { .. }));
    assert_eq!((store.inner().commits(), store.inner().dump(P0).feed.len()), (1, 1));
    assert_eq!(store.counts(), BTreeMap::from([("commit_twice", 1)]));
}

#[tokio::test]
async fn reads_fail() {
    let (store, _) = faulty(Faults { read_error: 1000, ..Faults::default() });
    assert!(matches!(store.read(P0, Vec::new()).await, Err(Error::Unavailable(_))));
    assert!(matches!(store.scan(None, everything()).await, Err(Error::Unavailable(_))));
    assert!(matches!(store.now().await, Err(Error::Unavailable(_))));
    assert_eq!(store.counts()["read_error"], 3);
}

#[tokio::test]
async fn resolves_fail_before_or_after_their_work() {
    let (store, _) = faulty(Faults { resolve_error: 1000, ..Faults::default() });
    assert!(matches!(store.resolve(P0, commit_id(1)).await, Err(Error::Unavailable(_))));
    assert!(store.inner().dump(P0).barred.is_empty(), "it did nothing");
    store.set_faults(Faults { resolve_unknown: 1000, ..Faults::default() });
    assert!(matches!(store.resolve(P0, commit_id(1)).await, Err(Error::Indeterminate(_))));
    assert!(store.inner().dump(P0).barred.contains(&commit_id(1)), "it did its work");
}

#[tokio::test]
async fn sr_10_a_silent_partition_answers_nothing_and_every_other_goes_on() {
    let silent = PartitionId(1);
    let (store, tasks) = faulty(Faults { silent: Some(silent), slow_ms: (70, 90), ..Faults::default() });
    assert!(matches!(store.commit(P0, insert(1)).await, Outcome::Applied { .. }) && has(&store, 1));
    assert!(store.read(P0, Vec::new()).await.is_ok() && store.scan(Some(P0), everything()).await.is_ok());
    assert!(store.now().await.is_ok() && tasks.slept.lock().expect("no test panics under this lock").is_empty());
    assert!(is_unknown(&store.commit(silent, insert(2)).await));
    assert!(store.read(silent, Vec::new()).await.is_err() && store.resolve(silent, commit_id(2)).await.is_err());
    assert!(store.scan(Some(silent), everything()).await.is_err() && store.scan(None, everything()).await.is_err());
    assert_eq!(store.counts()["silence"], 5);
    assert_eq!(store.inner().commits(), 1, "neither the commit nor its bar arrived");
}

fn everything() -> Scan {
    let target = Target::Records(Kind::Dedup);
    Scan { target, ranges: vec![Range::default()], limit: 100, descending: false, parts: Some(PartMask::ALL) }
}

#[tokio::test]
async fn cut_pages_can_be_gone_on_from() {
    let (store, _) = faulty(Faults { page_cut: 1000, ..Faults::default() });
    for number in 0..10 {
        store.commit(P0, insert(number)).await;
    }
    let (mut scan, mut all) = (everything(), Vec::new());
    loop {
        let page = store.scan(Some(P0), scan.clone()).await.unwrap().remove(0);
        assert!(!page.entries.is_empty(), "there is always something to go on from");
        all.extend(page.entries.iter().filter_map(|entry| entry.key()));
        if !page.more {
            break;
        }
        scan.ranges[0].after = page.entries.last().map(|entry| entry.place.clone());
    }
    assert_eq!(all, (0..10).map(key).collect::<Vec<_>>());
    assert!(store.counts()["page_cut"] > 0);
}

#[tokio::test]
async fn calls_take_their_time() {
    let faults = Faults { before_ms: (5, 5), after_ms: (7, 7), slow: 1000, slow_ms: (100, 100), ..Faults::default() };
    let (store, tasks) = faulty(faults);
    store.commit(P0, insert(1)).await;
    store.now().await.unwrap();
    assert_eq!(
        *tasks.slept.lock().expect("no test panics under this lock"),
        [105, 7, 105, 7],
        "before the work, slow, and after it"
    );
    assert_eq!(store.counts()["slow"], 2);
}

async fn wakes(faults: Faults) -> Vec<PartitionId> {
    let tasks = Arc::new(Tasks::default());
    let one = memory(64).shared();
    let store = Faulty::new(Arc::new(one.node_handle()), faults, 3, tasks.clone());
    let mut wakes = store.watch();
    for number in 0..20 {
        let mut batch = insert(number);
        batch.lanes = vec![("space".into(), "mail".into())];
        one.commit(P0, batch).await;
    }
    // With the last handle gone the watch ends, and so does the task that carries it.
    drop((store, one));
    tasks.run().await;
    std::iter::from_fn(|| wakes.try_recv().ok()).map(|wake| wake.partition).collect()
}

#[tokio::test]
async fn wakes_are_lost_doubled_and_led_astray() {
    assert_eq!(wakes(Faults::default()).await, [P0; 20]);
    assert_eq!(wakes(Faults { wake_lost: 1000, ..Faults::default() }).await, []);
    assert_eq!(wakes(Faults { wake_doubled: 1000, ..Faults::default() }).await, [P0; 40]);
    let astray = wakes(Faults { wake_astray: 1000, ..Faults::default() }).await;
    assert!(astray.len() == 20 && astray.iter().any(|partition| *partition != P0));
}

/// What happened to two hundred commits under a mixture of faults.
async fn history(seed: u64) -> (Vec<String>, Vec<u64>, BTreeMap<&'static str, u64>) {
    let faults = Faults {
        commit_conflict: 100,
        commit_not_applied: 100,
        commit_unknown_applied: 100,
        commit_unknown_lost: 100,
        commit_late: 100,
        commit_twice: 100,
        read_error: 200,
        resolve_error: 200,
        resolve_unknown: 200,
        slow: 100,
        slow_ms: (100, 900),
        before_ms: (0, 9),
        after_ms: (0, 9),
        late_ms: (0, 50),
        ..Faults::default()
    };
    let tasks = Arc::new(Tasks::default());
    let store = Faulty::new(Arc::new(memory(1)), faults, seed, tasks.clone());
    let mut log = Vec::new();
    for number in 0..200 {
        log.push(format!("{:?}", store.commit(P0, insert(number)).await));
        log.push(format!("{:?}", store.resolve(P0, commit_id(number.into())).await));
        log.push(format!("{:?}", store.read(P0, Vec::new()).await));
        tasks.run().await;
    }
    let slept = tasks.slept.lock().expect("no test panics under this lock").clone();
    (log, slept, store.counts())
}

#[tokio::test]
async fn ri_18_the_same_seed_brings_the_same_faults() {
    assert_eq!(history(5).await, history(5).await);
    assert_ne!(history(5).await.0, history(6).await.0);
    let counts = history(5).await.2;
    let rates = ["commit_conflict", "commit_not_applied", "commit_unknown_applied", "commit_unknown_lost"];
    for name in rates.into_iter().chain(["commit_late", "commit_twice"]) {
        assert!((5..=40).contains(&counts[name]), "a tenth of two hundred commits meet {name}: {}", counts[name]);
    }
}
