//! The configuration in this folder and this environment.

use crate::{serve, settings};
use std::path::Path;
use weft_config::{FILE, Settings, Sources};
use weft_store::Finding;

const SUBJECT: &str = "configuration";

/// Says nothing if there is nothing: no file, and no variable of Weft that sets anything.
pub fn look() -> Vec<Finding> {
    let variables = std::env::vars_os().collect();
    let sources = Sources { file: Some(FILE.into()), variables, ..Sources::default() };
    let advice = "`weft config check` tells the same; `weft config show` shows every value with its origin";
    let problem = |mistake: String| Finding::problem(SUBJECT, mistake, advice);
    let settings = match Settings::load(sources) {
        Ok(settings) => settings,
        Err(mistakes) => return settings::told(&mistakes).into_iter().map(problem).collect(),
    };
    let mistakes = serve::check(&settings);
    let place =
        if Path::new(FILE).exists() { "`weft.toml` and environment" } else { "environment, and no `weft.toml`" };
    match mistakes.is_empty() {
        true => vec![Finding::fine(SUBJECT, format!("{place}: no mistakes"))],
        false => {
            // Another store may be looked at than the one that is configured here.
            let warning =
                |mistake: String| Finding::warning(SUBJECT, format!("`weft serve` would refuse: {mistake}"), advice);
            mistakes.into_iter().map(warning).collect()
        }
    }
}
