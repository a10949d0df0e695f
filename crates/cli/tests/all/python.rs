//! A worker in another language, with only HTTP: `examples/python/worker.py`, run as its first lines say.

use crate::dev::Dev;
use crate::process::{command, stdout, text};
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
