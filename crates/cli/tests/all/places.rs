//! Stores of every kind for one test each, on servers that tests share.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_servers::Connection;

/// A name that no other test has.
pub fn fresh_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("weft_cli_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn sqlite(folder: &Path, name: &str) -> String {
    format!("sqlite://{}", folder.join(name).join("weft.db").display())
}

/// An address on the shared PostgreSQL, with a schema of its own that does not exist yet.
pub fn postgres(parameters: &str) -> String {
    with(weft_servers::shared_postgres_url(), &format!("schema={}{parameters}", fresh_name()))
}

/// An address on the shared Valkey, with a prefix of its own under which nothing is.
pub fn valkey(parameters: &str) -> String {
    with(weft_servers::shared_valkey_url(), &format!("prefix={}{parameters}", fresh_name()))
}

/// The address with more parameters.
pub fn with(url: &str, parameters: &str) -> String {
    format!("{url}{}{parameters}", if url.contains('?') { '&' } else { '?' })
}

/// Schemas on the shared PostgreSQL whose name begins with this.
pub fn schemas(prefix: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = weft_servers::shared_postgres_url();
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let rows = client.query("select nspname from pg_namespace where starts_with(nspname, $1)", &[&prefix]).await;
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    })
}

/// How many keys on the shared Valkey begin with this.
pub fn keys(prefix: &str) -> usize {
    let server = weft_servers::shared_valkey_url().trim_start_matches("valkey://");
    let server: SocketAddr = server.split(['/', '?']).next().unwrap().parse().unwrap();
    let mut connection = Connection::open(server).unwrap();
    match connection.command(&["KEYS", &format!("{prefix}*")]).unwrap() {
        weft_servers::Reply::Array(keys) => keys.len(),
        other => panic!("{other:?}"),
    }
}
