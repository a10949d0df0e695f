//! Running one task from its input to its outcome.

use crate::ending::Ending;
use crate::finish::{self, Finish};
use crate::folder::Folder;
use crate::lines::Pipe;
use crate::program::Program;
use crate::report::Report;
use crate::task::Task;
use crate::{control, output, supervised};
use std::io;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc, watch};

/// Runs the program for one task and answers what became of it, when nothing of the program is left: not a process, not a
/// file.
///
/// `stop` is a cancel, a lost lease, a timeout or a shutdown: the program's group gets SIGTERM, and SIGKILL when the grace
/// is over. Dropping the future kills at once.
///
/// All reports are sent before this answers. They hold the program up as long as they are not received; a receiver that
/// is gone holds up nothing.
pub async fn run(program: &Program, task: Task, stop: impl Future, reports: mpsc::Sender<Report>) -> Finish {
    match try_run(program, task, stop, reports).await {
        Ok(finish) => finish,
        Err(why) => Finish::not_prepared(why),
    }
}

async fn try_run(
    program: &Program,
    task: Task,
    stop: impl Future,
    reports: mpsc::Sender<Report>,
) -> Result<Finish, String> {
    if program.command.is_empty() {
        return Ok(Finish::not_started("there is no program to start; name one"));
    }
    let no_folder = |error: io::Error| format!("could not make a folder for the task: {error}");
    let (task, folder) = prepare(task, program.input_as_file).await.map_err(no_folder)?;
    let (control, control_in) = open(&folder).map_err(no_folder)?;
    let (supervised, pipes) = supervised::start(program, &task, &folder)?;
    drop(task);

    let (end, ended) = watch::channel(false);
    let pipe = |receiver| Pipe::new(receiver, ended.clone());
    let too_long = Notify::new();
    let ending = async {
        let ending: Ending = supervised.end(stop, &too_long, program.grace).await;
        end.send_replace(true);
        ending
    };
    let (ending, output, mut tail, said) = tokio::join!(
        ending,
        output::collect(pipe(pipes.stdout), program.result_max, &too_long),
        output::log(pipe(pipes.stderr), &reports),
        control::listen(pipe(control), &reports),
    );
    drop((control_in, folder));
    let ending = if program.by_shell { ending.seen_through(&mut tail) } else { ending };
    Ok(finish::decide(said, ending, output, &tail))
}

async fn prepare(task: Task, input_as_file: bool) -> io::Result<(Task, Folder)> {
    let make = move || Folder::make(&task, input_as_file).map(|folder| (task, folder));
    tokio::task::spawn_blocking(make).await.map_err(io::Error::other)?
}

/// Both ends of the control pipe. A writing end stays here, so that the pipe does not end whenever one line is written.
fn open(folder: &Folder) -> io::Result<(pipe::Receiver, pipe::Sender)> {
    let path = folder.control();
    let receiver = pipe::OpenOptions::new().open_receiver(&path)?;
    let sender = pipe::OpenOptions::new().open_sender(&path)?;
    Ok((receiver, sender))
}
