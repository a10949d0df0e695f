//! Scanners, and items that they have parked: listing them, trying them again, giving them up.

use crate::kit::*;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;
use weft_core::change::{Batch, Body as Stored, Change, Write};
use weft_core::command::Scopes;
use weft_core::record::dead_letter::{Body, Why};
use weft_core::record::{DeadLetter, Record};
use weft_core::schema::{Kind, PartMask, Timer};
use weft_core::{CommitId, PartitionId, Time};
use weft_engine::{Config, Engine, TokioRuntime};
use weft_store::{Outcome, Store};

/// A letter about an entry that names nothing, in the first partition or the second by turns.
pub fn letter(number: u128, scanner: &str, namespace: Option<&str>) -> DeadLetter {
    let body = Body {
        why: Why::Poison,
        scanner: scanner.into(),
        timer: Timer::Lease,
        due: Time::from_ms(5),
        kind: Kind::Execution as u8,
        key: Bytes::from_static(b"\x77\xff"),
        error: "no such key".into(),
        fails: 1,
        parked_at: Time::from_ms(1_000),
        next_try_at: None,
        expires_at: Some(Time::from_ms(u64::MAX >> 2)),
        namespace: namespace.map(Into::into),
        flow: None,
        dropped: Vec::new(),
    };
    DeadLetter { partition: PartitionId((number % 2) as u16), uuid: Uuid::from_u128(number), body }
}

/// An engine whose store has these letters.
pub async fn engine_with(letters: Vec<DeadLetter>) -> Engine {
    engine_on(letters.into_iter().map(|letter| (letter, None)).collect()).await
}

/// An engine whose store has these letters, some with other bytes than their own.
async fn engine_on(letters: Vec<(DeadLetter, Option<Bytes>)>) -> Engine {
    let store = Arc::new(memory(2));
    for (letter, bytes) in letters {
        let (id, key, record) = (CommitId(letter.uuid), letter.key(), Record::DeadLetter(Box::new(letter)));
        let head = store.read(key.partition(), Vec::new()).await.unwrap().head;
        let parts = bytes.map_or_else(|| record.encode(PartMask::ALL), |bytes| vec![(0, Some(bytes))]);
        let body = Stored { facets: record.facets(), parts };
        let batch = Batch {
            id,
            expect: head,
            fast: true,
            strict: false,
            now: head.now,
            raise: None,
            reads: Vec::new(),
            writes: vec![Write { key, what: Change::Insert(body), due_add: record.due(), due_remove: Vec::new() }],
            due_drops: Vec::new(),
            feed: Bytes::new(),
            lanes: Vec::new(),
        };
        let outcome = store.commit(key.partition(), batch).await;
        assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
    }
    let runtime = Arc::new(TokioRuntime::current());
    Engine::open_on(store, Config::default(), runtime).await.expect("the memory store opens")
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

const FIRST: &str = "d_1_00000000-0000-0000-0000-000000000001";
const SECOND: &str = "d_0_00000000-0000-0000-0000-000000000002";
const THIRD: &str = "d_1_00000000-0000-0000-0000-000000000003";

/// One of a shop, one of a bank, one of nobody.
async fn keyed() -> Server {
    let letters = vec![
        letter(1, "lease_expiry", Some("shop")),
        letter(2, "retention_trimmer", Some("bank")),
        letter(3, "lease_expiry", None),
    ];
    Server::keyed_with(engine_with(letters).await, |_| {}).await
}

#[tokio::test]
async fn sr_82_the_scanners_of_the_node_that_answers_are_listed_with_how_they_are() {
    let server = keyed().await;
    let mut http = server.http_as(&server.key(Scopes::OPERATE, &["shop"])).await;
    let told = http.get("/v1/scanners").await.good();
    let node = http.get("/v1/nodes").await.good()["items"][0].clone();
    assert_eq!((&told["node"], &told["node_name"]), (&node["id"], &node["name"]));
    let items = told["items"].as_array().unwrap();
    let leases = items.iter().find(|one| one["name"] == "lease_expiry").unwrap();
    for (field, value) in [
        ("state", json!("ok")),
        ("interval_ms", json!(1_000)),
        ("partitions", json!(2)),
        ("parked", json!(2)),
        ("restarts", json!(0)),
        ("lag_ms", json!(0)),
        ("filter", Value::Null),
    ] {
        assert_eq!(leases[field], value, "{field} of {leases}");
    }
    let known: Vec<&str> = weft_engine::scanner::intervals().map(|(name, _)| name).collect();
    let listed: Vec<&str> = items.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(listed, known);
    let mut submitter = server.http_as(&server.key(Scopes::SUBMIT, &["*"])).await;
    for (method, path) in [
        ("GET", "/v1/scanners".to_string()),
        ("GET", "/v1/parked".to_string()),
        ("POST", "/v1/parked/retry".to_string()),
        ("POST", format!("/v1/parked/{FIRST}/retry")),
        ("POST", format!("/v1/parked/{FIRST}/discard")),
    ] {
        let body = if path.ends_with("discard") { json!({ "reason": "x" }) } else { Value::Null };
        submitter.call(method, &path, &body).await.refused(403, "forbidden");
    }
}

#[tokio::test]
async fn sr_83_a_key_sees_the_parked_items_of_its_namespaces_and_one_on_all_those_of_nobody() {
    let server = keyed().await;
    let mut shop = server.http_as(&server.key(Scopes::OPERATE, &["shop"])).await;
    let mut all = server.http_as(&server.key(Scopes::OPERATE, &["*"])).await;
    assert_eq!(ids(&shop.get("/v1/parked").await.good()), [FIRST]);
    let page = all.get("/v1/parked").await.good();
    assert_eq!(ids(&page), [FIRST, SECOND, THIRD]);
    assert_eq!(
        page["items"][0],
        json!({
            "id": FIRST, "scanner": "lease_expiry", "why": "poison", "entry": "77ff", "timer": "lease",
            "namespace": "shop", "since": 1_000, "tries": 1, "last_error": "no such key",
            "expires_at": u64::MAX >> 2,
        })
    );
    assert_eq!(ids(&all.get("/v1/parked?scanner=lease_expiry").await.good()), [FIRST, THIRD]);
    assert_eq!(ids(&all.get("/v1/parked?namespace=bank").await.good()), [SECOND]);
    assert_eq!(ids(&all.get("/v1/parked?namespace=bank&scanner=lease_expiry").await.good()), [""; 0]);
    shop.get("/v1/parked?namespace=bank").await.refused(403, "forbidden");
    let refused = all.get("/v1/parked?scanner=lease_expriy").await.refused(400, "invalid_argument");
    assert_eq!(
        (&refused["fields"]["field"], &refused["hint"]),
        (&json!("scanner"), &json!("did you mean `lease_expiry`?"))
    );

    let mut paged = Vec::new();
    let mut path = "/v1/parked?limit=1".to_string();
    loop {
        let page = all.get(&path).await.good();
        assert!(ids(&page).len() <= 1, "{page}");
        paged.extend(ids(&page).into_iter().map(str::to_string));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/parked?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(paged, [FIRST, SECOND, THIRD]);
    all.get("/v1/parked?cursor=x").await.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn sr_81_wrong_foreign_and_finished_ids_are_told_apart_and_every_act_is_in_the_audit_log() {
    let server = keyed().await;
    let mut shop = server.http_as(&server.key(Scopes::OPERATE, &["shop"])).await;
    let mut admin = server.http_as(&server.key(Scopes::ADMIN, &["*"])).await;
    let execution = "x_0_00000000-0000-0000-0000-000000000001";
    let beyond = "d_9_00000000-0000-0000-0000-000000000001";
    for wrong in ["7", "d_0", execution, beyond] {
        for verb in ["retry", "discard"] {
            let refused = shop.post(&format!("/v1/parked/{wrong}/{verb}"), json!({ "reason": "x" })).await;
            match verb {
                "retry" => shop.post(&format!("/v1/parked/{wrong}/retry"), json!({})).await,
                _ => refused,
            }
            .refused(400, "invalid_id");
        }
    }
    let unknown = "d_0_00000000-0000-0000-0000-000000000009";
    for hidden in [unknown, SECOND, THIRD] {
        let refused = shop.post(&format!("/v1/parked/{hidden}/retry"), json!({})).await.refused(404, "not_found");
        assert_eq!(refused["fields"]["what"], "parked item");
        shop.post(&format!("/v1/parked/{hidden}/discard"), json!({ "reason": "x" })).await.refused(404, "not_found");
    }
    for reason in [json!({ "reason": "" }), json!({ "reason": "x".repeat(1_025) }), json!({})] {
        shop.post(&format!("/v1/parked/{FIRST}/discard"), reason).await.refused(400, "invalid_argument");
    }
    assert_eq!(ids(&admin.get("/v1/parked").await.good()), [FIRST, SECOND, THIRD], "nothing has changed");

    let discarded = shop.post(&format!("/v1/parked/{FIRST}/discard"), json!({ "reason": "known" })).await.good();
    assert_eq!(discarded, json!({ "id": FIRST, "discarded": true }));
    shop.post(&format!("/v1/parked/{FIRST}/discard"), json!({ "reason": "known" })).await.refused(404, "not_found");
    let retried = admin.post(&format!("/v1/parked/{THIRD}/retry"), json!({})).await.good();
    assert_eq!(retried, json!({ "id": THIRD, "outcome": "nothing_left" }));
    let all = admin.post("/v1/parked/retry", json!({})).await.good();
    assert_eq!(all, json!({ "retried": 0, "still_damaged": 0, "nothing_left": 1, "refused": 0, "more": false }));
    assert_eq!(ids(&admin.get("/v1/parked").await.good()), [""; 0]);

    // Refusals are gathered before they are written, and those of one verb and key are one entry.
    let began = std::time::Instant::now();
    let log = loop {
        let log = admin.get("/v1/audit").await.good();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in log["items"].as_array().unwrap().iter().filter(|entry| entry["result"] == "not_found") {
            let times = entry["change"].as_str().and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(1);
            *counts.entry(entry["verb"].as_str().unwrap()).or_default() += times;
        }
        if counts == BTreeMap::from([("retry_parked", 3), ("discard_parked", 4)]) {
            break log;
        }
        assert!(began.elapsed() < PATIENCE, "{counts:?} of {log}");
        tokio::task::yield_now().await;
    };
    let acts = log["items"].as_array().unwrap().iter().filter(|entry| entry["result"] == "ok");
    let mut done: Vec<[&str; 3]> =
        acts.map(|entry| ["verb", "target", "change"].map(|field| entry[field].as_str().unwrap())).collect();
    done.sort_unstable();
    assert_eq!(
        done,
        [
            ["discard_parked", FIRST, "present → absent: known"],
            ["retry_parked", SECOND, "present → absent"],
            ["retry_parked", THIRD, "present → absent"],
        ]
    );
}

#[tokio::test]
async fn sr_84_all_parked_items_of_a_scanner_are_tried_again_a_thousand_at_a_time() {
    let some = (0..1_001).map(|number| letter(number, "lease_expiry", Some("shop")));
    let letters = some.chain([letter(2_000, "retention_trimmer", Some("shop"))]).collect();
    let server = Server::start(engine_with(letters).await, weft_server::Options::dev()).await;
    let mut http = server.http().await;
    let body = json!({ "scanner": "lease_expiry" });
    let first = http.post("/v1/parked/retry", body.clone()).await.good();
    assert_eq!((&first["nothing_left"], &first["more"]), (&json!(1_000), &json!(true)));
    let rest = http.post("/v1/parked/retry", body).await.good();
    assert_eq!((&rest["nothing_left"], &rest["more"]), (&json!(1), &json!(false)));
    let left = http.get("/v1/parked").await.good();
    assert_eq!(ids(&left), ["d_0_00000000-0000-0000-0000-0000000007d0"]);
    http.post("/v1/parked/retry", json!({ "scanner": "nobody" })).await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn sr_84_more_damaged_items_than_one_call_tries_hide_none_after_them() {
    // A record of each partition that does not decode; its kind makes no difference.
    let broken = [4_000, 4_001].map(|number| letter(number, "lease_expiry", None));
    let damaged = (0..1_001).map(|number| {
        let mut one = letter(number, "lease_expiry", Some("shop"));
        one.body.why = Why::Damaged;
        let key = broken[(number % 2) as usize].key();
        (one.body.kind, one.body.key) = (key.kind() as u8, Bytes::copy_from_slice(key.to_bytes().as_slice()));
        (one, None)
    });
    let restored = (letter(3_000, "lease_expiry", Some("shop")), None);
    let garbage = broken.clone().map(|one| (one, Some(Bytes::from_static(b"\x01garbage"))));
    let letters = garbage.into_iter().chain(damaged).chain([restored]).collect();
    let server = Server::start(engine_on(letters).await, weft_server::Options::dev()).await;
    let mut http = server.http().await;
    let first = http.post("/v1/parked/retry", json!({ "scanner": "lease_expiry" })).await.good();
    assert_eq!((&first["still_damaged"], &first["nothing_left"]), (&json!(1_000), &json!(0)), "one call is bounded");
    let next = json!({ "scanner": "lease_expiry", "cursor": first["next_cursor"] });
    let rest = http.post("/v1/parked/retry", next).await.good();
    assert_eq!(rest, json!({ "retried": 0, "still_damaged": 1, "nothing_left": 1, "refused": 0, "more": false }));
    let foreign = json!({ "cursor": first["next_cursor"] });
    http.post("/v1/parked/retry", foreign).await.refused(400, "invalid_cursor");
}
