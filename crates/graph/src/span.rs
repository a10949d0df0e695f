//! Spans of time as people read them: `4m 12s`.

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A span in the two largest units that tell something. Cut, not rounded: 9.96 s would read as 10.0s.
pub fn span(ms: u64) -> String {
    let two = |large: u64, unit: char, rest: u64, lesser: char| match rest {
        0 => format!("{large}{unit}"),
        rest => format!("{large}{unit} {rest}{lesser}"),
    };
    match ms {
        0..SECOND => format!("{ms}ms"),
        SECOND..10_000 => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        10_000..MINUTE => format!("{}s", ms / SECOND),
        MINUTE..HOUR => two(ms / MINUTE, 'm', ms % MINUTE / SECOND, 's'),
        HOUR..DAY => two(ms / HOUR, 'h', ms % HOUR / MINUTE, 'm'),
        _ => two(ms / DAY, 'd', ms % DAY / HOUR, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well_at_every_border() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (MINUTE, "1m"),
            (252_000, "4m 12s"),
            (HOUR - 1, "59m 59s"),
            (3 * HOUR + 5 * MINUTE, "3h 5m"),
            (DAY - 1, "23h 59m"),
            (2 * DAY + 4 * HOUR, "2d 4h"),
            (u64::MAX, "213503982334d 14h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }
}
