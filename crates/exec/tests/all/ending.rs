//! Ending a program: by its worker's wish, by its worker's death, by its own end. Nothing of it is left.

use crate::process::{Watch, pids, runs};
use crate::{TRIAL, shell, supervisor, task, within};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use weft_exec::{Finish, Program, Report, run};

/// Deaf to SIGTERM, with a grandchild in its group, one in a session of its own, and one whose parent is gone. Tells the
/// supervisor, itself and the three, and waits for ever.
const DEAF_FAMILY: &str = r#"trap '' TERM
    sleep 1000 & child=$!
    setsid sleep 1000 & session=$!
    orphan=$(setsid sh -c 'sleep 1000 > /dev/null 2>&1 & echo $!')
    echo "pids $PPID $$ $child $session $orphan" >&2
    while :; do sleep 1000; done"#;

const GRACE_SHORT: Duration = Duration::from_millis(50);

/// Runs until the program has written a line to its log, lets `then` do something about it, and answers the end.
async fn after_its_line(program: Program, then: impl FnOnce(&str, oneshot::Sender<()>)) -> (String, Finish) {
    let (reports, mut said) = mpsc::channel(16);
    let (stop, stopped) = oneshot::channel();
    let running = tokio::spawn(async move { run(&program, task(), stopped, reports).await });
    let Some(Report::Log(line)) = within("its line", said.recv()).await else { panic!("said nothing") };
    then(&line, stop);
    said.close();
    (line, within("the program to end", running).await.unwrap())
}

fn stop(_: &str, stop: oneshot::Sender<()>) {
    stop.send(()).unwrap();
}

#[tokio::test]
async fn cli_14_a_program_that_is_deaf_to_sigterm_is_killed_with_its_family() {
    let program = Program { grace: GRACE_SHORT, ..shell(DEAF_FAMILY) };
    let (line, finish) = after_its_line(program, stop).await;
    assert_eq!(finish, Finish::Stopped);
    let pids = pids(&line);
    assert_eq!(pids.len(), 5, "{line}");
    for pid in pids {
        assert!(!runs(pid), "{pid} of `{line}` still runs");
    }
}

#[tokio::test]
async fn cli_14_the_whole_group_hears_sigterm_and_may_end_in_its_grace() {
    // The grandchild ends by the signal alone; only then does the program, by itself. It is the grandchild that says when
    // it is there: between fork and exec a signal would still go to the shell's own handler.
    let line = r#"trap 'wait; echo "{\"delay_ms\": 1}" > "$WEFT_CONTROL"; exit 3' TERM
                  sh -c 'echo ready >&2; exec sleep 1000' &
                  while :; do wait; done"#;
    let (_, finish) = after_its_line(shell(line), stop).await;
    assert_eq!(finish, Finish::Delay { ms: 1, checkpoint: None });
}

/// The shell dies of the signal. What it started says its number, and on SIGTERM does `on_term`.
fn shell_that_dies_first(on_term: &str) -> String {
    format!(r#"sh -c 'trap '"'"'{on_term}'"'"' TERM; echo "pids $$" >&2; while :; do sleep 0.01; done' & wait"#)
}

#[tokio::test]
async fn cli_14_the_rest_of_the_group_has_the_grace_too_when_the_shell_is_gone() {
    let line = shell_that_dies_first(r#"sleep 0.2; echo "{\"delay_ms\": 7}" > "$WEFT_CONTROL"; exit 0"#);
    let (_, finish) = after_its_line(shell(&line), stop).await;
    assert_eq!(finish, Finish::Delay { ms: 7, checkpoint: None });
}

#[tokio::test]
async fn cli_14_the_rest_of_the_group_is_killed_after_the_grace() {
    let program = Program { grace: GRACE_SHORT, ..shell(&shell_that_dies_first("")) };
    let (line, finish) = after_its_line(program, stop).await;
    assert_eq!(finish, Finish::Stopped);
    assert!(!runs(pids(&line)[0]), "{line}");
}

#[tokio::test]
async fn cli_14_a_program_that_ends_well_when_it_is_stopped_has_not_completed() {
    let (_, finish) =
        after_its_line(shell("trap 'exit 0' TERM; echo ready >&2; while :; do sleep 1000 & wait; done"), stop).await;
    assert_eq!(finish, Finish::Stopped);
}

#[tokio::test]
async fn cli_14_what_a_program_leaves_behind_ends_with_it() {
    let line = r#"sleep 1000 & child=$!; setsid sleep 1000 & echo "pids $$ $child $!" >&2; exit 3"#;
    let (line, finish) = after_its_line(shell(line), |_, stop| std::mem::forget(stop)).await;
    assert!(matches!(finish, Finish::Failed(_)), "{finish:?}");
    for pid in pids(&line) {
        assert!(!runs(pid), "{pid} of `{line}` still runs");
    }
}

#[tokio::test]
async fn cli_14_dropping_the_run_kills() {
    let (reports, mut said) = mpsc::channel(16);
    let program = shell(DEAF_FAMILY);
    let watches = {
        let running = std::pin::pin!(run(&program, task(), std::future::pending::<()>(), reports));
        let line = tokio::select! {
            finish = running => panic!("ended: {finish:?}"),
            line = within("its line", said.recv()) => line,
        };
        let Some(Report::Log(line)) = line else { panic!("said nothing") };
        pids(&line).into_iter().map(Watch::new).collect::<Vec<_>>()
    };
    for watch in watches {
        watch.until_gone();
    }
}

#[test]
fn cli_14_a_killed_worker_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let mut worker = Command::new(TRIAL);
    worker.args(["work", DEAF_FAMILY]).env("TMPDIR", temp.path()).stderr(Stdio::piped());
    let mut worker = worker.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(worker.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let watches: Vec<Watch> = pids(&line).into_iter().map(Watch::new).collect();
    assert_eq!(watches.len(), 5, "{line}");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);

    worker.kill().unwrap();
    worker.wait().unwrap();
    for watch in watches {
        watch.until_gone();
    }
    // The supervisor is among those that are gone, and it removed the folder first.
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn cli_14_a_killed_supervisor_takes_its_program_along() {
    let line = r#"sleep 1000 & child=$!; setsid sleep 1000 & echo "pids $PPID $$ $child $!" >&2; wait"#;
    let mut watches = Vec::new();
    let (_, finish) = after_its_line(shell(line), |line, stop| {
        watches = pids(line).into_iter().map(Watch::new).collect();
        signal_supervisor(line, Signal::KILL);
        std::mem::forget(stop);
    })
    .await;
    let Finish::Failed(failure) = finish else { panic!("{finish:?}") };
    assert!(failure.message.starts_with("was killed because its supervisor had ended"), "{}", failure.message);
    for watch in watches {
        watch.until_gone();
    }
}

#[tokio::test]
async fn cli_14_signals_to_all_processes_of_a_service_leave_the_supervisor_alone() {
    let line = r#"echo "pids $PPID" >&2; read -r _ < "$0"; echo done"#;
    let temp = tempfile::tempdir().unwrap();
    let gate = temp.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let command = vec!["/bin/sh".into(), "-c".into(), line.into(), gate.clone().into()];
    let (_, finish) = after_its_line(Program::new(command, supervisor()), |line, stop| {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
            signal_supervisor(line, signal);
        }
        std::fs::write(&gate, "go\n").unwrap();
        std::mem::forget(stop);
    })
    .await;
    assert!(matches!(finish, Finish::Completed { result: Some(_) }), "{finish:?}");
}

fn signal_supervisor(line: &str, signal: Signal) {
    let supervisor = i32::try_from(pids(line)[0]).unwrap();
    kill_process(Pid::from_raw(supervisor).unwrap(), signal).unwrap();
}

#[test]
fn cli_14_a_supervisor_is_not_started_by_hand() {
    let temp = tempfile::tempdir().unwrap();
    let mut by_hand = Command::new(TRIAL);
    by_hand.arg("supervise").arg(temp.path()).arg("true").stdin(Stdio::null());
    let output = by_hand.output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not by hand"));
    assert!(temp.path().exists());
}
