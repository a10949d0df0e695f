//! The server over real sockets of this machine.

#![allow(clippy::unwrap_used)]

mod access;
mod batches;
mod big;
mod cors;
mod dev;
mod drain;
mod flows;
mod full;
mod keys;
mod kit;
mod leftovers;
mod malformed;
mod notices;
mod overload;
mod pages;
mod parked;
mod payloads;
mod protocols;
mod repeats;
mod revisions;
mod routes;
mod silence;
mod tls;
mod waiting;
