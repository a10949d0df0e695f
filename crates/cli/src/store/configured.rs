//! The store that the configuration names. What the configuration says besides the address is added to it, so that one
//! place reads both.

use super::Address;
use crate::fault::Fault;
use anyhow::Result;
use std::time::Duration;
use weft_config::{Durability, Migrate, Settings, keys};
use weft_store_sqlite as sqlite;

/// A key of the configuration that is a parameter of addresses too.
struct Parameter {
    key: &'static str,
    name: &'static str,
    value: Option<String>,
}

/// The settings that every store has a use for.
const ANY: [&str; 2] = ["partitions", "migrate"];
/// Those that only Valkey has.
const VALKEY: [&str; 2] = ["durability", "replicas"];

impl Address {
    /// Refuses a setting that the store has no use for, and one that the address says already.
    pub fn configured(settings: &Settings) -> Result<Self> {
        let url = settings.get(keys::STORE_URL);
        let (scheme, rest) = url.split_once(':').unwrap_or(("", &url));
        let is_valkey = scheme.starts_with("valkey") || scheme.starts_with("redis");
        let mut added = Vec::new();
        for Parameter { key, name, value } in parameters(settings) {
            let Some(value) = value else { continue };
            if scheme == "sqlite" && !ANY.contains(&name) {
                return Err(Fault::usage(format!("`{key}` is given, and a store on SQLite has no use for it")));
            }
            if !is_valkey && VALKEY.contains(&name) {
                return Err(Fault::usage(format!("`{key}` is given, and only a store on Valkey has a use for it")));
            }
            if scheme == "sqlite" && name == "migrate" {
                continue;
            }
            let query = rest.split_once('?').map_or("", |(_, query)| query);
            if query.split('&').any(|parameter| parameter.split('=').next() == Some(name)) {
                let text = format!("`{key}` is given, and `store.url` says `{name}` too: say it in one place");
                return Err(Fault::usage(text));
            }
            added.push(format!("{name}={value}"));
        }
        if added.is_empty() {
            return Address::parse(&url);
        }
        let join = if rest.contains('?') { '&' } else { '?' };
        Address::parse(&format!("{url}{join}{}", added.join("&")))
    }

    /// Whether the file must be up to date already. A server is asked by its own store.
    pub fn refuse_due(&self, settings: &Settings) -> Result<()> {
        let Address::Sqlite { path, .. } = self else { return Ok(()) };
        if settings.get(keys::STORE_MIGRATE) != Some(Migrate::Check) {
            return Ok(());
        }
        let due = sqlite::plan(path).map_err(super::reason::sqlite)?.is_due();
        anyhow::ensure!(
            !due,
            "cannot open {self}: it is not up to date, and `store.migrate` is `check`; run `weft migrate`"
        );
        Ok(())
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self, Address::Sqlite { .. })
    }
}

fn parameters(settings: &Settings) -> [Parameter; 8] {
    let time = |time: Duration| format!("{}ms", time.as_millis());
    let on = |on: bool| on.then(|| "true".to_owned());
    let parameter = |row: weft_config::Row, value| {
        let name = row.key.strip_prefix("store.").unwrap_or(row.key);
        Parameter { key: row.key, name, value }
    };
    [
        parameter(keys::STORE_PARTITIONS.row, settings.get(keys::STORE_PARTITIONS).map(|count| count.to_string())),
        parameter(
            keys::STORE_DURABILITY.row,
            settings.get(keys::STORE_DURABILITY).map(Durability::as_str).map(str::to_owned),
        ),
        parameter(keys::STORE_REPLICAS.row, settings.get(keys::STORE_REPLICAS).map(|count| count.to_string())),
        parameter(keys::STORE_ACCEPT_DATA_LOSS.row, on(settings.get(keys::STORE_ACCEPT_DATA_LOSS))),
        parameter(keys::STORE_PLAINTEXT.row, on(settings.get(keys::STORE_PLAINTEXT))),
        parameter(keys::STORE_CONNECT_TIMEOUT.row, settings.get(keys::STORE_CONNECT_TIMEOUT).map(time)),
        parameter(keys::STORE_CALL_TIMEOUT.row, settings.get(keys::STORE_CALL_TIMEOUT).map(time)),
        parameter(keys::STORE_MIGRATE.row, settings.get(keys::STORE_MIGRATE).map(Migrate::as_str).map(str::to_owned)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_config::Sources;

    fn configured(flags: &[(&str, &str)]) -> Result<Address> {
        let flags = flags.iter().map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned())).collect();
        Address::configured(&Settings::load(Sources { flags, ..Sources::default() }).unwrap())
    }

    #[test]
    fn what_is_configured_reaches_the_store() {
        let flags = [
            ("store", "postgres://localhost/weft"),
            ("store-partitions", "8"),
            ("migrate", "auto"),
            ("store-call-timeout", "2m"),
            ("store-connect-timeout", "250ms"),
        ];
        let Address::Postgres { options, .. } = configured(&flags).unwrap() else { panic!("another store") };
        assert_eq!((options.partitions, options.migrate), (8, weft_store_postgres::Migrate::Auto));
        assert_eq!(
            (options.call_timeout, options.connect_timeout),
            (Duration::from_secs(120), Duration::from_millis(250))
        );

        let flags = [
            ("store", "valkey://10.0.0.1?prefix=a"),
            ("store-plaintext", "true"),
            ("store-durability", "replicated"),
            ("store-replicas", "2"),
        ];
        let Address::Valkey(options) = configured(&flags).unwrap() else { panic!("another store") };
        assert_eq!((options.prefix.as_str(), options.replicas), ("a", Some(2)));
        assert_eq!((options.durability, options.plaintext), (weft_store::Level::Replicated, true));

        let Address::Sqlite { path, partitions } = configured(&[("store-partitions", "4")]).unwrap() else {
            panic!("another store")
        };
        assert_eq!((path.to_str(), partitions), (Some("weft-data/weft.db"), 4));
    }

    #[test]
    fn what_the_store_has_no_use_for_is_refused() {
        for (flags, why) in [
            (vec![("store-durability", "strict")], "`store.durability` is given, and a store on SQLite has no use"),
            (vec![("store", "postgres://h/d"), ("store-replicas", "1")], "only a store on Valkey"),
            (vec![("store", "sqlite:a?partitions=2"), ("store-partitions", "2")], "say it in one place"),
        ] {
            let refused = configured(&flags).err().unwrap();
            assert_eq!(Fault::exit_code(&refused), 2);
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}
