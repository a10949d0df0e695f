//! Clients and workers: on virtual time with the harness, and one suite over real sockets and in the process.

#![allow(clippy::unwrap_used)]

mod between;
mod both;
mod children;
mod flows;
mod handlers;
mod leases;
mod losses;
mod outcomes;
mod registry;
mod remote;
mod renewals;
mod steps;
mod traces;
