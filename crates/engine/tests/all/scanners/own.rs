//! Scanners of the embedding program, as the runner drives them.

use crate::kit::bench::Bench;
use crate::kit::kinds::Kind;
use crate::kit::{linger, memory};
use futures_util::future;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use weft_core::PartitionId;
use weft_core::filter::Filter as Wanted;
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::runtime::BoxFuture;
use weft_engine::scanner::{Report, ScanContext, Scanner};
use weft_engine::{Cancellation, Config, Engine, OpenError, Submission, TokioRuntime};

/// Cancels every execution that it may see, and keeps which pages it met.
#[derive(Clone, Default)]
struct Sweeper {
    pages: Arc<Mutex<Vec<usize>>>,
    partitions: Arc<Mutex<BTreeSet<PartitionId>>>,
}

impl Scanner for Sweeper {
    fn name(&self) -> &'static str {
        "sweeper"
    }

    fn interval_ms(&self) -> u64 {
        1_000
    }

    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
        let sweeper = self.clone();
        Box::pin(async move {
            let (mut report, mut cursor) = (Report::default(), None);
            sweeper.partitions.lock().unwrap().insert(partition);
            loop {
                let page = cx.page(partition, &Wanted::default(), cursor.as_ref()).await.unwrap();
                sweeper.pages.lock().unwrap().push(page.executions.len());
                for execution in page.executions.iter().filter(|execution| !execution.is_done()) {
                    let client = cx.client(&execution.spec.namespace).unwrap();
                    client.cancel(Cancellation::new(execution.id, "swept")).await.unwrap();
                    report.processed += 1;
                }
                cursor = page.next;
                if cursor.is_none() {
                    return report;
                }
            }
        })
    }
}

pub async fn sr_31_sr_92_it_sees_what_its_filter_covers_in_pages_and_acts_in_its_own_name(kind: impl Kind) {
    let sweeper = Sweeper::default();
    let filter = Filter { namespace: None, tag: Some(("team".into(), "a".into())) };
    let scanners = ScannerConfig {
        filters: [("sweeper", filter)].into(),
        own: vec![Arc::new(sweeper.clone())],
        ..ScannerConfig::default()
    };
    let bench = Bench::configured(&kind, scanners).await;
    let items = (0..600).map(|at| Submission::new("mail").tag("team", if at < 2 { "a" } else { "b" })).collect();
    let ids: Vec<_> = bench.client.submit_batch(items).await.into_iter().map(|answer| answer.unwrap().id).collect();
    let elsewhere = bench.engine.client("elsewhere").unwrap();
    let foreign = elsewhere.submit(Submission::new("mail").tag("team", "a")).await.unwrap().id;
    bench.pass(1_000).await;
    for _ in 0..20 {
        bench.pass(100).await;
    }
    let state = async |id| bench.client.get(id).await.unwrap().execution.public_state().name();
    assert_eq!((state(ids[0]).await, state(ids[1]).await, state(ids[2]).await), ("cancelled", "cancelled", "waiting"));
    let foreign = elsewhere.get(foreign).await.unwrap();
    assert_eq!(foreign.execution.public_state().name(), "cancelled", "every namespace");
    let pages = sweeper.pages.lock().unwrap().clone();
    assert!(pages.len() >= 2 && pages.iter().all(|count| *count <= 3), "500 are read at a time: {pages:?}");
    let history = bench.client.history(ids[0], None, 100).await.unwrap();
    assert!(format!("{history:?}").contains("scanner:sweeper"), "{history:?}");
    assert_eq!(bench.count("weft_scanner_items_total", &["sweeper", "processed"]), 3);
    assert!(bench.engine.scanners().any(|(name, _)| name == "sweeper"));
}

pub async fn sr_30_it_passes_over_every_partition_once_in_an_interval(kind: impl Kind) {
    let sweeper = Sweeper::default();
    let scanners = ScannerConfig { own: vec![Arc::new(sweeper.clone())], ..ScannerConfig::default() };
    let bench = Bench::configured_with(&kind, 4, scanners).await;
    for _ in 0..10 {
        bench.pass(100).await;
    }
    assert_eq!(sweeper.partitions.lock().unwrap().len(), 4);
    let passes = || sweeper.pages.lock().unwrap().len();
    let before = passes();
    for _ in 0..50 {
        bench.pass(100).await;
    }
    assert!((16..=24).contains(&(passes() - before)), "5 s, 4 partitions: {}", passes() - before);
    bench.engine.shutdown().await;
    let before = passes();
    bench.pass(5_000).await;
    assert_eq!(passes(), before, "stopped with the engine");
}

/// Its passes never end.
#[derive(Clone, Default)]
struct Endless(Arc<AtomicUsize>);

impl Scanner for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn interval_ms(&self) -> u64 {
        1_000
    }

    fn scan(&self, cx: ScanContext, _: PartitionId) -> BoxFuture<Report> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let _cx = cx;
            future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn sr_4_a_pass_that_never_ends_neither_holds_up_shutdown_nor_keeps_the_store_open() {
    let endless = Endless::default();
    let scanners = ScannerConfig { own: vec![Arc::new(endless.clone())], ..ScannerConfig::default() };
    let store = Arc::new(memory(2));
    let open = Arc::downgrade(&store);
    let config = Config { scanners, ..Config::default() };
    let engine = Engine::open_on(store, config, Arc::new(TokioRuntime::current())).await.unwrap();
    linger(2_000).await;
    assert_eq!(endless.0.load(Ordering::SeqCst), 2);
    let began = Instant::now();
    engine.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    drop(engine);
    assert!(open.upgrade().is_none(), "another engine may open the store");
}

pub async fn sr_30_an_engine_does_not_open_with_a_scanner_that_cannot_run(kind: impl Kind) {
    let own: Vec<Arc<dyn Scanner>> = vec![Arc::new(Sweeper::default()), Arc::new(Sweeper::default())];
    let scanners = ScannerConfig { own, ..ScannerConfig::default() };
    let config = Config { scanners, ..Config::default() };
    match Engine::open(kind.open().await, config).await {
        Err(OpenError::Scanner { name: "sweeper", .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}
