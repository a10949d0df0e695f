//! What the server takes at most of what a worker tells, so that it is made to fit before it is sent: an outcome that is
//! refused would cost the attempt what it says.

use std::time::Duration;

pub const FAILURE_MESSAGE_MAX: usize = 4 << 10;
pub const FAILURE_DETAIL_MAX: usize = 64 << 10;
pub const REASON_MAX: usize = 1 << 10;
pub const PROGRESS_MESSAGE_MAX: usize = 1 << 10;
pub const CATEGORY_MAX: usize = 128;
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
pub const DELAY_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
/// Categories that only the engine gives.
pub const CATEGORIES_RESERVED: [&str; 5] = ["deadline", "reclaim_limit", "operator", "budget", "suspension_timeout"];

/// The text as it is, or its beginning and a word about the rest.
pub fn cut(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let note = format!("… (cut, it had {} bytes)", text.len());
    let mut end = max.saturating_sub(note.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{note}", &text[..end])
}

/// A category that the server takes: what may not be in one becomes `_`.
pub fn category(given: &str) -> String {
    if CATEGORIES_RESERVED.contains(&given) {
        return format!("application.{given}");
    }
    let allowed = |letter: char| if letter.is_ascii_graphic() && letter != ',' { letter } else { '_' };
    let token: String = given.chars().map(allowed).take(CATEGORY_MAX).collect();
    if token.is_empty() { "application".to_string() } else { token }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_10_the_limits_are_those_of_the_engine() {
        use weft_core::limits;
        assert_eq!(FAILURE_MESSAGE_MAX, limits::FAILURE_MESSAGE_MAX);
        assert_eq!(FAILURE_DETAIL_MAX, limits::FAILURE_DETAIL_MAX);
        assert_eq!(REASON_MAX, limits::REASON_MAX);
        assert_eq!(PROGRESS_MESSAGE_MAX, limits::PROGRESS_MESSAGE_MAX);
        assert_eq!(CATEGORY_MAX, limits::CATEGORY_MAX);
        assert_eq!(RETRY_AFTER_MAX.as_millis(), u128::from(limits::BACKOFF_MS_MAX));
        assert_eq!(DELAY_MAX.as_millis(), u128::from(limits::HORIZON_MS));
    }

    #[test]
    fn sdk_10_a_text_is_cut_at_a_letter_and_says_so() {
        assert_eq!(cut("short".to_string(), 5), "short");
        for max in 40..60 {
            let text = cut("ü".repeat(100), max);
            assert!(text.len() <= max && text.starts_with('ü') && text.ends_with("(cut, it had 200 bytes)"), "{text}");
        }
    }
}
