//! A server for one person: where it says it is, and that it asks for nothing.

use crate::http::Caller;
use crate::process::{Running, command, text};
use serde_json::{Value, json};
use std::path::Path;

/// A server without keys, and where it is.
pub struct Dev {
    pub running: Running,
    pub url: String,
}

impl Dev {
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        let all = [&["dev", "--port", "0", "--json"], args].concat();
        let mut dev = command(&all);
        dev.current_dir(folder).env("WEFT_LOG", "warn");
        let running = Running::out_of(dev);
        let ready: Value = serde_json::from_str(&running.wait_for("that it is ready", |_| true)).unwrap();
        Self { running, url: ready["url"].as_str().unwrap().to_owned() }
    }

    /// With everything in memory.
    pub fn in_memory() -> Self {
        Self::start(&std::env::temp_dir(), &["--memory"])
    }

    pub fn caller(&self) -> Caller {
        Caller::new(&self.url, None)
    }
}

#[test]
fn api_26_dev_needs_no_key_says_where_it_is_and_keeps_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &[]);
    let caller = dev.caller();
    let id = caller.submit(&json!({"kind": "hello"}));
    caller.work("w-1", "done");
    assert_eq!(caller.ended(&id)["result"]["text"], "done");
    for path in ["/docs", "/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(caller.call("GET", path, None).status, 200, "{path}");
    }
    dev.running.signal("-INT");
    assert_eq!(dev.running.exit_code(), Some(0));

    let again = Dev::start(folder.path(), &[]);
    assert_eq!(again.caller().get(&id)["kind"], "hello");
    assert!(folder.path().join("weft-data/weft.db").exists());
}

#[test]
fn dev_in_memory_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &["--memory"]);
    dev.caller().submit(&json!({"kind": "hello"}));
    dev.running.signal("-TERM");
    assert_eq!(dev.running.exit_code(), Some(0));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn dev_prints_commands_that_can_be_copied_and_takes_no_store_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = command(&["dev", "--port", "0", "--memory"]);
    dev.current_dir(folder.path()).env("WEFT_STORE", "postgres://127.0.0.1:1/none").env("WEFT_LISTEN", "0.0.0.0:1");
    let running = Running::err_of(dev);
    let line = running.wait_for("where it is", |line| line.contains(" serves http://127.0.0.1:"));
    let url = line.split_whitespace().last().unwrap().to_owned();
    running.wait_for("a command", |line| line.contains(&format!("weft submit --url {url} hello")));
    let line = running.wait_for("what it does not use", |line| line.starts_with("not used: "));
    assert!(line.starts_with("not used: WEFT_STORE, WEFT_LISTEN; "), "{line}");
}

#[test]
fn dev_makes_nothing_where_it_cannot_run() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(&["dev", "--port", &port]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("hint: `--port 0`"), "{}", text(&output.stderr));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "no folder is made");

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = command(&["dev", "--port", "0", "--data-dir", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it is a file"), "{}", text(&output.stderr));
}

#[test]
fn a_setting_of_dev_that_is_wrong_is_told() {
    let output = command(&["dev", "--memory"]).env("WEFT_LOG", "loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("`log.level` is `loud`"), "{}", text(&output.stderr));
}
