//! Flows with a member that cannot be read: named to whoever asks, and given up by an operator.

use crate::kit::bench::Bench;
use crate::kit::kinds::Kind;
use crate::kit::plant;
use weft_core::flow::member_id;
use weft_core::record::Key;
use weft_core::record::execution::PublicState;
use weft_core::reply::Retried;
use weft_core::schema::execution as schema;
use weft_engine::Submission;
use weft_engine::flow::{FlowCancellation, FlowSubmission};

pub async fn fl_145_a_damaged_member_is_named_and_its_flow_ends_when_an_operator_gives_it_up(kind: impl Kind) {
    let bench = Bench::running(&kind, 1).await;
    let work = || Submission::new("work");
    let three = FlowSubmission::new("etl").member("a", work()).member("b", work()).member("c", work());
    let flow = bench.submit(three).await;
    bench.engine.shutdown().await;
    let key = Key::Execution(member_id(flow, "b"));
    plant::damage(&*bench.store, key, schema::HOT).await;

    let bench = bench.another().await;
    let client = &bench.client;
    let ended = client.cancel_flow(FlowCancellation::new(flow, "enough")).await.unwrap().value;
    assert_eq!((ended.reply.cancelled, ended.done), (2, false));
    let told = client.explain_flow(flow).await.unwrap();
    assert_eq!(told.parked.iter().map(|parked| parked.item).collect::<Vec<_>>(), [Some(key)]);
    let parked = told.parked[0].id;
    let retried = client.retry_parked(parked, None).await.unwrap().value;
    assert!(matches!(retried, Retried::StillDamaged { .. }), "it is as it was");

    client.discard_parked(parked, "lost", None).await.unwrap();
    assert_eq!(client.discard_parked(parked, "lost", None).await.unwrap_err().code(), "not_found");
    let change_no = client.flow(flow).await.unwrap().flow.summary.change_no;
    for _ in 0..60 {
        bench.pass(1_000).await;
    }
    let done = client.flow(flow).await.unwrap().flow;
    assert_eq!((done.public_state().name(), done.summary.of(PublicState::Failed)), ("cancelled", 1));
    assert_eq!((done.summary.verified_no, done.summary.change_no), (Some(change_no), change_no), "a recount agrees");
    assert!(client.explain_flow(flow).await.unwrap().parked.is_empty(), "it is not parked again");
}
