use super::is_audited;
use crate::command::*;
use crate::kit::calls::*;
use crate::kit::{PARTITION, World};
use crate::limits::{AUDIT_KEPT_MS, AUDIT_TEXT_MAX};
use crate::record::api_key::HOME;
use crate::record::audit::Act;
use crate::schema::Timer;
use crate::text::Text;
use std::sync::Arc;

fn operator() -> Principal {
    let origin = Origin { key: "ops00001".into(), address: "10.0.0.7".into(), request: "r-17".into() };
    Principal { origin: Some(Arc::new(origin)), ..Principal::new("shop", "ops", Scopes::OPERATE) }
}

fn by(principal: Principal, command: Command) -> Call {
    Call { principal, ..call(command) }
}

fn last(world: &World) -> Act {
    world.audit(PARTITION).pop().expect("an entry").body.act
}

fn line(act: &Act) -> String {
    format!("{} {} {}", act.verb, act.change, act.result)
}

#[test]
fn sec_12_an_entry_says_who_did_what_from_where_and_what_became_of_it() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    world.at(1_000).call(&by(operator(), hold(id))).unwrap();
    let log = world.audit(PARTITION);
    assert_eq!(log.len(), 1);
    let act = &log[0].body.act;
    assert_eq!((&*act.principal, &*act.namespace, &*act.key), ("ops", "shop", "ops00001"));
    assert_eq!((&*act.address, &*act.request, act.at.ms()), ("10.0.0.7", "r-17", 1_000));
    assert_eq!((&*act.target, &*act.result), (id.to_string().as_str(), "ok"));
    assert_eq!(line(act), "hold waiting → held: look first ok");
}

#[test]
fn sec_12_the_reason_of_a_verb_is_in_the_history_in_the_feed_and_in_the_audit_log() {
    let mut world = World::new();
    let id = world.submit(|cmd| cmd.start = Some(When::InMs(60_000)));
    let reason: Text = "the bank said so".into();
    let set = [("team".into(), "a".into())].into();
    for command in [
        Command::Reschedule(Reschedule { id, start: When::InMs(90_000), reason: reason.clone() }),
        Command::ChangePriority(ChangePriority { id, priority: 7, reason: reason.clone() }),
        Command::SetTags(SetTags { id, fence: None, set, remove: Vec::new(), reason: reason.clone() }),
        Command::Hold(Hold { id, reason: reason.clone(), revoke: false }),
        Command::Release(Release { id, reason: reason.clone() }),
    ] {
        let verb = command.verb();
        // Its owner moves its start, which leaves no entry.
        let who = match verb {
            "reschedule" => Principal::new("shop", "ops", Scopes::SUBMIT),
            _ => operator(),
        };
        let call = by(who, command);
        world.call(&call).unwrap();
        let noted = world.execution(id).actions().kept.last().cloned().expect("an action");
        assert_eq!((&*noted.by, &noted.reason), ("ops", &reason), "{verb}");
        assert!(format!("{:?}", world.events.last()).contains(&*reason), "{verb}");
        assert!(!is_audited(&call) || last(&world).change.ends_with(": the bank said so"), "{verb}");
    }
    world.call(&by(operator(), force_fail(id))).unwrap();
    world.call(&by(operator(), Command::Purge(Purge { id, reason: reason.clone() }))).unwrap();
    assert!(format!("{:?}", world.events.last()).contains(&*reason));
    assert_eq!(line(&last(&world)), "purge failed → absent: the bank said so ok");
    let long = Command::Release(Release { id, reason: "x".repeat(crate::limits::REASON_MAX + 1).into() });
    assert_eq!(world.call(&by(operator(), long)).unwrap_err().code(), "payload_too_large");
}

#[test]
fn sec_12_each_verb_of_an_operator_leaves_exactly_one_entry() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let force = ForceComplete { id, result: Some("secret".into()), content_type: None, reason: "because".into() };
    let fail = |id| Command::ForceFail(ForceFail { id, message: "secret".into(), reason: "because".into() });
    let revoke = Revoke { id, expected_epoch: None, reason: "because".into(), hold: false };
    let priority = ChangePriority { id, priority: 7, reason: "".into() };
    let acts = [
        (hold(id), "hold waiting → held: look first ok"),
        (hold(id), "hold held: look first ok"),
        (Command::Release(Release { id, reason: "".into() }), "release held → waiting ok"),
        (Command::ChangePriority(priority), "change_priority priority 0 → priority 7 ok"),
        (Command::Revoke(revoke), "revoke  execution_not_active"),
        (Command::ForceComplete(force), "force_complete waiting → completed: because ok"),
        (fail(id), "force_fail  execution_terminal"),
        (Command::Replay(replay(id)), "replay completed → waiting: again ok"),
        (fail(id), "force_fail waiting → failed: because ok"),
        (Command::Replay(replay(id)), "replay failed → waiting: again ok"),
        (Command::Cancel(cancel(id)), "cancel waiting → cancelled: no longer needed ok"),
        (Command::Purge(Purge { id, reason: "".into() }), "purge cancelled → absent ok"),
        (Command::Purge(Purge { id, reason: "".into() }), "purge  execution_not_found"),
    ];
    for (number, (command, expected)) in (1..).zip(acts) {
        // Refusals leave one as well.
        let _ = world.call(&by(operator(), command));
        let log = world.audit(PARTITION);
        assert_eq!((log.len(), line(&log[log.len() - 1].body.act).as_str()), (number, expected));
        assert!(!format!("{log:?}").contains("secret"), "{expected}");
    }
}

#[test]
fn sec_12_each_verb_of_an_administrator_leaves_exactly_one_entry_where_keys_are() {
    let mut world = World::new();
    let id = "ops00001".parse().unwrap();
    let change = ChangeKey { scopes: Some(Scopes::WORK), ..ChangeKey::new(id) };
    let made = "name=ops scopes=submit,work namespaces=shop";
    let changed = "name=ops scopes=work namespaces=shop";
    let acts = [
        (create_key("ops00001", "ops"), format!("create_key absent → {made} ok")),
        (create_key("other001", "ops"), "create_key  name_taken".to_owned()),
        (Command::ChangeKey(Box::new(change)), format!("change_key {made} → {changed} ok")),
        (rotate_key("ops00001", None), format!("rotate_key {changed} → {changed} rotated_at=9 ok")),
        (Command::RevokeKey(RevokeKey { id }), format!("revoke_key {changed} rotated_at=9 → absent ok")),
        (Command::RevokeKey(RevokeKey { id }), "revoke_key  key_not_found".to_owned()),
    ];
    world.at(9);
    for (number, (command, expected)) in (1..).zip(acts) {
        let _ = world.call(&by(Principal::new("", "root", Scopes::ADMIN), command));
        let log = world.audit(HOME);
        assert_eq!((log.len(), line(&log[log.len() - 1].body.act)), (number, expected));
    }
}

#[test]
fn api_28_what_an_owner_does_by_submit_is_no_act_of_an_operator() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let owner = || Principal::new("shop", "ann", Scopes::SUBMIT.with(Scopes::OPERATE));
    world.call(&by(owner(), Command::ChangePriority(ChangePriority { id, priority: 7, reason: "".into() }))).unwrap();
    world.call(&by(owner(), Command::Cancel(cancel(id)))).unwrap();
    world.call(&by(owner(), Command::Replay(replay(id)))).unwrap();
    assert_eq!(world.audit(PARTITION), []);
    world.call(&by(owner(), hold(id))).unwrap();
    assert_eq!(world.audit(PARTITION).len(), 1);
}

#[test]
fn sec_11_who_may_not_operate_at_all_cannot_fill_the_log() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let refused = world.call(&by(Principal::new("shop", "ann", Scopes::SUBMIT), hold(id)));
    assert_eq!(refused.unwrap_err().code(), "forbidden");
    assert_eq!(world.audit(PARTITION), []);
}

#[test]
fn sec_12_a_repeat_is_not_an_act() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let held = Call { request_id: Some("same".into()), ..by(operator(), hold(id)) };
    for _ in 0..3 {
        world.call(&held).unwrap();
    }
    assert_eq!(world.audit(PARTITION).len(), 1);
}

#[test]
fn sec_12_an_operator_of_another_namespace_is_told_nothing_and_leaves_an_entry() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let refused = world.call(&by(Principal { namespace: "other".into(), ..operator() }, hold(id)));
    assert_eq!(refused.unwrap_err().code(), "execution_not_found");
    assert_eq!(line(&last(&world)), "hold  execution_not_found");
    assert_eq!(&*last(&world).namespace, "other");
}

#[test]
fn api_28_a_call_that_never_became_a_command_can_be_told() {
    let mut world = World::new();
    let note = NoteRefusal {
        partition: PARTITION,
        principal: "ann".into(),
        namespace: "".into(),
        origin: operator().origin,
        verb: "create_key".into(),
        target: "é".repeat(AUDIT_TEXT_MAX).into(),
        code: "forbidden".into(),
        times: 1,
        other_targets: false,
    };
    world.call(&by(Principal::engine(), Command::NoteRefusal(note.clone()))).unwrap();
    let act = last(&world);
    assert_eq!((&*act.principal, &*act.key, &*act.address), ("ann", "ops00001", "10.0.0.7"));
    assert_eq!((line(&act).as_str(), act.target.len()), ("create_key  forbidden", AUDIT_TEXT_MAX));
    for (times, other_targets, change) in [(7, false, "7 times"), (8, true, "8 times, of several targets")] {
        let note = NoteRefusal { times, other_targets, ..note.clone() };
        world.call(&by(Principal::engine(), Command::NoteRefusal(note))).unwrap();
        assert_eq!(&*last(&world).change, change);
    }
    let refused = world.call(&by(operator(), Command::NoteRefusal(note)));
    assert_eq!(refused.unwrap_err().code(), "forbidden", "the log is not written by callers");
}

#[test]
fn sec_12_an_entry_is_kept_for_a_year_and_the_log_goes_on() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    world.call(&by(operator(), hold(id))).unwrap();
    let first = world.audit(PARTITION).remove(0);
    world.at(AUDIT_KEPT_MS - 1);
    assert_eq!(world.scan(), []);
    world.call(&by(operator(), Command::Release(Release { id, reason: "".into() }))).unwrap();
    world.at(AUDIT_KEPT_MS);
    assert!(world.scan().iter().any(|(timer, key, _)| (*timer, *key) == (Timer::Retention, first.key())));
    let log = world.audit(PARTITION);
    assert_eq!((log.len(), log[0].number), (1, 2));
    assert!(log[0].may_be_first(world.now, AUDIT_KEPT_MS), "the one before was kept for a year");
}
