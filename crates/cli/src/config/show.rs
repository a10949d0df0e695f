//! `weft config show`.

use crate::End;
use crate::terminal::{self, Colour, Table};
use anyhow::Result;
use serde::Serialize;
use weft_config::{Settings, Shown};

#[derive(Serialize)]
struct List {
    settings: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    /// None if it is found out at the start.
    value: Option<String>,
    /// What holds if there is no value, in words.
    otherwise: Option<&'static str>,
    origin: String,
}

pub fn run(settings: &Settings, json: bool, colour: Colour) -> Result<End> {
    let rows = settings.rows();
    match json {
        true => {
            let settings = rows.into_iter().map(Row::from).collect();
            terminal::put(&serde_json::to_string(&List { settings })?)?;
        }
        false => terminal::put(&table(&rows, colour))?,
    }
    Ok(End::Done)
}

impl From<Shown> for Row {
    fn from(shown: Shown) -> Self {
        let Shown { key, value, otherwise, origin } = shown;
        Self { key, value, otherwise, origin: origin.to_string() }
    }
}

fn table(rows: &[Shown], colour: Colour) -> String {
    let mut table = Table::left(&["key", "value", "origin"]);
    for row in rows {
        let value = match (&row.value, row.otherwise) {
            (Some(value), _) if value.is_empty() => colour.out.dim("(empty)"),
            (Some(value), _) => value.clone(),
            (None, otherwise) => colour.out.dim(&format!("({})", otherwise.unwrap_or("none"))),
        };
        let origin = match row.origin {
            weft_config::Origin::BuiltIn => colour.out.dim("built-in"),
            ref given => given.to_string(),
        };
        table.row(vec![row.key.to_owned(), value, origin]);
    }
    table.render(colour.out)
}
