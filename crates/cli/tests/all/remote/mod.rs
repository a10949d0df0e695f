//! Commands that talk to a server, against a real one: a person at a terminal, and programs that read what is printed.

mod batch;
mod codes;
pub mod examples;
pub mod flows;
mod keys;
mod many;
mod names;
mod parked;
mod person;
mod shapes;
mod top;
mod waiting;

use crate::dev::Dev;
use crate::http::Caller;
use crate::process::{Running, command, stdout, text};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A server, and the binary that talks to it.
pub struct Server {
    url: String,
    /// What commands show, where a key is asked for
    key: Option<String>,
    _running: Running,
    _folder: Option<TempDir>,
}

impl Server {
    /// In memory, for everybody.
    pub fn start() -> Self {
        let Dev { running, url } = Dev::in_memory();
        Self { url, key: None, _running: running, _folder: None }
    }

    /// One that asks for keys; commands show the first one.
    pub fn with_keys() -> Self {
        Self::with_keys_after(|_| {})
    }

    /// A server that requires keys, started after `prepare` has put something into its folder.
    pub fn with_keys_after(prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--name", "web-2"]);
        serve.current_dir(folder.path());
        let running = Running::err_of(serve);
        let line = running.wait_for("where it listens", |line| line.contains(" serves http"));
        let url = line.split_whitespace().last().unwrap().to_owned();
        let key = std::fs::read_to_string(folder.path().join("weft-data/bootstrap.key")).unwrap().trim().to_owned();
        Self { url, key: Some(key), _running: running, _folder: Some(folder) }
    }

    /// Lets a command talk to this server and to no other.
    pub fn point(&self, weft: &mut Command) {
        for name in ["WEFT_KEY", "WEFT_KEY_FILE", "WEFT_NAMESPACE", "NO_COLOR"] {
            weft.env_remove(name);
        }
        weft.env("WEFT_URL", &self.url);
        if let Some(key) = &self.key {
            // The first key is good everywhere, so that calls have to say where.
            weft.env("WEFT_KEY", key).env("WEFT_NAMESPACE", "default");
        }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut weft = command(args);
        self.point(&mut weft);
        weft
    }

    pub fn weft(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a run prints that must go well.
    pub fn out(&self, args: &[&str]) -> String {
        stdout(&self.weft(args))
    }

    /// The one object of a run with `--json`.
    pub fn json(&self, args: &[&str]) -> Value {
        let printed = self.out(&[args, &["--json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{args:?}: {error}: {printed}"))
    }

    /// A run that must end with this code; what it says.
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.weft(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stderr)
    }

    /// Submits, and answers the id.
    pub fn submit(&self, args: &[&str]) -> String {
        self.out(&[&["submit", "--quiet"], args].concat()).trim().to_owned()
    }

    pub fn state(&self, id: &str) -> String {
        self.json(&["get", id])["public_state"].as_str().unwrap().to_owned()
    }

    pub fn caller(&self) -> Caller {
        Caller::new(&self.url, self.key.as_deref())
    }

    /// Claims one execution of a lane, as a worker does.
    pub fn claim(&self, lane: &str) -> Value {
        let claim = json!({"worker": "mailer", "instance": "mailer-3@host", "lanes": [{"lane": lane}], "wait_ms": 60_000, "max": 1});
        let claimed = self.caller().ok("POST", "/v1/work/claim", Some(&claim));
        let task = &claimed["executions"][0];
        json!({"execution": task["execution"], "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"]})
    }

    /// Claims one execution of a lane and ends it with `more` in a call to `verb`.
    pub fn settle(&self, lane: &str, verb: &str, more: Value) {
        let mut item = self.claim(lane);
        for (name, value) in more.as_object().unwrap() {
            item[name] = value.clone();
        }
        let done = self.caller().ok("POST", &format!("/v1/work/{verb}"), Some(&json!({"items": [item]})));
        assert!(done["results"][0].get("error").is_none(), "{done}");
    }

    pub fn complete(&self, lane: &str, result: Value) {
        self.settle(lane, "complete", json!({"result": {"json": result}}));
    }

    /// Without a retry.
    pub fn fail(&self, lane: &str, message: &str) {
        self.settle(lane, "fail", json!({"category": "smtp", "message": message, "retry": "never"}));
    }
}

/// The short form that people copy.
pub fn short(id: &str) -> String {
    format!("…{}", &id[id.len() - 6..])
}
