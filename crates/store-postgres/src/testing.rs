//! Schemas of their own for the tests inside this crate, on the server that all tests share.

use crate::migrations::migrate;
use crate::options::{Migrate, Options};

/// Options for a schema that nobody else uses.
pub fn fresh() -> Options {
    let url = weft_servers::shared_postgres_url();
    let schema = format!("weft_unit_{:016x}", getrandom::u64().unwrap());
    Options::from_url(url).unwrap().schema(&schema).unwrap().migrate(Migrate::Auto).partitions(3)
}

/// Makes the store that the options name.
pub async fn made(options: Options) -> Options {
    migrate(&options, false).await.unwrap();
    options
}
