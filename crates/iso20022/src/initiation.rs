//! pain.001: CustomerCreditTransferInitiation, versions 03 to 12.

use crate::amount::{Decimal, Money};
use crate::message::{Agent, Party, PaymentBlock, Transfer};
use crate::parties::{self, MAX_ID, Side};
use crate::payment::{self, Debit, Entry};
use crate::reason::{Reason, StatusReason};
use crate::remittance;
use crate::shapes;
use crate::terms::{self, ChargesBearer};
use crate::totals;
use crate::tree::{Children, Element, Fault};

/// The fields of the group header that only this message has.
pub(crate) struct Initiation {
    pub(crate) initiating_party: Party,
    pub(crate) entries: Vec<Entry>,
    pub(crate) blocks: Vec<PaymentBlock>,
}

pub(crate) fn read(body: &Children<'_>, header: &Children<'_>, most: usize) -> Result<Initiation, Fault> {
    let initiating_party = parties::party(header.require("InitgPty")?)?;
    body.require("PmtInf")?;
    let mut entries = Vec::new();
    let blocks = body.all("PmtInf").map(|block| read_block(block, most, &mut entries));
    let blocks = blocks.collect::<Result<_, _>>()?;
    Ok(Initiation { initiating_party, entries, blocks })
}

fn read_block(block: Element<'_>, most: usize, entries: &mut Vec<Entry>) -> Result<PaymentBlock, Fault> {
    let fields = block.children(shapes::PAYMENT_INFORMATION)?;
    let id = fields.require("PmtInfId")?.text_up_to(MAX_ID)?;
    fields.require("CdtTrfTxInf")?;
    let debit = read_debit(&fields).map_err(Fault::into_reason);
    let first = entries.len();
    for element in fields.all("CdtTrfTxInf") {
        totals::check_room(element, entries.len(), most)?;
        let mut entry = payment::read(
            element,
            shapes::INITIATION_PAYMENT,
            shapes::INITIATION_PAYMENT_ID,
            payment::instructed_amount,
            |fields, amount| {
                let (creditor, creditor_agent) = read_credit(element, fields)?;
                let shared = debit.as_ref().ok();
                let remittance = remittance::read(fields.get("RmtInf"))?;
                Ok(Transfer {
                    amount,
                    debtor: shared.map(|debit| debit.debtor.clone()).unwrap_or_default(),
                    debtor_agent: shared.map(|debit| debit.debtor_agent.clone()),
                    creditor,
                    creditor_agent,
                    intermediary_agents: payment::intermediaries(fields)?,
                    requested_date: shared.map(|debit| debit.requested_date),
                    remittance: remittance.summary(),
                    remittance_information: remittance,
                    charges: ChargesBearer::read(fields)?.or(shared.and_then(|debit| debit.charges)),
                    purpose: terms::purpose(fields)?,
                    category_purpose: terms::category_purpose(fields)?
                        .or_else(|| shared.and_then(|debit| debit.category_purpose.clone())),
                    ultimate_debtor: parties::optional(fields, "UltmtDbtr")?
                        .or_else(|| shared.and_then(|debit| debit.ultimate_debtor.clone())),
                    ultimate_creditor: parties::optional(fields, "UltmtCdtr")?,
                })
            },
        );
        entry.payment.payment_information_id = Some(id.clone());
        entries.push(entry);
    }
    let (number, sum) = (stated_number(&fields), stated_sum(&fields));
    let rejection =
        totals_rejection(&fields, &number, &sum, &payment::amounts(&entries[first..])).or(debit.err());
    if let Some(reason) = &rejection {
        for entry in &mut entries[first..] {
            payment::refuse(&mut entry.payment, reason);
        }
    }
    Ok(PaymentBlock {
        id,
        number_of_transactions: number.ok().flatten(),
        control_sum: sum.ok().flatten(),
        payments: first..entries.len(),
        rejection,
    })
}

/// What the block says of the debtor; anything wrong there refuses the payments of the block.
fn read_debit(fields: &Children<'_>) -> Result<Debit, Fault> {
    let method = fields.require("PmtMtd")?;
    match method.text()?.as_str() {
        "TRF" | "TRA" => {}
        "CHK" => return Err(method.fault(StatusReason::AG03, "cheques are not supported")),
        _ => return Err(method.fault(StatusReason::CH16, "TRF is expected")),
    }
    let date = fields.require("ReqdExctnDt").map_err(|fault| fault.with_code(StatusReason::DT01))?;
    let requested_date = if date.version() < 8 { parties::date(date)? } else { parties::date_choice(date)? };
    let mut debtor = parties::party(fields.require("Dbtr")?)?;
    let account = fields.require("DbtrAcct").map_err(|fault| fault.with_code(StatusReason::AC02))?;
    parties::account(&mut debtor, Some(account), Side::Debtor)?;
    let agent = fields.require("DbtrAgt").map_err(|fault| fault.with_code(StatusReason::RC03))?;
    let debtor_agent = parties::identified_agent(agent, Side::Debtor)?;
    Ok(Debit {
        debtor,
        debtor_agent,
        requested_date,
        charges: ChargesBearer::read(fields)?,
        category_purpose: terms::category_purpose(fields)?,
        ultimate_debtor: parties::optional(fields, "UltmtDbtr")?,
    })
}

fn read_credit(payment: Element<'_>, fields: &Children<'_>) -> Result<(Party, Option<Agent>), Fault> {
    if let Some(cheque) = fields.get("ChqInstr") {
        return Err(cheque.fault(StatusReason::AG03, "cheques are not supported"));
    }
    let mut creditor = fields.get("Cdtr").map(parties::party).transpose()?.unwrap_or_default();
    parties::account(&mut creditor, fields.get("CdtrAcct"), Side::Creditor)?;
    if creditor.account.is_none() && creditor.alias.is_none() {
        return Err(payment.fault(StatusReason::AC03, "the creditor's account, CdtrAcct, is missing"));
    }
    let agent = fields.get("CdtrAgt").map(|agent| parties::identified_agent(agent, Side::Creditor));
    Ok((creditor, agent.transpose()?))
}

/// How many payments the block says that it has.
fn stated_number(fields: &Children<'_>) -> Result<Option<u32>, Fault> {
    let element = fields.get("NbOfTxs");
    element.map(|element| parties::number_of_transactions(element, StatusReason::AM20)).transpose()
}

/// What the block says that its payments add up to.
fn stated_sum(fields: &Children<'_>) -> Result<Option<Decimal>, Fault> {
    let element = fields.get("CtrlSum");
    element.map(|element| parties::control_sum(element, StatusReason::AM17)).transpose()
}

/// Compares what the block states of its payments with them.
fn totals_rejection(
    fields: &Children<'_>,
    number: &Result<Option<u32>, Fault>,
    sum: &Result<Option<Decimal>, Fault>,
    amounts: &[Option<Money>],
) -> Option<Reason> {
    let refuse = |name: &str, code, what: Option<String>| {
        fields.get(name).zip(what).map(|(element, what)| element.fault(code, what).into_reason())
    };
    match number {
        Err(fault) => return Some(fault.clone().into_reason()),
        Ok(number) => {
            let what = number.and_then(|number| totals::number_differs(number, amounts.len()));
            if let Some(reason) = refuse("NbOfTxs", StatusReason::AM20, what) {
                return Some(reason);
            }
        }
    }
    match sum {
        Err(fault) => Some(fault.clone().into_reason()),
        Ok(sum) => {
            refuse("CtrlSum", StatusReason::AM17, sum.and_then(|sum| totals::sum_differs(sum, amounts)))
        }
    }
}
