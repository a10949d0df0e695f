//! Faults on real processes: nodes and servers that are killed, stopped and cut off under load. After each test a checker
//! compares what nodes were told with what the store knows: nothing acknowledged is lost, one outcome each, never two
//! valid leases.
//!
//! A round is one fault. `WEFT_FAULT_ROUNDS` says how many; without it there are few.

mod checker;
mod cluster;
mod deployment;
mod nodes;
mod servers;

/// Rounds of a test that makes `few` by itself.
fn rounds(few: u64) -> u64 {
    let asked = std::env::var("WEFT_FAULT_ROUNDS").ok();
    asked.map_or(few, |rounds| rounds.parse().expect("WEFT_FAULT_ROUNDS is a number"))
}
