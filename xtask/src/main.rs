//! The chores of this workspace: `cargo xtask` and what follows it. Owns the arguments, the help and the exit code; the
//! work itself is in `tidy`, `test` and `soak`. Compiled before everything else, so it depends on little: JSON to read
//! what cargo says, and the servers it starts for the tests.

mod arguments;
mod run;
mod servers;
mod soak;
mod suggest;
mod test;
mod tidy;

use arguments::Command;
use std::process::ExitCode;

/// 0 done, 1 something was found or failed, 2 misused.
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments::parse(&words) {
        Err(misuse) => {
            eprintln!("{misuse}");
            return ExitCode::from(2);
        }
        Ok(Command::Help) => {
            println!("{}", arguments::HELP);
            Ok(true)
        }
        Ok(Command::Tidy { quick }) => tidy::tidy(quick),
        Ok(Command::Test { skip_tidy, filter }) => Ok(test::test(skip_tidy, filter)),
        Ok(Command::Soak(soak)) => soak::soak(&soak),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
