//! Files of submissions.

use super::Server;
use crate::process::text;
use std::io::Write;
use std::process::Stdio;

#[test]
fn a_file_is_submitted_line_by_line_with_what_the_flags_say() {
    let server = Server::start();
    let mut weft = server.command(&["submit", "mail", "--batch", "-", "--lane", "bulk"]);
    let mut child = weft.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = "{\"input\": {\"json\": 1.00}}\n\n{\"kind\": \"sms\", \"lane\": \"\"}\n{}\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "one line was refused");
    let told = text(&output.stderr);
    assert!(told.contains("-:3: invalid_argument: ") && told.contains("submitted 2 executions, 1 refused"), "{told}");
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().filter(|line| line.ends_with("  waiting")).count(), 2, "{printed}");
    assert_eq!(server.out(&["count", "--lane", "bulk", "--kind", "mail"]), "2\n");
    let first = printed.split("  ").next().unwrap();
    assert!(server.out(&["get", first, "--input"]).contains("input     1.00\n"), "digits stay as they were sent");
}

#[test]
fn cli_1_a_wrong_line_stops_everything_before_it_begins() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"a\"}\n{\"kind\": \"a\", \"prioritty\": 3}\n").unwrap();
    let path = file.path().to_str().unwrap();
    let told = server.fails(2, &["submit", "--batch", path]);
    assert!(told.contains(&format!("{path}:2: ")) && told.contains("did you mean `priority`?"), "{told}");
    assert_eq!(server.out(&["count"]), "0\n");
}

#[test]
fn a_batch_can_be_waited_for() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"a\", \"lane\": \"l\"}\n".repeat(2)).unwrap();
    let waiting = crate::process::Running::out_of(server.command(&[
        "submit",
        "--batch",
        file.path().to_str().unwrap(),
        "--wait",
    ]));
    server.complete("l", 1.into());
    server.fail("l", "no");
    for _ in 0..2 {
        waiting.wait_for("an end", |line| line.contains(" after 1 attempt"));
    }
    assert_eq!(waiting.exit_code(), Some(5));
}
