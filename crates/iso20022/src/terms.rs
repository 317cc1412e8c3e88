//! What a payment says besides money and parties: who bears the charges, and what it is for.

use std::fmt;

use crate::parties::MAX_ID;
use crate::reason::StatusReason;
use crate::shapes;
use crate::tree::{Children, Element, Fault};
use crate::xml::Writer;

/// Longest code of an external code set (`maxLength` of `ExternalPurpose1Code` and its like).
pub(crate) const MAX_CODE: usize = 4;

/// Who bears the charges of a payment (`ChargeBearerType1Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChargesBearer {
    /// DEBT: the debtor bears all.
    Debtor,
    /// CRED: the creditor bears all.
    Creditor,
    /// SHAR: each side bears those of its own side.
    Shared,
    /// SLEV: as the service level or scheme says.
    ServiceLevel,
}

impl ChargesBearer {
    /// Every answer.
    pub const ALL: [Self; 4] = [Self::Debtor, Self::Creditor, Self::Shared, Self::ServiceLevel];

    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Debtor => "DEBT",
            Self::Creditor => "CRED",
            Self::Shared => "SHAR",
            Self::ServiceLevel => "SLEV",
        }
    }

    /// What these four letters say, if they are of the code set.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bearer| bearer.code() == code)
    }

    pub(crate) fn read(fields: &Children<'_>) -> Result<Option<Self>, Fault> {
        let element = fields.get("ChrgBr");
        element.map(|element| element.read("DEBT, CRED, SHAR or SLEV", Self::from_code)).transpose()
    }
}

impl fmt::Display for ChargesBearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A code of an external code set, or a name that parties agreed on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Coded {
    /// `Cd`: 1 to 4 characters; whether the set has it is not checked.
    Code(String),
    /// `Prtry`: 1 to 35 characters.
    Proprietary(String),
}

impl Coded {
    /// The code or name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Code(text) | Self::Proprietary(text) => text,
        }
    }

    pub(crate) fn read(element: Element<'_>) -> Result<Self, Fault> {
        let choice = element.children(shapes::CODE_CHOICE)?;
        match (choice.get("Cd"), choice.get("Prtry")) {
            (Some(code), None) => code.text_up_to(MAX_CODE).map(Self::Code),
            (None, Some(name)) => name.text_up_to(MAX_ID).map(Self::Proprietary),
            _ => Err(element.fault(StatusReason::CH16, "either Cd or Prtry is expected")),
        }
    }

    pub(crate) fn write(&self, xml: &mut Writer, name: &'static str) {
        xml.element(name, |xml| match self {
            Self::Code(code) => xml.limited("Cd", code, MAX_CODE),
            Self::Proprietary(name) => xml.id("Prtry", name),
        });
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The purpose of a payment, for the creditor.
pub(crate) fn purpose(fields: &Children<'_>) -> Result<Option<Coded>, Fault> {
    fields.get("Purp").map(Coded::read).transpose()
}

/// The category of the purpose, for the institutions, from the payment's type.
pub(crate) fn category_purpose(fields: &Children<'_>) -> Result<Option<Coded>, Fault> {
    let Some(kind) = fields.get("PmtTpInf") else { return Ok(None) };
    kind.children(shapes::PAYMENT_TYPE)?.get("CtgyPurp").map(Coded::read).transpose()
}
