//! Times of requests: milliseconds since 1970, or RFC 3339 text with an offset. Replies always say milliseconds.

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat};
use utoipa::openapi::{RefOr, Schema, Type};

/// An absolute time in milliseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// From text of the form `2026-11-16T20:15:00.250+01:00`; the offset must be there.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = (text.get(..10)?, text.get(11..)?);
        if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
            return None;
        }
        let mut fields = date.split('-');
        let (year, month, day) = (number(fields.next()?, 4)?, number(fields.next()?, 2)?, number(fields.next()?, 2)?);
        let (clock, offset_s) = split_offset(rest)?;
        let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
        let mut fields = whole.split(':');
        let (hour, minute, second) =
            (number(fields.next()?, 2)?, number(fields.next()?, 2)?, number(fields.next()?, 2)?);
        if fields.next().is_some() || hour > 23 || minute > 59 || second > 59 || !is_date(year, month, day) {
            return None;
        }
        if clock.contains('.') && (fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit())) {
            return None;
        }
        let thousandths: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
        u64::try_from(seconds * 1_000 + thousandths).ok().map(Moment)
    }
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = text.rfind(['+', '-'])?;
    let (clock, offset) = text.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let seconds = hours * 3_600 + minutes * 60;
    (hours <= 23 && minutes <= 59).then_some((clock, if offset.starts_with('-') { -seconds } else { seconds }))
}

fn is_date(year: i64, month: i64, day: i64) -> bool {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Days of the proleptic Gregorian calendar; the year is counted from March, so that a leap day ends it.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Moment;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("milliseconds since 1970, or RFC 3339 text with an offset")
            }

            fn visit_u64<E: serde::de::Error>(self, ms: u64) -> Result<Moment, E> {
                Ok(Moment(ms))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Moment, E> {
                // Query parameters are text, whatever they hold.
                if let Ok(ms) = text.parse() {
                    return Ok(Moment(ms));
                }
                Moment::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Either).map_err(D::Error::custom)
    }
}

impl utoipa::PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let ms = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
        OneOfBuilder::new()
            .item(ms)
            .item(text)
            .description(Some("Milliseconds since 1970 UTC, or RFC 3339 text with an offset"))
            .into()
    }
}

impl utoipa::ToSchema for Moment {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_3_a_time_may_be_text_with_an_offset() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500),
            ("2026-11-16T20:15:00.25+01:00", 1_794_856_500_250),
            ("2026-11-16t18:45:00.250999-00:30", 1_794_856_500_250),
            ("1969-12-31T23:30:00-00:30", 0),
        ] {
            assert_eq!(Moment::parse(text), Some(Moment(ms)), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_time_is_refused() {
        for text in [
            "2026-11-16T20:15:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-16",
            "now",
            "2026-11-16T24:00:00Z",
            "2026-11-16T20:15:00.Z",
            "1969-12-31T23:59:59Z",
            "2026-11-16T20:15:00+1:00",
            "",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
