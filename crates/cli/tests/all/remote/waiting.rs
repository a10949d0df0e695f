//! Waiting: what is told at once, what an interrupt leaves, and a server that goes away meanwhile.

use super::{Server, short};
use crate::dev::Dev;
use crate::process::{Running, command, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// The id on a line of a submission that is waited for.
fn told_id(submitted: &Running) -> String {
    let line = submitted.wait_for("its id", |line| line.starts_with("x_"));
    line.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_submission_that_is_waited_for_tells_its_id_at_once_and_goes_on_after_an_interrupt() {
    let server = Server::start();
    let submitted = Running::err_of(server.command(&["submit", "a", "--wait"]));
    let id = told_id(&submitted);
    submitted.signal("-INT");
    let told = submitted.wait_for("that it goes on", |line| line.contains("goes on"));
    assert!(told.contains(&id) && told.contains(&format!("weft get {} --watch", short(&id))), "{told}");
    assert_eq!(submitted.exit_code(), Some(130));
    assert_eq!(server.state(&id), "waiting");

    let quiet = Running::out_of(server.command(&["submit", "a", "--wait", "--quiet", "--lane", "q"]));
    assert_eq!(server.state(&told_id(&quiet)), "waiting", "only the id, and at once");
    server.complete("q", json!(1));
    assert_eq!(quiet.exit_code(), Some(0));
}

#[test]
fn a_result_that_is_not_shown_is_told_where_to_find() {
    let server = Server::start();
    let submitted = Running::err_of(server.command(&["submit", "a", "--lane", "l", "--wait"]));
    let id = told_id(&submitted);
    server.complete("l", json!("WORLD"));
    submitted.wait_for("where its result is", |line| line.contains(&format!("`weft result {}`", short(&id))));
    assert_eq!(submitted.exit_code(), Some(0));
}

#[test]
fn cli_1_a_batch_that_is_not_done_in_time_names_all_that_are_late() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"a\"}\n".repeat(3)).unwrap();
    let path = file.path().to_str().unwrap();
    let told = server.fails(3, &["submit", "--batch", path, "--wait", "--timeout", "300ms"]);
    let ids: Vec<String> = server.json(&["list"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().into())
        .collect();
    let error = told.lines().find(|line| line.starts_with("error[timed_out]: 3 of 3 executions")).unwrap_or_default();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| error.contains(id)), "{told}");
}

#[test]
fn cli_1_a_watch_has_a_timeout() {
    let server = Server::start();
    let id = server.submit(&["a"]);
    let told = server.fails(3, &["get", &id, "--watch", "--timeout", "300ms"]);
    assert!(told.starts_with(&format!("error[timed_out]: `{id}` is still waiting after ")), "{told}");
}

/// A server on this port, with the data of this folder.
fn serve(folder: &Path, port: &str) -> Dev {
    let mut dev = command(&["dev", "--port", port, "--json"]);
    dev.current_dir(folder).env("WEFT_LOG", "warn");
    let running = Running::out_of(dev);
    let ready: Value = serde_json::from_str(&running.wait_for("that it is ready", |_| true)).unwrap();
    Dev { running, url: ready["url"].as_str().unwrap().to_owned() }
}

#[test]
fn waits_go_on_when_the_server_is_killed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let dev = serve(folder.path(), "0");
    let (url, port) = (dev.url.clone(), dev.url.rsplit(':').next().unwrap().to_owned());
    let waiting = |args: &[&str]| Running::err_of(command(&[args, &["--url", &url]].concat()));
    let submitted = waiting(&["submit", "a", "--wait"]);
    let id = told_id(&submitted);
    let watched = Running::out_of(command(&["get", &id, "--watch", "--url", &url]));
    watched.wait_for("the state", |line| line.starts_with("state "));
    dev.running.kill();
    submitted.wait_for("that the server is away", |line| line == "the server is away; still waiting");

    let again = serve(folder.path(), &port);
    again.caller().work("w-1", "done");
    assert_eq!(submitted.exit_code(), Some(0));
    watched.wait_for("the end", |line| line.starts_with("state     completed "));
    assert_eq!(watched.exit_code(), Some(0));
}

/// A server that answers one call of all, and lets the others wait.
fn answers_once(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if held.is_empty() {
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all((head + body).as_bytes()).unwrap();
            }
            held.push(stream);
        }
    });
    url
}

#[test]
fn a_verb_that_is_interrupted_says_how_many_it_did() {
    let url = answers_once("{\"outcome\": \"done\", \"already\": false}");
    let id = |last: u32| format!("x_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d{last}");
    let mut cancel = command(&["cancel", &id(1), &id(2), &id(3), "--yes", "--url", &url]);
    let mut child = cancel.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with("  cancelled\n"), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text(&output.stderr).starts_with("interrupted: cancelled 1 of 3 executions"), "{}", text(&output.stderr));
}
