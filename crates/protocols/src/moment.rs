//! Times in arguments: what people write, and what programs do.

use serde::de::{Deserializer, Error, Visitor};
use tally_contracts::Timestamp;

const FORMS: &str = "a date such as 2027-12-31 (its beginning in UTC), a time such as 2027-12-31T17:00:00Z or \
     2027-12-31T17:00:00+01:00 (RFC 3339), or a number of milliseconds since 1970-01-01 UTC";

const DAY_MS: i64 = 86_400_000;

/// Reads a moment of an argument: a date, a time with its offset (RFC 3339), or a number of milliseconds since the Unix
/// epoch.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    deserializer.deserialize_any(Moment)
}

struct Moment;

impl Visitor<'_> for Moment {
    type Value = Timestamp;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Timestamp, E> {
        Ok(Timestamp::from_millis(millis))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
        parse(text).ok_or_else(|| {
            let text: String = text.chars().take(64).collect();
            E::custom(format_args!("`{text}` is no time from 1970 to 9999; write {FORMS}"))
        })
    }
}

/// A date, or a time with its offset, from 1970 to 9999.
fn parse(text: &str) -> Option<Timestamp> {
    let date = text.get(..10)?;
    let [year, month, day] = fields(date, ['-', '-'], [4, 2, 2])?;
    let days = days(year, month, day)?;
    let millis = match text.get(10..)? {
        "" => 0,
        rest => time(rest.strip_prefix(['T', 't'])?)?,
    };
    let millis = days.checked_mul(DAY_MS)?.checked_add(millis)?;
    u64::try_from(millis).ok().map(Timestamp::from_millis)
}

/// Milliseconds since midnight UTC of a time with its offset; more or less than a day where the offset makes it so.
fn time(text: &str) -> Option<i64> {
    let [hour, minute, second] = fields(text.get(..8)?, [':', ':'], [2, 2, 2])?;
    let rest = text.get(8..)?;
    let (fraction, offset) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => {
            let digits = rest.find(|digit: char| !digit.is_ascii_digit())?;
            (rest.get(..digits).filter(|digits| !digits.is_empty())?, rest.get(digits..)?)
        }
    };
    // Finer than a millisecond is left out.
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let offset = match offset {
        "Z" | "z" => 0,
        _ => {
            let sign = match offset.get(..1)? {
                "+" => 1,
                "-" => -1,
                _ => return None,
            };
            let [hours, minutes] = fields(offset.get(1..)?, [':'], [2, 2])?;
            (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))?
        }
    };
    let seconds = (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)?;
    Some((seconds - offset * 60) * 1000 + millis.parse::<i64>().ok()?)
}

/// Numbers of so many digits each, with these separators between.
fn fields<const N: usize, const M: usize>(
    text: &str,
    separators: [char; M],
    digits: [usize; N],
) -> Option<[i64; N]> {
    let mut parts = text.split(separators);
    let mut found = [0; N];
    for (found, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|digit| digit.is_ascii_digit());
        *found = plain.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month.checked_sub(1)?).ok()?;
    let length = *lengths.get(month)?;
    if year < 1970 || !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    // Leap days of the years before this one, less those before 1970.
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    Some((year - 1970) * 365 + leaps + lengths.iter().take(month).sum::<i64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<u64, String> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        deserialize(&mut deserializer).map(Timestamp::as_millis).map_err(|error| error.to_string())
    }

    #[test]
    fn dates_times_and_numbers_name_the_same_moments() {
        for (json, millis) in [
            ("\"1970-01-01\"", 0),
            ("\"2000-02-29\"", 951_782_400_000),
            ("\"2027-12-31\"", 1_830_211_200_000),
            ("\"2027-12-31T00:00:00Z\"", 1_830_211_200_000),
            ("\"2027-12-31T01:30:00+01:30\"", 1_830_211_200_000),
            ("\"2027-12-30T19:00:00-05:00\"", 1_830_211_200_000),
            ("\"2027-12-31t00:00:00.0429z\"", 1_830_211_200_042),
            ("\"9999-12-31T23:59:59.999Z\"", 253_402_300_799_999),
            ("1830211200000", 1_830_211_200_000),
        ] {
            assert_eq!(read(json), Ok(millis), "{json}");
        }
    }

    #[test]
    fn the_days_of_two_centuries_follow_each_other() {
        let mut expected = 0;
        for year in 1970..2170 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(found) = days(year, month, day) {
                        assert_eq!(found, expected, "{year}-{month}-{day}");
                        expected += 1;
                    }
                }
            }
        }
        assert_eq!(expected, 73_049);
    }

    #[test]
    fn what_is_no_moment_is_refused_with_what_is() {
        for wrong in [
            "2027-02-29",
            "2100-02-29",
            "2027-13-01",
            "2027-00-01",
            "2027-01-00",
            "1969-12-31",
            "27-12-31",
            "2027-12-31T00:00:00",
            "2027-12-31 00:00:00Z",
            "2027-12-31T24:00:00Z",
            "2027-12-31T00:60:00Z",
            "2027-12-31T00:00:60Z",
            "2027-12-31T00:00:00+1:00",
            "2027-12-31T00:00:00.Z",
            "1970-01-01T00:00:00+00:01",
            "2027-12-31T00:00:00+24:00",
            "2027-12-3",
            "+027-12-31",
            "2027-12-31Z",
            "",
            "tomorrow",
            "20é7-12-31",
            "1830211200000",
            "2027-12-31T00:00:00Zé",
        ] {
            let error = read(&format!("\"{wrong}\"")).expect_err(wrong);
            assert!(error.contains("2027-12-31T17:00:00Z") && error.contains("milliseconds"), "{error}");
        }
        for wrong in ["-1", "1.5", "true", "null", "[]"] {
            assert!(read(wrong).expect_err(wrong).contains("milliseconds"), "{wrong}");
        }
    }
}
