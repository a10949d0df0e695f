use crate::{ask, claim, of, open};
use serde_json::json;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OWN: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

#[tokio::test(start_paused = true)]
async fn api_8_the_trace_of_a_submission_is_kept_and_given_to_its_worker() {
    let dispatch = open().await;
    let shop = of("shop");
    let submit = json!({ "kind": "send" });
    ask(&dispatch, &shop, "submit_execution", submit, Some(TRACE)).await.unwrap();
    let work = claim(&dispatch, &shop, "default").await;
    assert_eq!(work["trace"], TRACE);

    // What the body says counts more than what surrounds it.
    let submit = json!({ "kind": "send", "trace": OWN });
    ask(&dispatch, &shop, "submit_execution", submit, Some(TRACE)).await.unwrap();
    assert_eq!(claim(&dispatch, &shop, "default").await["trace"], OWN);
}

#[tokio::test(start_paused = true)]
async fn ops_11_a_retry_and_a_child_stay_in_the_trace() {
    let dispatch = open().await;
    let shop = of("shop");
    ask(&dispatch, &shop, "submit_execution", json!({ "kind": "parent" }), Some(TRACE)).await.unwrap();
    let work = claim(&dispatch, &shop, "default").await;
    let (execution, lease, epoch) = (&work["execution"], &work["lease"]["id"], &work["lease"]["epoch"]);
    let held = json!({ "execution": execution, "lease": lease, "epoch": epoch, "items": [{ "kind": "child", "lane": "children" }] });
    ask(&dispatch, &shop, "spawn_children", held, None).await.unwrap();
    assert_eq!(claim(&dispatch, &shop, "children").await["trace"], TRACE);

    let failed = json!({ "items": [{
        "execution": execution, "lease": lease, "epoch": epoch, "retry": { "after_ms": 0 },
    }] });
    ask(&dispatch, &shop, "fail", failed, None).await.unwrap();
    let body = json!({ "worker": "w", "instance": "w-1", "wait_ms": 5_000 });
    let again = ask(&dispatch, &shop, "claim", body, None).await.unwrap()["executions"][0].clone();
    assert_eq!((&again["attempt"]["index"], &again["trace"]), (&json!(1), &json!(TRACE)));
}
