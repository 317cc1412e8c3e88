//! From the file to its document and header.

use std::ops::RangeInclusive;

use roxmltree::{Document, Node, ParsingOptions};

use crate::error::ParseError;
use crate::guard;
use crate::header::AppHeader;
use crate::limits::Limits;
use crate::parties;
use crate::reason::StatusReason;
use crate::tree::{Element, Fault, Source};

/// What every namespace of the standard begins with; the message definition follows.
pub(crate) const NAMESPACE: &str = "urn:iso:std:iso:20022:tech:xsd:";

/// Parses the text behind the gate.
pub(crate) fn tree<'a>(xml: &'a [u8], limits: &Limits) -> Result<(Document<'a>, &'a str), ParseError> {
    let text = guard::admit(xml, limits)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: limits.nodes, ..Default::default() };
    match Document::parse_with_options(text, options) {
        Ok(document) => Ok((document, text)),
        Err(source) => {
            let mut error = ParseError::new("the file is not well-formed XML");
            error.source = Some(Box::new(source));
            Err(error)
        }
    }
}

/// The document and the header of a file.
pub(crate) struct Envelope<'a> {
    /// The definition by the document's namespace: `pain.001.001.03`.
    pub(crate) definition: &'a str,
    document: Node<'a, 'a>,
    header: Option<(Node<'a, 'a>, u8)>,
    source: &'a Source<'a>,
}

impl<'a> Envelope<'a> {
    /// Finds the one document and at most one header, alone or within elements of any name around
    /// them (`BizMsgEnvlp`, `RequestPayload`, `message`, …).
    pub(crate) fn open(tree: &'a Document<'a>, source: &'a Source<'a>) -> Result<Self, ParseError> {
        let (mut documents, mut headers) = (Vec::new(), Vec::new());
        let mut inside: Option<Node<'a, 'a>> = None;
        for node in tree.descendants().filter(Node::is_element) {
            // Descendants come in document order, so those of a found element end where it ends.
            if inside.is_some_and(|found| node.range().start < found.range().end) {
                continue;
            }
            match node.tag_name().name() {
                "Document" => documents.push(node),
                "AppHdr" => headers.push(node),
                _ => continue,
            }
            inside = Some(node);
        }
        let fault = |node: &Node<'a, 'a>, what: String| {
            Element::new(*node, source, 0).fault(StatusReason::FF01, what).into_error()
        };
        let document = match documents[..] {
            [] => {
                return Err(fault(
                    &tree.root_element(),
                    "the file has no element Document; a message of ISO 20022 is expected".to_owned(),
                ));
            }
            [document] => document,
            [_, second, ..] => {
                return Err(fault(&second, "the file has more than one Document; send one each".to_owned()));
            }
        };
        let definition = definition(&document).map_err(|what| fault(&document, what))?;
        let header = match headers[..] {
            [] => None,
            [header] => Some((header, header_version(&header).map_err(|what| fault(&header, what))?)),
            [_, second, ..] => return Err(fault(&second, "the file has more than one AppHdr".to_owned())),
        };
        Ok(Self { definition, document, header, source })
    }

    /// The element of that name that is the document's only content.
    pub(crate) fn body(&self, name: &str, version: u8) -> Result<Element<'a>, ParseError> {
        let document = Element::new(self.document, self.source, version);
        let mut bodies = self.document.children().filter(Node::is_element);
        let body = bodies.next().map(|node| Element::new(node, self.source, version));
        let text = self.document.children().filter(Node::is_text);
        let stray = text.filter_map(|node| node.text()).any(|text| !text.trim_ascii().is_empty());
        let same_namespace = self.document.first_element_child().map(|body| body.tag_name().namespace())
            == Some(self.document.tag_name().namespace());
        match body {
            Some(body) if body.name() == name && same_namespace && !stray && bodies.next().is_none() => {
                Ok(body)
            }
            _ => {
                let what = format!(
                    "the document of a {} holds one element {name} and nothing else",
                    self.definition
                );
                Err(document.fault(StatusReason::FF01, what).into_error())
            }
        }
    }

    /// The version of the document, if it is of that message and the version among those; `expected` says
    /// what that would be.
    pub(crate) fn expect(
        &self,
        message: &str,
        versions: RangeInclusive<u8>,
        expected: &str,
    ) -> Result<u8, ParseError> {
        version(self.definition, message, versions).ok_or_else(|| {
            let found = guard::quoted(self.definition);
            ParseError::new(format!("{expected} is expected, this is {found}"))
        })
    }

    /// The message's own identification, where it can be recognised.
    pub(crate) fn message_id(&self) -> Option<String> {
        let body = self.document.first_element_child()?;
        let body = Element::new(body, self.source, 0);
        let id = match body.find("GrpHdr") {
            Some(header) => header.find("MsgId"),
            None => body.find("Assgnmt").and_then(|assignment| assignment.find("Id")),
        };
        id?.text_up_to(parties::MAX_ID).ok()
    }

    /// The header, read.
    pub(crate) fn header(&self) -> Result<Option<AppHeader>, ParseError> {
        let Some((node, version)) = self.header else { return Ok(None) };
        AppHeader::read(Element::new(node, self.source, version), self.definition)
            .map(Some)
            .map_err(Fault::into_error)
    }
}

/// The definition that a document's namespace names.
fn definition<'a>(document: &Node<'a, 'a>) -> Result<&'a str, String> {
    let namespace = document.tag_name().namespace().unwrap_or_default();
    namespace.strip_prefix(NAMESPACE).ok_or_else(|| {
        format!("the document's namespace is {}; {NAMESPACE}<message> is expected", guard::quoted(namespace))
    })
}

/// The version of a definition, if it is of that message and the version among those: 3 for
/// `pain.001.001.03`.
pub(crate) fn version(definition: &str, message: &str, versions: RangeInclusive<u8>) -> Option<u8> {
    let version = definition.strip_prefix(message)?.strip_prefix(".001.")?;
    let digits = version.len() == 2 && version.bytes().all(|digit| digit.is_ascii_digit());
    version.parse().ok().filter(|version| digits && versions.contains(version))
}

fn header_version(header: &Node<'_, '_>) -> Result<u8, String> {
    let namespace = header.tag_name().namespace().unwrap_or_default();
    match namespace.strip_prefix(NAMESPACE) {
        Some("head.001.001.01") => Ok(1),
        Some("head.001.001.02") => Ok(2),
        Some("head.001.001.03") => Ok(3),
        Some("head.001.001.04") => Ok(4),
        _ => Err(format!(
            "the header's namespace is {}; {NAMESPACE}head.001.001.01 to .04 is expected",
            guard::quoted(namespace)
        )),
    }
}
