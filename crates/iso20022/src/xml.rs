//! Writing XML: elements, text and one namespace, always well formed, and within the schema's limits or
//! refused.

use std::fmt::Write as _;

use crate::amount::{MAX_AMOUNT_SCALE, MAX_DIGITS, Money};
use crate::date::day_of_date_time;
use crate::error::WriteError;
use crate::parties::MAX_ID;

/// A document under way. The first text that the schema does not allow is remembered, and the document
/// refused at its end.
pub(crate) struct Writer {
    text: String,
    open: Vec<&'static str>,
    fault: Option<WriteError>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { text: DECLARATION.to_owned(), open: Vec::new(), fault: None }
    }

    /// The outermost element, with the namespace of all others.
    pub(crate) fn root(&mut self, name: &'static str, namespace: &str, content: impl FnOnce(&mut Self)) {
        self.indent();
        let _ = write!(self.text, "<{name} xmlns=\"");
        self.escape(namespace);
        self.text.push_str("\">\n");
        self.close(name, content);
    }

    /// An element with elements in it.
    pub(crate) fn element(&mut self, name: &'static str, content: impl FnOnce(&mut Self)) {
        self.indent();
        let _ = writeln!(self.text, "<{name}>");
        self.close(name, content);
    }

    /// An element with text in it that the schema allows whatever it is.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.indent();
        let _ = write!(self.text, "<{name}>");
        self.escape(text);
        let _ = writeln!(self.text, "</{name}>");
    }

    /// An element with 1 to `longest` characters in it.
    pub(crate) fn limited(&mut self, name: &'static str, text: &str, longest: usize) {
        if !(1..=longest).contains(&text.chars().count()) {
            self.refuse(name, text, format!("a text of 1 to {longest} characters"));
        }
        self.text(name, text);
    }

    /// An identification of 1 to 35 characters.
    pub(crate) fn id(&mut self, name: &'static str, id: &str) {
        self.limited(name, id, MAX_ID);
    }

    /// An identification, if there is one.
    pub(crate) fn optional_id(&mut self, name: &'static str, id: Option<&str>) {
        if let Some(id) = id {
            self.id(name, id);
        }
    }

    /// An `ISODateTime`.
    pub(crate) fn time(&mut self, name: &'static str, time: &str) {
        if day_of_date_time(time).is_none() {
            self.refuse(name, time, "a time as YYYY-MM-DDThh:mm:ssZ".to_owned());
        }
        self.text(name, time);
    }

    /// An amount with its currency, with the decimals that it was given.
    pub(crate) fn amount(&mut self, name: &'static str, amount: &Money) {
        let (digits, scale) = (amount.digits, usize::from(amount.scale));
        let number = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = number.split_at(number.len() - scale);
        let number = if fraction.is_empty() { number } else { format!("{whole}.{fraction}") };
        let currency = amount.currency_code();
        let fits = amount.scale <= MAX_AMOUNT_SCALE
            && digits.checked_ilog10().unwrap_or(0) < u32::from(MAX_DIGITS)
            && amount.currency.iter().all(u8::is_ascii_uppercase);
        if !fits {
            self.refuse(
                name,
                &format!("{currency} {number}"),
                "at most 18 digits, 5 of them decimals".to_owned(),
            );
        }
        self.indent();
        let _ = write!(self.text, "<{name} Ccy=\"");
        self.escape(&currency);
        let _ = writeln!(self.text, "\">{number}</{name}>");
    }

    /// What was written as a document of its own.
    pub(crate) fn raw(&mut self, document: &str) {
        self.text.push_str(document);
    }

    /// Notes that the schema does not allow that text there.
    pub(crate) fn refuse(&mut self, name: &'static str, value: &str, expected: String) {
        let field = self.open.iter().skip(1).chain([&name]).copied().collect::<Vec<_>>().join("/");
        self.fault.get_or_insert(WriteError::Field { field, value: value.to_owned(), expected });
    }

    /// The document.
    pub(crate) fn finish(self) -> Result<String, WriteError> {
        self.fault.map_or(Ok(self.text), Err)
    }

    fn close(&mut self, name: &'static str, content: impl FnOnce(&mut Self)) {
        self.open.push(name);
        content(self);
        self.open.pop();
        self.indent();
        let _ = writeln!(self.text, "</{name}>");
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.open.len()));
    }

    /// Characters that XML 1.0 cannot carry at all (section 2.2) become U+FFFD.
    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\r' => self.text.push_str("&#13;"),
                '\t' | '\n' | ' '..='\u{FFFD}' | '\u{10000}'.. => self.text.push(character),
                _ => self.text.push('\u{FFFD}'),
            }
        }
    }
}

/// What every document begins with.
pub(crate) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = "a<b>&c \"d\" 'e' ]]> \u{0} \u{1F4B6} \u{FFFE}";
        let mut xml = Writer::new();
        xml.root("r", "urn:\"n", |xml| xml.element("e", |xml| xml.text("t", text)));
        let written = xml.finish().expect("nothing is refused");
        let tree = roxmltree::Document::parse(&written).expect("well-formed");
        let read =
            tree.descendants().find(|node| node.has_tag_name(("urn:\"n", "t"))).and_then(|node| node.text());
        assert_eq!(read, Some("a<b>&c \"d\" 'e' ]]> \u{FFFD} \u{1F4B6} \u{FFFD}"));
    }

    #[test]
    fn what_the_schema_does_not_allow_is_refused_at_its_place() {
        let refused = |content: fn(&mut Writer)| {
            let mut xml = Writer::new();
            xml.root("Document", "urn:n", |xml| xml.element("Body", content));
            match xml.finish() {
                Err(WriteError::Field { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        };
        let money = |digits, scale| Money { currency: *b"EUR", digits, scale };
        assert_eq!(refused(|xml| xml.id("MsgId", "")), "Body/MsgId");
        assert_eq!(refused(|xml| xml.element("A", |xml| xml.id("Id", &"é".repeat(36)))), "Body/A/Id");
        assert_eq!(refused(|xml| xml.time("CreDtTm", "today")), "Body/CreDtTm");
        for (digits, scale) in [(1_000_000_000_000_000_000, 2), (1, 6)] {
            let mut xml = Writer::new();
            xml.amount("Amt", &money(digits, scale));
            assert!(xml.finish().is_err(), "{digits} {scale}");
        }
        let mut xml = Writer::new();
        xml.id("Id", &"é".repeat(35));
        xml.amount("Amt", &money(5, 2));
        xml.amount("Amt", &money(999_999_999_999_999_999, 0));
        let written = xml.finish().expect("nothing is refused");
        assert!(written.contains("<Amt Ccy=\"EUR\">0.05</Amt>"));
        assert!(written.contains("<Amt Ccy=\"EUR\">999999999999999999</Amt>"));
    }
}
