use crate::command::*;
use crate::error::Rejection;
use crate::id::KeyId;
use crate::kit::World;
use crate::kit::calls::*;
use crate::limits::{KEY_TOUCH_MS, KEYS_MAX, KEYS_RESERVED};
use crate::record::api_key::{ApiKey, HOME, Mac, Reach};
use crate::record::{Key, Record};
use crate::reply::Reply;
use crate::time::Time;

const OPS: &str = "ops00001";

fn id(text: &str) -> KeyId {
    text.parse().unwrap()
}

fn stored(world: &World, text: &str) -> Option<ApiKey> {
    match world.record(Key::ApiKey(HOME, id(text)))? {
        Record::ApiKey(key) => Some(*key),
        other => panic!("{other:?}"),
    }
}

fn created(world: &mut World, text: &str, name: &str) -> ApiKey {
    match world.run(create_key(text, name)) {
        Ok(Reply::Key(key)) => *key,
        other => panic!("{other:?}"),
    }
}

fn good(world: &World, text: &str) -> Vec<Mac> {
    stored(world, text).unwrap().good(world.now).copied().collect()
}

fn touch(world: &mut World, text: &str) -> Result<Reply, Rejection> {
    let command = Command::TouchKey(TouchKey { id: id(text) });
    world.call(&Call { principal: Principal::engine(), ..call(command) })
}

#[test]
fn api_20_a_key_is_kept_as_it_was_asked_for() {
    let mut world = World::new();
    let key = created(world.at(5), OPS, "ops");
    assert_eq!(stored(&world, OPS), Some(key.clone()));
    assert_eq!((&*key.body.name, &*key.body.creator, key.body.created_at), ("ops", "ann", Time::from_ms(5)));
    assert_eq!(key.summary(), "name=ops scopes=submit,work namespaces=shop");
    assert_eq!(format!("{:?}", key.body.mac), "Mac(***)");
}

#[test]
fn api_20_a_name_and_an_id_belong_to_one_key() {
    let mut world = World::new();
    created(&mut world, OPS, "ops");
    assert_eq!(world.run(create_key("other001", "ops")), Err(Rejection::NameTaken));
    assert_eq!(world.run(create_key(OPS, "other")).unwrap_err().code(), "invalid_argument");
    created(&mut world, "other001", "other");
    let rename = |name: &str| {
        Command::ChangeKey(Box::new(ChangeKey { name: Some(name.into()), ..ChangeKey::new(id("other001")) }))
    };
    assert_eq!(world.run(rename("ops")), Err(Rejection::NameTaken));
    world.run(rename("another")).unwrap();
    created(&mut world, "third001", "other");
}

#[test]
fn api_20_shapes_that_no_key_can_have_are_refused() {
    let changes: [fn(&mut CreateKey); 6] = [
        |cmd| cmd.name = "".into(),
        |cmd| cmd.scopes = Scopes::NONE,
        |cmd| cmd.scopes = Scopes::ENGINE,
        |cmd| cmd.namespaces = Reach::Some(Default::default()),
        |cmd| cmd.namespaces = Reach::Some(std::sync::Arc::new(["a b".into()])),
        |cmd| cmd.expires_at = Some(Time::from_ms(10)),
    ];
    let mut world = World::new();
    world.at(10);
    for (at, change) in changes.into_iter().enumerate() {
        let mut cmd = new_key(OPS, "ops");
        change(&mut cmd);
        let refused = world.run(Command::CreateKey(Box::new(cmd)));
        assert_eq!(refused.unwrap_err().code(), "invalid_argument", "change {at}");
    }
}

#[test]
fn sec_10_there_are_at_most_a_thousand_keys() {
    let mut world = World::new();
    for number in 0..KEYS_MAX {
        created(&mut world, &format!("{number:08}"), &format!("key-{number}"));
    }
    assert_eq!(world.run(create_key(OPS, "ops")).unwrap_err().code(), "limit_exceeded");
    world.run(Command::RevokeKey(RevokeKey { id: id("00000000") })).unwrap();
    created(&mut world, OPS, "ops");
}

#[test]
fn sec_10_a_full_store_has_room_for_an_administrator_made_inside_of_a_process() {
    let mut world = World::new();
    for number in 0..KEYS_MAX {
        created(&mut world, &format!("{number:08}"), &format!("key-{number}"));
    }
    let admin = |number: usize| {
        let cmd = new_key(&format!("admin{number:03}"), &format!("rescue-{number}"));
        Command::CreateKey(Box::new(CreateKey { scopes: Scopes::ALL, namespaces: Reach::All, ..cmd }))
    };
    let by_key = Principal { origin: Some(std::sync::Arc::default()), ..ann() };
    let refused = world.call(&Call { principal: by_key, ..call(admin(0)) });
    assert_eq!(refused.unwrap_err(), Rejection::LimitExceeded { what: "keys", max: KEYS_MAX as u64 });
    for number in 0..KEYS_RESERVED {
        assert!(matches!(world.run(admin(number)), Ok(Reply::Key(_))), "{number}");
    }
    assert_eq!(world.run(admin(KEYS_RESERVED)).unwrap_err().code(), "limit_exceeded");
}

#[test]
fn api_21_only_an_administrator_touches_keys_and_an_administrator_may_operate() {
    let mut world = World::new();
    let execution = world.submit(|_| {});
    let most = Scopes::SUBMIT.with(Scopes::WORK).with(Scopes::SIGNAL).with(Scopes::OPERATE);
    let with = |scopes, command| Call { principal: Principal { scopes, ..ann() }, ..call(command) };
    let forbidden = Err(Rejection::Forbidden { needs: "admin" });
    assert_eq!(world.call(&with(most, create_key(OPS, "ops"))), forbidden);
    assert_eq!(world.call(&with(Scopes::ADMIN, hold(execution))), Ok(Reply::Held { changed: true }));
    assert!(matches!(world.call(&with(Scopes::ADMIN, create_key(OPS, "ops"))), Ok(Reply::Key(_))));
    let submit = Command::Submit(Box::new(submit()));
    assert_eq!(world.call(&with(Scopes::ADMIN, submit)), Err(Rejection::Forbidden { needs: "submit" }));
}

#[test]
fn api_24_both_secrets_are_good_while_a_rotation_overlaps() {
    let mut world = World::new();
    created(&mut world, OPS, "ops");
    let (old, new) = (Mac([1; 32]), Mac([2; 32]));
    world.at(1_000).run(rotate_key(OPS, Some(500))).unwrap();
    assert_eq!(good(&world, OPS), [new, old]);
    world.at(1_499);
    assert_eq!(good(&world, OPS), [new, old]);
    world.at(1_500);
    assert_eq!(good(&world, OPS), [new]);
    assert_eq!(stored(&world, OPS).unwrap().previous_until(world.now), None);
}

#[test]
fn api_24_the_overlap_is_a_day_unless_given_and_nothing_if_it_is_0() {
    let mut world = World::new();
    created(&mut world, OPS, "ops");
    world.at(1_000).run(rotate_key(OPS, None)).unwrap();
    let until = stored(&world, OPS).unwrap().previous_until(world.now);
    assert_eq!(until, Some(Time::from_ms(1_000 + 24 * 3_600_000)));
    world.run(rotate_key(OPS, Some(0))).unwrap();
    assert_eq!(good(&world, OPS), [Mac([2; 32])]);
    assert_eq!(world.run(rotate_key(OPS, Some(31 * 24 * 3_600_000))).unwrap_err().code(), "invalid_argument");
}

#[test]
fn sec_4_an_expired_key_has_no_good_secret() {
    let mut world = World::new();
    let cmd = CreateKey { expires_at: Some(Time::from_ms(100)), ..new_key(OPS, "ops") };
    world.run(Command::CreateKey(Box::new(cmd))).unwrap();
    world.run(rotate_key(OPS, None)).unwrap();
    world.at(99);
    assert_eq!(good(&world, OPS).len(), 2);
    world.at(100);
    assert_eq!(good(&world, OPS), []);
    let later = ChangeKey { expires_at: Some(Some(Time::from_ms(200))), ..ChangeKey::new(id(OPS)) };
    world.run(Command::ChangeKey(Box::new(later))).unwrap();
    assert_eq!(good(&world, OPS).len(), 2);
    let for_ever = ChangeKey { expires_at: Some(None), ..ChangeKey::new(id(OPS)) };
    world.run(Command::ChangeKey(Box::new(for_ever))).unwrap();
    assert_eq!(good(world.at(2 * crate::limits::DAY_MS), OPS).len(), 1, "only the older secret has an end");
}

#[test]
fn api_24_a_revoked_key_reads_as_unknown_and_its_name_is_free() {
    let mut world = World::new();
    created(&mut world, OPS, "ops");
    let revoke = Command::RevokeKey(RevokeKey { id: id(OPS) });
    assert_eq!(world.run(revoke.clone()), Ok(Reply::KeyRevoked));
    assert_eq!(stored(&world, OPS), None);
    for command in [revoke, rotate_key(OPS, None), Command::ChangeKey(Box::new(ChangeKey::new(id(OPS))))] {
        assert_eq!(world.run(command), Err(Rejection::KeyNotFound));
    }
    assert_eq!(touch(&mut world, OPS), Err(Rejection::KeyNotFound));
    created(&mut world, "other001", "ops");
}

#[test]
fn the_last_key_with_all_rights_keeps_them() {
    let mut world = World::new();
    let admin = |text: &str, name: &str| {
        let scopes = Scopes::ADMIN.with(Scopes::SUBMIT);
        Command::CreateKey(Box::new(CreateKey { scopes, namespaces: Reach::All, ..new_key(text, name) }))
    };
    let of = |change: fn(&mut ChangeKey)| {
        let mut cmd = ChangeKey::new(id(OPS));
        change(&mut cmd);
        Command::ChangeKey(Box::new(cmd))
    };
    let taken = [
        ("id", Command::RevokeKey(RevokeKey { id: id(OPS) })),
        ("scopes", of(|cmd| cmd.scopes = Some(Scopes::SUBMIT))),
        ("namespaces", of(|cmd| cmd.namespaces = Some(Reach::Some(std::sync::Arc::new(["shop".into()]))))),
        ("read_only", of(|cmd| cmd.read_only = Some(true))),
        ("expires_at", of(|cmd| cmd.expires_at = Some(Some(Time::from_ms(1_000_000))))),
    ];
    world.run(admin(OPS, "ops")).unwrap();
    created(&mut world, "other001", "submits");
    let mut ends = new_key("other002", "ends");
    (ends.scopes, ends.namespaces, ends.expires_at) = (Scopes::ADMIN, Reach::All, Some(Time::from_ms(1_000_000)));
    world.run(Command::CreateKey(Box::new(ends))).unwrap();
    let before = stored(&world, OPS);
    for (field, command) in &taken {
        match world.run(command.clone()) {
            Err(Rejection::InvalidArgument { field: told, why }) => {
                assert!(told == *field && why.contains("make another one first"), "{told}: {why}");
            }
            other => panic!("{field}: {other:?}"),
        }
        assert_eq!(stored(&world, OPS), before);
    }
    // What leaves it its rights is allowed, and so is everything once there is another.
    world.run(of(|cmd| cmd.scopes = Some(Scopes::ADMIN))).unwrap();
    world.run(rotate_key(OPS, Some(0))).unwrap();
    world.run(admin("other003", "second")).unwrap();
    for (field, command) in taken.into_iter().rev() {
        world.run(command).unwrap_or_else(|error| panic!("{field}: {error:?}"));
    }
    assert_eq!(stored(&world, OPS), None);
}

#[test]
fn the_last_key_with_all_rights_keeps_them_although_it_expires() {
    let mut world = World::new();
    let until = |text: &str, ms: u64| {
        let key = CreateKey { scopes: Scopes::ADMIN, namespaces: Reach::All, ..new_key(text, text) };
        Command::CreateKey(Box::new(CreateKey { expires_at: Some(Time::from_ms(ms)), ..key }))
    };
    let of = |change: fn(&mut ChangeKey)| {
        let mut cmd = ChangeKey::new(id(OPS));
        change(&mut cmd);
        Command::ChangeKey(Box::new(cmd))
    };
    let taken = [
        ("id", Command::RevokeKey(RevokeKey { id: id(OPS) })),
        ("scopes", of(|cmd| cmd.scopes = Some(Scopes::SUBMIT))),
        ("namespaces", of(|cmd| cmd.namespaces = Some(Reach::Some(std::sync::Arc::new(["shop".into()]))))),
        ("read_only", of(|cmd| cmd.read_only = Some(true))),
    ];
    world.run(until("gone0001", 100)).unwrap();
    world.run(until(OPS, 1_000)).unwrap();
    created(&mut world, "other001", "submits");
    world.at(100);
    for (field, command) in &taken {
        match world.run(command.clone()) {
            Err(Rejection::InvalidArgument { field: told, .. }) => assert_eq!(told, *field),
            other => panic!("{field}: {other:?}"),
        }
    }
    // What leaves it its rights is allowed, and so is everything about a key that has none.
    world.run(of(|cmd| cmd.name = Some("renamed".into()))).unwrap();
    world.run(of(|cmd| cmd.expires_at = Some(Some(Time::from_ms(500))))).unwrap();
    world.run(of(|cmd| cmd.scopes = Some(Scopes::ADMIN.with(Scopes::SUBMIT)))).unwrap();
    world.run(Command::RevokeKey(RevokeKey { id: id("gone0001") })).unwrap();
    world.run(until("other002", 900)).unwrap();
    for (field, command) in taken.into_iter().rev() {
        world.run(command).unwrap_or_else(|error| panic!("{field}: {error:?}"));
    }
    assert_eq!(stored(&world, OPS), None);
}

#[test]
fn api_24_a_change_leaves_what_it_does_not_name() {
    let mut world = World::new();
    let before = created(&mut world, OPS, "ops");
    let change = ChangeKey { scopes: Some(Scopes::WORK), read_only: Some(true), ..ChangeKey::new(id(OPS)) };
    world.run(Command::ChangeKey(Box::new(change))).unwrap();
    let after = stored(&world, OPS).unwrap();
    assert_eq!(after.summary(), "name=ops scopes=work namespaces=shop read_only");
    assert_eq!((after.body.mac, after.body.created_at), (before.body.mac, before.body.created_at));
}

#[test]
fn api_25_a_first_key_is_made_only_where_there_is_none() {
    let mut world = World::new();
    let first =
        |text: &str| Command::CreateKey(Box::new(CreateKey { only_if_none: true, ..new_key(text, "bootstrap") }));
    assert!(matches!(world.run(first(OPS)), Ok(Reply::Key(_))));
    let log = world.audit(HOME).len();
    assert_eq!(world.run(first("other001")), Ok(Reply::KeysExist));
    assert_eq!((stored(&world, "other001"), world.audit(HOME).len()), (None, log));
}

#[test]
fn api_20_the_use_of_a_key_is_written_once_an_hour() {
    let mut world = World::new();
    created(&mut world, OPS, "ops");
    let mut commits = Vec::new();
    for ms in [10, 20, 10 + KEY_TOUCH_MS - 1, 10 + KEY_TOUCH_MS, 10 + KEY_TOUCH_MS + 1] {
        touch(world.at(ms), OPS).unwrap();
        commits.push((world.commits, stored(&world, OPS).unwrap().body.last_used_at.unwrap().ms()));
    }
    let (first, later) = ((2, 10), (3, 10 + KEY_TOUCH_MS));
    assert_eq!(commits, [first, first, first, later, later]);
}

#[test]
fn api_9_a_repeated_creation_is_answered_with_the_first_key() {
    let mut world = World::new();
    let with = |command| Call { request_id: Some("same".into()), ..call(command) };
    let first = world.call(&with(create_key(OPS, "ops"))).unwrap();
    assert_eq!(world.call(&with(create_key("other001", "ops"))), Ok(first));
    assert_eq!(stored(&world, "other001"), None);
    assert_eq!(world.call(&with(create_key("other001", "other"))).unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(world.audit(HOME).len(), 2, "a repeat does nothing; another body is refused");
}

#[test]
fn sec_1_the_owner_of_a_key_acts_in_its_namespaces_only() {
    let mut world = World::new();
    let key = created(&mut world, OPS, "ops");
    let of = |namespace: &str| Principal::of_key(&key, Some(namespace.into()), "::1".into(), "r1".into());
    let owner = of("shop").unwrap();
    assert_eq!((&*owner.name, &*owner.namespace, owner.scopes), ("ops", "shop", key.body.scopes));
    assert_eq!(owner.origin.unwrap().key, OPS.into());
    assert_eq!(of("other"), None);
}
