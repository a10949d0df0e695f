//! A server as it is run in production: its first key, what it refuses, and how it stops.

use crate::dev::Dev;
use crate::http::Caller;
use crate::process::{PATIENCE, Running, command, stdout, text, weft};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Instant;
use tempfile::TempDir;

pub struct Server {
    running: Running,
    pub url: String,
    /// The first key, if it was printed.
    pub key: Option<String>,
}

impl Server {
    /// Starts one on the folder's store and waits until it listens.
    pub fn start(folder: &Path, args: &[&str]) -> Self {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--log", "warn"], args].concat();
        let mut serve = command(&all);
        serve.current_dir(folder);
        Self::started(Running::err_of(serve))
    }

    fn started(running: Running) -> Self {
        let line = running.wait_for("where it listens", |line| line.contains(" serves http"));
        let url = line.split_whitespace().last().unwrap().to_owned();
        let key = Mutex::new(None);
        running.wait_for("how to get help", |line| {
            if let Some(text) = line.strip_prefix("first key ") {
                *key.lock().unwrap() = Some(text.to_owned());
            }
            line.starts_with("help ")
        });
        Self { running, url, key: key.into_inner().unwrap() }
    }

    pub fn caller(&self, key: &str) -> Caller {
        Caller::new(&self.url, Some(key))
    }

    pub fn interrupt(self) -> Option<i32> {
        self.running.signal("-INT");
        self.running.exit_code()
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn api_25_the_first_start_prints_a_key_once_and_the_second_none() {
    let folder = folder();
    let first = Server::start(folder.path(), &[]);
    let key = first.key.clone().expect("the first start prints a key");
    let data = folder.path().join("weft-data");
    assert_eq!(std::fs::read_to_string(data.join("bootstrap.key")).unwrap().trim(), key);
    assert_eq!(mode(&data), 0o700);
    for file in ["bootstrap.key", "master.key", "weft.db"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    let id = first.caller(&key).submit(&json!({"kind": "k"}));
    assert_eq!(Caller::new(&first.url, None).call("GET", "/v1/executions", None).status, 401);
    assert_eq!(first.caller("weft_00000000_x").call("GET", "/v1/executions", None).status, 401);
    assert_eq!(first.interrupt(), Some(0));

    let second = Server::start(folder.path(), &[]);
    assert_eq!(second.key, None);
    assert_eq!(second.caller(&key).get(&id)["kind"], "k");
    assert_eq!(second.interrupt(), Some(0));

    // Whoever has put the key away keeps it working.
    std::fs::remove_file(data.join("bootstrap.key")).unwrap();
    let third = Server::start(folder.path(), &[]);
    assert_eq!(third.key, None);
    assert!(!data.join("bootstrap.key").exists());
    third.caller(&key).get(&id);
    assert_eq!(third.interrupt(), Some(0));

    std::fs::remove_file(data.join("master.key")).unwrap();
    let output = command(&["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`weft-data/master.key` is gone"), "{}", text(&output.stderr));
    assert!(!data.join("master.key").exists(), "no other key takes its place");
}

#[test]
fn api_25_the_first_key_can_be_given() {
    let folder = folder();
    let made = Server::start(folder.path(), &[]);
    let key = made.key.clone().unwrap();
    assert_eq!(made.interrupt(), Some(0));

    let other = tempfile::tempdir().unwrap();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
    serve.current_dir(other.path()).env("WEFT_BOOTSTRAP_KEY", &key);
    let given = Server::started(Running::err_of(serve));
    assert_eq!(given.key.as_deref(), Some("that of `WEFT_BOOTSTRAP_KEY`"), "it is not printed");
    given.caller(&key).ok("GET", "/v1/keys", None);
    assert!(!other.path().join("weft-data/bootstrap.key").exists());
    assert_eq!(given.interrupt(), Some(0));
}

#[test]
fn api_54_a_node_that_an_operator_drains_stops_as_on_a_signal() {
    let folder = folder();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "info", "--name", "web-2"]);
    serve.current_dir(folder.path());
    let server = Server::started(Running::err_of(serve));
    let caller = server.caller(server.key.as_ref().unwrap());
    let refused = caller.call("POST", "/v1/nodes/web-3/drain", Some(&json!({})));
    assert_eq!((refused.status, &refused.json()["fields"]["what"]), (404, &json!("node")));
    let waiting = caller.clone();
    let (tell, told) = channel();
    let claim = std::thread::spawn(move || {
        let claim = json!({"worker": "w", "instance": "w-1", "wait_ms": 60_000});
        tell.send(()).unwrap();
        waiting.try_call("POST", "/v1/work/claim", Some(&claim)).map(|answer| (answer.status, answer.json()))
    });
    told.recv().unwrap();
    let node = caller.ok("GET", "/v1/nodes", None)["items"][0]["id"].clone();
    let mut drain = command(&["nodes", "drain", "web-2", "--reason", "new kernel", "--json"]);
    let drained = drain.env("WEFT_URL", &server.url).env("WEFT_KEY", server.key.as_ref().unwrap()).output().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&stdout(&drained)).unwrap();
    assert_eq!(answer, json!({"node": node, "draining": true}));
    let line = server.running.wait_for("who asked", |line| line.contains("an operator drains this node"));
    assert!(line.contains("bootstrap") && line.contains("new kernel"), "{line}");
    assert_eq!(server.running.exit_code(), Some(0));
    // It waited, or came when the node was stopping or gone already; nobody is left without an answer.
    if let Ok((status, claimed)) = claim.join().unwrap() {
        assert!(claimed["draining"] == true || status == 503, "{status} {claimed}");
    }

    // The wish was about that run.
    let again = Server::start(folder.path(), &[]);
    assert_eq!(again.caller(server_key(folder.path()).as_str()).call("GET", "/readyz", None).status, 200);
    assert_eq!(again.interrupt(), Some(0));
}

fn server_key(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("weft-data/bootstrap.key")).unwrap().trim().to_owned()
}

#[test]
fn api_50_what_others_reach_needs_encryption_or_a_proxy() {
    let output = weft(&["serve", "--listen", "0.0.0.0:0", "--store", "sqlite:none/weft.db"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("`server.listen` is 0.0.0.0:0") && told.contains("server.behind_proxy = true"), "{told}");
    assert!(!Path::new("none").exists());
}

#[test]
fn cli_1_a_port_that_is_taken_is_told() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let address = server.url.strip_prefix("http://").unwrap();
    let other = tempfile::tempdir().unwrap();
    for (listen, metrics) in [(address, "127.0.0.1:0"), ("127.0.0.1:0", address)] {
        let mut serve = command(&["serve", "--listen", listen]);
        let output = serve.env("WEFT_METRICS_LISTEN", metrics).current_dir(other.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(&format!("cannot listen on {address}")), "{}", text(&output.stderr));
        let made = std::fs::read_dir(other.path()).unwrap().count();
        assert_eq!(made, 0, "no store is made, whose first key is not shown");
    }
}

#[test]
fn sec_15_a_folder_that_others_can_write_to_is_refused() {
    let folder = folder();
    let data = folder.path().join("weft-data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = command(&["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("chmod go-w weft-data"), "{}", text(&output.stderr));
}

/// What callers were told by a server that went away under them.
#[derive(Default)]
struct Ledger {
    /// Idempotency key to id.
    submitted: BTreeMap<String, String>,
    /// Id to result.
    completed: BTreeMap<String, String>,
}

/// Submits and completes from several threads until the server is gone. `enough` is called once, when so many things
/// have been acknowledged, while more are on their way.
fn load(caller: &Caller, round: &str, acknowledged: usize, enough: impl FnOnce()) -> Ledger {
    let ledger = Mutex::new(Ledger::default());
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (ledger, told_by) = (&ledger, tell.clone());
            scope.spawn(move || {
                for at in 0.. {
                    let key = format!("{round}-{number}-{at}");
                    let body = json!({"kind": "k", "idempotency_key": key});
                    let Some(answer) = answered(caller, "/v1/executions", &body) else { return };
                    ledger.lock().unwrap().submitted.insert(key, answer["id"].as_str().unwrap().to_owned());
                    let _ = told_by.send(());
                }
            });
            let told_by = tell.clone();
            scope.spawn(move || {
                let instance = format!("{round}-{number}");
                while let Some((id, result)) = work(caller, &instance) {
                    if let (Some(id), Some(result)) = (id, result) {
                        ledger.lock().unwrap().completed.insert(id, result);
                        let _ = told_by.send(());
                    }
                }
            });
        }
        drop(tell);
        assert_eq!(told.iter().take(acknowledged).count(), acknowledged, "the server went away by itself");
        enough();
    });
    ledger.into_inner().unwrap()
}

/// Nothing once the server is gone or stops.
fn answered(caller: &Caller, path: &str, body: &serde_json::Value) -> Option<serde_json::Value> {
    let answer = caller.try_call("POST", path, Some(body)).ok()?;
    let json = answer.json();
    match answer.status {
        200..300 => Some(json),
        503 => None,
        status => panic!("{path}: {status} {json}"),
    }
}

/// An execution and the result it was completed with, if there was one and it was acknowledged.
fn work(caller: &Caller, instance: &str) -> Option<(Option<String>, Option<String>)> {
    let claim = json!({"worker": "w", "instance": instance, "wait_ms": 10_000, "lease_ms": 1_000});
    let claimed = answered(caller, "/v1/work/claim", &claim)?;
    let task = &claimed["executions"][0];
    let Some(id) = task["execution"].as_str() else {
        return if claimed["draining"] == true { None } else { Some((None, None)) };
    };
    let result = format!("{instance}-{}", task["lease"]["epoch"]);
    let item = json!({"execution": id, "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"],
                      "result": {"text": result}});
    let done = answered(caller, "/v1/work/complete", &json!({"items": [item]}))?;
    let acknowledged = done["results"][0].get("error").is_none();
    Some((Some(id.to_owned()), acknowledged.then_some(result)))
}

fn check(caller: &Caller, ledger: &Ledger) {
    assert!(!ledger.submitted.is_empty() && !ledger.completed.is_empty());
    for (key, id) in &ledger.submitted {
        assert_eq!(caller.get(id)["kind"], "k", "{key}");
        let again = caller.ok("POST", "/v1/executions", Some(&json!({"kind": "k", "idempotency_key": key})));
        assert_eq!((again["id"].as_str(), &again["duplicate"]), (Some(id.as_str()), &json!(true)));
    }
    for (id, result) in &ledger.completed {
        let execution = caller.ok("GET", &format!("/v1/executions/{id}?include=result"), None);
        assert_eq!(execution["ended"]["outcome"], "success", "{execution}");
        assert_eq!(execution["result"]["text"], json!(result), "{execution}");
    }
}

#[test]
fn api_54_ctrl_c_under_load_answers_what_came_in_and_loses_nothing() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let key = server.key.clone().unwrap();
    let ledger = load(&server.caller(&key), "a", 120, || server.running.signal("-INT"));
    assert_eq!(server.running.exit_code(), Some(0));
    let server = Server::start(folder.path(), &[]);
    check(&server.caller(&key), &ledger);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn ops_30_nothing_acknowledged_over_http_is_lost_when_the_server_is_killed() {
    let folder = folder();
    let mut key = None;
    let mut ledgers = Vec::new();
    for round in ["a", "b"] {
        let server = Server::start(folder.path(), &[]);
        key = key.or(server.key.clone());
        let caller = server.caller(key.as_deref().unwrap());
        ledgers.push(load(&caller, round, 100, || server.running.signal("-KILL")));
        assert_eq!(server.running.exit_code(), None);
    }
    let server = Server::start(folder.path(), &[]);
    for ledger in &ledgers {
        check(&server.caller(key.as_deref().unwrap()), ledger);
    }
}

#[test]
fn api_54_a_stop_lets_a_waiting_claim_go() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let caller = server.caller(server.key.as_deref().unwrap());
    let claim = json!({"worker": "w", "instance": "i", "wait_ms": 60_000, "kinds": ["none"]});
    let claimed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| caller.ok("POST", "/v1/work/claim", Some(&claim)));
        // It waits as soon as it is counted among those that do.
        loop {
            let metrics = caller.call("GET", "/metrics", None);
            if text(&metrics.bytes).contains("weft_claims_waiting 1") {
                break;
            }
            std::thread::yield_now();
        }
        server.running.signal("-TERM");
        waiting.join().unwrap()
    });
    assert_eq!((&claimed["draining"], &claimed["executions"]), (&json!(true), &json!([])));
    assert_eq!(server.running.exit_code(), Some(0));
}

#[test]
fn api_54_sigterm_ends_a_server_with_a_request_that_was_sent_half_and_every_answer_is_given() {
    let folder = folder();
    let mut server = Server::start(folder.path(), &[]);
    let key = server.key.clone().unwrap();
    let caller = server.caller(&key);
    let in_flight = || {
        let metrics = text(&caller.call("GET", "/metrics", None).bytes);
        let line = metrics.lines().find_map(|line| line.strip_prefix("weft_http_in_flight "));
        line.and_then(|number| number.parse::<u32>().ok()).expect("a number of requests")
    };
    let before = in_flight();
    let mut stream = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Instant::now();
    while in_flight() == before {
        assert!(begun.elapsed() < PATIENCE, "the request did not arrive");
    }
    server.running.signal("-TERM");
    let begun = Instant::now();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains(r#""code":"draining""#), "{answer}");
    let ended = loop {
        if let Some(ended) = server.running.child.try_wait().unwrap() {
            break ended;
        }
        assert!(begun.elapsed() < PATIENCE, "it did not end");
        std::thread::yield_now();
    };
    assert_eq!(ended.code(), Some(0), "a drain that runs out ends with 3");
}

#[test]
fn ops_4_a_hangup_reads_again_what_can_change_and_tells_what_cannot() {
    let folder = folder();
    let file = folder.path().join("weft.toml");
    std::fs::write(&file, "[log]\nlevel = \"info\"\n").unwrap();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.current_dir(folder.path());
    let server = Server::started(Running::err_of(serve));
    std::fs::write(
        &file,
        "[log]\nlevel = \"warn\"\n[server]\ndrain = \"1s\"\ncors_origins = [\"https://a.example\"]\n",
    )
    .unwrap();
    server.running.signal("-HUP");
    let line = server.running.wait_for("what takes a restart", |line| line.contains("take a restart"));
    assert!(line.contains("server.drain"), "{line}");
    std::fs::write(&file, "[log]\nlevel = \"lod\"\n").unwrap();
    server.running.signal("-HUP");
    let line = server.running.wait_for("the mistake", |line| line.contains("everything stays as it was"));
    assert!(line.contains("log.level"), "{line}");
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn an_administrator_is_told_how_the_server_is_set_and_no_secret() {
    let folder = folder();
    let file = folder.path().join("weft.toml");
    std::fs::write(&file, "[server]\ndrain = \"7s\"\n").unwrap();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "info"]);
    let secret = format!("{}Bwc=", "BwcH".repeat(10));
    serve.current_dir(folder.path()).env("WEFT_MASTER_KEY", &secret);
    let server = Server::started(Running::err_of(serve));
    let caller = server.caller(server.key.as_deref().unwrap());
    let told = || {
        let config = caller.ok("GET", "/v1/config", None);
        assert!(!config.to_string().contains("BwcH"), "{config}");
        let items = config["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| (item["key"].as_str().unwrap().to_owned(), item)).collect::<BTreeMap<_, _>>()
    };
    let before = told();
    assert_eq!((&before["server.drain"]["value"], &before["log.level"]["value"]), (&json!("7s"), &json!("info")));
    assert!(before["server.drain"]["origin"].as_str().unwrap().ends_with("weft.toml:2"), "{before:?}");
    assert_eq!(before["log.level"]["origin"], "--log");
    assert!(before.values().any(|item| item["value"] == "***"), "the secret is there, and hidden");
    std::fs::write(&file, "[server]\ndrain = \"7s\"\n[auth.rate]\ndefault = 77\n").unwrap();
    server.running.signal("-HUP");
    server.running.wait_for("that it was read", |line| line.contains("read the configuration again"));
    assert_eq!(told()["auth.rate.default"]["value"], "77");
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn ops_4_turning_tls_on_takes_a_restart_and_the_log_says_so() {
    let folder = folder();
    let made = weft_tls::testing::certificates(&["127.0.0.1"]).unwrap();
    for (name, text) in [("cert.pem", &made.server), ("key.pem", &made.server_key)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let server = Server::start(folder.path(), &[]);
    let file = "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";
    std::fs::write(folder.path().join("weft.toml"), file).unwrap();
    server.running.signal("-HUP");
    let line = server.running.wait_for("that it stays as it was", |line| line.contains("TLS stays off"));
    assert!(line.contains("takes a restart") && line.contains("server.tls_cert"), "{line}");
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn sec_7_a_server_leaves_no_core_dump() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.running.child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let bounds: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(bounds, ["1", "1"], "{core}");
}

#[test]
fn metrics_have_a_listener_of_their_own_that_asks_for_no_key() {
    let folder = folder();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log", "warn"]);
    serve.current_dir(folder.path());
    let running = Running::err_of(serve);
    let line = running.wait_for("where metrics are", |line| line.starts_with("metrics "));
    let url = line.split_whitespace().last().unwrap().strip_suffix("/metrics").unwrap().to_owned();
    running.wait_for("how to get help", |line| line.starts_with("help "));
    let caller = Caller::new(&url, None);
    let metrics = caller.call("GET", "/metrics", None);
    assert_eq!(metrics.status, 200);
    assert!(text(&metrics.bytes).contains("weft_commits_total"));
    assert_eq!(caller.call("GET", "/v1/executions", None).status, 404, "it serves nothing else");
}

#[test]
fn api_51_a_server_with_a_certificate_speaks_tls() {
    let folder = folder();
    let made = weft_tls::testing::certificates(&["127.0.0.1"]).unwrap();
    for (name, text) in [("ca.pem", &made.authority), ("cert.pem", &made.server), ("key.pem", &made.server_key)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let server = Server::start(folder.path(), &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connect = || weft_sdk::Client::connect(&server.url).key(server.key.as_deref().unwrap());
        let client = connect().ca_file(folder.path().join("ca.pem")).build().await.unwrap();
        let version = client.call::<weft_sdk::op::GetVersion>(weft_sdk::Args::default()).await.unwrap();
        assert_eq!(version.version, env!("CARGO_PKG_VERSION"));
        let refused = connect().timeout(std::time::Duration::from_secs(1)).check().build().await;
        assert!(refused.is_err(), "an authority that nobody trusts vouches for nobody");
    });
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn api_51_a_certificate_that_is_signed_by_itself_is_trusted_if_it_is_named() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let (cert, key) = weft_tls::testing::self_signed(&["127.0.0.1"], 2020..2120).unwrap();
    let (other, _) = weft_tls::testing::self_signed(&["127.0.0.1"], 2020..2120).unwrap();
    write("cert.pem", &cert);
    write("key.pem", &key);
    write("other.pem", &other);
    let server = Server::start(folder.path(), &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let with = |args: &[&str], url: &str| {
        let mut weft = command(&[&["--timeout", "60s"], args].concat());
        weft.current_dir(folder.path()).env("WEFT_URL", url).env("WEFT_KEY", server.key.as_deref().unwrap());
        weft.env("WEFT_NAMESPACE", "default").env_remove("WEFT_STORE");
        weft
    };
    let told = |args: &[&str], url: &str, code: i32| {
        let output = with(args, url).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    told(&["list", "--ca-file", "cert.pem"], &server.url, 0);
    let refused = told(&["list", "--ca-file", "other.pem"], &server.url, 4);
    assert!(refused.starts_with("error[untrusted]: could not"), "{refused}");
    assert!(refused.contains("signed by itself") && refused.contains("hint: `--ca-file`"), "{refused}");
    let by_name = server.url.replace("127.0.0.1", "localhost");
    let refused = told(&["list", "--ca-file", "cert.pem"], &by_name, 4);
    assert!(refused.contains("for another name; write the address with one of `127.0.0.1`\n"), "{refused}");
    let plain = server.url.replace("https://", "http://");
    let refused = told(&["list"], &plain, 2);
    assert!(refused.contains("not in HTTP") && refused.contains("hint: write `https://`"), "{refused}");

    // No waiting helps a worker there either.
    let dev = Dev::in_memory();
    let wrong = dev.url.replace("http://", "https://");
    for (file, url, code, hint) in [
        ("other.pem", &server.url, 4, "hint: `--ca-file`"),
        ("cert.pem", &plain, 2, "hint: write `https://`"),
        ("cert.pem", &wrong, 2, "hint: write `http://`"),
    ] {
        let worker = Running::err_of(with(&["worker", "--kind", "k", "--exec", "true", "--ca-file", file], url));
        worker.wait_for("what to do", |line| line.starts_with(hint));
        assert_eq!(worker.exit_code(), Some(code), "{hint}");
    }
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn api_51_commands_and_workers_show_a_certificate_to_a_server_that_asks_for_one() {
    let folder = folder();
    let made = weft_tls::testing::certificates(&["127.0.0.1"]).unwrap();
    for (name, text) in [
        ("ca.pem", &made.authority),
        ("cert.pem", &made.server),
        ("key.pem", &made.server_key),
        ("client.pem", &made.client),
        ("client-key.pem", &made.client_key),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem"];
    let server = Server::start(folder.path(), &tls);
    let run = |args: &[&str]| {
        let mut weft = command(args);
        weft.current_dir(folder.path()).env("WEFT_URL", &server.url).env("WEFT_KEY", server.key.as_deref().unwrap());
        weft.env("WEFT_NAMESPACE", "default").env_remove("WEFT_STORE");
        weft
    };
    let ca = ["--ca-file", "ca.pem"];
    let identity = ["--client-cert", "client.pem", "--client-key", "client-key.pem"];
    stdout(&run(&[&["list"], &ca[..], &identity[..]].concat()).output().unwrap());
    stdout(&run(&[&ca[..], &identity[..], &["doctor"]].concat()).output().unwrap());

    let told = |args: &[&str], code: i32| {
        let output = run(&[args, &["--timeout", "2s"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(told(&["list"], 4).contains("hint: `--ca-file`"));
    told(&["list", "--ca-file", "ca.pem"], 3);
    assert!(told(&["list", "--client-cert", "client.pem"], 2).contains("goes with its key"));
    assert!(told(&["list", "--client-cert", "none.pem", "--client-key", "client-key.pem"], 2).contains("`none.pem`"));

    // A worker is told where its files are by variables.
    let mut worker = run(&["worker", "--kind", "hello", "--exec", "tr a-z A-Z"]);
    worker.env("WEFT_CA_FILE", "ca.pem").env("WEFT_CLIENT_CERT", "client.pem");
    let worker = Running::err_of({
        worker.env("WEFT_CLIENT_KEY", "client-key.pem");
        worker
    });
    let submit = ["submit", "hello", "--input", "\"world\"", "--wait", "--quiet"];
    stdout(&run(&[&submit[..], &ca[..], &identity[..]].concat()).output().unwrap());
    worker.signal("-INT");
    assert_eq!(worker.exit_code(), Some(0));
    assert_eq!(server.interrupt(), Some(0));
}

/// The verbs of the entries in a copy of the audit log.
fn audited(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let verb =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["verb"].as_str().unwrap().to_owned();
    // The last line may be on its way.
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    whole.lines().map(verb).collect()
}

#[test]
fn ops_13_the_audit_log_is_copied_to_a_file_that_can_be_moved_away() {
    let folder = folder();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--log", "info", "--audit-file", "audit.jsonl"];
    let mut serve = command(&serve);
    serve.current_dir(folder.path());
    let server = Server::started(Running::err_of(serve));
    let (file, moved) = (folder.path().join("audit.jsonl"), folder.path().join("audit.1.jsonl"));
    let caller = server.caller(server.key.as_deref().unwrap());
    let create = |name: &str| {
        caller.ok("POST", "/v1/keys", Some(&json!({"name": name, "scopes": ["submit"], "namespaces": ["default"]})))
    };
    create("first");
    let begun = std::time::Instant::now();
    while !audited(&file).contains(&"create_key".to_owned()) {
        assert!(begun.elapsed() < crate::process::PATIENCE, "the copy has {:?}", audited(&file));
        std::thread::yield_now();
    }
    assert_eq!(mode(&file), 0o600);
    std::fs::rename(&file, &moved).unwrap();
    let before = audited(&moved);
    server.running.signal("-HUP");
    server.running.wait_for("that it was read", |line| line.contains("read the configuration again"));
    create("second");
    assert_eq!(server.interrupt(), Some(0), "the copy is whole when the server has stopped");
    assert_eq!((audited(&file), mode(&file)), (vec!["create_key".to_owned()], 0o600));
    assert_eq!(audited(&moved), before, "what was moved away stays as it was");
}

#[test]
fn ops_4_a_hangup_during_the_start_does_not_end_the_server() {
    let folder = folder();
    // A server of a store that takes a connection and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("postgres://127.0.0.1:{}/app?sslmode=disable", listener.local_addr().unwrap().port());
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--store", &store]);
    serve.current_dir(folder.path()).env("WEFT_MASTER_KEY", format!("{}Bwc=", "BwcH".repeat(10)));
    let server = Running::err_of(serve);
    let _connection = listener.accept().unwrap();
    server.signal("-HUP");
    server.signal("-TERM");
    server.wait_for("that it stops", |line| line.starts_with("stopping; "));
}

#[test]
fn ops_12_no_key_and_no_payload_reaches_the_log() {
    let folder = folder();
    let first = Server::start(folder.path(), &[]);
    // It is printed when it is made, and never again.
    let key = first.key.clone().unwrap();
    assert_eq!(first.interrupt(), Some(0));
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "debug"]);
    serve.current_dir(folder.path());
    let running = Running::err_of(serve);
    let log = Mutex::new(Vec::new());
    let wait_for = |what: &str, part: &str| {
        running.wait_for(what, |line| {
            log.lock().unwrap().push(line.to_owned());
            line.contains(part)
        })
    };
    let url = wait_for("where it is", " serves http").split_whitespace().last().unwrap().to_owned();
    let caller = Caller::new(&url, Some(&key));
    let wrong = format!("{}wrong", &key[..key.len() - 5]);
    assert_eq!(Caller::new(&url, Some(&wrong)).call("GET", "/v1/executions", None).status, 401);
    let id = caller.submit(&json!({"kind": "k", "input": {"json": {"card": "hidden-input"}}}));
    caller.work("w-1", "hidden-result");
    assert_eq!(caller.ended(&id)["result"]["text"], "hidden-result");
    let made =
        caller.ok("POST", "/v1/keys", Some(&json!({"name": "ci", "scopes": ["submit"], "namespaces": ["default"]})));
    let other = made["secret"].as_str().unwrap();
    assert_eq!(caller.call("POST", "/v1/executions", Some(&json!({"kin": "hidden-body"}))).status, 400);
    running.signal("-INT");
    let (code, rest) = running.last_lines();
    assert_eq!(code, Some(0));
    let log = log.into_inner().unwrap().into_iter().chain(rest).collect::<Vec<_>>().join("\n");
    assert!(log.contains("scanner started") && log.contains("weft::access"), "it tells what went on\n{log}");
    let master = std::fs::read_to_string(folder.path().join("weft-data/master.key")).unwrap();
    for secret in [&key, &wrong, other, master.trim(), "hidden-input", "hidden-result", "hidden-body"] {
        assert!(!log.contains(secret), "`{secret}` is in the log\n{log}");
    }
}

#[test]
fn whoever_has_the_store_and_its_master_key_makes_a_key_with_all_rights() {
    let folder = folder();
    let server = Server::start(folder.path(), &[]);
    let create = |args: &[&str]| {
        let mut create = command(&[&["key", "create", "--name", "rescue", "--admin"], args].concat());
        create.current_dir(folder.path()).env("WEFT_URL", "http://127.0.0.1:1").output().unwrap()
    };
    let held = create(&[]);
    assert_eq!(held.status.code(), Some(1), "{}", text(&held.stderr));
    assert!(text(&held.stderr).contains(" has it open; stop it first"), "{}", text(&held.stderr));
    // The last key with all rights keeps them.
    let (first, caller) = (server.key.clone().unwrap(), server.caller(server.key.as_deref().unwrap()));
    let path = format!("/v1/keys/{}", first.split('_').nth(1).unwrap());
    assert_eq!(caller.call("DELETE", &path, None).status, 400);
    assert_eq!(server.interrupt(), Some(0));

    let everywhere = create(&["--namespace", "shop"]);
    assert_eq!(everywhere.status.code(), Some(2));
    assert!(text(&everywhere.stderr).contains("leave `--namespace` out"), "{}", text(&everywhere.stderr));
    let made = create(&[]);
    assert!(text(&made.stderr).starts_with("not used: WEFT_URL; "), "{}", text(&made.stderr));
    let made = stdout(&made);
    assert_eq!(create(&[]).status.code(), Some(1), "the name is taken");
    let server = Server::start(folder.path(), &[]);
    let caller = server.caller(made.trim());
    assert_eq!(caller.call("DELETE", &path, None).status, 200, "there is another one now");
    assert_eq!(server.interrupt(), Some(0));

    std::fs::remove_file(folder.path().join("weft-data/master.key")).unwrap();
    let without = create(&["--json"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("`weft-data/master.key` is not there"), "{}", text(&without.stderr));
    assert_eq!(create(&["--scope", "submit"]).status.code(), Some(2));
}
