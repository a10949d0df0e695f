//! What the toolchain's own checkers say: rustfmt and clippy.

use super::Finding;
use crate::run::{Line, root};
use anyhow::Result;

/// A finding per file that `cargo fmt` would change.
pub fn format() -> Result<Vec<Finding>> {
    let line = Line::cargo("fmt --all --check -- -l");
    let captured = line.capture()?;
    let instead = "run `cargo fmt --all`";
    let mut findings: Vec<Finding> = captured
        .stdout
        .lines()
        .filter(|path| !path.is_empty())
        .map(|path| {
            let within = std::path::Path::new(path).strip_prefix(root()).ok().and_then(|path| path.to_str());
            Finding::new(within.unwrap_or(path), 1, "not formatted", instead)
        })
        .collect();
    // rustfmt names no file that it cannot parse; it has said why on stderr.
    if findings.is_empty() && !captured.status.success() {
        findings.push(Finding::new("Cargo.toml", 1, format!("`{line}` failed"), instead));
    }
    findings.dedup();
    Ok(findings)
}

/// One finding if clippy refuses; it has already said where and why.
pub fn clippy() -> Option<Finding> {
    let line = Line::cargo("clippy --workspace --all-targets --all-features --locked -- -D warnings");
    line.run().err()?;
    Some(Finding::new("Cargo.toml", 1, "clippy refuses, see above", format!("repeat it with `{line}`")))
}
