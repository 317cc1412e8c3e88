//! Tables and numbers for a person at a terminal.

use std::fmt::Write;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

/// On which side a column is flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table with aligned columns.
///
/// ```
/// use tally_bench::table::{Align, Table};
///
/// let mut table = Table::new(&[("stage", Align::Left), ("rate", Align::Right)]);
/// table.row(["sequencer", "1,052,845 tx/s"]);
/// assert_eq!(table.render(false), "stage                rate\nsequencer  1,052,845 tx/s\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;

impl Table {
    /// A table without rows; the titles are its first line.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let columns = columns.iter().map(|(title, align)| (one_line(title), *align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty and surplus ones are dropped. Control characters become spaces.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<_> = cells.into_iter().map(|cell| one_line(cell.as_ref())).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// How many rows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its titles, each with the side that the column leans to.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Align)> {
        self.columns.iter().map(|(title, align)| (title.as_str(), *align))
    }

    /// Its rows, each with as many cells as there are columns.
    pub fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.rows.iter().map(Vec::as_slice)
    }

    /// The table as lines; the titles are bold where the output is a terminal that wants it ([`styled`]).
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (title, _))| {
                let cells = self.rows.iter().map(|row| row[at].width());
                cells.chain([title.width()]).max().unwrap_or(0)
            })
            .collect();
        let titles = self.line(self.columns.iter().map(|(title, _)| title.as_str()), &widths);
        let mut text = if styled { format!("\x1b[1m{titles}\x1b[0m\n") } else { format!("{titles}\n") };
        for row in &self.rows {
            text.push_str(&self.line(row.iter().map(String::as_str), &widths));
            text.push('\n');
        }
        text
    }

    fn line<'c>(&self, cells: impl Iterator<Item = &'c str>, widths: &[usize]) -> String {
        let mut line = String::new();
        for (at, ((cell, (_, align)), width)) in cells.zip(&self.columns).zip(widths).enumerate() {
            let gap = if at == 0 { 0 } else { GAP };
            let pad = width.saturating_sub(cell.width());
            let (before, after) = match align {
                Align::Left => (0, pad),
                Align::Right => (pad, 0),
            };
            line.extend(std::iter::repeat_n(' ', gap + before));
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', after));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether standard output is a terminal on which nobody has asked for plain text (`NO_COLOR`).
#[must_use]
pub fn styled() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A whole number in groups of three: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with at least three significant digits and groups of three: `1,234,567`, `12.3`, `0.00123`.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    if (99.95..1e18).contains(&magnitude) {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(magnitude.round() as u64));
    }
    if magnitude >= 1e18 || (magnitude > 0.0 && magnitude < 1e-6) {
        return format!("{value:.2e}");
    }
    // Three significant digits: as many decimals as bring the third into sight, after rounding (9.996 is 10.0).
    let exponent = magnitude.max(1e-9).log10().floor();
    let rounded_up = (magnitude * 10_f64.powf(2.0 - exponent)).round() >= 1000.0;
    let decimals = if magnitude == 0.0 { 0.0 } else { 2.0 - exponent - f64::from(u8::from(rounded_up)) };
    let decimals = decimals.clamp(0.0, 8.0) as usize;
    format!("{value:.decimals$}")
}

/// A duration with three significant digits: `12.3 µs`, `1.50 s`, `2 h 03 min`.
#[must_use]
pub fn duration(value: Duration) -> String {
    seconds(value.as_secs_f64())
}

fn seconds(value: f64) -> String {
    if value >= 59.95 {
        let whole = value.round() as u64;
        return match whole / 3600 {
            0 => format!("{} min {:02} s", whole / 60, whole % 60),
            hours => format!("{} h {:02} min", count(hours), whole / 60 % 60),
        };
    }
    // The limits are where three digits would round up into the next unit.
    let (value, unit) = match value {
        s if s < 999.5e-9 => (s * 1e9, "ns"),
        s if s < 999.5e-6 => (s * 1e6, "µs"),
        s if s < 999.5e-3 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", number(value))
}

/// Bytes in binary units: `512 B`, `1.50 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(value), UNITS[unit])
}

/// A value in the unit it was recorded in, for reading: durations, bytes and rates get the unit that suits them.
///
/// | unit | shown as |
/// | --- | --- |
/// | `s`, `ms`, `us`, `ns` | [`duration`] |
/// | `B`, `B/s` | [`bytes()`], and that per second |
/// | `share` | per cent |
/// | anything else, such as `tx/s` | [`number`] and the unit |
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        "B" => return bytes(value),
        "B/s" => return format!("{}/s", bytes(value)),
        "share" => return format!("{} %", number(value * 100.0)),
        "" => return number(value),
        _ => return format!("{} {unit}", number(value)),
    };
    if value < 0.0 || !value.is_finite() {
        return format!("{} {unit}", number(value));
    }
    seconds(value * scale)
}

/// A rate of transactions: `1,234,567 tx/s`.
#[must_use]
pub fn rate(tps: f64) -> String {
    quantity(tps, "tx/s")
}

/// Lines of `name: value` with the values in one column, as a heading over a table.
#[must_use]
pub fn facts<'f>(facts: impl IntoIterator<Item = (&'f str, String)>) -> String {
    let facts: Vec<_> = facts.into_iter().map(|(name, value)| (name, one_line(&value))).collect();
    let width = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts {
        let pad = width - name.width();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}{:pad$}  {value}", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_width_on_screen() {
        let mut table = Table::new(&[("name", Align::Left), ("value", Align::Right), ("note", Align::Left)]);
        table.row(["Zürich", "1", "x"]);
        table.row(["東京", "12.3 µs"]);
        table.row(["a\nb\x1b[31m", "", "y", "dropped"]);
        assert_eq!(
            table.render(false),
            "name        value  note\n\
             Zürich          1  x\n\
             東京      12.3 µs\n\
             a b [31m           y\n"
        );
        assert!(table.render(true).starts_with("\x1b[1mname "));
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn numbers_are_grouped_with_three_digits() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), text);
        }
        let cases = [
            (0.0, "0"),
            (1_234_567.4, "1,234,567"),
            (-1234.0, "-1,234"),
            (123.4, "123"),
            (99.96, "100"),
            (99.94, "99.9"),
            (12.34, "12.3"),
            (9.996, "10.0"),
            (9.994, "9.99"),
            (0.09996, "0.100"),
            (1.0, "1.00"),
            (0.001_234, "0.00123"),
            (1e-9, "1.00e-9"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn quantities_get_the_unit_that_suits_them() {
        let cases = [
            (1_234_567.0, "tx/s", "1,234,567 tx/s"),
            (12.3456, "us", "12.3 µs"),
            (999.6, "us", "1.00 ms"),
            (0.000_000_5, "s", "500 ns"),
            (61.0, "s", "1 min 01 s"),
            (59.99, "s", "1 min 00 s"),
            (7380.0, "s", "2 h 03 min"),
            (67.74e-9, "s", "67.7 ns"),
            (1_610_612_736.0, "B", "1.50 GiB"),
            (512.0, "B/s", "512 B/s"),
            (1024.0 * 1024.0, "B/s", "1.00 MiB/s"),
            (0.4321, "share", "43.2 %"),
            (2.0, "", "2.00"),
            (-1.0, "ms", "-1.00 ms"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(quantity(value, unit), text);
        }
        assert_eq!(rate(10.0), "10.0 tx/s");
    }

    #[test]
    fn facts_line_up() {
        assert_eq!(facts([("cpu", "x".to_owned()), ("kernel", "y".to_owned())]), "cpu     x\nkernel  y\n");
    }
}
