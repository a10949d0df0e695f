//! Clients and workers: on virtual time with the harness, and one suite over real sockets and in the process.

#![allow(clippy::unwrap_used)]

mod both;
mod children;
mod handlers;
mod leases;
mod losses;
mod remote;
mod steps;
