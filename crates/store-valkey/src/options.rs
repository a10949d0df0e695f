//! How to reach a store: a URL, taken apart and checked before anything is opened.

use crate::error::OpenError;
use std::fmt;
use std::time::Duration;
use weft_store::Level;
use weft_tls::Trust;

const PARTITIONS_MAX: u16 = 1024;
const PREFIX_MAX: usize = 32;
const PORT: u16 = 6379;
const KNOWN: &str = "`prefix`, `partitions`, `durability`, `replicas`, `accept_data_loss`, `plaintext`, `cacert`, \
                     `migrate`, `connect_timeout`, `call_timeout`";

/// What to open, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub mode: Mode,
    /// The server, or some nodes of the Cluster to ask for the others.
    pub addresses: Vec<Address>,
    pub login: Option<Login>,
    pub database: i64,
    /// In front of every key, so that several stores can share a server.
    pub prefix: String,
    /// Fixed when the store is made and compared at every open. 0 takes what the store has, and 64 for a new one.
    pub partitions: u16,
    pub durability: Level,
    /// How many replicas a commit waits for; `None` is all of its shard.
    pub replicas: Option<u32>,
    /// Opens a server whose settings are weaker than the level; the level then reads `memory`.
    pub accept_data_loss: bool,
    /// Allows a host that is not loopback, although nothing is encrypted.
    pub plaintext: bool,
    /// Whom to trust if connections are encrypted.
    pub tls: Option<Trust>,
    pub migrate: Migrate,
    pub connect_timeout: Duration,
    /// How long a call may take, redirects included.
    pub call_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standalone,
    Cluster,
}

/// What to do with a server that does not hold this store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// Refuse it.
    Check,
    /// Make the store.
    Auto,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Reads `host:port`, as in a URL or in a redirect of the server.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            // A bare IPv6 address has more colons than the one before the port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') && text.starts_with('[') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
        (!host.is_empty() && port != 0).then(|| Self::new(host, port))
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Empty for the default user.
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({}, ***)", self.user)
    }
}

impl Options {
    pub fn new(mode: Mode, addresses: Vec<Address>) -> Self {
        Self {
            mode,
            addresses,
            login: None,
            database: 0,
            prefix: "weft".to_owned(),
            partitions: 0,
            durability: Level::Local,
            replicas: None,
            accept_data_loss: false,
            plaintext: false,
            tls: None,
            migrate: Migrate::Check,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
        }
    }

    /// Reads `valkey://[user:password@]host[:port][/db][?…]` or `valkey-cluster://host:port,host:port[?…]`, with TLS
    /// `valkeys://` and `valkeys-cluster://`. `redis://` and `rediss://` are other names for a single server.
    pub fn from_url(url: &str) -> Result<Self, OpenError> {
        let wrong = |why: &str| OpenError::Url { url: hidden(url), why: why.to_owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (mode, encrypted) = match scheme {
            "valkey" | "redis" => (Mode::Standalone, false),
            "valkeys" | "rediss" => (Mode::Standalone, true),
            "valkey-cluster" => (Mode::Cluster, false),
            "valkeys-cluster" => (Mode::Cluster, true),
            _ => return Err(wrong("its scheme is none of `valkey`, `valkeys`, `valkey-cluster`, `valkeys-cluster`")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, rest),
        };
        let addresses: Option<Vec<Address>> = hosts.split(',').map(Address::parse).collect();
        let addresses = addresses.ok_or_else(|| wrong("its host is not of the form `host:port`"))?;
        if mode == Mode::Standalone && addresses.len() > 1 {
            return Err(wrong("several hosts need `valkey-cluster://`"));
        }
        let mut options = Self::new(mode, addresses);
        options.tls = encrypted.then(Trust::system);
        options.login =
            login.map(|login| login_of(login).ok_or_else(|| wrong("its password is not text"))).transpose()?;
        if !database.is_empty() {
            options.database = database.parse().map_err(|_| wrong("its database is not a number"))?;
        }
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            options.set(name, value).map_err(|why| wrong(&why))?;
        }
        options.validate()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let not = |what: &str| format!("`{name}` is {what}, not `{value}`");
        let yes_or_no = || value.parse::<bool>().map_err(|_| not("`true` or `false`"));
        match name {
            "prefix" => self.prefix = value.to_owned(),
            "partitions" => self.partitions = value.parse().ok().filter(|n| *n > 0).ok_or_else(|| not("1 to 1024"))?,
            "durability" => {
                let known = "one of `memory`, `local`, `replicated` and `strict`";
                self.durability = Level::from_name(value).ok_or_else(|| not(known))?;
            }
            "replicas" => self.replicas = Some(value.parse().ok().filter(|n| *n > 0).ok_or_else(|| not("a number"))?),
            "accept_data_loss" => self.accept_data_loss = yes_or_no()?,
            "plaintext" => self.plaintext = yes_or_no()?,
            "cacert" if self.tls.is_none() => {
                return Err("`cacert` needs `valkeys://` or `valkeys-cluster://`".to_owned());
            }
            "cacert" if value.is_empty() => return Err(not("the path of a file")),
            "cacert" => self.tls = Some(Trust::file(value)),
            "migrate" => {
                self.migrate = match value {
                    "auto" => Migrate::Auto,
                    "check" => Migrate::Check,
                    _ => return Err(not("`auto` or `check`")),
                }
            }
            "connect_timeout" => self.connect_timeout = duration(value).ok_or_else(|| not("a time such as `5s`"))?,
            "call_timeout" => self.call_timeout = duration(value).ok_or_else(|| not("a time such as `500ms`"))?,
            _ => return Err(format!("`{name}` is not known; known are {KNOWN}")),
        }
        Ok(())
    }

    /// Refuses what no server could make good. `open` asks again, because options may be made by hand.
    pub(crate) fn validate(&self) -> Result<(), OpenError> {
        let in_prefix = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b':';
        if !(1..=PREFIX_MAX).contains(&self.prefix.len()) || !self.prefix.bytes().all(in_prefix) {
            return Err(OpenError::Prefix { prefix: self.prefix.clone() });
        }
        if self.partitions > PARTITIONS_MAX {
            return Err(OpenError::TooManyPartitions { asked: self.partitions, max: PARTITIONS_MAX });
        }
        if self.mode == Mode::Cluster && self.database != 0 {
            return Err(OpenError::Database);
        }
        match self.addresses.iter().find(|address| !self.allows(address)) {
            Some(address) => Err(OpenError::Plaintext { address: address.clone() }),
            None => Ok(()),
        }
    }

    /// Whether a server may be talked to: encrypted, on this machine, or in the clear because somebody said so. A Cluster
    /// names others than were given.
    pub(crate) fn allows(&self, address: &Address) -> bool {
        self.tls.is_some() || self.plaintext || address.is_loopback()
    }

    /// The URL without its secrets, for messages.
    pub(crate) fn url(&self) -> String {
        let scheme = match (self.mode, self.tls.is_some()) {
            (Mode::Standalone, false) => "valkey",
            (Mode::Standalone, true) => "valkeys",
            (Mode::Cluster, false) => "valkey-cluster",
            (Mode::Cluster, true) => "valkeys-cluster",
        };
        let authorities = self.tls.as_ref().and_then(Trust::path);
        let authorities = authorities.map_or_else(String::new, |path| format!("&cacert={}", path.display()));
        let hosts: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        let database = if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        format!("{scheme}://{}{database}?prefix={}{authorities}", hosts.join(","), self.prefix)
    }
}

fn login_of(text: &str) -> Option<Login> {
    let (user, password) = text.split_once(':').unwrap_or(("", text));
    Some(Login { user: percent_decoded(user)?, password: percent_decoded(password)? })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(more.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).ok()
}

/// `5s`, `500ms`, or a bare number of milliseconds.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => (text, 1),
    };
    let ms: u64 = number.parse().ok()?;
    (ms > 0).then(|| Duration::from_millis(ms.saturating_mul(unit_ms)))
}

/// A URL as it may be shown: what stands before the `@` is nobody's business.
fn hidden(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Options {
        Options::from_url(url).unwrap()
    }

    fn refusal(url: &str) -> String {
        Options::from_url(url).expect_err(url).to_string()
    }

    #[test]
    fn a_url_names_hosts_and_settings() {
        let options = read("valkey://localhost");
        assert_eq!((options.mode, options.addresses), (Mode::Standalone, vec![Address::new("localhost", 6379)]));
        assert_eq!((options.prefix.as_str(), options.partitions, options.durability), ("weft", 0, Level::Local));
        assert_eq!((options.migrate, options.replicas, options.login), (Migrate::Check, None, None));

        let options = read("redis://ann:p%40ss@127.0.0.1:7000/2?partitions=8&prefix=a:b_1&call_timeout=500ms");
        let login = Login { user: "ann".to_owned(), password: "p@ss".to_owned() };
        assert_eq!((options.login, options.database, options.partitions), (Some(login), 2, 8));
        assert_eq!((options.prefix.as_str(), options.call_timeout), ("a:b_1", Duration::from_millis(500)));

        let url = "valkey-cluster://127.0.0.1:1,[::1]:2,10.0.0.1?plaintext=true&durability=replicated&replicas=2";
        let options = read(&format!("{url}&migrate=auto&accept_data_loss=true&connect_timeout=2s"));
        let hosts = [("127.0.0.1", 1), ("::1", 2), ("10.0.0.1", 6379)].map(|(host, port)| Address::new(host, port));
        assert_eq!((options.mode, &options.addresses[..]), (Mode::Cluster, &hosts[..]));
        assert_eq!((options.durability, options.replicas), (Level::Replicated, Some(2)));
        assert!(options.accept_data_loss && options.migrate == Migrate::Auto);
        assert_eq!(options.connect_timeout, Duration::from_secs(2));
    }

    #[test]
    fn what_a_url_cannot_say_is_answered_with_what_it_can() {
        let unknown = refusal("valkey://localhost?prefex=x");
        assert!(unknown.contains("`prefex` is not known") && unknown.contains("`prefix`"), "{unknown}");
        for (url, why) in [
            ("localhost:6379", "no scheme"),
            ("postgres://localhost", "`valkey-cluster`"),
            ("valkey://", "host:port"),
            ("valkey://localhost:x", "host:port"),
            ("valkey://localhost:1,localhost:2", "several hosts"),
            ("valkey://localhost/x", "not a number"),
            ("valkey-cluster://localhost/1", "database 0"),
            ("valkey://localhost?partitions=0", "1 to 1024"),
            ("valkey://localhost?partitions=1025", "1024"),
            ("valkey://localhost?durability=high", "`strict`"),
            ("valkey://localhost?plaintext=1", "`true` or `false`"),
            ("valkey://localhost?call_timeout=0", "a time"),
            ("valkey://localhost?migrate=yes", "`check`"),
        ] {
            assert!(refusal(url).contains(why), "{url}: {}", refusal(url));
        }
        let shown = refusal("valkey://olaf:secret@localhost?x=1");
        assert!(!shown.contains("secret") && !shown.contains("olaf"), "{shown}");
        assert!(!format!("{:?}", read("valkey://ann:secret@localhost")).contains("secret"));
    }

    #[test]
    fn sec_9_a_prefix_has_no_brace() {
        for prefix in ["", "a{b}", "a}", "A", "a b", "a*", "ä", &"a".repeat(33)] {
            let refused = refusal(&format!("valkey://localhost?prefix={prefix}"));
            assert!(refused.contains("a-z"), "{refused}");
        }
        assert_eq!(read(&format!("valkey://localhost?prefix={}", "a".repeat(32))).prefix.len(), 32);
    }

    #[test]
    fn sec_8_another_host_needs_tls_or_a_word_that_nothing_is_encrypted() {
        for host in ["10.0.0.1", "valkey.example.com:6379", "[2001:db8::1]:6379"] {
            let refused = refusal(&format!("valkey://{host}"));
            assert!(refused.contains("plaintext=true") && refused.contains("`valkeys://`"), "{refused}");
            read(&format!("valkey://{host}?plaintext=true"));
            for scheme in ["valkeys", "rediss", "valkeys-cluster"] {
                assert_eq!(read(&format!("{scheme}://{host}")).tls, Some(Trust::system()));
            }
            let own = read(&format!("valkeys://{host}?cacert=ca.pem"));
            assert_eq!(own.tls, Some(Trust::file("ca.pem")));
            assert_eq!(read(&own.url()), own, "the address that messages show leads there");
        }
        assert!(refusal("valkey://localhost?cacert=x").contains("`cacert` needs `valkeys://`"));
        for host in ["localhost", "127.0.0.1", "127.9.9.9:7", "[::1]:7"] {
            read(&format!("valkey://{host}"));
        }
    }
}
