//! What can be set about a run. Options that a scenario does not use are refused, so that nobody believes a figure was
//! taken with a setting that had no effect.

use crate::Scenario;
use anyhow::{Result, bail};

/// Set options as the caller gave them; `None` takes the default of the scenario.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub n: Option<u64>,
    pub workers: Option<usize>,
    pub payload: Option<usize>,
    pub seconds: Option<u64>,
    /// Engines on the same store.
    pub nodes: Option<usize>,
    /// Over HTTP, with the worker of the SDK.
    pub remote: bool,
}

/// The smallest input: it carries the number by which each execution is checked.
pub(crate) const PAYLOAD_MIN: usize = 8;

impl Options {
    /// Refuses what `scenario` does not use and what is out of range.
    pub fn check(&self, scenario: Scenario) -> Result<()> {
        let given = [
            ("--n", self.n.is_some()),
            ("--workers", self.workers.is_some()),
            ("--payload", self.payload.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--remote", self.remote),
        ];
        let used = scenario.options();
        for (name, given) in given {
            if given && !used.contains(&name) {
                let used = if used.is_empty() { "none".to_owned() } else { used.join(", ") };
                bail!("`{name}` has no effect on `{}`, which uses: {used}", scenario.name());
            }
        }
        if self.remote && self.nodes() > 1 {
            bail!("`--remote` measures one server; leave `--nodes` out");
        }
        range("--n", self.n, scenario.n_min(), 100_000_000)?;
        range("--workers", self.workers.map(|workers| workers as u64), 1, 1024)?;
        range("--payload", self.payload.map(|payload| payload as u64), PAYLOAD_MIN as u64, 1 << 20)?;
        range("--seconds", self.seconds, 1, 3600)?;
        range("--nodes", self.nodes.map(|nodes| nodes as u64), 1, 16)
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.unwrap_or(16)
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes.unwrap_or(1)
    }

    pub(crate) fn payload(&self) -> usize {
        self.payload.unwrap_or(64)
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(15)
    }
}

fn range(name: &str, value: Option<u64>, min: u64, max: u64) -> Result<()> {
    match value {
        Some(value) if !(min..=max).contains(&value) => bail!("`{name}` is {value}, allowed are {min} to {max}"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_effect_is_refused_by_name() {
        let options = Options { seconds: Some(3), ..Options::default() };
        assert!(options.check(Scenario::Idle).is_ok());
        let refusal = options.check(Scenario::Floor).unwrap_err().to_string();
        assert_eq!(refusal, "`--seconds` has no effect on `floor`, which uses: --n, --payload");
    }

    #[test]
    fn a_value_out_of_range_is_refused() {
        let options = Options { payload: Some(7), ..Options::default() };
        assert_eq!(
            options.check(Scenario::Floor).unwrap_err().to_string(),
            "`--payload` is 7, allowed are 8 to 1048576"
        );
    }
}
