//! Why a store was not opened, with the exit code that belongs to it and a word on what to do.

use super::Address;
use crate::fault::{Code, Fault};
use weft_store_postgres as postgres;
use weft_store_sqlite as sqlite;
use weft_store_valkey as valkey;

pub fn sqlite(error: sqlite::OpenError) -> anyhow::Error {
    match error {
        sqlite::OpenError::Url(_) => Fault::usage(error.to_string()),
        other => other.into(),
    }
}

pub fn postgres(address: &Address, error: postgres::OpenError) -> anyhow::Error {
    use postgres::OpenError as Open;
    let server = match address {
        Address::Postgres { server, .. } => server.as_str(),
        _ => "the server",
    };
    match error {
        Open::Url(_) | Open::Parameter { .. } | Open::Value { .. } | Open::Plaintext { .. } | Open::Trust(_) => {
            Fault::usage(error.to_string())
        }
        Open::Connect(why) => connecting(server, &why),
        Open::Timeout { seconds, .. } => unreachable(server, &format!("no answer within {seconds} s")),
        other => other.into(),
    }
}

pub fn valkey(_: &Address, error: valkey::OpenError) -> anyhow::Error {
    use valkey::OpenError as Open;
    match error {
        Open::Url { .. } | Open::Prefix { .. } | Open::TooManyPartitions { .. } | Open::Plaintext { .. } => {
            Fault::usage(error.to_string())
        }
        Open::Unreachable { servers, why } => unreachable(servers.trim_matches('`'), &why),
        Open::Login { address, why } => login(&address.to_string(), &why),
        other => other.into(),
    }
}

/// Gives a failure to connect to PostgreSQL, which comes as text, the reason that people need to hear.
fn connecting(server: &str, why: &str) -> anyhow::Error {
    let says = |text: &str| why.to_ascii_lowercase().contains(text);
    let told = why.rsplit_once("FATAL: ").map_or(why, |(_, told)| told);
    if says("authentication failed") || says("pg_hba.conf") || says("password missing") || says("role \"") {
        return login(server, told);
    }
    if says("database \"") && says("does not exist") {
        return anyhow::anyhow!("cannot open `{server}`: {told}; make it first, or name another one in the address");
    }
    unreachable(server, why)
}

fn login(server: &str, why: &str) -> anyhow::Error {
    let text = format!("cannot log in to `{server}`: {why}; check user and password in the address of the store");
    Fault::error(Code::NotAllowed, text)
}

fn unreachable(server: &str, why: &str) -> anyhow::Error {
    let says = |text: &str| why.to_ascii_lowercase().contains(text);
    let told = match (says("connection refused"), says("tls") || says("certificate")) {
        (true, _) => "connection refused; is the server running?".to_owned(),
        // It runs, and what to do about it has been said.
        (false, true) => why.to_owned(),
        (false, false) => format!("{why}; is the server running?"),
    };
    Fault::error(Code::Unreachable, format!("could not connect to `{server}`: {told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_each_reason_has_its_code_and_says_what_to_do() {
        let rows = [
            (
                "error connecting to server: Connection refused (os error 111)",
                3,
                "connection refused; is the server running?",
            ),
            ("db error: FATAL: password authentication failed for user \"ann\"", 4, "check user and password"),
            (
                "db error: FATAL: database \"nope\" does not exist",
                1,
                "cannot open `db:1/nope`: database \"nope\" does not",
            ),
            ("error connecting to server: failed to lookup address", 3, "failed to lookup address"),
        ];
        for (why, code, told) in rows {
            let error = connecting("db:1/nope", why);
            assert_eq!(Fault::exit_code(&error), code, "{error}");
            assert!(error.to_string().contains(told), "{error}");
        }
        let told = connecting("db", "error performing TLS handshake: it is strange; do this").to_string();
        assert!(told.ends_with("; do this"), "{told}");
    }
}
