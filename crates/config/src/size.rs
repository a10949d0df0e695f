//! Sizes as they are configured: `512B`, `64KiB`, `1MiB`. One number, one unit of 1024, nothing else.

const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a size in bytes. Without a unit, with one of 1000, with a sign, a space or a fraction, or beyond 2^64 bytes it is
/// none.
pub fn parse(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let (_, unit_bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*unit_bytes)
}

/// Writes a size so that `parse` reads the same again, in the largest unit that divides it.
pub fn format(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit_bytes)| bytes > 0 && bytes.is_multiple_of(*unit_bytes)) {
        Some((unit, unit_bytes)) => format!("{}{unit}", bytes / unit_bytes),
        None => "0B".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ops_2_a_size_is_a_number_and_a_unit() {
        for (text, bytes) in [
            ("0B", 0),
            ("1000B", 1000),
            ("64KiB", 65_536),
            ("1MiB", 1 << 20),
            ("1536KiB", 3 << 19),
            ("1GiB", 1 << 30),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
            assert_eq!(format(bytes), text);
        }
        for text in ["", "B", "64", "64 KiB", "64KB", "64kib", "64K", "-1B", "1.5MiB", "1PiB", "1MiBB"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("18446744073709551616B"), None);
        assert_eq!(parse("16777216TiB"), None);
    }

    proptest! {
        #[test]
        fn ops_2_a_written_size_reads_as_itself(bytes: u64, zeros in 0_u32..45) {
            let bytes = bytes >> zeros << zeros;
            prop_assert_eq!(parse(&format(bytes)), Some(bytes));
        }

        #[test]
        fn ops_2_units_multiply(number in 0_u64..16_000_000, at in 0_usize..5) {
            let (unit, unit_bytes) = UNITS[at];
            prop_assert_eq!(parse(&format!("{number}{unit}")), Some(number * unit_bytes));
        }

        #[test]
        fn ops_2_any_text_is_read_or_refused(text: String) {
            if let Some(bytes) = parse(&text) {
                prop_assert_eq!(parse(&format(bytes)), Some(bytes));
            }
        }
    }
}
