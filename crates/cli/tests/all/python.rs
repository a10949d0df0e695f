//! A worker in another language, with only HTTP: `examples/python/worker.py`, run as its first lines say.

use crate::dev::Dev;
use crate::process::{command, stdout, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The worker of the examples on a server; it goes away with the test.
struct Worker(Child);

impl Worker {
    fn start(url: &str, executions: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/worker.py");
        let mut python = Command::new("python3");
        python.arg(script).args([url, "--once", executions]).stdin(Stdio::null()).stdout(Stdio::piped());
        Self(python.spawn().expect("python3 is needed by this test"))
    }

    fn end(mut self) -> String {
        let mut said = String::new();
        std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already, and then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn submit(dev: &Dev, input: &str, more: &[&str]) -> std::process::Output {
    let words = [&["submit", "greet", "--url", &dev.url, "--input", input], more].concat();
    command(&words).output().unwrap()
}

#[test]
fn a_worker_in_python_claims_completes_and_fails() {
    let dev = Dev::in_memory();
    let worker = Worker::start(&dev.url, "2");
    let done = stdout(&submit(&dev, r#"{"name": "Ada"}"#, &["--wait", "--json"]));
    assert!(done.contains("\"completed\""), "{done}");
    let failed = submit(&dev, r#"{"nam": "Ada"}"#, &["--wait"]);
    assert_eq!(failed.status.code(), Some(5), "{}", text(&failed.stderr));
    let said = worker.end();
    assert!(said.contains("\"outcome\": \"success\"") && said.contains("\"outcome\": \"failed\""), "{said}");
    let result = stdout(&command(&["list", "--url", &dev.url, "--state", "completed", "--json"]).output().unwrap());
    assert!(result.contains("greet"), "{result}");
}

#[test]
fn a_cancel_reaches_a_worker_in_python() {
    let dev = Dev::in_memory();
    let worker = Worker::start(&dev.url, "1");
    let id = stdout(&submit(&dev, r#"{"name": "Ada", "seconds": 600}"#, &["--quiet"])).trim().to_owned();
    dev.caller().ok("GET", &format!("/v1/executions/{id}?wait_ms=60000&until=active"), None);
    stdout(&command(&["cancel", "--url", &dev.url, &id, "--grace", "60s", "--reason", "not needed"]).output().unwrap());
    let said = worker.end();
    assert!(said.contains("\"outcome\": \"cancelled\"") || said.contains("\"reason\""), "{said}");
}

/// The path of one request, read to its end.
fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.to_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:")).unwrap_or("0");
    reader.take(length.trim().parse().unwrap()).read_to_end(&mut Vec::new()).unwrap();
    lines[0].split(' ').nth(1).unwrap().to_owned()
}

fn answer(mut stream: &TcpStream, body: &str) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
}

/// A server with one execution, whose lease has so long. It hangs up on every renewal and on the first `failures`
/// outcomes. Answers how many outcomes it was sent, when one was taken or the worker is gone.
fn failing(listener: &TcpListener, input: &str, lease_ms: u32, failures: u32) -> u32 {
    let lease = format!(r#"{{"id": "l", "epoch": 1, "expires_in_ms": {lease_ms}}}"#);
    let task = format!(
        r#"{{"execution": "x", "kind": "greet", "input": {{"json": {input}}}, "lease": {lease}, "attempt": {{"index": 0}}}}"#
    );
    let mut outcomes = 0;
    let mut claims = 0;
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        match request(&stream).as_str() {
            "/v1/work/claim" => {
                claims += 1;
                let given = if claims == 1 { task.as_str() } else { "" };
                answer(&stream, &format!(r#"{{"executions": [{given}], "waited_ms": 0}}"#));
                if claims > 1 {
                    break;
                }
            }
            "/v1/work/complete" => {
                outcomes += 1;
                if outcomes > failures {
                    answer(&stream, r#"{"results": [{"ok": {"outcome": "success"}}]}"#);
                }
            }
            _ => {}
        }
    }
    outcomes
}

#[test]
fn sdk_31_a_worker_in_python_sends_an_outcome_again_until_it_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let worker = Worker::start(&format!("http://{}", listener.local_addr().unwrap()), "2");
    let served = std::thread::spawn(move || failing(&listener, r#"{"name": "Ada"}"#, 60_000, 2));
    assert_eq!(served.join().unwrap(), 3);
    drop(worker);
}

#[test]
fn ex_24_a_worker_in_python_stops_when_its_lease_has_run_out_here() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let worker = Worker::start(&format!("http://{}", listener.local_addr().unwrap()), "2");
    let began = std::time::Instant::now();
    let served = std::thread::spawn(move || failing(&listener, r#"{"name": "Ada", "seconds": 600}"#, 1_000, 0));
    assert_eq!(served.join().unwrap(), 0, "its result counts for nothing");
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
    drop(worker);
}
