//! The business application header (head.001) beside a document: read in versions 01 to 04, written in
//! version 02.

use crate::date;
use crate::envelope::NAMESPACE;
use crate::error::WriteError;
use crate::guard;
use crate::message::{Agent, Party};
use crate::output;
use crate::parties::{self, MAX_ID};
use crate::reason::StatusReason;
use crate::shapes;
use crate::tree::{Children, Element, Fault};
use crate::xml::{DECLARATION, Writer};

/// The definition of the headers that are written.
const HEADER_DEFINITION: &str = "head.001.001.02";
/// The definition of the envelope that holds header and document.
const ENVELOPE_DEFINITION: &str = "nvlp.001.001.01";

/// Who sends a message to whom, and which other message it is about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AppHeader {
    /// The institution that sent the message; `None` if the sender is not an institution.
    pub from: Option<Agent>,
    /// The sender, if it is not an institution.
    pub from_organisation: Option<Party>,
    /// The institution that it is for.
    pub to: Option<Agent>,
    /// Who it is for, if that is not an institution.
    pub to_organisation: Option<Party>,
    /// The sender's identification of the message, 1 to 35 characters.
    pub business_message_id: String,
    /// The definition that the header names; it is the document's.
    pub definition: String,
    /// When the header was made, as an `ISODateTime`.
    pub created: String,
    /// Whether the sender says that it may have sent the message before.
    pub possible_duplicate: bool,
    /// The header of the message that this one is about, if there is one; the first of several.
    pub related: Option<Box<AppHeader>>,
}

impl AppHeader {
    /// The header of an answer: sender and receiver change places, and the header that is answered is the
    /// related one.
    #[must_use]
    pub fn reply(&self, business_message_id: String, definition: String, created: String) -> Self {
        Self {
            from: self.to.clone(),
            from_organisation: self.to_organisation.clone(),
            to: self.from.clone(),
            to_organisation: self.from_organisation.clone(),
            business_message_id,
            definition,
            created,
            possible_duplicate: false,
            related: Some(Box::new(Self { related: None, ..self.clone() })),
        }
    }

    /// Reads the header of a document of that definition.
    pub(crate) fn read(header: Element<'_>, definition: &str) -> Result<Self, Fault> {
        let fields = header.children(shapes::APP_HEADER)?;
        let read = Self::read_fields(&fields)?;
        if read.definition != definition {
            let what = format!(
                "the header is for a {}, the document is a {definition}",
                guard::quoted(&read.definition)
            );
            return Err(fields.require("MsgDefIdr")?.fault(StatusReason::FF01, what));
        }
        let related = fields.get("Rltd").map(|element| {
            element.children(shapes::RELATED_HEADER).and_then(|fields| Self::read_fields(&fields))
        });
        Ok(Self { related: related.transpose()?.map(Box::new), ..read })
    }

    fn read_fields(fields: &Children<'_>) -> Result<Self, Fault> {
        let party = |name: &str| {
            let choice = fields.require(name)?.children(shapes::HEADER_PARTY)?;
            let institution = choice.get("FIId").map(parties::agent).transpose()?;
            Ok((institution, parties::optional(&choice, "OrgId")?))
        };
        let (from, from_organisation) = party("Fr")?;
        let (to, to_organisation) = party("To")?;
        let possible_duplicate = fields.get("PssblDplct").map(parties::yes_or_no).transpose()?;
        Ok(Self {
            from,
            from_organisation,
            to,
            to_organisation,
            business_message_id: fields.require("BizMsgIdr")?.text_up_to(MAX_ID)?,
            definition: fields.require("MsgDefIdr")?.text_up_to(MAX_ID)?,
            created: parties::date_time(fields.require("CreDt")?)?,
            possible_duplicate: possible_duplicate.unwrap_or_default(),
            related: None,
        })
    }

    fn write(&self, xml: &mut Writer) {
        for (name, institution, organisation) in
            [("Fr", &self.from, &self.from_organisation), ("To", &self.to, &self.to_organisation)]
        {
            xml.element(name, |xml| match (institution, organisation) {
                (Some(institution), _) => output::agent(xml, "FIId", Some(institution)),
                (None, Some(organisation)) => output::party(xml, "OrgId", organisation),
                (None, None) => xml.refuse("FIId", "", "an institution or organisation".to_owned()),
            });
        }
        xml.id("BizMsgIdr", &self.business_message_id);
        xml.id("MsgDefIdr", &self.definition);
        match date::normalised(&self.created) {
            Some(created) => xml.text("CreDt", &created),
            None => xml.refuse("CreDt", &self.created, "a time as YYYY-MM-DDThh:mm:ssZ".to_owned()),
        }
        if self.possible_duplicate {
            xml.text("PssblDplct", "true");
        }
        if let Some(related) = &self.related {
            // A header has no header that its related one is related to.
            let related = Self { related: None, ..(**related).clone() };
            xml.element("Rltd", |xml| related.write(xml));
        }
    }
}

/// Puts a written document and its header into an envelope (`BizMsgEnvlp` of nvlp.001.001.01).
///
/// # Errors
/// If the document is not one of the definition that the header names, a text of the header is not as the
/// schema allows, or a side of it is nobody.
pub fn with_header(header: &AppHeader, document: &str) -> Result<String, WriteError> {
    let body = document.strip_prefix(DECLARATION).unwrap_or(document);
    let start = format!("<Document xmlns=\"{NAMESPACE}{}\">", header.definition);
    let mut xml = Writer::new();
    xml.root("BizMsgEnvlp", &format!("{NAMESPACE}{ENVELOPE_DEFINITION}"), |xml| {
        xml.element("Hdr", |xml| {
            xml.root("AppHdr", &format!("{NAMESPACE}{HEADER_DEFINITION}"), |xml| header.write(xml));
        });
        xml.element("Doc", |xml| {
            if !body.starts_with(&start) {
                let shown: String = body.chars().take(100).collect();
                xml.refuse("Document", &shown, format!("a document of {}", header.definition));
            }
            xml.raw(body);
        });
    });
    xml.finish()
}
