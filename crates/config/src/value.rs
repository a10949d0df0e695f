//! Values of settings: what the table knows of them, and the types that callers get.

use crate::network::Network;
use crate::secret::{HIDDEN, Secret};
use crate::{duration, size};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A value that has been read and found allowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    /// An address that may have a login in it.
    Url(Secret),
    Switch(bool),
    Count(u64),
    Fraction(f64),
    Duration(Duration),
    Bytes(u64),
    Address(SocketAddr),
    Path(PathBuf),
    Word(&'static str),
    Texts(Vec<String>),
    Networks(Vec<Network>),
    Secret(Secret),
}

impl fmt::Display for Value {
    /// As it is configured, so that it can be copied; secrets are hidden.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Url(url) => f.write_str(&without_login(url.expose())),
            Value::Switch(on) => write!(f, "{on}"),
            Value::Count(count) => write!(f, "{count}"),
            Value::Fraction(fraction) => write!(f, "{fraction}"),
            Value::Duration(time) => f.write_str(&duration::format(*time)),
            Value::Bytes(bytes) => f.write_str(&size::format(*bytes)),
            Value::Address(address) => write!(f, "{address}"),
            Value::Path(path) => write!(f, "{}", path.display()),
            Value::Word(word) => f.write_str(word),
            Value::Texts(texts) => f.write_str(&texts.join(",")),
            Value::Networks(networks) => {
                let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
            Value::Secret(_) => f.write_str(HIDDEN),
        }
    }
}

/// What stands before the last `@` is nobody's business, and neither is a parameter that is called a password.
fn without_login(url: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let mut shown = match (base.split_once("://"), base.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{HIDDEN}@{rest}"),
        _ => base.to_owned(),
    };
    if let Some(query) = query {
        let hidden = query.split('&').map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}={HIDDEN}"),
            _ => parameter.to_owned(),
        });
        shown = format!("{shown}?{}", hidden.collect::<Vec<_>>().join("&"));
    }
    shown
}

/// A type that one kind of value has. A value of another kind is none.
pub trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $pattern:pat => $read:expr;)+) => {
        $(impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $pattern => $read,
                    _ => None,
                }
            }
        })+
    };
}

from_value! {
    bool: Value::Switch(on) => Some(*on);
    u16: Value::Count(count) => (*count).try_into().ok();
    u32: Value::Count(count) => (*count).try_into().ok();
    usize: Value::Count(number) | Value::Bytes(number) => (*number).try_into().ok();
    f64: Value::Fraction(fraction) => Some(*fraction);
    Duration: Value::Duration(time) => Some(*time);
    SocketAddr: Value::Address(address) => Some(*address);
    PathBuf: Value::Path(path) => Some(path.clone());
    Vec<String>: Value::Texts(texts) => Some(texts.clone());
    Vec<Network>: Value::Networks(networks) => Some(networks.clone());
    Secret: Value::Secret(secret) => Some(secret.clone());
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Url(url) => Some(url.expose().to_owned()),
            _ => None,
        }
    }
}

/// What a key gives: the value of a key with a default, or perhaps one.
pub trait Setting: Sized {
    fn of(value: Option<&Value>) -> Option<Self>;
}

impl<T: FromValue> Setting for T {
    fn of(value: Option<&Value>) -> Option<Self> {
        value.and_then(T::from_value)
    }
}

impl<T: FromValue> Setting for Option<T> {
    fn of(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(value) => T::from_value(value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_7_an_address_is_shown_without_its_login() {
        for (url, shown) in [
            ("postgres://ann:hidden@host/weft?schema=a", "postgres://***@host/weft?schema=a"),
            ("valkey://hidden@host", "valkey://***@host"),
            ("postgres://ann:hi@dden@host/weft", "postgres://***@host/weft"),
            ("postgres://host/weft?user=ann&password=hidden", "postgres://host/weft?user=ann&password=***"),
            ("sqlite:weft-data/weft.db", "sqlite:weft-data/weft.db"),
        ] {
            let value = Value::Url(Secret::new(url));
            assert_eq!(value.to_string(), shown);
            assert!(!format!("{value:?}").contains("hidden"));
        }
    }

    #[test]
    fn ops_3_a_secret_is_not_shown() {
        let value = Value::Secret(Secret::new("hidden"));
        assert_eq!(value.to_string(), "***");
        assert_eq!(format!("{value:?}"), "Secret(***)");
        assert_eq!(Secret::from_value(&value).unwrap().expose(), "hidden");
    }
}
