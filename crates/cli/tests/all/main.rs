//! The real binary, from outside: what it prints, how it exits, and what survives when it is killed.

#![allow(clippy::unwrap_used)]

mod bench;
mod config;
mod demo;
mod dev;
mod doctor;
mod examples;
mod faults;
mod fuzz;
mod http;
mod kill;
mod places;
mod process;
mod python;
mod remote;
mod serve;
mod sim;
mod stores;
#[cfg(not(feature = "otel"))]
mod traces;
mod transfer;
mod usage;
mod worker;
