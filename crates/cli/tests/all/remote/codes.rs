//! Exit codes, one by one, and what is said with each.

use super::Server;
use crate::process::{Running, stdout, weft};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn cli_1_every_exit_code_is_told_in_the_help() {
    let help = stdout(&weft(&["--help"]));
    for part in [
        "0 done",
        "1 refused",
        "2 misused",
        "3 unreachable or timed out",
        "4 not allowed",
        "5 the execution or flow ended without success",
        "130 interrupted",
    ] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
}

#[test]
fn cli_1_what_the_server_refuses_exits_with_1() {
    let server = Server::start();
    let id = server.submit(&["a"]);
    server.out(&["cancel", &id]);
    let told = server.fails(1, &["cancel", "x_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7"]);
    assert!(told.starts_with("error[execution_not_found]: cannot cancel: "), "{told}");
    assert!(server.fails(1, &["submit", "a", "--lane", ""]).starts_with("error[invalid_argument]: cannot submit: "));
}

#[test]
fn cli_1_misuse_exits_with_2_before_anything_is_sent() {
    // Nobody listens there: whoever is told of misuse was not told of that.
    for (args, part) in [
        (&["submit", "a", "--input", "{order: 17}"][..], "`--input` is not JSON"),
        (&["submit", "a", "--input", "@nowhere.json"][..], "cannot read `nowhere.json`"),
        (&["submit", "a", "--delay", "10"][..], "`15m`"),
        (&["submit"][..], "KIND"),
        (&["cancel"][..], "nothing to cancel is named"),
        (&["cancel", "3c9e01", "--lane", "mail"][..], "exclude each other"),
        (&["get", "mail"][..], "not the id of an execution"),
        (&["list", "--state", "failled"][..], "'failed'"),
        (&["list", "--json", "--jsonl"][..], "--jsonl"),
        (&["list", "--key-file", "nowhere.key"][..], "cannot read the key in `nowhere.key`"),
        (&["list", "--url", "ftp://x"][..], "ftp"),
        (&["tag", "3c9e01"][..], "--set"),
        (&["reschedule", "3c9e01", "--at", "noon"][..], "2026-11-16T20:15:00Z"),
        (&["--url", "http://127.0.0.1:1", "version"][..], "talk to a server"),
        (&["--json", "completion", "bash"][..], "nothing to say in JSON"),
        (&["wait", "3c9e01", "--timeout", "0s"][..], "no time"),
        (&["submit", "a", "--priority", "-1"][..], "0..=9000"),
        (&["submit", "a", "--delay", "-5s"][..], "`15m`"),
        (&["submit", "a", "--tag", "a=b", "--tag", "a=c"][..], "the tag `a` is given twice"),
        (&["list", "--filter", "lnae=mail"][..], "did you mean `lane`?"),
        (&["nodes", "--url", "http://127.0.0.1:1", "--store", "sqlite:x"][..], "exclude each other"),
    ] {
        let output = weft(args);
        let told = crate::process::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(part), "{args:?}: {told}");
    }
}

#[test]
fn cli_1_a_server_that_is_not_there_and_a_wait_that_is_too_long_exit_with_3() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = weft(&["list", "--url", &format!("http://{free}")]);
    assert_eq!(output.status.code(), Some(3));
    let told = crate::process::text(&output.stderr);
    assert!(
        told.starts_with("error[unreachable]: could not list: ") && told.contains("hint: is it running?"),
        "{told}"
    );
    assert_eq!(told.matches("running?").count(), 1, "{told}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = weft(&["list", "--url", &format!("http://{}", silent.local_addr().unwrap()), "--timeout", "100ms"]);
    let told = crate::process::text(&output.stderr);
    assert!(output.status.code() == Some(3) && !told.contains("running?"), "{told}");

    let server = Server::start();
    let id = server.submit(&["a"]);
    let told = server.fails(3, &["wait", &id, "--timeout", "250ms"]);
    assert!(told.starts_with(&format!("error[timed_out]: `{id}` is still waiting after ")), "{told}");
    assert!(told.contains("hint: `weft explain …"), "{told}");
}

#[test]
fn cli_1_who_is_not_allowed_exits_with_4() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4096];
        let length = stream.read(&mut asked).unwrap();
        let problem =
            json!({"type": "urn:weft:error:forbidden", "title": "", "status": 403, "code": "forbidden", "class": "fix",
                             "detail": "the key has no scope `operate`", "fields": {}})
            .to_string();
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            problem.len()
        );
        stream.write_all((head + &problem).as_bytes()).unwrap();
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "weft_7f3k2m9q_secret\n").unwrap();
    let output = weft(&["workers", "--url", &url, "--key-file", key.path().to_str().unwrap(), "--namespace", "shop"]);
    assert_eq!(output.status.code(), Some(4));
    let told = crate::process::text(&output.stderr);
    assert_eq!(told, "error[forbidden]: cannot list workers: the key has no scope `operate`\n");
    let asked = serving.join().unwrap().to_lowercase();
    assert!(
        asked.contains("authorization: bearer weft_7f3k2m9q_secret\r\n") && asked.contains("weft-namespace: shop\r\n"),
        "{asked}"
    );
}

#[test]
fn cli_1_an_execution_without_success_exits_with_5() {
    let server = Server::start();
    let submitted = Running::out_of(server.command(&["submit", "invoice.send", "--lane", "mail", "--wait"]));
    server.fail("mail", "550 no such user");
    submitted.wait_for("its end", |line| {
        line.contains("  failed after 1 attempt in ") && line.contains(": smtp \"550 no such user\"")
    });
    assert_eq!(submitted.exit_code(), Some(5));
    let id = server.json(&["list"])["items"][0]["id"].as_str().unwrap().to_owned();
    for args in [&["wait", &id][..], &["result", &id], &["get", &id, "--watch"]] {
        server.fails(5, args);
    }
}

#[test]
fn cli_1_an_interrupted_wait_exits_with_130() {
    let server = Server::start();
    let id = server.submit(&["a"]);
    let watching = Running::out_of(server.command(&["get", &id, "--watch"]));
    watching.wait_for("the state", |line| line.starts_with("state "));
    watching.signal("-INT");
    assert_eq!(watching.exit_code(), Some(130));
    assert_eq!(server.state(&id), "waiting", "only the wait has ended");
}

#[test]
fn cli_3_unknown_words_are_answered_with_the_nearest() {
    for (args, nearest) in [
        (&["sumbit", "a"][..], "'submit'"),
        (&["cancle", "3c9e01"][..], "'cancel'"),
        (&["list", "--lnae", "mail"][..], "'--lane'"),
        (&["submit", "a", "--idempotencykey", "k"][..], "'--idempotency-key'"),
        (&["key", "creat"][..], "'create'"),
        (&["count", "--by", "lanes"][..], "'lane'"),
    ] {
        let output = weft(args);
        let told = crate::process::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(told.contains(nearest), "{args:?}: {told}");
    }
}
