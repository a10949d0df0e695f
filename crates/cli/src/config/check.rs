//! `weft config check`: what `weft serve` would refuse before it opens anything, and misspelt variables.

use crate::serve;
use crate::settings::{self, Arguments};
use crate::{End, terminal};
use anyhow::Result;
use serde::Serialize;
use weft_config::{Origin, Settings};

#[derive(Serialize)]
struct Report {
    mistakes: Vec<String>,
}

/// The exit code is that of a misuse, whichever way the mistakes are told.
pub fn run(arguments: &Arguments, json: bool) -> Result<End> {
    let loaded = Settings::load(arguments.sources());
    let mut mistakes = match &loaded {
        Ok(settings) => serve::check(settings),
        Err(mistakes) => settings::told(mistakes),
    };
    // A server starts in spite of them, and this is where somebody looks for mistakes.
    mistakes.extend(settings::told(&weft_config::unknown_variables(std::env::vars_os())));
    if json {
        terminal::put(&serde_json::to_string(&Report { mistakes: mistakes.clone() })?)?;
    }
    match loaded {
        Ok(settings) if mistakes.is_empty() => {
            terminal::say(&format!("the configuration is fine: {}", given(&settings)));
            Ok(End::Done)
        }
        _ => Err(settings::refusal(&mistakes)),
    }
}

/// What was said, and where.
fn given(settings: &Settings) -> String {
    let (mut file, mut variables, mut flags) = (0, 0, 0);
    for row in settings.rows() {
        match row.origin {
            Origin::BuiltIn => {}
            Origin::File { .. } => file += 1,
            Origin::Variable(_) => variables += 1,
            Origin::Flag(_) => flags += 1,
        }
    }
    match file + variables + flags {
        0 => "all values are the built-in ones".to_owned(),
        _ => format!("{file} values from the file, {variables} from the environment, {flags} from flags"),
    }
}
