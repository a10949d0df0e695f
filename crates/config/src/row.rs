//! A row of the table: a key with its names, its kind and its default, and the type that reading it gives.

use crate::kind::Kind;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::network::Network;
use crate::secret::Secret;

/// What is known of a key.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As in `weft.toml`, with dots between tables.
    pub key: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// One line: what it does.
    pub help: &'static str,
    /// Whether SIGHUP brings a changed value into effect.
    pub reload: bool,
    /// Whether `weft.toml` may have it.
    pub in_file: bool,
    /// What the example file shows if there is no default.
    pub sample: &'static str,
    /// Where shorter than what follows from the key.
    variable: Option<&'static str>,
    flag: Option<&'static str>,
    /// A variable that others have agreed on. Weft's own goes before it.
    pub also: Option<&'static str>,
}

/// What holds if nobody says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This value, written as a flag would have it.
    Value(&'static str),
    /// Something that is found out at the start; said in a few words.
    Derived(&'static str),
}

impl Row {
    /// The environment variable.
    pub fn variable(&self) -> String {
        self.variable.map_or_else(|| self.regular_variable(), str::to_owned)
    }

    /// The flag with its dashes. A secret has none.
    pub fn flag(&self) -> Option<String> {
        let flag = || self.flag.map_or_else(|| self.regular_flag(), str::to_owned);
        (!self.is_secret()).then(flag)
    }

    pub fn is_secret(&self) -> bool {
        self.kind == Kind::Secret
    }

    /// The variable that follows from the key.
    pub(crate) fn regular_variable(&self) -> String {
        format!("WEFT_{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }

    /// The flag that follows from the key.
    pub(crate) fn regular_flag(&self) -> String {
        format!("--{}", self.key.replace(['.', '_'], "-"))
    }
}

/// The rows of one subject.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    pub title: &'static str,
    pub rows: &'static [Row],
}

/// A row, and the type of its value: `T` if there is always one, otherwise `Option<T>`.
#[derive(Debug)]
pub struct Key<T> {
    pub row: Row,
    reads: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

const fn key<T>(name: &'static str, kind: Kind) -> Key<Option<T>> {
    let row = Row {
        key: name,
        kind,
        default: Fallback::Derived("none"),
        help: "",
        reload: false,
        in_file: true,
        sample: "",
        variable: None,
        flag: None,
        also: None,
    };
    Key { row, reads: PhantomData }
}

pub(crate) const fn text(name: &'static str, bytes_max: usize) -> Key<Option<String>> {
    key(name, Kind::Text { bytes_max })
}

pub(crate) const fn name(name: &'static str) -> Key<Option<String>> {
    key(name, Kind::Name)
}

pub(crate) const fn tag(name: &'static str) -> Key<Option<String>> {
    key(name, Kind::Tag)
}

pub(crate) const fn url(name: &'static str, schemes: &'static [&'static str]) -> Key<Option<String>> {
    key(name, Kind::Url { schemes })
}

pub(crate) const fn switch(name: &'static str) -> Key<Option<bool>> {
    key(name, Kind::Switch)
}

/// `T` is the whole number that the caller works with; `max` fits into it.
pub(crate) const fn count<T>(name: &'static str, min: u64, max: u64) -> Key<Option<T>> {
    key(name, Kind::Count { min, max })
}

pub(crate) const fn fraction(name: &'static str) -> Key<Option<f64>> {
    key(name, Kind::Fraction)
}

pub(crate) const fn duration(name: &'static str, min: Duration, max: Duration) -> Key<Option<Duration>> {
    key(name, Kind::Duration { min, max })
}

pub(crate) const fn size(name: &'static str, min: u64, max: u64) -> Key<Option<usize>> {
    key(name, Kind::Size { min, max })
}

pub(crate) const fn address(name: &'static str) -> Key<Option<SocketAddr>> {
    key(name, Kind::Address)
}

pub(crate) const fn path(name: &'static str) -> Key<Option<PathBuf>> {
    key(name, Kind::Path)
}

/// `T` is the enum that has these words.
pub(crate) const fn word<T>(name: &'static str, words: &'static [&'static str]) -> Key<Option<T>> {
    key(name, Kind::Word(words))
}

pub(crate) const fn filter(name: &'static str) -> Key<Option<String>> {
    key(name, Kind::Filter)
}

pub(crate) const fn origins(name: &'static str) -> Key<Option<Vec<String>>> {
    key(name, Kind::Origins)
}

pub(crate) const fn networks(name: &'static str) -> Key<Option<Vec<Network>>> {
    key(name, Kind::Networks)
}

pub(crate) const fn secret(name: &'static str) -> Key<Option<Secret>> {
    key(name, Kind::Secret)
}

impl<T> Key<Option<T>> {
    /// From here on there is always a value.
    pub(crate) const fn default(self, value: &'static str) -> Key<T> {
        let row = Row { default: Fallback::Value(value), ..self.row };
        Key { row, reads: PhantomData }
    }

    pub(crate) const fn derived(self, how: &'static str, sample: &'static str) -> Self {
        let row = Row { default: Fallback::Derived(how), sample, ..self.row };
        Key { row, reads: PhantomData }
    }
}

impl<T> Key<T> {
    pub(crate) const fn variable(self, name: &'static str) -> Self {
        Key { row: Row { variable: Some(name), ..self.row }, reads: PhantomData }
    }

    pub(crate) const fn flag(self, name: &'static str) -> Self {
        Key { row: Row { flag: Some(name), ..self.row }, reads: PhantomData }
    }

    pub(crate) const fn also(self, variable: &'static str) -> Self {
        Key { row: Row { also: Some(variable), ..self.row }, reads: PhantomData }
    }

    pub(crate) const fn help(self, help: &'static str) -> Self {
        Key { row: Row { help, ..self.row }, reads: PhantomData }
    }

    pub(crate) const fn reload(self) -> Self {
        Key { row: Row { reload: true, ..self.row }, reads: PhantomData }
    }

    pub(crate) const fn not_in_file(self) -> Self {
        Key { row: Row { in_file: false, ..self.row }, reads: PhantomData }
    }
}
