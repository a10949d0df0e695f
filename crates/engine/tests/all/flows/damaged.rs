//! Flows with a member that cannot be read: named to whoever asks, and given up by an operator.

use crate::kit::*;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::execution::PublicState;
use weft_core::record::{Key, Record};
use weft_core::schema::{PartMask, execution as schema};
use weft_core::{ExecutionId, PartitionId};
use weft_engine::flow::{FlowCancellation, FlowSubmission};
use weft_engine::{Config, Engine, Submission};
use weft_store::{MemoryStore, Store};

const P0: PartitionId = PartitionId(0);

/// Breaks the state of an execution in the store.
async fn damage(store: &MemoryStore, id: ExecutionId) {
    let key = Key::Execution(id);
    let stored = store.dump(P0).records[&key].clone();
    let parts: Vec<_> = stored.parts.iter().map(|(part, bytes)| (*part, bytes.clone())).collect();
    let facets = Record::decode(key, &parts, PartMask::ALL).unwrap().facets();
    let body = Body { facets: facets.clone(), parts: vec![(schema::HOT, Some("broken".into()))] };
    let what = Change::Update { old: facets, body };
    let head = store.read(P0, Vec::new()).await.unwrap().head;
    let batch = Batch {
        id: weft_core::CommitId(uuid::Uuid::from_u128(77)),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads: vec![(key, Some(stored.revision))],
        writes: vec![Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }],
        due_drops: Vec::new(),
        feed: Default::default(),
        lanes: Vec::new(),
    };
    let outcome = store.commit(P0, batch).await;
    assert!(matches!(outcome, weft_store::Outcome::Applied { .. }), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn fl_145_a_damaged_member_is_named_and_its_flow_ends_when_an_operator_gives_it_up() {
    let kit = open().await;
    let work = || Submission::new("work");
    let three = FlowSubmission::new("etl").member("a", work()).member("b", work()).member("c", work());
    let flow = kit.client.submit_flow(three).await.unwrap().value.id;
    kit.engine.shutdown().await;
    let id = weft_core::flow::member_id(flow, "b");
    damage(&kit.store, id).await;

    let engine = Engine::open(kit.store.clone(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    let ended = client.cancel_flow(FlowCancellation::new(flow, "enough")).await.unwrap().value;
    assert_eq!((ended.reply.cancelled, ended.done), (2, false));
    let told = client.explain_flow(flow).await.unwrap();
    assert_eq!(told.parked.iter().map(|parked| parked.item).collect::<Vec<_>>(), [Some(Key::Execution(id))]);
    let parked = told.parked[0].id;
    assert_eq!(client.retry_parked(parked, None).await.unwrap_err().code(), "internal", "it is as it was");

    client.discard_parked(parked, "lost", None).await.unwrap();
    assert_eq!(client.discard_parked(parked, "lost", None).await.unwrap_err().code(), "not_found");
    let change_no = client.flow(flow).await.unwrap().flow.summary.change_no;
    for _ in 0..60 {
        pass(1_000).await;
        linger(1).await;
    }
    let done = client.flow(flow).await.unwrap().flow;
    assert_eq!((done.public_state().name(), done.summary.of(PublicState::Failed)), ("cancelled", 1));
    assert_eq!((done.summary.verified_no, done.summary.change_no), (Some(change_no), change_no), "a recount agrees");
    assert!(client.explain_flow(flow).await.unwrap().parked.is_empty(), "it is not parked again");
    engine.shutdown().await;
}
