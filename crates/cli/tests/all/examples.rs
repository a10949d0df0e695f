//! Every example, run as its first lines say.

use crate::dev::Dev;
use crate::http::Caller;
use crate::process::{PATIENCE, Running, command, stdout, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put an example: beside the binary.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_weft")).with_file_name("examples").join(name)
}

fn worker(dev: &Dev, name: &str) -> Running {
    let mut worker = Command::new(example(name));
    worker.env("WEFT_URL", &dev.url);
    Running::out_of(worker)
}

fn weft(dev: &Dev, args: &[&str]) -> std::process::Output {
    command(args).env("WEFT_URL", &dev.url).output().unwrap()
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

#[test]
fn hello_greets() {
    let dev = Dev::in_memory();
    let worker = worker(&dev, "hello");
    let submitted = stdout(&weft(&dev, &["submit", "greet", "--input", r#""Ada""#, "--wait", "--quiet"]));
    let id = submitted.split_whitespace().next().unwrap();
    assert_eq!(stdout(&weft(&dev, &["result", id])).trim(), r#""Hello, Ada!""#);
    worker.signal("-INT");
    assert_eq!(worker.exit_code(), Some(0));
}

#[test]
fn retries_pays_once_after_two_broken_lines_and_gives_up_at_once_on_nothing() {
    let dev = Dev::in_memory();
    let _worker = worker(&dev, "retries");
    let paid = json(&weft(&dev, &["submit", "charge", "--input", r#"{"cents": 500}"#, "--wait", "--json"]));
    let id = paid["id"].as_str().unwrap();
    let receipt: Value = serde_json::from_str(&stdout(&weft(&dev, &["result", id]))).unwrap();
    assert_eq!((&receipt["reservation"], &receipt["attempt"]), (&json!(1), &json!(2)), "{receipt}");
    let failed = weft(&dev, &["submit", "charge", "--input", r#"{"cents": 0}"#, "--wait"]);
    assert_eq!(failed.status.code(), Some(5));
    let told = format!("{}{}", text(&failed.stdout), text(&failed.stderr));
    assert!(told.contains("there is nothing to charge"), "{told}");
}

/// Runs an example that ends by itself; what it prints.
fn printed(dev: &Dev, name: &str) -> String {
    stdout(&Command::new(example(name)).env("WEFT_URL", &dev.url).output().unwrap())
}

#[test]
fn flows_fan_out_race_vote_and_go_on_after_a_failure() {
    let dev = Dev::in_memory();
    let counted = printed(&dev, "map_reduce");
    assert!(counted.starts_with("14 words, counted by f_"), "{counted}");
    let race = printed(&dev, "race");
    assert!(race.starts_with("near was first\n2 were stopped in f_"), "{race}");
    let vote = printed(&dev, "vote");
    assert!(vote.starts_with("accepted by 2: yes; yes, with a remark"), "{vote}");
    let pipeline = printed(&dev, "pipeline");
    assert!(pipeline.starts_with("4 completed, 1 failed, 1 skipped"), "{pipeline}");
    assert!(pipeline.contains("check: the picture is too large"), "{pipeline}");
    let id = pipeline.rsplit(' ').next().unwrap().trim().trim_matches('`');
    let tree = stdout(&weft(&dev, &["flow", "graph", id]));
    assert!(tree.contains("publish") && tree.contains("skipped"), "{tree}");
}

#[test]
fn any_program_is_a_worker() {
    let dev = Dev::in_memory();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shell/wordcount.sh");
    let mut worker = command(&["worker", "--kind", "wordcount", "--exec"]);
    worker.arg(script).env("WEFT_URL", &dev.url);
    let _worker = Running::out_of(worker);
    let count = |input: &str| {
        weft(&dev, &["submit", "wordcount", "--type", "text/plain", "--input", input, "--wait", "--json"])
    };
    let counted = json(&count("one two three"));
    assert_eq!(stdout(&weft(&dev, &["result", counted["id"].as_str().unwrap()])).trim(), r#"{"words": 3}"#);
    assert_eq!(count("").status.code(), Some(5));
}

#[test]
fn an_application_that_embeds_the_engine_packs_an_order_once() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut app = Command::new(example("embed"));
        app.arg("127.0.0.1:0").arg(folder.path().join("orders.db"));
        let app = Running::out_of(app);
        let line = app.wait_for("where it listens", |line| line.contains("http://"));
        let url = line[line.find("http://").unwrap()..].trim().to_owned();
        (app, Caller::new(&url, None))
    };
    let (app, caller) = start();
    let order = json!({"number": 17, "items": 3});
    let take = |caller: &Caller| String::from_utf8(caller.call("POST", "/orders", Some(&order)).bytes).unwrap();
    let id = take(&caller);
    assert_eq!(take(&caller), id, "the same order is the same execution");
    let deadline = std::time::Instant::now() + PATIENCE;
    while caller.ok("GET", &format!("/orders/{id}"), None)["public_state"] != "completed" {
        assert!(std::time::Instant::now() < deadline, "the order was not packed");
    }
    app.kill();
    let (app, caller) = start();
    assert_eq!(caller.ok("GET", &format!("/orders/{id}"), None)["steps"], 3);
    app.signal("-INT");
    assert_eq!(app.exit_code(), Some(0));
}
