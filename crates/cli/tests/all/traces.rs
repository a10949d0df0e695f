//! Traces that nobody can send: who asks for them is told, and a variable that others read stops nothing.

use crate::process::{Running, command, text};

const FOREIGN: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[test]
fn ops_11_a_variable_that_all_programs_share_stops_nobody_and_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["dev", "--port", "0", "--memory"][..], &["serve", "--listen", "127.0.0.1:0", "--log", "warn"]] {
        let mut server = command(args);
        server.current_dir(folder.path()).env(FOREIGN, "http://127.0.0.1:4318");
        let server = Running::err_of(server);
        server
            .wait_for("that there are no traces", |line| line.contains(FOREIGN) && line.contains("no traces are sent"));
        server.wait_for("where it is", |line| line.contains(" serves http"));
        server.signal("-INT");
        let (code, lines) = server.last_lines();
        assert_eq!(code, Some(0), "{args:?}");
        assert!(!lines.iter().any(|line| line.contains("no traces")), "once: {lines:?}");
    }
    let mut worker = command(&["worker", "--url", "http://127.0.0.1:1", "--kind", "k", "--exec", "true"]);
    let worker = Running::err_of({
        worker.env(FOREIGN, "collector:4317").env("WEFT_LOG", "warn");
        worker
    });
    worker.wait_for("what it takes", |line| line.starts_with("takes k "));
}

#[test]
fn ops_11_who_asks_weft_for_traces_is_told_that_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let mut weft = command(args);
        weft.current_dir(folder.path()).env("WEFT_OTEL_ENDPOINT", "http://127.0.0.1:4318");
        let output = weft.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        let told = text(&output.stderr);
        assert!(told.contains("cannot send traces") && told.contains("WEFT_OTEL_ENDPOINT"), "{told}");
    };
    refused(&["dev", "--port", "0", "--memory"]);
    refused(&["serve", "--listen", "127.0.0.1:0"]);
    refused(&["serve", "--check"]);
    refused(&["worker", "--kind", "k", "--exec", "true"]);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is made");
}
