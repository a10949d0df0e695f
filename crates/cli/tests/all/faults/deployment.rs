//! A store and the nodes that run on it.

use crate::process::{Running, stdout, weft};
use std::path::PathBuf;
use tempfile::TempDir;

/// A store with a ledger per node. Nodes that are left are killed when it goes.
pub struct Deployment {
    pub url: String,
    dir: TempDir,
    /// Nodes that were started so far; the number of each is in its name.
    started: usize,
}

impl Deployment {
    /// On a store that does not exist yet.
    pub fn new(url: String) -> Self {
        stdout(&weft(&["migrate", "--store", &url]));
        Self { url, dir: TempDir::new().unwrap(), started: 0 }
    }

    pub fn sqlite() -> Self {
        let dir = TempDir::new().unwrap();
        let url = format!("sqlite://{}/data/weft.db", dir.path().display());
        Self { url, dir, started: 0 }
    }

    pub fn postgres(server: &str, schema: &str) -> Self {
        Self::new(format!("{server}?schema=fault_{schema}&partitions=4"))
    }

    pub fn valkey(server: &str, prefix: &str, durability: &str) -> Self {
        Self::new(format!("{server}?prefix=fault_{prefix}&partitions=8&durability={durability}"))
    }

    /// A node that works as fast as it can.
    pub fn start(&mut self) -> Node {
        self.start_at(self.url.clone(), 0)
    }

    /// A node that reaches the store by another address, and whose workers hold what they claim for a while.
    pub fn start_at(&mut self, url: String, work_ms: u64) -> Node {
        self.started += 1;
        let (name, work_ms) = (format!("n{}", self.started), work_ms.to_string());
        let ledger = self.dir.path().join(format!("{name}.ledger"));
        let path = ledger.to_str().unwrap();
        let args = ["crash-node", "--store", &url, "--ledger", path, "--round", &name, "--work-ms", &work_ms];
        let log = self.dir.path().join(format!("{name}.log"));
        let running = Running::out_logged(&args, &log);
        running.wait_for("that the node is ready", |line| line == "ready");
        Node { running, ledger }
    }

    pub fn ledgers(&self) -> Vec<PathBuf> {
        (1..=self.started).map(|number| self.dir.path().join(format!("n{number}.ledger"))).collect()
    }
}

/// A running node.
pub struct Node {
    running: Running,
    pub ledger: PathBuf,
}

impl Node {
    /// Waits until so much has been acknowledged to it since it started.
    pub fn reach(&self, acknowledged: u64) -> u64 {
        let count = |line: &str| line.strip_prefix("acknowledged ").map(|count| count.parse::<u64>().unwrap());
        let line = self.running.wait_for("enough acknowledged work", |line| count(line) >= Some(acknowledged));
        count(&line).unwrap()
    }

    /// Waits until it has gone on by so much from now.
    pub fn go_on(&self, by: u64) {
        self.running.forget_lines();
        let now = self.reach(0);
        self.reach(now + by);
    }

    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    pub fn signal(&self, signal: &str) {
        let done = std::process::Command::new("kill").args([signal, &self.pid().to_string()]).status().unwrap();
        assert!(done.success());
    }

    pub fn kill(self) {
        self.running.kill();
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(self) {
        self.signal("-TERM");
        self.running.end_well();
    }
}
