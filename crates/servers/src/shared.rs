//! One server of each kind for all tests that can share it. Where `cargo xtask test` has started it, a variable says so;
//! else the first test of a process starts it, and it ends with the process.

use crate::error::Result;
use crate::{Cluster, Postgres, Valkey};
use std::sync::OnceLock;

/// The variables in which the runner of the tests says where the servers are.
pub mod variables {
    pub const POSTGRES: &str = "WEFT_TEST_POSTGRES";
    pub const VALKEY: &str = "WEFT_TEST_VALKEY";
    pub const CLUSTER: &str = "WEFT_TEST_VALKEY_CLUSTER";
}

/// A PostgreSQL that other tests use at the same time: make a database of your own in it, and never stop it.
///
/// # Panics
/// If the server cannot be had: a test that needs it is red then, not skipped.
pub fn shared_postgres_url() -> &'static str {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    static URL: OnceLock<String> = OnceLock::new();
    shared(&URL, variables::POSTGRES, &SERVER, Postgres::start, Postgres::url)
}

/// A Valkey that other tests use at the same time: use keys of your own, and never stop nor empty it.
///
/// # Panics
/// If the server cannot be had: a test that needs it is red then, not skipped.
pub fn shared_valkey_url() -> &'static str {
    static SERVER: OnceLock<Valkey> = OnceLock::new();
    static URL: OnceLock<String> = OnceLock::new();
    shared(&URL, variables::VALKEY, &SERVER, || Valkey::start(&[]), Valkey::url)
}

/// A cluster of three primaries with a replica each that other tests use at the same time: use keys of your own, and never
/// stop, empty or reshape it.
///
/// # Panics
/// If the servers cannot be had: a test that needs them is red then, not skipped.
pub fn shared_cluster_url() -> &'static str {
    static SERVER: OnceLock<Cluster> = OnceLock::new();
    static URL: OnceLock<String> = OnceLock::new();
    shared(&URL, variables::CLUSTER, &SERVER, || Cluster::start(3, 1), Cluster::url)
}

/// The server stays in a static, which is never dropped: its keeper ends it when this process ends.
fn shared<T>(
    url: &'static OnceLock<String>,
    variable: &str,
    server: &'static OnceLock<T>,
    start: impl FnOnce() -> Result<T>,
    url_of: impl FnOnce(&T) -> String,
) -> &'static str {
    url.get_or_init(|| {
        std::env::var(variable).ok().filter(|url| !url.is_empty()).unwrap_or_else(|| {
            let started = start().unwrap_or_else(|error| panic!("{error}"));
            url_of(server.get_or_init(|| started))
        })
    })
}
