//! The server that the tests share, fresh schemas in it, and plain SQL beside the store.

use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, NoTls};
use weft_store_postgres::{Migrate, Options, PostgresStore};

/// How long a test waits for something that is bound to come.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A database that the tests may fill with schemas.
pub fn url() -> &'static str {
    weft_servers::shared_postgres_url()
}

/// A name that nobody else uses.
pub fn name() -> String {
    format!("weft_test_{:016x}", getrandom::u64().unwrap())
}

/// Options for a schema that nobody else uses.
pub fn fresh() -> Options {
    options(&name())
}

pub fn options(schema: &str) -> Options {
    with(schema, "")
}

/// With further parameters in the address.
pub fn with(schema: &str, parameters: &str) -> Options {
    at(url(), schema, parameters)
}

pub fn at(url: &str, schema: &str, parameters: &str) -> Options {
    Options::from_url(&format!("{url}?schema={schema}&{parameters}")).unwrap().migrate(Migrate::Auto)
}

pub async fn open_fresh(partitions: u16) -> PostgresStore {
    PostgresStore::open(fresh().partitions(partitions)).await.unwrap()
}

/// A session of its own, for looking behind the store's back.
pub async fn sql() -> Client {
    let (client, connection) = tokio_postgres::connect(url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Whatever the future gives, which must be soon.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what} did not come within {DEADLINE:?}"))
}

/// Asks again until the answer is there.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < DEADLINE, "{what} did not come within {DEADLINE:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Two nodes on a store of their own.
pub async fn pair() -> (PostgresStore, PostgresStore) {
    let options = fresh().partitions(2);
    let one = PostgresStore::open(options.clone()).await.unwrap();
    (one, PostgresStore::open(options).await.unwrap())
}
