//! Parked items as operators see them: listed, tried again, given up.

use crate::kit::bench::Bench;
use crate::kit::flows::{work, work_off};
use crate::kit::kinds::Kind;
use crate::kit::log::Log;
use crate::kit::{plant, worker};
use bytes::Bytes;
use std::collections::BTreeSet;
use tracing::Level;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::api_key::Reach;
use weft_core::record::trouble::{Failing, GivenUp, Trouble};
use weft_core::reply::Retried;
use weft_core::schema::{Timer, execution as schema};
use weft_core::{ExecutionId, ParkedId, PartitionId, Time};
use weft_engine::flow::FlowSubmission;
use weft_engine::{Obstacle, Parked, ParkedFilter, Submission};
use weft_store::Store;

/// Delayed executions that are damaged before their time, the bytes that they had, and the engine that has parked them.
async fn damaged<K: Kind>(kind: &K, count: usize) -> (Bench<K::Store>, Vec<(ExecutionId, Bytes)>) {
    let bench = Bench::running(kind, 3).await;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(bench.client.submit(Submission::new("mail").delay_ms(900)).await.unwrap().id);
    }
    bench.engine.shutdown().await;
    let mut damaged = Vec::new();
    for id in ids {
        let stored = plant::raw(&*bench.store, Key::Execution(id)).await.expect("submitted");
        let hot = stored.parts.into_iter().find(|(part, _)| *part == schema::HOT).expect("it has one").1;
        plant::damage(&*bench.store, Key::Execution(id), schema::HOT).await;
        damaged.push((id, hot));
    }
    let bench = bench.another().await;
    for _ in 0..1_000 {
        if listed(&bench, ParkedFilter::default()).await.len() == count {
            return (bench, damaged);
        }
        bench.pass(50).await;
    }
    panic!("not all of them are parked: {:?}", listed(&bench, ParkedFilter::default()).await);
}

/// Every item that the filter takes, page by page.
async fn listed(bench: &Bench<impl Store>, mut filter: ParkedFilter) -> Vec<Parked> {
    let mut all = Vec::new();
    loop {
        let page = bench.client.parked(&filter).await.unwrap();
        all.extend(page.items);
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            return all;
        }
    }
}

pub async fn sr_83_parked_items_of_all_partitions_are_listed_page_by_page(kind: impl Kind) {
    let (bench, damaged) = damaged(&kind, 6).await;
    let expected: BTreeSet<Key> = damaged.iter().map(|(id, _)| Key::Execution(*id)).collect();
    for limit in [1, 2, 5, 6, 7] {
        let items = listed(&bench, ParkedFilter { limit: Some(limit), ..ParkedFilter::default() }).await;
        assert_eq!(items.iter().filter_map(|parked| parked.item).collect::<BTreeSet<_>>(), expected, "{limit} a page");
        assert_eq!(items.len(), 6, "{limit} a page");
        let ids: Vec<_> = items.iter().map(|parked| (parked.id.uuid(), parked.id.partition())).collect();
        assert!(ids.is_sorted(), "in the order of their ids: {ids:?}");
    }
    let of = |scanner: &str| ParkedFilter { scanner: Some(scanner.into()), ..ParkedFilter::default() };
    assert_eq!(listed(&bench, of("delayed_promoter")).await.len(), 6);
    assert_eq!(listed(&bench, of("lease_expiry")).await, []);
    let within = |name: &str| {
        let within = Some(Reach::Some([name.into()].into()));
        ParkedFilter { within, limit: Some(1), ..ParkedFilter::default() }
    };
    assert_eq!(listed(&bench, within("shop")).await.len(), 6, "what is left of each says whose it is");
    assert_eq!(listed(&bench, within("bank")).await, []);
}

pub async fn sr_84_a_restored_item_is_tried_again_and_sr_85_a_discarded_one_is_given_up_by_name(kind: impl Kind) {
    let (bench, damaged) = damaged(&kind, 2).await;
    let items = listed(&bench, ParkedFilter::default()).await;
    let parked = |at: usize| {
        let of_it = |parked: &&Parked| parked.item == Some(Key::Execution(damaged[at].0));
        items.iter().find(of_it).expect("it is listed").id
    };
    let still = bench.client.retry_parked(parked(0), None).await.unwrap().value;
    assert!(matches!(still, Retried::StillDamaged { .. }), "{still:?}");
    for (id, hot) in &damaged {
        plant::restore(&*bench.store, Key::Execution(*id), schema::HOT, hot.clone()).await;
    }
    let bench = bench.again().await;
    assert_eq!(bench.client.retry_parked(parked(0), None).await.unwrap().value, Retried::Retried);
    let work = bench.meanwhile(bench.client.claim(worker().wait_ms(10_000))).await.unwrap().executions.remove(0);
    assert_eq!(work.id, damaged[0].0, "it goes on where it stopped");
    bench.client.discard_parked(parked(1), "known", None).await.unwrap();
    assert_eq!(listed(&bench, ParkedFilter::default()).await, []);
    let why = bench.client.explain(damaged[1].0).await.unwrap();
    let given_up = why.reasons.into_iter().find_map(|reason| match reason {
        Obstacle::Trouble { given_up, .. } => given_up,
        _ => None,
    });
    let given_up = given_up.expect("explain says that it was given up");
    assert_eq!((&*given_up.by, &*given_up.reason), (&*bench.client.principal().name, "known"));
    let nobody = bench.meanwhile(bench.client.claim(worker().wait_ms(5_000))).await.unwrap();
    assert!(nobody.executions.is_empty(), "its timer does not fire");
    let beyond = ParkedId::new(PartitionId(9), parked(1).uuid());
    assert_eq!(bench.client.retry_parked(beyond, None).await.unwrap_err().code(), "invalid_id");
}

pub async fn sr_43_what_a_cascade_parks_is_logged_once_with_its_letter(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let two = FlowSubmission::new("two").member("u", work()).member("v", work()).member("d", work());
    let flow = bench.submit(two.edge("u", "d").edge("v", "d")).await;
    let id = member_id(flow, "d");
    plant::damage(&*bench.store, Key::Execution(id), schema::HOT).await;
    let bench = bench.again().await;
    let (log, _guard) = Log::listen();
    work_off(&bench.client).await;
    let letter = listed(&bench, ParkedFilter::default()).await[0].id;
    let lines = log.take("an item is parked");
    assert!(lines.len() == 1 && lines[0].0 == Level::ERROR, "{lines:?}");
    let fields = ["scanner=\"dependency_reconciler\"".into(), format!("{id:?}"), format!("letter={letter} ")];
    assert!(fields.iter().all(|field| lines[0].1.contains(field)), "{fields:?}: {lines:?}");
}

pub async fn sr_85_a_flow_says_who_gave_a_timer_of_it_up(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let flow = bench.flow(2).await;
    let given_up = GivenUp { by: "ann".into(), reason: "known".into(), at: Time::from_ms(7) };
    let item = Failing {
        timer: Timer::FlowVerify,
        due: Time::from_ms(5),
        scanner: "flow_projector".into(),
        fails: 18,
        round: 5,
        next_try_at: Time::from_ms(6),
        first_at: Time::from_ms(5),
        last_at: Time::from_ms(6),
        last_error: "no way".into(),
        parked: false,
        letter: None,
        given_up: Some(given_up.clone()),
    };
    plant::change_flow(&*bench.store, flow, |flow| flow.set_trouble(Some(Trouble { items: vec![item] }))).await;
    let bench = bench.again().await;
    let told = bench.client.explain_flow(flow).await.unwrap().trouble;
    let [(timer, Obstacle::Trouble { scanner, given_up: Some(who), .. })] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*timer, &**scanner, who), ("flow_verify", "flow_projector", &given_up));
}
