use crate::kit::*;
use std::collections::BTreeSet;
use weft_core::record::execution::{Policy, PublicState};
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::telemetry::{FAMILIES, Reading};
use weft_engine::{Completion, Config, Engine, Failing, Holding, Renewal, Submission};
use weft_store::faulty::Faults;

/// The reading of a metric with these labels.
fn reading(engine: &Engine, name: &str, labels: &[&str]) -> Option<Reading> {
    let all = engine.metrics();
    let readings = all.iter().find(|readings| readings.family.name == name).expect("a metric of the table");
    let sample =
        readings.samples.iter().find(|(values, _)| values.iter().map(|value| &**value).eq(labels.iter().copied()));
    sample.map(|(_, reading)| reading.clone())
}

fn count(engine: &Engine, name: &str, labels: &[&str]) -> u64 {
    match reading(engine, name, labels) {
        Some(Reading::Count(count)) => count,
        None => 0,
        other => panic!("`{name}` is no counter: {other:?}"),
    }
}

fn level(engine: &Engine, name: &str, labels: &[&str]) -> Option<f64> {
    match reading(engine, name, labels)? {
        Reading::Level(level) => Some(level),
        other => panic!("`{name}` is no gauge: {other:?}"),
    }
}

/// How many there are, and their sum in seconds.
fn spread(engine: &Engine, name: &str, labels: &[&str]) -> (u64, f64) {
    match reading(engine, name, labels) {
        Some(Reading::Spread { buckets, sum }) => (buckets.iter().map(|(_, count)| count).sum(), sum),
        other => panic!("`{name}` is no histogram: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn ops_10_every_family_is_told_once_with_its_labels() {
    let kit = open().await;
    kit.submit(Submission::new("mail")).await;
    let all = kit.engine.metrics();
    let told: Vec<&str> = all.iter().map(|readings| readings.family.name).collect();
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>().len(), told.len());
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), FAMILIES.iter().map(|family| family.name).collect());
    for readings in &all {
        for (labels, _) in &readings.samples {
            assert_eq!(labels.len(), readings.family.labels.len(), "{}", readings.family.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ops_10_a_life_is_counted_and_timed_by_lane() {
    let kit = open().await;
    let engine = &kit.engine;
    kit.submit(Submission::new("send").lane("mail")).await;
    pass(3_000).await;
    let work = kit.client.claim(worker().lane("mail")).await.unwrap().executions.remove(0);
    pass(2_000).await;
    kit.client.renew(Renewal::of(&work)).await.unwrap();
    kit.client.fail(Failing::of(&work).category("crash").message("no route").after_ms(1_000)).await.unwrap();
    let waiting = kit.client.claim(worker().lane("mail").wait_ms(5_000)).await.unwrap();
    kit.client.complete(Completion::of(&waiting.executions[0])).await.unwrap();

    assert_eq!(count(engine, "weft_submitted_total", &["mail"]), 1);
    assert_eq!(count(engine, "weft_claimed_total", &["mail", "initial"]), 1);
    assert_eq!(count(engine, "weft_claimed_total", &["mail", "retry"]), 1);
    assert_eq!(count(engine, "weft_retries_total", &["mail"]), 1);
    assert_eq!(count(engine, "weft_finished_total", &["mail", "success"]), 1);
    assert_eq!(count(engine, "weft_renewals_total", &["renewed"]), 1);
    let (waits, waited) = spread(engine, "weft_queue_wait_seconds", &["mail"]);
    assert!(waits == 2 && (3.0..3.1).contains(&waited), "{waits} waits of {waited} s");
    let (runs, ran) = spread(engine, "weft_run_seconds", &["mail"]);
    assert!(runs == 2 && (2.0..2.1).contains(&ran), "{runs} runs of {ran} s");
    let (lives, lived) = spread(engine, "weft_end_to_end_seconds", &["mail"]);
    assert!(lives == 1 && (6.0..6.2).contains(&lived), "{lives} lives of {lived} s");
    assert_eq!(spread(engine, "weft_claim_seconds", &["work"]).0, 2);
    assert_eq!(level(engine, "weft_claims_waiting", &[]), Some(0.0));
    assert_eq!(count(engine, "weft_scanner_items_total", &["delayed_promoter", "processed"]), 1);
    assert_eq!(spread(engine, "weft_scanner_lateness_seconds", &["delayed_promoter"]).0, 1);
    let commits = engine.stats().commits;
    assert_eq!(count(engine, "weft_commits_total", &["applied"]), commits);
    assert_eq!(spread(engine, "weft_store_call_seconds", &["commit"]).0, commits);
    assert_eq!(spread(engine, "weft_commit_seconds", &[]).0, commits);
}

#[tokio::test(start_paused = true)]
async fn ops_10_a_hand_off_a_waiting_claim_and_a_lost_lease_are_counted() {
    let kit = open().await;
    let client = kit.client.clone();
    let claim = tokio::spawn(async move { client.claim(worker().lease_ms(1_000).wait_ms(10_000)).await });
    pass(10).await;
    assert_eq!(level(&kit.engine, "weft_claims_waiting", &[]), Some(1.0));
    kit.submit(Submission::new("send")).await;
    claim.await.unwrap().unwrap();
    assert_eq!(count(&kit.engine, "weft_handoffs_total", &[]), 1);
    kit.client.claim(worker().wait_ms(10_000)).await.unwrap();
    assert_eq!(count(&kit.engine, "weft_leases_lost_total", &["expired"]), 1);
    assert_eq!(count(&kit.engine, "weft_claimed_total", &["default", "reclaim"]), 1);
    assert_eq!(count(&kit.engine, "weft_handoffs_total", &[]), 1, "it was not submitted by that commit");
}

#[tokio::test(start_paused = true)]
async fn ops_10_what_did_not_happen_is_not_counted_as_work() {
    let faults = Faults { commit_not_applied: 1000, ..Faults::default() };
    let (_store, faulty, engine) = open_faulty(faults, Config::default()).await;
    let client = engine.client("shop").unwrap();
    client.submit(Submission::new("mail")).await.unwrap_err();
    assert_eq!(count(&engine, "weft_submitted_total", &["default"]), 0);
    assert_eq!(count(&engine, "weft_commits_total", &["not_applied"]), 1);
    assert_eq!(count(&engine, "weft_store_calls_total", &["commit", "error"]), 1);
    faulty.set_faults(Faults::default());
    client.submit(Submission::new("mail")).await.unwrap();
    assert_eq!(count(&engine, "weft_submitted_total", &["default"]), 1);
}

#[tokio::test(start_paused = true)]
async fn ops_10_depths_are_counted_in_the_background_and_kept_for_ten_seconds() {
    let kit = open_with(4, Config::default()).await;
    for _ in 0..5 {
        kit.submit(Submission::new("send").lane("mail")).await;
    }
    kit.submit(Submission::new("send").lane("mail").delay_ms(60_000)).await;
    let held = kit.submit(Submission::new("send").lane("slow")).await;
    kit.client.hold(Holding::new(held, "look first")).await.unwrap();
    kit.client.claim(worker().lane("mail").lease_ms(600_000)).await.unwrap();
    pass(7_000).await;
    assert_eq!(level(&kit.engine, "weft_executions", &["mail", "waiting"]), None, "nobody has asked yet");
    pass(100).await;
    let scans = kit.engine.stats().scans;
    for (lane, state, expected) in
        [("mail", "waiting", 4.0), ("mail", "delayed", 1.0), ("mail", "active", 1.0), ("slow", "held", 1.0)]
    {
        assert_eq!(level(&kit.engine, "weft_executions", &[lane, state]), Some(expected), "{lane} {state}");
    }
    let oldest = level(&kit.engine, "weft_queue_oldest_seconds", &["mail"]).unwrap();
    assert!((7.0..7.2).contains(&oldest), "{oldest}");
    assert_eq!(kit.engine.stats().scans, scans, "fresh numbers cost the store nothing");
    kit.client.claim(worker().lane("mail").max(4)).await.unwrap();
    pass(10_000).await;
    kit.engine.metrics();
    pass(100).await;
    assert_eq!(level(&kit.engine, "weft_executions", &["mail", "waiting"]), None, "none are left");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_sees_its_own_work_and_nothing_of_another() {
    let kit = open().await;
    let other = kit.engine.client("bank").unwrap();
    kit.submit(Submission::new("send").lane("mail")).await;
    other.submit(Submission::new("wire").lane("money")).await.unwrap();
    other.submit(Submission::new("wire").lane("money")).await.unwrap();
    let work = other.claim(worker().lane("money")).await.unwrap().executions.remove(0);
    other.fail(Failing::of(&work).category("crash").message("secret of the bank").never()).await.unwrap();
    other.claim(worker().lane("money")).await.unwrap();

    let (shop, bank) = (kit.client.activity(), other.activity());
    assert!(shop.failures.is_empty() && bank.failures.len() == 1, "{shop:?} {bank:?}");
    assert_eq!(shop.lanes.keys().map(|lane| &**lane).collect::<Vec<_>>(), ["mail"]);
    assert_eq!((shop.windows[0].queue_wait.count, bank.windows[0].queue_wait.count), (0, 2));
    assert_eq!((bank.failures[0].attempt, &*bank.failures[0].message), (0, "secret of the bank"));

    let (shop, bank) = (kit.client.depths().await.unwrap(), other.depths().await.unwrap());
    assert!(shop.running.is_empty() && bank.running.len() == 1);
    assert_eq!(shop.lanes.keys().map(|lane| &**lane).collect::<Vec<_>>(), ["mail"]);
    assert_eq!(bank.lanes["money"].states.get(&PublicState::Active), Some(&1));
    assert!(shop.workers.is_empty() && bank.workers.len() == 1, "{shop:?} {bank:?}");
}

#[tokio::test(start_paused = true)]
async fn ops_10_refused_claims_and_wanted_capabilities_are_counted() {
    let kit = open().await;
    for capability in ["gpu", "gpu", "tpu"] {
        kit.submit(Submission::new("train").lane("ml").needs(capability)).await;
    }
    let refused = kit.client.claim(worker().session(7)).await.unwrap_err();
    assert_eq!(count(&kit.engine, "weft_claim_refusals_total", &[refused.code()]), 1);
    kit.engine.metrics();
    pass(100).await;
    assert_eq!(level(&kit.engine, "weft_capability_sets", &["ml"]), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn sr_41_what_scanners_have_before_them_is_counted_after_a_look_without_a_scrape() {
    // The scanners of this node leave the work to others, so that there is something to count.
    let filter = Filter { namespace: Some("elsewhere".into()), tag: None };
    let scanners = ScannerConfig { filter, ..ScannerConfig::default() };
    let kit = open_with(4, Config { scanners, ..Config::default() }).await;
    for retention_ms in [1_000, 1_000, 600_000] {
        let policy = Policy { retention_ms: Some(retention_ms), ..Policy::default() };
        kit.submit(Submission::new("send").policy(policy)).await;
        let work = kit.client.claim(worker()).await.unwrap().executions.remove(0);
        kit.client.complete(Completion::of(&work)).await.unwrap();
    }
    // No scrape is needed: a look meets them, and they are counted.
    linger(35_000).await;
    assert_eq!(level(&kit.engine, "weft_retention_backlog", &[]), Some(2.0));
    assert_eq!(level(&kit.engine, "weft_cancel_backlog", &[]), Some(0.0));
    assert_eq!(level(&kit.engine, "weft_continuations", &[]), Some(0.0));
    pass(100).await;
    assert_eq!(level(&kit.engine, "weft_scanner_parked", &["lease_expiry"]), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn ops_10_flows_are_counted_and_timed() {
    use crate::kit::flows::{claim_all, work, work_off};
    use weft_engine::flow::FlowSubmission;
    let kit = open().await;
    let engine = &kit.engine;
    let flow = || FlowSubmission::new("v").member("u", work()).member("d", work()).edge("u", "d");
    kit.client.submit_flow(flow()).await.unwrap();
    let first = claim_all(&kit.client, 1).await.remove(0);
    pass(2_000).await;
    kit.client.complete(Completion::of(&first)).await.unwrap();
    work_off(&kit.client).await;
    kit.client.submit_flow(flow()).await.unwrap();
    let first = claim_all(&kit.client, 1).await.remove(0);
    kit.client.fail(Failing::of(&first)).await.unwrap();
    assert_eq!(count(engine, "weft_flows_finished_total", &["completed"]), 1);
    assert_eq!(count(engine, "weft_flows_finished_total", &["failed"]), 1);
    let (ended, took) = spread(engine, "weft_flow_finish_seconds", &[]);
    assert!(ended == 2 && (2.0..2.1).contains(&took), "{ended} flows took {took} s");
    assert_eq!(count(engine, "weft_edges_resolved_total", &["met"]), 1);
    assert_eq!(count(engine, "weft_edges_resolved_total", &["unmet"]), 1);
    assert_eq!(count(engine, "weft_groups_decided_total", &["all_of", "satisfied"]), 1);
    assert_eq!(count(engine, "weft_groups_decided_total", &["all_of", "impossible"]), 1);
    assert_eq!(count(engine, "weft_members_skipped_total", &[]), 1);
    assert_eq!(count(engine, "weft_flow_summary_repairs_total", &[]), 0);
    assert_eq!(count(engine, "weft_dependency_repairs_total", &[]), 0);
}
