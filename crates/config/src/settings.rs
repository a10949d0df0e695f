//! Settings: every key with its value and where that came from. Built-in, then `weft.toml`, then environment, then flag;
//! the later one counts. All mistakes are told at once, also those in values that another one replaces.

use crate::file;
use crate::injected::{is_injected, is_passed_on};
use crate::keys;
use crate::mistake::Mistake;
use crate::nearest::nearest;
use crate::origin::Origin;
use crate::relations;
use crate::row::{Fallback, Key, Row};
use crate::value::{Setting, Value};
use crate::variables::{self, PREFIX};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read, if any.
    pub file: Option<PathBuf>,
    /// Whether it is a mistake if the file is not there.
    pub file_required: bool,
    /// The environment, all of it: what is not Weft's is passed over. `std::env::vars_os().collect()`.
    pub variables: Vec<(OsString, OsString)>,
    /// Flags and their values, in the order of the command line; of the same one twice the last counts. With or without
    /// their dashes.
    pub flags: Vec<(String, String)>,
}

/// Every key with its value. Cheap to read, never changes.
#[derive(Clone, Debug)]
pub struct Settings {
    resolved: BTreeMap<&'static str, Resolved>,
}

#[derive(Clone, Debug)]
struct Resolved {
    value: Option<Value>,
    origin: Origin,
}

/// A row of `weft config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub key: &'static str,
    /// As it would be configured; `***` for a secret. Nothing if it is found out at the start.
    pub value: Option<String>,
    /// What holds if there is no value, in a few words.
    pub otherwise: Option<&'static str>,
    pub origin: Origin,
}

/// What a reload gives.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// What holds from now on: of keys that need a restart, the values from before.
    pub settings: Settings,
    /// Keys whose value changed and holds.
    pub changed: Vec<&'static str>,
    /// Keys whose value changed and takes a restart.
    pub restart: Vec<&'static str>,
}

impl Settings {
    /// Reads everything. Nothing is half accepted: one mistake, and there are no settings.
    pub fn load(sources: Sources) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let mut settings = Self::built_in();
        if let Some(path) = &sources.file {
            for entry in file::read(path, sources.file_required, &mut mistakes) {
                settings.put(entry.row, entry.value, entry.origin);
            }
        }
        settings.take_variables(sources.variables, &mut mistakes);
        settings.take_flags(sources.flags, &mut mistakes);
        if mistakes.is_empty() {
            mistakes = relations::check(&settings);
        }
        if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
    }

    /// The defaults.
    pub fn built_in() -> Self {
        let resolved = keys::rows().map(|row| {
            let value = match row.default {
                Fallback::Value(text) => Some(row.kind.read(text).expect("keys: a default is allowed")),
                Fallback::Derived(_) => None,
            };
            (row.key, Resolved { value, origin: Origin::BuiltIn })
        });
        Self { resolved: resolved.collect() }
    }

    /// The value of a key.
    pub fn get<T: Setting>(&self, key: Key<T>) -> T {
        T::of(self.of(key.row.key).value.as_ref()).expect("keys: a key has the type of its kind")
    }

    pub fn origin<T>(&self, key: Key<T>) -> &Origin {
        &self.of(key.row.key).origin
    }

    /// Every key in the order of the table, for people.
    pub fn rows(&self) -> Vec<Shown> {
        let shown = keys::rows().map(|row| {
            let Resolved { value, origin } = self.of(row.key);
            let otherwise = match (value, row.default) {
                (None, Fallback::Derived(how)) => Some(how),
                _ => None,
            };
            Shown { key: row.key, value: value.as_ref().map(Value::to_string), otherwise, origin: origin.clone() }
        });
        shown.collect()
    }

    /// Reads everything again. On a mistake nothing changes.
    pub fn reload(&self, sources: Sources) -> Result<Reloaded, Vec<Mistake>> {
        let mut settings = Self::load(sources)?;
        let (mut changed, mut restart) = (Vec::new(), Vec::new());
        for row in keys::rows() {
            if self.of(row.key).value == settings.of(row.key).value {
                continue;
            }
            if row.reload {
                changed.push(row.key);
            } else {
                restart.push(row.key);
                settings.resolved.insert(row.key, self.of(row.key).clone());
            }
        }
        // What was read goes together; what it makes with values from before need not.
        let mistakes = relations::check(&settings);
        if mistakes.is_empty() { Ok(Reloaded { settings, changed, restart }) } else { Err(mistakes) }
    }

    fn of(&self, key: &str) -> &Resolved {
        self.resolved.get(key).expect("keys: every key is resolved")
    }

    fn put(&mut self, row: &'static Row, value: Value, origin: Origin) {
        self.resolved.insert(row.key, Resolved { value: Some(value), origin });
    }

    fn take_variables(&mut self, all: Vec<(OsString, OsString)>, mistakes: &mut Vec<Mistake>) {
        let all = all.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let mut all: Vec<(String, OsString)> = all.collect();
        // What others have agreed on goes first, so that Weft's own replaces it.
        all.sort_by_key(|(name, _)| name.starts_with(PREFIX));
        for (name, value) in all {
            if value.to_str().is_some_and(|value| is_injected(&name, value)) {
                continue;
            }
            let row = keys::rows().find(|row| row.variable() == name || row.also == Some(name.as_str()));
            match (row, value.into_string()) {
                // What all programs of a machine share may be written for others, who take more than Weft does.
                (Some(row), value) if !name.starts_with(PREFIX) => {
                    if let Some(value) = value.ok().and_then(|value| row.kind.read(&value).ok()) {
                        self.put(row, value, Origin::Variable(name));
                    }
                }
                (Some(row), Ok(value)) => self.take(row, &value, Origin::Variable(name), mistakes),
                (Some(_), Err(_)) => mistakes.push(Mistake::NotUtf8 { variable: name }),
                // `unknown_variables` lists those that are misspelt.
                (None, _) => {}
            }
        }
    }

    fn take_flags(&mut self, flags: Vec<(String, String)>, mistakes: &mut Vec<Mistake>) {
        for (flag, value) in flags {
            let flag = format!("--{}", flag.trim_start_matches('-'));
            if let Some(row) = keys::rows().find(|row| row.flag().as_ref() == Some(&flag)) {
                self.take(row, &value, Origin::Flag(flag), mistakes);
            } else if let Some(row) = keys::rows().find(|row| row.is_secret() && is_flag_of(row, &flag)) {
                mistakes.push(Mistake::SecretFlag { key: row.key, variable: row.variable(), in_file: row.in_file });
            } else {
                let nearest = nearest_flag(&flag);
                mistakes.push(Mistake::UnknownFlag { flag, nearest });
            }
        }
    }

    fn take(&mut self, row: &'static Row, text: &str, origin: Origin, mistakes: &mut Vec<Mistake>) {
        match row.kind.read(text) {
            Ok(value) => self.put(row, value, origin),
            Err(wrong) => mistakes.push(Mistake::of_value(row, text, wrong, origin)),
        }
    }
}

/// Every variable with Weft's prefix that is no setting, with the nearest name. Settings load nevertheless, because
/// other programs may use such names. Variables that Kubernetes and Docker links make are left out.
pub fn unknown_variables(all: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<Mistake> {
    let unknown = named(all).filter(|(name, value)| !is_known(name) && !is_made(name, value));
    unknown.map(|(name, _)| Mistake::UnknownVariable { nearest: nearest_variable(&name), name }).collect()
}

/// The variables that Kubernetes and Docker links made, which no setting is read from.
pub fn injected_variables(all: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<String> {
    let made = named(all).filter(|(name, value)| match is_known(name) {
        true => value.to_str().is_some_and(|value| is_injected(name, value)),
        false => is_made(name, value),
    });
    made.map(|(name, _)| name).collect()
}

fn named(all: impl IntoIterator<Item = (OsString, OsString)>) -> impl Iterator<Item = (String, OsString)> {
    let all = all.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    all.filter(|(name, _)| name.starts_with(PREFIX))
}

fn is_made(name: &str, value: &OsStr) -> bool {
    is_passed_on(name) || value.to_str().is_some_and(|value| is_injected(name, value))
}

fn is_known(name: &str) -> bool {
    variables::is_other(name) || keys::rows().any(|row| row.variable() == name || row.also == Some(name))
}

/// Whether somebody who does not know that a secret has no flag would give it this one.
fn is_flag_of(row: &Row, flag: &str) -> bool {
    let like_variable = row.variable().trim_start_matches(PREFIX).to_ascii_lowercase().replace('_', "-");
    flag == row.regular_flag() || flag.trim_start_matches('-') == like_variable
}

/// The variable that this was meant to be: the long form of a short one, or spelt nearly so.
fn nearest_variable(name: &str) -> Option<String> {
    if let Some(row) = keys::rows().find(|row| row.regular_variable() == name) {
        return Some(row.variable());
    }
    let mut known: Vec<String> = keys::rows().map(Row::variable).collect();
    known.extend(variables::OTHERS.iter().map(|other| other.name.to_owned()));
    nearest(name, known.iter().map(String::as_str)).map(str::to_owned)
}

/// The flag that this was meant to be: the long form of a short one, or spelt nearly so.
fn nearest_flag(flag: &str) -> Option<String> {
    if let Some(row) = keys::rows().find(|row| row.regular_flag() == flag) {
        return row.flag();
    }
    let known: Vec<String> = keys::rows().filter_map(Row::flag).collect();
    nearest(flag, known.iter().map(String::as_str)).map(str::to_owned)
}
