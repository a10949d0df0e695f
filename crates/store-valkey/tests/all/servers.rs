//! Where the servers are: shared ones under a prefix of each test's own, or one of its own that it may harm.

use weft_servers::{Cluster, Valkey, shared_cluster_url, shared_valkey_url};
use weft_store_valkey::{Migrate, Options};

/// The shared server, with keys of this test's own.
pub fn standalone(name: &str) -> Options {
    options(shared_valkey_url(), name)
}

/// The shared cluster, with keys of this test's own.
pub fn cluster(name: &str) -> Options {
    options(shared_cluster_url(), name)
}

pub fn on(server: &Valkey) -> Options {
    options(&server.url(), "own")
}

pub fn on_cluster(cluster: &Cluster) -> Options {
    options(&cluster.url(), "own")
}

pub fn options(url: &str, name: &str) -> Options {
    let mut options = Options::from_url(url).unwrap();
    options.prefix = format!("test_{name}");
    options.migrate = Migrate::Auto;
    options
}
