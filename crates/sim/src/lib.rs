//! Deterministic simulation of the real engine: many nodes on one store in memory, on virtual time, with faults
//! everywhere and a judge that looks at every commit and every answer.
//!
//! Everything that happens in a seed follows from its number: no real clock, no entropy of the operating system, no
//! second thread. The judge decides by the commits alone and never asks the engine what it thinks.

pub mod checker;
mod client;
mod cluster;
mod dice;
pub mod executor;
mod flows;
mod log;
mod node;
mod outside;
mod report;
mod scenario;
mod seed;
mod tap;
mod worker;
mod workload;

pub use report::{Options, Red, Report, SOMETIMES, run, shrink};
pub use scenario::{Scenario, Settings, Trouble};
pub use seed::{SeedReport, run_seed, trace_seed};
