//! Reading `weft.toml`. Owns what stands where in it; what a value may be is the business of its kind.

use crate::keys;
use crate::kind::{Kind, Wrong};
use crate::mistake::Mistake;
use crate::nearest::nearest;
use crate::origin::Origin;
use crate::row::Row;
use crate::value::Value;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key of the file with its value.
pub(crate) struct Entry {
    pub row: &'static Row,
    pub value: Value,
    pub origin: Origin,
}

/// Reads the file. If it is not there and need not be, it has no entries.
pub(crate) fn read(path: &Path, required: bool, mistakes: &mut Vec<Mistake>) -> Vec<Entry> {
    match std::fs::read_to_string(path) {
        Ok(text) => entries(path, &text, mistakes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => Vec::new(),
        Err(error) => {
            mistakes.push(Mistake::Unreadable { path: path.to_owned(), why: error.to_string() });
            Vec::new()
        }
    }
}

fn entries(path: &Path, text: &str, mistakes: &mut Vec<Mistake>) -> Vec<Entry> {
    let mut reader = Reader { path: path.to_owned(), text, entries: Vec::new(), mistakes };
    match DeTable::parse(text) {
        Ok(table) => reader.table("", table.get_ref()),
        Err(error) => {
            let line = reader.line(error.span().map_or(0, |span| span.start));
            // The parser explains in several lines at times.
            let why = error.message().trim().replace('\n', ", ");
            reader.mistakes.push(Mistake::Syntax { path: path.to_owned(), line, why });
        }
    }
    reader.entries
}

struct Reader<'a> {
    path: PathBuf,
    text: &'a str,
    entries: Vec<Entry>,
    mistakes: &'a mut Vec<Mistake>,
}

impl Reader<'_> {
    fn table(&mut self, above: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let name_text: &str = name.get_ref();
            // A name in quotes can have a dot of its own, and is then none of ours.
            let name_text = if name_text.contains('.') { format!("\"{name_text}\"") } else { name_text.to_owned() };
            let key = if above.is_empty() { name_text } else { format!("{above}.{name_text}") };
            match (keys::find(&key), value.get_ref()) {
                (Some(row), _) => self.entry(row, name.span().start, value),
                (None, DeValue::Table(table)) if !table.is_empty() => self.table(&key, table),
                (None, DeValue::Table(_)) if is_table(&key) => {}
                _ => {
                    let (origin, nearest) = (self.origin(name.span().start), nearest_key(&key));
                    self.mistakes.push(Mistake::UnknownKey { key, origin, nearest });
                }
            }
        }
    }

    fn entry(&mut self, row: &'static Row, at: usize, value: &Spanned<DeValue<'_>>) {
        let origin = self.origin(at);
        if !row.in_file {
            self.mistakes.push(Mistake::NotInFile { key: row.key, variable: row.variable(), origin });
            return;
        }
        match read_value(row.kind, value.get_ref()) {
            Ok(value) => self.entries.push(Entry { row, value, origin }),
            Err(wrong) => {
                let written = self.text.get(value.span()).unwrap_or_default();
                self.mistakes.push(Mistake::of_value(row, written, wrong, origin));
            }
        }
    }

    fn origin(&self, at: usize) -> Origin {
        Origin::File { path: self.path.clone(), line: self.line(at) }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

fn read_value(kind: Kind, value: &DeValue<'_>) -> Result<Value, Wrong> {
    match (kind, value) {
        (Kind::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
        (Kind::Count { .. } | Kind::Fraction, DeValue::Integer(number)) if number.radix() == 10 => {
            kind.read(number.as_str())
        }
        (Kind::Fraction, DeValue::Float(number)) => kind.read(number.as_str()),
        (Kind::Switch | Kind::Count { .. } | Kind::Fraction, _) => Err(Wrong::Form),
        (_, DeValue::Array(array)) if kind.is_list() => {
            let items: Option<Vec<&str>> = array.iter().map(|item| item.get_ref().as_str()).collect();
            kind.read_items(&items.ok_or(Wrong::Form)?)
        }
        (_, DeValue::String(text)) if !kind.is_list() => kind.read(text),
        _ => Err(Wrong::Form),
    }
}

/// Whether some key stands in this table.
fn is_table(name: &str) -> bool {
    keys::rows().any(|row| row.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The key that this was meant to be: spelt nearly so, or the same in another table.
fn nearest_key(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let elsewhere = || keys::rows().map(|row| row.key).find(|known| last(known) == last(key));
    nearest(key, keys::rows().map(|row| row.key)).or_else(elsewhere).map(str::to_owned)
}
