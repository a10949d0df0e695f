//! Why a command failed, as far as its exit code tells: refused, misused, unreachable, not allowed. Everything that is
//! not told apart is a refusal.

use std::fmt;

/// The exit code of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Refused = 1,
    Usage = 2,
    Unreachable = 3,
    NotAllowed = 4,
}

/// A failure with an exit code of its own, perhaps with a stable name and with what to do about it.
#[derive(Debug)]
pub struct Fault {
    pub code: Code,
    name: Option<String>,
    message: String,
    hint: Option<String>,
}

impl Fault {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, name: None, message: message.into(), hint: None }
    }

    pub fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The stable code that stands in `error[code]`.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn usage(message: impl Into<String>) -> anyhow::Error {
        Self::error(Code::Usage, message)
    }

    pub fn error(code: Code, message: impl Into<String>) -> anyhow::Error {
        Self::new(code, message).into()
    }

    /// The exit code for an error.
    pub fn exit_code(error: &anyhow::Error) -> u8 {
        error.downcast_ref::<Fault>().map_or(1, |fault| fault.code as u8)
    }

    /// The stable code of an error, and what happened.
    pub fn named_parts(error: &anyhow::Error) -> (String, String) {
        let name = error.downcast_ref::<Fault>().and_then(|fault| fault.name.clone());
        (name.unwrap_or_else(|| "refused".to_owned()), format!("{error:#}"))
    }

    /// An error as it is told: the word before it, what happened, and what to do if that is known.
    pub fn told(error: &anyhow::Error) -> (String, String, Option<String>) {
        let fault = error.downcast_ref::<Fault>();
        let word = match fault.and_then(|fault| fault.name.as_deref()) {
            Some(name) => format!("error[{name}]:"),
            None => "error:".to_owned(),
        };
        (word, format!("{error:#}"), fault.and_then(|fault| fault.hint.clone()))
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

    #[test]
    fn a_named_fault_is_told_with_its_code_and_its_hint() {
        let fault = Fault::new(Code::Refused, "it ended 4m 12s ago").named("execution_terminal").hint("replay it");
        let error = anyhow::Error::from(fault).context("cannot cancel");
        let (word, message, hint) = Fault::told(&error);
        assert_eq!(
            (word.as_str(), message.as_str()),
            ("error[execution_terminal]:", "cannot cancel: it ended 4m 12s ago")
        );
        assert_eq!(hint.as_deref(), Some("replay it"));
        assert_eq!(Fault::told(&anyhow::anyhow!("no")), ("error:".to_owned(), "no".to_owned(), None));
    }
}
