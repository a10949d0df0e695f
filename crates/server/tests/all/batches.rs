//! Batches: each item has its own answer, also one that cannot be read.

use crate::kit::*;
use serde_json::{Value, json};
use weft_api::{OPERATIONS, Spec};

/// Every operation whose reply is a list of results.
fn batches() -> impl Iterator<Item = &'static Spec> {
    let of_results = |spec: &&Spec| {
        let document: Value = serde_json::from_str(weft_server::document_text()).unwrap();
        let operation = &document["paths"][spec.path][spec.method.name().to_lowercase()];
        let schema = operation["responses"]["200"]["content"]["application/json"]["schema"].to_string();
        schema.contains("/Results_") || schema.contains("/RenewReply")
    };
    OPERATIONS.iter().copied().filter(of_results)
}

/// A batch of the operation with these items.
fn body(spec: &Spec, task: &Task, items: Value) -> Value {
    match spec.id {
        "spawn_children" => task.held(json!({ "items": items })),
        _ => json!({ "items": items }),
    }
}

#[tokio::test]
async fn api_10_an_item_that_cannot_be_read_does_not_cost_the_others() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let mut tried = 0;
    for spec in batches() {
        http.submit(json!({ "kind": "mail" })).await;
        let task = http.claim().await;
        let good = match spec.id {
            "submit_executions" | "spawn_children" => json!({ "kind": "sms", "lane": "other" }),
            "cancel_executions" => json!({ "execution": task.execution() }),
            "settle" => task.held(json!({ "verb": "complete" })),
            "renew" | "complete" | "fail" => task.held(json!({})),
            other => panic!("{other} is new: say what a good item of it is"),
        };
        let mut unknown = good.clone();
        unknown["knd"] = json!(1);
        let items = json!([unknown, {}, good, 7]);
        let answer = http.call(spec.method.name(), spec.path, &body(spec, &task, items)).await;
        let request = answer.header("x-request-id").unwrap().to_string();
        let answer = answer.good();
        let results = answer["results"].as_array().unwrap();
        let field = |at: usize| results[at]["error"]["fields"]["field"].as_str().unwrap_or_default().to_string();
        assert_eq!((results.len(), field(0).as_str()), (4, "items[0].knd"), "{}: {answer}", spec.id);
        assert!(field(1).starts_with("items[1].") && field(3) == "items[3]", "{}: {answer}", spec.id);
        assert_eq!(results[1]["error"]["code"], "invalid_argument", "{}", spec.id);
        assert_eq!(results[1]["error"]["request_id"], request, "{}", spec.id);
        assert!(results[2]["ok"].is_object(), "{}: {answer}", spec.id);
        for wrong in [json!({ "items": [1], "more": 1 }), json!({ "items": 1 }), json!([1])] {
            let answer = http.call(spec.method.name(), spec.path, &wrong).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_argument"), "{}", spec.id);
        }
        // Its leases must not be in the way of the next operation.
        http.post(&format!("/v1/executions/{}/cancel", task.execution()), json!({})).await;
        tried += 1;
    }
    assert_eq!(tried, 7, "batches of the table");
}

#[tokio::test]
async fn api_10_one_item_that_cannot_be_read_refuses_all_of_an_atomic_batch() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let batch = json!({ "items": [{ "kind": "mail" }, { "knd": "mail" }], "atomic": true });
    let problem = http.post("/v1/executions/batch", batch).await.refused(400, "invalid_argument");
    assert_eq!((&problem["fields"]["item"], &problem["fields"]["field"]), (&json!(1), &json!("items[1].knd")));
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 0, "none of them is there");
}
