//! Every operation of the table: who may call it, what strangers see, and that the document tells the same.

use crate::kit::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weft_api::{Code, OPERATIONS, Spec};
use weft_core::command::Scopes;

/// Scope letters of the table in the specification of the API: r read, s submit, w work, o operate, a admin, - any key.
const LETTERS: &[(&str, &str)] = &[
    ("submit_execution", "s"),
    ("submit_executions", "s"),
    ("list_executions", "r"),
    ("count_executions", "r"),
    ("cancel_executions", "so"),
    ("get_execution", "r"),
    ("get_input", "r"),
    ("get_result", "r"),
    ("get_checkpoint", "r"),
    ("list_attempts", "r"),
    ("get_attempt", "r"),
    ("get_attempt_result", "r"),
    ("get_history", "r"),
    ("list_children", "r"),
    ("explain_execution", "r"),
    ("list_steps", "r"),
    ("get_step", "r"),
    ("cancel_execution", "so"),
    ("replay_execution", "so"),
    ("reschedule_execution", "s"),
    ("set_priority", "so"),
    ("set_tags", "so"),
    ("hold_execution", "o"),
    ("release_execution", "o"),
    ("revoke_execution", "o"),
    ("force_complete", "o"),
    ("force_fail", "o"),
    ("purge_execution", "o"),
    ("submit_flow", "s"),
    ("list_flows", "r"),
    ("get_flow", "r"),
    ("list_members", "r"),
    ("list_edges", "r"),
    ("list_groups", "r"),
    ("get_group", "r"),
    ("get_graph", "r"),
    ("explain_flow", "r"),
    ("add_members", "s"),
    ("add_edges", "s"),
    ("seal_flow", "s"),
    ("finish_flow", "s"),
    ("cancel_flow", "s"),
    ("change_flow", "s"),
    ("replay_flow", "so"),
    ("purge_flow", "o"),
    ("add_own_members", "w"),
    ("add_own_edges", "w"),
    ("seal_own_members", "w"),
    ("finish_own_flow", "w"),
    ("read_input", "w"),
    ("read_inputs", "w"),
    ("claim", "w"),
    ("renew", "w"),
    ("complete", "w"),
    ("fail", "w"),
    ("settle", "w"),
    ("progress", "w"),
    ("delay", "w"),
    ("wait_children", "w"),
    ("cancel_held", "w"),
    ("tag_held", "w"),
    ("record_steps", "w"),
    ("read_steps", "w"),
    ("read_children", "w"),
    ("spawn_children", "w"),
    ("start_bulk", "o"),
    ("get_bulk", "o"),
    ("stop_bulk", "o"),
    ("register_worker", "w"),
    ("heartbeat", "w"),
    ("deregister_worker", "w"),
    ("list_workers", "r"),
    ("get_worker", "r"),
    ("list_leases", "r"),
    ("drain_workers", "wo"),
    ("undrain_workers", "wo"),
    ("mark_worker_dead", "o"),
    ("create_key", "a"),
    ("list_keys", "a"),
    ("get_key", "a"),
    ("change_key", "a"),
    ("rotate_key", "a"),
    ("revoke_key", "a"),
    ("list_audit", "a"),
    ("verify_audit", "a"),
    ("get_version", "-"),
    ("get_capabilities", "-"),
    ("list_namespaces", "r"),
    ("get_stats", "r"),
    ("get_config", "a"),
    ("list_nodes", "o"),
    ("drain_node", "o"),
    ("list_scanners", "o"),
    ("list_parked", "o"),
    ("retry_parked", "o"),
    ("discard_parked", "o"),
    ("retry_all_parked", "o"),
];

/// True if a key with this one scope may call. `admin` is more than `operate`, and both may read.
fn may(letters: &str, scope: char) -> bool {
    letters.chars().any(|letter| match letter {
        '-' => true,
        'r' => "soa".contains(scope),
        'o' => "oa".contains(scope),
        letter => letter == scope,
    })
}

/// Ids that nobody has.
const ABSENT: (&str, &str) = ("x_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7", "f_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7");

/// A flow with one member, `a`.
async fn submit_flow(http: &mut Http) -> String {
    let flow = json!({ "kind": "etl", "members": [{ "key": "a", "kind": "mail", "lane": "own" }] });
    http.post("/v1/flows", flow).await.good()["id"].as_str().unwrap().to_string()
}

/// A request of the operation about this execution or flow. What it asks need not be possible.
fn request(spec: &Spec, (execution, flow): (&str, &str)) -> (String, Value) {
    let lease = "l_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7";
    let held = json!({ "execution": execution, "lease": lease, "epoch": 1 });
    let with = |more: Value| {
        let mut held = held.clone();
        held.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        held
    };
    let batch = |item: Value| json!({ "items": [item] });
    let mail = json!({ "kind": "mail" });
    let body = match spec.id {
        "submit_execution" => mail,
        "submit_executions" => batch(mail),
        "cancel_executions" => batch(json!({ "execution": execution })),
        "reschedule_execution" => json!({ "delay_ms": 0 }),
        "set_priority" => json!({ "priority": 1 }),
        "claim" => json!({ "worker": "a", "instance": "b", "lanes": [{ "lane": "empty" }] }),
        "renew" | "complete" | "fail" => batch(held.clone()),
        "settle" => batch(with(json!({ "verb": "complete" }))),
        "progress" => with(json!({ "percent": 1 })),
        "delay" => with(json!({ "delay_ms": 0 })),
        "wait_children" | "cancel_held" | "read_steps" => held.clone(),
        "read_children" => with(json!({ "children": [execution] })),
        "tag_held" => with(json!({ "set": { "a": "b" } })),
        "record_steps" => with(json!({ "steps": [{ "name": "a", "value": { "json": 1 } }] })),
        "spawn_children" => with(json!({ "items": [mail] })),
        "submit_flow" => json!({ "kind": "etl", "members": [{ "key": "a", "kind": "mail" }] }),
        "add_members" => json!({ "members": [{ "key": "b", "kind": "mail" }] }),
        "add_edges" => json!({ "edges": [{ "from": "a", "to": "b" }] }),
        "finish_flow" => json!({ "outcome": "completed" }),
        "add_own_members" => with(json!({ "members": [{ "key": "b", "kind": "mail" }] })),
        "add_own_edges" => with(json!({ "edges": [{ "from": "a", "to": "b" }] })),
        "seal_own_members" => with(json!({ "keys": ["a"] })),
        "finish_own_flow" => with(json!({ "outcome": "completed" })),
        "read_input" | "read_inputs" => with(json!({ "name": "left" })),
        "start_bulk" => json!({ "filter": { "lane": "empty" }, "verb": "cancel" }),
        "register_worker" => json!({ "worker": "a", "instance": "b", "boot_id": "c" }),
        "drain_workers" | "undrain_workers" => json!({ "instance": "nobody", "session": 1 }),
        "discard_parked" => json!({ "reason": "x" }),
        "create_key" => json!({ "name": "a", "scopes": ["submit"], "namespaces": ["shop"] }),
        _ if spec.body.is_none() => Value::Null,
        _ => json!({}),
    };
    let path = spec.path.replace("{execution}", execution).replace("{index}", "0").replace("{name}", "a");
    let query = if spec.id == "deregister_worker" { "?session=1" } else { "" };
    let path = path.replace("{job}", "none").replace("{instance}", "nobody").replace("{key}", "abcdefgh");
    let path = path.replace("{node}", "nobody").replace("{flow}", flow).replace("{member}", "a");
    let path = path.replace("{item}", "d_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7");
    (path + query, body)
}

#[tokio::test]
async fn api_21_each_call_passes_with_the_scopes_of_its_row_and_no_others() {
    let expected: BTreeMap<&str, &str> = LETTERS.iter().copied().collect();
    let ids: Vec<&str> = OPERATIONS.iter().map(|spec| spec.id).collect();
    assert_eq!(expected.len(), ids.len(), "each operation has its letters");
    let server = Server::keyed().await;
    let submitter = server.key(Scopes::SUBMIT, &["shop"]);
    let mut http = server.http_as(&submitter).await;
    for spec in OPERATIONS {
        let id = http.submit(json!({ "kind": "mail", "lane": "own" })).await;
        let (path, body) = request(spec, (&id, ABSENT.1));
        let mut nobody = server.http().await;
        nobody.call(spec.method.name(), &path, &body).await.refused(401, "unauthorized");
        for (letter, scope) in SCOPES {
            // The chain of the audit log is one of all namespaces.
            let key = server.key(*scope, if spec.id == "verify_audit" { &["*"] } else { &["shop"] });
            let mut http = server.http_as(&key).await;
            let answer = http.call(spec.method.name(), &path, &body).await;
            let allowed = may(expected[spec.id], *letter);
            assert_eq!(answer.status != 403, allowed, "{} by `{letter}`: {answer:?}", spec.id);
            assert!(answer.status != 401 && answer.status != 500, "{} {answer:?}", spec.id);
            if !allowed {
                let problem = answer.refused(403, "forbidden");
                assert_eq!(problem["fields"]["needs"], json!(spec.scope.names()), "{}", spec.id);
            }
        }
    }
}

#[tokio::test]
async fn api_23_no_read_asks_for_a_namespace() {
    let server = Server::keyed().await;
    let owner = server.key(Scopes::SUBMIT, &["shop"]);
    let id = server.http_as(&owner).await.submit(json!({ "kind": "mail" })).await;
    for namespaces in [&["*"][..], &["bank", "shop"]] {
        let key = server.key(Scopes::ALL, namespaces);
        let mut http = server.http_as(&key).await;
        for spec in OPERATIONS.iter().filter(|spec| !spec.changes() && spec.method.name() == "GET") {
            let (path, body) = request(spec, (&id, ABSENT.1));
            let answer = http.call(spec.method.name(), &path, &body).await;
            assert_ne!(code_of(&answer), "namespace_required", "{} by a key on {namespaces:?}", spec.id);
        }
    }
}

const SCOPES: &[(char, Scopes)] =
    &[('s', Scopes::SUBMIT), ('w', Scopes::WORK), ('g', Scopes::SIGNAL), ('o', Scopes::OPERATE), ('a', Scopes::ADMIN)];

#[tokio::test]
async fn api_15_what_is_of_another_namespace_reads_like_what_is_not_there() {
    let server = Server::keyed().await;
    let owner = server.key(Scopes::ALL, &["shop"]);
    let stranger = server.key(Scopes::ALL, &["bank"]);
    let (mut own, mut other) = (server.http_as(&owner).await, server.http_as(&stranger).await);
    let mut tried = 0;
    for spec in OPERATIONS {
        let id = own.submit(json!({ "kind": "mail", "lane": "own" })).await;
        let flow = submit_flow(&mut own).await;
        let (path, body) = request(spec, (&id, &flow));
        let named = format!("{path} {body}");
        let code = match (named.contains(&id), named.contains(&flow)) {
            (true, false) => "execution_not_found",
            (false, true) => "flow_not_found",
            _ => continue,
        };
        tried += 1;
        let at = [format!("/v1/executions/{id}"), format!("/v1/flows/{flow}")];
        let before = [own.get(&at[0]).await.good(), own.get(&at[1]).await.good()];
        let same = [("x-request-id", "same")];
        let foreign = other.call_with(spec.method.name(), &path, &body, &same).await;
        let (path, body) = request(spec, ABSENT);
        let unknown = other.call_with(spec.method.name(), &path, &body, &same).await;
        assert_eq!(foreign.status, unknown.status, "{}", spec.id);
        let text = |answer: &Answer| {
            String::from_utf8(answer.body.to_vec()).unwrap().replace(&id, ABSENT.0).replace(&flow, ABSENT.1)
        };
        assert_eq!(text(&foreign), text(&unknown), "{}", spec.id);
        assert!(text(&foreign).contains(code), "{}: {}", spec.id, text(&foreign));
        let after = [own.get(&at[0]).await.good(), own.get(&at[1]).await.good()];
        assert_eq!(after, before, "{} changed nothing", spec.id);
    }
    assert!(tried >= 50, "{tried} calls name an execution or a flow");
}

#[tokio::test]
async fn api_57_the_document_has_every_route_and_each_code_has_one_status() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let document = http.get("/v1/openapi.json").await.good();
    assert_eq!(document, serde_json::from_str::<Value>(weft_server::document_text()).unwrap());
    let mut statuses: BTreeMap<String, u16> = BTreeMap::new();
    let mut documented = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_string();
            documented.push(id);
            let at = path.replace(['{', '}'], "") + if path.ends_with("notices") { "?x=1" } else { "" };
            let answer = http.call(&method.to_uppercase(), &at, &Value::Null).await;
            assert!(!["route_not_found", "method_not_allowed"].contains(&code_of(&answer).as_str()), "{method} {path}");
            for (status, reply) in operation["responses"].as_object().unwrap() {
                let status: u16 = status.parse().unwrap();
                let codes = reply["description"].as_str().unwrap().split('`').skip(1).step_by(2);
                for code in codes.filter(|_| status >= 400 && reply["content"]["application/problem+json"].is_object())
                {
                    let known = Code::from_name(code).unwrap_or_else(|| panic!("{code} is no code"));
                    assert_eq!(known.status(), status, "{code}");
                    assert_eq!(*statuses.entry(code.to_string()).or_insert(status), status, "{code}");
                }
            }
        }
    }
    for spec in OPERATIONS {
        assert!(documented.iter().any(|id| id == spec.id), "{}", spec.id);
    }
    let unused: Vec<&str> =
        Code::ALL.iter().map(|code| code.name()).filter(|name| !statuses.contains_key(*name)).collect();
    assert!(unused.is_empty(), "no operation tells of {unused:?}");
}

#[tokio::test]
async fn api_6_the_document_has_the_raw_forms_as_they_are_taken() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    let document = http.get("/v1/openapi.json").await.good();
    let raw = |operation: &Value| operation["requestBody"]["content"]["application/octet-stream"].is_object();
    let all = document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
    let mut ids: Vec<&str> = all.filter(|one| raw(one)).map(|one| one["operationId"].as_str().unwrap()).collect();
    ids.sort();
    assert_eq!(ids, ["complete", "fail", "submit_execution"]);
    for (path, given) in [
        (
            "/v1/executions",
            "kind=a&lane=b&priority=1&delay_ms=0&deadline_in_ms=60000&capability=c&tag=d=e&idempotency_key=f",
        ),
        ("/v1/work/complete", "execution=x&lease=l&epoch=1&request_id=a"),
        ("/v1/work/fail", "execution=x&lease=l&epoch=1&category=a&message=b&retry=never&request_id=c"),
    ] {
        let parameters = document["paths"][path]["post"]["parameters"].as_array().unwrap();
        let documented: Vec<&str> = parameters
            .iter()
            .filter(|one| one["in"] == "query")
            .inspect(|one| assert_eq!(one["required"], false, "the JSON form has none"))
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        for name in given.split('&').map(|pair| pair.split('=').next().unwrap()) {
            assert!(documented.contains(&name), "{path} has {documented:?}, not {name}");
        }
        let answer = http.send(http::Request::post(format!("{path}?{given}")), "\u{0}").await;
        assert!(answer.status == 201 || answer.code() == "invalid_id", "all of them are taken: {answer:?}");
        for name in documented.iter().filter(|name| !given.contains(*name)) {
            let told = http.send(http::Request::post(format!("{path}?{given}&{name}=")), "").await.json();
            assert!(told["detail"].as_str().unwrap().contains("is empty"), "{name} is known: {told}");
        }
    }
}

fn code_of(answer: &Answer) -> String {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    json["code"].as_str().unwrap_or_default().to_string()
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_same_form() {
    let server = Server::dev().await;
    let mut http = server.http().await;
    http.get("/v1/nothing").await.refused(404, "route_not_found");
    http.call("DELETE", "/v1/executions", &Value::Null).await.refused(405, "method_not_allowed");
    http.call("POST", "/healthz", &Value::Null).await.refused(405, "method_not_allowed");
    let head = http.call("HEAD", "/v1/executions", &Value::Null).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}
