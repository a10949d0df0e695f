//! The configuration as the command line gives it: a file, the environment, and a flag for every key of the table.

use crate::fault::Fault;
use crate::terminal;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::path::PathBuf;
use weft_config::{FILE, Flag, Mistake, Settings, Sources};

/// What the command line says about the configuration. Nothing has been read yet.
#[derive(Clone, Debug)]
pub struct Arguments {
    file: Option<PathBuf>,
    flags: Vec<(String, String)>,
}

const FILE_ID: &str = "config";

/// Those that are about the store: what a command takes that opens one and serves nobody.
#[derive(Clone, Debug)]
pub struct StoreArguments(pub Arguments);

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

    /// Whether the command line says anything at all.
    pub fn is_given(&self) -> bool {
        self.file.is_some() || !self.flags.is_empty()
    }

    /// What a flag says last.
    pub fn flag(&self, long: &str) -> Option<&str> {
        self.flags.iter().rev().find(|(flag, _)| flag == long).map(|(_, value)| value.as_str())
    }

    /// The same without flags: what is configured here, whatever this one command was told.
    pub fn without_flags(&self) -> Self {
        Self { flags: Vec::new(), ..self.clone() }
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

/// Variables of the environment that set keys which begin with none of `keys`.
pub fn variables_beyond(keys: &[&str]) -> Vec<String> {
    let beyond = weft_config::keys::rows().filter(|row| !keys.iter().any(|start| row.key.starts_with(start)));
    let injected = weft_config::injected_variables(std::env::vars_os());
    let names = beyond.map(|row| row.variable()).filter(|name| !injected.contains(name));
    names.filter(|name| std::env::var_os(name).is_some()).collect()
}

/// Warns of misspelt variables. The command runs without them.
pub fn warn_of_unknown_variables() {
    for mistake in weft_config::unknown_variables(std::env::vars_os()) {
        terminal::say(&format!("warning: {mistake}"));
    }
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

fn every(_: &Flag) -> bool {
    true
}

fn of_store(flag: &Flag) -> bool {
    flag.key.starts_with("store.")
}

fn augment(command: Command, wanted: fn(&Flag) -> bool) -> Command {
    let file = Arg::new(FILE_ID)
        .long("config")
        .value_name("PATH")
        .value_parser(clap::value_parser!(PathBuf))
        .help("File to read [default: `weft.toml` in this folder, if it is there]");
    let flags = weft_config::arguments().into_iter().filter(wanted).map(|flag| {
        let arg = Arg::new(flag.key)
            .long(flag.long)
            .value_name(flag.value_name)
            .help(flag.help)
            .help_heading(flag.area)
            .hide_possible_values(true)
            // Of one that is given twice the last counts, as everywhere in the configuration.
            .action(ArgAction::Append);
        match flag.value_missing {
            Some(value) => arg.num_args(0..=1).default_missing_value(value),
            None => arg,
        }
    });
    command.arg(file).args(flags)
}

fn found(matches: &ArgMatches, wanted: fn(&Flag) -> bool) -> Arguments {
    let mut flags = Vec::new();
    for flag in weft_config::arguments().into_iter().filter(wanted) {
        let values = matches.get_many::<String>(flag.key).into_iter().flatten();
        flags.extend(values.map(|value| (flag.long.clone(), value.clone())));
    }
    Arguments { file: matches.get_one(FILE_ID).cloned(), flags }
}

/// Both are read in the same way, and differ in what they take.
macro_rules! arguments {
    ($type:ty, $wanted:expr, $make:expr) => {
        impl Args for $type {
            fn augment_args(command: Command) -> Command {
                augment(command, $wanted)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok($make(found(matches, $wanted)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

arguments!(Arguments, every, std::convert::identity);
arguments!(StoreArguments, of_store, StoreArguments);

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Vec<(String, String)> {
        let command = Arguments::augment_args(Command::new("serve"));
        let matches = command.try_get_matches_from([&["serve"], words].concat()).unwrap();
        Arguments::from_arg_matches(&matches).unwrap().flags
    }

    #[test]
    fn ops_1_a_switch_is_given_alone_with_a_value_or_with_an_equals_sign() {
        let said = |value: &str| vec![("behind-proxy".to_owned(), value.to_owned())];
        assert_eq!(flags(&["--behind-proxy"]), said("true"));
        assert_eq!(flags(&["--behind-proxy", "true"]), said("true"));
        assert_eq!(flags(&["--behind-proxy=false"]), said("false"));
        let before_another = flags(&["--behind-proxy", "--drain", "3s"]);
        assert_eq!(before_another.len(), 2, "{before_another:?}");
        assert!(before_another.contains(&said("true")[0]));
    }
}
