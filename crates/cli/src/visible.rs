//! Characters that move the cursor, turn the direction of text or take no room, as escapes. What a program says about its
//! failure is shown to somebody else, who must be able to trust what is read.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
pub use weft_graph::is_unseen;

/// Text with control characters, direction marks and letters without width as escapes of JSON, so that it can stand in JSON
/// too. Ends of lines and tabs stay as they are, and if it is `painted`, so do the codes of colours.
pub fn visible(text: &str, painted: bool) -> Cow<'_, str> {
    let keep = |letter: char| matches!(letter, '\n' | '\t') || !is_unseen(letter);
    if text.chars().all(keep) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for (at, letter) in text.char_indices() {
        match keep(letter) || (painted && is_colour(&text[at..])) {
            true => shown.push(letter),
            false => escape(letter, &mut shown),
        }
    }
    Cow::Owned(shown)
}

/// As JSON writes it.
pub fn escape(letter: char, to: &mut String) {
    write!(to, "\\u{:04x}", u32::from(letter)).expect("visible: a string takes all that is written");
}

/// Whether a text begins with the code of a colour.
fn is_colour(text: &str) -> bool {
    let code =
        text.strip_prefix("\x1b[").map(|rest| rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == ';'));
    code.is_some_and(|rest| rest.starts_with('m'))
}

/// Stderr for a log: each write is a whole line or several.
pub struct VisibleStderr {
    pub painted: bool,
}

impl Write for VisibleStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => io::stderr().write_all(visible(text, self.painted).as_bytes())?,
            Err(_) => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_turns_the_direction_of_text_or_moves_the_cursor() {
        assert_eq!(visible("paid\u{202e}diap\u{2066}", false), r"paid\u202ediap\u2066");
        assert_eq!(
            visible("a\x1b[2J\u{9b}2J\x07\r\nb\tc\x7f", true),
            "a\\u001b[2J\\u009b2J\\u0007\\u000d\nb\tc\\u007f"
        );
        assert_eq!(visible("\x1b[1;31mred\x1b[0m", true), "\x1b[1;31mred\x1b[0m");
        assert_eq!(visible("\x1b[1mred", false), r"\u001b[1mred");
        assert_eq!(visible("a\u{200b}d\u{200d}m\u{2060}in\u{feff}", false), r"a\u200bd\u200dm\u2060in\ufeff");
        assert_eq!(visible("grüße שלום 👋", false), "grüße שלום 👋");
    }

    #[test]
    fn json_stays_what_it_was() {
        let value = serde_json::json!({"a\u{202e}": "b\u{2069}\u{85}\u{7f}\n"});
        let shown = visible(&value.to_string(), false).into_owned();
        assert!(!shown.contains(is_unseen), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
