//! From the end of an upstream to its downstreams: where it is decided, what happens when the store fails in between, and
//! what finds what was left.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::plant;
use crate::kit::probe::Asked;
use tracing::Level;
use weft_core::event::Fact;
use weft_core::flow::member_id;
use weft_core::record::continuation::{self, Rest, Work};
use weft_core::record::execution::PublicState;
use weft_core::record::member::{GroupPolicy, Mode, Then};
use weft_core::record::{Continuation, Key, Record};
use weft_core::schema::Timer;
use weft_core::{ExecutionId, FlowId, PartitionId};
use weft_engine::flow::{FlowSubmission, Growing, Member};
use weft_engine::{Completion, Failing, Submission};
use weft_store::Store;

fn chain(count: usize) -> FlowSubmission {
    let mut flow = FlowSubmission::new("chain").member("m000000", work());
    for at in 1..count {
        flow = flow.member(format!("m{at:06}"), work()).edge(format!("m{:06}", at - 1), format!("m{at:06}"));
    }
    flow
}

pub async fn sc_100_an_id_says_its_partition_and_the_same_key_leads_to_the_same(kind: impl Kind) {
    // SC-101, SC-102: keys are built from the partition, and one count governs executions and flows alike.
    let bench = Bench::running(&kind, 8).await;
    let mut partitions = std::collections::BTreeSet::new();
    for number in 0..40 {
        let key = format!("k{number}");
        let flow = |key: &str| FlowSubmission::new("keyed").idempotency_key(key.to_owned()).member("a", work());
        let (first, second) = (bench.client.submit_flow(flow(&key)).await, bench.client.submit_flow(flow(&key)).await);
        let (first, second) = (first.unwrap().value, second.unwrap().value);
        assert_eq!((first.id, second.duplicate), (second.id, true));
        let member = first.members[0].1;
        assert_eq!(member.partition(), first.id.partition(), "SC-102 members are where their flow is");
        for key in [Key::Flow(first.id), Key::Execution(member)] {
            assert!(plant::raw(&*bench.store, key).await.is_some(), "{key:?}");
        }
        assert_eq!(Key::Execution(member).partition(), first.id.partition(), "SC-101");
        partitions.insert(first.id.partition());
    }
    assert!(partitions.len() > 4, "{partitions:?}");
    let beyond = PartitionId(8);
    let none = ExecutionId::new(beyond, uuid::Uuid::from_u128(1));
    assert_eq!(bench.client.get(none).await.unwrap_err().code(), "invalid_id", "SR-61");
    let none = FlowId::new(beyond, uuid::Uuid::from_u128(1));
    assert_eq!(bench.client.flow(none).await.unwrap_err().code(), "invalid_id");
}

pub async fn sc_108_edges_that_cannot_be_read_stop_the_commit_and_it_is_tried_again(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.submit(fan(5)).await;
    let source = claim_all(&bench.client, 1).await.remove(0);
    let bench = bench.again().await;
    bench
        .probe
        .refuse(|asked| matches!(asked, Asked::Read(_, keys) if keys.iter().any(|key| matches!(key, Key::Edge(..)))));
    let before = plant::records(&*bench.store, P0).await;
    let refused = bench.client.complete(Completion::of(&source)).await.unwrap_err();
    assert!(matches!(refused.code(), "busy" | "unavailable"), "{refused:?}");
    assert_eq!(plant::records(&*bench.store, P0).await, before, "SC-106 nothing is half done");
    bench.probe.obey();
    bench.client.complete(Completion::of(&source)).await.unwrap();
    assert_eq!(bench.record(flow).await.summary.of(PublicState::Waiting), 5);
}

pub async fn sc_112_a_member_without_a_lane_has_the_default_one_from_the_start(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = FlowSubmission::new("lanes").member("a", work()).member("b", work().lane("gpu")).edge("a", "b");
    let flow = bench.submit(flow).await;
    let lane = async |key: &str| bench.client.member(flow, key).await.unwrap().execution.spec.lane.clone();
    assert_eq!((&*lane("a").await, &*lane("b").await), ("default", "gpu"));
    bench.work_off().await;
    let claim = weft_engine::Claim::new("mailer", "mailer-1").lane("gpu");
    assert_eq!(bench.client.claim(claim).await.unwrap().executions.len(), 1, "SC-111 it became ready in its own");
}

pub async fn sc_121_a_chain_of_a_thousand_is_skipped_without_any_timer(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let flow = bench.submit(chain(1_001)).await;
    let first = claim_all(&bench.client, 1).await.remove(0);
    let began = bench.engine.now();
    bench.client.fail(Failing::of(&first)).await.unwrap();
    // Nobody moves the clock: what needed a timer would never come.
    let view = bench.client.wait_flow(flow, None, 1_000).await.unwrap();
    assert_eq!((view.flow.public_state().name(), view.flow.summary.of(PublicState::Skipped)), ("failed", 1_000));
    assert_eq!(bench.engine.now(), began, "no time has passed");
    let stats = bench.engine.stats();
    assert_eq!((stats.scanner_processed, stats.scanner_errors), (0, 0), "and no scanner was in between");
}

pub async fn sc_122_a_chain_has_no_depth_at_which_skipping_ends(kind: impl Kind) {
    const PIECE: usize = 700;
    let (bench, deep) = (Bench::running(&kind, 1).await, kind.deep());
    let mut at = deep / 10;
    let flow = bench.submit(chain(at)).await;
    while at < deep {
        let mut more = Growing::new(flow);
        for at in at..deep.min(at + PIECE) {
            more = more.member(format!("m{at:06}"), work()).edge(format!("m{:06}", at - 1), format!("m{at:06}"));
        }
        bench.client.grow_flow(more).await.unwrap();
        at += PIECE;
    }
    bench.until_quiet().await;
    let first = claim_all(&bench.client, 1).await.remove(0);
    bench.client.fail(Failing::of(&first)).await.unwrap();
    let view = bench.client.wait_flow(flow, None, 60_000).await.unwrap();
    assert_eq!(view.flow.summary.of(PublicState::Skipped) as usize, deep - 1);
    assert_eq!(view.flow.public_state().name(), "failed");
}

pub async fn sc_124_what_a_commit_resolved_is_one_line_and_nothing_is_none(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = FlowSubmission::new("v").member("u", work()).member("a", work()).member("b", work());
    let first_flow = bench.submit(flow.edge("u", "a").edge("u", "b")).await;
    let (log, _guard) = Log::listen();
    let first = claim_all(&bench.client, 1).await.remove(0);
    assert_eq!(log.take("edges resolved").len(), 0);
    bench.client.fail(Failing::of(&first)).await.unwrap();
    let line = |(level, line): (Level, String), counts: [&str; 3]| {
        let flow = first_flow.to_string();
        (level, counts.iter().all(|count| line.contains(count)) && line.contains(&flow), line)
    };
    let mut lines = log.take("edges resolved");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (level, holds, told) = line(lines.remove(0), ["resolved=2 ", "total=2 ", "skipped=2 "]);
    assert!(holds && told.contains(&format!("execution={} ", first.id)), "{told}");
    assert_eq!(level, Level::INFO, "SR-65 somebody was skipped");
    bench.submit(FlowSubmission::new("alone").member("a", work())).await;
    bench.work_off().await;
    assert_eq!(log.take("edges resolved").len(), 0, "no edges, no line");
    let flow = FlowSubmission::new("v").member("u", work()).member("a", work()).member("b", work());
    let flow = bench.submit(flow.edge("u", "a").edge("a", "b")).await;
    let upstream = claim_all(&bench.client, 1).await.remove(0);
    bench.client.complete(Completion::of(&upstream)).await.unwrap();
    let lines = log.take("edges resolved");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let fields = [format!("execution={} flow={flow} ", upstream.id), "resolved=1 total=2 skipped=0 ".to_string()];
    assert!(lines[0].0 == Level::DEBUG && fields.iter().all(|field| lines[0].1.contains(field)), "{lines:?}");
    assert_eq!(bench.count("weft_edges_resolved_total", &["met"]), 1);
    assert_eq!(bench.count("weft_edges_resolved_total", &["unmet"]), 2);
    assert_eq!(bench.count("weft_members_skipped_total", &[]), 2);
    assert_eq!(bench.count("weft_groups_decided_total", &["all_of", "impossible"]), 2);
    assert_eq!(bench.count("weft_flows_finished_total", &["failed"]), 1);
}

pub async fn sc_128_commits_are_bounded_and_others_are_served_in_between(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    bench.submit(fan(kind.many().clamp(2_500, 4_000))).await;
    bench.until_quiet().await;
    let source = claim_all(&bench.client, 1).await.remove(0);
    bench.asked().await;
    bench.probe.slow_down(1);
    bench.client.complete(Completion::of(&source)).await.unwrap();
    bench.client.submit(Submission::new("mail").lane("other")).await.unwrap();
    let mut commits = bench.probe.asked();
    let so_far = commits.len();
    bench.until_quiet().await;
    commits.extend(bench.asked().await);
    let resolves =
        |asked: &&Asked| matches!(asked, Asked::Commit(_, keys) if keys.iter().any(|key| matches!(key, Key::Edge(..))));
    for commit in &commits {
        assert!(!matches!(commit, Asked::Commit(_, keys) if keys.len() > 4_096), "{commit:?}");
    }
    let rest = commits[so_far..].iter().filter(resolves).count();
    assert!(rest > 0, "the submission was answered while edges were left: {commits:?}");
}

pub async fn sc_159_what_the_audit_mends_is_told_and_counted(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.submit(FlowSubmission::new("v").member("a", work()).member("b", work()).edge("a", "b")).await;
    let a = claim_all(&bench.client, 1).await.remove(0);
    bench.client.complete(Completion::of(&a)).await.unwrap();
    bench.engine.shutdown().await;
    plant::pending(&*bench.store, flow).await;
    let (log, _guard) = Log::listen();
    let bench = bench.run().await;
    bench.pass(600_000).await;
    let is_repaired = async || bench.count("weft_dependency_repairs_total", &[]) == 1;
    bench.at_once("an edge whose upstream has ended", is_repaired).await;
    bench.until_quiet().await;
    let warnings = log.take("edges were pending");
    assert!(warnings.len() == 1 && warnings[0].0 == Level::WARN, "SR-43 {warnings:?}");
    assert!(warnings[0].1.contains(&format!("flow={flow} upstreams=1")), "{warnings:?}");
    assert_eq!(bench.client.member(flow, "b").await.unwrap().public_state, PublicState::Waiting);
    assert_eq!(bench.count("weft_dependency_repairs_total", &[]), 1);
    let told =
        bench.events().await.into_iter().filter(|event| matches!(event.fact, Fact::ScannerRepaired { items: 1, .. }));
    assert_eq!(told.count(), 1, "SR-71");
    // A second audit finds nothing to do.
    bench.pass(1_300_000).await;
    assert_eq!(bench.count("weft_dependency_repairs_total", &[]), 1);
    assert_eq!(bench.entries(Timer::Resolve).await, 0);
    assert!(plant::stored(&*bench.store, Key::Continuation(member_id(flow, "a"), Work::Resolve)).await.is_none());
}

pub async fn sc_125_what_a_decided_group_found_is_counted_by_result(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let then = Then::CancelRemaining(Mode::Immediate);
    let mut flow = FlowSubmission::new("race")
        .with(Member::new("j", work()).join(GroupPolicy::AnyOf, then))
        .member("k", work())
        .member("z", work());
    for key in ["done", "won", "needed", "lost"] {
        flow = flow.member(key, work()).edge(key, "j");
    }
    let flow = bench.submit(flow.edge("needed", "k").edge("z", "k")).await;
    let held = claim_all(&bench.client, 10).await;
    let of = |key: &str| held.iter().find(|work| key_of(work) == key).unwrap();
    bench.client.fail(Failing::of(of("done"))).await.unwrap();
    bench.client.complete(Completion::of(of("won"))).await.unwrap();
    let results = ["cancelled", "already_terminal", "needed", "missing"];
    let counted = results.map(|result| bench.count("weft_sibling_cancel_results_total", &[result]));
    assert_eq!(counted, [1, 2, 1, 0]);
    assert_eq!(bench.count("weft_sibling_cancels_total", &["satisfied"]), 1);
    assert_eq!(bench.count("weft_groups_decided_total", &["any_of", "satisfied"]), 1);
    assert_eq!(bench.record(flow).await.summary.of(PublicState::Cancelled), 1);
}

/// Plants what a crash leaves in the middle of resolving: the upstream `a` has ended, and a continuation is to resolve
/// its edges.
async fn cut_off(bench: &Bench<impl Store>) -> FlowId {
    let flow = bench.submit(FlowSubmission::new("v").member("a", work()).member("b", work()).edge("a", "b")).await;
    let a = claim_all(&bench.client, 1).await.remove(0);
    bench.client.complete(Completion::of(&a)).await.unwrap();
    bench.engine.shutdown().await;
    plant::pending(&*bench.store, flow).await;
    let rest = Rest::Resolve { replays: 0, next: 0 };
    let body = continuation::Body { namespace: "shop".into(), created_at: bench.engine.now(), rest, trouble: None };
    plant::insert(&*bench.store, [Record::Continuation(Box::new(Continuation { owner: a.id, body }))]).await;
    plant::change_flow(&*bench.store, flow, |flow| flow.hot.works += 1).await;
    flow
}

/// What scanning led to, without the ids that each store makes up by itself.
async fn outcome(bench: &Bench<impl Store>, flow: FlowId) -> (Vec<String>, Vec<(&'static str, usize)>, String) {
    // The registry of workers is written whenever it will.
    let events = bench.events().await.into_iter().filter(|event| event.flow.is_some());
    let events = events.map(|event| event.fact.name().to_string()).collect();
    let mut kinds: Vec<(&'static str, usize)> = Vec::new();
    for key in plant::records(&*bench.store, P0).await.into_keys() {
        match kinds.iter_mut().find(|(name, _)| *name == key.kind().table().name) {
            Some((_, count)) => *count += 1,
            None => kinds.push((key.kind().table().name, 1)),
        }
    }
    let (a, b) = (
        plant::execution(&*bench.store, member_id(flow, "a")).await,
        plant::execution(&*bench.store, member_id(flow, "b")).await,
    );
    let record = bench.record(flow).await;
    let edges = plant::stored(&*bench.store, Key::Edge(a.id, 0)).await.map(|(edge, _)| match edge {
        Record::Edge(edge) => format!("{:?}", edge.body.resolved),
        other => panic!("{other:?}"),
    });
    let groups = format!("{:?}", b.member().expect("a member").groups);
    let states =
        (a.public_state(), b.public_state(), record.summary.by_state, record.summary.edges_pending, record.hot.works);
    (events, kinds, format!("{states:?} {edges:?} {groups}"))
}

/// What one node alone makes of a continuation that was cut off.
async fn outcome_alone(kind: &impl Kind) -> (Vec<String>, Vec<(&'static str, usize)>, String) {
    let alone = Bench::shared_by_hand(kind).await;
    let flow = cut_off(&alone).await;
    let alone = alone.another().await;
    assert_eq!(alone.entries(Timer::Resolve).await, 1);
    assert_eq!(alone.counts("dependency_reconciler").await, (1, 0));
    let expected = outcome(&alone, flow).await;
    assert!(expected.2.contains("Waiting") && !expected.2.contains("Some(None)"), "{expected:?}");
    alone.engine.shutdown().await;
    expected
}

pub async fn sc_127_two_nodes_whose_runners_meet_a_continuation_do_what_one_does(kind: impl Kind) {
    let expected = outcome_alone(&kind).await;
    for _ in 0..kind.often().min(10) {
        let bench = Bench::shared(&kind).await;
        let flow = cut_off(&bench).await;
        let (one, two) = tokio::join!(bench.another(), bench.another());
        one.at_once("the continuation", async || one.entries(Timer::Resolve).await == 0).await;
        let items = |result: &str| {
            let of = |bench: &Bench<_>| bench.count("weft_scanner_items_total", &["dependency_reconciler", result]);
            of(&one) + of(&two)
        };
        assert_eq!(items("processed"), 1, "one of them did it");
        assert_eq!(outcome(&one, flow).await, expected);
        one.engine.shutdown().await;
        two.engine.shutdown().await;
    }
}

pub async fn sc_127_two_nodes_that_run_a_continuation_at_once_do_what_one_does(kind: impl Kind) {
    let expected = outcome_alone(&kind).await;
    for _ in 0..kind.often().min(10) {
        let one = Bench::shared_by_hand(&kind).await;
        let flow = cut_off(&one).await;
        let one = one.another().await;
        // A store that lets no other node in has two scans of one node.
        let two = match one.is_shared() {
            true => Some(one.another().await),
            false => None,
        };
        let (first, second) = match &two {
            Some(two) => tokio::join!(one.scan("dependency_reconciler"), two.scan("dependency_reconciler")),
            None => tokio::join!(one.scan("dependency_reconciler"), one.scan("dependency_reconciler")),
        };
        assert_eq!((first.processed + second.processed, first.errors + second.errors), (1, 0), "{first:?} {second:?}");
        assert_eq!(one.entries(Timer::Resolve).await, 0);
        assert_eq!(outcome(&one, flow).await, expected);
        one.engine.shutdown().await;
        if let Some(two) = two {
            two.engine.shutdown().await;
        }
    }
}
