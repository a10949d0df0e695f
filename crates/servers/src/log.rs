//! The end of a server's log, for messages.

use std::path::Path;

const LINES: usize = 40;

/// The last lines; a sentence if there are none.
pub fn tail(path: &Path) -> String {
    let Ok(bytes) = std::fs::read(path) else { return "(there is no log)".to_owned() };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return "(the log is empty)".to_owned();
    }
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
