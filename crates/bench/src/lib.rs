//! The measured workloads: how fast the engine is, against what its store could do at best on the same machine.
//!
//! A figure counts only as a ratio of two measurements of one run, so every scenario alternates its sides and takes the
//! best of three. Every scenario verifies its own outcome and fails otherwise: a fast wrong answer is a failure. No
//! concrete store is named here; a `Target` brings one.

mod crew;
mod load;
mod options;
pub mod page;
mod process;
mod remote;
mod report;
mod scenario;
mod target;
mod verify;
mod watch;

pub use options::Options;
pub use report::{Backlog, Idle, Report};
pub use scenario::{Scenario, run};
pub use target::{Bed, Floor, Served, Target};
pub use watch::{Silent, Watch};
