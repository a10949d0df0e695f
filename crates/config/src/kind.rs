//! Kinds of settings: what each looks like, what it allows, and reading one from text.

use crate::network::Network;
use crate::secret::Secret;
use crate::value::Value;
use crate::{duration, size};
use std::time::Duration;
use weft_core::limits::NAME_MAX;
use weft_core::text::{check_name, check_tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One line, not empty, at most so many bytes.
    Text {
        bytes_max: usize,
    },
    /// A namespace.
    Name,
    /// A tag that executions and flows may have: `KEY=VALUE`.
    Tag,
    /// An address that begins with one of these, or with anything if there are none. Shown without its login.
    Url {
        schemes: &'static [&'static str],
    },
    Switch,
    Count {
        min: u64,
        max: u64,
    },
    /// From 0 to 1.
    Fraction,
    Duration {
        min: Duration,
        max: Duration,
    },
    Size {
        min: u64,
        max: u64,
    },
    /// An IP address with a port.
    Address,
    Path,
    Word(&'static [&'static str]),
    /// What is logged: a level, or several of `TARGET=LEVEL`.
    Filter,
    /// Origins of web pages, exactly, or `*`.
    Origins,
    Networks,
    /// Never a flag, never shown.
    Secret,
}

/// Why a text is not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Form,
    Range,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl Kind {
    /// Reads a value as variables and flags give it; the items of a list have commas between them.
    pub(crate) fn read(self, text: &str) -> Result<Value, Wrong> {
        if self.is_list() {
            return self.read_items(&items(text));
        }
        let value = match self {
            Kind::Text { bytes_max } => {
                is_line(text).then(|| Value::Text(text.to_owned())).filter(|_| text.len() <= bytes_max)
            }
            Kind::Name => check_name("namespace", text).is_ok().then(|| Value::Text(text.to_owned())),
            Kind::Tag => is_tag(text).then(|| Value::Text(text.to_owned())),
            Kind::Url { schemes } => is_url(text, schemes).then(|| Value::Url(Secret::new(text))),
            Kind::Switch => text.parse().ok().map(Value::Switch),
            Kind::Count { .. } => digits(text).then(|| text.parse().map_or(Value::Count(u64::MAX), Value::Count)),
            Kind::Fraction => decimal(text).map(Value::Fraction),
            Kind::Duration { .. } => duration::parse(text).map(Value::Duration),
            Kind::Size { .. } => size::parse(text).map(Value::Bytes),
            Kind::Address => text.parse().ok().map(Value::Address),
            Kind::Path => is_line(text).then(|| Value::Path(text.into())),
            Kind::Word(words) => words.iter().find(|word| **word == text).map(|word| Value::Word(word)),
            Kind::Filter => is_filter(text).then(|| Value::Text(text.to_owned())),
            Kind::Secret => (is_line(text) && !text.contains(' ')).then(|| Value::Secret(Secret::new(text))),
            Kind::Origins | Kind::Networks => None,
        };
        let value = value.ok_or(Wrong::Form)?;
        if self.covers(&value) { Ok(value) } else { Err(Wrong::Range) }
    }

    /// Reads a list from its items.
    pub(crate) fn read_items(self, items: &[&str]) -> Result<Value, Wrong> {
        let list = match self {
            Kind::Origins => {
                let origins = items.iter().map(|item| is_origin(item).then(|| (*item).to_owned()));
                origins.collect::<Option<_>>().map(Value::Texts)
            }
            Kind::Networks => items.iter().map(|item| Network::parse(item)).collect::<Option<_>>().map(Value::Networks),
            _ => None,
        };
        list.ok_or(Wrong::Form)
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self, Kind::Origins | Kind::Networks)
    }

    /// Whether a value of this kind must not be repeated in a message.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Kind::Secret | Kind::Url { .. })
    }

    fn covers(self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Count { min, max }, Value::Count(number)) | (Kind::Size { min, max }, Value::Bytes(number)) => {
                (min..=max).contains(number)
            }
            (Kind::Duration { min, max }, Value::Duration(time)) => (min..=max).contains(time),
            (Kind::Fraction, Value::Fraction(fraction)) => (0.0..=1.0).contains(fraction),
            _ => true,
        }
    }

    /// The smallest and the largest value, if there is an order.
    pub fn range(self) -> Option<(String, String)> {
        match self {
            Kind::Count { min, max } => Some((min.to_string(), max.to_string())),
            Kind::Duration { min, max } => Some((duration::format(min), duration::format(max))),
            Kind::Size { min, max } => Some((size::format(min), size::format(max))),
            Kind::Fraction => Some(("0".to_owned(), "1".to_owned())),
            _ => None,
        }
    }

    /// What a value looks like, for the sentence that refuses another: as it is written in a file, or elsewhere.
    pub(crate) fn wanted(self, in_file: bool) -> String {
        let (noun, samples): (&str, &[&str]) = match self {
            Kind::Text { bytes_max } => return format!("one line of 1 to {bytes_max} bytes"),
            Kind::Name => {
                return format!(
                    "a name of 1 to {NAME_MAX} letters, digits and `._:/@-` that begins with a letter or digit"
                );
            }
            Kind::Tag => ("a tag `KEY=VALUE`", &["team=a"]),
            Kind::Url { schemes: [] } => ("an address", &["sqlite://PATH", "postgres://HOST/DATABASE"]),
            Kind::Url { .. } => ("an address", &["http://HOST:PORT", "https://HOST:PORT"]),
            Kind::Switch => ("", &["true", "false"]),
            Kind::Count { .. } => ("a count", &["100"]),
            Kind::Fraction => ("a fraction", &["0.1"]),
            Kind::Duration { .. } => ("a duration", &["250ms", "30s", "15m", "24h", "7d"]),
            Kind::Size { .. } => ("a size", &["512B", "64KiB", "1MiB"]),
            Kind::Address => ("an IP address with a port", &["127.0.0.1:7700", "[::1]:7700"]),
            Kind::Path => return "the path of a file or folder".to_owned(),
            Kind::Word(words) => ("", words),
            Kind::Filter => ("levels to log", &["info", "info,weft_engine=debug"]),
            Kind::Origins => ("a list of origins", &["https://app.example.com,http://localhost:3000"]),
            Kind::Networks => ("a list of networks", &["10.0.0.0/8,192.0.2.7"]),
            Kind::Secret => return "one word of text".to_owned(),
        };
        let written: Vec<String> = match in_file {
            true => samples.iter().map(|sample| format!("`{}`", self.literal(sample))).collect(),
            false => samples.iter().map(|sample| format!("`{sample}`")).collect(),
        };
        let samples = either(&written);
        if noun.is_empty() { samples } else { format!("{noun} like {samples}") }
    }

    /// What is allowed, in a few words for tables and help.
    pub fn allowed(self) -> String {
        match (self, self.range()) {
            (_, Some((min, max))) => format!("{min} to {max}"),
            (Kind::Switch, _) => "true or false".to_owned(),
            (Kind::Word(words), _) => either(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()),
            (Kind::Text { .. } | Kind::Secret, _) => "text".to_owned(),
            (Kind::Name, _) => "namespace".to_owned(),
            (Kind::Tag, _) => "KEY=VALUE".to_owned(),
            (Kind::Url { schemes: [] }, _) => "address of a store".to_owned(),
            (Kind::Url { .. }, _) => "URL".to_owned(),
            (Kind::Address, _) => "IP address with a port".to_owned(),
            (Kind::Filter, _) => "a level, or TARGET=LEVEL,…".to_owned(),
            (Kind::Origins, _) => "list of origins".to_owned(),
            (Kind::Networks, _) => "list of networks".to_owned(),
            (_, _) => "path".to_owned(),
        }
    }

    /// What stands for the value in help.
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Text { .. } | Kind::Secret => "TEXT",
            Kind::Name => "NAME",
            Kind::Tag => "KEY=VALUE",
            Kind::Url { .. } => "URL",
            Kind::Switch => "BOOL",
            Kind::Count { .. } => "COUNT",
            Kind::Fraction => "FRACTION",
            Kind::Duration { .. } => "DURATION",
            Kind::Size { .. } => "SIZE",
            Kind::Address => "ADDRESS",
            Kind::Path => "PATH",
            Kind::Word(_) => "WORD",
            Kind::Filter => "LEVELS",
            Kind::Origins => "ORIGINS",
            Kind::Networks => "NETWORKS",
        }
    }

    /// A value as it is written in a file, from its text.
    pub(crate) fn literal(self, text: &str) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        match self {
            Kind::Switch | Kind::Count { .. } | Kind::Fraction => text.to_owned(),
            _ if self.is_list() => {
                let items: Vec<String> = items(text).into_iter().map(quoted).collect();
                format!("[{}]", items.join(", "))
            }
            _ => quoted(text),
        }
    }
}

fn items(text: &str) -> Vec<&str> {
    if text.trim().is_empty() { Vec::new() } else { text.split(',').map(str::trim).collect() }
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

/// The key ends at the first `=`.
fn is_tag(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, value)| check_tag(key, value).is_ok())
}

fn is_url(text: &str, schemes: &[&str]) -> bool {
    let begins = |scheme: &&str| text.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
    is_line(text) && !text.contains(' ') && (schemes.is_empty() || schemes.iter().any(begins))
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `0.25`, `1`; no sign, no exponent, no infinity.
fn decimal(text: &str) -> Option<f64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if digits(whole) && digits(rest) { text.parse().ok() } else { None }
}

fn is_filter(text: &str) -> bool {
    let is_target = |target: &str| {
        !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte))
    };
    text.split(',').all(|directive| match directive.split_once('=') {
        Some((target, level)) => is_target(target) && LEVELS.contains(&level),
        None => LEVELS.contains(&directive),
    })
}

/// A scheme, a host and perhaps a port, as a browser sends them: lower case, nothing behind.
fn is_origin(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return text == "*" };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !rest.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let numbered = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match numbered {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            !host.is_empty() && host.bytes().all(letter)
        }
    };
    is_host && port.is_none_or(|port| digits(port) && port.parse::<u16>().is_ok())
}

/// `a`, `b` or `c`.
fn either(words: &[String]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> String {
        kind.read(text).map_or_else(|wrong| format!("{wrong:?}"), |value| value.to_string())
    }

    #[test]
    fn every_kind_reads_its_own() {
        let count = Kind::Count { min: 1, max: 10 };
        let time = Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(60) };
        let size = Kind::Size { min: 1, max: 1 << 20 };
        for (kind, text, wanted) in [
            (Kind::Text { bytes_max: 4 }, "a b", "a b"),
            (Kind::Name, "shop/eu:1", "shop/eu:1"),
            (Kind::Tag, "team=a b=c", "team=a b=c"),
            (Kind::Tag, "team=", "team="),
            (Kind::Url { schemes: &["http://"] }, "http://host:4318", "http://host:4318"),
            (Kind::Switch, "true", "true"),
            (count, "10", "10"),
            (count, "11", "Range"),
            (count, "0", "Range"),
            (count, "99999999999999999999", "Range"),
            (Kind::Fraction, "0.25", "0.25"),
            (Kind::Fraction, "1", "1"),
            (Kind::Fraction, "1.1", "Range"),
            (time, "60s", "1m"),
            (time, "61s", "Range"),
            (size, "1MiB", "1MiB"),
            (size, "0B", "Range"),
            (Kind::Address, "[::1]:80", "[::1]:80"),
            (Kind::Path, "a/b c", "a/b c"),
            (Kind::Word(&["auto", "check"]), "check", "check"),
            (Kind::Filter, "warn,weft_engine::partition=debug", "warn,weft_engine::partition=debug"),
            (Kind::Origins, "https://a.example, http://[::1]:8080,*", "https://a.example,http://[::1]:8080,*"),
            (Kind::Networks, "10.0.0.0/8,::1", "10.0.0.0/8,::1/128"),
            (Kind::Networks, "", ""),
            (Kind::Secret, "x", "***"),
        ] {
            assert_eq!(read(kind, text), wanted, "{text}");
        }
    }

    #[test]
    fn nothing_else_is_read() {
        for (kind, texts) in [
            (Kind::Text { bytes_max: 4 }, vec!["", " ", "a\nb", "abcde"]),
            (Kind::Name, vec!["", "-shop", "a b", "ü", "a,b"]),
            (Kind::Tag, vec!["", "team", "=a", "a,b=c", "weft.own=1", "a b=c"]),
            (Kind::Url { schemes: &["http://"] }, vec!["", "ftp://x", "http://", "http://a b"]),
            (Kind::Switch, vec!["", "1", "yes", "True"]),
            (Kind::Count { min: 0, max: 9 }, vec!["", "-1", "+1", "1.0", "1k", "1_0"]),
            (Kind::Fraction, vec!["", ".5", "5.", "-0.1", "1e-3", "inf", "nan"]),
            (Kind::Address, vec!["", "127.0.0.1", "localhost:80", ":80", "127.0.0.1:70000"]),
            (Kind::Path, vec![""]),
            (Kind::Word(&["auto"]), vec!["", "Auto", "aut"]),
            (Kind::Filter, vec!["", "loud", "a=loud", "=info", "info,", "a b=info"]),
            (
                Kind::Origins,
                vec![
                    "app.example",
                    "https://A.example",
                    "https://a.example/",
                    "https://a:x",
                    "https://",
                    "https://*.a",
                    ",",
                ],
            ),
            (Kind::Networks, vec!["10.0.0.1/8", "localhost"]),
            (Kind::Secret, vec!["", "a b", "a\n"]),
        ] {
            for text in texts {
                assert_eq!(read(kind, text), "Form", "{kind:?} {text:?}");
            }
        }
    }

    #[test]
    fn a_literal_is_written_as_a_file_has_it() {
        assert_eq!(Kind::Path.literal(r#"a\"b"#), r#""a\\\"b""#);
        assert_eq!(Kind::Networks.literal("a,b"), r#"["a", "b"]"#);
        assert_eq!(Kind::Networks.literal(""), "[]");
        assert_eq!(Kind::Count { min: 0, max: 1 }.literal("1"), "1");
    }
}
