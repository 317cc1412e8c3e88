//! Charts as inline SVG: lines over a numeric axis, and bars made of parts.
//!
//! Colours are classes (`s0` to `s5`, `axis`, `grid`, `mark`) that [`super::page`] styles for light and dark. Every
//! point and part carries its value as a `<title>`, which browsers show on hovering and screen readers read.

use std::fmt::Write;

use super::page::escape;
use crate::table;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Colours there are; further series begin again.
const COLOURS: usize = 6;

/// What an axis shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What is measured along it.
    pub label: String,
    /// The unit of its values, as [`table::quantity`] knows it.
    pub unit: &'static str,
    /// Each step multiplies instead of adding; only values above zero are shown.
    pub logarithmic: bool,
}

impl Axis {
    /// From zero on, in equal steps.
    pub fn linear(label: impl Into<String>, unit: &'static str) -> Self {
        Self { label: label.into(), unit, logarithmic: false }
    }

    /// In steps that multiply.
    pub fn logarithmic(label: impl Into<String>, unit: &'static str) -> Self {
        Self { label: label.into(), unit, logarithmic: true }
    }
}

/// A series of points, joined in the order given.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is called in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// Lines over a numeric axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What was measured.
    pub lines: Vec<Line>,
    /// Values to reach or to stay below, as dashed lines across.
    pub marks: Vec<(String, f64)>,
}

/// One axis, laid out.
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let shown = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let (low, high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Self { from: 0.0, to: 1.0, logarithmic: false, ticks: vec![0.0, 1.0] };
        }
        if logarithmic { Self::logarithmic(low, high) } else { Self::linear(low.min(0.0), high) }
    }

    fn linear(low: f64, high: f64) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        // The step of 1, 2 or 5 times a power of ten that gives four to eight ticks.
        let rough = span / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (low / step).floor();
        let last = (high / step).ceil().max(first + 1.0);
        let count = (last - first).min(100.0) as usize;
        let ticks = (0..=count).map(|tick| (first + tick as f64) * step).collect();
        Self { from: first * step, to: last * step, logarithmic: false, ticks }
    }

    fn logarithmic(low: f64, high: f64) -> Self {
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let steps: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        let (mut from, mut to) = (10_f64.powi(first), 10_f64.powi(last));
        // No more of the outer decades than needed.
        let ticks: Vec<f64> = ticks.collect();
        from = ticks.iter().copied().filter(|tick| *tick <= low * 1.000_1).fold(from, f64::max);
        to = ticks.iter().copied().filter(|tick| *tick >= high * 0.999_9).fold(to, f64::min);
        let ticks = ticks.into_iter().filter(|tick| (from..=to).contains(tick)).collect();
        Self { from, to: if to > from { to } else { from * 10.0 }, logarithmic: true, ticks }
    }

    /// Where a value lies: 0 at the beginning of the axis and 1 at its end.
    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value.log10() - self.from.log10()) / (self.to.log10() - self.from.log10())
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }
}

impl Chart {
    /// The chart as an `svg` element.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = Scale::new(points().map(|(x, _)| *x), self.x.logarithmic);
        let marks = self.marks.iter().map(|(_, value)| *value);
        let y = Scale::new(points().map(|(_, y)| *y).chain(marks), self.y.logarithmic);
        let at_x = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
        let at_y = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = open(HEIGHT, &self.title);
        for tick in &y.ticks {
            let (at, text) = (at_y(*tick), escape(&short(*tick, self.y.unit)));
            // Writing to a string does not fail.
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"axis end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            );
        }
        for tick in &x.ticks {
            let _ = write!(
                svg,
                "<text class=\"axis middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at_x(*tick),
                HEIGHT - BOTTOM + 18.0,
                escape(&short(*tick, self.x.unit))
            );
        }
        let _ = write!(
            svg,
            "<text class=\"axis middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x.label)
        );
        for (name, value) in &self.marks {
            let at = at_y(*value);
            let _ = write!(
                svg,
                "<line class=\"mark\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"axis end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                WIDTH - RIGHT - 4.0,
                at - 4.0,
                escape(name)
            );
        }
        for (index, line) in self.lines.iter().enumerate() {
            let shown = line.points.iter().filter(|(px, py)| {
                px.is_finite()
                    && py.is_finite()
                    && (!x.logarithmic || *px > 0.0)
                    && (!y.logarithmic || *py > 0.0)
            });
            let shown: Vec<(f64, f64)> = shown.copied().collect();
            let colour = index % COLOURS;
            let path: Vec<String> =
                shown.iter().map(|(px, py)| format!("{:.1},{:.1}", at_x(*px), at_y(*py))).collect();
            let _ = write!(svg, "<polyline class=\"line s{colour}\" points=\"{}\"/>", path.join(" "));
            // Points of a long series would be one broad line.
            let radius = if shown.len() > 40 { 1.5 } else { 3.5 };
            for (px, py) in &shown {
                let _ = write!(
                    svg,
                    "<circle class=\"dot s{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}</title></circle>",
                    at_x(*px),
                    at_y(*py),
                    escape(&format!(
                        "{}: {} at {}",
                        line.name,
                        table::quantity(*py, self.y.unit),
                        short(*px, self.x.unit)
                    ))
                );
            }
        }
        svg.push_str("</svg>");
        svg
    }

    /// The names of its lines, each with its colour's class; empty where one line needs no telling apart.
    #[must_use]
    pub fn legend(&self) -> Vec<(String, String)> {
        if self.lines.len() < 2 {
            return Vec::new();
        }
        let colour = |(index, line): (usize, &Line)| (line.name.clone(), format!("s{}", index % COLOURS));
        self.lines.iter().enumerate().map(colour).collect()
    }
}

/// A bar and what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Its parts, in order, each with its name and length.
    pub parts: Vec<(String, f64)>,
}

/// Bars made of parts, all on one scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What they show.
    pub title: String,
    /// The unit of their lengths.
    pub unit: &'static str,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

impl Bars {
    fn parts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.bars.iter().flat_map(|bar| &bar.parts) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The bars as an `svg` element.
    #[must_use]
    pub fn svg(&self) -> String {
        const ROW: f64 = 30.0;
        const NAME: f64 = 150.0;
        const VALUE: f64 = 80.0;
        let names = self.parts();
        let total = |bar: &Bar| bar.parts.iter().map(|(_, length)| length.max(0.0)).sum::<f64>();
        let longest = self.bars.iter().map(total).fold(0.0, f64::max);
        let scale = if longest > 0.0 { (WIDTH - NAME - VALUE) / longest } else { 0.0 };
        let mut svg = open(ROW * self.bars.len().max(1) as f64 + 4.0, &self.title);
        for (row, bar) in self.bars.iter().enumerate() {
            let y = ROW * row as f64 + 4.0;
            let _ = write!(
                svg,
                "<text class=\"axis end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                NAME - 8.0,
                y + 16.0,
                escape(&bar.name)
            );
            let mut x = NAME;
            for (name, length) in &bar.parts {
                let width = length.max(0.0) * scale;
                let colour = names.iter().position(|found| found == name).unwrap_or(0) % COLOURS;
                let _ = write!(
                    svg,
                    "<rect class=\"part s{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"22\"><title>{}\
                     </title></rect>",
                    escape(&format!("{name}: {}", table::quantity(*length, self.unit)))
                );
                x += width;
            }
            let _ = write!(
                svg,
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 6.0,
                y + 16.0,
                escape(&table::quantity(total(bar), self.unit))
            );
        }
        svg.push_str("</svg>");
        svg
    }

    /// The names of the parts, each with its colour's class.
    #[must_use]
    pub fn legend(&self) -> Vec<(String, String)> {
        let colour = |(index, name): (usize, &str)| (name.to_owned(), format!("s{}", index % COLOURS));
        self.parts().into_iter().enumerate().map(colour).collect()
    }
}

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\"><title>{}</title>",
        escape(title),
        escape(title)
    )
}

/// A value at a tick: whole numbers without decimals.
fn short(value: f64, unit: &str) -> String {
    match unit {
        "" | "tx/s" if value.fract().abs() < 1e-9 && value.abs() < 1e15 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", table::count(value.abs() as u64))
        }
        "tx/s" => table::number(value),
        _ if value == 0.0 => "0".to_owned(),
        _ => table::quantity(value, unit).replace(".00 ", " ").replace(".0 ", " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let scale = Scale::new([3.0, 17.0, 42.0].into_iter(), false);
        assert_eq!(scale.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!((scale.place(0.0), scale.place(50.0)), (0.0, 1.0));
        let scale = Scale::new([0.0, 1.0, 100.0].into_iter(), true);
        assert_eq!(scale.ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9);
        let wide = Scale::new([1.0, 1e6].into_iter(), true);
        assert_eq!(wide.ticks.len(), 7);
        for odd in [vec![], vec![f64::NAN], vec![7.0], vec![0.0]] {
            let scale = Scale::new(odd.into_iter(), false);
            assert!(scale.to > scale.from && scale.ticks.len() >= 2);
        }
        assert!(Scale::new([5.0].into_iter(), true).to > 5.0);
    }

    #[test]
    fn values_at_ticks_are_short() {
        assert_eq!(short(2_000.0, "tx/s"), "2,000");
        assert_eq!(short(0.5, "s"), "500 ms");
        assert_eq!(short(0.0, "s"), "0");
        assert_eq!(short(10.0, "s"), "10 s");
        assert_eq!(short(0.25, ""), "0.250");
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let chart = Chart {
            title: "a & b".into(),
            x: Axis::linear("load", "tx/s"),
            y: Axis::linear("time", "s"),
            lines: vec![
                Line { name: "<one>".into(), points: vec![(0.0, 0.0), (10.0, 1.0), (f64::NAN, 1.0)] },
                Line { name: "two".into(), points: vec![] },
            ],
            marks: vec![("bar".into(), 0.5)],
        };
        let svg = chart.svg();
        assert!(svg.contains("points=\"72.0,256.0 624.0,12.0\""), "{svg}");
        assert!(
            svg.contains("&lt;one&gt;: 1.00 s at 10") && svg.contains("aria-label=\"a &amp; b\""),
            "{svg}"
        );
        assert!(svg.contains("class=\"mark\" x1=\"72\" x2=\"624.0\" y1=\"134.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(chart.legend()[1], ("two".to_owned(), "s1".to_owned()));
    }

    #[test]
    fn bars_share_a_scale_and_parts_a_colour() {
        let bar = |name: &str, parts: &[(&str, f64)]| Bar {
            name: name.into(),
            parts: parts.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect(),
        };
        let bars = Bars {
            title: "where".into(),
            unit: "s",
            bars: vec![bar("A", &[("sign", 1.0), ("store", 3.0)]), bar("B", &[("store", 2.0)])],
        };
        let svg = bars.svg();
        // 410 wide for the longest, of 4 s.
        assert!(svg.contains("class=\"part s1\" x=\"252.5\" y=\"4.0\" width=\"307.5\""), "{svg}");
        assert!(svg.contains("class=\"part s1\" x=\"150.0\" y=\"34.0\" width=\"205.0\""), "{svg}");
        assert_eq!(bars.legend().len(), 2);
        assert!(Bars { bars: vec![], ..bars }.svg().ends_with("</svg>"));
    }
}
