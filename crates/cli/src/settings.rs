//! The configuration as the command line gives it: a file, the environment, and a flag for every key of the table.

use crate::fault::Fault;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::path::PathBuf;
use weft_config::{FILE, Mistake, Settings, Sources};

/// What the command line says about the configuration. Nothing has been read yet.
#[derive(Clone, Debug)]
pub struct Arguments {
    file: Option<PathBuf>,
    flags: Vec<(String, String)>,
}

const FILE_ID: &str = "config";

impl Arguments {
    /// Where to look: the file that is named, or `weft.toml` here if there is one.
    pub fn sources(&self) -> Sources {
        Sources {
            file: Some(self.file()),
            file_required: self.file.is_some(),
            variables: std::env::vars_os().collect(),
            flags: self.flags.clone(),
        }
    }

    pub fn file(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from(FILE))
    }

    /// Reads everything; all mistakes are told at once.
    pub fn load(&self) -> Result<Settings> {
        Settings::load(self.sources()).map_err(|mistakes| refusal(&told(&mistakes)))
    }
}

/// Settings by the environment alone, and of that only the keys that begin with one of these.
pub fn from_environment(keys: &[&str]) -> Result<Settings> {
    let rows = weft_config::keys::rows().filter(|row| keys.iter().any(|start| row.key.starts_with(start)));
    let names: Vec<String> =
        rows.flat_map(|row| [Some(row.variable()), row.also.map(str::to_owned)]).flatten().collect();
    let variables = std::env::vars_os().filter(|(name, _)| names.iter().any(|known| name == known.as_str()));
    let sources = Sources { variables: variables.collect(), ..Sources::default() };
    Settings::load(sources).map_err(|mistakes| refusal(&told(&mistakes)))
}

/// A misspelt variable stops every command, also one that reads no configuration: it would go on with what was not meant.
pub fn refuse_unknown_variables() -> Result<()> {
    let mistakes = weft_config::unknown_variables(std::env::vars_os().map(|(name, _)| name));
    if mistakes.is_empty() { Ok(()) } else { Err(refusal(&told(&mistakes))) }
}

pub fn told(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(Mistake::to_string).collect()
}

/// One error for everything that is wrong.
pub fn refusal(mistakes: &[String]) -> anyhow::Error {
    match mistakes {
        [mistake] => Fault::usage(mistake.clone()),
        _ => Fault::usage(format!("the configuration has {} mistakes\n  {}", mistakes.len(), mistakes.join("\n  "))),
    }
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE_ID)
            .long("config")
            .value_name("PATH")
            .value_parser(clap::value_parser!(PathBuf))
            .help("File to read [default: `weft.toml` in this folder, if it is there]");
        let flags = weft_config::arguments().into_iter().map(|flag| {
            let arg = Arg::new(flag.key)
                .long(flag.long)
                .value_name(flag.value_name)
                .help(flag.help)
                .help_heading(flag.area)
                .hide_possible_values(true)
                // Of one that is given twice the last counts, as everywhere in the configuration.
                .action(ArgAction::Append);
            match flag.value_missing {
                Some(value) => arg.num_args(0..=1).require_equals(true).default_missing_value(value),
                None => arg,
            }
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Vec::new();
        for flag in weft_config::arguments() {
            let values = matches.get_many::<String>(flag.key).into_iter().flatten();
            flags.extend(values.map(|value| (flag.long.clone(), value.clone())));
        }
        Ok(Self { file: matches.get_one(FILE_ID).cloned(), flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
