//! What a program is told, what it is not told, and that none of it stays behind.

use crate::{TRIAL, finish, shell, task, with_input};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::process::Command;
use weft_exec::{Finish, Program, Task};

async fn stdout(program: &Program, task: Task) -> String {
    match finish(program, task).await {
        Finish::Completed { result: Some(body) } => String::from_utf8(body.bytes.to_vec()).unwrap(),
        other => panic!("no result: {other:?}"),
    }
}

#[tokio::test]
async fn cli_10_the_task_is_in_the_environment() {
    let tags = BTreeMap::from([("customer".to_owned(), "\"acme\" & 'sons'".to_owned())]);
    let line = r#"echo "$X_EXECUTION|$X_ATTEMPT|$X_KIND|$X_LANE|$X_TAGS|${X_INPUT_FILE-none}|${X_CHECKPOINT_FILE-none}|${WEFT_KIND-none}""#;
    let program = Program { env_prefix: "X_".to_owned(), ..shell(line) };
    let said = stdout(&program, Task { tags, ..task() }).await;
    assert_eq!(said, "x_0_1|2|resize|mail|{\"customer\":\"\\\"acme\\\" & 'sons'\"}|none|none|none\n");
}

#[tokio::test]
async fn cli_10_files_are_for_the_program_alone_and_go_away() {
    let line = r#"cat "$WEFT_INPUT_FILE" "$WEFT_CHECKPOINT_FILE" -; echo
                  stat -c '%a %F' "$(dirname "$WEFT_CONTROL")" "$WEFT_CONTROL" "$WEFT_INPUT_FILE" "$WEFT_CHECKPOINT_FILE"
                  dirname "$WEFT_CONTROL""#;
    let program = Program { input_as_file: true, ..shell(line) };
    let task = Task { checkpoint: Some(Bytes::from("-checkpoint")), ..with_input("input") };
    let said = stdout(&program, task).await;
    let (said, folder) = said.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(said, "input-checkpoint\n700 directory\n600 fifo\n600 regular file\n600 regular file");
    assert!(!std::path::Path::new(folder).exists(), "{folder} is still there");
}

#[tokio::test]
async fn cli_10_input_on_stdin_is_nowhere_else_while_the_program_runs() {
    let said = stdout(&shell(r#"cat; ls "$(dirname "$WEFT_CONTROL")""#), with_input("input\n")).await;
    assert_eq!(said, "input\ncontrol\n");
}

#[test]
fn sec_16_no_secret_of_the_node_is_in_the_environment() {
    let secrets =
        ["WEFT_KEY", "WEFT_KEY_FILE", "WEFT_MASTER_KEY", "WEFT_BOOTSTRAP_KEY", "WEFT_STORE", "WEFT_TEST_ANY_OTHER"];
    let mut worker = Command::new(TRIAL);
    // The parent of the program is its supervisor, whose environment can be read just as well.
    worker.args(["work", "env >&2; tr '\\0' '\\n' < /proc/$PPID/environ >&2"]).env("PLAIN", "is-passed-on");
    worker.envs(secrets.map(|name| (name, "not-to-be-seen")));
    let output = worker.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("PLAIN=is-passed-on").count(), 2, "{said}");
    assert_eq!(said.matches("WEFT_EXECUTION=").count(), 2, "{said}");
    assert!(!said.contains("not-to-be-seen"), "{said}");
}
