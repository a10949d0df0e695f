//! Real servers for tests: PostgreSQL, Valkey, a Valkey Cluster, and a proxy that cuts connections at a chosen byte.
//!
//! Every server is a child of the caller, on a free loopback port, with a folder of its own that goes away with it. No
//! server outlives its caller, however the caller ends: a shell beside each server holds the reading end of a pipe, and
//! when the pipe closes it kills the server and removes the folder (`keeper.rs`). Everything here is synchronous and takes
//! `&self`, so that plain and asynchronous tests use it alike. Nothing of Weft is known here.

mod cache;
mod cluster;
mod error;
mod keeper;
mod log;
mod port;
mod postgres;
mod process;
mod proxy;
pub mod python;
mod shared;
mod tree;
mod valkey;
mod wait;

pub use cluster::{Cluster, Failover, NODE_TIMEOUT, SLOTS};
pub use error::Error;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use shared::{shared_cluster_url, shared_postgres_url, shared_valkey_url, variables};
pub use valkey::{Connection, Reply, Valkey};
