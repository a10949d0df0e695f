//! The servers do what tests of the stores rely on, each started for real.

// The lint spares test functions, and what they call is a test as much.
#![allow(clippy::unwrap_used)]

mod cluster;
mod keeper;
mod postgres;
mod proxy;
mod shared;
mod valkey;
