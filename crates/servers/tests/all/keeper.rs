use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weft_servers::{Postgres, Valkey};

/// Set for the process that is killed below, which is this test again.
const VICTIM: &str = "WEFT_SERVERS_VICTIM";

#[test]
fn no_server_outlives_a_caller_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    let name = "keeper::no_server_outlives_a_caller_that_is_killed";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(VICTIM, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told: Vec<String> = lines.filter_map(|line| line.strip_prefix("told ").map(str::to_owned)).take(4).collect();
    let [valkey_pid, valkey_folder, postgres_pid, postgres_folder] = told.as_slice() else { panic!("{told:?}") };
    let family: Vec<PathBuf> = [valkey_pid, postgres_pid].into_iter().flat_map(|pid| family(pid)).collect();
    assert!(family.len() > 4, "Valkey, the postmaster and its forks: {family:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_gone(&family);
    wait_gone(&[valkey_folder, postgres_folder].map(PathBuf::from));
}

#[test]
fn a_server_that_is_dropped_leaves_nothing() {
    let valkey = Valkey::start(&[]).unwrap();
    let (folder, pid) = (valkey.folder().to_owned(), valkey.pid().unwrap());
    assert!(folder.exists());
    drop(valkey);
    assert!(!folder.exists());
    assert!(!process(pid).exists());
}

/// Starts servers, freezes one with its forks, tells where they are and waits to be killed.
fn victim() {
    let valkey = Valkey::start(&[]).unwrap();
    let postgres = Postgres::start().unwrap();
    postgres.pause().unwrap();
    for (pid, folder) in [(valkey.pid(), valkey.folder()), (postgres.pid(), postgres.folder())] {
        say(&pid.unwrap().to_string());
        say(&folder.display().to_string());
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[allow(clippy::print_stdout)]
fn say(word: &str) {
    println!("\ntold {word}");
}

fn process(pid: impl std::fmt::Display) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// A process and what it forked.
fn family(pid: &str) -> Vec<PathBuf> {
    let forks = std::fs::read_to_string(process(pid).join("task").join(pid).join("children")).unwrap();
    std::iter::once(pid).chain(forks.split_whitespace()).map(process).collect()
}

/// Nobody tells a stranger that a process has ended or a folder is gone, so this looks until a deadline.
fn wait_gone(paths: &[PathBuf]) {
    let started = Instant::now();
    while let Some(left) = paths.iter().find(|path| path.exists()) {
        assert!(started.elapsed() < Duration::from_secs(30), "{} is still there", left.display());
        std::thread::yield_now();
    }
}
