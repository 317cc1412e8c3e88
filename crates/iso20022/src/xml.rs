//! Writing XML: elements, text and one namespace, always well formed.

use std::fmt::Write as _;

/// A document under way.
pub(crate) struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(), depth: 0 }
    }

    /// The outermost element, with the namespace of all others.
    pub(crate) fn root(&mut self, name: &str, namespace: &str, content: impl FnOnce(&mut Self)) {
        self.text.push('<');
        self.text.push_str(name);
        self.text.push_str(" xmlns=\"");
        self.escape(namespace);
        self.text.push_str("\">\n");
        self.close(name, content);
    }

    /// An element with elements in it.
    pub(crate) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.indent();
        let _ = writeln!(self.text, "<{name}>");
        self.close(name, content);
    }

    /// An element with text in it.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.indent();
        let _ = write!(self.text, "<{name}>");
        self.escape(text);
        let _ = writeln!(self.text, "</{name}>");
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn close(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.depth += 1;
        content(self);
        self.depth -= 1;
        self.indent();
        let _ = writeln!(self.text, "</{name}>");
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = "a<b>&c \"d\" 'e' ]]> \u{0} \u{1F4B6} \u{FFFE}";
        let mut xml = Writer::new();
        xml.root("r", "urn:\"n", |xml| xml.element("e", |xml| xml.text("t", text)));
        let written = xml.finish();
        let tree = roxmltree::Document::parse(&written).expect("well-formed");
        let read =
            tree.descendants().find(|node| node.has_tag_name(("urn:\"n", "t"))).and_then(|node| node.text());
        assert_eq!(read, Some("a<b>&c \"d\" 'e' ]]> \u{FFFD} \u{1F4B6} \u{FFFD}"));
    }
}
