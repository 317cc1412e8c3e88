//! pacs.008 FIToFICustomerCreditTransfer, versions 02 to 12, and pacs.009
//! FinancialInstitutionCreditTransfer, versions 02 to 11.

use crate::amount::Money;
use crate::date::Date;
use crate::message::{Agent, MessageKind, Party, Transfer};
use crate::parties::{self, Side};
use crate::payment::{self, Entry};
use crate::reason::StatusReason;
use crate::remittance;
use crate::shapes;
use crate::terms::{self, ChargesBearer, Coded};
use crate::totals;
use crate::tree::{Children, Fault};

/// The fields of the group header that only these messages have.
pub(crate) struct Interbank {
    pub(crate) total: Option<Money>,
    pub(crate) instructing_agent: Option<Agent>,
    pub(crate) instructed_agent: Option<Agent>,
    pub(crate) entries: Vec<Entry>,
}

pub(crate) fn read(
    kind: MessageKind,
    body: &Children<'_>,
    header: &Children<'_>,
    most: usize,
) -> Result<Interbank, Fault> {
    header.require("SttlmInf")?;
    let total = header.get("TtlIntrBkSttlmAmt").map(parties::money).transpose()?;
    let group = Group {
        date: header.get("IntrBkSttlmDt").map(parties::date).transpose()?,
        category_purpose: terms::category_purpose(header)?,
    };
    let instructing_agent = header.get("InstgAgt").map(parties::agent).transpose()?;
    let instructed_agent = header.get("InstdAgt").map(parties::agent).transpose()?;
    body.require("CdtTrfTxInf")?;
    let shape = match kind {
        MessageKind::FinancialInstitutionCreditTransfer => shapes::INSTITUTION_TRANSFER,
        _ => shapes::CUSTOMER_TRANSFER,
    };
    let mut entries = Vec::new();
    for element in body.all("CdtTrfTxInf") {
        totals::check_room(element, entries.len(), most)?;
        entries.push(payment::read(
            element,
            shape,
            shapes::INTERBANK_PAYMENT_ID,
            |fields| {
                let amount = fields.require("IntrBkSttlmAmt");
                parties::money(amount.map_err(|fault| fault.with_code(StatusReason::AM12))?)
            },
            |fields, amount| transfer(kind, fields, amount, &group),
        ));
    }
    Ok(Interbank { total, instructing_agent, instructed_agent, entries })
}

/// What the header says for payments that do not say otherwise.
struct Group {
    date: Option<Date>,
    category_purpose: Option<Coded>,
}

fn transfer(
    kind: MessageKind,
    fields: &Children<'_>,
    amount: Money,
    group: &Group,
) -> Result<Transfer, Fault> {
    let institutions = kind == MessageKind::FinancialInstitutionCreditTransfer;
    let party = |name, side| {
        let element = fields.require(name)?;
        if institutions { parties::institution(element, side) } else { parties::party(element) }
    };
    let agent = |name, side: Side| match fields.get(name) {
        Some(element) => parties::identified_agent(element, side).map(Some),
        None if institutions => Ok(None),
        None => fields.require(name).map(|_| None).map_err(|fault| fault.with_code(side.agent_code())),
    };
    if !institutions {
        fields.require("ChrgBr")?;
    }
    let ultimate = |name: &str| match fields.get(name) {
        Some(element) if institutions => parties::agent(element).map(|agent| Some(Party::from(agent))),
        _ => parties::optional(fields, name),
    };
    let remittance = remittance::read(fields.get("RmtInf"))?;
    let mut debtor = party("Dbtr", Side::Debtor)?;
    parties::account(&mut debtor, fields.get("DbtrAcct"), Side::Debtor)?;
    let mut creditor = party("Cdtr", Side::Creditor)?;
    parties::account(&mut creditor, fields.get("CdtrAcct"), Side::Creditor)?;
    Ok(Transfer {
        amount,
        debtor,
        debtor_agent: agent("DbtrAgt", Side::Debtor)?,
        creditor,
        creditor_agent: agent("CdtrAgt", Side::Creditor)?,
        intermediary_agents: payment::intermediaries(fields)?,
        requested_date: fields.get("IntrBkSttlmDt").map(parties::date).transpose()?.or(group.date),
        remittance: remittance.summary(),
        remittance_information: remittance,
        charges: if institutions { None } else { ChargesBearer::read(fields)? },
        purpose: terms::purpose(fields)?,
        category_purpose: terms::category_purpose(fields)?.or_else(|| group.category_purpose.clone()),
        ultimate_debtor: ultimate("UltmtDbtr")?,
        ultimate_creditor: ultimate("UltmtCdtr")?,
    })
}
