//! Text of strangers made fit to be shown: without control characters, and no longer than there is room for.

/// The text without anything that moves a cursor, turns the direction of reading or is forbidden in XML. Such characters
/// are written out, so that two keys that differ still look different.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => plain.extend(letter.escape_default()),
            _ if is_unseen(letter) => plain.extend(letter.escape_unicode()),
            _ => plain.push(letter),
        }
    }
    plain
}

/// Whether a character moves the cursor, turns the direction of reading, takes no room or is forbidden in XML.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(letter, '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}')
}

/// How many columns of a terminal the text takes. It is plain already.
pub fn columns(text: &str) -> usize {
    text.chars().map(letter_columns).sum()
}

/// Marks on the letter before take no room; East Asian letters and pictures take two columns.
pub fn letter_columns(letter: char) -> usize {
    match letter as u32 {
        0x0300..=0x036f | 0x0483..=0x0489 | 0x0591..=0x05bd | 0x0610..=0x061a | 0x064b..=0x065f => 0,
        0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xa960..=0xa97c | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x1fa70..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text within so much room, with an ellipsis for its middle: beginnings and ends of keys tell most.
pub fn fit_middle(text: &str, room: usize, measure: impl Fn(char) -> usize) -> String {
    if text.chars().map(&measure).sum::<usize>() <= room {
        return text.to_owned();
    }
    let left = room.saturating_sub(measure('…'));
    let head: String = within(text.chars(), left.div_ceil(2), &measure).collect();
    let rest = left - head.chars().map(&measure).sum::<usize>();
    let tail: Vec<char> = within(text.chars().rev(), rest, &measure).collect();
    head.chars().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// The text within so much room, with an ellipsis for its end.
pub fn fit_end(text: &str, room: usize, measure: impl Fn(char) -> usize) -> String {
    if text.chars().map(&measure).sum::<usize>() <= room {
        return text.to_owned();
    }
    within(text.chars(), room.saturating_sub(measure('…')), &measure).chain(['…']).collect()
}

fn within(
    letters: impl Iterator<Item = char>,
    room: usize,
    measure: impl Fn(char) -> usize,
) -> impl Iterator<Item = char> {
    let mut used = 0;
    letters.take_while(move |letter| {
        used += measure(*letter);
        used <= room
    })
}

/// `9,980`.
pub fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        for (text, shown) in [
            ("plain größe 日本 ✓", "plain größe 日本 ✓"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
            ("a\u{61c}\u{feff}b", "a\\u{61c}\\u{feff}b"),
            ("\0\u{ffff}\u{85}", "\\u{0}\\u{ffff}\\u{85}"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn a_text_is_cut_where_it_tells_least() {
        let middle = |text, room| fit_middle(text, room, letter_columns);
        assert_eq!(middle("import-2026-11-customers", 24), "import-2026-11-customers");
        assert_eq!(middle("import-2026-11-customers", 13), "import…tomers");
        assert_eq!(middle("日本語日本語", 7), "日…本語");
        assert_eq!(middle("abc", 1), "…");
        assert_eq!(fit_end("cancelled: sibling", 10, letter_columns), "cancelled…");
        for room in 1..30 {
            assert!(columns(&middle("日本a語e\u{301}日本語日本語", room)) <= room);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 9_980, 1_234_567].map(number), ["0", "999", "1,000", "9,980", "1,234,567"]);
    }
}
