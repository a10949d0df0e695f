//! Why a command failed, as far as its exit code tells: misused, unreachable, not allowed. Everything else is a refusal.

use std::fmt;

/// The exit code of a failure that is more than a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Usage = 2,
    Unreachable = 3,
    NotAllowed = 4,
}

/// A failure with an exit code of its own.
#[derive(Debug)]
pub struct Fault {
    pub code: Code,
    message: String,
}

impl Fault {
    pub fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::error(Code::Usage, message)
    }

    pub fn error(code: Code, message: impl Into<String>) -> anyhow::Error {
        Self { code, message: message.into() }.into()
    }

    /// The exit code for an error.
    pub fn exit_code(error: &anyhow::Error) -> u8 {
        error.downcast_ref::<Fault>().map_or(1, |fault| fault.code as u8)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn cli_1_the_code_survives_what_is_said_around_it() {
        let error: anyhow::Result<()> = Err(Fault::error(Code::Unreachable, "nobody there"));
        assert_eq!(Fault::exit_code(&error.context("could not export").unwrap_err()), 3);
        assert_eq!(Fault::exit_code(&anyhow::anyhow!("no")), 1);
    }
}
