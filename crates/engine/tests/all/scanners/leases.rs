//! The leases of processes that are dead, when some of their records or partitions cannot be read.

use crate::kit::bench::Bench;
use crate::kit::kinds::Kind;
use crate::kit::probe::Asked;
use crate::kit::{plant, worker};
use std::collections::BTreeMap;
use weft_core::record::{Key, Record};
use weft_core::reply::Claimed;
use weft_core::schema::{Kind as Table, PartMask, execution as schema};
use weft_core::{ExecutionId, PartitionId};
use weft_engine::config::Filter;
use weft_engine::worker::Registration;
use weft_engine::{Claim, Submission};
use weft_store::Store;

const LONG_MS: u64 = 600_000;

/// Submits `count` executions whose keys spread them over all partitions.
async fn submit(bench: &Bench<impl Store>, from: usize, count: usize) {
    for number in from..from + count {
        bench.client.submit(Submission::new("mail").idempotency_key(format!("k{number}"))).await.unwrap();
    }
}

/// Claims `count` executions, in as many calls as that takes.
async fn claim(bench: &Bench<impl Store>, claim: Claim, count: usize) -> Vec<Claimed> {
    let mut held = Vec::new();
    for _ in 0..1_000 {
        if held.len() == count {
            // What the registry is to know of a process that only claims is written.
            bench.pass(2_000).await;
            return held;
        }
        let max = count - held.len();
        held.extend(bench.client.claim(Claim { max, ..claim.clone().lease_ms(LONG_MS) }).await.unwrap().executions);
    }
    panic!("{} executions, not {count}", held.len());
}

/// How many of these executions are leased.
async fn leased(bench: &Bench<impl Store>, ids: impl IntoIterator<Item = ExecutionId>) -> usize {
    let mut leased = 0;
    for id in ids {
        leased += usize::from(plant::execution(&*bench.store, id).await.lease().is_some());
    }
    leased
}

pub async fn sr_26_one_damaged_lease_keeps_no_other_lease_of_a_dead_process(kind: impl Kind) {
    let bench = Bench::with(&kind, 2, Filter::NONE).await;
    submit(&bench, 0, 6).await;
    let damaged = claim(&bench, worker(), 2).await;
    let healthy = claim(&bench, Claim::new("mailer", "mailer-2"), 2).await;
    let registration = Registration::new("mailer", "mailer-3", "boot").lane("default");
    let session = bench.client.register(registration).await.unwrap().worker.session;
    let indexed = claim(&bench, Claim::new("mailer", "mailer-3").session(session), 2).await;
    bench.engine.shutdown().await;
    // One of a later version, one damaged, one damaged in the index of holders.
    plant::overwrite(&*bench.store, Key::Execution(damaged[0].id), schema::HOT, b"\x7flater").await;
    plant::damage(&*bench.store, Key::Execution(damaged[1].id), schema::HOT).await;
    plant::damage(&*bench.store, Key::Execution(indexed[0].id), schema::HOT).await;
    let bench = bench.another().await;
    assert_eq!(bench.client.mark_dead("mailer-2", "gone").await.unwrap(), 2);
    assert_eq!(leased(&bench, healthy.iter().map(|work| work.id)).await, 0);
    assert_eq!(bench.client.mark_dead("mailer-3", "gone").await.unwrap(), 1, "by the index of holders");
    assert_eq!(leased(&bench, [indexed[1].id]).await, 0);
    assert_eq!(bench.client.mark_dead("mailer-1", "gone").await.unwrap(), 0, "its own do not decode");
}

/// The registered or entered processes of each partition.
async fn homes(bench: &Bench<impl Store>, partitions: u16) -> BTreeMap<PartitionId, Vec<String>> {
    let mut homes: BTreeMap<PartitionId, Vec<String>> = BTreeMap::new();
    for partition in (0..partitions).map(PartitionId) {
        for (key, found) in plant::records_of(&*bench.store, partition, Table::Worker).await {
            let Ok(Record::Worker(worker)) = Record::decode(key, &found.parts, PartMask::ALL) else {
                panic!("{key:?}")
            };
            homes.entry(partition).or_default().push(worker.body.instance.to_string());
        }
    }
    homes
}

pub async fn sr_10_a_silent_partition_keeps_no_lease_of_a_dead_process_elsewhere(kind: impl Kind) {
    let bench = Bench::with(&kind, 3, Filter::NONE).await;
    submit(&bench, 0, 42).await;
    let mut held: BTreeMap<String, Vec<ExecutionId>> = BTreeMap::new();
    for number in 0..7 {
        let instance = format!("mailer-{number}");
        let some = claim(&bench, Claim::new("mailer", instance.clone()), 6).await;
        held.insert(instance, some.iter().map(|work| work.id).collect());
    }
    let homes = homes(&bench, 3).await;
    let (home, instances) = homes.iter().max_by_key(|(_, instances)| instances.len()).expect("some are entered");
    assert!(instances.len() >= 3, "seven in three partitions");
    let silent = (0..3).map(PartitionId).find(|partition| partition != home).expect("another one");
    let bench = bench.again().await;
    bench.probe.refuse(move |asked| match asked {
        Asked::Read(of, _) | Asked::Commit(of, _) | Asked::Scan(Some(of), _) => *of == silent,
        Asked::Scan(None, _) => true,
        Asked::Now => false,
    });
    let mut elsewhere = 0;
    for instance in instances {
        let of_others = held[instance].iter().filter(|id| id.partition() != silent).count();
        elsewhere += of_others;
        assert_eq!(bench.client.mark_dead(&**instance, "gone").await.unwrap() as usize, of_others, "{instance}");
    }
    assert!(elsewhere > 0);
    let all = || instances.iter().flat_map(|instance| held[instance].iter().copied());
    let left = all().filter(|id| id.partition() == silent).count();
    assert_eq!(leased(&bench, all()).await, left, "those that answer have none left");

    // A pass asks the silent partition for the first process and for none of the others.
    bench.pass(12_000).await;
    bench.asked().await;
    let report = bench.engine.scan("worker_reaper", *home).await.expect("a scanner of that name");
    assert!(report.errors as usize >= instances.len(), "SR-15 {report:?}");
    let asked = bench.asked().await;
    let joint = asked.iter().filter(|asked| matches!(asked, Asked::Scan(None, _))).count();
    let alone = asked.iter().filter(|asked| matches!(asked, Asked::Scan(Some(of), _) if *of == silent)).count();
    assert_eq!((joint, alone), (1, 1), "for {} processes", instances.len());
    for instance in instances {
        assert!(bench.client.worker(&**instance).await.unwrap().owed.is_some(), "{instance} still owes what is left");
    }
    bench.probe.obey();
    bench.pass(2_000).await;
    bench.engine.scan("worker_reaper", *home).await.expect("a scanner of that name");
    assert_eq!(leased(&bench, all()).await, 0, "it answers again");
}

pub async fn sr_10_a_pass_waits_for_an_outage_once_and_not_for_each_process(kind: impl Kind) {
    let bench = Bench::with(&kind, 1, Filter::NONE).await;
    submit(&bench, 0, 4).await;
    let instances = ["mailer-1", "mailer-2", "mailer-3", "mailer-4"];
    for instance in instances {
        claim(&bench, Claim::new("mailer", instance), 1).await;
    }
    let bench = bench.again().await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Scan(_, scan) if scan.limit == 1_000));
    for instance in instances {
        assert_eq!(bench.client.mark_dead(instance, "gone").await.unwrap_err().code(), "unavailable");
    }
    bench.pass(2_000).await;
    bench.asked().await;
    let report = bench.engine.scan("worker_reaper", PartitionId(0)).await.expect("a scanner of that name");
    assert_eq!((report.errors, report.processed), (1, 4), "one error, and each of them is deferred: {report:?}");
    let searches = bench.asked().await.into_iter().filter(|asked| matches!(asked, Asked::Scan(None, _))).count();
    assert_eq!(searches, 1);
    bench.probe.obey();
    bench.pass(2_000).await;
    let report = bench.engine.scan("worker_reaper", PartitionId(0)).await.expect("a scanner of that name");
    assert_eq!((report.errors, report.processed), (0, 4), "{report:?}");
    assert_eq!(bench.entries(weft_core::schema::Timer::Lease).await, 0);
}
