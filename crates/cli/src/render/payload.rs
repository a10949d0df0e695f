//! Payloads on a terminal: JSON and text as they are, other bytes by their type and size.

use super::plain;
use crate::terminal::readable_bytes;
use crate::visible::{escape, is_unseen};
use weft_api::Payload;
use weft_api::payload::is_json;

/// On one line, whatever it holds.
pub fn line(payload: &Payload) -> String {
    let kind = payload.content_type.as_deref().unwrap_or("bytes");
    match std::str::from_utf8(&payload.bytes) {
        Ok(text) if is_json(kind) => compact(text),
        Ok(text) if kind.starts_with("text/") => plain(text),
        _ => format!("{}, {}", plain(kind), readable_bytes(payload.bytes.len() as u64)),
    }
}

/// JSON without the spaces and line ends between its parts; digits and order stay as they were sent. Controls and direction
/// marks become escapes.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\n' | '\r' | '\t' if !quoted => continue,
            _ => {}
        }
        match is_unseen(letter) {
            true => escape(letter, &mut out),
            false => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_takes_one_line_and_keeps_its_text() {
        let json = Payload::new("{ \"a b\": [1.00, \"x \\\" y\"]\n}", Some("application/json".into()));
        assert_eq!(line(&json), r#"{"a b":[1.00,"x \" y"]}"#);
        let turned = Payload::new("[\"paid\u{202e}diap\"]", Some("application/json".into()));
        assert_eq!(line(&turned), r#"["paid\u202ediap"]"#);
        assert_eq!(line(&Payload::text("two\nlines")), "two lines");
        assert_eq!(line(&Payload::new(vec![0; 2_000], Some("image/png".into()))), "image/png, 2.0 kB");
    }
}
