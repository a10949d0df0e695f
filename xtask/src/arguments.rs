//! The words after `cargo xtask`. Owns the help and the meaning of each word; runs nothing.

use crate::suggest::nearest;

pub const HELP: &str = "\
The chores of the Weft workspace.

Examples:
  cargo xtask tidy                    is the tree in order? everything but the tests
  cargo xtask test                    what CI runs: tidy, servers, all tests, planted defects
  cargo xtask test --skip-tidy ex_22  only the tests whose name contains `ex_22`
  cargo xtask soak sim --seeds 50000  many seeds of every scenario through the release build

Commands:
  tidy [--quick]               format, clippy, dependencies, sizes, banned words and names
                               --quick: leave clippy out
  test [--skip-tidy] [FILTER]  every part with its seconds; a FILTER narrows the tests by name
                               starts PostgreSQL, Valkey and a Valkey Cluster for the tests and stops them;
                               with a FILTER each test program starts the servers that it needs
  soak sim [--seeds N]         every scenario of `weft sim` in release, on all cores; N of each, 4000 unless told
  soak crash [--rounds N]      nodes and servers that are killed, stopped and cut off; N is 20 unless told
  soak failover [--rounds N]   primaries of a Valkey Cluster that die or fall asleep, with counts of what was lost
  soak fuzz [--examples N]     requests of each operation made from the OpenAPI document; N is 500 unless told
  help                         this page

Exit codes: 0 done, 1 something was found or failed, 2 misused.";

const SEEDS: u64 = 4_000;
const ROUNDS: u64 = 20;
const EXAMPLES: u64 = 500;
const SOAKS: &[&str] = &["sim", "crash", "failover", "fuzz"];
const COMMANDS: &[&str] = &["tidy", "test", "soak", "help"];

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Tidy { quick: bool },
    Test { skip_tidy: bool, filter: Option<String> },
    Soak(Soak),
}

/// What is run for long.
#[derive(Debug, PartialEq, Eq)]
pub enum Soak {
    Sim { seeds: u64 },
    Crash { rounds: u64 },
    Failover { rounds: u64 },
    Fuzz { examples: u64 },
}

/// Reads the words, all of them: a word that means nothing is refused with the nearest one that does. The error is the
/// text for the person who typed them.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Err(HELP.to_owned()),
        ["help" | "--help" | "-h", ..] | [_, .., "--help" | "-h"] => Ok(Command::Help),
        ["tidy", rest @ ..] => tidy(rest),
        ["test", rest @ ..] => test(rest),
        ["soak", rest @ ..] => soak(rest),
        [other, ..] => Err(format!("{}\n\n{HELP}", unknown("command", other, COMMANDS))),
    }
}

fn tidy(words: &[&str]) -> Result<Command, String> {
    let mut quick = false;
    for word in words {
        match *word {
            "--quick" => quick = true,
            other => return Err(unknown("option of `tidy`", other, &["--quick"])),
        }
    }
    Ok(Command::Tidy { quick })
}

fn test(words: &[&str]) -> Result<Command, String> {
    let (mut skip_tidy, mut filter) = (false, None);
    for word in words {
        match *word {
            "--skip-tidy" => skip_tidy = true,
            option if option.starts_with('-') => return Err(unknown("option of `test`", option, &["--skip-tidy"])),
            other if filter.is_none() => filter = Some(other.to_owned()),
            other => return Err(format!("error: `test` takes one filter, and `{other}` would be the second")),
        }
    }
    Ok(Command::Test { skip_tidy, filter })
}

fn soak(words: &[&str]) -> Result<Command, String> {
    let soak = match words {
        [] => return Err("error: `soak` needs to know what to soak\nhint: cargo xtask soak sim".to_owned()),
        ["sim", rest @ ..] => Soak::Sim { seeds: count(rest, "sim", "--seeds", SEEDS)? },
        ["crash", rest @ ..] => Soak::Crash { rounds: count(rest, "crash", "--rounds", ROUNDS)? },
        ["failover", rest @ ..] => Soak::Failover { rounds: count(rest, "failover", "--rounds", ROUNDS)? },
        ["fuzz", rest @ ..] => Soak::Fuzz { examples: count(rest, "fuzz", "--examples", EXAMPLES)? },
        [other, ..] => return Err(unknown("thing to soak", other, SOAKS)),
    };
    Ok(Command::Soak(soak))
}

/// The number behind the one option that a soak has.
fn count(words: &[&str], soak: &str, option: &str, unless_told: u64) -> Result<u64, String> {
    match words {
        [] => Ok(unless_told),
        [word] if *word == option => Err(format!("error: `{option}` needs a number\nhint: {option} {unless_told}")),
        [word, number] if *word == option => match number.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("error: `{number}` is no number for `{option}`\nhint: {option} {unless_told}")),
        },
        [word, _, other, ..] if *word == option => Err(unknown(&format!("option of `soak {soak}`"), other, &[option])),
        [other, ..] => Err(unknown(&format!("option of `soak {soak}`"), other, &[option])),
    }
}

fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    };
    format!("error: unknown {what} `{word}`\nhint: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_line_of_the_help_is_understood() {
        let filter = Some("ex_22".to_owned());
        assert_eq!(parsed("tidy"), Ok(Command::Tidy { quick: false }));
        assert_eq!(parsed("tidy --quick"), Ok(Command::Tidy { quick: true }));
        assert_eq!(parsed("test"), Ok(Command::Test { skip_tidy: false, filter: None }));
        assert_eq!(parsed("test --skip-tidy ex_22"), Ok(Command::Test { skip_tidy: true, filter: filter.clone() }));
        assert_eq!(parsed("test ex_22 --skip-tidy"), Ok(Command::Test { skip_tidy: true, filter }));
        assert_eq!(parsed("soak sim"), Ok(Command::Soak(Soak::Sim { seeds: SEEDS })));
        assert_eq!(parsed("soak sim --seeds 50000"), Ok(Command::Soak(Soak::Sim { seeds: 50_000 })));
        assert_eq!(parsed("soak crash"), Ok(Command::Soak(Soak::Crash { rounds: ROUNDS })));
        assert_eq!(parsed("soak failover --rounds 3"), Ok(Command::Soak(Soak::Failover { rounds: 3 })));
        assert_eq!(parsed("soak fuzz --examples 9"), Ok(Command::Soak(Soak::Fuzz { examples: 9 })));
        assert_eq!(parsed("test --help"), Ok(Command::Help));
    }

    #[test]
    fn a_misspelt_word_is_answered_with_the_nearest_one() {
        for (line, near) in [
            ("tidi", "`tidy`"),
            ("tset", "`test`"),
            ("test --skiptidy", "`--skip-tidy`"),
            ("soak sim --seed 4", "`--seeds`"),
            ("soak simm", "`sim`"),
            ("soak failovr", "`failover`"),
            ("soak crash --round 4", "`--rounds`"),
        ] {
            let misuse = parsed(line).expect_err(line);
            assert!(misuse.contains(&format!("did you mean {near}?")), "{line}: {misuse}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert_eq!(parsed(""), Err(HELP.to_owned()));
        for line in [
            "soak",
            "soak sim --seeds",
            "soak sim --seeds many",
            "soak sim --seeds 0",
            "soak crash --rounds x",
            "test one two",
        ] {
            let misuse = parsed(line).expect_err(line);
            assert!(misuse.starts_with("error: "), "{line}: {misuse}");
        }
    }
}
