//! What becomes of a task by how its program ends and what it writes.

use crate::{failure, finish, shell, supervisor, task, watched, with_input};
use weft_exec::{Body, Failure, Finish, LOG_LINE_MAX, MESSAGE_MAX, Program, Report, Retry, category};

fn completed(text: &str, content_type: &str) -> Finish {
    Finish::Completed { result: Some(Body::new(text.to_owned(), content_type)) }
}

#[tokio::test]
async fn cli_10_the_input_is_on_stdin() {
    let program = Program::new(vec!["cat".into()], supervisor());
    assert_eq!(finish(&program, with_input(r#"{"a": 1}"#)).await, completed(r#"{"a": 1}"#, "application/json"));
    assert_eq!(finish(&program, task()).await, Finish::Completed { result: None });
}

#[tokio::test]
async fn cli_10_input_that_nobody_reads_holds_up_nothing() {
    let input = vec![b'x'; 8 << 20];
    assert_eq!(
        finish(&shell("echo done"), with_input(input.clone())).await,
        completed("done\n", "text/plain; charset=utf-8")
    );
    let some = shell("head -c 3; exec <&-; echo");
    assert_eq!(finish(&some, with_input(input)).await, completed("xxx\n", "text/plain; charset=utf-8"));
}

#[tokio::test]
async fn cli_11_the_result_is_what_it_looks_like() {
    for (line, bytes, content_type) in [
        ("echo '[1, 2]'", &b"[1, 2]\n"[..], "application/json"),
        ("echo hello", b"hello\n", "text/plain; charset=utf-8"),
        (r"printf '\377\000'", b"\xff\0", "application/octet-stream"),
    ] {
        let expected = Finish::Completed { result: Some(Body::new(bytes, content_type)) };
        assert_eq!(finish(&shell(line), task()).await, expected, "{line}");
    }
    assert_eq!(finish(&shell("true"), task()).await, Finish::Completed { result: None });
}

#[tokio::test]
async fn cli_11_a_result_has_a_limit() {
    let limited = |line: &str| Program { result_max: 100_000, ..shell(line) };
    let fits = finish(&limited("head -c 100000 /dev/zero"), task()).await;
    let Finish::Completed { result: Some(body) } = fits else { panic!("{fits:?}") };
    assert_eq!(body.bytes.len(), 100_000);
    for line in ["head -c 100001 /dev/zero", "exec cat /dev/zero"] {
        let Failure { category, message, retry, .. } = failure(&limited(line)).await;
        assert_eq!((category.as_str(), retry), (category::EXIT, Retry::Never), "{line}");
        assert!(message.contains("more than 100000 bytes"), "{line}: {message}");
    }
}

#[tokio::test]
async fn cli_12_the_exit_code_is_the_outcome() {
    for (line, message, retry, detail) in [
        ("echo result; exit 75", "exited with code 75", Retry::Policy, r#"{"code":75}"#),
        ("exit 65", "exited with code 65", Retry::Never, r#"{"code":65}"#),
        ("exit 3", "exited with code 3", Retry::Policy, r#"{"code":3}"#),
        ("kill -SEGV $$", "was killed by SIGSEGV", Retry::Policy, r#"{"signal":"SIGSEGV"}"#),
        ("kill -40 $$", "was killed by signal 40", Retry::Policy, r#"{"signal":"signal 40"}"#),
    ] {
        let expected = Failure {
            category: category::EXIT.to_owned(),
            message: message.to_owned(),
            retry,
            detail: Some(Body::new(detail, "application/json")),
        };
        assert_eq!(failure(&shell(line)).await, expected, "{line}");
    }
}

#[tokio::test]
async fn cli_12_a_signal_is_told_through_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("job.sh");
    std::fs::write(&script, "#!/bin/sh\necho working >&2\nkill -KILL $$\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let script = script.display();
    for line in [format!("{script}"), format!("{script}; exit $?"), format!("A=1 {script} || exit $?")] {
        let Failure { message, detail, .. } = failure(&shell(&line)).await;
        assert_eq!(message, "was killed by SIGKILL; stderr ended with\nworking", "{line}");
        assert_eq!(detail, Some(Body::new(r#"{"signal":"SIGKILL"}"#, "application/json")), "{line}");
    }
    assert_eq!(failure(&shell("exit 137")).await.message, "exited with code 137");
}

#[tokio::test]
async fn cli_12_the_message_has_the_last_lines_of_stderr() {
    let said = failure(&shell("for i in $(seq 1 25); do echo line $i >&2; done; printf end >&2; exit 1")).await.message;
    let expected = (7..=25).map(|i| format!("line {i}\n")).collect::<String>();
    assert_eq!(said, format!("exited with code 1; stderr ended with\n{expected}end"));
}

#[tokio::test]
async fn cli_12_a_message_is_never_too_long() {
    let line = "for i in $(seq 1 20); do head -c 2999 /dev/zero | tr '\\0' x >&2; echo é >&2; done; exit 1";
    let said = failure(&shell(line)).await.message;
    assert!(said.len() <= MESSAGE_MAX && said.len() > MESSAGE_MAX - 4, "{} bytes", said.len());
    assert!(said.starts_with("exited with code 1; stderr ended with\nx") && said.ends_with("xé"), "{said}");
}

#[tokio::test]
async fn cli_11_every_line_of_stderr_is_a_line_of_the_log() {
    let line =
        format!(r"printf 'one\n\ntwo\377\n' >&2; head -c {} /dev/zero | tr '\0' x >&2; printf end >&2", LOG_LINE_MAX);
    let (finish, reports) = watched(&shell(&line), task(), std::future::pending::<()>()).await;
    assert_eq!(finish, Finish::Completed { result: None });
    let long = "x".repeat(LOG_LINE_MAX);
    let expected = ["one", "", "two\u{fffd}", &long, "end"].map(|line| Report::Log(line.to_owned()));
    assert_eq!(reports, expected);
}

/// Why a program did not run.
async fn not_started(program: &Program) -> String {
    match finish(program, task()).await {
        Finish::NotStarted(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn cli_12_the_exit_codes_of_a_shell_that_ran_nothing_are_no_failures() {
    let said = not_started(&shell("./no-such-program; exit")).await;
    assert!(said.starts_with("exited with code 127, not found; stderr ended with\n"), "{said}");
    let said = not_started(&shell("/etc/passwd; exit")).await;
    assert!(said.starts_with("exited with code 126, not executable; stderr ended with\n"), "{said}");
    // What the program said itself goes first.
    let said = finish(&shell(r#"echo '{"delay_ms": 5}' > "$WEFT_CONTROL"; exit 127"#), task()).await;
    assert_eq!(said, Finish::Delay { ms: 5, checkpoint: None });
}

#[tokio::test]
async fn cli_12_a_program_that_cannot_be_started_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let check = async |program: &std::path::Path, why: &str| {
        let message = not_started(&Program::new(vec![program.into()], supervisor())).await;
        assert!(message.contains(&program.display().to_string()) && message.contains(why), "{message}");
    };
    check("no-such-program-anywhere".as_ref(), "name a program on the PATH").await;
    check(&script, "make it a file that may be executed").await;
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    check(&script, "interpreter in its first line").await;
}

#[tokio::test]
async fn cli_12_a_supervisor_that_is_none_is_named() {
    // The program has no part in it, so that it is not said to be what did not start.
    let not_prepared = async |program: &Program| match finish(program, task()).await {
        Finish::NotPrepared(why) => why,
        other => panic!("{other:?}"),
    };
    let missing = Program::shell("true", vec!["/no/such/supervisor".into()]);
    assert!(not_prepared(&missing).await.contains("could not start the supervisor `/no/such/supervisor`"));
    let other = Program::shell("true", vec!["/bin/sh".into(), "-c".into(), "echo what is this >&2; exit 2".into()]);
    let message = not_prepared(&other).await;
    assert!(message.contains("supervisor ended before") && message.ends_with("what is this"), "{message}");
}
