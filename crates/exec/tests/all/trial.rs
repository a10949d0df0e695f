//! A worker of one task, and its supervisor: what the binary does for `worker --exec`, without a node to claim from.
//!
//! `supervise …` is the supervisor; `work LINE` runs a line of the shell and passes its log on to stderr.

use std::io::Write;
use std::process::ExitCode;
use tokio::sync::mpsc;
use weft_exec::{Program, Report, Task, run, supervise, this_binary};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next().expect("trial: supervise or work");
    if verb == "supervise" {
        return supervise(arguments);
    }
    let program = Program::shell(arguments.next().expect("trial: a line"), this_binary("supervise"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("trial: a runtime");
    runtime.block_on(work(program));
    ExitCode::SUCCESS
}

async fn work(program: Program) {
    let (reports, mut said) = mpsc::channel(16);
    let log = async {
        while let Some(report) = said.recv().await {
            if let Report::Log(line) = report {
                writeln!(std::io::stderr(), "{line}").expect("trial: stderr is read");
            }
        }
    };
    tokio::join!(run(&program, Task::default(), std::future::pending::<()>(), reports), log);
}
