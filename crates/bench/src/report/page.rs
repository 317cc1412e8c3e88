//! A report as one HTML page that needs nothing else: styles and charts are in it, and no script.

use std::fmt::Write;

use super::chart::{Bars, Chart};
use crate::table::{Align, Table};

/// A headline figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// What it is.
    pub name: String,
    /// The value with its unit.
    pub value: String,
    /// What it is compared with.
    pub note: String,
    /// Whether it is as it is to be, where that was set.
    pub passes: Option<bool>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Headline figures beside each other.
    Tiles(Vec<Tile>),
    /// A table with its caption.
    Table(String, Table),
    /// A chart.
    Chart(Chart),
    /// Bars.
    Bars(Bars),
    /// A paragraph.
    Note(String),
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it says, in the order to be read. Charts that follow one another stand beside each other.
    pub blocks: Vec<Block>,
}

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its heading.
    pub title: String,
    /// Where and how it was measured, as names and values.
    pub facts: Vec<(String, String)>,
    /// The rest.
    pub sections: Vec<Section>,
}

/// Text as HTML shows it, inside elements and quoted attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in HTML, whatever a process was named.
            other if other.is_control() && other != '\n' && other != '\t' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

const STYLE: &str = include_str!("page.css");

impl Page {
    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n<dl>\n"
        );
        for (name, value) in &self.facts {
            // Writing to a string does not fail.
            let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
        }
        html.push_str("</dl>\n</header>\n");
        for section in &self.sections {
            section.render(&mut html);
        }
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }
}

impl Section {
    /// A table under that heading.
    #[must_use]
    pub fn of(title: &str, table: Table) -> Self {
        Self { title: title.to_owned(), blocks: vec![Block::Table(title.to_owned(), table)] }
    }

    /// Adds a paragraph; lines are broken where it is shown.
    pub fn note(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Note(text.into()));
    }

    /// Tables and notes as text, for a terminal; charts and headline figures, which repeat them, are left out.
    #[must_use]
    pub fn text(&self, styled: bool) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            match block {
                Block::Table(_, table) => text.push_str(&table.render(styled)),
                Block::Note(note) => text.push_str(&wrapped(note)),
                Block::Tiles(_) | Block::Chart(_) | Block::Bars(_) => {}
            }
        }
        text
    }

    fn render(&self, html: &mut String) {
        let _ = write!(html, "<section>\n<h2>{}</h2>\n", escape(&self.title));
        let mut charts = false;
        for block in &self.blocks {
            let is_chart = matches!(block, Block::Chart(_) | Block::Bars(_));
            if is_chart != charts {
                html.push_str(if is_chart { "<div class=\"charts\">\n" } else { "</div>\n" });
                charts = is_chart;
            }
            match block {
                Block::Tiles(tiles) => render_tiles(tiles, html),
                Block::Table(caption, table) => render_table(caption, table, html),
                Block::Chart(chart) => {
                    figure(&chart.title, &chart.y.label, &chart.svg(), &chart.legend(), html)
                }
                Block::Bars(bars) => figure(&bars.title, "", &bars.svg(), &bars.legend(), html),
                Block::Note(text) => {
                    let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(text));
                }
            }
        }
        if charts {
            html.push_str("</div>\n");
        }
        html.push_str("</section>\n");
    }
}

/// A paragraph in lines of a terminal's width.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 120;
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > WIDTH {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word_length;
    }
    lines.push('\n');
    lines
}

fn render_tiles(tiles: &[Tile], html: &mut String) {
    html.push_str("<div class=\"tiles\">\n");
    for tile in tiles {
        let class = match tile.passes {
            Some(true) => " good",
            Some(false) => " bad",
            None => "",
        };
        // Not by colour alone.
        let mark = match tile.passes {
            Some(true) => "✓ ",
            Some(false) => "✗ ",
            None => "",
        };
        let _ = writeln!(
            html,
            "<div class=\"tile{class}\"><span class=\"name\">{}</span><strong>{}</strong><span class=\"under\">{mark}{}\
             </span></div>",
            escape(&tile.name),
            escape(&tile.value),
            escape(&tile.note)
        );
    }
    html.push_str("</div>\n");
}

fn render_table(caption: &str, table: &Table, html: &mut String) {
    let side = |align: Align| if align == Align::Right { " class=\"right\"" } else { "" };
    let _ = write!(html, "<div class=\"table\"><table>\n<caption>{}</caption>\n<thead><tr>", escape(caption));
    for (title, align) in table.columns() {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", side(align), escape(title));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        html.push_str("<tr>");
        for (cell, (_, align)) in row.iter().zip(table.columns()) {
            let _ = write!(html, "<td{}>{}</td>", side(align), escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn figure(title: &str, axis: &str, svg: &str, legend: &[(String, String)], html: &mut String) {
    let _ = write!(html, "<figure>\n<figcaption><b>{}</b>", escape(title));
    if !axis.is_empty() {
        let _ = write!(html, " <span class=\"under\">{}</span>", escape(axis));
    }
    html.push_str("</figcaption>\n");
    html.push_str(svg);
    if !legend.is_empty() {
        html.push_str("\n<ul class=\"legend\">");
        for (name, class) in legend {
            let _ = write!(html, "<li><i class=\"{class}\"></i>{}</li>", escape(name));
        }
        html.push_str("</ul>");
    }
    html.push_str("\n</figure>\n");
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::chart::{Axis, Bar, Line};

    fn page() -> Page {
        let mut table = Table::new(&[("what", Align::Left), ("how <much>", Align::Right)]);
        table.row(["a & b", "1"]);
        let chart = Chart {
            title: "rate".into(),
            x: Axis::linear("s", "s"),
            y: Axis::linear("tx/s", "tx/s"),
            lines: vec![Line { name: "n".into(), points: vec![(0.0, 1.0)] }],
            marks: vec![],
        };
        let bars = Bars {
            title: "parts".into(),
            unit: "s",
            bars: vec![Bar { name: "A".into(), parts: vec![("x".into(), 1.0)] }],
        };
        let tile = |passes| Tile { name: "n".into(), value: "1".into(), note: "bar 2".into(), passes };
        Page {
            title: "Flows <script>alert(1)</script>".into(),
            facts: vec![("processor".into(), "\"quoted\" 'and' \u{1}".into())],
            sections: vec![Section {
                title: "first".into(),
                blocks: vec![
                    Block::Tiles(vec![tile(Some(true)), tile(Some(false)), tile(None)]),
                    Block::Chart(chart),
                    Block::Bars(bars),
                    Block::Table("caption".into(), table),
                    Block::Note("x < y".into()),
                ],
            }],
        }
    }

    /// Every element that is opened is closed, in order.
    pub(crate) fn assert_well_formed(html: &str) {
        let mut open: Vec<&str> = Vec::new();
        let body = html.split_once("</style>").unwrap().1;
        for piece in body.split('<').skip(1) {
            let (tag, _) =
                piece.split_once('>').unwrap_or_else(|| panic!("a tag that does not end: {piece}"));
            if let Some(name) = tag.strip_prefix('/') {
                let last = open.pop();
                // Head and html were opened before the style.
                assert!(
                    last == Some(name) || (last.is_none() && ["head", "html"].contains(&name)),
                    "{name} {open:?}"
                );
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_page_is_well_formed_and_text_stays_text() {
        let html = page().render();
        assert_well_formed(&html);
        assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">"));
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)"), "{html}");
        assert!(html.contains("&quot;quoted&quot; &#39;and&#39;  </dd>"), "{html}");
        assert!(html.contains("<th scope=\"col\" class=\"right\">how &lt;much&gt;</th>"), "{html}");
        assert!(html.contains("<td>a &amp; b</td><td class=\"right\">1</td>"), "{html}");
        assert!(
            html.contains("tile good") && html.contains("✗ bar 2") && html.contains("x &lt; y"),
            "{html}"
        );
        let text = page().sections[0].text(false);
        assert!(text.contains("a & b") && text.ends_with("x < y\n") && !text.contains("bar 2"), "{text}");
        let lines = wrapped(&"four ".repeat(50));
        assert_eq!(lines.lines().map(str::len).collect::<Vec<_>>(), [119, 119, 9], "{lines}");
        // Charts stand beside each other, tables do not.
        assert_eq!(html.matches("<div class=\"charts\">").count(), 1);
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = page().render();
        for outside in ["http:", "https:", "//", "url(", "@import", "src=", "href="] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("prefers-color-scheme: dark"));
    }
}
