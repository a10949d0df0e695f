//! Every reason why a store is not opened, as a sentence that says what to do.

use crate::options::chain;

/// Why a store was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot read the address of the store: {0}")]
    Url(String),
    #[error("cannot read the address of the store: there is no parameter `{name}`; {hint}")]
    Parameter { name: String, hint: String },
    #[error("cannot read the address of the store: `{name}` is {wanted}")]
    Value { name: String, wanted: String },
    #[error(
        "cannot send data to `{host}` in the clear: it is not this machine; leave out `sslmode=disable`, or allow it with \
         `plaintext=true` in the address"
    )]
    Plaintext { host: String },
    #[error(transparent)]
    Trust(#[from] weft_tls::Error),
    #[error("could not connect to PostgreSQL: {0}")]
    Connect(String),
    #[error("cannot run on PostgreSQL {found}: version 14 is the oldest that is supported")]
    Version { found: String },
    #[error("cannot use a database with the encoding {found}: make one with `encoding 'UTF8'`")]
    Encoding { found: String },
    #[error("cannot use this server: it is in recovery, and a standby takes no commits; connect to the primary")]
    Recovery,
    #[error(
        "cannot rely on this server: `{name}` is `{found}`, so {danger}; set it to `{wanted}`, or accept the loss with \
         `accept_data_loss=true` in the address"
    )]
    Setting { name: &'static str, found: String, wanted: &'static str, danger: &'static str },
    #[error(
        "cannot work through a pooler that changes the server connection between transactions ({why}); connect to \
         PostgreSQL itself, or use session pooling"
    )]
    Pooler { why: &'static str },
    #[error("cannot open the store: the schema `{schema}` holds none yet; run `weft migrate --store URL`")]
    Absent { schema: String },
    #[error(
        "cannot open the store: the schema `{schema}` has format {found} and this program writes {known}; run `weft \
         migrate --store URL`"
    )]
    Older { schema: String, found: i64, known: i64 },
    #[error(
        "cannot open the store: the schema `{schema}` has format {found}, and this program knows up to {known}; use a \
         newer one"
    )]
    Newer { schema: String, found: i64, known: i64 },
    #[error("cannot use the schema `{schema}`: it belongs to another program ({why}); name another one with `schema=`")]
    Foreign { schema: String, why: String },
    #[error("cannot open the store with {asked} partitions: it was made with {stored}, which cannot change")]
    Partitions { asked: u16, stored: u16 },
    #[error("could not {doing}: {}", chain(source))]
    Postgres { doing: &'static str, source: tokio_postgres::Error },
    #[error("could not {doing}: no answer within {seconds} s")]
    Timeout { doing: &'static str, seconds: u64 },
}

impl OpenError {
    pub(crate) fn parameter(name: &str, nearest: Option<&str>) -> Self {
        let hint = match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "known are `schema`, `partitions`, `plaintext`, `sslmode`, `sslrootcert`, `accept_data_loss`, \
                     `migrate`, `connect_timeout`, `call_timeout` and those of PostgreSQL"
                .to_owned(),
        };
        OpenError::Parameter { name: name.to_owned(), hint }
    }

    pub(crate) fn postgres(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Self {
        move |source| OpenError::Postgres { doing, source }
    }
}
