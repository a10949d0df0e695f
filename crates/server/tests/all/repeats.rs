//! Every changing call, twice: one effect and one answer.

use crate::kit::*;
use crate::parked;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weft_api::OPERATIONS;

/// Calls whose key names what they make.
const SUBMITS: [&str; 2] = ["submit_execution", "submit_flow"];

struct Twice {
    http: Http,
    covered: BTreeSet<&'static str>,
    keys: u32,
}

impl Twice {
    fn cover(&mut self, id: &str) -> (&'static str, &'static str) {
        let spec = OPERATIONS.iter().find(|spec| spec.id == id).unwrap_or_else(|| panic!("{id} is an operation"));
        self.covered.insert(spec.id);
        (spec.method.name(), spec.path)
    }

    /// Calls twice with one key, and once more with another body if there is one, which is a conflict.
    async fn call(&mut self, id: &str, execution: &str, body: Value, other: Option<Value>) -> Value {
        let (method, path) = self.cover(id);
        let path = ["{execution}", "{instance}", "{node}", "{flow}", "{item}"]
            .into_iter()
            .fold(path.to_string(), |path, name| path.replace(name, execution));
        self.keys += 1;
        let key = format!("key {}", self.keys);
        let header = [("idempotency-key", key.as_str())];
        let first = self.http.call_with(method, &path, &body, &header).await;
        first.good();
        assert_eq!(first.header("idempotency-replayed"), None, "{id}");
        let again = self.http.call_with(method, &path, &body, &header).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{id}: {again:?}");
        // It tells in the body, too, that it was there before.
        if !SUBMITS.contains(&id) {
            assert_eq!((again.status, &again.body), (first.status, &first.body), "{id}");
        }
        if let Some(other) = other {
            let conflict = self.http.call_with(method, &path, &other, &header).await;
            conflict.refused(409, "idempotency_mismatch");
        }
        // The field of the body is the same thing as the header.
        if let Value::Object(fields) = &body
            && !SUBMITS.contains(&id)
        {
            let mut fields = fields.clone();
            fields.insert("request_id".to_string(), json!(key));
            let by_field = self.http.call(method, &path, &Value::Object(fields.clone())).await;
            assert_eq!((by_field.status, &by_field.body), (first.status, &first.body), "{id}");
            fields.insert("request_id".to_string(), json!("another"));
            let both = self.http.call_with(method, &path, &Value::Object(fields), &header).await;
            both.refused(400, "invalid_argument");
        }
        first.json()
    }

    /// A batch refuses the header: its items have ids of their own.
    async fn batch(&mut self, id: &str, body: &Value) -> Value {
        let (method, path) = self.cover(id);
        let refused = self.http.call_with(method, path, body, &[("idempotency-key", "a")]).await;
        refused.refused(400, "invalid_argument");
        self.http.call(method, path, body).await.good()
    }

    async fn replay(&mut self, execution: &str) {
        self.http.post(&format!("/v1/executions/{execution}/replay"), json!({ "reason": "again" })).await.good();
    }
}

#[tokio::test]
async fn api_9_every_changing_call_has_one_effect_and_one_answer_under_one_key() {
    let letters = (1..4).map(|number| parked::letter(number, "lease_expiry", None)).collect();
    let server = Server::start(parked::engine_with(letters).await, weft_server::Options::dev()).await;
    let mut it = Twice { http: server.http().await, covered: BTreeSet::new(), keys: 0 };
    let delayed = json!({ "kind": "mail", "delay_ms": 60000 });
    let made = it.call("submit_execution", "", delayed, Some(json!({ "kind": "post" }))).await;
    let id = made["id"].as_str().unwrap().to_string();
    assert_eq!(it.http.get("/v1/executions/count").await.good()["total"], 1);
    it.call("reschedule_execution", &id, json!({ "delay_ms": 0 }), Some(json!({ "delay_ms": 5 }))).await;
    it.call("set_priority", &id, json!({ "priority": 7 }), Some(json!({ "priority": 8 }))).await;
    it.call("set_tags", &id, json!({ "set": { "a": "b" } }), Some(json!({ "set": { "a": "c" } }))).await;
    it.call("hold_execution", &id, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    it.call("release_execution", &id, json!({}), None).await;
    it.http.claim().await;
    it.call("revoke_execution", &id, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;

    let task = claim_twice(&mut it).await;
    it.call("progress", "", task.held(json!({ "percent": 3 })), Some(task.held(json!({ "percent": 4 })))).await;
    let step = |value: u32| task.held(json!({ "steps": [{ "name": "a", "value": { "json": value } }] }));
    it.call("record_steps", "", step(1), Some(step(3))).await;
    let other = it.http.post("/v1/work/steps", step(2)).await.good();
    assert_eq!(other["steps"], json!([{ "name": "a", "existed": true, "value": { "json": 1 } }]), "the first stays");
    let tag = |value: &str| task.held(json!({ "set": { "c": value } }));
    it.call("tag_held", "", tag("d"), Some(tag("e"))).await;
    it.batch("renew", &json!({ "items": [task.held(json!({}))] })).await;
    it.call("delay", "", task.held(json!({ "delay_ms": 0 })), Some(task.held(json!({ "delay_ms": 9 })))).await;

    let task = it.http.claim().await;
    let child = json!({ "kind": "part", "lane": "parts", "idempotency_key": "child" });
    let spawn = task.held(json!({ "items": [child] }));
    let first = it.batch("spawn_children", &spawn).await;
    let again = it.http.post("/v1/work/children", spawn).await.good();
    assert_eq!(first["results"][0]["ok"]["id"], again["results"][0]["ok"]["id"]);
    let child = first["results"][0]["ok"]["id"].as_str().unwrap().to_string();
    it.call("wait_children", "", task.held(json!({})), Some(task.held(json!({ "timeout_ms": 500 })))).await;
    it.call("cancel_execution", &child, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    let task = it.http.claim().await;
    assert_eq!(task.execution(), id, "its children have ended");
    it.call("cancel_held", "", task.held(json!({ "reason": "x" })), Some(task.held(json!({ "reason": "y" })))).await;

    it.call("replay_execution", &id, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    let task = it.http.claim().await;
    let item = task.held(json!({ "request_id": "done", "result": { "json": 1 } }));
    let first = it.batch("complete", &json!({ "items": [item] })).await;
    let again = it.http.post("/v1/work/complete", json!({ "items": [item] })).await.good();
    assert_eq!(
        (&first["results"][0]["ok"]["outcome"], &again["results"][0]["ok"]["repeated"]),
        (&json!("success"), &json!(true))
    );
    it.replay(&id).await;
    let task = it.http.claim().await;
    let item = task.held(json!({ "request_id": "failed", "message": "no", "retry": "never" }));
    let first = it.batch("fail", &json!({ "items": [item] })).await;
    let again = it.http.post("/v1/work/fail", json!({ "items": [item] })).await.good();
    let (first, again) = (&first["results"][0]["ok"], &again["results"][0]["ok"]);
    assert_eq!((&first["reason"], &first["repeated"]), (&again["reason"], &Value::Null));
    assert_eq!(again["repeated"], true);
    it.replay(&id).await;
    let task = it.http.claim().await;
    let item = task.held(json!({ "verb": "delay", "request_id": "later", "delay_ms": 0 }));
    let first = it.batch("settle", &json!({ "items": [item] })).await;
    let again = it.http.post("/v1/work/settle", json!({ "items": [item] })).await.good();
    let (first, again) = (&first["results"][0]["ok"], &again["results"][0]["ok"]);
    assert_eq!((&first["until_at"], &first["repeated"]), (&again["until_at"], &Value::Null));
    assert_eq!(again["repeated"], true);

    let force = json!({ "reason": "x", "result": { "json": 1 } });
    it.call("force_complete", &id, force, Some(json!({ "reason": "x", "result": { "json": 2 } }))).await;
    it.replay(&id).await;
    let force = json!({ "reason": "x", "message": "no" });
    it.call("force_fail", &id, force, Some(json!({ "reason": "x", "message": "yes" }))).await;
    it.call("purge_execution", &id, Value::Null, None).await;
    it.http.get(&format!("/v1/executions/{id}")).await.refused(404, "execution_not_found");

    let keyed = json!({ "items": [{ "kind": "a", "idempotency_key": "one" }, { "kind": "b" }] });
    let first = it.batch("submit_executions", &keyed).await;
    let again = it.http.post("/v1/executions/batch", keyed).await.good();
    assert_eq!(first["results"][0]["ok"]["id"], again["results"][0]["ok"]["id"]);
    assert_ne!(first["results"][1]["ok"]["id"], again["results"][1]["ok"]["id"], "without a key it is another one");
    let one = first["results"][0]["ok"]["id"].clone();
    let cancel = json!({ "items": [{ "execution": one, "request_id": "c" }] });
    let first = it.batch("cancel_executions", &cancel).await;
    assert_eq!(it.http.post("/v1/executions/cancel", cancel).await.good(), first);

    flows_twice(&mut it).await;
    members_twice(&mut it).await;
    workers_twice(&mut it).await;
    parked_twice(&mut it).await;
    let node = it.http.get("/v1/nodes").await.good()["items"][0]["id"].as_str().unwrap().to_string();
    let asked = it.call("drain_node", &node, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    assert_eq!(asked, json!({ "node": node, "draining": true }));
    // Keys and bulk jobs have tests of their own, where they are.
    let elsewhere = ["keys", "bulk"];
    let changing = OPERATIONS.iter().filter(|spec| spec.changes() && !elsewhere.contains(&spec.tag));
    assert_eq!(it.covered, changing.map(|spec| spec.id).collect());
}

/// Members of these tests wait where nobody else claims.
fn member(key: &str) -> Value {
    json!({ "key": key, "kind": "part", "lane": "flow" })
}

async fn flow_of(it: &mut Twice, more: Value) -> String {
    let mut flow = json!({ "kind": "etl", "members": [member("a")] });
    flow.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    it.http.post("/v1/flows", flow).await.good()["id"].as_str().unwrap().to_string()
}

async fn flows_twice(it: &mut Twice) {
    let members = [member("a"), member("b")];
    let flow = json!({ "kind": "etl", "members": members, "edges": [{ "from": "a", "to": "b" }], "seal": false });
    let made = it.call("submit_flow", "", flow, Some(json!({ "kind": "elt", "members": members }))).await;
    let id = made["id"].as_str().unwrap().to_string();
    let grown = it
        .call("add_members", &id, json!({ "members": [member("c")] }), Some(json!({ "members": [member("d")] })))
        .await;
    assert_eq!((&grown["revision"], grown["members"].as_object().unwrap().len()), (&json!(2), 1));
    let edge = |from: &str| json!({ "edges": [{ "from": from, "to": "c" }] });
    it.call("add_edges", &id, edge("a"), Some(edge("b"))).await;
    let sealed = it.call("seal_flow", &id, json!({}), Some(json!({ "keys": ["a"] }))).await;
    assert_eq!(sealed, json!({ "already": false }));
    let change = |value: &str| json!({ "set": { "team": value } });
    it.call("change_flow", &id, change("x"), Some(change("y"))).await;
    let cancelled = it.call("cancel_flow", &id, json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    assert_eq!((&cancelled["done"], &cancelled["cancelled"]), (&json!(true), &json!(3)));

    let id = flow_of(it, json!({ "completion_policy": { "kind": "declared" } })).await;
    let declare = |outcome: &str| json!({ "outcome": outcome });
    it.call("finish_flow", &id, declare("completed"), Some(declare("failed"))).await;

    let id = flow_of(it, json!({})).await;
    let members = it.http.get(&format!("/v1/flows/{id}/members")).await.good();
    let fail = format!("/v1/executions/{}/force-fail", members["items"][0]["id"].as_str().unwrap());
    it.http.post(&fail, json!({})).await.good();
    let replay = |reason: &str| json!({ "reason": reason, "wait_ms": 20000 });
    let replayed = it.call("replay_flow", &id, replay("x"), Some(replay("y"))).await;
    assert_eq!((&replayed["matched"], &replayed["done"]), (&json!(1), &json!(1)));
    it.http.post(&fail, json!({})).await.good();
    it.call("purge_flow", &id, Value::Null, None).await;
    it.http.get(&format!("/v1/flows/{id}")).await.refused(404, "flow_not_found");
}

/// A member that changes its own flow.
async fn members_twice(it: &mut Twice) {
    flow_of(it, json!({ "completion_policy": { "kind": "declared" } })).await;
    let claim = json!({ "worker": "pool", "instance": "pool-1", "lanes": [{ "lane": "flow" }], "wait_ms": 5000 });
    let task = Task(it.http.post("/v1/work/claim", claim).await.good()["executions"][0].clone());
    let grow = |key: &str| task.held(json!({ "members": [member(key)], "seal": false }));
    it.call("add_own_members", "", grow("b"), Some(grow("c"))).await;
    let edge = |on: &str| task.held(json!({ "edges": [{ "from": "a", "to": "b", "on": on }] }));
    it.call("add_own_edges", "", edge("any"), Some(edge("failure"))).await;
    let seal = |keys: &[&str]| task.held(json!({ "keys": keys }));
    it.call("seal_own_members", "", seal(&["b"]), Some(seal(&["a", "b"]))).await;
    let finish = |outcome: &str| task.held(json!({ "outcome": outcome }));
    it.call("finish_own_flow", "", finish("completed"), Some(finish("failed"))).await;
}

async fn parked_twice(it: &mut Twice) {
    let listed = it.http.get("/v1/parked").await.good();
    let id = |at: usize| listed["items"][at]["id"].as_str().unwrap().to_string();
    it.call("discard_parked", &id(0), json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    it.call("retry_parked", &id(1), json!({}), None).await;
    let all = it.call("retry_all_parked", "", json!({}), Some(json!({ "scanner": "lease_expiry" }))).await;
    assert_eq!(all["nothing_left"], 1, "the repeat tells the same, though nothing was left");
}

/// The registry: what is answered is known only after several commits.
async fn workers_twice(it: &mut Twice) {
    let register = |boot: &str| json!({ "worker": "pool", "instance": "pool-9", "boot_id": boot, "lanes": ["mine"] });
    let registered = it.call("register_worker", "", register("a"), Some(register("b"))).await;
    assert_eq!(registered["session"], 1);
    it.http.post("/v1/executions", json!({ "kind": "mail", "lane": "mine" })).await.good();
    let claim = json!({ "worker": "pool", "instance": "pool-9" });
    it.http.post("/v1/work/claim", claim).await.good();
    it.call("heartbeat", "pool-9", json!({ "session": 1 }), Some(json!({ "session": 1, "free": 3 }))).await;
    let drain = json!({ "worker": "pool", "reason": "x" });
    let told = it.call("drain_workers", "", drain, Some(json!({ "worker": "pool", "reason": "y" }))).await;
    assert!(told["instances"].as_array().unwrap().contains(&json!("pool-9")), "{told}");
    let target = json!({ "instance": "pool-9" });
    it.call("undrain_workers", "", target, Some(json!({ "instance": "pool-8" }))).await;
    let dead = it.call("mark_worker_dead", "pool-9", json!({ "reason": "x" }), Some(json!({ "reason": "y" }))).await;
    assert_eq!(dead, json!({ "leases": 1 }), "the repeat tells the same, though nothing was left to end");
    it.http.post("/v1/workers", register("c")).await.good();
    let gone = it.call("deregister_worker", "pool-9", Value::Null, None).await;
    assert_eq!(gone, json!({ "leases": 0 }));
    it.http.get("/v1/workers/pool-9").await.refused(404, "worker_not_found");
}

/// A claim repeated gets the leases of the first, whose time goes on.
async fn claim_twice(it: &mut Twice) -> Task {
    it.cover("claim");
    let claim = json!({ "worker": "pool", "instance": "pool-1" });
    let header = [("idempotency-key", "claim")];
    let first = it.http.call_with("POST", "/v1/work/claim", &claim, &header).await;
    let again = it.http.call_with("POST", "/v1/work/claim", &claim, &header).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let lease = |answer: &Answer| answer.good()["executions"][0]["lease"]["id"].clone();
    assert!(lease(&first).is_string() && lease(&first) == lease(&again), "{first:?} {again:?}");
    Task(first.json()["executions"][0].clone())
}

#[tokio::test]
async fn ex_12_a_batch_that_is_atomic_is_stored_whole_or_not_at_all() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let bad = json!({ "atomic": true, "items": [{ "kind": "a" }, { "kind": "b", "priority": 9001 }] });
    let refused = http.post("/v1/executions/batch", bad).await.refused(400, "invalid_argument");
    assert_eq!((&refused["fields"]["item"], &refused["fields"]["field"]), (&json!(1), &json!("priority")));
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 0);
    let good = json!({ "atomic": true, "items": [{ "kind": "a" }, { "kind": "b" }] });
    let made = http.post("/v1/executions/batch", good).await.good();
    assert!(made["results"].as_array().unwrap().iter().all(|result| result["ok"]["id"].is_string()));
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 2);
    let mixed = json!({ "items": [{ "kind": "a" }, { "kind": "b", "priority": 9001 }] });
    let mixed = http.post("/v1/executions/batch", mixed).await.good();
    assert!(mixed["results"][0]["ok"].is_object() && mixed["results"][1]["error"]["code"] == "invalid_argument");
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 3);
}
