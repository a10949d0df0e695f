//! API keys and the audit log, as an administrator meets them.

use serde_json::{Value, json};
use std::sync::Arc;
use weft_api::operation::Wire;
use weft_api::{Call, Code, Problem, Reply};
use weft_core::Time;
use weft_core::command::{Principal, Scopes};
use weft_core::record::api_key::Reach;
use weft_dispatch::secret::{KeyText, MasterKey};
use weft_dispatch::{Answer, Around, Caller, Dispatch};
use weft_engine::{Config, Engine};
use weft_store::MemoryStore;

async fn dispatch() -> Dispatch {
    let clock = Arc::new(|| Time::from_ms(1_700_000_000_000));
    let engine = Engine::open(MemoryStore::new(2, clock), Config::default()).await.unwrap();
    Dispatch::new(engine).with_macs(Some(MasterKey::new([7; 32]).macs()))
}

fn caller(scopes: Scopes, reach: Reach) -> Caller {
    Caller::new(Principal::new("", "root", scopes), reach, None, None)
}

fn root() -> Caller {
    caller(Scopes::ADMIN, Reach::All)
}

/// Reaches one namespace.
fn keeper_of(namespace: &str) -> Caller {
    caller(Scopes::ADMIN, Reach::Some(Arc::new([namespace.into()])))
}

struct Asked<'a> {
    operation: &'a str,
    path: Option<&'a str>,
    query: &'a str,
    body: Value,
    request_id: Option<&'a str>,
    if_match: Option<&'a str>,
}

fn ask<'a>(operation: &'a str, path: Option<&'a str>, body: Value) -> Asked<'a> {
    Asked { operation, path, query: "", body, request_id: None, if_match: None }
}

async fn call(dispatch: &Dispatch, caller: &Caller, asked: Asked<'_>) -> Result<Answer, Problem> {
    let body = if asked.body.is_null() { Vec::new() } else { asked.body.to_string().into_bytes() };
    let wire = Wire {
        path: asked.path.map(str::to_string).into_iter().collect(),
        query: asked.query.to_string(),
        body: body.into(),
        idempotency_key: asked.request_id.map(str::to_string),
        if_match: asked.if_match.map(str::to_string),
        ..Wire::default()
    };
    let call = Call::from_wire(asked.operation, wire)?;
    dispatch.call(caller, call, &Around::default()).await
}

fn new(name: &str, namespaces: &[&str]) -> Value {
    json!({ "name": name, "scopes": ["submit", "work"], "namespaces": namespaces })
}

async fn created(dispatch: &Dispatch, caller: &Caller, body: Value) -> weft_api::key::CreatedKey {
    match call(dispatch, caller, ask("create_key", None, body)).await.unwrap().reply {
        Reply::CreateKey(created) => created,
        other => panic!("{other:?}"),
    }
}

async fn listed(dispatch: &Dispatch, caller: &Caller) -> Vec<String> {
    match call(dispatch, caller, ask("list_keys", None, Value::Null)).await.unwrap().reply {
        Reply::ListKeys(page) => page.items.into_iter().map(|key| key.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sec_4_the_secret_of_a_new_key_is_shown_once_and_fits_what_is_stored() {
    let dispatch = dispatch().await;
    let body = new("mailer", &["shop"]);
    let first = Asked { request_id: Some("same"), ..ask("create_key", None, body.clone()) };
    let Reply::CreateKey(made) = call(&dispatch, &root(), first).await.unwrap().reply else { panic!("a key") };
    let text = KeyText::parse(&made.secret).expect("a key");
    assert_eq!(text.id, made.key.id);
    let stored = dispatch.engine().find_key(made.key.id.parse().unwrap()).await.unwrap().unwrap();
    assert!(MasterKey::new([7; 32]).macs().fits(&text, &stored.body.mac.0));
    assert!(!format!("{stored:?}").contains(&made.secret));

    let again = Asked { request_id: Some("same"), ..ask("create_key", None, body) };
    let answer = call(&dispatch, &root(), again).await.unwrap();
    assert!(answer.replayed && !answer.existed, "with the status of the first");
    let Reply::CreateKey(repeat) = answer.reply else { panic!("a key") };
    assert_eq!((repeat.key.id, repeat.secret.as_str()), (made.key.id, ""));
    assert_eq!(listed(&dispatch, &root()).await, ["mailer"]);
}

#[tokio::test]
async fn api_20_a_name_that_is_taken_is_refused() {
    let dispatch = dispatch().await;
    created(&dispatch, &root(), new("mailer", &["*"])).await;
    let refused = call(&dispatch, &root(), ask("create_key", None, new("mailer", &["shop"]))).await.unwrap_err();
    assert_eq!(refused.code, Code::NameTaken);
}

#[tokio::test]
async fn api_24_a_rotated_key_has_two_good_secrets_and_a_revoked_one_is_gone() {
    let dispatch = dispatch().await;
    let made = created(&dispatch, &root(), new("mailer", &["shop"])).await;
    let id = Some(made.key.id.as_str());
    let rotated = call(&dispatch, &root(), ask("rotate_key", id, json!({ "overlap_ms": 5000 }))).await.unwrap().reply;
    let Reply::RotateKey(rotated) = rotated else { panic!("{rotated:?}") };
    // The clock runs on while the calls are made.
    assert!(rotated.key.previous_until.is_some_and(|until| (1_700_000_005_000..1_700_000_065_000).contains(&until)));
    assert_ne!(rotated.secret, made.secret);
    let stored = dispatch.engine().find_key(made.key.id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(stored.good(dispatch.engine().now()).count(), 2);

    let changed = call(&dispatch, &root(), ask("change_key", id, json!({ "read_only": true }))).await.unwrap().reply;
    assert!(matches!(changed, Reply::ChangeKey(key) if key.read_only && key.name == "mailer"));
    let revoked = call(&dispatch, &root(), ask("revoke_key", id, Value::Null)).await.unwrap().reply;
    assert!(matches!(revoked, Reply::RevokeKey(revoked) if revoked.revoked));
    for operation in ["get_key", "revoke_key"] {
        let refused = call(&dispatch, &root(), ask(operation, id, Value::Null)).await.unwrap_err();
        assert_eq!(refused.code, Code::KeyNotFound, "{operation}");
    }
}

#[tokio::test]
async fn sec_1_an_administrator_of_one_namespace_gives_no_more_and_sees_no_more() {
    let dispatch = dispatch().await;
    let everywhere = created(&dispatch, &root(), new("root", &["*"])).await;
    created(&dispatch, &root(), new("bank", &["bank"])).await;
    let keeper = keeper_of("shop");
    for namespaces in [&["*"][..], &["bank"], &["shop", "bank"]] {
        let refused = call(&dispatch, &keeper, ask("create_key", None, new("more", namespaces))).await.unwrap_err();
        assert_eq!(refused.code, Code::Forbidden, "{namespaces:?}");
    }
    let own = created(&dispatch, &keeper, new("own", &["shop"])).await;
    let wider = ask("change_key", Some(&own.key.id), json!({ "namespaces": ["*"] }));
    assert_eq!(call(&dispatch, &keeper, wider).await.unwrap_err().code, Code::Forbidden);
    assert_eq!(listed(&dispatch, &keeper).await, ["own"]);
    let id = Some(everywhere.key.id.as_str());
    for (operation, body) in
        [("get_key", Value::Null), ("revoke_key", Value::Null), ("rotate_key", json!({})), ("change_key", json!({}))]
    {
        let refused = call(&dispatch, &keeper, ask(operation, id, body)).await.unwrap_err();
        assert_eq!(refused.code, Code::KeyNotFound, "{operation}");
    }
    assert_eq!(listed(&dispatch, &root()).await, ["bank", "own", "root"]);
}

#[tokio::test]
async fn sec_5_a_key_that_may_only_read_changes_nothing() {
    let dispatch = dispatch().await;
    let reader = Caller { read_only: true, ..root() };
    let refused = call(&dispatch, &reader, ask("create_key", None, new("more", &["shop"]))).await.unwrap_err();
    assert_eq!(refused.code, Code::Forbidden);
    assert_eq!(listed(&dispatch, &reader).await, Vec::<String>::new());
    let operator = caller(Scopes::OPERATE, Reach::All);
    let refused = call(&dispatch, &operator, ask("list_keys", None, Value::Null)).await.unwrap_err();
    assert_eq!(refused.code, Code::Forbidden);
}

#[tokio::test]
async fn api_28_what_an_administrator_did_is_listed_with_its_filters() {
    let dispatch = dispatch().await;
    let made = created(&dispatch, &root(), new("mailer", &["shop"])).await;
    for name in ["a", "b", "c"] {
        created(&dispatch, &root(), new(name, &["shop"])).await;
    }
    call(&dispatch, &root(), ask("revoke_key", Some(&made.key.id), Value::Null)).await.unwrap();
    let page = async |caller: &Caller, query: &str| {
        let asked = Asked { query, ..ask("list_audit", None, Value::Null) };
        match call(&dispatch, caller, asked).await.unwrap().reply {
            Reply::ListAudit(page) => page,
            other => panic!("{other:?}"),
        }
    };
    let verbs = |page: &weft_api::Page<weft_api::key::AuditEntry>| -> Vec<String> {
        page.items.iter().map(|entry| format!("{} {} {}", entry.no, entry.verb, entry.result)).collect()
    };
    let first = page(&root(), "limit=2").await;
    assert_eq!(verbs(&first), ["5 revoke_key ok", "4 create_key ok"]);
    assert!(first.items[0].change.as_ref().unwrap().ends_with("→ absent"));
    let cursor = first.next_cursor.expect("there is more");
    let second = page(&root(), &format!("limit=3&cursor={cursor}")).await;
    assert_eq!(verbs(&second), ["3 create_key ok", "2 create_key ok", "1 create_key ok"]);
    assert_eq!(second.next_cursor, None);
    let about = page(&root(), &format!("target={}", made.key.id)).await;
    assert_eq!(verbs(&about), ["5 revoke_key ok", "1 create_key ok"]);
    assert_eq!(page(&keeper_of("shop"), "").await.items.len(), 0, "keys belong to the whole deployment");
}

#[tokio::test]
async fn api_12_a_key_is_changed_only_as_it_was_seen() {
    let dispatch = dispatch().await;
    let made = call(&dispatch, &root(), ask("create_key", None, new("ci", &["shop"]))).await.unwrap();
    let Reply::CreateKey(made) = made.reply else { panic!("{made:?}") };
    let id = Some(made.key.id.as_str());
    let seen = call(&dispatch, &root(), ask("get_key", id, Value::Null)).await.unwrap().revision.unwrap();
    let rename = |to: &str| Asked { if_match: Some(&seen), ..ask("change_key", id, json!({ "name": to })) };
    call(&dispatch, &root(), rename("ci-2")).await.unwrap();
    for stale in [rename("ci-3"), Asked { if_match: Some("999"), ..ask("revoke_key", id, Value::Null) }] {
        let refused = call(&dispatch, &root(), stale).await.unwrap_err();
        assert_eq!(refused.code, Code::RevisionMismatch);
    }
    let Reply::GetKey(key) = call(&dispatch, &root(), ask("get_key", id, Value::Null)).await.unwrap().reply else {
        panic!()
    };
    assert_eq!(key.name, "ci-2");
    let items = json!({ "items": [{ "execution": "x_0_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01" }] });
    let many = Asked { if_match: Some(&seen), ..ask("cancel_executions", None, items) };
    let refused = call(&dispatch, &root(), many).await.unwrap_err();
    assert_eq!((refused.code, refused.fields["field"].as_str()), (Code::InvalidArgument, Some("If-Match")));
}
