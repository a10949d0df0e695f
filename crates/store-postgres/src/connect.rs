//! Opening a connection: address, timeouts, and the settings that every session of the store has.

use crate::durability;
use crate::link::Link;
use crate::open_error::OpenError;
use crate::options::{Options, chain};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres_rustls::MakeRustlsConnect;

/// What a session has set for itself.
///
/// Every statement has one sensible way to be carried out, along an index and row by row, whatever the statistics of a
/// table that fills and empties say at the moment; so the other ways are off and plans are made once. A transaction that
/// nobody goes on with, and a wait for a lock, end by themselves.
const SESSION: &str = "\
set lock_timeout = '5s';
set idle_in_transaction_session_timeout = '10s';
set statement_timeout = 0;
set plan_cache_mode = force_generic_plan;
set enable_seqscan = off;
set enable_bitmapscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set enable_material = off;
set enable_memoize = off;
set enable_sort = off;
set enable_incremental_sort = off;
set max_parallel_workers_per_gather = 0;
set jit = off;
set bytea_output = 'hex'";

/// A connection as it comes, for looking at the server.
pub async fn plain(options: &Options) -> Result<Link, OpenError> {
    let tls = match &options.tls {
        Some(trust) => (*trust.config()?).clone(),
        // The way in is the same; `sslmode` says that it is not taken.
        None => weft_tls::trusting_nobody(),
    };
    let connecting = options.config.connect(MakeRustlsConnect::new(tls));
    let (client, connection) = within(options.connect_timeout, "connect to PostgreSQL", connecting)
        .await?
        .map_err(|error| OpenError::Connect(why(&error)))?;
    Ok(Link::new(client, connection))
}

fn why(error: &tokio_postgres::Error) -> String {
    let told = chain(error);
    let advice = match told.contains("server does not support TLS") {
        true => Some("set `ssl` to `on` there, or let data go in the clear with `plaintext=true`".to_owned()),
        false => weft_tls::advice(error, "sslrootcert"),
    };
    advice.map_or_else(|| told.clone(), |advice| format!("{told}; {advice}"))
}

/// A connection with the settings of the store.
pub async fn session(options: &Options) -> Result<Link, OpenError> {
    let mut link = plain(options).await?;
    let sql = format!("set search_path = {}, pg_temp;\n{SESSION}", options.schema);
    within(options.connect_timeout, "set up a session", link.batch(&sql))
        .await?
        .map_err(OpenError::postgres("set up a session"))?;
    Ok(link)
}

/// A connection that may commit: the server still keeps what it acknowledges.
pub async fn writer(options: &Options) -> Result<Link, OpenError> {
    let mut link = session(options).await?;
    let settings =
        within(options.connect_timeout, "read the settings", durability::Settings::read(&mut link)).await??;
    settings.check(options)?;
    Ok(link)
}

pub async fn within<T>(limit: Duration, doing: &'static str, future: impl Future<Output = T>) -> Result<T, OpenError> {
    timeout(limit, future).await.map_err(|_| OpenError::Timeout { doing, seconds: limit.as_secs() })
}
