//! What a program says on its control pipe.

use crate::{finish, shell, task, watched};
use weft_exec::{Body, CONTROL_LINE_MAX, Failure, Finish, Report, Retry};

async fn reports(line: &str) -> (Finish, Vec<Report>) {
    watched(&shell(line), task(), std::future::pending::<()>()).await
}

#[tokio::test]
async fn cli_13_lines_are_reported_in_their_order() {
    let (finish, reports) = reports(
        r#"echo '{"progress": {"percent": 10, "message": "started"}}' > "$WEFT_CONTROL"
           exec 3> "$WEFT_CONTROL"
           echo '{"step": {"name": "pay", "value": "r-1"}}' >&3
           echo '{"progres": {"percent": 20}}' >&3
           echo >&3
           printf '{"checkpoint": {"page": 7}}' >&3
           echo result"#,
    )
    .await;
    let json = |text: &'static str| Body::new(text, "application/json");
    let warning = "left out a line of the control pipe: `progres` is unknown; did you mean `progress`?";
    let expected = [
        Report::Progress { percent: Some(10), message: Some("started".to_owned()) },
        Report::Step { name: "pay".to_owned(), value: json(r#""r-1""#) },
        Report::Warning(warning.to_owned()),
        Report::Checkpoint(json(r#"{"page": 7}"#)),
    ];
    assert_eq!(reports, expected);
    assert_eq!(finish, Finish::Completed { result: Some(Body::new("result\n", "text/plain; charset=utf-8")) });
}

#[tokio::test]
async fn cli_13_a_line_that_is_too_long_is_left_out() {
    let long = CONTROL_LINE_MAX + 1;
    let (finish, reports) = reports(&format!(
        r#"exec 3> "$WEFT_CONTROL"
           head -c {long} /dev/zero | tr '\0' ' ' >&3; echo '{{"delay_ms": 1}}' >&3
           head -c {long} /dev/zero | tr '\0' ' ' >&3; echo >&3
           echo '{{"progress": {{}}}}' >&3"#
    ))
    .await;
    let warning =
        Report::Warning(format!("left out a line of the control pipe: it is longer than {CONTROL_LINE_MAX} bytes"));
    assert_eq!(reports, [warning.clone(), warning, Report::Progress { percent: None, message: None }]);
    assert_eq!(finish, Finish::Completed { result: None });
}

#[tokio::test]
async fn cli_13_a_delay_wins_over_the_exit_code() {
    let checkpoint = Some(Body::new("7", "application/json"));
    let expected = Finish::Delay { ms: 5000, checkpoint };
    for code in [0, 3, 65] {
        let line = format!(r#"echo '{{"delay_ms": 5000, "checkpoint": 7}}' > "$WEFT_CONTROL"; exit {code}"#);
        assert_eq!(finish(&shell(&line), task()).await, expected, "{code}");
    }
}

#[tokio::test]
async fn cli_13_a_failure_wins_over_the_exit_code_and_the_last_wish_counts() {
    let line = r#"echo '{"delay_ms": 5}' > "$WEFT_CONTROL"
                  echo '{"fail": {"category": "smtp", "message": "550", "retry": {"after_ms": 9}}}' > "$WEFT_CONTROL"
                  echo result"#;
    let failure =
        Failure { category: "smtp".to_owned(), message: "550".to_owned(), retry: Retry::AfterMs(9), detail: None };
    assert_eq!(finish(&shell(line), task()).await, Finish::Failed(failure));
}

#[tokio::test]
async fn cli_13_nobody_who_listens_is_no_reason_to_fail() {
    let (reports, said) = tokio::sync::mpsc::channel(1);
    drop(said);
    let program = shell(r#"for i in 1 2 3; do echo log >&2; echo '{"progress": {}}' > "$WEFT_CONTROL"; done"#);
    let run = weft_exec::run(&program, task(), std::future::pending::<()>(), reports);
    assert_eq!(crate::within("the program to end", run).await, Finish::Completed { result: None });
}
