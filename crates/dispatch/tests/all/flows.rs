use crate::{ask, ask_at, claim, of, open};
use serde_json::{Value, json};
use weft_api::operation::Wire;
use weft_api::{Call, Problem};
use weft_dispatch::{Around, Caller, Dispatch};

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

    async fn wait_for_end(&self, flow: &str) {
        let wire = Wire { path: vec![flow.to_owned()], query: "wait_ms=60000".to_owned(), ..Wire::default() };
        let call = Call::from_wire("get_flow", wire).unwrap();
        let answer = self.dispatch.call(&self.caller, call, &Around::default()).await.unwrap();
        let flow: Value = serde_json::from_slice(&answer.reply.carry().bytes).unwrap();
        assert_eq!(flow["reached"], true, "{flow}");
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

/// The first reason of an explanation: its text, and what ends it.
fn first(why: &Value) -> (&str, &str) {
    let reason = &why["reasons"][0];
    (reason["text"].as_str().unwrap_or_default(), reason["clears"].as_str().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_member_that_a_group_ended_says_which_and_because_of_whom() {
    let shop = Shop::open().await;
    let id = shop
        .submit(json!({
            "kind": "etl",
            "members": [
                { "key": "load", "kind": "load", "lane": "load" }, { "key": "report", "kind": "report" },
                { "key": "north", "kind": "ask", "lane": "north" }, { "key": "south", "kind": "ask", "lane": "south" },
                { "key": "best", "kind": "tell" },
            ],
            "edges": [
                { "from": "load", "to": "report" },
                { "from": "north", "to": "best", "group": "quick", "policy": "any_of", "then": "cancel_remaining" },
                { "from": "south", "to": "best", "group": "quick" },
            ],
        }))
        .await;
    let (_, load) = shop.claim("load").await;
    let failed = with(&load, json!({ "category": "smtp", "message": "no such host", "retry": "never" }));
    shop.ask("fail", &[], json!({ "items": [failed] })).await;
    let (_, north) = shop.claim("north").await;
    shop.ask("complete", &[], json!({ "items": [north] })).await;
    let members = shop.ask("list_members", &[&id], Value::Null).await;
    let member = |at: usize| members["items"][at]["id"].as_str().unwrap().to_string();

    let why = shop.ask("explain_execution", &[&member(1)], Value::Null).await;
    let text = "it has ended: skipped (dependency); its group `main` cannot be met after the end of `load`";
    assert_eq!(first(&why), (text, "replay of its upstreams"));
    assert_eq!((&why["flow"], &why["key"]), (&json!(id), &json!("report")));
    assert_eq!(why["reasons"][0]["detail"]["ended_by"]["unmet"][0]["execution"], member(0));
    let why = shop.ask("explain_execution", &[&member(3)], Value::Null).await;
    let text = "it has ended: cancelled (sibling); the group `quick` of `best` was satisfied without it";
    assert_eq!(first(&why), (text, "replay"));

    let (_, best) = shop.claim("default").await;
    shop.ask("complete", &[], json!({ "items": [best] })).await;
    let why = shop.ask("explain_flow", &[&id], Value::Null).await;
    assert_eq!(first(&why), ("it has ended: failed (all_terminal)", "replay"));
    assert_eq!(why["reasons"][1]["text"], "one member counts against it: `load` failed: smtp \"no such host\"");
    let late = json!({ "members": [{ "key": "more", "kind": "load" }] });
    let refused = shop.try_ask("add_members", &[&id], late).await.unwrap_err();
    assert_eq!(refused.detail, "the flow is failed: it takes no members or edges any more");
    assert_eq!(
        refused.hint.as_deref(),
        Some("replay one of its members, which opens it again, or submit another flow")
    );
    shop.ask("replay_execution", &[&member(0)], json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_proposed_that_a_flow_which_has_ended_refuses() {
    let shop = Shop::open().await;
    let one = json!([{ "key": "a", "kind": "load", "lane": "a" }]);
    let cancelled = shop.submit(json!({ "kind": "etl", "members": one })).await;
    shop.ask("cancel_flow", &[&cancelled], json!({})).await;
    let why = shop.ask("explain_flow", &[&cancelled], Value::Null).await;
    let text = "it has ended: cancelled (requested); it cannot be opened again: submit it anew";
    assert_eq!(first(&why), (text, ""));
    let members = shop.ask("list_members", &[&cancelled], Value::Null).await;
    let member = members["items"][0]["id"].as_str().unwrap();
    let why = shop.ask("explain_execution", &[member], Value::Null).await;
    let text = "it has ended: cancelled (flow); its flow is cancelled and takes no replays";
    assert_eq!(first(&why), (text, ""));
    let refused = shop.try_ask("replay_execution", &[member], json!({})).await.unwrap_err();
    assert_eq!(refused.detail, "the flow is cancelled: it takes no members, edges or replays any more");

    let late = shop.submit(json!({ "kind": "etl", "members": one, "deadline_in_ms": 1_000 })).await;
    shop.wait_for_end(&late).await;
    let why = shop.ask("explain_flow", &[&late], Value::Null).await;
    assert_eq!(first(&why), ("it has ended: failed (deadline); no member counts against it", "replay of members"));

    let good = shop.submit(json!({ "kind": "etl", "members": one })).await;
    let (_, held) = shop.claim("a").await;
    shop.ask("complete", &[], json!({ "items": [held] })).await;
    let why = shop.ask("explain_flow", &[&good], Value::Null).await;
    assert_eq!(first(&why), ("it has ended: completed (all_terminal)", ""));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_node_the_edge_and_what_was_meant() {
    let shop = Shop::open().await;
    let id =
        shop.submit(json!({ "kind": "etl", "members": [{ "key": "load", "kind": "load", "lane": "load" }] })).await;
    let other = json!({ "members": [{ "key": "load", "kind": "elsewhere" }] });
    let refused = shop.try_ask("add_members", &[&id], other).await.unwrap_err();
    assert_eq!((refused.code.name(), refused.status), ("idempotency_mismatch", 409));
    assert!(refused.detail.starts_with("`members[0]` (`load`): the key belongs to `x_"), "{}", refused.detail);
    shop.claim("load").await;
    let late = json!({ "members": [{ "key": "pre", "kind": "load" }], "edges": [{ "from": "pre", "to": "load" }] });
    let refused = shop.try_ask("add_members", &[&id], late).await.unwrap_err();
    let detail = "`edges[0]` (`pre` -> `load`): the downstream has begun; an edge to it would come too late";
    assert_eq!((refused.code.name(), refused.detail.as_str()), ("downstream_begun", detail));
    assert_eq!(refused.hint.as_deref(), Some("add the edge before the downstream is claimed"));
    let misspelt =
        json!({ "members": [{ "key": "post", "kind": "load" }], "edges": [{ "from": "laod", "to": "post" }] });
    let refused = shop.try_ask("add_members", &[&id], misspelt).await.unwrap_err();
    assert_eq!((refused.code.name(), refused.hint.as_deref()), ("unknown_node", Some("did you mean `load`?")));

    let refused = shop.try_ask("get_execution", &[&id], Value::Null).await.unwrap_err();
    assert_eq!(refused.code.name(), "invalid_id");
    assert_eq!(refused.detail, format!("`{id}` is the id of a flow, not of an execution"));
    let member = shop.ask("list_members", &[&id], Value::Null).await["items"][0]["id"].as_str().unwrap().to_string();
    let refused = shop.try_ask("get_flow", &[&member], Value::Null).await.unwrap_err();
    assert_eq!(refused.detail, format!("`{member}` is the id of an execution, not of a flow"));
}
