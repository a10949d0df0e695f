//! The store that the configuration names. What the configuration says besides the address is added to it, so that one
//! place reads both.

use super::Address;
use crate::fault::Fault;
use anyhow::Result;
use std::time::Duration;
use weft_config::{Key, Migrate, Origin, Settings, keys};
use weft_store_sqlite as sqlite;

/// A key of the configuration that is a parameter of addresses too.
struct Parameter {
    key: &'static str,
    name: &'static str,
    value: Option<String>,
    origin: Origin,
}

/// The settings that every store has a use for.
const ANY: [&str; 2] = ["partitions", "migrate"];
/// Those that only Valkey has.
const VALKEY: [&str; 2] = ["durability", "replicas"];
/// Those that only PostgreSQL has.
const POSTGRES: [&str; 1] = ["pool"];

impl Address {
    /// Refuses a setting that the store has no use for, and one that the address says already. One that was said in a
    /// place that counts less than that of the address was meant for another store, and gives way.
    pub fn configured(settings: &Settings) -> Result<Self> {
        let url = settings.get(keys::STORE_URL);
        let (scheme, rest) = url.split_once(':').unwrap_or(("", &url));
        let is_valkey = scheme.starts_with("valkey") || scheme.starts_with("redis");
        let mut added = Vec::new();
        let address_counts = rank(settings.origin(keys::STORE_URL));
        for Parameter { key, name, value, origin } in parameters(settings) {
            let Some(value) = value else { continue };
            let query = rest.split_once('?').map_or("", |(_, query)| query);
            let is_said = query.split('&').any(|parameter| parameter.split('=').next() == Some(name));
            let is_useless = (scheme == "sqlite" && !ANY.contains(&name))
                || (!is_valkey && VALKEY.contains(&name))
                || (is_valkey && POSTGRES.contains(&name));
            if (is_said || is_useless) && rank(&origin) < address_counts {
                continue;
            }
            if scheme == "sqlite" && !ANY.contains(&name) {
                return Err(Fault::usage(format!("`{key}` is given, and a store on SQLite has no use for it")));
            }
            if !is_valkey && VALKEY.contains(&name) {
                return Err(Fault::usage(format!("`{key}` is given, and only a store on Valkey has a use for it")));
            }
            if is_valkey && POSTGRES.contains(&name) {
                return Err(Fault::usage(format!("`{key}` is given, and only a store on PostgreSQL has a use for it")));
            }
            if scheme == "sqlite" && name == "migrate" {
                continue;
            }
            if is_said {
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

/// Which of two places counts: the larger one.
fn rank(origin: &Origin) -> u8 {
    match origin {
        Origin::BuiltIn => 0,
        Origin::File { .. } => 1,
        Origin::Variable(_) => 2,
        Origin::Flag(_) => 3,
    }
}

fn parameters(settings: &Settings) -> [Parameter; 9] {
    let time = |time: Duration| format!("{}ms", time.as_millis());
    let on = |on: bool| on.then(|| "true".to_owned());
    [
        parameter(
            settings,
            keys::STORE_PARTITIONS,
            settings.get(keys::STORE_PARTITIONS).map(|count| count.to_string()),
        ),
        parameter(
            settings,
            keys::STORE_DURABILITY,
            settings.get(keys::STORE_DURABILITY).map(|level| level.as_str().to_owned()),
        ),
        parameter(settings, keys::STORE_REPLICAS, settings.get(keys::STORE_REPLICAS).map(|count| count.to_string())),
        parameter(settings, keys::STORE_ACCEPT_DATA_LOSS, on(settings.get(keys::STORE_ACCEPT_DATA_LOSS))),
        parameter(settings, keys::STORE_PLAINTEXT, on(settings.get(keys::STORE_PLAINTEXT))),
        parameter(settings, keys::STORE_CONNECT_TIMEOUT, settings.get(keys::STORE_CONNECT_TIMEOUT).map(time)),
        parameter(settings, keys::STORE_CALL_TIMEOUT, settings.get(keys::STORE_CALL_TIMEOUT).map(time)),
        parameter(settings, keys::STORE_POOL, settings.get(keys::STORE_POOL).map(|count| count.to_string())),
        parameter(settings, keys::STORE_MIGRATE, settings.get(keys::STORE_MIGRATE).map(|how| how.as_str().to_owned())),
    ]
}

fn parameter<T>(settings: &Settings, key: Key<T>, value: Option<String>) -> Parameter {
    let name = key.row.key.strip_prefix("store.").unwrap_or(key.row.key);
    Parameter { key: key.row.key, name, value, origin: settings.origin(key).clone() }
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
            ("store-pool", "10"),
        ];
        let Address::Postgres { options, .. } = configured(&flags).unwrap() else { panic!("another store") };
        assert_eq!(options.pool, 10);
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
            (vec![("store", "valkey://localhost"), ("store-pool", "9")], "only a store on PostgreSQL"),
            (vec![("store", "sqlite:a?partitions=2"), ("store-partitions", "2")], "say it in one place"),
        ] {
            let refused = configured(&flags).err().unwrap();
            assert_eq!(Fault::exit_code(&refused), 2);
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
    #[test]
    fn what_is_set_for_another_store_gives_way_to_the_address_of_a_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weft.toml");
        std::fs::write(&file, "[store]\nurl = \"valkey://localhost\"\ndurability = \"strict\"\npartitions = 8\n")
            .unwrap();
        let configured = |url: &str| {
            let flags = vec![("store".to_owned(), url.to_owned())];
            let settings = Settings::load(Sources { file: Some(file.clone()), flags, ..Sources::default() });
            Address::configured(&settings.unwrap()).unwrap()
        };
        let Address::Sqlite { partitions, .. } = configured("sqlite:copy.db") else { panic!("another store") };
        assert_eq!(partitions, 8, "what every store has a use for still counts");
        let Address::Sqlite { partitions, .. } = configured("sqlite:copy.db?partitions=2") else {
            panic!("another store")
        };
        assert_eq!(partitions, 2);
    }
}
