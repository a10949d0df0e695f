//! API keys on one node and on several.

use crate::kit::*;
use crate::nodes::Node;
use weft_core::KeyId;
use weft_core::command::{ChangeKey, CreateKey, Principal, RotateKey, Scopes};
use weft_core::error::Rejection;
use weft_core::record::api_key::{Attributes, Mac, Reach};
use weft_engine::{Client, Engine, KeyCreation};

pub fn admin(engine: &Engine) -> Client {
    engine.client_as(Principal::new("", "root", Scopes::ADMIN))
}

pub fn id(text: &str) -> KeyId {
    text.parse().expect("an id of a key")
}

pub fn key(text: &str, name: &str) -> CreateKey {
    CreateKey {
        id: id(text),
        mac: Mac([1; 32]),
        name: name.into(),
        scopes: Scopes::SUBMIT,
        namespaces: Reach::All,
        attributes: Attributes::default(),
        expires_at: None,
        only_if_none: false,
    }
}

#[tokio::test(start_paused = true)]
async fn api_25_of_two_nodes_that_start_together_one_makes_the_first_key() {
    let store = memory(2).shared();
    let (one, two) = tokio::join!(Node::start(&store, "one"), Node::start(&store, "two"));
    let first = |text| CreateKey { only_if_none: true, ..key(text, "bootstrap") };
    let (by_one, by_two) = (admin(&one.engine), admin(&two.engine));
    let (a, b) = tokio::join!(by_one.create_key(first("aaaaaaaa"), None), by_two.create_key(first("bbbbbbbb"), None));
    let made = [a.unwrap(), b.unwrap()];
    assert_eq!(made.iter().filter(|made| matches!(made, KeyCreation::Created(_))).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|made| **made == KeyCreation::KeysExist).count(), 1, "{made:?}");
    assert_eq!(by_one.keys(None, None).await.unwrap().keys.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn api_24_a_key_that_one_node_revoked_is_unknown_to_the_next_look_of_another() {
    let store = memory(2).shared();
    let (one, two) = (Node::start(&store, "one").await, Node::start(&store, "two").await);
    let (here, there) = (admin(&one.engine), admin(&two.engine));
    here.create_key(key("aaaaaaaa", "ops"), None).await.unwrap();
    assert!(two.engine.find_key(id("aaaaaaaa")).await.unwrap().is_some());
    let change = ChangeKey { scopes: Some(Scopes::WORK), ..ChangeKey::new(id("aaaaaaaa")) };
    there.change_key(change, None, None).await.unwrap();
    assert_eq!(one.engine.find_key(id("aaaaaaaa")).await.unwrap().unwrap().body.scopes, Scopes::WORK);
    here.revoke_key(id("aaaaaaaa"), None, None).await.unwrap();
    assert_eq!(two.engine.find_key(id("aaaaaaaa")).await.unwrap(), None);
    assert_eq!(there.revoke_key(id("aaaaaaaa"), None, None).await.unwrap_err(), Rejection::KeyNotFound);
}

#[tokio::test(start_paused = true)]
async fn api_9_a_repeat_of_a_creation_or_a_rotation_says_so() {
    let kit = open().await;
    let root = admin(&kit.engine);
    let again = || Some("same".into());
    let KeyCreation::Created(first) = root.create_key(key("aaaaaaaa", "ops"), again()).await.unwrap() else {
        panic!("the first call makes it");
    };
    let repeat = root.create_key(key("bbbbbbbb", "ops"), again()).await;
    assert_eq!(repeat, Ok(KeyCreation::Repeated(first)));
    let rotation = |mac| RotateKey { id: id("aaaaaaaa"), mac: Mac([mac; 32]), overlap_ms: Some(0) };
    assert!(!root.rotate_key(rotation(2), again(), None).await.unwrap().repeated);
    let repeat = root.rotate_key(rotation(3), again(), None).await.unwrap();
    assert!(repeat.repeated && repeat.body.mac == Mac([2; 32]));
}

#[tokio::test(start_paused = true)]
async fn api_11_keys_are_listed_by_name_page_by_page() {
    let kit = open_with(3, Default::default()).await;
    let root = admin(&kit.engine);
    for (text, name) in [("cccccccc", "a"), ("bbbbbbbb", "b.1"), ("aaaaaaaa", "c"), ("dddddddd", "b")] {
        root.create_key(key(text, name), None).await.unwrap();
    }
    let (mut names, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = root.keys(Some(1), cursor.as_deref()).await.unwrap();
        names.extend(page.keys.into_iter().map(|key| key.body.name.to_string()));
        pages += 1;
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((names, pages), (["a", "b", "b.1", "c"].map(String::from).to_vec(), 4));
    for bad in ["", "short", "é".repeat(8).as_str()] {
        assert_eq!(root.keys(None, Some(bad)).await.unwrap_err(), Rejection::InvalidCursor, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn api_20_many_uses_of_a_key_write_once_an_hour() {
    let kit = open().await;
    admin(&kit.engine).create_key(key("aaaaaaaa", "ops"), None).await.unwrap();
    let before = kit.store.commits();
    for _ in 0..10 {
        kit.engine.touch_key(id("aaaaaaaa")).await.unwrap();
    }
    assert_eq!(kit.store.commits(), before + 1);
    pass(3_600_000).await;
    kit.engine.touch_key(id("aaaaaaaa")).await.unwrap();
    let used = kit.engine.find_key(id("aaaaaaaa")).await.unwrap().unwrap().body.last_used_at;
    assert_eq!(used, Some(kit.engine.now()));
}

#[tokio::test(start_paused = true)]
async fn api_21_who_is_no_administrator_neither_reads_nor_changes_keys() {
    let kit = open().await;
    let client = kit.engine.client_as(Principal::new("", "ops", Scopes::OPERATE.with(Scopes::SUBMIT)));
    let forbidden = Rejection::Forbidden { needs: "admin" };
    assert_eq!(client.create_key(key("aaaaaaaa", "ops"), None).await.unwrap_err(), forbidden);
    assert_eq!(client.keys(None, None).await.unwrap_err(), forbidden);
    assert_eq!(client.key(id("aaaaaaaa")).await.unwrap_err(), forbidden);
    assert_eq!(client.audit(Default::default()).await.unwrap_err(), forbidden);
    assert_eq!(client.verify_audit(weft_core::PartitionId(0)).await.unwrap_err(), forbidden);
}
