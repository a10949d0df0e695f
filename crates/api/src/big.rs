//! 64-bit integers as JSON strings in replies, for clients whose numbers are doubles (`Weft-Big: text`). Values under `json`
//! belong to callers and are not changed. `reader` does the same for requests.

use std::ops::Range;

/// The largest number up to which all are held exactly.
const EXACT_MAX: u128 = 1 << 53;
/// No fewer digits can be more.
const DIGITS_MIN: usize = 16;

/// The reply with its large numbers as text. None if it has none.
pub fn with_big_as_text(reply: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < reply.len() {
        match reply[at] {
            b'"' => {
                let text = text_at(reply, at);
                at = text.end;
                if &reply[text] == br#""json""# && reply.get(at) == Some(&b':') {
                    at = value_end(reply, at + 1);
                }
            }
            b'-' | b'0'..=b'9' => {
                let number = number_at(reply, at);
                at = number.end;
                if is_big(&reply[number.clone()]) {
                    out.extend_from_slice(&reply[copied..number.start]);
                    out.push(b'"');
                    out.extend_from_slice(&reply[number.clone()]);
                    out.push(b'"');
                    copied = number.end;
                }
            }
            _ => at += 1,
        }
    }
    (copied > 0).then(|| {
        out.extend_from_slice(&reply[copied..]);
        out
    })
}

/// A text with its quotes.
fn text_at(json: &[u8], from: usize) -> Range<usize> {
    let mut at = from + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return from..at + 1,
            _ => at += 1,
        }
    }
    from..json.len()
}

fn number_at(json: &[u8], from: usize) -> Range<usize> {
    let rest = json[from..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    from..from + rest.count()
}

fn is_big(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let whole = digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_digit);
    let value = || std::str::from_utf8(digits).ok()?.parse::<u128>().ok();
    // What does not even fit into 128 bits is large.
    whole && value().is_none_or(|value| value > EXACT_MAX)
}

/// Where the value ends that begins at `from`, or after the space there.
fn value_end(json: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0usize);
    while at < json.len() {
        match json[at] {
            b'"' => at = text_at(json, at).end,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            // The end of what surrounds it.
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::json_with;
    use crate::operation::Body;
    use crate::page::Batch;
    use crate::work::{Claim, FailItem, RenewItem, RetryWish};
    use bytes::Bytes;

    fn written(reply: &str) -> String {
        with_big_as_text(reply.as_bytes()).map_or_else(|| reply.to_string(), |text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn api_4_numbers_beyond_53_bits_are_written_as_text_and_others_are_not() {
        for (reply, expected) in [
            (
                r#"{"a":9007199254740993,"b":[1,9007199254740992]}"#,
                r#"{"a":"9007199254740993","b":[1,9007199254740992]}"#,
            ),
            (r#"[18446744073709551615,-9007199254740993]"#, r#"["18446744073709551615","-9007199254740993"]"#),
            (r#"[1.00000000000000000001,9007199254740993e2]"#, r#"[1.00000000000000000001,9007199254740993e2]"#),
            (
                r#"{"9007199254740993":"9007199254740993 \" 9007199254740993"}"#,
                r#"{"9007199254740993":"9007199254740993 \" 9007199254740993"}"#,
            ),
            ("99999999999999999999999999999999999999999999999", "\"99999999999999999999999999999999999999999999999\""),
        ] {
            assert_eq!(written(reply), expected);
        }
    }

    #[test]
    fn api_4_what_callers_keep_stays_as_it_is() {
        let kept = r#"{"input":{"json":{"a":[9007199254740993,"]}",{"json":1}] , "b":9007199254740993}},"epoch":"#;
        assert_eq!(written(&format!("{kept}9007199254740993}}")), format!("{kept}\"9007199254740993\"}}"));
        let bare = r#"[{"json":9007199254740993},{"json": 9007199254740993 ,"type":"a"}]"#;
        assert_eq!(written(bare), bare);
    }

    #[test]
    fn api_4_text_is_taken_for_a_number_of_64_bits_and_for_nothing_else() {
        let text =
            r#"{"items":[{"execution":"7","epoch":"18446744073709551615","checkpoint":{"json":{"epoch" : "7"}}}]}"#;
        let batch: Batch<RenewItem> = json_with("", text.as_bytes(), true).unwrap();
        let item = &batch.items[0];
        assert_eq!((item.execution.as_str(), item.epoch), ("7", Some(u64::MAX)));
        assert_eq!(item.checkpoint.as_ref().unwrap().bytes, r#"{"epoch" : "7"}"#);
        let item: FailItem = json_with("", br#"{"execution":"x","retry":{"after_ms":"5"},"epoch":3}"#, true).unwrap();
        assert_eq!((item.retry, item.epoch), (Some(RetryWish::AfterMs(5)), Some(3)));
        for (wrong, field) in [
            (r#"{"worker":"a","instance":"b","session":"x"}"#, "session"),
            (r#"{"worker":"a","instance":"b","session":"-1"}"#, "session"),
            (r#"{"worker":"a","instance":"b","session":"18446744073709551616"}"#, "session"),
            (r#"{"worker":"a","instance":"b","max":"1"}"#, "max"),
            (r#"{"worker":"a","instance":"b","sesion":"1"}"#, "sesion"),
        ] {
            let problem = json_with::<Claim>("", wrong.as_bytes(), true).unwrap_err();
            assert_eq!(problem.fields["field"].as_str(), Some(field), "{problem}");
        }
        let unasked = Bytes::from_static(br#"{"worker":"a","instance":"b","session":"1"}"#);
        assert!(Claim::from_json(&unasked).is_err(), "nobody asked for it");
    }
}
