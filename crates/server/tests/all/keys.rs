//! Keys: who may call, how often, and in which namespace.

use crate::kit::*;
use http::Request;
use serde_json::json;
use std::time::Duration;
use weft_core::Time;
use weft_core::command::Scopes;
use weft_server::{Rate, RateClass};

#[tokio::test]
async fn api_22_every_bad_key_is_refused_with_the_same_text() {
    let server = Server::keyed().await;
    let good = server.key(Scopes::SUBMIT, &["shop"]);
    let expired = server.key_with(Scopes::SUBMIT, &["shop"], |key| key.macs[0].1 = Some(Time::from_ms(1)));
    let unknown = weft_dispatch::secret::KeyText::random().unwrap().reveal();
    let mut http = server.http().await;
    let mut answers = Vec::new();
    let wrong = format!("{}{}", &good[..good.len() - 3], "xyz");
    for value in [
        None,
        Some(format!("Bearer {unknown}")),
        Some(format!("Bearer {expired}")),
        Some(format!("Bearer {wrong}")),
        Some("Bearer".to_string()),
        Some(format!("Basic {good}")),
    ] {
        let mut request = Request::get("/v1/executions").header("x-request-id", "same");
        if let Some(value) = value {
            request = request.header("authorization", value);
        }
        let answer = http.send(request, "").await;
        answer.refused(401, "unauthorized");
        answers.push(answer.body);
    }
    assert!(answers.iter().all(|body| *body == answers[0]), "{answers:?}");
    http.key = Some(good);
    http.get("/v1/executions").await.good();
}

#[tokio::test]
async fn api_24_a_revoked_key_is_refused_within_five_seconds() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::SUBMIT, &["shop"]);
    let mut http = server.http_as(&key).await;
    http.get("/v1/executions").await.good();
    server.remove_key(&key);
    let began = std::time::Instant::now();
    while http.get("/v1/executions").await.status != 401 {
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "it is still good");
        tokio::task::yield_now().await;
    }
}

/// A server that looks at keys often.
async fn attentive() -> Server {
    Server::keyed_with(engine().await, |options| options.key_trust = Duration::from_millis(100)).await
}

#[tokio::test]
async fn api_24_a_claim_that_waits_ends_when_its_key_is_taken_away_and_is_given_nothing() {
    let server = attentive().await;
    let (submitter, other) = (server.key(Scopes::SUBMIT, &["shop"]), server.key(Scopes::WORK, &["shop"]));
    type Take = fn(&Server, &str);
    let ways: [(Take, u16, &str); 5] = [
        (|server, key| server.remove_key(key), 401, "unauthorized"),
        (|server, key| server.change_key(key, |key| key.macs[0].1 = Some(Time::from_ms(1))), 401, "unauthorized"),
        (|server, key| server.change_key(key, |key| key.scopes = Scopes::SUBMIT), 403, "forbidden"),
        (|server, key| server.change_key(key, |key| key.read_only = true), 403, "forbidden"),
        (
            |server, key| {
                let bank = weft_dispatch::Reach::Some(["bank".into()].into());
                server.change_key(key, |key| key.reach = bank);
            },
            403,
            "forbidden",
        ),
    ];
    for (take_away, status, code) in ways {
        let key = server.key(Scopes::WORK, &["shop"]);
        let mut worker = server.http_as(&key).await;
        let claim = tokio::spawn(async move {
            let claim = json!({ "worker": "pool", "instance": "pool-1", "wait_ms": 60000 });
            worker.post("/v1/work/claim", claim).await
        });
        until("the claim waits", || server.level("weft_claims_waiting") == 1).await;
        take_away(&server, &key);
        within(claim).await.unwrap().refused(status, code);
        until("nobody waits", || server.level("weft_claims_waiting") == 0).await;
        let id = server.http_as(&submitter).await.submit(json!({ "kind": "mail" })).await;
        let mut http = server.http_as(&other).await;
        let task = http.claim().await;
        assert_eq!((task.execution(), &task.0["attempt"]["index"]), (id, &json!(0)));
        http.post("/v1/work/complete", json!({ "items": [task.held(json!({}))] })).await.good();
    }
}

#[tokio::test]
async fn api_24_a_read_that_waits_and_a_stream_of_notices_end_when_their_key_is_taken_away() {
    let server = attentive().await;
    let key = server.key(Scopes::SUBMIT.with(Scopes::WORK), &["shop"]);
    let mut http = server.http_as(&key).await;
    let id = http.submit(json!({ "kind": "mail" })).await;
    let mut events = crate::notices::Events::of(&server, "pool-1", Some(&key)).await;
    assert_eq!(events.next().await.as_deref(), Some("retry: 2000"));
    let mut read = tokio::spawn(async move { http.get(&format!("/v1/executions/{id}/result?wait_ms=60000")).await });
    until("the read waits", || server.level("weft_http_in_flight") == 1).await;
    let early = tokio::time::timeout(Duration::from_millis(250), &mut read).await;
    assert!(early.is_err(), "another look at a key that is still good changes nothing: {early:?}");
    server.remove_key(&key);
    within(read).await.unwrap().refused(401, "unauthorized");
    assert_eq!(events.next().await.as_deref(), Some("event: bye\ndata: {}"));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn api_24_keys_are_made_narrowed_rotated_and_revoked_over_the_api() {
    let (server, first) = Server::bootstrapped().await;
    let mut admin = server.http_as(&first).await;
    let new = json!({ "name": "shop", "scopes": ["submit"], "namespaces": ["shop"] });
    let made = admin.post("/v1/keys", new).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let (id, secret) = (made["key"]["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let mut http = server.http_as(secret).await;
    http.submit(json!({ "kind": "mail" })).await;
    http.get("/v1/keys").await.refused(403, "forbidden");
    let listed = admin.get("/v1/keys").await;
    assert!(!String::from_utf8(listed.body.to_vec()).unwrap().contains(secret), "it is shown once");
    let path = format!("/v1/keys/{id}");
    admin.call("PATCH", &path, &json!({ "read_only": true })).await.good();
    http.post("/v1/executions", json!({ "kind": "mail" })).await.refused(403, "forbidden");
    let rotated = admin.post(&format!("{path}/rotate"), json!({ "overlap_ms": 0 })).await.good();
    http.get("/v1/executions").await.refused(401, "unauthorized");
    http.key = Some(rotated["secret"].as_str().unwrap().to_string());
    http.get("/v1/executions").await.good();
    admin.call("DELETE", &path, &json!(null)).await.good();
    http.get("/v1/executions").await.refused(401, "unauthorized");
    let audit = admin.get("/v1/audit").await.good();
    let verbs: Vec<&str> =
        audit["items"].as_array().unwrap().iter().filter_map(|entry| entry["verb"].as_str()).collect();
    assert!(verbs.iter().any(|verb| verb.contains("revoke")), "{audit}");
}

#[tokio::test]
async fn api_23_a_key_of_several_namespaces_names_one_to_create() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::SUBMIT, &["bank", "shop"]);
    let mut http = server.http_as(&key).await;
    let mail = json!({ "kind": "mail" });
    http.post("/v1/executions", mail.clone()).await.refused(400, "namespace_required");
    let mut ids = Vec::new();
    for namespace in ["shop", "bank", "shop"] {
        let made = http.call_with("POST", "/v1/executions", &mail, &[("weft-namespace", namespace)]).await.good();
        ids.push(made["id"].as_str().unwrap().to_string());
    }
    http.call_with("POST", "/v1/executions", &mail, &[("weft-namespace", "other")]).await.refused(403, "forbidden");
    // Reads go across all of them, and an id tells where it is.
    for id in &ids {
        http.get(&format!("/v1/executions/{id}")).await.good();
    }
    let mut seen = Vec::new();
    let mut path = "/v1/executions?limit=1".to_string();
    loop {
        let page = http.get(&path).await.good();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_string()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/executions?limit=1&cursor={cursor}");
    }
    let sorted = |ids: &[String]| {
        let mut ids = ids.to_vec();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&seen), sorted(&ids));
    let counts = http.get("/v1/executions/count?group_by=namespace").await.good();
    assert_eq!(counts["total"], 3);
    assert_eq!(counts["groups"], json!([{ "namespace": "bank", "count": 1 }, { "namespace": "shop", "count": 2 }]));
}

#[tokio::test]
async fn api_28_every_refusal_of_a_key_a_scope_or_a_namespace_is_in_the_audit_log() {
    let (server, root) = Server::bootstrapped().await;
    let mut admin = server.http_as(&root).await;
    let weak = json!({ "name": "weak", "scopes": ["submit"], "namespaces": ["shop"] });
    let weak = admin.post("/v1/keys", weak).await.good()["secret"].as_str().unwrap().to_string();
    let mut http = server.http_as(&weak).await;
    for _ in 0..3 {
        http.get("/v1/nodes").await.refused(403, "forbidden");
        http.get("/v1/executions?namespace=bank").await.refused(403, "forbidden");
        http.get("/metrics").await.refused(403, "forbidden");
        http.get("/v1/workers/a/notices").await.refused(403, "forbidden");
        server.http().await.get("/v1/executions").await.refused(401, "unauthorized");
    }
    let expected = ["authenticate", "list_executions", "list_nodes", "metrics", "notices"];
    let began = std::time::Instant::now();
    loop {
        let log = admin.get("/v1/audit?limit=1000").await.good();
        let mut counts = std::collections::BTreeMap::new();
        for entry in log["items"].as_array().unwrap().iter().filter(|entry| entry["result"] != "ok") {
            let times = entry["change"].as_str().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(1);
            *counts.entry(entry["verb"].as_str().unwrap().to_string()).or_insert(0) += times;
            assert_eq!(entry["address"], "127.0.0.1", "{entry}");
        }
        if counts == expected.map(|verb| (verb.to_string(), 3)).into() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the log tells of {counts:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_namespaces_of_a_key_are_listed_with_exact_counts() {
    let server = Server::keyed().await;
    let everything = server.key(Scopes::SUBMIT, &["*"]);
    let mut all = server.http_as(&everything).await;
    for (namespace, delay_ms) in [("bank", 0), ("shop", 0), ("shop", 0), ("shop", 60_000)] {
        let inside = [("weft-namespace", namespace)];
        let body = json!({ "kind": "mail", "delay_ms": delay_ms });
        all.call_with("POST", "/v1/executions", &body, &inside).await.good();
    }
    let bank = json!({ "name": "bank", "executions": 1, "at_least": false, "states": { "waiting": 1 } });
    let shop = json!({ "name": "shop", "executions": 3, "at_least": false, "states": { "delayed": 1, "waiting": 2 } });
    assert_eq!(walked(&mut all, "/v1/namespaces").await, [bank, shop.clone()]);
    let two = server.key(Scopes::SUBMIT, &["shop", "none"]);
    let none = json!({ "name": "none", "executions": 0, "at_least": false, "states": {} });
    assert_eq!(walked(&mut server.http_as(&two).await, "/v1/namespaces").await, [none, shop]);
}

#[tokio::test]
async fn an_administrator_sees_what_is_set_and_where_that_came_from() {
    let server = Server::keyed().await;
    let key = server.key(Scopes::ADMIN, &["*"]);
    let mut http = server.http_as(&key).await;
    assert_eq!(http.get("/v1/config").await.good(), json!({ "items": [] }), "nothing was told");
    let setting = |key: &str, value: Option<&str>| weft_api::node::Setting {
        key: key.to_string(),
        value: value.map(str::to_string),
        otherwise: value.is_none().then(|| "none".to_string()),
        origin: "built-in".to_string(),
    };
    server.app.show_settings(vec![setting("a.b", Some("***")), setting("a.c", None)]);
    let expected = json!({ "items": [
        { "key": "a.b", "value": "***", "origin": "built-in" },
        { "key": "a.c", "otherwise": "none", "origin": "built-in" },
    ] });
    assert_eq!(http.get("/v1/config").await.good(), expected);
}

/// All pages of a list.
async fn walked(http: &mut Http, path: &str) -> Vec<serde_json::Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = http.get(&format!("{path}?limit=1{cursor}")).await.good();
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn api_23_a_key_that_names_no_namespace_reads_all_of_its_own() {
    let server = Server::keyed().await;
    let everything = server.key(Scopes::ALL, &["*"]);
    let mut all = server.http_as(&everything).await;
    for (namespace, instance) in
        [("a/b", "one"), ("bank", "two"), ("bank", "same"), ("shop", "same"), ("shop", "three")]
    {
        let inside = [("weft-namespace", namespace)];
        let register = json!({ "worker": "pool", "instance": instance, "boot_id": "1", "lanes": ["mail"] });
        all.call_with("POST", "/v1/workers", &register, &inside).await.good();
        all.call_with("POST", "/v1/executions", &json!({ "kind": "mail", "lane": "mail" }), &inside).await.good();
        let claim = json!({ "worker": "pool", "instance": instance, "lanes": [{ "lane": "mail" }] });
        let claimed = all.call_with("POST", "/v1/work/claim", &claim, &inside).await.good();
        assert_eq!(claimed["executions"].as_array().unwrap().len(), 1, "{claimed}");
    }
    let two = server.key(Scopes::OPERATE, &["shop", "bank"]);
    let mut some = server.http_as(&two).await;
    for (http, spaces, workers) in [(&mut all, vec!["a/b", "bank", "shop"], 5), (&mut some, vec!["bank", "shop"], 4)] {
        let names = |items: &[serde_json::Value]| {
            let mut names: Vec<String> = items.iter().map(|one| one["namespace"].as_str().unwrap().into()).collect();
            names.dedup();
            names
        };
        let listed = walked(http, "/v1/workers").await;
        assert_eq!((listed.len(), names(&listed)), (workers, spaces.iter().map(|name| name.to_string()).collect()));
        let listed = walked(http, "/v1/executions").await;
        assert_eq!((listed.len(), names(&listed)), (workers, spaces.iter().map(|name| name.to_string()).collect()));
        assert_eq!(http.get("/v1/workers/two").await.good()["namespace"], "bank");
        http.get("/v1/workers/same").await.refused(400, "namespace_required");
        http.get("/v1/workers/nobody").await.refused(404, "worker_not_found");
        assert_eq!(walked(http, "/v1/workers/same/leases").await.len(), 2);
        let stats = http.get("/v1/stats").await.good();
        assert_eq!((&stats["workers"]["active"], &stats["lanes"][0]["active"]), (&json!(workers), &json!(workers)));
        assert_eq!(stats["slowest"].as_array().unwrap().len(), workers);
        let bulk = json!({ "filter": { "lane": "none" }, "verb": "cancel" });
        http.post("/v1/bulk", bulk.clone()).await.refused(400, "namespace_required");
        let job = http.call_with("POST", "/v1/bulk", &bulk, &[("weft-namespace", "shop")]).await.good();
        http.get(&format!("/v1/bulk/{}", job["id"].as_str().unwrap())).await.good();
    }
    some.get("/v1/workers/one").await.refused(404, "worker_not_found");
}

#[tokio::test]
async fn api_23_a_cursor_gives_no_namespace_that_the_key_does_not() {
    let server = Server::keyed().await;
    let everything = server.key(Scopes::SUBMIT, &["*"]);
    let mut all = server.http_as(&everything).await;
    for namespace in ["bank", "bank", "shop"] {
        let inside = [("weft-namespace", namespace)];
        all.call_with("POST", "/v1/executions", &json!({ "kind": "mail" }), &inside).await.good();
    }
    let page = all.get("/v1/executions?limit=1").await.good();
    let cursor = page["next_cursor"].as_str().unwrap();
    let others = server.key(Scopes::SUBMIT, &["shop", "post"]);
    let mut http = server.http_as(&others).await;
    http.get(&format!("/v1/executions?limit=1&cursor={cursor}")).await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn api_30_a_key_that_calls_too_often_is_told_when_to_come_back() {
    let slow = Rate { per_s: 1, burst: 3 };
    let server = Server::keyed_with(engine().await, |options| options.rates.default = slow).await;
    let key = server.key_with(Scopes::SUBMIT, &["shop"], |key| key.rate = RateClass::Default);
    let other = server.key(Scopes::SUBMIT, &["shop"]);
    let mut http = server.http_as(&key).await;
    for _ in 0..3 {
        http.get("/v1/executions").await.good();
    }
    let refused = http.get("/v1/executions").await;
    let problem = refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!((1..=1000).contains(&problem["retry_after_ms"].as_u64().unwrap()), "{problem}");
    http.key = Some(other);
    http.get("/v1/executions").await.good();
}

#[tokio::test]
async fn sec_11_an_address_that_keeps_failing_is_refused_before_its_key_is_looked_at() {
    let open = Rate { per_s: 1, burst: 2 };
    let server = Server::keyed_with(engine().await, |options| options.rates.open = open).await;
    let mut http = server.http().await;
    http.get("/v1/executions").await.refused(401, "unauthorized");
    http.get("/v1/executions").await.refused(401, "unauthorized");
    let refused = http.get("/v1/executions").await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(http.get("/healthz").await.status, 200, "health needs no key");
}

#[tokio::test]
async fn api_20_a_key_that_may_only_read_changes_nothing() {
    let server = Server::keyed().await;
    let key = server.key_with(Scopes::SUBMIT, &["shop"], |key| key.read_only = true);
    let mut http = server.http_as(&key).await;
    http.post("/v1/executions", json!({ "kind": "mail" })).await.refused(403, "forbidden");
    assert_eq!(http.get("/v1/executions/count").await.good()["total"], 0);
}
