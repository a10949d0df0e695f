//! What a person does: submits, looks, watches, cancels, tries again.

use super::{Server, short};
use crate::process::Running;
use serde_json::json;

#[test]
fn a_person_submits_watches_and_cancels() {
    let server = Server::start();
    let line = server.out(&[
        "submit",
        "invoice.send",
        "--input",
        "{\"order\":17}",
        "--lane",
        "mail",
        "--tag",
        "customer=acme",
    ]);
    let (id, state) = line.trim().split_once("  ").unwrap();
    assert_eq!(state, "waiting");

    let card = server.out(&["get", &short(id), "--input"]);
    let mut lines = card.lines();
    assert_eq!(lines.next().unwrap(), format!("{id}   invoice.send   mail   default"));
    for part in [
        "state     waiting\n",
        "times     submitted ",
        "tags      customer=acme\n",
        "input     {\"order\":17}\n",
        "next      weft explain …",
    ] {
        assert!(card.contains(part), "{part:?} is missing in\n{card}");
    }
    assert!(server.out(&["explain", id]).starts_with("waiting: "));

    let watching = Running::out_of(server.command(&["get", id, "--watch"]));
    watching.wait_for("the state", |line| line == "state     waiting");
    assert_eq!(server.out(&["cancel", &short(id), "--reason", "customer left"]), format!("{id}  cancelled\n"));
    watching
        .wait_for("the end", |line| line.starts_with("state     cancelled in ") && line.ends_with(" by dev (client)"));
    assert_eq!(watching.exit_code(), Some(5));

    let told = server.fails(1, &["hold", id]);
    assert!(told.starts_with("error[execution_terminal]: cannot hold: "), "{told}");
    let card = server.out(&["get", id]);
    assert!(card.contains("cancel    asked for ") && card.contains(" by dev: customer left\n"), "{card}");
    let history = server.out(&["history", id]);
    assert!(history.contains("submitted") && history.contains("customer left"), "{history}");
}

#[test]
fn a_result_comes_as_its_worker_gave_it() {
    let server = Server::start();
    let id = server.submit(&["report", "--lane", "r"]);
    let told = server.fails(1, &["result", &id]);
    assert!(told.contains("error[execution_not_terminal]") && told.contains("--wait"), "{told}");
    let waiting = Running::out_of(server.command(&["wait", &id]));
    server.complete("r", json!({"pages": 3}));
    waiting.wait_for("its end", |line| line.starts_with(&format!("{id}  completed after 1 attempt in ")));
    assert_eq!(waiting.exit_code(), Some(0));
    assert_eq!(server.out(&["result", &id]), "{\"pages\":3}");
    assert!(server.out(&["get", &id, "--result", "--attempts"]).contains("result    {\"pages\":3}"));
    assert_eq!(server.json(&["result", &id]), json!({"json": {"pages": 3}}));
}

#[test]
fn what_failed_is_shown_with_its_attempts_and_runs_again() {
    let server = Server::start();
    let id = server.submit(&["invoice.send", "--lane", "mail"]);
    server.fail("mail", "550 no such user");
    let card = server.out(&["get", &id, "--attempts"]);
    assert!(
        card.contains("state     failed after 1 attempt in ") && card.contains("smtp \"550 no such user\""),
        "{card}"
    );
    let heading = card.lines().find(|line| line.starts_with("ATT")).unwrap();
    assert!(["WHY", "STATE", "WORKER", "NOTE"].iter().all(|title| heading.contains(title)), "{heading}");
    assert!(card.contains("mailer-3@host"), "{card}");
    let list = server.out(&["list", "--state", "failed"]);
    assert!(list.contains(&short(&id)) && list.contains("smtp \"550 no such user\""), "{list}");

    let replayed = server.out(&["replay", &id]);
    assert!(replayed.starts_with(&format!("{id}  waiting, replay 1")), "{replayed}");
    assert!(server.out(&["get", &id]).contains(", replay 1\n"));
    server.complete("mail", json!(1));
    assert_eq!(server.state(&id), "completed");
}

#[test]
fn an_operator_holds_releases_and_changes() {
    let server = Server::start();
    let id = server.submit(&["a", "--delay", "1h"]);
    assert_eq!(server.state(&id), "delayed");
    assert!(server.out(&["reschedule", &id, "--now"]).starts_with(&format!("{id}  starts now")));
    assert_eq!(server.out(&["hold", &id, "--reason", "bank is down"]), format!("{id}  held\n"));
    let card = server.out(&["get", &id]);
    assert!(card.contains("holds     ") && card.contains("bank is down") && card.contains("weft release"), "{card}");
    assert!(server.out(&["release", &id]).starts_with(&format!("{id}  released, ")));
    assert_eq!(server.out(&["priority", &id, "--to", "500"]), format!("{id}  priority 500, was 0\n"));
    assert!(server.out(&["get", &id]).contains("priority  500\n"));
    assert_eq!(server.out(&["tag", &id, "--set", "a=1", "--set", "b=2"]), format!("{id}  a=1 b=2\n"));
    assert_eq!(server.out(&["tag", &id, "--set", "c=3", "--remove", "a"]), format!("{id}  b=2 c=3\n"));
    server.out(&["force-complete", &id, "--result", "{\"by\":\"hand\"}"]);
    assert_eq!(server.out(&["result", &id]), "{\"by\":\"hand\"}");
    let other = server.submit(&["b"]);
    server.out(&["force-fail", &other, "--message", "no such order"]);
    assert_eq!(server.state(&other), "failed");
}

#[test]
fn workers_are_listed_drained_and_marked_dead() {
    let server = Server::start();
    server.caller().ok(
        "POST",
        "/v1/workers",
        Some(&json!({"worker": "mailer", "instance": "mailer-3@host", "boot_id": "1", "lanes": ["mail"], "capacity": 16, "version": "1.4.0"})),
    );
    let id = server.submit(&["invoice.send", "--lane", "mail"]);
    server.claim("mail");
    let table = server.out(&["workers"]);
    assert!(table.starts_with("INSTANCE       POOL    STATE   LANES"), "{table}");
    assert!(table.contains("mailer-3@host  mailer  active  mail") && table.contains("1.4.0"), "{table}");
    let card = server.out(&["workers", "mailer-3@host"]);
    assert!(card.contains(&short(&id)), "{card}");
    assert_eq!(server.out(&["drain", "mailer-3@host", "--reason", "kernel"]), "mailer-3@host  draining\n");
    assert!(server.out(&["workers"]).contains("drain"), "it is told");
    assert_eq!(server.out(&["undrain", "mailer-3@host"]), "mailer-3@host  active\n");
    let dead = server.out(&["mark-dead", "mailer-3@host"]);
    assert!(dead.starts_with("mailer-3@host  dead; "), "{dead}");
    assert_eq!(server.state(&id), "waiting", "what it held is given to others");
    let told = server.fails(1, &["drain", "mailer-4@host"]);
    assert!(told.contains("worker_not_found") && told.contains("hint: `weft workers`"), "{told}");
    assert!(!told.contains("register"), "{told}");
}
