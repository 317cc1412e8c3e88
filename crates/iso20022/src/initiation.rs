//! pain.001: CustomerCreditTransferInitiation, versions 03 to 12.

use crate::amount::Decimal;
use crate::message::{Agent, Party, Transfer};
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
}

pub(crate) fn read(body: &Children<'_>, header: &Children<'_>, most: usize) -> Result<Initiation, Fault> {
    let initiating_party = parties::party(header.require("InitgPty")?)?;
    body.require("PmtInf")?;
    let mut entries = Vec::new();
    for block in body.all("PmtInf") {
        read_block(block, most, &mut entries)?;
    }
    Ok(Initiation { initiating_party, entries })
}

fn read_block(block: Element<'_>, most: usize, entries: &mut Vec<Entry>) -> Result<(), Fault> {
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
        if let Err(reason) = &debit {
            payment::refuse(&mut entry.payment, reason);
        }
        entry.payment.payment_information_id = Some(id.clone());
        entries.push(entry);
    }
    if let Some(reason) = block_rejection(&fields, &entries[first..])? {
        for entry in &mut entries[first..] {
            payment::refuse(&mut entry.payment, &reason);
        }
    }
    Ok(())
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

/// Compares the block's own number and sum with its payments.
fn block_rejection(fields: &Children<'_>, entries: &[Entry]) -> Result<Option<Reason>, Fault> {
    if let Some(element) = fields.get("NbOfTxs") {
        let stated = match parties::number_of_transactions(element, StatusReason::AM20) {
            Ok(stated) => stated,
            Err(fault) => return Ok(Some(fault.into_reason())),
        };
        if let Some(what) = totals::number_differs(stated, entries.len()) {
            return Ok(Some(element.fault(StatusReason::AM20, what).into_reason()));
        }
    }
    if let Some(element) = fields.get("CtrlSum") {
        let stated: Decimal = match parties::control_sum(element, StatusReason::AM17) {
            Ok(stated) => stated,
            Err(fault) => return Ok(Some(fault.into_reason())),
        };
        if let Some(what) = totals::sum_differs(stated, entries) {
            return Ok(Some(element.fault(StatusReason::AM17, what).into_reason()));
        }
    }
    Ok(None)
}
