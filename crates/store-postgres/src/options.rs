//! How to reach a store: the URL, its parameters and their defaults. Never connects.

use crate::open_error::OpenError;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use weft_tls::Trust;

/// What is done about an empty or older schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// It is created or brought up to date.
    Auto,
    /// It is refused, with a sentence that says what to run.
    Check,
}

/// What to open, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) config: Config,
    /// The schema that holds the tables.
    pub schema: String,
    /// Fixed when the store is made and compared at every open. 0 takes what is stored, and 16 for a new store.
    pub partitions: u16,
    /// Lets an address that is not loopback be reached without encryption.
    pub plaintext: bool,
    encryption: Encryption,
    /// The authorities to trust, in place of those of the system.
    authorities: Option<PathBuf>,
    /// Whom to trust if connections are encrypted.
    pub(crate) tls: Option<Trust>,
    /// Lets a server with dangerous settings pass; the store then calls its level `memory`.
    pub accept_data_loss: bool,
    pub migrate: Migrate,
    /// Connections that calls take in turn, a fifth of them for reads.
    pub pool: usize,
    pub connect_timeout: Duration,
    /// How long a call may take. A commit that takes longer has an unknown outcome.
    pub call_timeout: Duration,
}

/// What the address says about encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    /// Beyond this machine.
    ByAddress,
    Never,
    Always,
}

pub const PARTITIONS_DEFAULT: u16 = 16;
pub const PARTITIONS_MAX: u16 = 1024;
const SCHEMA_DEFAULT: &str = "weft";
const SCHEMA_MAX: usize = 31;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Enough for commits on all processors of a server, and few enough for several nodes on one that takes a hundred.
pub const POOL_DEFAULT: usize = 20;
/// One connection to read on, and one to commit on.
const POOL_MIN: usize = 2;
const POOL_MAX: usize = 1000;

/// Parameters that are Weft's own.
const OWN: [&str; 10] = [
    "schema",
    "partitions",
    "plaintext",
    "sslmode",
    "sslrootcert",
    "accept_data_loss",
    "migrate",
    "pool",
    "connect_timeout",
    "call_timeout",
];

/// Parameters that the client library reads.
const PASSED: [&str; 15] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
];

impl Options {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=weft&partitions=16`.
    pub fn from_url(url: &str) -> Result<Self, OpenError> {
        let known_scheme = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        if !known_scheme {
            return Err(OpenError::Url("it begins with `postgres://`".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Vec::new();
        let mut passed = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                _ if OWN.contains(&name) => own.push((name, value)),
                _ if PASSED.contains(&name) => passed.push(parameter),
                _ => return Err(OpenError::parameter(name, nearest(name))),
            }
        }
        let rest = if passed.is_empty() { base.to_owned() } else { format!("{base}?{}", passed.join("&")) };
        // The library does not repeat the URL in its errors, so no password gets into ours.
        let config = Config::from_str(&rest).map_err(|error| OpenError::Url(chain(&error)))?;
        let mut options = Self::new(config);
        own.into_iter().try_for_each(|(name, value)| options.set(name, value))?;
        options.encrypt()?;
        Ok(options)
    }

    fn new(mut config: Config) -> Self {
        if config.get_application_name().is_none() {
            config.application_name("weft");
        }
        config.keepalives_idle(Duration::from_secs(30));
        Self {
            config,
            schema: SCHEMA_DEFAULT.to_owned(),
            partitions: 0,
            plaintext: false,
            encryption: Encryption::ByAddress,
            authorities: None,
            tls: None,
            accept_data_loss: false,
            migrate: Migrate::Check,
            pool: POOL_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
        }
    }

    pub fn migrate(mut self, migrate: Migrate) -> Self {
        self.migrate = migrate;
        self
    }

    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = partitions;
        self
    }

    /// The same server with another schema. Refused like the parameter of the URL.
    pub fn schema(mut self, schema: &str) -> Result<Self, OpenError> {
        self.set("schema", schema)?;
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), OpenError> {
        let wrong = |wanted: &str| OpenError::Value { name: name.to_owned(), wanted: wanted.to_owned() };
        let flag = || value.parse().map_err(|_| wrong("`true` or `false`"));
        let time = || duration(value).ok_or_else(|| wrong("seconds, like `5` or `5s`"));
        match name {
            "schema" if is_schema(value) => self.schema = value.to_owned(),
            "schema" => return Err(wrong("a name that matches [a-z_][a-z0-9_]{0,30} and is not one of PostgreSQL's")),
            "partitions" => {
                let number = value.parse().ok().filter(|number| (0..=PARTITIONS_MAX).contains(number));
                self.partitions = number.ok_or_else(|| wrong("a number from 1 to 1024, or 0 for what is stored"))?;
            }
            "plaintext" => self.plaintext = flag()?,
            "sslmode" => {
                self.encryption = match value {
                    "disable" => Encryption::Never,
                    "allow" | "prefer" => Encryption::ByAddress,
                    // The certificate is checked in any case.
                    "require" | "verify-ca" | "verify-full" => Encryption::Always,
                    _ => return Err(wrong("`disable`, `prefer`, `require`, `verify-ca` or `verify-full`")),
                }
            }
            "sslrootcert" if value.is_empty() => return Err(wrong("the path of a file, or `system`")),
            "sslrootcert" => self.authorities = (value != "system").then(|| value.into()),
            "accept_data_loss" => self.accept_data_loss = flag()?,
            "migrate" => {
                self.migrate = match value {
                    "auto" => Migrate::Auto,
                    "check" => Migrate::Check,
                    _ => return Err(wrong("`auto` or `check`")),
                }
            }
            "pool" => {
                let number = value.parse().ok().filter(|number| (POOL_MIN..=POOL_MAX).contains(number));
                self.pool = number.ok_or_else(|| wrong("a number of connections from 2 to 1000"))?;
            }
            "connect_timeout" => self.connect_timeout = time()?,
            _ => self.call_timeout = time()?,
        }
        Ok(())
    }

    /// Nothing leaves this machine unencrypted unless somebody said so.
    fn encrypt(&mut self) -> Result<(), OpenError> {
        let encrypted = match (self.encryption, self.exposed()) {
            (Encryption::Always, _) if self.plaintext => {
                return Err(OpenError::Url("`sslmode` asks for encryption and `plaintext` for none".to_owned()));
            }
            (Encryption::Never, Some(host)) if !self.plaintext => return Err(OpenError::Plaintext { host }),
            (encryption, exposed) => {
                encryption == Encryption::Always
                    || encryption == Encryption::ByAddress && exposed.is_some() && !self.plaintext
            }
        };
        self.config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        let trust = || self.authorities.as_ref().map_or_else(Trust::system, Trust::file);
        self.tls = encrypted.then(trust);
        Ok(())
    }

    /// The first server that is not this machine.
    pub(crate) fn exposed(&self) -> Option<String> {
        let named = self.config.get_hosts().iter().filter_map(|host| match host {
            Host::Tcp(name) => (!is_loopback(name)).then(|| name.clone()),
            _ => None,
        });
        let numbered = self.config.get_hostaddrs().iter().filter(|address| !address.is_loopback());
        named.chain(numbered.map(ToString::to_string)).next()
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The name becomes part of statements, so it must be one that needs no quotes and cannot be anything else.
fn is_schema(name: &str) -> bool {
    let letters = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
    let rest = |byte: &u8| letters(byte) || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= SCHEMA_MAX
        && letters(&bytes[0])
        && bytes.iter().all(rest)
        && !name.starts_with("pg_")
        && !["public", "information_schema"].contains(&name)
}

/// `5`, `5s` or `500ms`; never nothing.
fn duration(text: &str) -> Option<Duration> {
    let ms = match text.strip_suffix("ms") {
        Some(ms) => ms.parse::<u64>().ok()?,
        None => text.strip_suffix('s').unwrap_or(text).parse::<u64>().ok()?.checked_mul(1000)?,
    };
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// The known parameter that is spelt most like `name`, if one is near.
fn nearest(name: &str) -> Option<&'static str> {
    let known = OWN.into_iter().chain(PASSED);
    let (distance, best) = known.map(|known| (edits(name, known), known)).min()?;
    (distance <= 3).then_some(best)
}

/// How many letters have to be added, removed or changed.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// An error with its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Options::from_url(url).map(|options| panic!("{options:?}")).unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_server_database_and_what_is_wefts() {
        let url = "postgres://ann:secret@127.0.0.1:5433/work?schema=weft_2&partitions=4&connect_timeout=7&call_timeout=\
                   900ms&migrate=auto&keepalives_idle=9&accept_data_loss=true";
        let options = Options::from_url(url).unwrap();
        assert_eq!((options.schema.as_str(), options.partitions, options.migrate), ("weft_2", 4, Migrate::Auto));
        assert_eq!(options.connect_timeout, Duration::from_secs(7));
        assert_eq!(options.call_timeout, Duration::from_millis(900));
        assert!(options.accept_data_loss && !options.plaintext);
        assert_eq!(options.config.get_dbname(), Some("work"));
        assert_eq!(options.config.get_application_name(), Some("weft"));
        assert!(!format!("{options:?}").contains("secret"));

        let plain = Options::from_url("postgresql://localhost/x").unwrap();
        assert_eq!((plain.schema.as_str(), plain.partitions, plain.migrate), ("weft", 0, Migrate::Check));
    }

    #[test]
    fn an_unknown_parameter_is_answered_with_the_nearest_one() {
        assert!(refusal("postgres://localhost/x?partitons=4").contains("did you mean `partitions`"));
        assert!(refusal("postgres://localhost/x?colour=red").contains("known are `schema`"));
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_with_what_would() {
        let rows = [
            ("partitions=1025", "from 1 to 1024"),
            ("partitions=-1", "from 1 to 1024"),
            ("plaintext=yes", "`true` or `false`"),
            ("migrate=never", "`auto` or `check`"),
            ("call_timeout=0", "seconds"),
            ("connect_timeout=soon", "seconds"),
        ];
        for (parameter, sentence) in rows {
            let text = refusal(&format!("postgres://localhost/x?{parameter}"));
            assert!(text.contains(sentence), "{parameter}: {text}");
        }
        assert!(refusal("mysql://localhost/x").contains("postgres://"));
        assert!(refusal("postgres://localhost:port/x").contains("cannot read"));
    }

    #[test]
    fn sec_9_a_schema_is_a_name_that_needs_no_quotes() {
        let long = "a".repeat(32);
        for bad in ["", "Weft", "1st", "a-b", "a\"b", "a b", "pg_weft", "public", "é", long.as_str()] {
            let text = refusal(&format!("postgres://localhost/x?schema={bad}"));
            assert!(text.contains("[a-z_]"), "{bad}: {text}");
        }
        for good in ["weft", "_", "w1_2", &long[1..]] {
            assert_eq!(Options::from_url(&format!("postgres://localhost/x?schema={good}")).unwrap().schema, good);
        }
    }

    #[test]
    fn sec_8_only_this_machine_is_reached_without_encryption() {
        let trust = |url: &str| {
            let options = Options::from_url(url).unwrap();
            let mode = if options.tls.is_some() { SslMode::Require } else { SslMode::Disable };
            assert_eq!(options.config.get_ssl_mode(), mode, "{url}");
            options.tls
        };
        for url in ["postgres://db.example/x", "postgres://10.0.0.1/x", "postgres://localhost,db.example/x"] {
            assert_eq!(trust(url), Some(Trust::system()), "{url}");
            assert_eq!(trust(&format!("{url}?sslmode=prefer&sslrootcert=ca.pem")), Some(Trust::file("ca.pem")));
            assert_eq!(trust(&format!("{url}?plaintext=true")), None);
            assert!(refusal(&format!("{url}?sslmode=disable")).contains("plaintext=true"));
        }
        assert!(trust("postgres://localhost/x?hostaddr=10.0.0.1").is_some());
        for url in ["postgres://127.0.0.1/x", "postgres://[::1]/x", "postgres:///x?host=/run/postgresql"] {
            assert_eq!(trust(url), None);
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            assert!(trust(&format!("postgres://localhost/x?sslmode={mode}")).is_some());
        }
        assert!(refusal("postgres://db.example/x?sslmode=require&plaintext=true").contains("asks for encryption"));
        assert!(refusal("postgres://localhost/x?sslmode=on").contains("`verify-full`"));
        assert!(refusal("postgres://localhost/x?sslrootcert=").contains("path"));
    }
}
