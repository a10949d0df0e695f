//! The real binary, from outside: what it prints, how it exits, and what survives when it is killed.

#![allow(clippy::unwrap_used)]

mod bench;
mod demo;
mod kill;
mod process;
mod sim;
mod usage;
