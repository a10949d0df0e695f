use crate::{ask, ask_at, claim, of, open};
use serde_json::{Value, json};
use weft_api::Problem;
use weft_dispatch::{Caller, Dispatch};

/// A shop with its engine.
struct Shop {
    dispatch: Dispatch,
    caller: Caller,
}

impl Shop {
    async fn open() -> Self {
        Self { dispatch: open().await, caller: of("shop") }
    }

    async fn try_ask(&self, operation: &str, path: &[&str], body: Value) -> Result<Value, Problem> {
        ask_at(&self.dispatch, &self.caller, operation, path, body, None).await
    }

    async fn ask(&self, operation: &str, path: &[&str], body: Value) -> Value {
        self.try_ask(operation, path, body).await.unwrap_or_else(|problem| panic!("{operation}: {problem}"))
    }

    async fn submit(&self, flow: Value) -> String {
        self.ask("submit_flow", &[], flow).await["id"].as_str().unwrap().to_string()
    }

    /// Claims one execution of a lane, and what fenced calls name it by.
    async fn claim(&self, lane: &str) -> (Value, Value) {
        let task = claim(&self.dispatch, &self.caller, lane).await;
        let held =
            json!({ "execution": task["execution"], "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"] });
        (task, held)
    }
}

fn with(held: &Value, more: Value) -> Value {
    let mut held = held.clone();
    held.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    held
}

#[tokio::test(start_paused = true)]
async fn fl_252_the_first_of_several_ends_the_others() {
    let shop = Shop::open().await;
    let then = json!({ "kind": "cancel_remaining", "mode": "immediate" });
    let join = json!([{ "policy": { "kind": "any_of" }, "then": then }]);
    let id = shop
        .submit(json!({
            "kind": "race",
            "members": [
                { "key": "one", "kind": "try", "lane": "one" }, { "key": "two", "kind": "try", "lane": "two" },
                { "key": "won", "kind": "end", "lane": "end", "groups": join },
            ],
            "edges": [
                { "from": "one", "to": "won", "input": "tries[]" }, { "from": "two", "to": "won", "input": "tries[]" },
            ],
        }))
        .await;
    let (_, two) = shop.claim("two").await;
    let result = with(&two, json!({ "result": { "text": "here" } }));
    shop.ask("complete", &[], json!({ "items": [result] })).await;
    let (won, held) = shop.claim("end").await;
    assert_eq!(won["flow"], json!({ "id": id, "key": "won" }));
    let inputs = won["inputs"].as_array().unwrap();
    let outcomes: Vec<_> = inputs.iter().map(|it| (&it["upstream"], &it["outcome"], &it["value"])).collect();
    let (cancelled, success) = (json!("cancelled"), json!("success"));
    assert_eq!(
        outcomes,
        [(&json!("one"), &cancelled, &Value::Null), (&json!("two"), &success, &json!({ "text": "here" }))]
    );
    let two = |more: Value| with(&held, with(&json!({ "name": "tries[]" }), more));
    let ambiguous = shop.try_ask("read_input", &[], two(json!({}))).await.unwrap_err();
    assert_eq!(ambiguous.fields["field"], "upstream");
    let none = shop.try_ask("read_input", &[], two(json!({ "upstream": "three" }))).await.unwrap_err();
    assert_eq!(none.code.name(), "not_found");
    let group = shop.ask("get_group", &[&id, "won", "main"], Value::Null).await;
    assert_eq!((&group["group"]["state"], &group["group"]["then"]), (&json!("satisfied"), &then));
    let members = shop.ask("list_members", &[&id], Value::Null).await;
    let ended_by = &members["items"][0]["flow"]["ended_by"];
    assert_eq!((&ended_by["kind"], &ended_by["verdict"]), (&json!("sibling"), &json!("satisfied")));
}

#[tokio::test(start_paused = true)]
async fn fl_61_a_running_member_grows_its_own_flow() {
    let shop = Shop::open().await;
    let id =
        shop.submit(json!({ "kind": "crawl", "members": [{ "key": "root", "kind": "page", "lane": "root" }] })).await;
    let (_, held) = shop.claim("root").await;
    let found = json!({
        "members": [{ "key": "x", "kind": "page", "lane": "found" }, { "key": "y", "kind": "page", "lane": "found" }],
        "edges": [{ "from": "x", "to": "y" }], "seal": false,
    });
    let grown = shop.ask("add_own_members", &[], with(&held, found.clone())).await;
    assert_eq!((grown["members"].as_object().unwrap().len(), &grown["revision"]), (2, &json!(2)));
    let again = shop.ask("add_own_members", &[], with(&held, found)).await;
    assert_eq!((&again["members_existed"], &again["edges_existed"]), (&json!(["x", "y"]), &json!(1)));
    assert_eq!(shop.claim("found").await.0, Value::Null, "nothing starts before its edges are known");
    shop.ask("seal_own_members", &[], with(&held, json!({ "keys": ["x", "y"] }))).await;
    assert_eq!(shop.claim("found").await.0["flow"]["key"], "x");
    let edge = with(&held, json!({ "edges": [{ "from": "root", "to": "x" }] }));
    assert_eq!(shop.try_ask("add_own_edges", &[], edge).await.unwrap_err().code.name(), "downstream_begun");
    let stale = with(&held, json!({ "epoch": 9, "members": [{ "key": "z", "kind": "page" }] }));
    assert_eq!(shop.try_ask("add_own_members", &[], stale).await.unwrap_err().code.name(), "stale_lease");
    let finish = with(&held, json!({ "outcome": "completed" }));
    let refused = shop.try_ask("finish_own_flow", &[], finish).await.unwrap_err();
    assert_eq!(refused.fields["field"], "completion_policy");
    assert_eq!(shop.ask("get_flow", &[&id], Value::Null).await["summary"]["total_members"], 3);

    ask(&shop.dispatch, &shop.caller, "submit_execution", json!({ "kind": "alone" }), None).await.unwrap();
    let (_, alone) = shop.claim("default").await;
    let grow = with(&alone, json!({ "members": [{ "key": "z", "kind": "page" }] }));
    let refused = shop.try_ask("add_own_members", &[], grow).await.unwrap_err();
    assert_eq!(
        (refused.code.name(), refused.detail.as_str()),
        ("flow_not_found", "the execution is no member of a flow")
    );
}

#[tokio::test(start_paused = true)]
async fn fl_15_a_child_joins_the_flow_of_its_parent_unless_told_otherwise() {
    let shop = Shop::open().await;
    let id =
        shop.submit(json!({ "kind": "crawl", "members": [{ "key": "root", "kind": "page", "lane": "root" }] })).await;
    let (_, held) = shop.claim("root").await;
    let items = json!([
        { "kind": "page", "idempotency_key": "in" }, { "kind": "page", "idempotency_key": "loose", "critical": false },
        { "kind": "page", "flow": "none" }, { "kind": "page", "flow": "none", "critical": true },
    ]);
    let made = shop.ask("spawn_children", &[], with(&held, json!({ "items": items }))).await;
    let results = made["results"].as_array().unwrap();
    assert_eq!(results[3]["error"]["fields"]["field"], "critical");
    let mut flows = Vec::new();
    for result in &results[..3] {
        let child = shop.ask("get_execution", &[result["ok"]["id"].as_str().unwrap()], Value::Null).await;
        flows.push(json!([child["flow"]["id"], child["flow"]["key"], child["flow"]["critical"]]));
    }
    assert_eq!(flows, [json!([id, "in", true]), json!([id, "loose", false]), json!([null, null, null])]);
}

#[tokio::test(start_paused = true)]
async fn fl_58_a_flow_that_is_not_sealed_says_so() {
    let shop = Shop::open().await;
    let id = shop.submit(json!({ "kind": "etl", "seal": false, "seal_by_ms": 60_000 })).await;
    let codes = |why: &Value| -> Vec<String> {
        why["reasons"].as_array().unwrap().iter().map(|it| it["code"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(codes(&shop.ask("explain_flow", &[&id], Value::Null).await), ["unsealed"]);
    let refused = shop.try_ask("seal_flow", &[&id], json!({})).await.unwrap_err();
    assert_eq!(refused.code.name(), "empty_flow");
    let members = json!({ "members": [{ "key": "a", "kind": "load" }, { "key": "b", "kind": "load" }], "seal": false });
    shop.ask("add_members", &[&id], members).await;
    shop.ask("add_edges", &[&id], json!({ "edges": [{ "from": "a", "to": "b", "on": "any" }] })).await;
    let member = shop.ask("list_members", &[&id], Value::Null).await["items"][1]["id"].as_str().unwrap().to_string();
    let why = shop.ask("explain_execution", &[&member], Value::Null).await;
    let text = "it is not sealed, and waits for one upstream so far: `a` (waiting_children)";
    assert_eq!(why["reasons"][0]["text"], text);
    assert_eq!(shop.ask("seal_flow", &[&id], json!({})).await, json!({ "already": false }));
    assert_eq!(shop.ask("seal_flow", &[&id], json!({})).await, json!({ "already": true }));
    let why = shop.ask("explain_flow", &[&id], Value::Null).await;
    assert_eq!(
        (codes(&why), &why["live"]),
        (vec!["members".to_string()], &json!({ "waiting": 1, "waiting_children": 1 }))
    );
    assert_eq!(why["members"][1]["explanation"]["reasons"][0]["code"], "dependencies");
    let fixed = shop.ask("change_flow", &[&id], json!({ "growth": "fixed", "set": { "a": "b" } })).await;
    assert_eq!(fixed, json!({ "tags": { "a": "b" }, "growth": "fixed" }));
    let late = json!({ "members": [{ "key": "c", "kind": "load" }] });
    let refused = shop.try_ask("add_members", &[&id], late).await.unwrap_err();
    assert_eq!((refused.code.name(), &refused.fields["state"]), ("flow_closed", &json!("fixed")));
}
