//! Time as the store tells it: whole milliseconds since 1970 UTC.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A moment of store time. Arithmetic saturates: a time is never before 1970 and never wraps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// Later than every time that a limit allows; fits an i64, which is what SQL columns hold.
    pub const MAX: Time = Time(i64::MAX as u64);

    pub const fn from_ms(ms: u64) -> Self {
        if ms > Self::MAX.0 { Self::MAX } else { Time(ms) }
    }

    pub const fn ms(self) -> u64 {
        self.0
    }

    /// The same moment as a signed column value.
    pub const fn as_i64(self) -> i64 {
        self.0 as i64
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Time {
    type Output = Time;
    fn add(self, ms: u64) -> Time {
        Time::from_ms(self.0.saturating_add(ms))
    }
}

impl Sub<u64> for Time {
    type Output = Time;
    fn sub(self, ms: u64) -> Time {
        Time(self.0.saturating_sub(ms))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::from_ms(5) - 9, Time::ZERO);
        assert_eq!(Time::MAX + 1, Time::MAX);
        assert_eq!(Time::from_ms(u64::MAX), Time::MAX);
        assert_eq!(Time::from_ms(3).since(Time::from_ms(7)), 0);
    }
}
