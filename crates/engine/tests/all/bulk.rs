use crate::kit::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_core::command::{CancelMode, DeadlineWish, Principal, Scopes, Steps};
use weft_core::filter::Filter;
use weft_core::limits::BULK_KEEP_MS;
use weft_core::record::Key;
use weft_core::record::bulk_job::{Role, Verb};
use weft_core::record::execution::PublicState;
use weft_core::schema::Kind;
use weft_core::{BulkId, ExecutionId, PartitionId};
use weft_engine::{BulkRequest, BulkState, BulkView, Claim, Client, Config, Engine, ListFilter, Submission};
use weft_store::faulty::Faults;
use weft_store::{Faulty, MemoryStore};

const PARTITIONS: u16 = 7;

fn cancel() -> Verb {
    Verb::Cancel { reason: "over".into(), mode: CancelMode::Immediate, cascade: true }
}

fn lane(lane: &str) -> Filter {
    Filter { lane: Some(lane.into()), ..Filter::default() }
}

/// So many executions, spread over all partitions.
async fn fill(client: &Client, lane: &str, count: usize) -> Vec<ExecutionId> {
    let item = |at: usize| Submission::new("mail").lane(lane).concurrency_key(format!("{lane}-{at}").into_bytes());
    let mut ids = Vec::new();
    for from in (0..count).step_by(500) {
        let items = (from..count.min(from + 500)).map(item).collect();
        for answer in client.submit_batch(items).await {
            ids.push(answer.expect("a good submission").id);
        }
    }
    let partitions: std::collections::BTreeSet<PartitionId> = ids.iter().map(|id| id.partition()).collect();
    assert!(count < 100 || partitions.len() == usize::from(PARTITIONS), "all partitions have some");
    ids
}

/// Waits for the end of a job; each look lets virtual time go on.
async fn ended(client: &Client, id: BulkId) -> BulkView {
    for _ in 0..2_000 {
        let view = client.bulk(id).await.expect("the job is there");
        assert!(view.counts.matched == view.counts.done + view.counts.refused.values().sum::<u64>(), "{view:?}");
        if view.ended_at.is_some() {
            return view;
        }
        pass(20).await;
    }
    panic!("the job has no end: {:?}", client.bulk(id).await);
}

async fn count(client: &Client, lane: &str, state: PublicState) -> u64 {
    let filter = ListFilter { lane: Some(lane.into()), states: vec![state], ..ListFilter::default() };
    client.count(filter).await.expect("a good filter").values().sum()
}

fn refused(view: &BulkView) -> Vec<(&str, u64)> {
    view.counts.refused.iter().map(|(code, count)| (&**code, *count)).collect()
}

#[tokio::test(start_paused = true)]
async fn api_40_a_verb_reaches_every_execution_of_its_filter_in_all_partitions() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    fill(&kit.client, "mail", 2_500).await;
    let others = fill(&kit.client, "other", 120).await;
    let started = kit.client.start_bulk(BulkRequest::new(lane("mail"), cancel())).await.unwrap();
    assert_eq!(started.partitions, usize::from(PARTITIONS));
    let view = ended(&kit.client, started.id).await;
    assert_eq!((view.state, view.counts.matched, view.counts.done), (BulkState::Done, 2_500, 2_500));
    assert_eq!(view.partitions_done, usize::from(PARTITIONS));
    assert_eq!(count(&kit.client, "mail", PublicState::Cancelled).await, 2_500);
    assert_eq!(count(&kit.client, "other", PublicState::Waiting).await, others.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn api_40_states_without_an_index_and_with_one_are_walked_alike() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    let ids = fill(&kit.client, "mail", 700).await;
    let states = |states: &[PublicState]| Filter { states: states.to_vec(), ..lane("mail") };
    let half = Filter { created_until: None, ..states(&[PublicState::Waiting]) };
    let hold = Verb::Hold { reason: "look".into(), revoke: false };
    let held = kit.client.start_bulk(BulkRequest::new(half, hold).max(300)).await.unwrap().id;
    assert_eq!(ended(&kit.client, held).await.counts.done, 300);
    let both = states(&[PublicState::Held, PublicState::Cancelled]);
    let cancelled = kit.client.start_bulk(BulkRequest::new(both, cancel())).await.unwrap().id;
    assert_eq!(ended(&kit.client, cancelled).await.counts.done, 300);
    let purged =
        kit.client.start_bulk(BulkRequest::new(lane("mail"), Verb::Purge { reason: "".into() })).await.unwrap().id;
    let view = ended(&kit.client, purged).await;
    assert_eq!((view.counts.done, refused(&view)), (300, vec![("execution_not_terminal", 400)]));
    assert_eq!(count(&kit.client, "mail", PublicState::Waiting).await, ids.len() as u64 - 300);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_dry_run_over_partitions_changes_nothing() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    fill(&kit.client, "mail", 600).await;
    let dry = kit.client.start_bulk(BulkRequest::new(lane("mail"), cancel()).dry_run()).await.unwrap().id;
    assert_eq!(ended(&kit.client, dry).await.counts.done, 600);
    assert_eq!(count(&kit.client, "mail", PublicState::Waiting).await, 600);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_maximum_is_exact_over_partitions() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    fill(&kit.client, "mail", 900).await;
    for (max, expected) in [(1, 1), (555, 555), (1_000, 344)] {
        let filter = Filter { states: vec![PublicState::Waiting], ..lane("mail") };
        let job = kit.client.start_bulk(BulkRequest::new(filter, cancel()).max(max)).await.unwrap().id;
        assert_eq!(ended(&kit.client, job).await.counts.done, expected);
    }
    assert_eq!(count(&kit.client, "mail", PublicState::Cancelled).await, 900);
}

/// Every call of the store takes a while, so that there is a middle in which things can happen.
fn slow() -> Faults {
    Faults { before_ms: (20, 20), ..Faults::default() }
}

async fn open_slow(store: &MemoryStore) -> (Arc<Faulty<MemoryStore>>, Engine, Client) {
    let (_, faulty, engine) = open_faulty_on(store.clone(), slow(), Config::default()).await;
    let client = engine.client("shop").unwrap();
    (faulty, engine, client)
}

fn replay() -> Verb {
    let (deadline, steps) = (DeadlineWish::Keep, Steps::Clear);
    Verb::Replay { reason: "again".into(), deadline, delay_ms: None, priority: None, steps }
}

/// How often each execution was replayed.
async fn replays(client: &Client, lane: &str) -> BTreeMap<u32, u64> {
    let mut replays = BTreeMap::new();
    let mut filter = ListFilter { lane: Some(lane.into()), limit: Some(1_000), ..ListFilter::default() };
    loop {
        let page = client.list(filter.clone()).await.expect("a good filter");
        for execution in &page.executions {
            *replays.entry(execution.hot.replays).or_default() += 1;
        }
        match page.next_cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => return replays,
        }
    }
}

/// Ended executions, which a replay changes once and only once.
async fn fill_ended(client: &Client, lane: &str, count: usize) {
    fill(client, lane, count).await;
    let all = client.start_bulk(BulkRequest::new(self::lane(lane), cancel())).await.unwrap().id;
    assert_eq!(ended(client, all).await.counts.done, count as u64);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_job_survives_restarts_and_meets_each_execution_once() {
    let store = memory(PARTITIONS);
    let (_, mut engine, mut client) = open_slow(&store).await;
    fill_ended(&client, "mail", 4_000).await;
    let job = client.start_bulk(BulkRequest::new(lane("mail"), replay())).await.unwrap().id;
    let (mut restarts, mut before) = (0, 0);
    // Whenever something more was done the engine goes down.
    let view = loop {
        let view = client.bulk(job).await.unwrap();
        if view.ended_at.is_some() {
            break view;
        }
        if view.counts.done > before {
            before = view.counts.done;
            engine.shutdown().await;
            (_, engine, client) = open_slow(&store).await;
            restarts += 1;
        }
        pass(5).await;
    };
    assert!(restarts > 1, "it was restarted {restarts} times in the middle");
    assert_eq!((view.counts.matched, view.counts.done), (4_000, 4_000));
    assert_eq!(replays(&client, "mail").await, BTreeMap::from([(1, 4_000)]));
}

fn shares(store: &MemoryStore) -> usize {
    let share = |key: &Key| matches!(key, Key::BulkJob(_, _, Role::Share));
    let of = |index| store.dump(PartitionId(index)).records.keys().filter(|key| share(key)).count();
    (0..PARTITIONS).map(of).sum()
}

#[tokio::test(start_paused = true)]
async fn api_40_a_crash_between_the_start_and_the_first_share_loses_nothing() {
    let store = memory(PARTITIONS);
    let (faulty, engine, client) = open_slow(&store).await;
    fill(&client, "mail", 400).await;
    let request = || BulkRequest::new(lane("mail"), cancel()).request_id("r-1");
    // The commit of the start arrives; its answer, and every later commit, does not.
    let lost = tokio::time::timeout(Duration::from_millis(25), client.start_bulk(request())).await;
    faulty.set_faults(Faults { commit_not_applied: 1000, ..slow() });
    assert!(lost.is_err(), "nobody was answered");
    pass(1_000).await;
    engine.shutdown().await;
    assert_eq!(shares(&store), 0, "no partition has heard of it");
    let (_, _engine, client) = open_slow(&store).await;
    let job = client.start_bulk(request()).await.unwrap();
    assert!(job.repeated, "it had been started");
    assert_eq!(ended(&client, job.id).await.counts.done, 400);
    assert_eq!(shares(&store), usize::from(PARTITIONS), "no share is made twice");
}

#[tokio::test(start_paused = true)]
async fn api_40_counts_stay_exact_when_the_store_fails() {
    let store = memory(PARTITIONS);
    let (faulty, _engine, client) = open_slow(&store).await;
    fill_ended(&client, "mail", 2_000).await;
    let job = client.start_bulk(BulkRequest::new(lane("mail"), replay()).max(1_500)).await.unwrap().id;
    faulty.set_faults(Faults {
        commit_unknown_applied: 150,
        commit_unknown_lost: 150,
        commit_not_applied: 100,
        commit_conflict: 100,
        ..slow()
    });
    pass(20_000).await;
    for _ in 0..200 {
        pass(100).await;
    }
    faulty.set_faults(slow());
    let view = ended(&client, job).await;
    assert_eq!((view.counts.matched, view.counts.done), (1_500, 1_500));
    assert_eq!(replays(&client, "mail").await, BTreeMap::from([(0, 500), (1, 1_500)]));
}

#[tokio::test(start_paused = true)]
async fn api_40_two_nodes_share_a_job_and_meet_each_execution_once() {
    let store = memory(PARTITIONS).shared();
    let (_, _one, client) = open_slow(&store).await;
    let (_, _two, _) = open_slow(&store).await;
    fill_ended(&client, "mail", 3_000).await;
    let job = client.start_bulk(BulkRequest::new(lane("mail"), replay())).await.unwrap().id;
    assert_eq!(ended(&client, job).await.counts.done, 3_000);
    assert_eq!(replays(&client, "mail").await, BTreeMap::from([(1, 3_000)]));
}

#[tokio::test(start_paused = true)]
async fn api_40_executions_that_are_added_during_the_walk_do_not_hang_it() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    fill(&kit.client, "mail", 1_500).await;
    let job = kit.client.start_bulk(BulkRequest::new(lane("mail"), cancel())).await.unwrap().id;
    let mut added = 0;
    let view = loop {
        for answer in kit.client.submit_batch((0..50).map(|_| Submission::new("mail").lane("mail")).collect()).await {
            answer.unwrap();
            added += 1;
        }
        let view = kit.client.bulk(job).await.unwrap();
        if view.ended_at.is_some() {
            break view;
        }
        assert!(added < 50_000, "the walk has an end: {view:?}");
        pass(1).await;
    };
    assert!((1_500..1_500 + added).contains(&view.counts.done), "{} of {added} more", view.counts.done);
    let cancelled = count(&kit.client, "mail", PublicState::Cancelled).await;
    assert_eq!(cancelled, view.counts.done, "no more was done than was counted");
}

#[tokio::test(start_paused = true)]
async fn api_40_a_stop_ends_a_job() {
    let store = memory(PARTITIONS);
    let (_, _engine, client) = open_slow(&store).await;
    fill(&client, "mail", 6_000).await;
    let job = client.start_bulk(BulkRequest::new(lane("mail"), cancel())).await.unwrap().id;
    assert_eq!(client.stop_bulk(job, None).await.unwrap().state, BulkState::Stopping);
    let view = ended(&client, job).await;
    assert_eq!(view.state, BulkState::Stopped);
    assert!(view.counts.done < 6_000, "it was stopped before its end");
    assert_eq!(count(&client, "mail", PublicState::Cancelled).await, view.counts.done);
    pass(60_000).await;
    assert_eq!(count(&client, "mail", PublicState::Cancelled).await, view.counts.done, "nothing follows");
    let again = client.stop_bulk(job, None).await.unwrap();
    assert_eq!(again.value, view, "stopping what has ended changes nothing");
}

#[tokio::test(start_paused = true)]
async fn api_40_a_repeated_start_is_the_same_job() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    fill(&kit.client, "mail", 20).await;
    let request = || BulkRequest::new(lane("mail"), cancel()).request_id("r-1");
    let first = kit.client.start_bulk(request()).await.unwrap();
    let second = kit.client.start_bulk(request()).await.unwrap();
    assert_eq!((first.id, second.repeated), (second.id, true));
    let other = kit.client.start_bulk(request().dry_run()).await;
    assert_eq!(other.unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(ended(&kit.client, first.id).await.counts.done, 20);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_job_belongs_to_its_namespace_and_needs_the_scope_operate() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    let job = kit.client.start_bulk(BulkRequest::new(Filter::default(), cancel())).await.unwrap().id;
    let stranger = kit.engine.client("other").unwrap();
    assert_eq!(stranger.bulk(job).await.unwrap_err().code(), "not_found");
    assert_eq!(stranger.stop_bulk(job, None).await.unwrap_err().code(), "not_found");
    let submitter = Principal { scopes: Scopes::SUBMIT, ..Principal::all("shop", "sam") };
    let submitter = kit.engine.client_as(submitter);
    let start = submitter.start_bulk(BulkRequest::new(Filter::default(), cancel()));
    assert_eq!(start.await.unwrap_err().code(), "forbidden");
    assert_eq!(submitter.bulk(job).await.unwrap_err().code(), "forbidden");
    let nowhere = BulkId::new(PartitionId(PARTITIONS), job.uuid());
    assert_eq!(kit.client.bulk(nowhere).await.unwrap_err().code(), "invalid_id");
}

#[tokio::test(start_paused = true)]
async fn api_40_workers_are_told_of_leases_that_end_in_bulk() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    kit.submit(Submission::new("mail").lane("mail")).await;
    let lanes = Claim::new("mailer", "mailer-1").lane("mail");
    assert_eq!(kit.client.claim(lanes).await.unwrap().executions.len(), 1);
    let mut notices = kit.client.notices("mailer-1");
    let job = kit.client.start_bulk(BulkRequest::new(lane("mail"), cancel())).await.unwrap().id;
    assert_eq!(ended(&kit.client, job).await.counts.done, 1);
    assert!(futures_util::FutureExt::now_or_never(notices.recv()).flatten().is_some(), "the worker hears of it");
}

#[tokio::test(start_paused = true)]
async fn api_40_a_job_is_gone_a_day_after_its_end() {
    let kit = open_with(PARTITIONS, Config::default()).await;
    let job = kit.client.start_bulk(BulkRequest::new(Filter::default(), cancel())).await.unwrap().id;
    ended(&kit.client, job).await;
    pass(BULK_KEEP_MS - 60_000).await;
    assert!(kit.client.bulk(job).await.is_ok(), "it is kept for a day");
    for _ in 0..100 {
        pass(5_000).await;
    }
    assert_eq!(kit.client.bulk(job).await.unwrap_err().code(), "not_found");
    let jobs =
        |index| kit.store.dump(PartitionId(index)).records.keys().filter(|key| key.kind() == Kind::BulkJob).count();
    assert_eq!((0..PARTITIONS).map(jobs).sum::<usize>(), 0, "and so are its shares");
}
