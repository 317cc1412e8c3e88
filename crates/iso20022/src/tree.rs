//! A parsed document walked by name, with the order and number of elements checked on the way.

use std::cell::OnceCell;

use roxmltree::Node;

use crate::error::{ParseError, Position};
use crate::guard::quoted;
use crate::reason::{Reason, StatusReason};

/// An element that a parent may have, in the order of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    pub(crate) name: &'static str,
    many: bool,
    since: u8,
    until: u8,
}

impl Child {
    /// Versions from that one on.
    pub(crate) const fn since(mut self, version: u8) -> Self {
        self.since = version;
        self
    }

    /// Versions up to that one.
    pub(crate) const fn until(mut self, version: u8) -> Self {
        self.until = version;
        self
    }
}

/// At most one of these.
pub(crate) const fn one(name: &'static str) -> Child {
    Child { name, many: false, since: 0, until: u8::MAX }
}

/// Any number of these.
pub(crate) const fn many(name: &'static str) -> Child {
    Child { many: true, ..one(name) }
}

/// The children that an element may have, over all versions, in the order of the schemas.
pub(crate) type Shape = &'static [Child];

/// Something in the document that is not as it must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) code: StatusReason,
    pub(crate) position: Position,
    pub(crate) path: String,
    pub(crate) what: String,
}

impl Fault {
    /// The same, under another code.
    pub(crate) fn with_code(mut self, code: StatusReason) -> Self {
        self.code = code;
        self
    }

    /// The refusal of a payment.
    pub(crate) fn into_reason(self) -> Reason {
        Reason::new(self.code, format!("{}: {} (line {})", self.path, self.what, self.position.line))
    }

    /// The refusal of the file. A file that breaks the schema is FF01, whatever the element.
    pub(crate) fn into_error(self) -> ParseError {
        let formal = matches!(self.code, StatusReason::CH16 | StatusReason::CH17 | StatusReason::CH21);
        let mut error = ParseError::new(self.what).at(self.position);
        error.reason = if formal { StatusReason::FF01 } else { self.code };
        error.path = Some(self.path);
        error
    }
}

/// The text of a file, which tells line and column of a place without counting from the start each
/// time.
pub(crate) struct Source<'a> {
    text: &'a str,
    line_starts: OnceCell<Vec<usize>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, line_starts: OnceCell::new() }
    }

    fn position(&self, byte: usize) -> Position {
        let starts = self.line_starts.get_or_init(|| {
            std::iter::once(0).chain(self.text.match_indices('\n').map(|(newline, _)| newline + 1)).collect()
        });
        let line = starts.partition_point(|start| *start <= byte);
        let start = line.checked_sub(1).and_then(|line| starts.get(line)).copied().unwrap_or(0);
        // A file without line breaks would make each column a walk over the file.
        const COUNTED: usize = 4_096;
        let column = if byte - start <= COUNTED {
            self.text.get(start..byte).map_or(0, |before| before.chars().count())
        } else {
            byte - start
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Position { line: number(line), column: number(column.saturating_add(1)) }
    }
}

/// One element.
#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    node: Node<'a, 'a>,
    source: &'a Source<'a>,
    version: u8,
}

impl<'a> Element<'a> {
    /// `version` is the number at the end of the message definition.
    pub(crate) fn new(node: Node<'a, 'a>, source: &'a Source<'a>, version: u8) -> Self {
        Self { node, source, version }
    }

    pub(crate) fn version(&self) -> u8 {
        self.version
    }

    pub(crate) fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    pub(crate) fn fault(&self, code: StatusReason, what: impl Into<String>) -> Fault {
        let mut names: Vec<&str> = self
            .node
            .ancestors()
            .filter(Node::is_element)
            .map(|node| node.tag_name().name())
            .take_while(|name| *name != "Document")
            .collect();
        names.reverse();
        Fault {
            code,
            position: self.source.position(self.node.range().start),
            path: names.join("/"),
            what: what.into(),
        }
    }

    /// The children, if they are of that shape: of the element's own namespace, known to the
    /// version, in order, and not repeated unless they may be.
    pub(crate) fn children(&self, shape: Shape) -> Result<Children<'a>, Fault> {
        let mut found: Vec<(usize, Element<'a>)> = Vec::new();
        let mut place = 0;
        for node in self.node.children() {
            if node.is_text() && node.text().is_some_and(|text| !text.trim_ascii().is_empty()) {
                return Err(self.fault(StatusReason::CH16, "text between elements"));
            }
            if !node.is_element() {
                continue;
            }
            let child = Element { node, ..*self };
            if node.tag_name().namespace() != self.node.tag_name().namespace() {
                return Err(child.fault(StatusReason::CH17, "the element is not of the message's namespace"));
            }
            let name = child.name();
            let known = |known: &Child| known.name == name;
            let Some(index) = shape[place..].iter().position(known).map(|ahead| place + ahead) else {
                return Err(match shape.iter().any(known) {
                    true => child.fault(StatusReason::CH16, "the element is out of order"),
                    false => child.fault(StatusReason::CH17, "there is no such element"),
                });
            };
            if !(shape[index].since..=shape[index].until).contains(&self.version) {
                return Err(child.fault(
                    StatusReason::CH17,
                    format!("version {:02} of the message has no such element", self.version),
                ));
            }
            if !shape[index].many && found.last().is_some_and(|(last, _)| *last == index) {
                return Err(child.fault(StatusReason::CH16, "the element is there twice"));
            }
            place = index;
            found.push((index, child));
        }
        Ok(Children { parent: *self, shape, found })
    }

    /// The text of an element without children, white space at its ends removed.
    pub(crate) fn text(&self) -> Result<String, Fault> {
        let mut text = String::new();
        for node in self.node.children() {
            if node.is_element() {
                return Err(self.fault(StatusReason::CH16, "text is expected, not elements"));
            }
            if node.is_text() {
                text.push_str(node.text().unwrap_or_default());
            }
        }
        let trimmed = text.trim_ascii();
        Ok(if trimmed.len() == text.len() { text } else { trimmed.to_owned() })
    }

    /// Text of 1 to `longest` characters.
    pub(crate) fn text_up_to(&self, longest: usize) -> Result<String, Fault> {
        let text = self.text()?;
        let length = text.chars().count();
        if length == 0 {
            return Err(self.fault(StatusReason::CH16, "the element is empty"));
        }
        if length > longest {
            return Err(self.fault(
                StatusReason::CH16,
                format!("{} has {length} characters; at most {longest} are allowed", quoted(&text)),
            ));
        }
        Ok(text)
    }

    /// The text as `read` understands it.
    pub(crate) fn read<T>(&self, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let text = self.text()?;
        read(&text)
            .ok_or_else(|| self.fault(StatusReason::CH16, format!("{} is not {expected}", quoted(&text))))
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'a str> {
        self.node.attribute(name)
    }

    /// The first child of that name, whatever else is there; to name a payment whose form is broken.
    pub(crate) fn find(&self, name: &str) -> Option<Element<'a>> {
        let mut children = self.node.children().filter(Node::is_element);
        children.find(|node| node.tag_name().name() == name).map(|node| Element { node, ..*self })
    }
}

/// The children of an element, checked.
pub(crate) struct Children<'a> {
    parent: Element<'a>,
    shape: Shape,
    found: Vec<(usize, Element<'a>)>,
}

impl<'a> Children<'a> {
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = Element<'a>> {
        let index = self.shape.iter().position(|child| child.name == name);
        debug_assert!(index.is_some(), "{name} is not in the shape");
        self.found.iter().filter(move |(place, _)| Some(*place) == index).map(|(_, element)| *element)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Element<'a>> {
        self.all(name).next()
    }

    pub(crate) fn require(&self, name: &str) -> Result<Element<'a>, Fault> {
        self.get(name)
            .ok_or_else(|| self.parent.fault(StatusReason::CH21, format!("the element {name} is missing")))
    }

    /// The text of an optional element of 1 to `longest` characters.
    pub(crate) fn text(&self, name: &str, longest: usize) -> Result<Option<String>, Fault> {
        self.get(name).map(|element| element.text_up_to(longest)).transpose()
    }
}
