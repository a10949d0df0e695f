//! What `weft doctor` says of a server, of a store and of a configuration.

use crate::process::{command, stdout, text, weft};
use crate::serve::Server;
use serde_json::{Value, json};
use std::path::Path;

/// The finding about a subject.
fn finding<'a>(report: &'a Value, subject: &str) -> &'a Value {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|found| found["subject"] == subject).unwrap_or_else(|| panic!("no {subject} in {report}"))
}

fn doctor(folder: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let all = [&["doctor", "--json"], args].concat();
    let output = command(&all).current_dir(folder).env_remove("WEFT_STORE").output().unwrap();
    let report = serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    (output.status.code(), report)
}

#[test]
fn api_25_doctor_reminds_of_the_bootstrap_key_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let (url, first) = (server.url.as_str(), server.key.clone().unwrap());

    let (code, report) = doctor(folder.path(), &["--url", url, "--key", &first]);
    assert_eq!((code, report["problems"].as_u64()), (Some(0), Some(0)), "{report}");
    assert_eq!(finding(&report, "keys")["severity"], "warning");
    assert_eq!(finding(&report, "durability")["severity"], "ok");
    let advice = finding(&report, "keys")["advice"].as_str().unwrap().to_owned();

    // The advice is taken as it stands, and then there is nothing to remind of.
    let mut other = None;
    for line in advice.split(" && ") {
        let args: Vec<&str> = line.split(' ').skip(1).chain(["--json", "--url", url, "--key"]).collect();
        let key = other.clone().unwrap_or_else(|| first.clone());
        let said: Value = serde_json::from_str(&stdout(&weft(&[&args[..], &[key.as_str()]].concat()))).unwrap();
        other = other.or_else(|| said["secret"].as_str().map(str::to_owned));
    }
    let (code, report) = doctor(folder.path(), &["--url", url, "--key", &other.expect("a key was made")]);
    assert_eq!((code, report["warnings"].as_u64()), (Some(0), Some(0)), "{report}");

    let refused = weft(&["doctor", "--url", url, "--key", &first]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    let url = url.to_owned();
    assert_eq!(server.interrupt(), Some(0));
    let away = weft(&["doctor", "--url", &url, "--key", &first, "--timeout", "1s"]);
    assert_eq!(away.status.code(), Some(3), "{}", text(&away.stderr));
}

#[test]
fn doctor_and_nodes_ask_the_server_that_has_the_store_open() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let (url, key) = (server.url.as_str(), server.key.clone().unwrap());
    let asked = |args: &[&str]| {
        let mut weft = command(&[args, &["--json"]].concat());
        let output = weft.current_dir(folder.path()).env("WEFT_URL", url).env("WEFT_KEY", &key).output().unwrap();
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let report = asked(&["doctor"]);
    assert_eq!(report["store"], url, "{report}");
    let nodes = asked(&["nodes"]);
    assert_eq!(nodes["items"].as_array().unwrap().len(), 1, "{nodes}");
    let node = &nodes["items"][0];
    assert_eq!((&node["state"], &node["live"], &node["partitions"]), (&json!("live"), &json!(true), &json!([0])));
    assert!(node["id"].as_str().unwrap().starts_with("n_") && node["lag_ms"].is_u64(), "{nodes}");

    let report = asked(&["doctor", "--deep"]);
    let skipped = finding(&report, "invariants");
    assert_eq!(skipped["severity"], "warning", "{report}");
    assert!(skipped["found"].as_str().unwrap().starts_with("not looked at: somebody has the file open"), "{skipped}");
    let refused = command(&["nodes"]).current_dir(folder.path()).env_remove("WEFT_URL").output().unwrap();
    assert!(text(&refused.stderr).contains("hint: ask the server"), "{}", text(&refused.stderr));
}

#[test]
fn ops_31_doctor_asks_a_server_what_is_parked_refused_and_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let (url, key) = (server.url.as_str(), server.key.clone().unwrap());
    let (code, report) = doctor(folder.path(), &["--url", url, "--key", &key]);
    assert_eq!(code, Some(0), "{report}");
    for (subject, found) in [
        ("readiness", "takes work"),
        ("parked items", "none"),
        ("invariants", "none was about to be broken since the node began"),
        ("lost writes", "none was noticed since the node began"),
    ] {
        assert_eq!(
            (&finding(&report, subject)["severity"], &finding(&report, subject)["found"]),
            (&json!("ok"), &json!(found))
        );
    }

    // A key that may not see it is told nothing of it, which is no finding about the server.
    let create = ["key", "create", "--name", "ci", "--scope", "submit", "--namespace", "default"];
    let made = weft(&[&create[..], &["--url", url, "--key", &key]].concat());
    let (code, report) = doctor(folder.path(), &["--url", url, "--key", stdout(&made).trim()]);
    assert_eq!(code, Some(0), "{report}");
    let subjects: Vec<&Value> = report["findings"].as_array().unwrap().iter().map(|one| &one["subject"]).collect();
    assert!(subjects.contains(&&json!("readiness")) && !subjects.contains(&&json!("parked items")), "{report}");
}

#[test]
fn doctor_of_a_server_reads_no_store_and_reports_a_misspelt_variable() {
    for args in [&["--url", "http://127.0.0.1:1", "doctor", "--deep"][..], &["doctor", "--deep", "--url", "http://a"]] {
        let refused = weft(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("--deep"), "{}", text(&refused.stderr));
    }
    let dev = crate::dev::Dev::in_memory();
    let output = command(&["doctor", "--json", "--url", &dev.url]).env(concat!("WEFT", "_KYE"), "x").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{report}");
    let misspelt = finding(&report, "configuration");
    assert!(misspelt["found"].as_str().unwrap().contains("`WEFT_KEY`"), "{report}");
    assert_eq!(misspelt["severity"], "warning");
    assert_eq!(finding(&report, "readiness")["severity"], "ok");
}

#[test]
fn doctor_looks_at_every_execution_and_at_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let caller = server.caller(server.key.as_deref().unwrap());
    for _ in 0..3 {
        caller.submit(&json!({"kind": "k"}));
    }
    assert_eq!(server.interrupt(), Some(0));

    let (code, report) = doctor(folder.path(), &["--deep"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(finding(&report, "invariants")["found"], "hold for 3 executions");

    std::fs::write(folder.path().join("weft.toml"), "[server]\nlisen = \"127.0.0.1:7700\"\n").unwrap();
    let (code, report) = doctor(folder.path(), &[]);
    assert_eq!(code, Some(1), "{report}");
    let found = finding(&report, "configuration");
    assert_eq!(found["severity"], "problem");
    assert!(found["found"].as_str().unwrap().contains("`server.listen`"), "{found}");
}
