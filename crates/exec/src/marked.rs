//! Processes that are known by a variable in their environment. The last resort: nobody knows them otherwise.

use rustix::process::{Pid, Signal, kill_process};

/// Whoever was killed takes a moment to go, and may have started another before.
const ROUNDS_MAX: usize = 1_000;

/// Kills every process that was started with this variable, and answers whether there was any. Does nothing where there
/// is no /proc.
pub fn kill(name: &str, value: &str) -> bool {
    let variable = format!("{name}={value}").into_bytes();
    let mut found = false;
    for _ in 0..ROUNDS_MAX {
        let marked = find(&variable);
        if marked.is_empty() {
            break;
        }
        found = true;
        for pid in marked {
            // Gone already is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::yield_now();
    }
    found
}

fn find(variable: &[u8]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_it = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable)
    };
    numbers.filter_map(Pid::from_raw).filter(has_it).collect()
}
