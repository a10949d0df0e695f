use std::net::TcpStream;
use weft_servers::{shared_cluster_url, shared_postgres_url, shared_valkey_url};

/// Where the runner of the tests has started them, they are those; else they are started here.
#[test]
fn shared_servers_are_had_once_and_answer() {
    let urls = || [shared_postgres_url(), shared_valkey_url(), shared_cluster_url()];
    let first = urls();
    assert_eq!(first, urls());
    for url in first {
        let addr = url.split(['/', '@', ',']).filter(|part| part.contains(':')).nth(1).unwrap();
        TcpStream::connect(addr).unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}
