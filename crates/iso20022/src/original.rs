//! The payment that a cancellation, a resolution or a return is about, and why.

use crate::amount::Money;
use crate::date::Date;
use crate::message::Party;
use crate::output::{self, MAX_INFORMATION, pieces};
use crate::parties::{self, MAX_ID};
use crate::shapes::investigation as shapes;
use crate::terms::Coded;
use crate::tree::{Children, Element, Fault};
use crate::xml::Writer;

/// How a payment made before is called, as far as it is said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OriginalPayment {
    /// The identification of the message that it came in.
    pub message_id: Option<String>,
    /// The definition of that message: `pacs.008.001.08`.
    pub definition: Option<String>,
    /// Its instruction identification.
    pub instruction_id: Option<String>,
    /// Its end-to-end identification.
    pub end_to_end_id: Option<String>,
    /// Its transaction identification.
    pub transaction_id: Option<String>,
    /// Its unique end-to-end transaction reference.
    pub uetr: Option<[u8; 16]>,
    /// Its amount.
    pub amount: Option<Money>,
    /// The day on which it was to be settled.
    pub settled_on: Option<Date>,
}

impl OriginalPayment {
    /// Whether the payment itself is named, not only the message that it came in.
    pub fn is_named(&self) -> bool {
        self.uetr.is_some()
            || self.transaction_id.is_some()
            || self.end_to_end_id.is_some()
            || self.instruction_id.is_some()
    }

    /// The references in a checked element; what is said of the message goes before `group`.
    pub(crate) fn read(fields: &Children<'_>, group: &Self) -> Result<Self, Fault> {
        let mut original = group.clone();
        if let Some(element) = fields.get("OrgnlGrpInf") {
            original.read_group(&element.children(shapes::ORIGINAL_GROUP)?)?;
        }
        original.instruction_id = fields.text("OrgnlInstrId", MAX_ID)?;
        original.end_to_end_id = fields.text("OrgnlEndToEndId", MAX_ID)?;
        original.transaction_id = fields.text("OrgnlTxId", MAX_ID)?;
        original.uetr = fields.get("OrgnlUETR").map(parties::uetr).transpose()?;
        original.amount = fields.get("OrgnlIntrBkSttlmAmt").map(parties::money).transpose()?;
        original.settled_on = fields.get("OrgnlIntrBkSttlmDt").map(parties::date).transpose()?;
        Ok(original)
    }

    /// The message that the payment came in.
    pub(crate) fn read_group(&mut self, fields: &Children<'_>) -> Result<(), Fault> {
        self.message_id = Some(fields.require("OrgnlMsgId")?.text_up_to(MAX_ID)?);
        self.definition = Some(fields.require("OrgnlMsgNmId")?.text_up_to(MAX_ID)?);
        fields.get("OrgnlCreDtTm").map(parties::date_time).transpose()?;
        Ok(())
    }

    /// As many of the references as can be read of an element whose form is broken.
    pub(crate) fn recognise(element: Element<'_>, group: &Self) -> Self {
        let text = |name| element.find(name).and_then(|id: Element<'_>| id.text_up_to(MAX_ID).ok());
        Self {
            instruction_id: text("OrgnlInstrId"),
            end_to_end_id: text("OrgnlEndToEndId"),
            transaction_id: text("OrgnlTxId"),
            uetr: element.find("OrgnlUETR").and_then(|uetr| parties::uetr(uetr).ok()),
            ..group.clone()
        }
    }

    /// The message that the payment came in, if both its names are known.
    pub(crate) fn write_group(&self, xml: &mut Writer) {
        if let (Some(message_id), Some(definition)) = (&self.message_id, &self.definition) {
            xml.element("OrgnlGrpInf", |xml| {
                xml.id("OrgnlMsgId", message_id);
                xml.id("OrgnlMsgNmId", definition);
            });
        }
    }

    pub(crate) fn write_ids(&self, xml: &mut Writer) {
        xml.optional_id("OrgnlInstrId", self.instruction_id.as_deref());
        xml.optional_id("OrgnlEndToEndId", self.end_to_end_id.as_deref());
        xml.optional_id("OrgnlTxId", self.transaction_id.as_deref());
        output::uetr(xml, "OrgnlUETR", self.uetr.as_ref());
    }

    pub(crate) fn write_settlement(&self, xml: &mut Writer) {
        if let Some(amount) = &self.amount {
            xml.amount("OrgnlIntrBkSttlmAmt", amount);
        }
        if let Some(day) = self.settled_on {
            xml.text("OrgnlIntrBkSttlmDt", &day.to_string());
        }
    }
}

/// Why a payment is to be cancelled, was not, or goes back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GivenReason {
    /// Whose reason it is.
    pub originator: Option<Party>,
    /// The reason, as a code of the external code set of the message or a name that parties agreed on.
    pub code: Option<Coded>,
    /// The same in words.
    pub text: String,
}

impl GivenReason {
    /// The first of the reasons.
    pub(crate) fn read(fields: &Children<'_>, name: &str) -> Result<Option<Self>, Fault> {
        let Some(element) = fields.get(name) else { return Ok(None) };
        let fields = element.children(shapes::REASON)?;
        let text = fields.all("AddtlInf").map(|piece| piece.text_up_to(MAX_INFORMATION));
        Ok(Some(Self {
            originator: parties::optional(&fields, "Orgtr")?,
            code: fields.get("Rsn").map(Coded::read).transpose()?,
            text: text.collect::<Result<Vec<_>, _>>()?.join(" "),
        }))
    }

    pub(crate) fn write(&self, xml: &mut Writer, name: &'static str) {
        xml.element(name, |xml| {
            if let Some(originator) = &self.originator {
                output::party(xml, "Orgtr", originator);
            }
            if let Some(code) = &self.code {
                code.write(xml, "Rsn");
            }
            for piece in pieces(&self.text, MAX_INFORMATION) {
                xml.text("AddtlInf", &piece);
            }
        });
    }
}
