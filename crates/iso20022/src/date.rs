//! Dates and times as the standard writes them.

use std::fmt;

/// A calendar day (`ISODate` without time zone).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// That day, if the calendar has it. Years 1 to 9999.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u8::from(leap),
            _ => return None,
        };
        ((1..=9999).contains(&year) && (1..=days).contains(&day)).then_some(Self { year, month, day })
    }

    /// Reads `YYYY-MM-DD`, and nothing else; `None` if it is no day.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let month = u8::try_from(number(&bytes[5..7])?).ok()?;
        let day = u8::try_from(number(&bytes[8..])?).ok()?;
        Self::new(number(&bytes[..4])?, month, day)
    }

    /// The day after, if there is one.
    pub fn next(self) -> Option<Self> {
        Self::new(self.year, self.month, self.day + 1)
            .or_else(|| Self::new(self.year, self.month + 1, 1))
            .or_else(|| Self::new(self.year + 1, 1, 1))
    }

    /// The day before, if there is one.
    pub fn previous(self) -> Option<Self> {
        let last_of = |month| (28..=31).rev().find_map(|day| Self::new(self.year, month, day));
        Self::new(self.year, self.month, self.day - 1)
            .or_else(|| last_of(self.month - 1))
            .or_else(|| Self::new(self.year - 1, 12, 31))
    }

    /// The year, 1 to 9999.
    pub fn year(self) -> u16 {
        self.year
    }

    /// The month, 1 to 12.
    pub fn month(self) -> u8 {
        self.month
    }

    /// The day of the month, 1 to 31.
    pub fn day(self) -> u8 {
        self.day
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// The number that up to four ASCII digits write.
fn number(digits: &[u8]) -> Option<u16> {
    digits
        .iter()
        .try_fold(0u16, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0')))
}

/// The day of an `ISODateTime`: `YYYY-MM-DDThh:mm:ss`, with or without a fraction of a second, with
/// or without `Z` or an offset `±hh:mm`. `None` if it is none.
pub(crate) fn day_of_date_time(text: &str) -> Option<Date> {
    let (date, time) = text.split_at_checked(10)?;
    let date = Date::parse(date)?;
    let bytes = time.as_bytes();
    let in_range = |from: usize, below: u16| {
        bytes.get(from..from + 2).and_then(number).is_some_and(|number| number < below)
    };
    let form = bytes.first() == Some(&b'T')
        && in_range(1, 24)
        && bytes.get(3) == Some(&b':')
        && in_range(4, 60)
        && bytes.get(6) == Some(&b':')
        && in_range(7, 60);
    if !form {
        return None;
    }
    let mut rest = &bytes[9..];
    if let Some((b'.', fraction)) = rest.split_first() {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        rest = &fraction[digits..];
    }
    match rest {
        [] | [b'Z'] => Some(date),
        [b'+' | b'-', hour @ .., b':', m1, m2] => {
            let hour = if hour.len() == 2 { number(hour)? } else { return None };
            let minute = number(&[*m1, *m2])?;
            (minute < 60 && (hour < 14 || (hour == 14 && minute == 0))).then_some(date)
        }
        _ => None,
    }
}

/// The same moment as `ISONormalisedDateTime`: in UTC, with `Z`. A time without an offset is taken as UTC.
/// `None` if it is no time, or the shift leads out of the years that there are.
pub(crate) fn normalised(text: &str) -> Option<String> {
    const DAY: i32 = 24 * 60;
    let day = day_of_date_time(text)?;
    let time = text.get(11..)?;
    let Some((local, offset)) = time.split_at_checked(time.len().checked_sub(6)?) else {
        return Some(format!("{text}Z"));
    };
    let sign = match offset.as_bytes().first() {
        _ if text.ends_with('Z') => return Some(text.to_owned()),
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some(format!("{text}Z")),
    };
    let minutes =
        |hour: &str, minute: &str| Some(hour.parse::<i32>().ok()? * 60 + minute.parse::<i32>().ok()?);
    let of_day =
        minutes(local.get(..2)?, local.get(3..5)?)? - sign * minutes(offset.get(1..3)?, offset.get(4..6)?)?;
    let day = match of_day.div_euclid(DAY) {
        0 => day,
        1 => day.next()?,
        _ => day.previous()?,
    };
    let of_day = of_day.rem_euclid(DAY);
    Some(format!("{day}T{:02}:{:02}{}Z", of_day / 60, of_day % 60, local.get(5..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_normalised() {
        for (text, utc) in [
            ("2018-04-27T21:00:45", "2018-04-27T21:00:45Z"),
            ("2018-04-27T21:00:45.5Z", "2018-04-27T21:00:45.5Z"),
            ("2018-04-27T21:00:45.123", "2018-04-27T21:00:45.123Z"),
            ("2018-04-27T21:00:45.123+02:30", "2018-04-27T18:30:45.123Z"),
            ("2024-02-29T23:30:00-01:00", "2024-03-01T00:30:00Z"),
            ("2024-01-01T00:30:00+14:00", "2023-12-31T10:30:00Z"),
            ("2023-03-01T00:00:00+00:01", "2023-02-28T23:59:00Z"),
            ("2023-12-31T23:59:00-00:01", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(normalised(text).as_deref(), Some(utc), "{text}");
        }
        for text in ["9999-12-31T23:59:00-00:01", "0001-01-01T00:00:00+00:01", "today", ""] {
            assert_eq!(normalised(text), None, "{text}");
        }
    }

    #[test]
    fn only_days_of_the_calendar_are_dates() {
        assert_eq!(Date::parse("2024-02-29"), Date::new(2024, 2, 29));
        assert_eq!(Date::parse("2017-08-23").map(|date| date.to_string()).as_deref(), Some("2017-08-23"));
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-04-31",
            "2024-00-10",
            "2024-13-01",
            "2024-01-00",
            "0000-01-01",
            "24-01-01",
            "2024/01/01",
            "2024-1-1",
            "2024-01-01Z",
            "20240101",
            "2024-01-0१",
            "",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_checked_to_the_offset() {
        for text in [
            "2018-04-27T21:00:45",
            "2018-04-27T21:00:45Z",
            "2018-04-27T21:00:45.123+02:00",
            "2018-04-27T21:00:45-14:00",
        ] {
            assert_eq!(day_of_date_time(text), Date::new(2018, 4, 27), "{text}");
        }
        for text in [
            "2018-04-27",
            "2018-04-27 21:00:45",
            "2018-04-27T24:00:00",
            "2018-04-27T21:60:45",
            "2018-04-27T21:00:45.",
            "2018-04-27T21:00:45z",
            "2018-04-27T21:00:45+2:00",
            "2018-04-27T21:00:45+14:01",
            "2018-04-27T21:00",
            "2018-04-27T21:00:45ZZ",
            "2018-04-2é",
        ] {
            assert_eq!(day_of_date_time(text), None, "{text}");
        }
    }
}
