//! The gate before the XML parser: encoding, size, nesting, and no document type.
//!
//! The parser behind it is safe on any text, but what it costs is not proportional to the text for
//! every text: attributes of one element are compared with each other, and namespaces in scope are
//! copied for each element that declares one. So depth, attributes and declarations are bounded
//! here, in one pass over the bytes that allocates nothing but the stack of open elements.

use crate::error::{ParseError, Position};
use crate::limits::Limits;

/// Most namespace declarations in scope at one place. Messages use one or two.
const NAMESPACES_IN_SCOPE: usize = 32;

/// Lets a file pass to the parser: the text without byte order mark.
pub(crate) fn admit<'a>(xml: &'a [u8], limits: &Limits) -> Result<&'a str, ParseError> {
    if xml.len() > limits.bytes {
        return Err(ParseError::new(format!(
            "the file has {} bytes; at most {} are read",
            xml.len(),
            limits.bytes
        )));
    }
    let text = decode(xml)?;
    if text.trim_start().is_empty() {
        return Err(ParseError::new("the file is empty"));
    }
    declaration(text)?;
    Scan { text, bytes: text.as_bytes(), at: 0, limits }.run()?;
    Ok(text)
}

/// Where that byte is.
pub(crate) fn position(text: &str, byte: usize) -> Position {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    // Continuation bytes of UTF-8 are not characters of their own.
    let characters = before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    Position { line: count(lines), column: count(characters) }
}

/// A count of things before, as the number of the thing itself.
fn count(before: usize) -> u32 {
    u32::try_from(before).map_or(u32::MAX, |number| number.saturating_add(1))
}

fn decode(xml: &[u8]) -> Result<&str, ParseError> {
    let encoding = match xml {
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] | [0, 0, 0, b'<', ..] | [b'<', 0, 0, 0, ..] => {
            "UTF-32"
        }
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] | [0, b'<', ..] | [b'<', 0, ..] => "UTF-16",
        _ => "",
    };
    if !encoding.is_empty() {
        return Err(ParseError::new(format!("the file is in {encoding}; only UTF-8 is read")));
    }
    let bytes = xml.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(xml);
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        ParseError::new("the file has bytes that are not UTF-8").at(position(valid, valid.len()))
    })
}

/// Checks version and encoding of the XML declaration, if there is one.
fn declaration(text: &str) -> Result<(), ParseError> {
    let Some(rest) = text.strip_prefix("<?xml").filter(|rest| rest.starts_with([' ', '\t', '\r', '\n']))
    else {
        return Ok(());
    };
    let fault = |what: String| Err(ParseError::new(what).at(Position { line: 1, column: 1 }));
    let Some((declaration, _)) = rest.split_once("?>") else {
        return fault("the XML declaration does not end".to_owned());
    };
    let value = |name: &str| {
        let (before, after) = declaration.split_once(name)?;
        let after = after.trim_start().strip_prefix('=')?.trim_start();
        let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        before.ends_with([' ', '\t', '\r', '\n']).then_some(())?;
        after[1..].split_once(quote).map(|(value, _)| value)
    };
    match value("version") {
        Some("1.0") => {}
        Some(version) => return fault(format!("XML {version} is not read, only XML 1.0")),
        None => return fault("the XML declaration has no version".to_owned()),
    }
    match value("encoding") {
        None if declaration.contains("encoding") => {
            fault("the XML declaration is not well formed".to_owned())
        }
        Some(encoding) if !encoding.eq_ignore_ascii_case("UTF-8") => {
            fault(format!("the file declares the encoding {}; only UTF-8 is read", quoted(encoding)))
        }
        _ => Ok(()),
    }
}

/// A text from outside as it may stand in an error: short, on one line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
}

impl Scan<'_> {
    fn run(mut self) -> Result<(), ParseError> {
        // For each open element, how many namespaces it declares.
        let mut open: Vec<usize> = Vec::new();
        let mut namespaces = 0;
        let mut nodes = 0u32;
        while let Some(next) = self.bytes[self.at..].iter().position(|byte| matches!(byte, b'<' | b'&')) {
            self.at += next;
            let rest = &self.bytes[self.at..];
            nodes = nodes.saturating_add(1);
            if nodes > self.limits.nodes {
                return Err(
                    self.fault(format!("the file has more than {} pieces of markup", self.limits.nodes))
                );
            }
            if rest.starts_with(b"&") {
                self.reference()?;
            } else if rest.starts_with(b"<!--") {
                self.skip_past(4, "-->", "comment")?;
            } else if rest.starts_with(b"<![CDATA[") {
                self.skip_past(9, "]]>", "CDATA section")?;
            } else if rest.starts_with(b"<?") {
                self.skip_past(2, "?>", "processing instruction")?;
            } else if rest.starts_with(b"<!") {
                return Err(self.fault("a document type or entity declaration is not allowed".to_owned()));
            } else if rest.starts_with(b"</") {
                match open.pop() {
                    Some(declared) => namespaces -= declared,
                    None => return Err(self.fault("an end tag without a start tag".to_owned())),
                }
                self.skip_past(2, ">", "end tag")?;
            } else {
                let declared = self.start_tag()?;
                namespaces += declared;
                if namespaces > NAMESPACES_IN_SCOPE {
                    return Err(self.fault("too many namespace declarations".to_owned()));
                }
                open.push(declared);
                if open.len() > self.limits.depth {
                    return Err(
                        self.fault(format!("elements are nested more than {} deep", self.limits.depth))
                    );
                }
                if self.bytes[..self.at].ends_with(b"/>") {
                    namespaces -= open.pop().unwrap_or_default();
                }
            }
        }
        if open.is_empty() { Ok(()) } else { Err(self.end("an element is not closed")) }
    }

    /// Passes a start tag and returns how many namespaces it declares.
    fn start_tag(&mut self) -> Result<usize, ParseError> {
        let (mut attributes, mut namespaces) = (0, 0);
        let mut quote = None;
        let mut name_start = self.at;
        for place in self.at + 1..self.bytes.len() {
            let byte = self.bytes[place];
            match (quote, byte) {
                (Some(open), _) if byte == open => {
                    quote = None;
                    name_start = place + 1;
                }
                (Some(_), b'<') => break,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => {
                    attributes += 1;
                    let name = self.bytes[name_start..place].trim_ascii_start();
                    namespaces += usize::from(name.starts_with(b"xmlns"));
                    if attributes > self.limits.attributes {
                        return Err(self.fault("an element has too many attributes".to_owned()));
                    }
                }
                (None, b' ' | b'\t' | b'\r' | b'\n') if attributes == 0 => name_start = place,
                (None, b'>') => {
                    let tag = self.at..place;
                    self.at = place + 1;
                    return self.references_in(tag).map(|()| namespaces);
                }
                (None, b'<') => break,
                (None, _) => {}
            }
        }
        Err(self.fault("a tag does not end".to_owned()))
    }

    /// Checks the references in the attributes of a tag, which the loop over the text jumps over.
    fn references_in(&mut self, tag: std::ops::Range<usize>) -> Result<(), ParseError> {
        let after = self.at;
        self.at = tag.start;
        while let Some(next) = self.bytes[self.at..tag.end].iter().position(|byte| *byte == b'&') {
            self.at += next;
            self.reference()?;
        }
        self.at = after;
        Ok(())
    }

    /// Passes a character reference or one of the five predefined entities.
    fn reference(&mut self) -> Result<(), ParseError> {
        /// Enough for `&#x10FFFF;` with some leading zeros.
        const LONGEST: usize = 16;
        let rest = &self.bytes[self.at + 1..];
        let end = rest.iter().take(LONGEST).position(|byte| *byte == b';');
        let name = end.map(|end| &rest[..end]);
        let allowed = match name {
            Some(b"amp" | b"lt" | b"gt" | b"apos" | b"quot") => true,
            Some([b'#', b'x', hex @ ..]) => !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit),
            Some([b'#', decimal @ ..]) => !decimal.is_empty() && decimal.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        if !allowed {
            return Err(self.fault(
                "an ampersand begins neither a character reference nor one of &amp; &lt; &gt; &apos; &quot;"
                    .to_owned(),
            ));
        }
        self.at += name.map_or(1, |name| name.len() + 2);
        Ok(())
    }

    fn skip_past(&mut self, from: usize, end: &str, what: &str) -> Result<(), ParseError> {
        // A needle of ASCII is found at a character boundary only, so searching the text is exact.
        let start = self.at + from;
        match self.text.get(start..).and_then(|rest| rest.find(end)) {
            Some(found) => {
                self.at = start + found + end.len();
                Ok(())
            }
            None => Err(self.fault(format!("a {what} does not end"))),
        }
    }

    fn fault(&self, what: String) -> ParseError {
        ParseError::new(what).at(position(self.text, self.at))
    }

    fn end(&self, what: &str) -> ParseError {
        ParseError::new(what).at(position(self.text, self.text.len()))
    }
}
