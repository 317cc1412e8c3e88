//! One payment of any message.

use crate::amount::Money;
use crate::date::Date;
use crate::message::{Agent, Party, Payment, Transfer};
use crate::parties::{self, MAX_ID};
use crate::reason::{Reason, StatusReason};
use crate::shapes;
use crate::terms::{ChargesBearer, Coded};
use crate::tree::{Children, Element, Fault, Shape};

/// What `EndToEndId` is if the debtor gave none.
pub(crate) const NOT_PROVIDED: &str = "NOTPROVIDED";

/// A payment with its amount apart: the control sums count it even if the payment is refused for
/// something else.
pub(crate) struct Entry {
    pub(crate) payment: Payment,
    pub(crate) amount: Option<Money>,
}

/// The amounts of payments, where they can be read.
pub(crate) fn amounts(entries: &[Entry]) -> Vec<Option<Money>> {
    entries.iter().map(|entry| entry.amount).collect()
}

/// How a payment is called.
#[derive(Default)]
struct Names {
    instruction_id: Option<String>,
    end_to_end_id: Option<String>,
    transaction_id: Option<String>,
    uetr: Option<[u8; 16]>,
}

/// Reads a payment. Whatever is wrong within refuses this payment and no other.
pub(crate) fn read(
    element: Element<'_>,
    shape: Shape,
    names: Shape,
    amount_of: impl FnOnce(&Children<'_>) -> Result<Money, Fault>,
    transfer_of: impl FnOnce(&Children<'_>, Money) -> Result<Transfer, Fault>,
) -> Entry {
    let (called, misnamed) = read_names(element, names);
    let fields = element.children(shape);
    let amount = match &fields {
        Ok(fields) => amount_of(fields),
        Err(fault) => Err(fault.clone()),
    };
    let transfer = fields.and_then(|fields| {
        if let Some(fault) = misnamed {
            return Err(fault);
        }
        let amount = amount.clone()?;
        if amount.digits == 0 {
            return Err(element.fault(StatusReason::AM01, "the amount is zero"));
        }
        transfer_of(&fields, amount)
    });
    let payment = Payment {
        payment_information_id: None,
        instruction_id: called.instruction_id,
        end_to_end_id: called.end_to_end_id.unwrap_or_else(|| NOT_PROVIDED.to_owned()),
        transaction_id: called.transaction_id,
        uetr: called.uetr,
        transfer: transfer.map_err(Fault::into_reason),
    };
    Entry { payment, amount: amount.ok() }
}

/// Reads as many of the names as can be read, and the first thing that is wrong with them: a
/// refused payment is to be recognised by its sender.
fn read_names(payment: Element<'_>, shape: Shape) -> (Names, Option<Fault>) {
    let mut names = Names::default();
    let Some(element) = payment.find("PmtId") else {
        return (names, Some(payment.fault(StatusReason::CH21, "the element PmtId is missing")));
    };
    let mut first = None;
    let mut note = |fault: Fault| {
        first.get_or_insert(fault);
    };
    if let Err(fault) = element.children(shape) {
        note(fault);
    }
    let mut text = |name: &str, code: StatusReason| {
        element
            .find(name)
            .and_then(|element| element.text_up_to(MAX_ID).map_err(|fault| note(fault.with_code(code))).ok())
    };
    names.instruction_id = text("InstrId", StatusReason::CH16);
    names.end_to_end_id = text("EndToEndId", StatusReason::FF08);
    names.transaction_id = text("TxId", StatusReason::CH16);
    if let Some(uetr) = element.find("UETR") {
        match parties::uetr(uetr) {
            Ok(uetr) => names.uetr = Some(uetr),
            Err(fault) => note(fault),
        }
    }
    if element.find("EndToEndId").is_none() {
        note(element.fault(StatusReason::FF08, "the element EndToEndId is missing"));
    }
    // Between institutions the transaction identification was mandatory before there were UETRs.
    let needs_transaction_id = shape.iter().any(|child| child.name == "TxId") && element.version() < 8;
    if needs_transaction_id && element.find("TxId").is_none() {
        note(element.fault(StatusReason::CH21, "the element TxId is missing"));
    }
    (names, first)
}

/// Institutions in between.
pub(crate) fn intermediaries(fields: &Children<'_>) -> Result<Vec<Agent>, Fault> {
    ["IntrmyAgt1", "IntrmyAgt2", "IntrmyAgt3"]
        .into_iter()
        .filter_map(|name| fields.get(name))
        .map(parties::agent)
        .collect()
}

/// What the payments of a pain.001 block share.
pub(crate) struct Debit {
    pub(crate) debtor: Party,
    pub(crate) debtor_agent: Agent,
    pub(crate) requested_date: Date,
    pub(crate) charges: Option<ChargesBearer>,
    pub(crate) category_purpose: Option<Coded>,
    pub(crate) ultimate_debtor: Option<Party>,
}

/// The amount of a payment in a pain.001.
pub(crate) fn instructed_amount(fields: &Children<'_>) -> Result<Money, Fault> {
    let element = fields.require("Amt").map_err(|fault| fault.with_code(StatusReason::AM12))?;
    let choice = element.children(shapes::AMOUNT)?;
    match (choice.get("InstdAmt"), choice.get("EqvtAmt")) {
        (Some(amount), None) => parties::money(amount),
        (None, Some(equivalent)) => Err(equivalent.fault(
            StatusReason::AG03,
            "amounts to be converted from another currency are not supported; give InstdAmt",
        )),
        _ => Err(element.fault(StatusReason::AM12, "one amount, InstdAmt, is expected")),
    }
}

/// Refuses the payment.
pub(crate) fn refuse(payment: &mut Payment, reason: &Reason) {
    payment.transfer = Err(reason.clone());
}
