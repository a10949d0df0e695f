//! The server against its own OpenAPI document, by tools that were made for any server: a validator reads the document,
//! and a fuzzer calls every operation in it with good and bad requests. `WEFT_FUZZ_EXAMPLES` sets how many of each.

use crate::dev::Dev;
use crate::process::text;
use std::path::Path;
use std::process::Command;
use weft_servers::python::{self, Package};

const SCHEMATHESIS: Package = Package {
    what: "Schemathesis",
    requirement: "schemathesis==4.32.5",
    with_dependencies: true,
    install: "install `pip`, which fetches it",
};

const VALIDATOR: Package = Package {
    what: "the OpenAPI validator",
    requirement: "openapi-spec-validator==0.9.0",
    with_dependencies: true,
    install: "install `pip`, which fetches it",
};

/// What must hold of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,unsupported_method";

/// Requests that a run makes at least.
const REQUESTS_MIN: u64 = 2_000;

fn python(package: Package, module: &str) -> Command {
    let mut python = Command::new("python3");
    python.args(["-m", module]).env("PYTHONPATH", python::folder(package).unwrap());
    python
}

#[test]
fn api_57_the_document_is_openapi() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let checked = python(VALIDATOR, "openapi_spec_validator").arg(document).output().unwrap();
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
}

#[test]
fn api_57_a_fuzzer_finds_no_answer_that_the_document_does_not_have() {
    let dev = Dev::in_memory();
    let dir = tempfile::tempdir().unwrap();
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/fuzz_hooks.py");
    let examples = std::env::var("WEFT_FUZZ_EXAMPLES").unwrap_or_else(|_| "4".to_owned());
    let fuzzed = python(SCHEMATHESIS, "schemathesis.cli")
        .args(["run", &format!("{}/v1/openapi.json", dev.url), "--checks", CHECKS, "--max-examples", &examples])
        .args(["--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all", "--seed", "1"])
        .args(["--request-timeout", "10", "--no-color", "--warnings", "off"])
        .env("SCHEMATHESIS_HOOKS", hooks)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(fuzzed.status.success(), "{}{}", text(&fuzzed.stdout), text(&fuzzed.stderr));
    let requests = answered(&dev);
    assert!(requests >= REQUESTS_MIN, "only {requests} requests were made\n{}", text(&fuzzed.stdout));
    if let Ok(path) = std::env::var("WEFT_FUZZ_REPORT") {
        std::fs::write(path, format!("{requests} requests, no finding\n")).unwrap();
    }
}

/// How many requests the server has answered, as it says itself.
fn answered(dev: &Dev) -> u64 {
    let metrics = text(&dev.caller().call("GET", "/metrics", None).bytes);
    let counts = metrics.lines().filter(|line| line.starts_with("weft_http_requests_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}
