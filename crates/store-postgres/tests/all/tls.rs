//! Encrypted connections: what is trusted, and what a person is told about the rest.

use crate::server::{at, name};
use std::path::Path;
use tempfile::TempDir;
use weft_servers::Postgres;
use weft_store::Store;
use weft_store_postgres::PostgresStore;
use weft_tls::testing::{Certificates, certificates};

/// A server with a certificate for these names, and the file of the authority that signed it.
fn encrypted(names: &[&str]) -> (Postgres, TempDir) {
    let Certificates { authority, server, server_key, .. } = certificates(names).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority).unwrap();
    (Postgres::start_encrypted(&server, &server_key).unwrap(), folder)
}

fn trusting(folder: &Path) -> String {
    format!("sslmode=verify-full&sslrootcert={}", folder.join("ca.pem").display())
}

async fn refusal(server: &Postgres, parameters: &str) -> String {
    match PostgresStore::open(at(&server.url(), &name(), parameters)).await {
        Ok(_) => panic!("a store was opened with {parameters}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn sec_8_every_connection_is_encrypted() {
    let (server, folder) = encrypted(&["localhost", "127.0.0.1"]);
    let options = at(&server.url(), &name(), &trusting(folder.path())).partitions(2);
    let one = PostgresStore::open(options.clone()).await.unwrap();
    let two = PostgresStore::open(options).await.unwrap();
    one.listening().await;
    crate::wakes::tell(&two, crate::records::P0, 1, &["mail"], None).await;
    two.now().await.unwrap();
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let all = "select count(*), count(*) filter (where ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
               where application_name = 'weft'";
    let row = client.query_one(all, &[]).await.unwrap();
    let (connections, encrypted): (i64, i64) = (row.get(0), row.get(1));
    assert!(connections >= 4, "readers, bells and a writer: {connections}");
    assert_eq!(connections, encrypted);
}

#[tokio::test]
async fn sec_8_a_server_that_is_not_trusted_is_refused_with_what_to_do() {
    let (server, folder) = encrypted(&["db.example"]);
    let told = refusal(&server, &trusting(folder.path())).await;
    assert!(told.contains("another name"), "{told}");
    let stranger = tempfile::tempdir().unwrap();
    std::fs::write(stranger.path().join("ca.pem"), certificates(&["x"]).unwrap().authority).unwrap();
    let told = refusal(&server, &trusting(stranger.path())).await;
    assert!(told.contains("`sslrootcert=FILE`"), "{told}");
    let told = refusal(&server, "sslmode=require&sslrootcert=no/such/file").await;
    assert!(told.contains("`no/such/file`"), "{told}");
}

#[tokio::test]
async fn sec_8_a_server_without_tls_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), certificates(&["x"]).unwrap().authority).unwrap();
    let options = at(crate::server::url(), &name(), &trusting(folder.path()));
    let told = PostgresStore::open(options).await.map(drop).unwrap_err().to_string();
    assert!(told.contains("`ssl`") && told.contains("`plaintext=true`"), "{told}");
}
