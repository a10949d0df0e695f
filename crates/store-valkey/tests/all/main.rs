//! The store on real servers.

// The lint spares test functions, and what they call is a test as much.
#![allow(clippy::unwrap_used)]

mod breaks;
mod floors;
mod levels;
mod moves;
mod opening;
mod races;
mod records;
mod servers;
mod tls;
mod wakes;
mod yardstick;
