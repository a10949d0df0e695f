//! Real programs, run and watched from outside: how they end, what they say, and that nothing of them is left.

#![allow(clippy::unwrap_used)]

mod control;
mod ending;
mod environment;
mod outcome;
mod process;

use bytes::Bytes;
use std::ffi::OsString;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_exec::{Failure, Finish, Program, Report, Task, run};

/// Far longer than anything here takes; who waits so long has found a hang.
const DEADLINE: Duration = Duration::from_secs(60);

const TRIAL: &str = env!("CARGO_BIN_EXE_weft-exec-trial");

fn supervisor() -> Vec<OsString> {
    vec![TRIAL.into(), "supervise".into()]
}

fn shell(line: &str) -> Program {
    Program::shell(line, supervisor())
}

fn task() -> Task {
    Task {
        execution: "x_0_1".to_owned(),
        attempt: 2,
        kind: "resize".to_owned(),
        lane: "mail".to_owned(),
        ..Task::default()
    }
}

fn with_input(input: impl Into<Bytes>) -> Task {
    Task { input: Some(input.into()), ..task() }
}

/// Runs to the end, with all that was reported.
async fn watched(program: &Program, task: Task, stop: impl Future) -> (Finish, Vec<Report>) {
    let (reports, mut said) = mpsc::channel(4);
    let gather = async {
        let mut gathered = Vec::new();
        while let Some(report) = said.recv().await {
            gathered.push(report);
        }
        gathered
    };
    within("the program to end", async { tokio::join!(run(program, task, stop, reports), gather) }).await
}

async fn finish(program: &Program, task: Task) -> Finish {
    watched(program, task, std::future::pending::<()>()).await.0
}

async fn failure(program: &Program) -> Failure {
    match finish(program, task()).await {
        Finish::Failed(failure) => failure,
        other => panic!("did not fail: {other:?}"),
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}
