//! Durations as they are configured: `250ms`, `30s`, `15m`, `24h`, `7d`. One number, one unit, nothing else.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration. Without a unit, with a sign, a space or a fraction, or beyond 2^64 milliseconds it is none.
pub fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = number.parse::<u64>().ok()?.checked_mul(*unit_ms)?;
    Some(Duration::from_millis(ms))
}

/// Writes whole milliseconds so that `parse` reads the same again, in the largest unit that divides them. One day is
/// `24h`, because that is what people say.
pub fn format(duration: Duration) -> String {
    let ms = duration.as_millis();
    let day = u128::from(UNITS[0].1);
    let fits = |unit_ms: u64| ms > 0 && ms.is_multiple_of(unit_ms.into()) && (u128::from(unit_ms) < day || ms > day);
    match UNITS.iter().find(|(_, unit_ms)| fits(*unit_ms)) {
        Some((unit, unit_ms)) => format!("{}{unit}", ms / u128::from(*unit_ms)),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ops_2_a_duration_is_a_number_and_a_unit() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("30s", 30_000),
            ("90s", 90_000),
            ("15m", 900_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
            assert_eq!(format(Duration::from_millis(ms)), text);
        }
        for text in ["", "s", "30", "30 s", "+30s", "-1s", "1.5s", "30S", "30sec", "1m 30s", "1w", "30ss", "３s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("18446744073709551616ms"), None);
        assert_eq!(parse("213503982335d"), None);
    }

    proptest! {
        #[test]
        fn ops_2_a_written_duration_reads_as_itself(ms: u64, zeros in 0_u32..8) {
            let ms = ms - ms % 10_u64.pow(zeros);
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse(&format(duration)), Some(duration));
        }

        #[test]
        fn ops_2_units_multiply(number in 0_u64..200_000_000, at in 0_usize..5) {
            let (unit, unit_ms) = UNITS[at];
            prop_assert_eq!(parse(&format!("{number}{unit}")), Some(Duration::from_millis(number * unit_ms)));
        }

        #[test]
        fn ops_2_any_text_is_read_or_refused(text: String) {
            if let Some(duration) = parse(&text) {
                prop_assert_eq!(parse(&format(duration)), Some(duration));
            }
        }
    }
}
