//! The totals of flows, compared with a recount.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::{Kind, Memory, in_time};
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use std::sync::{Arc, Mutex};
use tracing::Level;
use weft_core::change::DueEntry;
use weft_core::event::Fact;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::State;
use weft_core::schema::{Due, IndexId, Timer, Value, execution as schema};
use weft_core::{FlowId, PartitionId, Time};
use weft_engine::Completion;
use weft_engine::config::{Filter, ScannerConfig};
use weft_engine::flow::FlowSubmission;
use weft_store::{Entry, Place, Store, Target};

const NAME: &str = "flow_projector";
const P1: PartitionId = PartitionId(1);

/// A flow that is over, and whose totals are due to be compared.
async fn finished(bench: &Bench<impl Store>, members: usize) -> FlowId {
    let flow = bench.flow(members).await;
    bench.work_off().await;
    bench.pass(15_000).await;
    flow
}

fn is_members(asked: &Asked) -> bool {
    asked.is_of(IndexId::Members)
}

pub async fn sc_1_it_stands_behind_counters_that_commits_write(kind: impl Kind) {
    let interval = weft_engine::scanner::intervals().find(|(name, _)| *name == NAME);
    assert_eq!(interval, Some((NAME, 15_000)));
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(3).await;
    bench.work_off().await;
    let summary = bench.record(flow).await.summary;
    assert_eq!((summary.of(PublicState::Completed), summary.verified_at), (3, None), "right before any pass");
}

pub async fn sc_2_a_pass_is_over_one_partition_and_by_the_index(kind: impl Kind) {
    let bench = Bench::with(&kind, 2, Filter::NONE).await;
    for number in 0..64 {
        let flow = FlowSubmission::new("keyed").idempotency_key(format!("k{number}")).member("a", work());
        bench.submit(flow).await;
    }
    bench.pass(15_000).await;
    let entries =
        async || [bench.entries_in(P0, Timer::FlowVerify).await, bench.entries_in(P1, Timer::FlowVerify).await];
    let before = entries().await;
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    bench.asked().await;
    let report = bench.scan(NAME).await;
    assert_eq!(report.processed as usize, before[0]);
    assert_eq!(entries().await, [0, before[1]], "the other partition is as it was");
    for asked in bench.asked().await {
        match asked {
            Asked::Scan(partition, scan) if partition == Some(P0) => {
                assert!(!matches!(scan.target, Target::Records(_)))
            }
            Asked::Scan(None, scan) => assert_eq!(scan.target, Target::Due, "the look of the runner"),
            Asked::Scan(..) => panic!("a scan of another partition"),
            Asked::Read(partition, _) | Asked::Commit(partition, _) => assert_eq!(partition, P0),
            Asked::Now => {}
        }
    }
}

pub async fn sc_3_entries_come_in_pages_of_a_hundred_until_none_is_due(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    for _ in 0..250 {
        bench.flow(1).await;
    }
    bench.pass(15_000).await;
    bench.asked().await;
    let mut passes = Vec::new();
    loop {
        let report = bench.scan(NAME).await;
        passes.push(report.processed);
        if !report.more {
            break;
        }
    }
    assert_eq!((passes, bench.entries(Timer::FlowVerify).await), (vec![100, 100, 50], 0));
    let pages = bench.asked().await.into_iter().filter(|asked| asked.due().is_some());
    for page in pages {
        let Asked::Scan(_, scan) = page else { unreachable!("only scans have a timer") };
        assert!(scan.limit <= 100, "{}", scan.limit);
    }
}

pub async fn sc_4_a_page_that_cannot_be_read_ends_the_pass_of_its_partition_only(kind: impl Kind) {
    let bench = Bench::with(&kind, 2, Filter::NONE).await;
    for number in 0..128 {
        if number == 64 {
            bench.pass(500).await;
        }
        let flow = FlowSubmission::new("keyed").idempotency_key(format!("k{number}")).member("a", work());
        bench.submit(flow).await;
    }
    bench.pass(14_500).await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Scan(Some(P0), _)));
    assert_eq!(bench.counts(NAME).await, (0, 1));
    bench.probe.obey();
    let before = bench.entries(Timer::FlowVerify).await;
    bench.probe.edit(|_, pages| {
        for page in pages.iter_mut() {
            page.more |= page.entries.len() > 2;
            page.entries.truncate(2);
        }
    });
    bench.probe.refuse(|asked| matches!(asked, Asked::Scan(Some(P0), scan) if scan.target == Target::Due && scan.ranges[0].after.is_some()));
    assert_eq!(bench.counts(NAME).await, (2, 1), "work so far counts");
    assert_eq!(bench.entries(Timer::FlowVerify).await, before - 2);
    bench.probe.obey();
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Scan(Some(P0), _)));
    let due = async || {
        let entries = plant::entries(&*bench.store, P1, Timer::FlowVerify).await;
        (entries.len(), entries.iter().filter(|entry| plant::timer_of(entry).at <= bench.engine.now()).count())
    };
    bench.pass(0).await;
    let (later, now) = due().await;
    assert!(later > 0 && now == 0, "the runner verified the other partition: {now} and {later}");
    bench.pass(500).await;
    assert_eq!(due().await, (0, 0), "and goes on to");
    assert!(bench.entries(Timer::FlowVerify).await > 0);
    let mut warnings = log.take("did not answer a scanner");
    warnings.retain(|(_, line)| line.contains(&format!("partition={P0} ")));
    assert_eq!(warnings.len(), 1, "once a minute: {warnings:?}");
    assert!(warnings[0].0 == Level::WARN && warnings[0].1.contains("refused by the test"), "{warnings:?}");
    bench.probe.obey();
    for _ in 0..100 {
        bench.pass(100).await;
    }
    assert_eq!(bench.entries(Timer::FlowVerify).await, 0, "a later pass finds them");
}

pub async fn sc_5_any_chunking_of_pages_gives_the_same_and_an_empty_one_ends_the_pass(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(7).await;
    bench.pass(15_000).await;
    let poison = DueEntry { at: Time::from_ms(1), timer: Timer::FlowVerify as u8, kind: 99, key: (&b"?"[..]).into() };
    kind.insert_due(&bench.store, P0, &poison).await;
    bench.probe.edit(|_, pages| {
        for page in pages.iter_mut() {
            page.more |= page.entries.len() > 1;
            page.entries.truncate(1);
        }
    });
    let mut report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.poison), (1, 1), "{report:?}");
    assert_eq!(bench.record(flow).await.summary.verified_no, Some(bench.record(flow).await.summary.change_no));
    bench.flow(1).await;
    bench.pass(15_000).await;
    bench.probe.edit(|_, pages| {
        for page in pages.iter_mut() {
            (page.entries, page.more) = (Vec::new(), true);
        }
    });
    report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.errors, report.more), (0, 0, false));
}

pub async fn sc_6_without_the_time_of_the_store_no_flow_is_verified(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = finished(&bench, 2).await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Now));
    assert_eq!(bench.engine.not_ready().await, Some("store_unreachable"), "the clock could not be read");
    assert_eq!(bench.counts(NAME).await, (0, 1));
    assert_eq!(bench.record(flow).await.summary.verified_at, None);
    bench.probe.obey();
    bench.asked().await;
    assert_eq!(bench.counts(NAME).await, (1, 0));
    let readings = bench.asked().await.iter().filter(|asked| matches!(asked, Asked::Now)).count();
    assert_eq!(readings, 1, "once in the pass");
}

pub async fn sc_7_all_flows_of_a_pass_carry_its_time(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let mut flows = Vec::new();
    for _ in 0..5 {
        flows.push(bench.flow(2).await);
        bench.pass(7).await;
    }
    bench.pass(15_000).await;
    let now = bench.engine.now();
    assert_eq!(bench.counts(NAME).await, (5, 0));
    for flow in flows {
        assert_eq!(bench.record(flow).await.summary.verified_at, Some(now));
    }
}

pub async fn sc_8_an_entry_of_a_flow_that_is_gone_is_stale(kind: impl Kind) {
    // SC-9, SC-10: a read or a removal that fails is neither, and the entry is met again.
    let bench = Bench::new(&kind).await;
    let gone = Key::Flow(FlowId::new(P0, uuid::Uuid::from_u128(7)));
    kind.insert_due(&bench.store, P0, &DueEntry::new(Due { timer: Timer::FlowVerify, at: Time::from_ms(5) }, gone))
        .await;
    bench.probe.refuse(|asked| matches!(asked, Asked::Read(..)));
    assert_eq!(bench.counts(NAME).await, (0, 1));
    assert_eq!(bench.entries(Timer::FlowVerify).await, 1, "SC-9 a failed read is not `gone`");
    bench.probe.refuse(|asked| matches!(asked, Asked::Commit(..)));
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.stale, bench.entries(Timer::FlowVerify).await), (0, 0, 1), "SC-10");
    bench.probe.obey();
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.stale, report.errors), (0, 1, 0));
    assert_eq!(bench.entries(Timer::FlowVerify).await, 0);
    assert_eq!(plant::raw(&*bench.store, gone).await, None, "no summary is written");
}

pub async fn sc_12_an_index_of_members_that_cannot_be_read_is_no_zero(kind: impl Kind) {
    // SC-13: members come in pages of 500, all of them.
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(1_200).await;
    bench.pass(15_000).await;
    bench.probe.refuse(is_members);
    assert_eq!(bench.counts(NAME).await, (0, 1));
    let unread = bench.record(flow).await;
    assert_eq!((unread.summary.total_members, unread.summary.verified_at, unread.hot.doubt), (1_200, None, None));
    bench.probe.obey();
    bench.asked().await;
    assert_eq!(bench.counts(NAME).await, (1, 0));
    let verified = bench.record(flow).await.summary;
    assert_eq!((verified.total_members, verified.verified_no), (1_200, Some(verified.change_no)));
    let pages = bench.asked().await.into_iter().filter(is_members).map(|asked| match asked {
        Asked::Scan(partition, scan) => (partition, scan.limit),
        other => panic!("{other:?}"),
    });
    assert_eq!(pages.collect::<Vec<_>>(), [(Some(P0), 500); 3], "SC-13");
}

pub async fn sc_14_members_that_are_all_gone_are_drift_and_no_silent_zero(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(3).await;
    for at in 0..3 {
        plant::remove(&*bench.store, Key::Execution(member_id(flow, &format!("m{at:04}")))).await;
    }
    let bench = bench.again().await;
    bench.pass(15_000).await;
    assert_eq!(bench.counts(NAME).await, (0, 0), "a doubt is no verdict");
    assert_eq!(bench.record(flow).await.summary.total_members, 3, "nothing is set right at once");
    bench.pass(15_000).await;
    assert_eq!(bench.counts(NAME).await, (1, 0));
    assert_eq!(bench.record(flow).await.summary.total_members, 0);
    assert_eq!(bench.count("weft_flow_summary_repairs_total", &[]), 1);
    let repaired = bench.events().await.into_iter().find_map(|event| match event.fact {
        Fact::FlowRepaired { fields, was, is, .. } => Some((fields, was, is)),
        _ => None,
    });
    let (fields, was, is) = repaired.expect("an event tells");
    let at = fields.iter().position(|field| &**field == "total_members").expect("it names the field");
    assert_eq!((was[at], is[at]), (3, 0));
}

pub async fn sc_15_entries_that_name_no_member_are_in_no_count(kind: impl Kind) {
    // SC-16: members are those of the flow's own partition.
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(4).await;
    bench.pass(15_000).await;
    bench.probe.edit(|scan, pages| {
        if scan.target == Target::Index(IndexId::Members) {
            let real = pages[0].entries[0].clone();
            let short = Entry { place: Place { key: (&b"?"[..]).into(), ..real.place.clone() }, ..real.clone() };
            pages[0].entries.insert(0, short);
            pages[0].entries.insert(0, Entry { partition: P1, ..real });
        }
    });
    bench.asked().await;
    assert_eq!(bench.counts(NAME).await, (1, 0));
    assert_eq!(bench.record(flow).await.summary.verified_no, Some(bench.record(flow).await.summary.change_no));
    let foreign = |asked: &Asked| is_members(asked) && !matches!(asked, Asked::Scan(Some(P0), _));
    assert!(!bench.asked().await.iter().any(foreign), "SC-16");
}

pub async fn sc_17_an_unreadable_member_gives_no_verdict(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(3).await;
    bench.pass(15_000).await;
    let before = bench.record(flow).await;
    // Missing: its place is there and it is not.
    bench.probe.edit(|scan, pages| {
        if scan.target == Target::Index(IndexId::Members) {
            pages[0].entries[1].found = None;
        }
    });
    assert_eq!(bench.counts(NAME).await, (0, 1));
    let after = bench.record(flow).await;
    assert_eq!((after.summary, after.hot.state), (before.summary.clone(), before.hot.state.clone()));
    // Damaged: its bytes say nothing.
    plant::damage(&*bench.store, Key::Execution(member_id(flow, "m0001")), schema::HOT).await;
    let bench = bench.again().await;
    bench.pass(15_000).await;
    assert_eq!(bench.counts(NAME).await, (0, 1));
    let after = bench.record(flow).await;
    assert_eq!((after.summary, after.hot.doubt), (before.summary, None));
}

pub async fn sc_24_totals_and_members_change_in_one_commit(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let wrong = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = wrong.clone();
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let looks = seen.clone();
    bench.probe.observe(move |records| {
        for (flow, summary, counted) in super::recounts(&records) {
            looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if summary.by_state != counted.by_state || summary.total_members != counted.total_members {
                told.lock().unwrap().push((flow, summary, counted));
            }
        }
    });
    bench.submit(fan(5)).await;
    bench.work_off().await;
    assert_eq!(*wrong.lock().unwrap(), []);
    assert!(seen.load(std::sync::atomic::Ordering::SeqCst) > 6, "the flow was looked at after each of its commits");
}

pub async fn sc_25_a_flow_that_fails_holds_up_no_other(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let damaged = bench.flow(1).await;
    bench.pass(1).await;
    for _ in 0..120 {
        bench.flow(1).await;
    }
    plant::damage(&*bench.store, Key::Execution(member_id(damaged, "m0000")), schema::HOT).await;
    let bench = bench.again().await;
    bench.pass(15_000).await;
    let (log, _guard) = crate::kit::log::Log::listen();
    let (first, second) = (bench.scan(NAME).await, bench.scan(NAME).await);
    assert_eq!((first.processed, first.errors, first.more), (99, 1, true), "the next page comes at once");
    assert_eq!((second.processed, second.errors, second.more), (21, 0, false));
    assert_eq!(log.take("could not handle an item").len(), 1, "one warning");
}

pub async fn sc_26_a_finished_flow_is_let_go_after_a_whole_and_equal_view_only(kind: impl Kind) {
    // SC-27: a view that broke off in the middle releases nothing, however large the flow.
    let bench = Bench::new(&kind).await;
    let flow = finished(&bench, 600).await;
    bench.probe.refuse(|asked| match asked {
        Asked::Scan(_, scan) => is_members(asked) && scan.ranges[0].after.is_some(),
        _ => false,
    });
    assert_eq!(bench.counts(NAME).await, (0, 1));
    assert_eq!(
        (bench.entries(Timer::FlowVerify).await, bench.record(flow).await.summary.verified_at),
        (1, None),
        "SC-27"
    );
    bench.probe.obey();
    assert_eq!(bench.counts(NAME).await, (1, 0));
    assert_eq!(bench.entries(Timer::FlowVerify).await, 0);
    assert_eq!(bench.counts(NAME).await, (0, 0), "FL-184 nothing is left to look at");
}

pub async fn sc_28_the_end_is_readable_before_the_entry_goes(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(2).await;
    bench.work_off().await;
    assert_eq!(state(&bench.client, flow).await, "completed");
    assert_eq!(bench.entries(Timer::FlowVerify).await, 1, "and nobody has verified it yet");
}

pub async fn sc_30_a_flow_that_never_verifies_backs_off_is_parked_and_goes_in_its_time(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(2).await;
    bench.work_off().await;
    plant::damage(&*bench.store, Key::Execution(member_id(flow, "m0001")), schema::HOT).await;
    let bench = bench.again().await;
    let mut tries = 0;
    while bench.dead_letters().await.is_empty() {
        let due = plant::timer_of(&plant::entries(&*bench.store, P0, Timer::FlowVerify).await[0]).at;
        bench.pass(due.since(bench.engine.now())).await;
        assert_eq!(bench.counts(NAME).await, (0, 1));
        tries += 1;
        assert!(tries < 50, "it is parked in the end");
    }
    assert_eq!(tries, 18, "SR-22, SR-23 three tries in each of five rounds, and three more");
    let next = plant::timer_of(&plant::entries(&*bench.store, P0, Timer::FlowVerify).await[0]).at;
    assert_eq!(next.since(bench.engine.now()), 3_600_000, "SR-23 it stays in the index, and is tried once an hour");
    bench.pass(3_600_000).await;
    assert_eq!(bench.counts(NAME).await, (0, 1));
    let letters = bench.dead_letters().await;
    assert_eq!((letters.len(), letters[0].fails), (1, 19), "the one letter tells of the try");
    bench.pass(25 * 3_600_000).await;
    for _ in 0..20 {
        bench.scan("retention_trimmer").await;
    }
    assert_eq!(plant::raw(&*bench.store, Key::Flow(flow)).await, None);
    let letters = bench.dead_letters().await;
    let of_member =
        |letter: &weft_core::record::dead_letter::Body| letter.key == member_id(flow, "m0001").uuid().as_bytes()[..];
    assert!(
        !letters.is_empty() && letters.iter().all(of_member),
        "its letter goes with it; the damaged member stays in sight"
    );
}

pub async fn sc_31_it_sets_counters_right_and_leaves_the_state_to_the_rules(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(2).await;
    let (done, waiting) = (PublicState::Completed as usize, PublicState::Waiting as usize);
    // As if both had ended: by its counters the flow would be over.
    plant::change_flow(&*bench.store, flow, |flow| {
        (flow.summary.by_state[done], flow.summary.by_state[waiting]) = (2, 0);
    })
    .await;
    let bench = bench.run().await;
    let repairs = || bench.count("weft_flow_summary_repairs_total", &[]);
    for _ in 0..20 {
        if repairs() > 0 {
            break;
        }
        bench.pass(5_000).await;
    }
    assert_eq!(repairs(), 1, "the runner finds it");
    let repaired = bench.record(flow).await;
    assert_eq!((repaired.summary.of(PublicState::Waiting), repaired.hot.state), (2, State::Open));
    assert_eq!(bench.work_off().await.len(), 2);
    assert_eq!(state(&bench.client, flow).await, "completed");
}

pub async fn sc_33_a_filter_selects_flows_and_never_members(kind: impl Kind) {
    // SC-34, SC-35: nothing is read per member for it, and without a filter nothing at all.
    let filter = Filter { namespace: Some("shop".into()), tag: Some(("team".into(), "a".into())) };
    let bench = Bench::with(&kind, 1, filter).await;
    let flow = |team: &str| {
        let flow = FlowSubmission::new("tagged").tag("team", team.to_owned());
        (0..3).fold(flow, |flow, at| flow.member(format!("m{at}"), work()))
    };
    let (mine, other) = (bench.submit(flow("a")).await, bench.submit(flow("b")).await);
    let foreign = bench.engine.client("elsewhere").unwrap().submit_flow(flow("a")).await.unwrap().value.id;
    bench.pass(15_000).await;
    bench.asked().await;
    let report = bench.scan(NAME).await;
    assert_eq!((report.processed, report.filtered, report.errors), (1, 2, 0));
    let verified = bench.record(mine).await.summary;
    assert_eq!((verified.total_members, verified.verified_no), (3, Some(verified.change_no)), "all members count");
    for left in [other, foreign] {
        assert_eq!(bench.record(left).await.summary.verified_at, None);
    }
    let reads: usize = bench.asked().await.iter().filter(|asked| matches!(asked, Asked::Read(..))).count();
    assert!(reads <= 3, "SC-34 the flows for the filter and one for its count, not {reads}");
    assert!(ScannerConfig::default().filter.is_none() && Filter::default() == Filter::NONE, "SC-35");
    let open = Bench::new(&kind).await;
    open.flow(2).await;
    open.pass(15_000).await;
    open.asked().await;
    assert_eq!(open.counts(NAME).await, (1, 0));
    let keys = open.asked().await.into_iter().filter_map(|asked| match asked {
        Asked::Read(_, keys) => Some(keys),
        _ => None,
    });
    assert!(keys.flatten().all(|key| matches!(key, Key::Flow(_))), "SC-35 members come with their pages");
}

pub async fn sc_36_what_was_verified_or_repaired_is_processed_and_a_failure_an_error(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    assert_eq!(bench.counts(NAME).await, (0, 0), "nothing to do");
    let (good, wrong, bad) = (bench.flow(1).await, bench.flow(1).await, bench.flow(1).await);
    plant::change_flow(&*bench.store, wrong, |flow| flow.summary.failures = 9).await;
    plant::damage(&*bench.store, Key::Execution(member_id(bad, "m0000")), schema::HOT).await;
    let bench = bench.again().await;
    bench.pass(15_000).await;
    assert_eq!(bench.counts(NAME).await, (1, 1), "one equal, one in doubt, one unreadable");
    bench.pass(15_000).await;
    assert_eq!(bench.counts(NAME).await, (1, 1), "one repaired, and the unreadable again");
    assert!(bench.record(good).await.summary.verified_at.is_some());
    assert_eq!(bench.record(wrong).await.summary.failures, 0);
    let name = "weft_scanner_items_total";
    assert_eq!((bench.count(name, &[NAME, "processed"]), bench.count(name, &[NAME, "error"])), (2, 2));
}

/// Counts from now on the members that each pass reads, in the order of the passes.
fn members_per_pass(bench: &Bench<impl Store>) -> Arc<Mutex<Vec<usize>>> {
    let passes = Arc::new(Mutex::new(Vec::new()));
    let told = passes.clone();
    bench.probe.edit(move |scan, pages| match (scan.target, &scan.ranges[..]) {
        (Target::Due, [one]) if one.prefix == [Value::Int(Timer::FlowVerify as i64)] => told.lock().unwrap().push(0),
        (Target::Index(IndexId::Members), _) => {
            *told.lock().unwrap().last_mut().expect("a pass reads them") += pages[0].entries.len();
        }
        _ => {}
    });
    passes
}

/// Lets the runner verify flows of these sizes, one after the other, and returns how many members each pass has read.
async fn verified_in_passes(kind: impl Kind, sizes: &[usize]) -> Vec<usize> {
    let bench = Bench::running(&kind, 1).await;
    let mut flows = Vec::new();
    for members in sizes {
        let flow = bench.flow(*members).await;
        bench.until_sealed(flow).await;
        flows.push(flow);
        bench.pass(1).await;
    }
    let passes = members_per_pass(&bench);
    bench.pass(15_000).await;
    for flow in flows {
        let summary = bench.record(flow).await.summary;
        assert_eq!(summary.verified_no, Some(summary.change_no), "a flow of {}", summary.total_members);
    }
    let passes = passes.lock().unwrap();
    passes.iter().copied().filter(|members| *members > 0).collect()
}

pub async fn sr_77_a_pass_recounts_so_many_members_and_leaves_further_flows_due(kind: impl Kind) {
    assert_eq!(verified_in_passes(kind, &[2_500, 2_499, 1, 1, 600]).await, [5_000, 601]);
}

pub async fn sr_77_a_flow_larger_than_a_pass_may_recount_is_recounted_alone(kind: impl Kind) {
    assert_eq!(verified_in_passes(kind, &[1, 5_200, 1]).await, [1, 5_200, 1]);
}

pub async fn sr_77_a_recount_stops_at_the_page_at_which_the_flow_has_moved(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.flow(1_200).await;
    bench.probe.stall(is_members);
    bench.pass(15_000).await;
    bench.claim().await;
    bench.asked().await;
    bench.probe.obey();
    let pages = bench.asked().await.into_iter().filter(is_members).count();
    let moved = bench.record(flow).await;
    assert_eq!((pages, moved.summary.verified_at, moved.hot.doubt), (1, None, None), "no further page, no verdict");
    assert_eq!((moved.hot.moves, moved.hot.verify_at), (1, Some(bench.engine.now() + 15_000)));
    bench.pass(14_999).await;
    assert_eq!(bench.asked().await.into_iter().filter(is_members).count(), 0, "not before its time");
    bench.pass(1).await;
    let pages = bench.asked().await.into_iter().filter(is_members).count();
    let verified = bench.record(flow).await;
    assert_eq!((pages, verified.summary.verified_no), (3, Some(verified.summary.change_no)));
    assert_eq!((verified.hot.moves, verified.hot.verify_at), (0, None));
}

#[tokio::test(start_paused = true)]
async fn sr_77_a_large_flow_that_never_stands_still_costs_little() {
    in_time(async {
        // The other scanner that reads members has nothing to do here.
        let nothing = Filter { namespace: Some("nobodys".into()), tag: None };
        let scanners =
            ScannerConfig { filters: [("dependency_reconciler", nothing)].into(), ..ScannerConfig::default() };
        let bench = Bench::configured(&Memory, scanners).await;
        let flow = bench.flow(10_000).await;
        bench.until_sealed(flow).await;
        bench.asked().await;
        let mut pages = Vec::new();
        for _ in 0..60 {
            let mut of_minute = 0;
            for _ in 0..12 {
                bench.probe.stall(is_members);
                bench.pass(5_000).await;
                // It changes after every page that a recount asks for.
                let claimed = bench.claim().await;
                bench.client.complete(Completion::of(&claimed)).await.unwrap();
                bench.probe.obey();
                of_minute += bench.asked().await.into_iter().filter(is_members).count();
            }
            pages.push(of_minute);
        }
        assert_eq!(pages[0], 3, "after 15, 30 and 60 s");
        assert!(pages[1..].iter().all(|of_minute| *of_minute <= 1), "500 members a minute at most: {pages:?}");
        assert_eq!(pages.iter().sum::<usize>(), 11, "its pauses grow to 10 minutes: {pages:?}");
        assert_eq!(bench.record(flow).await.summary.verified_at, None);
        // It stands still: the next recount is whole.
        bench.pass(600_000).await;
        let summary = bench.record(flow).await.summary;
        assert_eq!(summary.verified_no, Some(summary.change_no));
        assert_eq!(bench.asked().await.into_iter().filter(is_members).count(), 20);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sr_29_a_flow_with_a_member_of_a_newer_format_is_left_and_holds_up_no_other() {
    in_time(async {
        let bench = Bench::new(&Memory).await;
        let left = bench.flow(2_500).await;
        bench.pass(1).await;
        let other = bench.flow(2_600).await;
        let newer = Key::Execution(member_id(left, "m2499"));
        plant::overwrite(&*bench.store, newer, schema::HOT, b"\x7flater").await;
        let before = plant::raw(&*bench.store, Key::Flow(left)).await;
        let bench = bench.again().await;
        bench.pass(15_000).await;
        let first = bench.scan(NAME).await;
        assert_eq!((first.newer, first.processed, first.errors, first.more), (1, 0, 0, true), "{first:?}");
        let second = bench.scan(NAME).await;
        assert_eq!((second.newer, second.processed, second.errors, second.more), (0, 1, 0, false), "{second:?}");
        assert!(bench.record(other).await.summary.verified_at.is_some(), "it did not wait behind the one that is left");
        assert_eq!(plant::raw(&*bench.store, Key::Flow(left)).await, before, "no account, no letter");
        assert_eq!((bench.entries(Timer::FlowVerify).await, bench.dead_letters().await.len()), (1, 0));
    })
    .await;
}
