//! What people ask about a store beside its verbs: what it promises, whether it is set up well, what it can do at best.

use std::fmt;

/// What an acknowledged commit survives, as the live settings of the store have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    pub level: Level,
    /// What has happened when a commit is acknowledged, as a sentence.
    pub acknowledged: String,
    /// What can be lost all the same, a sentence each.
    pub can_lose: Vec<String>,
    /// False if the store does not let this user see the settings.
    pub verified: bool,
}

/// How far an acknowledged commit has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// In the memory of the server.
    Memory,
    /// On the disk of the server.
    Local,
    /// On that disk, and received by replicas.
    Replicated,
    /// On the disks of the server and of all replicas.
    Strict,
}

impl Level {
    pub const ALL: [Level; 4] = [Level::Memory, Level::Local, Level::Replicated, Level::Strict];

    pub const fn name(self) -> &'static str {
        match self {
            Level::Memory => "memory",
            Level::Local => "local",
            Level::Replicated => "replicated",
            Level::Strict => "strict",
        }
    }

    pub fn from_name(name: &str) -> Option<Level> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.level.name(), self.acknowledged)
    }
}

/// One thing that a look at a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// What was looked at, in a word or two: `fsync`, `version`.
    pub subject: String,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if all is well.
    pub advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Fine,
    /// It works, and something may go wrong later.
    Warning,
    /// A node refuses to start like this, or data is in danger.
    Problem,
}

impl Finding {
    pub fn fine(subject: &str, found: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, subject: subject.into(), found: found.into(), advice: String::new() }
    }

    pub fn warning(subject: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, subject: subject.into(), found: found.into(), advice: advice.into() }
    }

    pub fn problem(subject: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, subject: subject.into(), found: found.into(), advice: advice.into() }
    }
}

/// What a store itself can do for the durable facts of executions, by hand-written statements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    pub lifecycles: usize,
    pub lifecycles_per_s: f64,
    /// The median of commits that insert one row and one feed entry.
    pub commit_ms: f64,
}
