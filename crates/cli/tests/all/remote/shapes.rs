//! What programs read: one object, one line each, or ids.

use super::Server;
use crate::process::text;
use serde_json::{Value, json};

#[test]
fn json_is_one_object_with_the_names_of_the_api() {
    let server = Server::start();
    let submitted = server.json(&["submit", "a", "--lane", "mail", "--idempotency-key", "k"]);
    assert_eq!((&submitted["public_state"], &submitted["duplicate"]), (&json!("waiting"), &json!(false)));
    let again = server.json(&["submit", "a", "--lane", "mail", "--idempotency-key", "k"]);
    assert_eq!((&again["id"], &again["duplicate"]), (&submitted["id"], &json!(true)));
    let id = submitted["id"].as_str().unwrap();
    assert_eq!(server.json(&["get", id])["lane"], "mail");
    assert_eq!(server.json(&["list"])["items"][0]["id"], id);
    assert_eq!(server.json(&["count"])["total"], 1);
    assert_eq!(
        server.json(&["count", "--by", "lane,state"])["groups"][0],
        json!({"lane": "mail", "state": "waiting", "count": 1})
    );
    let line = server.out(&["count", "--by", "lane", "--jsonl"]);
    assert_eq!(line, "{\"lane\":\"mail\",\"count\":1}\n", "a line per group");
    assert_eq!(server.json(&["explain", id])["running"], false);
    assert_eq!(server.json(&["history", id])["items"][0]["what"], "submitted");
    assert_eq!(server.json(&["hold", id])["results"][0], json!({"id": id, "ok": {"changed": true}}));
    assert_eq!(server.json(&["cancel", id])["results"][0]["ok"], json!({"outcome": "done", "already": false}));
    let ended = server.weft(&["wait", id, "--json"]);
    assert_eq!(ended.status.code(), Some(5));
    assert_eq!(serde_json::from_slice::<Value>(&ended.stdout).unwrap()["public_state"], "cancelled");
}

#[test]
fn lines_and_ids_are_for_pipes() {
    let server = Server::start();
    let ids: Vec<String> = (0..3).map(|_| server.submit(&["a"])).collect();
    let mut newest_first = ids.clone();
    newest_first.reverse();
    assert_eq!(server.out(&["list", "--quiet"]).lines().collect::<Vec<_>>(), newest_first);
    assert_eq!(server.out(&["list", "-q", "--oldest-first"]).lines().collect::<Vec<_>>(), ids);
    let lines = server.out(&["list", "--jsonl"]);
    let listed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed.iter().map(|item| item["id"].as_str().unwrap()).collect::<Vec<_>>(), newest_first);
    let some = server.weft(&["list", "--limit", "2"]);
    assert_eq!(text(&some.stderr), "there are more; `--limit` or `--all` shows them\n");
    assert_eq!(text(&some.stdout).lines().count(), 3, "the heading, and two");
    for enough in [&["list", "--limit", "3"][..], &["list", "--all"], &["list", "--limit", "2", "--quiet"]] {
        assert_eq!(text(&server.weft(enough).stderr), "", "{enough:?}");
    }
    assert_eq!(server.out(&["list", "-q", "--all"]).lines().count(), 3);
}

#[test]
fn options_may_stand_before_the_command() {
    let server = Server::start();
    let id = server.submit(&["a"]);
    let output = server.weft(&["--json", "get", &id]);
    assert!(text(&output.stdout).starts_with('{'), "{}", text(&output.stdout));
    let elsewhere = server.weft(&["--url", "http://127.0.0.1:1", "--timeout", "1s", "list"]);
    assert_eq!(elsewhere.status.code(), Some(3), "a flag wins over the variable");
}

#[test]
fn no_colours_go_into_a_pipe() {
    let server = Server::start();
    let id = server.submit(&["a", "--lane", "mail"]);
    server.fail("mail", "\u{1b}[31mred");
    for args in
        [&["list"][..], &["get", &id, "--attempts"], &["count", "--by", "state"], &["history", &id], &["get", "nope"]]
    {
        let output = server.weft(args);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(!all.contains('\x1b'), "{args:?}: {all:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"a\"}\n".repeat(1_000)).unwrap();
    server.out(&["submit", "--batch", file.path().to_str().unwrap(), "-q"]);
    let mut list = server.command(&["list", "--all", "--jsonl"]);
    let mut child = list.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn the_document_and_completions_need_no_server() {
    let document: Value = serde_json::from_slice(&crate::process::weft(&["openapi"]).stdout).unwrap();
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = crate::process::stdout(&crate::process::weft(&["completion", shell]));
        assert!(script.contains("force-complete") && script.contains("idempotency-key"), "{shell}");
    }
}

#[test]
fn json_is_one_object_also_for_several_workers_and_keys() {
    let server = Server::with_keys();
    for instance in ["w-1", "w-2"] {
        let worker = json!({"worker": "w", "instance": instance, "boot_id": "1", "lanes": ["mail"]});
        server.caller().ok("POST", "/v1/workers", Some(&worker));
        server.out(&["key", "create", "--name", instance, "--scope", "submit"]);
    }
    let dead = server.json(&["mark-dead", "w-1", "w-2", "--yes"]);
    assert_eq!(dead, json!({"results": [{"id": "w-1", "ok": {"leases": 0}}, {"id": "w-2", "ok": {"leases": 0}}]}));
    let revoked = server.json(&["key", "revoke", "w-1", "w-2", "--yes"]);
    let told: Vec<&Value> = revoked["results"].as_array().unwrap().iter().map(|one| &one["ok"]["revoked"]).collect();
    assert_eq!(told, [&json!(true), &json!(true)], "{revoked}");

    // One that is refused keeps nobody from the others, and is told.
    let some = server.weft(&["mark-dead", "w-3", "w-2", "--yes", "--json"]);
    assert_eq!(some.status.code(), Some(1), "{}", text(&some.stderr));
    let some: Value = serde_json::from_slice(&some.stdout).unwrap();
    assert_eq!(some["results"][0]["error"]["code"], "worker_not_found", "{some}");
    assert_eq!(some["results"][1]["id"], "w-2", "{some}");
    assert!(server.fails(2, &["get", "3c9e01", "--watch", "--json"]).contains("`--jsonl`"));
}
