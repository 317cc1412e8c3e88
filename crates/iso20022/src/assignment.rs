//! Who asks whom in an investigation, and in which case.

use crate::message::Party;
use crate::output;
use crate::parties::{self, MAX_ID};
use crate::shapes::investigation as shapes;
use crate::tree::{Children, Element, Fault};
use crate::xml::Writer;

/// A step of an investigation (`CaseAssignment`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignment {
    /// The identification of the message, 1 to 35 characters.
    pub id: String,
    /// Who sends it.
    pub assigner: Party,
    /// Who is to act.
    pub assignee: Party,
    /// When it was made, as an `ISODateTime`.
    pub created: String,
}

/// A case of an investigation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Case {
    /// Its identification, 1 to 35 characters.
    pub id: String,
    /// Who opened it.
    pub creator: Party,
}

impl Assignment {
    pub(crate) fn read(element: Element<'_>) -> Result<Self, Fault> {
        let fields = element.children(shapes::ASSIGNMENT)?;
        Ok(Self {
            id: fields.require("Id")?.text_up_to(MAX_ID)?,
            assigner: parties::required_choice(&fields, "Assgnr")?,
            assignee: parties::required_choice(&fields, "Assgne")?,
            created: parties::date_time(fields.require("CreDtTm")?)?,
        })
    }

    pub(crate) fn write(&self, xml: &mut Writer) {
        xml.element("Assgnmt", |xml| {
            xml.id("Id", &self.id);
            output::party_choice(xml, "Assgnr", &self.assigner);
            output::party_choice(xml, "Assgne", &self.assignee);
            xml.time("CreDtTm", &self.created);
        });
    }
}

impl Case {
    pub(crate) fn read(fields: &Children<'_>, name: &str) -> Result<Option<Self>, Fault> {
        let Some(element) = fields.get(name) else { return Ok(None) };
        let fields = element.children(shapes::CASE)?;
        Ok(Some(Self {
            id: fields.require("Id")?.text_up_to(MAX_ID)?,
            creator: parties::required_choice(&fields, "Cretr")?,
        }))
    }

    pub(crate) fn write(case: Option<&Self>, xml: &mut Writer, name: &'static str) {
        if let Some(case) = case {
            xml.element(name, |xml| {
                xml.id("Id", &case.id);
                output::party_choice(xml, "Cretr", &case.creator);
            });
        }
    }
}
