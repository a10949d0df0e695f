//! What people read: ages, short ids, and a view of each thing that a server tells about. Pure text; writes nothing.

pub mod attempt;
pub mod execution;
pub mod explain;
pub mod flow;
pub mod graph;
pub mod history;
pub mod id;
pub mod key;
pub mod list;
pub mod member;
pub mod payload;
pub mod scanner;
pub mod time;
pub mod worker;

use crate::terminal::Paint;
use crate::visible::{escape, is_unseen};
use weft_api::execution::PublicState;

/// A cell that holds nothing.
pub const NONE: &str = "–";

/// `1 execution`, `412 executions`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The name of a state in its colour.
pub fn state(state: PublicState, paint: Paint) -> String {
    state_text(state, state.name(), paint)
}

/// Text in the colour of a state.
pub fn state_text(state: PublicState, text: &str, paint: Paint) -> String {
    match state {
        PublicState::Completed => paint.green(text),
        PublicState::Failed => paint.red(text),
        PublicState::Active => paint.blue(text),
        PublicState::Cancelled | PublicState::Expired | PublicState::Skipped | PublicState::Held => paint.yellow(text),
        _ => text.to_owned(),
    }
}

/// Text on one line, with escapes for characters that move the cursor or turn the direction of text: it may come from
/// anybody.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' | '\r' => shown.push(' '),
            letter if is_unseen(letter) => escape(letter, &mut shown),
            letter => shown.push(letter),
        }
    }
    shown
}

/// At most `letters` letters; what is cut off is shown by dots.
pub fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters.saturating_sub(1)) {
        Some((at, _)) if text.chars().count() > letters => format!("{}…", text[..at].trim_end()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_cut_and_cannot_move_the_cursor() {
        assert_eq!(cut("grüße an alle", 7), "grüße…");
        assert_eq!(cut("kurz", 4), "kurz");
        assert_eq!(plain("a\x1b[2Jb\nc\u{202e}"), r"a\u001b[2Jb c\u202e");
        assert_eq!((count(1, "execution"), count(0, "attempt")), ("1 execution".into(), "0 attempts".into()));
    }
}
