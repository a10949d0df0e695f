//! Whole flows over HTTP: submitted, worked off, read, changed and ended.

use crate::kit::*;
use http::Request;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weft_core::command::Scopes;

/// `a` feeds `b` and `c`, which feed `d`.
fn diamond() -> Value {
    json!({
        "kind": "etl", "name": "nightly", "tags": { "team": "data" },
        "members": [
            { "key": "a", "kind": "load" }, { "key": "b", "kind": "left" }, { "key": "c", "kind": "right" },
            { "key": "d", "kind": "merge", "input": { "json": "own" } },
        ],
        "edges": [
            { "from": "a", "to": "b", "input": "source" }, { "from": "a", "to": "c" },
            { "from": "b", "to": "d", "input": "left" }, { "from": "c", "to": "d", "input": "right" },
        ],
    })
}

async fn submit(http: &mut Http, flow: Value) -> String {
    let made = http.post("/v1/flows", flow).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().unwrap().to_string()
}

async fn complete(http: &mut Http, task: &Task, result: Value) {
    let item = task.held(json!({ "result": { "json": result } }));
    let done = http.post("/v1/work/complete", json!({ "items": [item] })).await.good();
    assert_eq!(done["results"][0]["ok"]["outcome"], "success", "{done}");
}

async fn fail(http: &mut Http, task: &Task) {
    let item = task.held(json!({ "retry": "never", "message": "no" }));
    http.post("/v1/work/fail", json!({ "items": [item] })).await.good();
}

/// The key of claimed work in its flow.
fn key(task: &Task) -> String {
    task.0["flow"]["key"].as_str().unwrap_or_else(|| panic!("{} is of no flow", task.0)).to_string()
}

#[tokio::test]
async fn fl_250_a_diamond_runs_over_http_and_its_last_member_gets_both_inputs() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let made = http.post("/v1/flows", diamond()).await;
    assert_eq!(made.status, 201);
    let made = made.good();
    let id = made["id"].as_str().unwrap().to_string();
    assert_eq!(made["members"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!((&made["revision"], &made["duplicate"]), (&json!(1), &json!(false)));

    let a = http.claim().await;
    assert_eq!((key(&a).as_str(), &a.0["flow"]["id"]), ("a", &made["id"]));
    let d = made["members"]["d"].as_str().unwrap();
    let view = http.get(&format!("/v1/executions/{d}")).await.good();
    assert_eq!((&view["public_state"], &view["flow"]["key"]), (&json!("waiting_children"), &json!("d")));
    assert_eq!(view["holds"], json!([{ "kind": "dependencies", "waiting": 2 }]));
    let why = http.get(&format!("/v1/executions/{d}/explain")).await.good();
    let reason = &why["reasons"][0];
    assert_eq!((&reason["code"], &reason["detail"]["pending"]), (&json!("dependencies"), &json!(2)));
    assert_eq!(reason["text"], "it waits for 2 upstreams: `b` (waiting_children), `c` (waiting_children)");
    complete(&mut http, &a, json!({ "rows": 7 })).await;

    let (one, two) = (http.claim().await, http.claim().await);
    assert_eq!(BTreeSet::from([key(&one), key(&two)]), BTreeSet::from(["b".to_string(), "c".to_string()]));
    let b = if key(&one) == "b" { &one } else { &two };
    let input = &b.0["inputs"][0];
    assert_eq!(
        (&input["name"], &input["upstream"], &input["outcome"]),
        (&json!("source"), &json!("a"), &json!("success"))
    );
    assert_eq!((&input["value"], &input["execution"]), (&json!({ "json": { "rows": 7 } }), &made["members"]["a"]));
    complete(&mut http, &one, json!(key(&one))).await;
    complete(&mut http, &two, json!(key(&two))).await;

    let d = http.claim().await;
    assert_eq!((key(&d).as_str(), &d.0["input"]), ("d", &json!({ "json": "own" })));
    let inputs: Vec<_> =
        d.0["inputs"].as_array().unwrap().iter().map(|it| (&it["name"], &it["value"]["json"])).collect();
    assert_eq!(inputs, [(&json!("left"), &json!("b")), (&json!("right"), &json!("c"))]);
    let read = http.post("/v1/work/inputs/read", d.held(json!({ "name": "right" }))).await.good();
    let expected =
        json!({ "items": [{ "execution": made["members"]["c"], "outcome": "success", "value": { "json": "c" } }] });
    assert_eq!(read, expected);
    let raw = http.post("/v1/work/input", d.held(json!({ "name": "right" }))).await;
    assert_eq!((raw.status, raw.header("content-type")), (200, Some("application/json")), "{raw:?}");
    assert_eq!(raw.body, "\"c\"", "the bytes as they are");
    let from = |upstream: &str| d.held(json!({ "name": "right", "upstream": upstream }));
    assert_eq!(http.post("/v1/work/input", from("c")).await.body, "\"c\"");
    for wrong in [from("b"), d.held(json!({ "name": "middle" }))] {
        let unknown = http.post("/v1/work/input", wrong).await.refused(404, "not_found");
        assert_eq!(unknown["fields"]["what"], "input");
    }
    let stale = json!({ "execution": d.execution(), "lease": d.0["lease"]["id"], "epoch": 9, "name": "right" });
    http.post("/v1/work/inputs/read", stale).await.refused(409, "stale_lease");

    let path = format!("/v1/flows/{id}?wait_ms=10000");
    let mut waiting = server.http().await;
    let (flow, ()) = tokio::join!(waiting.get(&path), complete(&mut http, &d, json!(1)));
    let flow = flow.good();
    assert_eq!((&flow["public_flow_state"], &flow["reached"]), (&json!("completed"), &json!(true)));
    assert_eq!((&flow["decided"]["outcome"], &flow["decided"]["cause"]), (&json!("completed"), &json!("all_terminal")));
    let summary = &flow["summary"];
    assert_eq!((&summary["members_completed"], &summary["edges_pending"]), (&json!(4), &json!(0)));
    assert_eq!((&flow["progress"], &flow["live"], &flow["name"]), (&json!(1.0), &json!(0), &json!("nightly")));
    let why = http.get(&format!("/v1/flows/{id}/explain")).await.good();
    assert_eq!((&why["done"], &why["reasons"][0]["code"]), (&json!(true), &json!("done")));
}

/// All of a list, page by page; how many pages it took.
async fn walk(http: &mut Http, path: &str, fields: &[&str]) -> (Vec<Value>, usize) {
    let (mut found, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = http.get(&format!("{path}{cursor}")).await.good();
        pages += 1;
        for field in fields {
            found.extend(page[field].as_array().unwrap().clone());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, pages),
        }
    }
}

#[tokio::test]
async fn api_11_members_edges_groups_and_the_graph_come_in_pages() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = submit(&mut http, diamond()).await;
    let at = |rest: &str| format!("/v1/flows/{id}/{rest}");
    let names = |found: &[Value], fields: [&str; 2]| -> Vec<String> {
        let name = |one: &Value| fields.map(|field| one[field].as_str().unwrap_or_default().to_string()).join(" ");
        found.iter().map(name).collect()
    };
    let (members, pages) = walk(&mut http, &at("members?limit=3"), &["items"]).await;
    let keys: Vec<&str> = members.iter().map(|member| member["flow"]["key"].as_str().unwrap()).collect();
    assert_eq!((keys, pages), (vec!["a", "b", "c", "d"], 2));
    let (edges, pages) = walk(&mut http, &at("edges?limit=1"), &["items"]).await;
    assert_eq!(
        (names(&edges, ["from", "to"]), pages),
        (vec!["a b".into(), "a c".into(), "b d".into(), "c d".into()], 4)
    );
    let into = http.get(&at("edges?to=d&state=pending")).await.good();
    assert_eq!(names(into["items"].as_array().unwrap(), ["from", "input"]), ["b left", "c right"]);
    http.get(&at("edges?from=z")).await.refused(422, "unknown_node");
    let (groups, pages) = walk(&mut http, &at("groups?limit=2"), &["items"]).await;
    assert_eq!(
        (names(&groups, ["member", "state"]), pages),
        (vec!["b pending".into(), "c pending".into(), "d pending".into()], 2)
    );
    assert_eq!(http.get(&at("groups?state=satisfied")).await.good(), json!({ "items": [] }));

    let (graph, pages) = walk(&mut http, &at("graph?limit=3"), &["nodes", "edges"]).await;
    assert_eq!((graph.len(), pages), (8, 3));
    assert_eq!(
        names(&graph[..4], ["key", "public_state"]),
        ["a waiting", "b waiting_children", "c waiting_children", "d waiting_children"]
    );
    let whole = http.get(&at("graph?limit=1000")).await.good();
    assert_eq!((whole["nodes"].as_array().unwrap().len(), whole["edges"].as_array().unwrap().len()), (4, 4));
    assert_eq!((&whole["next_cursor"], &whole["public_flow_state"]), (&Value::Null, &json!("running")));

    let group = http.get(&at("groups/d/main")).await.good();
    assert_eq!(
        (&group["group"]["n"], &group["group"]["needed"], &group["sealed"]),
        (&json!(2), &json!(2), &json!(true))
    );
    assert_eq!(
        names(group["pending"].as_array().unwrap(), ["key", "public_state"]),
        ["b waiting_children", "c waiting_children"]
    );
    http.get(&at("groups/d/other")).await.refused(404, "not_found");
    http.get(&at("groups/z/main")).await.refused(422, "unknown_node");
    let cursor = http.get(&at("members?limit=1")).await.good()["next_cursor"].as_str().unwrap().to_string();
    http.get(&at(&format!("edges?cursor={cursor}"))).await.refused(400, "invalid_cursor");
    http.get(&at(&format!("members?state=active&cursor={cursor}"))).await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn fl_40_a_wrong_graph_is_refused_with_every_node_and_edge_that_is_wrong() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let mut flow = diamond();
    flow["edges"] = json!([{ "from": "a", "to": "x" }, { "from": "y", "to": "d" }]);
    let refused = http.post("/v1/flows", flow).await.refused(422, "unknown_node");
    let problems = refused["fields"]["problems"].as_array().unwrap();
    let told: Vec<_> = problems.iter().map(|it| (&it["code"], &it["path"], &it["keys"])).collect();
    let code = json!("unknown_node");
    assert_eq!(told, [(&code, &json!("edges[0].to"), &json!(["x"])), (&code, &json!("edges[1].from"), &json!(["y"]))]);
    assert!(refused["detail"].as_str().unwrap().contains("`edges[0].to` names `x`"), "{refused}");
    let mut flow = diamond();
    flow["edges"].as_array_mut().unwrap().push(json!({ "from": "d", "to": "a" }));
    let refused = http.post("/v1/flows", flow).await.refused(422, "cycle");
    let keys = refused["fields"]["problems"][0]["keys"].as_array().unwrap();
    assert_eq!((&keys[0], keys.len()), (&keys[keys.len() - 1], 4), "{refused}");
    let mut flow = diamond();
    flow["members"][2]["priority"] = json!(9001);
    let refused = http.post("/v1/flows", flow).await.refused(400, "invalid_argument");
    assert_eq!(refused["fields"]["problems"][0]["keys"], json!(["c"]), "{refused}");
    assert_eq!(http.get("/v1/flows").await.good(), json!({ "items": [] }));
}

#[tokio::test]
async fn fl_146_a_cancel_waits_until_nothing_of_the_flow_lives() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = submit(&mut http, diamond()).await;
    let a = http.claim().await;
    let cancel = format!("/v1/flows/{id}/cancel");
    let (mut waiting, path) = (server.http().await, cancel.clone());
    let wait = json!({ "policy": "let_active_finish", "reason": "enough", "wait_ms": 30000 });
    let told = tokio::spawn(async move { waiting.post(&path, wait).await.good() });
    let ending = format!("/v1/flows/{id}?wait_ms=20000&until=ending");
    assert_eq!(http.get(&ending).await.good()["reached"], true);
    let again = http.post(&cancel, json!({ "policy": "flow_only", "reason": "other" })).await.good();
    assert_eq!((&again["already"], &again["active"], &again["done"]), (&json!(true), &json!(1), &json!(false)));
    assert_eq!((&again["policy"], &again["cancelled"]), (&json!("let_active_finish"), &json!(3)));
    complete(&mut http, &a, json!(1)).await;
    let told = within(told).await.unwrap();
    assert_eq!((&told["done"], &told["already"], &told["cancelled"]), (&json!(true), &json!(false), &json!(3)));
    assert_eq!((&told["reason"], &told["outcome"]), (&json!("enough"), &json!("cancelled")));
    let refused = http.post(&cancel, json!({})).await.refused(409, "flow_terminal");
    assert_eq!(refused["fields"], json!({ "outcome": "cancelled", "cause": "requested" }));
    let more = json!({ "members": [{ "key": "e", "kind": "late" }] });
    let closed = http.post(&format!("/v1/flows/{id}/members"), more).await.refused(409, "flow_closed");
    assert_eq!(closed["fields"]["state"], "cancelled");
    http.post(&format!("/v1/flows/{id}/replay"), json!({})).await.refused(409, "flow_closed");
}

#[tokio::test]
async fn fl_258_a_failed_flow_is_replayed_and_completes() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = submit(&mut http, diamond()).await;
    let a = http.claim().await;
    fail(&mut http, &a).await;
    let flow = http.get(&format!("/v1/flows/{id}?wait_ms=5000&until=failed")).await.good();
    let summary = &flow["summary"];
    assert_eq!(
        (&flow["reached"], &summary["failures"], &summary["members_skipped"]),
        (&json!(true), &json!(1), &json!(3))
    );
    let skipped = http.get(&format!("/v1/flows/{id}/members?state=skipped&limit=1")).await.good()["items"][0].clone();
    assert_eq!(skipped["flow"]["ended_by"]["kind"], "dependency");
    let replay = format!("/v1/executions/{}/replay", skipped["id"].as_str().unwrap());
    let refused = http.post(&replay, json!({})).await.refused(409, "still_impossible");
    assert_eq!(refused["fields"]["edges"], json!([{ "from": "a", "to": "b" }]));
    let told = http.post(&format!("/v1/flows/{id}/replay"), json!({ "reason": "mended", "wait_ms": 20000 })).await;
    assert_eq!(told.status, 202);
    let job = told.json();
    assert_eq!((&job["verb"], &job["state"], &job["done"]), (&json!("replay"), &json!("done"), &json!(1)));
    assert_eq!(job["filter"], json!({ "flow": id, "against": true }));
    let reopened = http.get(&format!("/v1/flows/{id}")).await.good();
    assert_eq!((&reopened["public_flow_state"], &reopened["reopens"]), (&json!("running"), &json!(1)));
    for _ in 0..4 {
        let task = http.claim().await;
        complete(&mut http, &task, json!(1)).await;
    }
    let flow = http.get(&format!("/v1/flows/{id}?wait_ms=5000")).await.good();
    assert_eq!(flow["public_flow_state"], "completed");
    let purge = format!("/v1/flows/{id}?reason=old");
    assert_eq!(http.call("DELETE", &purge, &Value::Null).await.status, 202);
    http.get(&format!("/v1/flows/{id}")).await.refused(404, "flow_not_found");
}

#[tokio::test]
async fn api_12_a_verb_bound_to_a_revision_of_a_flow_counts_only_for_that() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let id = submit(&mut http, diamond()).await;
    let path = format!("/v1/flows/{id}");
    let read = http.get(&path).await;
    let tag = read.header("etag").unwrap().to_string();
    assert_eq!(tag, format!("\"{}\"", read.good()["etag"].as_str().unwrap()));
    assert_eq!(http.send(Request::get(&path).header("if-none-match", &tag), "").await.status, 304);
    http.call_with("PATCH", &path, &json!({ "set": { "a": "b" } }), &[("if-match", &tag)]).await.good();
    let finish = json!({ "outcome": "failed" });
    for (method, rest, body) in [
        ("PATCH", "", json!({ "set": { "a": "c" } })),
        ("POST", "/members", json!({ "members": [{ "key": "e", "kind": "late" }] })),
        ("POST", "/edges", json!({ "edges": [{ "from": "a", "to": "d" }] })),
        ("POST", "/seal", json!({})),
        ("POST", "/finish", finish),
        ("POST", "/cancel", json!({})),
        ("POST", "/replay", json!({})),
        ("DELETE", "", Value::Null),
    ] {
        let late = http.call_with(method, &format!("{path}{rest}"), &body, &[("if-match", &tag)]).await;
        late.refused(412, "revision_mismatch");
    }
    let grow = |revision: u64| json!({ "members": [{ "key": "e", "kind": "late" }], "expected_revision": revision });
    let members = format!("{path}/members");
    assert_eq!(http.post(&members, grow(7)).await.refused(412, "revision_mismatch")["fields"]["current"], 1);
    let grown = http.post(&members, grow(1)).await.good();
    assert_eq!((&grown["revision"], &grown["edges_existed"]), (&json!(2), &json!(0)));
}

#[tokio::test]
async fn fl_12_a_repeated_submission_is_answered_with_the_first_flow() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let mut flow = diamond();
    flow["idempotency_key"] = json!("nightly-17");
    let first = http.post("/v1/flows", flow.clone()).await.good();
    let again = http.post("/v1/flows", flow.clone()).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    let again = again.json();
    assert_eq!((&again["duplicate"], &again["id"], &again["members"]), (&json!(true), &first["id"], &first["members"]));
    flow["members"][0]["kind"] = json!("other");
    http.post("/v1/flows", flow).await.refused(409, "idempotency_mismatch");
    assert_eq!(http.get("/v1/flows").await.good()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fl_41_members_are_answered_in_the_order_given() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let members = ["z", "a", "m"].map(|key| json!({ "key": key, "kind": "load" }));
    let made = http.post("/v1/flows", json!({ "kind": "etl", "members": members })).await;
    let text = String::from_utf8_lossy(&made.body);
    let places = ["\"z\":", "\"a\":", "\"m\":"].map(|key| text.find(key));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
}

#[tokio::test]
async fn api_11_a_graph_without_edges_ends_with_its_nodes() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let members = [json!({ "key": "a", "kind": "load" }), json!({ "key": "b", "kind": "load" })];
    let id = submit(&mut http, json!({ "kind": "etl", "members": members })).await;
    let page = http.get(&format!("/v1/flows/{id}/graph?limit=2")).await.good();
    assert_eq!((page["nodes"].as_array().unwrap().len(), &page["next_cursor"]), (2, &Value::Null));
}

#[tokio::test]
async fn api_23_a_key_of_several_namespaces_reads_the_flows_of_all_of_them() {
    let server = Server::keyed().await;
    let mut ids = BTreeSet::new();
    for namespace in ["bank", "shop"] {
        let key = server.key(Scopes::SUBMIT, &[namespace]);
        ids.insert(submit(&mut server.http_as(&key).await, diamond()).await);
    }
    let both = server.key(Scopes::SUBMIT, &["bank", "shop"]);
    let mut http = server.http_as(&both).await;
    let (flows, pages) = walk(&mut http, "/v1/flows?limit=1", &["items"]).await;
    let found: BTreeSet<String> = flows.iter().map(|flow| flow["id"].as_str().unwrap().to_string()).collect();
    assert_eq!((found, pages), (ids.clone(), 2));
    for id in &ids {
        http.get(&format!("/v1/flows/{id}")).await.good();
    }
    http.post("/v1/flows", diamond()).await.refused(400, "namespace_required");
    let mine = http.get("/v1/flows?namespace=shop&tag=team=data&kind=etl&state=running").await.good();
    assert_eq!(mine["items"].as_array().unwrap().len(), 1);
    assert_eq!(http.get("/v1/flows?namespace=shop&state=blocked").await.good(), json!({ "items": [] }));
}

#[tokio::test]
async fn fl_167_only_an_operator_lets_a_member_run_without_its_dependencies() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::SUBMIT.with(Scopes::WORK), &["shop"]);
    let mut http = server.http_as(&key).await;
    let id = submit(&mut http, diamond()).await;
    let a = http.claim().await;
    fail(&mut http, &a).await;
    let skipped = http.get(&format!("/v1/flows/{id}/members?state=skipped")).await.good();
    let replay = format!("/v1/executions/{}/replay", skipped["items"][0]["id"].as_str().unwrap());
    let anyway = json!({ "ignore_dependencies": true });
    http.post(&replay, anyway.clone()).await.refused(403, "forbidden");
    let operator = server.key(Scopes::OPERATE, &["shop"]);
    server.http_as(&operator).await.post(&replay, anyway).await.good();
    assert_eq!(key_of_next(&mut http).await, "b");
}

async fn key_of_next(http: &mut Http) -> String {
    key(&http.claim().await)
}

#[tokio::test]
async fn api_40_a_key_that_may_submit_replays_a_flow_once_and_other_jobs_not_at_all() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::SUBMIT.with(Scopes::WORK), &["shop"]);
    let mut http = server.http_as(&key).await;
    let id = submit(&mut http, diamond()).await;
    let a = http.claim().await;
    fail(&mut http, &a).await;
    http.get(&format!("/v1/flows/{id}?wait_ms=5000&until=failed")).await.good();
    let (path, body) = (format!("/v1/flows/{id}/replay"), json!({ "wait_ms": 20000, "request_id": "again" }));
    let first = http.post(&path, body.clone()).await.good();
    assert_eq!((&first["done"], &first["by"]), (&json!(1), &first["by"]));
    let repeat = http.post(&path, body).await;
    assert_eq!(repeat.header("idempotency-replayed"), Some("true"));
    assert_eq!(repeat.good(), first, "one job, and one answer");
    http.post("/v1/bulk", json!({ "filter": { "flow": id }, "verb": "replay" })).await.refused(403, "forbidden");
    let view = http.get(&format!("/v1/flows/{id}")).await.good();
    assert_eq!((&view["reopens"], &view["summary"]["failures"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn ex_70_executions_are_listed_and_counted_by_flow_over_http() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    http.submit(json!({ "kind": "load" })).await;
    let id = submit(&mut http, diamond()).await;
    let (found, pages) = walk(&mut http, &format!("/v1/executions?flow={id}&order=asc&limit=3"), &["items"]).await;
    let keys: Vec<&str> = found.iter().map(|member| member["flow"]["key"].as_str().unwrap()).collect();
    assert_eq!((keys, pages), (vec!["a", "b", "c", "d"], 2));
    let counted = http.get(&format!("/v1/executions/count?flow={id}&group_by=state")).await.good();
    assert_eq!((&counted["total"], counted["groups"].as_array().unwrap().len()), (&json!(4), 2), "{counted}");
    assert_eq!(http.get(&format!("/v1/executions/count?flow={id}&against=true")).await.good()["total"], 0);
    http.get("/v1/executions?flow=x_0_1").await.refused(400, "invalid_id");
    let members = format!("/v1/flows/{id}/members");
    let (found, pages) = walk(&mut http, &format!("{members}?order=key&limit=3"), &["items"]).await;
    assert_eq!((found.len(), pages, &found[3]["flow"]["key"]), (4, 2, &json!("d")));
    let one = http.get(&format!("{members}?key=c")).await.good();
    assert_eq!((&one["items"][0]["flow"]["key"], one["items"].as_array().unwrap().len()), (&json!("c"), 1));
    assert_eq!(http.get(&format!("{members}?key=z")).await.good(), json!({ "items": [] }));
    let cursor = http.get(&format!("{members}?order=key&limit=1")).await.good()["next_cursor"].clone();
    let other = format!("{members}?limit=1&cursor={}", cursor.as_str().unwrap());
    http.get(&other).await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn fl_4_what_a_flow_may_be_is_told_and_a_policy_that_is_none_is_refused_as_such() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let mut flow = diamond();
    flow["failure_policy"] = json!({ "kind": "fail_fats" });
    let refused = http.post("/v1/flows", flow).await.refused(422, "unknown_policy");
    assert_eq!(refused["fields"], json!({ "field": "failure_policy.kind", "did_you_mean": "fail_fast" }));
    let limits = http.get("/v1/capabilities").await.good()["limits"]["flow"].clone();
    assert_eq!((&limits["members"], &limits["submit_members"]), (&json!(100_000), &json!(10_000)), "{limits}");
    let groups: Vec<_> = (0..17).map(|n| json!({ "name": format!("g{n}"), "policy": { "kind": "all_of" } })).collect();
    let mut flow = diamond();
    flow["members"][3]["groups"] = json!(groups);
    let refused = http.post("/v1/flows", flow).await.refused(422, "limit_exceeded");
    assert_eq!(
        (&refused["fields"]["limit"], &refused["fields"]["got"]),
        (&limits["groups_per_member"], &json!(18)),
        "`main` is one too"
    );
}

#[tokio::test]
async fn fl_45_a_chain_of_ten_thousand_is_submitted_read_and_cancelled() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let key = |n: usize| format!("m{n}");
    let members: Vec<_> = (0..10_000).map(|n| json!({ "key": key(n), "kind": "load" })).collect();
    let edges: Vec<_> = (1..10_000).map(|n| json!({ "from": key(n - 1), "to": key(n) })).collect();
    let id = submit(&mut http, json!({ "kind": "etl", "members": members, "edges": edges })).await;
    let (drawn, pages) = walk(&mut http, &format!("/v1/flows/{id}/graph?limit=1000"), &["nodes", "edges"]).await;
    assert_eq!((drawn.len(), pages), (19_999, 20));
    let (groups, pages) = walk(&mut http, &format!("/v1/flows/{id}/groups?limit=1000"), &["items"]).await;
    assert_eq!((groups.len(), pages), (9_999, 10));
    let told = http.post(&format!("/v1/flows/{id}/cancel"), json!({ "wait_ms": 20000 })).await.good();
    assert_eq!((&told["done"], &told["cancelled"]), (&json!(true), &json!(10_000)));
}
