//! pacs.004: PaymentReturn, read in versions 09 to 14 and written in version 09.

mod write;

use crate::amount::{Decimal, Money};
use crate::date::Date;
use crate::envelope::{self, Envelope};
use crate::error::ParseError;
use crate::limits::Limits;
use crate::message::Agent;
use crate::original::{GivenReason, OriginalPayment};
use crate::parties::{self, MAX_ID};
use crate::reason::{Reason, StatusReason};
use crate::shapes::payment_return as shapes;
use crate::terms::ChargesBearer;
use crate::totals;
use crate::tree::{Children, Element, Fault, Source};

pub use write::payment_return;

/// The definition of the returns that are written.
pub const RETURN_DEFINITION: &str = "pacs.004.001.09";
/// The versions that are read.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u8> = 9..=14;

/// How institutions settle (`SettlementMethod1Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SettlementMethod {
    /// INDA: over an account that the instructed institution holds.
    InstructedAgent,
    /// INGA: over an account that the instructing institution holds.
    InstructingAgent,
    /// COVE: through a third institution.
    Cover,
    /// CLRG: through a clearing system, such as this network.
    Clearing,
}

impl SettlementMethod {
    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::InstructedAgent => "INDA",
            Self::InstructingAgent => "INGA",
            Self::Cover => "COVE",
            Self::Clearing => "CLRG",
        }
    }

    /// The method of these four letters.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::InstructedAgent, Self::InstructingAgent, Self::Cover, Self::Clearing]
            .into_iter()
            .find(|method| method.code() == code)
    }
}

/// A message by which an institution sends payments back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentReturn {
    /// Its definition: `pacs.004.001.09`.
    pub definition: String,
    /// The sender's identification of the message, 1 to 35 characters.
    pub message_id: String,
    /// When the message was made, as an `ISODateTime`.
    pub created: String,
    /// How many returns the header states.
    pub number_of_transactions: u32,
    /// The sum of all returned amounts that the header states.
    pub control_sum: Option<Decimal>,
    /// The total that the header states.
    pub total: Option<Money>,
    /// The day on which to settle.
    pub settlement_date: Option<Date>,
    /// How it is settled.
    pub settlement_method: SettlementMethod,
    /// The institution that instructs.
    pub instructing_agent: Option<Agent>,
    /// The institution that is instructed.
    pub instructed_agent: Option<Agent>,
    /// The returns, in the order of the message; at least one.
    pub returns: Vec<ReturnedPayment>,
    /// Set if the header contradicts the returns: AM19 for the number, AM10 for the control sum or total.
    /// Then no return of the message may be made.
    pub group_rejection: Option<Reason>,
}

impl PaymentReturn {
    /// Every return with what may be done: the order, or why it is refused, be it for its own sake or
    /// because the whole message is.
    pub fn instructions(&self) -> impl Iterator<Item = (&ReturnedPayment, Result<&ReturnOrder, &Reason>)> {
        self.returns.iter().map(|returned| {
            let verdict = match &self.group_rejection {
                Some(reason) => Err(reason),
                None => returned.order.as_ref(),
            };
            (returned, verdict)
        })
    }
}

/// One payment that goes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnedPayment {
    /// The identification of the return, 1 to 35 characters.
    pub id: Option<String>,
    /// The payment that goes back. By it, debtor and creditor are found: what a message says of them is
    /// not read.
    pub original: OriginalPayment,
    /// What to return; or why this return, and only this one, is refused for its form.
    pub order: Result<ReturnOrder, Reason>,
}

/// What goes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnOrder {
    /// How much, never zero, and not more than the original amount if that is stated.
    pub amount: Money,
    /// The day on which to settle, if not that of the message.
    pub settlement_date: Option<Date>,
    /// Who bears the charges.
    pub charges: Option<ChargesBearer>,
    /// Why (`ExternalReturnReason1Code`).
    pub reason: Option<GivenReason>,
}

/// Reads a pacs.004.001.09 to .14, with or without a business application header. A return whose form is
/// wrong is refused alone.
///
/// # Errors
/// If the file as a whole is not such a message, or returns a whole message without naming its payments
/// (AG03).
pub fn parse_payment_return(xml: &[u8], limits: &Limits) -> Result<PaymentReturn, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read(&envelope, limits)
}

/// The return in the envelope.
pub(crate) fn read(envelope: &Envelope<'_>, limits: &Limits) -> Result<PaymentReturn, ParseError> {
    let version = envelope.expect("pacs.004", VERSIONS, "a return pacs.004.001.09 to .14")?;
    let body = envelope.body("PmtRtr", version)?;
    read_message(body, envelope.definition, limits).map_err(Fault::into_error)
}

fn read_message(body: Element<'_>, definition: &str, limits: &Limits) -> Result<PaymentReturn, Fault> {
    let parts = body.children(shapes::MESSAGE)?;
    let header = parts.require("GrpHdr")?.children(shapes::HEADER)?;
    if let Some(whole) = header.get("GrpRtr")
        && parties::yes_or_no(whole)?
    {
        return Err(
            whole.fault(StatusReason::AG03, "returns of whole messages are not supported; name the payments")
        );
    }
    let number = parties::number_of_transactions(header.require("NbOfTxs")?, StatusReason::AM19)?;
    let sum = header.get("CtrlSum").map(|sum| parties::control_sum(sum, StatusReason::AM10)).transpose()?;
    let total = header.get("TtlRtrdIntrBkSttlmAmt").map(parties::money).transpose()?;
    let settlement = header.require("SttlmInf")?.children(shapes::SETTLEMENT)?;
    let mut group = OriginalPayment::default();
    let mut group_reason = None;
    if let Some(element) = parts.get("OrgnlGrpInf") {
        let fields = element.children(shapes::ORIGINAL_GROUP)?;
        group.read_group(&fields)?;
        group_reason = GivenReason::read(&fields, "RtrRsnInf")?;
    }
    parts.require("TxInf")?;
    let (mut returns, mut amounts) = (Vec::new(), Vec::new());
    for element in parts.all("TxInf") {
        totals::check_room(element, returns.len(), limits.payments)?;
        let (returned, amount) = read_return(element, &group, group_reason.as_ref());
        returns.push(returned);
        amounts.push(amount);
    }
    Ok(PaymentReturn {
        definition: definition.to_owned(),
        message_id: header.require("MsgId")?.text_up_to(MAX_ID)?,
        created: parties::date_time(header.require("CreDtTm")?)?,
        number_of_transactions: number,
        control_sum: sum,
        total,
        settlement_date: header.get("IntrBkSttlmDt").map(parties::date).transpose()?,
        settlement_method: settlement
            .require("SttlmMtd")?
            .read("INDA, INGA, COVE or CLRG", SettlementMethod::from_code)?,
        instructing_agent: header.get("InstgAgt").map(parties::agent).transpose()?,
        instructed_agent: header.get("InstdAgt").map(parties::agent).transpose()?,
        returns,
        group_rejection: totals::group_rejection(number, sum, total, "TtlRtrdIntrBkSttlmAmt", &amounts),
    })
}

/// A return, and its amount even if the return is refused for something else.
fn read_return(
    element: Element<'_>,
    group: &OriginalPayment,
    group_reason: Option<&GivenReason>,
) -> (ReturnedPayment, Option<Money>) {
    let fields = element.children(shapes::PAYMENT);
    let amount = fields.as_ref().ok().and_then(|fields| fields.get("RtrdIntrBkSttlmAmt"));
    let amount = amount.and_then(|amount| parties::money(amount).ok());
    let read = fields.and_then(|fields| {
        let original = OriginalPayment::read(&fields, group)?;
        let order = read_order(element, &fields, &original, group_reason)?;
        Ok((fields.text("RtrId", MAX_ID)?, original, order))
    });
    let returned = match read {
        Ok((id, original, order)) => ReturnedPayment { id, original, order: Ok(order) },
        Err(fault) => ReturnedPayment {
            id: element.find("RtrId").and_then(|id| id.text_up_to(MAX_ID).ok()),
            original: OriginalPayment::recognise(element, group),
            order: Err(fault.into_reason()),
        },
    };
    (returned, amount)
}

fn read_order(
    element: Element<'_>,
    fields: &Children<'_>,
    original: &OriginalPayment,
    group_reason: Option<&GivenReason>,
) -> Result<ReturnOrder, Fault> {
    let stated = fields.require("RtrdIntrBkSttlmAmt").map_err(|fault| fault.with_code(StatusReason::AM12))?;
    let amount = parties::money(stated)?;
    if amount.digits == 0 {
        return Err(stated.fault(StatusReason::AM01, "the amount is zero"));
    }
    if !original.is_named() {
        return Err(element.fault(StatusReason::CH21, "no reference of the returned payment is given"));
    }
    if let Some(original) = original.amount {
        let more = amount.in_smallest_units() > original.in_smallest_units();
        if more || amount.currency != original.currency {
            let what = format!("{amount} cannot be returned of {original}");
            return Err(stated.fault(StatusReason::AM09, what));
        }
    }
    Ok(ReturnOrder {
        amount,
        settlement_date: fields.get("IntrBkSttlmDt").map(parties::date).transpose()?,
        charges: ChargesBearer::read(fields)?,
        reason: GivenReason::read(fields, "RtrRsnInf")?.or_else(|| group_reason.cloned()),
    })
}
