//! The configuration in this folder and this environment.

use crate::serve;
use crate::settings::{self, Arguments};
use weft_config::Settings;
use weft_store::Finding;

const SUBJECT: &str = "configuration";

/// Misspelt variables.
pub fn misspelt() -> Vec<Finding> {
    let advice = "it has no effect; name it rightly, or unset it";
    let mistakes = weft_config::unknown_variables(std::env::vars_os());
    settings::told(&mistakes).into_iter().map(|mistake| Finding::warning(SUBJECT, mistake, advice)).collect()
}

/// What `weft serve` would say about it. Flags are left out: they are about this one look at a store.
pub fn look(arguments: &Arguments) -> Vec<Finding> {
    let advice = "`weft config check` tells the same; `weft config show` shows every value with its origin";
    let problem = |mistake: String| Finding::problem(SUBJECT, mistake, advice);
    let settings = match Settings::load(arguments.without_flags().sources()) {
        Ok(settings) => settings,
        Err(mistakes) => return settings::told(&mistakes).into_iter().map(problem).collect(),
    };
    let mistakes = serve::check(&settings);
    let file = arguments.file();
    let place = match file.exists() {
        true => format!("`{}` and environment", file.display()),
        false => format!("environment, and no `{}`", file.display()),
    };
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
