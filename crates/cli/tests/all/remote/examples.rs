//! The example of each command's help, run by a shell as a person would.

use super::Server;
use super::flows::{ETL_YAML, MORE_YAML, submit};
use super::parked::park;
use crate::process::{stdout, text, weft};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes what the example needs, and answers the execution it is about.
pub type Prepare = fn(&Server) -> String;

fn nothing(_: &Server) -> String {
    String::new()
}

/// Waits in a lane of its own, so that whoever claims from there gets this one.
fn waiting_in(server: &Server, lane: &str) -> String {
    server.submit(&["invoice.send", "--lane", lane])
}

fn waiting(server: &Server) -> String {
    waiting_in(server, "waiting")
}

fn active(server: &Server) -> String {
    let id = waiting_in(server, "active");
    server.claim("active");
    id
}

fn completed(server: &Server) -> String {
    let id = waiting_in(server, "completed");
    server.complete("completed", json!({"sent": true}));
    id
}

fn failed(server: &Server) -> String {
    let id = waiting_in(server, "failed");
    server.fail("failed", "421 try later");
    id
}

fn held(server: &Server) -> String {
    let id = waiting(server);
    server.out(&["hold", &id]);
    id
}

fn delayed(server: &Server) -> String {
    server.submit(&["invoice.send", "--delay", "1h"])
}

fn worker(server: &Server) -> String {
    let worker = json!({"worker": "mailer", "instance": "mailer-3@host", "boot_id": "1", "lanes": ["mail"]});
    server.caller().ok("POST", "/v1/workers", Some(&worker));
    String::new()
}

fn flow(server: &Server) -> String {
    submit(server, json!({"kind": "etl", "members": [{"key": "load", "kind": "load", "lane": "flows"}]}))
}

fn open_flow(server: &Server) -> String {
    let members = json!([{"key": "load", "kind": "load", "lane": "flows"}]);
    submit(server, json!({"kind": "etl", "seal": false, "members": members}))
}

fn declared_flow(server: &Server) -> String {
    let members = json!([{"key": "load", "kind": "load", "lane": "flows"}]);
    submit(server, json!({"kind": "etl", "completion_policy": {"kind": "declared"}, "members": members}))
}

fn completed_flow(server: &Server) -> String {
    let members = json!([{"key": "load", "kind": "load", "lane": "completed-flows"}]);
    let id = submit(server, json!({"kind": "etl", "members": members}));
    server.complete("completed-flows", json!(1));
    id
}

fn failed_flow(server: &Server) -> String {
    let members = json!([{"key": "load", "kind": "load", "lane": "failed-flows"}]);
    let id = submit(server, json!({"kind": "etl", "members": members}));
    server.fail("failed-flows", "421 try later");
    id
}

pub const EXAMPLES: &[(&str, Prepare)] = &[
    ("submit", nothing),
    ("get", waiting),
    ("list", nothing),
    ("count", nothing),
    ("explain", waiting),
    ("history", waiting),
    ("result", completed),
    ("wait", completed),
    ("cancel", waiting),
    ("replay", failed),
    ("hold", waiting),
    ("release", held),
    ("revoke", active),
    ("priority", waiting),
    ("reschedule", delayed),
    ("tag", waiting),
    ("force-complete", waiting),
    ("force-fail", waiting),
    ("purge", completed),
    ("flow submit", nothing),
    ("flow get", flow),
    ("flow list", flow),
    ("flow members", flow),
    ("flow graph", flow),
    ("flow watch", completed_flow),
    ("flow add", flow),
    ("flow cancel", flow),
    ("flow replay", failed_flow),
    ("flow seal", open_flow),
    ("flow finish", declared_flow),
    ("flow", nothing),
    ("top", nothing),
    ("workers", worker),
    ("drain", worker),
    ("undrain", worker),
    ("mark-dead", worker),
    ("scanners parked retry", nothing),
    ("scanners parked discard", nothing),
    ("scanners parked", nothing),
    ("scanners", nothing),
    ("key create", nothing),
    ("key list", nothing),
    ("key get", nothing),
    ("key change", nothing),
    ("key rotate", nothing),
    ("key revoke", nothing),
    ("audit list", nothing),
    ("audit verify", nothing),
    ("key", nothing),
    ("audit", nothing),
    ("completion", nothing),
    ("openapi", nothing),
    // The last: it stops the server.
    ("nodes drain", nothing),
];

#[test]
fn cli_4_the_help_of_each_command_of_a_server_begins_with_an_example_that_works() {
    // One that asks for keys: without, there are none to make.
    let server = Server::with_keys_after(|folder| park(folder, "d_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7"));
    let folder = Path::new(env!("CARGO_BIN_EXE_weft")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    // What examples read stands where they are run.
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("etl.yaml"), ETL_YAML).unwrap();
    std::fs::write(here.path().join("more.yaml"), MORE_YAML).unwrap();
    for (name, prepare) in EXAMPLES {
        let words: Vec<&str> = name.split(' ').chain(["--help"]).collect();
        let help = stdout(&weft(&words));
        let example =
            help.lines().next().unwrap().strip_prefix("example: ").unwrap_or_else(|| panic!("{name}: {help}"));
        assert!(example.starts_with(&format!("weft {name}")), "{example}");
        let id = prepare(&server);
        let line = match id.is_empty() {
            true => example.to_owned(),
            false => example.replace("3c9e01", &id[id.len() - 6..]),
        };
        let mut shell = Command::new("sh");
        server.point(&mut shell);
        shell.args(["-c", &line]).env("PATH", &path).current_dir(here.path());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }
}
