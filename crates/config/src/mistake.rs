//! What is wrong about a configuration, and what to do about it.

use crate::kind::{Kind, Wrong};
use crate::nearest::nearest;
use crate::origin::Origin;
use crate::row::Row;
use crate::secret::HIDDEN;
use std::path::PathBuf;

/// One mistake. The text tells nothing secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    #[error("could not read `{}`: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("cannot read `{}:{line}`: {why}", path.display())]
    Syntax { path: PathBuf, line: usize, why: String },
    #[error("`{key}` is no key of the configuration ({origin}){}", question(.nearest))]
    UnknownKey { key: String, origin: Origin, nearest: Option<String> },
    #[error("`{name}` is no variable of Weft{}", question(.nearest))]
    UnknownVariable { name: String, nearest: Option<String> },
    #[error("`{flag}` is no flag of the configuration{}", question(.nearest))]
    UnknownFlag { flag: String, nearest: Option<String> },
    /// It is not what the key takes.
    #[error("`{key}` is `{shown}`, wanted is {wanted} ({origin}){}", question(.nearest))]
    Form { key: &'static str, shown: String, wanted: String, origin: Origin, nearest: Option<String> },
    /// It is what the key takes, and too much or too little of it.
    #[error("`{key}` is {shown}, allowed are {min} to {max} ({origin})")]
    Range { key: &'static str, shown: String, min: String, max: String, origin: Origin },
    #[error("`{variable}` is not UTF-8, which no value can be")]
    NotUtf8 { variable: String },
    #[error("`{key}` cannot be a flag, because others see flags: {}", instead(.variable, *.in_file))]
    SecretFlag { key: &'static str, variable: String, in_file: bool },
    #[error("`{key}` cannot stand in a file ({origin}): set `{variable}`")]
    NotInFile { key: &'static str, variable: String, origin: Origin },
    /// Two settings that do not go together.
    #[error("{0}")]
    Relation(String),
}

impl Mistake {
    /// A value that its key does not take, as it was written.
    pub(crate) fn of_value(row: &Row, written: &str, wrong: Wrong, origin: Origin) -> Self {
        let key = row.key;
        let plain = written.trim_matches(['"', '\'']);
        if let (Wrong::Range, Some((min, max))) = (wrong, row.kind.range()) {
            return Mistake::Range { key, shown: plain.to_owned(), min, max, origin };
        }
        let meant = if let Kind::Word(words) = row.kind { nearest(plain, words.iter().copied()) } else { None };
        let shown = if row.kind.is_hidden() { HIDDEN } else { written.lines().next().unwrap_or_default() };
        let wanted = row.kind.wanted(matches!(origin, Origin::File { .. }));
        Mistake::Form { key, shown: shown.to_owned(), wanted, origin, nearest: meant.map(str::to_owned) }
    }
}

fn question(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!(": did you mean `{nearest}`?"))
}

fn instead(variable: &str, in_file: bool) -> String {
    if in_file { format!("set `{variable}`, or write it into the file") } else { format!("set `{variable}`") }
}
