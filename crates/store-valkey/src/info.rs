//! What one server says of itself: version, role, replicas and the settings that durability rests on.

use crate::link::Dial;
use crate::options::Address;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A server's answer to `INFO` and, if it may be seen, its settings.
#[derive(Clone, Debug)]
pub struct Server {
    pub address: Address,
    info: BTreeMap<String, String>,
    /// `None` if this user may not ask for them.
    settings: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| {
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            number[..digits].parse().ok()
        });
        Some(Self(numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }
}

impl Server {
    pub async fn ask(dial: &Dial) -> Result<Self, RedisError> {
        let mut connection = dial.connect().await?;
        let info = ask(&mut connection, redis::cmd("INFO").arg("all")).await?;
        let mut settings = redis::cmd("CONFIG");
        settings.arg("GET").arg("append*").arg("no-append*").arg("maxmemory*").arg("min-replicas*");
        let settings = match ask(&mut connection, &settings).await {
            Ok(reply) => Some(pairs(&reply)),
            Err(error) if error.code() == Some("NOPERM") => None,
            // Some hosts take the command away altogether.
            Err(error) if error.code() == Some("ERR") => None,
            Err(error) => return Err(error),
        };
        Ok(Self { address: dial.address.clone(), info: lines(&text(&info)), settings })
    }

    /// Its own name and version. Valkey also names the version of Redis it can stand in for.
    pub fn version(&self) -> (&'static str, Option<Version>, String) {
        let (name, text) = match (self.info.get("valkey_version"), self.info.get("redis_version")) {
            (Some(version), _) => ("Valkey", version.as_str()),
            (None, Some(version)) => ("Redis", version.as_str()),
            (None, None) => ("a server of unknown version", ""),
        };
        (name, Version::parse(text), text.to_owned())
    }

    pub fn is_cluster(&self) -> bool {
        self.info("cluster_enabled") == "1"
    }

    pub fn is_primary(&self) -> bool {
        self.info("role") == "master"
    }

    pub fn connected_replicas(&self) -> u32 {
        self.info("connected_slaves").parse().unwrap_or(0)
    }

    pub fn eviction(&self) -> &str {
        self.setting("maxmemory-policy").unwrap_or_else(|| self.info("maxmemory_policy"))
    }

    pub fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref()?.get(name).map(String::as_str)
    }

    pub fn shows_settings(&self) -> bool {
        self.settings.is_some()
    }

    /// The setting that lets an acknowledged write get lost when the server is killed, if there is one.
    pub fn weakness(&self) -> Option<String> {
        let wanted = [("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")];
        for (name, wanted) in wanted {
            match self.setting(name) {
                Some(found) if found != wanted => return Some(format!("`{name}` is `{found}` and not `{wanted}`")),
                _ => {}
            }
        }
        (self.info("aof_enabled") == "0").then(|| "`appendonly` is off".to_owned())
    }

    /// How full its memory may get, in hundredths; `None` without a limit.
    pub fn memory_used_percent(&self) -> Option<u64> {
        let limit: u64 = self.info("maxmemory").parse().ok().filter(|limit| *limit > 0)?;
        let used: u64 = self.info("used_memory").parse().ok()?;
        Some(used.saturating_mul(100) / limit)
    }
}

/// Sends a command that has nothing to do with a partition.
pub async fn ask(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, RedisError> {
    connection.send_packed_command(command).await?.extract_error()
}

pub fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A reply of names and values, whichever protocol it came by.
pub fn pairs(value: &Value) -> BTreeMap<String, String> {
    match value {
        Value::Array(fields) => fields.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        Value::Map(fields) => fields.iter().map(|(name, value)| (text(name), text(value))).collect(),
        _ => BTreeMap::new(),
    }
}

/// `name:value` lines, as `INFO` and `CLUSTER INFO` have them.
pub fn lines(text: &str) -> BTreeMap<String, String> {
    let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_numbers() {
        assert_eq!(Version::parse("7.2.4"), Some(Version(7, 2, 4)));
        assert_eq!(Version::parse("9.0.0-rc1"), Some(Version(9, 0, 0)));
        assert_eq!(Version::parse("10.0"), Some(Version(10, 0, 0)));
        assert_eq!(Version::parse("x"), None);
        assert!(Version(10, 0, 0) > Version(7, 2, 11));
    }

    fn server(info: &str, settings: Option<&[(&str, &str)]>) -> Server {
        let own = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Server { address: Address::new("localhost", 1), info: lines(info), settings: settings.map(own) }
    }

    #[test]
    fn rl_47_each_weak_setting_is_named() {
        let good = [("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")];
        assert_eq!(server("aof_enabled:1", Some(&good)).weakness(), None);
        for at in 0..good.len() {
            let mut weak = good;
            weak[at].1 = "other";
            let found = server("aof_enabled:1", Some(&weak)).weakness().unwrap();
            assert!(found.contains(good[at].0) && found.contains("`other`"), "{found}");
        }
        assert!(server("aof_enabled:0", None).weakness().is_some(), "what INFO tells needs no settings");
        assert_eq!(server("aof_enabled:1", None).weakness(), None);
    }
}
