//! Commands that talk to a server, against a real one: a person at a terminal, and programs that read what is printed.

mod batch;
mod codes;
mod examples;
mod many;
mod names;
mod person;
mod shapes;
mod top;

use crate::dev::Dev;
use crate::http::Caller;
use crate::process::{command, stdout, text};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// A server in memory, and the binary that talks to it.
pub struct Server {
    dev: Dev,
}

impl Server {
    pub fn start() -> Self {
        Self { dev: Dev::in_memory() }
    }

    pub fn url(&self) -> &str {
        &self.dev.url
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut weft = command(args);
        weft.env("WEFT_URL", &self.dev.url);
        for name in ["WEFT_KEY", "WEFT_KEY_FILE", "WEFT_NAMESPACE", "NO_COLOR"] {
            weft.env_remove(name);
        }
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
        self.dev.caller()
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
