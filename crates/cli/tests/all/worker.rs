//! Any program as a worker: its outcomes, what it says while it runs, and that nothing of it outlives the worker.

use crate::dev::Dev;
use crate::http::Caller;
use crate::process::{PATIENCE, Running, command, text, weft};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use tempfile::TempDir;

/// A server, and a worker for the kind `k`.
struct Shop {
    dev: Dev,
    worker: Running,
    caller: Caller,
}

impl Shop {
    fn open(line: &str, args: &[&str]) -> Self {
        Self::open_with(line, args, &[])
    }

    fn open_with(line: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let dev = Dev::in_memory();
        let mut worker = command(&[&["worker", "--url", &dev.url, "--kind", "k", "--exec", line], args].concat());
        worker.envs(variables.iter().copied());
        let worker = Running::err_of(worker);
        let caller = dev.caller();
        Self { dev, worker, caller }
    }

    fn submit(&self, more: Value) -> String {
        let mut body = json!({"kind": "k"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.caller.submit(&body)
    }

    /// How an execution of this ends.
    fn run(&self, more: Value) -> Value {
        self.caller.ended(&self.submit(more))
    }
}

/// What a program writes, until nobody is left who could write any more.
struct Fifo {
    _folder: TempDir,
    path: PathBuf,
    lines: Receiver<String>,
}

impl Fifo {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).stdin(Stdio::null()).status().unwrap().success());
        let (tell, lines) = channel();
        let opened = path.clone();
        std::thread::spawn(move || {
            let Ok(file) = File::open(opened) else { return };
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Self { _folder: folder, path, lines }
    }

    /// A line of the shell that holds it open as descriptor 3 for as long as anything of the program runs.
    fn held_by(&self, line: &str) -> String {
        format!("exec 3>'{}'; {line}", self.path.display())
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the program says something")
    }

    fn until_nobody_holds_it(&self) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("something of the program still runs"),
            }
        }
    }
}

#[test]
fn cli_10_input_is_on_stdin_and_the_task_in_the_environment() {
    let line = r#"printf '%s %s %s %s ' "$WEFT_KIND" "$WEFT_LANE" "$WEFT_ATTEMPT" "$WEFT_TAGS"; cat"#;
    let shop = Shop::open(line, &[]);
    let done = shop.run(json!({"input": {"text": "hello"}, "tags": {"a": "b"}}));
    assert_eq!(done["ended"]["outcome"], "success", "{done}");
    assert_eq!(done["result"]["text"], "k default 0 {\"a\":\"b\"} hello", "{done}");
}

#[test]
fn fl_70_a_program_gets_what_upstreams_handed_over() {
    // What a member does is its own input: a line for the shell.
    let shop = Shop::open("sh -c \"$(cat)\"", &["--concurrency", "4"]);
    let member = |key: &str, line: &str| json!({"key": key, "kind": "k", "input": {"text": line}});
    let read = r#"echo "$WEFT_FLOW $WEFT_MEMBER"; cd "$WEFT_INPUTS"
        cat "$WEFT_INPUT_TEXT_FILE"; od -An -tx1 bytes | tr -d ' '; for file in 'pages[]'/*; do wc -c < "$file"; done
        ls; echo "--"; cat inputs.json"#;
    let flow = json!({
        "kind": "etl",
        "members": [
            member("text", "echo hello"), member("bytes", r"printf '\377\000'"),
            member("large", "head -c 600000 /dev/zero"), member("huge", "head -c 1000000 /dev/zero"),
            member("small", "printf 123"), member("none", "true"), member("bad", "echo no such page >&2; exit 65"),
            member("read", read),
        ],
        "edges": [
            {"from": "text", "to": "read", "input": "text"}, {"from": "bytes", "to": "read", "input": "bytes"},
            {"from": "large", "to": "read", "input": "pages[]"}, {"from": "huge", "to": "read", "input": "pages[]"},
            {"from": "small", "to": "read", "input": "pages[]"}, {"from": "none", "to": "read", "input": "../none"},
            {"from": "bad", "to": "read", "input": "bad", "on": "any"},
        ],
    });
    let flow = shop.caller.ok("POST", "/v1/flows", Some(&flow));
    let (id, read) = (flow["id"].as_str().unwrap(), flow["members"]["read"].as_str().unwrap());
    let done = shop.caller.ended(read);
    assert_eq!(done["ended"]["outcome"], "success", "{done}");
    let (said, list) = done["result"]["text"].as_str().unwrap().split_once("--\n").unwrap();
    assert_eq!(said, format!("{id} read\nhello\nff00\n600000\n1000000\n3\nbytes\ninputs.json\npages[]\ntext\n"));
    let list: Value = serde_json::from_str(list).unwrap();
    assert_eq!(list["missing"], json!([]));
    let told = list["inputs"].as_array().unwrap().iter().map(|it| {
        assert_eq!(it["execution"], flow["members"][it["upstream"].as_str().unwrap()], "{it}");
        json!([it["name"], it["upstream"], it["outcome"], it["content_type"], it["file"]])
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            json!(["../none", "none", "success", null, null]),
            json!(["bad", "bad", "failed", null, null]),
            json!(["bytes", "bytes", "success", "application/octet-stream", "bytes"]),
            json!(["pages[]", "large", "success", "text/plain; charset=utf-8", "pages[]/0"]),
            json!(["pages[]", "huge", "success", "text/plain; charset=utf-8", "pages[]/1"]),
            json!(["pages[]", "small", "success", "application/json", "pages[]/2"]),
            json!(["text", "text", "success", "text/plain; charset=utf-8", "text"]),
        ]
    );
    let failure = &list["inputs"][1]["failure"];
    assert_eq!(failure["category"], "exit", "{failure}");
    assert!(failure["message"].as_str().unwrap().contains("no such page"), "{failure}");
}

#[test]
fn sec_16_no_secret_of_the_worker_reaches_a_program() {
    let secret = "weft_00000000_canary";
    let shop = Shop::open_with("env", &[], &[("WEFT_KEY", secret), ("WEFT_MASTER_KEY", secret)]);
    let done = shop.run(json!({}));
    assert_eq!(done["ended"]["outcome"], "success", "{done}");
    assert!(!done.to_string().contains("canary"), "{done}");
}

#[test]
fn cli_12_an_exit_code_decides_what_becomes_of_the_execution() {
    let shop = Shop::open(r#"code=$(cat); echo "about to say $code" >&2; exit "$code""#, &["--concurrency", "4"]);
    let once = json!({"retry": {"max_retries": 1, "backoff": {"kind": "fixed", "delay_ms": 0}}});
    for (code, attempts, outcome) in [("0", 1, "success"), ("65", 1, "failed"), ("75", 2, "failed"), ("3", 2, "failed")]
    {
        let done = shop.run(json!({"input": {"text": code}, "policy": once}));
        assert_eq!(
            (&done["ended"]["outcome"], &done["attempts"]),
            (&json!(outcome), &json!(attempts)),
            "{code}: {done}"
        );
        if outcome == "failed" {
            assert_eq!(done["failure"]["category"], "exit", "{done}");
            let message = done["failure"]["message"].as_str().unwrap();
            assert_eq!(message, format!("exited with code {code}; stderr ended with\nabout to say {code}"));
        }
    }
    shop.worker.wait_for("the program's stderr", |line| line.contains("about to say 3"));
}

#[test]
fn cli_13_a_program_tells_about_its_work_on_the_control_pipe() {
    let fifo = Fifo::make();
    let line = r#"case $WEFT_ATTEMPT$(cat "$WEFT_CHECKPOINT_FILE" 2>/dev/null) in
             0) echo '{"progress": {"percent": 40, "message": "rendering"}}' > "$WEFT_CONTROL"
                echo '{"step": {"name": "paid", "value": {"id": 7}}}' > "$WEFT_CONTROL"
                echo said > "$SAID"; read go < "$GO"
                echo '{"delay_ms": 1, "checkpoint": {"page": 7}}' > "$WEFT_CONTROL"; exit 1 ;;
             *) echo '{"fail": {"category": "smtp", "message": "550", "retry": "never"}}' > "$WEFT_CONTROL" ;;
           esac"#;
    let go = fifo.path.with_file_name("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let variables = [("GO", go.to_str().unwrap()), ("SAID", fifo.path.to_str().unwrap())];
    let shop = Shop::open_with(line, &["--lease", "1s"], &variables);
    let id = shop.submit(json!({}));
    assert_eq!(fifo.next(), "said");
    let told = std::time::Instant::now();
    let shown = loop {
        let execution = shop.caller.get(&id);
        if execution["progress"]["percent"] == 40 && execution["steps"] == 1 {
            break execution;
        }
        assert!(told.elapsed() < PATIENCE, "{execution}");
        std::thread::yield_now();
    };
    assert_eq!(shown["progress"]["message"], "rendering");
    std::fs::write(&go, "go\n").unwrap();
    let done = shop.caller.ended(&id);
    let failure = &done["failure"];
    assert_eq!((&failure["category"], &failure["message"]), (&json!("smtp"), &json!("550")), "{done}");
    assert_eq!(done["attempts"], 1, "a delay goes on with the same attempt");
    let step = shop.caller.ok("GET", &format!("/v1/executions/{id}/steps/paid"), None);
    assert_eq!(step["value"]["json"]["id"], 7, "{step}");
}

#[test]
fn cli_14_a_cancel_is_a_sigterm_that_the_program_can_answer() {
    let fifo = Fifo::make();
    let shop = Shop::open(&fifo.held_by("trap 'echo told >&3; exit 0' TERM; echo up >&3; sleep 600 & wait"), &[]);
    let id = shop.submit(json!({}));
    assert_eq!(fifo.next(), "up");
    shop.caller.ok("POST", &format!("/v1/executions/{id}/cancel"), Some(&json!({"reason": "no more"})));
    assert_eq!(fifo.next(), "told");
    fifo.until_nobody_holds_it();
    assert_eq!(shop.caller.ended(&id)["ended"]["outcome"], "cancelled");
}

#[test]
fn cli_14_a_program_that_does_not_end_is_killed_after_the_grace() {
    let fifo = Fifo::make();
    let line = fifo.held_by("trap '' TERM; echo up >&3; while :; do sleep 600; done");
    let shop = Shop::open(&line, &["--grace", "100ms"]);
    let id = shop.submit(json!({}));
    assert_eq!(fifo.next(), "up");
    shop.caller.ok("POST", &format!("/v1/executions/{id}/cancel"), Some(&json!({})));
    fifo.until_nobody_holds_it();
}

#[test]
fn cli_14_no_child_outlives_a_worker_that_is_killed() {
    let fifo = Fifo::make();
    // One child in a session of its own, which signals of the group do not reach.
    let shop = Shop::open(&fifo.held_by("setsid sleep 600 & trap '' TERM; echo up >&3; sleep 600"), &[]);
    shop.submit(json!({}));
    assert_eq!(fifo.next(), "up");
    let Shop { worker, dev, .. } = shop;
    worker.kill();
    fifo.until_nobody_holds_it();
    drop(dev);
}

#[test]
fn sdk_35_a_worker_that_is_interrupted_finishes_what_it_has() {
    let fifo = Fifo::make();
    let go = fifo.path.with_file_name("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let shop = Shop::open_with(&fifo.held_by(r#"echo up >&3; cat "$GO""#), &[], &[("GO", go.to_str().unwrap())]);
    let id = shop.submit(json!({}));
    assert_eq!(fifo.next(), "up");
    shop.worker.signal("-INT");
    shop.worker.wait_for("that it stops", |line| line.contains("stopping"));
    std::fs::write(&go, "late").unwrap();
    assert_eq!(shop.caller.ended(&id)["result"]["text"], "late");
    assert_eq!(shop.worker.exit_code(), Some(0));
}

#[test]
fn a_failure_cannot_move_the_cursor_or_turn_the_direction_of_text() {
    let message = "paid\u{202e}diap\u{2066}\u{1b}[2J\u{9b}2J";
    let unseen = |letter: char| letter != '\n' && (letter.is_control() || ('\u{202a}'..='\u{2069}').contains(&letter));
    for format in ["text", "json"] {
        let shop = Shop::open_with("cat >&2; exit 65", &[], &[("WEFT_LOG_FORMAT", format)]);
        let id = shop.submit(json!({"input": {"text": message}}));
        let line = shop.worker.wait_for("that it failed", |line| line.contains("it failed: exited with code 65"));
        assert!(line.contains(r"paid\u202ediap\u2066") && !line.contains(unseen), "{line:?}");
        let done = shop.caller.ended(&id);
        let url = ["--url", &shop.dev.url];
        for args in [["get", &id], ["history", &id], ["explain", &id]] {
            let shown = text(&weft(&[&args[..], &url].concat()).stdout);
            assert!(!shown.contains(unseen), "{args:?}: {shown:?}");
        }
        assert!(
            text(&weft(&[&["get", &id], &url[..]].concat()).stdout).contains(r"paid\u202ediap\u2066\u001b[2J\u009b2J")
        );
        let shown = text(&weft(&[&["get", &id, "--json"], &url[..]].concat()).stdout);
        assert!(!shown.contains(unseen), "{shown:?}");
        let json: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(json["failure"]["message"], done["failure"]["message"], "the same text in JSON");
    }
}

#[test]
fn a_worker_tells_of_tasks_that_did_not_go_well_and_names_each_once() {
    let fifo = Fifo::make();
    let hold = fifo.held_by("echo up >&3; sleep 600");
    let line = format!("read -r what; case $what in fail) echo oops >&2; exit 65 ;; esac; {hold}");
    let shop = Shop::open_with(&line, &["--grace", "100ms"], &[("WEFT_LOG_FORMAT", "text")]);
    let failed = shop.submit(json!({"input": {"text": "fail\n"}}));
    let said = shop.worker.wait_for("what it said", |line| line.ends_with("oops"));
    assert_eq!(said.matches(&failed).count(), 1, "{said}");
    let told = shop.worker.wait_for("that it failed", |line| line.contains("it failed: exited with code 65"));
    assert!(told.contains(&failed) && told.contains("kind=") && told.contains("attempt="), "{told}");
    assert!(told.contains("; stderr ended with `oops`, and no retry will help"), "{told}");
    let cancelled = shop.submit(json!({"input": {"text": "sleep\n"}}));
    assert_eq!(fifo.next(), "up");
    shop.caller.ok("POST", &format!("/v1/executions/{cancelled}/cancel"), Some(&json!({"reason": "no\nmore"})));
    let told = shop.worker.wait_for("that it was cancelled", |line| line.ends_with("it was cancelled: no more"));
    assert!(told.contains(&cancelled), "{told}");
}

#[test]
fn cli_12_a_program_that_is_not_there_is_refused_when_the_worker_starts() {
    for (line, wanted) in [
        ("./nosuchprogram", "`--exec`: cannot start `./nosuchprogram`: No such file"),
        ("nosuchprogram --flag", "there is no program `nosuchprogram` on the PATH"),
        ("/etc/passwd", "it may not be executed"),
    ] {
        let worker = Running::err(&["worker", "--url", "http://127.0.0.1:1", "--kind", "k", "--exec", line]);
        worker.wait_for("why it does not begin", |told| told.contains(wanted));
        assert_eq!(worker.exit_code(), Some(2), "{line}");
    }
}

#[test]
fn cli_12_a_program_that_does_not_run_costs_no_attempt_and_stops_the_worker() {
    // The check at the start looks only at the first command, which is `cd`.
    let shop = Shop::open("cd / && ./nosuchprogram", &[]);
    let policy = json!({"retry": {"max_retries": 0}});
    let ids: Vec<String> = (0..5).map(|_| shop.submit(json!({"policy": policy}))).collect();
    let Shop { dev, worker, caller } = shop;
    let told = worker.wait_for("why it stops", |line| line.starts_with("error: "));
    assert!(told.contains("did not run 5 times in a row") && told.contains("exited with code 127"), "{told}");
    worker.wait_for("what to do", |line| line.starts_with("hint: "));
    assert_eq!(worker.exit_code(), Some(1));
    let runs = command(&["worker", "--url", &dev.url, "--kind", "k", "--exec", "true"]);
    let runs = Running::err_of(runs);
    for id in ids {
        let done = caller.ended(&id);
        assert_eq!((&done["ended"]["outcome"], &done["attempts"]), (&json!("success"), &json!(1)), "{done}");
    }
    drop(runs);
}

#[test]
fn cli_12_members_whose_inputs_cannot_be_written_cost_no_attempt_and_stop_the_worker() {
    let shop = Shop::open_with("true", &[], &[("TMPDIR", "/no/such/folder")]);
    let member = |key: &str| json!({"key": key, "kind": "k", "policy": {"retry": {"max_retries": 0}}});
    let flow = json!({"kind": "etl", "members": [member("a"), member("b")]});
    let flow = shop.caller.ok("POST", "/v1/flows", Some(&flow));
    let Shop { dev, worker, caller } = shop;
    let told = worker.wait_for("why it stops", |line| line.starts_with("error: "));
    assert!(told.contains("did not run 5 times in a row") && told.contains("could not write its inputs"), "{told}");
    assert_eq!(worker.exit_code(), Some(1));
    let runs = Running::err_of(command(&["worker", "--url", &dev.url, "--kind", "k", "--exec", "true"]));
    for key in ["a", "b"] {
        let done = caller.ended(flow["members"][key].as_str().unwrap());
        assert_eq!((&done["ended"]["outcome"], &done["attempts"]), (&json!("success"), &json!(1)), "{done}");
    }
    drop(runs);
}

#[test]
fn cli_1_a_worker_says_what_is_missing() {
    for (args, wanted) in [
        (vec!["worker", "--kind", "k"], "--exec"),
        (vec!["worker", "--exec", "true"], "--kind"),
        (vec!["worker", "--kind", "k", "--exec", "true", "--lease", "30"], "`30s`"),
        (vec!["worker", "--kind", "k", "--exec", "true", "--max-result", "1M"], "`1MiB`"),
        (vec!["worker", "--kind", "k", "--exec", "true", "--lease", "10ms"], "lease"),
    ] {
        let output = weft(&args);
        assert!(!text(&output.stderr).contains("takes "), "{args:?}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(wanted), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn cli_1_a_worker_says_nothing_in_json_and_little_if_it_is_asked_to() {
    for flag in ["--json", "--jsonl"] {
        for args in
            [&["worker", "--kind", "k", "--exec", "true", flag][..], &[flag, "worker", "--kind", "k", "--exec", "true"]]
        {
            let refused = weft(args);
            assert_eq!(refused.status.code(), Some(2), "{args:?}");
            assert!(text(&refused.stderr).contains("nothing to say in JSON"), "{}", text(&refused.stderr));
        }
    }
    let shop = Shop::open("cat", &["--quiet"]);
    assert_eq!(shop.run(json!({"input": {"json": 7}}))["ended"]["outcome"], "success");
    shop.worker.signal("-INT");
    let (code, lines) = shop.worker.last_lines();
    assert_eq!(code, Some(0));
    assert!(!lines.iter().any(|line| line.starts_with("takes ") || line.starts_with("stopping")), "{lines:?}");
}
