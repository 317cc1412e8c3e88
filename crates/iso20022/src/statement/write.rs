//! Writing.

use crate::envelope::NAMESPACE;
use crate::error::WriteError;
use crate::output::{self, MAX_INFORMATION, pieces};
use crate::remittance;
use crate::terms::MAX_CODE;
use crate::xml::Writer;

use super::{
    AccountReport, Balance, BankTransactionCode, CreditDebit, EntryDetails, NOTIFICATION_DEFINITION,
    NotificationMessage, ReportHeader, ReportedAccount, STATEMENT_DEFINITION, StatementEntry,
    StatementMessage, totals,
};
use crate::amount::Money;

/// Longest additional information (`Max500Text`).
const MAX_ADDITIONAL: usize = 500;
/// Longest name of an account (`Max70Text`).
pub(super) const MAX_ACCOUNT_NAME: usize = 70;
/// The last page number (`Max5NumericText`).
const MAX_PAGE: u32 = 99_999;
/// The largest sequence number: 18 digits (`Number`).
const MAX_SEQUENCE: u64 = 999_999_999_999_999_999;

/// Writes a camt.053.001.08.
///
/// # Errors
/// If a text is not as the schema allows, amounts of a statement are of several currencies, or its booked
/// entries do not lead from its opening to its closing booked balance.
pub fn statement(message: &StatementMessage) -> Result<String, WriteError> {
    for statement in &message.statements {
        totals::check_currency(&statement.report, &statement.balances)?;
        totals::check_balances(statement)?;
    }
    document(STATEMENT_DEFINITION, "BkToCstmrStmt", &message.header, |xml| {
        if message.statements.is_empty() {
            xml.refuse("Stmt", "", "at least one statement".to_owned());
        }
        for statement in &message.statements {
            xml.element("Stmt", |xml| {
                if statement.balances.is_empty() {
                    xml.refuse("Bal", "", "at least one balance".to_owned());
                }
                report(xml, "StmtPgntn", &statement.report, &statement.balances);
                additional(xml, "AddtlStmtInf", statement.report.additional.as_deref());
            });
        }
    })
}

/// Writes a camt.054.001.08.
///
/// # Errors
/// If a text is not as the schema allows, or amounts of a notification are of several currencies.
pub fn notification(message: &NotificationMessage) -> Result<String, WriteError> {
    for notification in &message.notifications {
        totals::check_currency(notification, &[])?;
    }
    document(NOTIFICATION_DEFINITION, "BkToCstmrDbtCdtNtfctn", &message.header, |xml| {
        if message.notifications.is_empty() {
            xml.refuse("Ntfctn", "", "at least one notification".to_owned());
        }
        for notification in &message.notifications {
            xml.element("Ntfctn", |xml| {
                report(xml, "NtfctnPgntn", notification, &[]);
                additional(xml, "AddtlNtfctnInf", notification.additional.as_deref());
            });
        }
    })
}

fn document(
    definition: &str,
    name: &'static str,
    header: &ReportHeader,
    content: impl FnOnce(&mut Writer),
) -> Result<String, WriteError> {
    let mut xml = Writer::new();
    xml.root("Document", &format!("{NAMESPACE}{definition}"), |xml| {
        xml.element(name, |xml| {
            xml.element("GrpHdr", |xml| {
                xml.id("MsgId", &header.message_id);
                xml.time("CreDtTm", &header.created);
                if let Some(recipient) = &header.recipient {
                    output::party(xml, "MsgRcpt", recipient);
                }
            });
            content(xml);
        });
    });
    xml.finish()
}

fn report(xml: &mut Writer, page_name: &'static str, report: &AccountReport, balances: &[Balance]) {
    xml.id("Id", &report.id);
    if let Some(page) = &report.page {
        xml.element(page_name, |xml| {
            if !(1..=MAX_PAGE).contains(&page.number) {
                xml.refuse("PgNb", &page.number.to_string(), format!("a page from 1 to {MAX_PAGE}"));
            }
            xml.text("PgNb", &page.number.to_string());
            xml.text("LastPgInd", &page.is_last.to_string());
        });
    }
    if let Some(number) = report.electronic_sequence {
        if number > MAX_SEQUENCE {
            xml.refuse("ElctrncSeqNb", &number.to_string(), "a number of at most 18 digits".to_owned());
        }
        xml.text("ElctrncSeqNb", &number.to_string());
    }
    if let Some(created) = &report.created {
        xml.time("CreDtTm", created);
    }
    if let Some((from, to)) = &report.period {
        xml.element("FrToDt", |xml| {
            xml.time("FrDtTm", from);
            xml.time("ToDtTm", to);
        });
    }
    xml.element("Acct", |xml| account(xml, &report.account));
    for balance in balances {
        xml.element("Bal", |xml| write_balance(xml, balance));
    }
    totals::write(xml, &report.entries);
    for entry in &report.entries {
        xml.element("Ntry", |xml| write_entry(xml, entry));
    }
}

fn account(xml: &mut Writer, account: &ReportedAccount) {
    xml.element("Id", |xml| output::account_id(xml, &account.id));
    if let Some(currency) = &account.currency {
        xml.text("Ccy", &String::from_utf8_lossy(currency));
    }
    if let Some(name) = &account.name {
        xml.limited("Nm", name, MAX_ACCOUNT_NAME);
    }
    if let Some(owner) = &account.owner {
        output::party(xml, "Ownr", owner);
    }
    output::agent(xml, "Svcr", account.servicer.as_ref());
}

fn write_balance(xml: &mut Writer, balance: &Balance) {
    xml.element("Tp", |xml| {
        balance.kind.coded().write(xml, "CdOrPrtry");
        if balance.is_intermediate {
            xml.element("SubTp", |xml| xml.text("Cd", "INTM"));
        }
    });
    xml.amount("Amt", &balance.amount);
    xml.text("CdtDbtInd", balance.side.code());
    xml.element("Dt", |xml| xml.text("Dt", &balance.date.to_string()));
}

fn write_entry(xml: &mut Writer, entry: &StatementEntry) {
    xml.optional_id("NtryRef", entry.reference.as_deref());
    xml.amount("Amt", &entry.amount);
    xml.text("CdtDbtInd", entry.side.code());
    if entry.is_reversal {
        xml.text("RvslInd", "true");
    }
    xml.element("Sts", |xml| xml.text("Cd", entry.status.code()));
    for (name, day) in [("BookgDt", entry.booked_on), ("ValDt", entry.value_on)] {
        if let Some(day) = day {
            xml.element(name, |xml| xml.text("Dt", &day.to_string()));
        }
    }
    xml.optional_id("AcctSvcrRef", entry.servicer_reference.as_deref());
    xml.element("BkTxCd", |xml| transaction_code(xml, &entry.code));
    if !entry.details.is_empty() {
        xml.element("NtryDtls", |xml| {
            for details in &entry.details {
                xml.element("TxDtls", |xml| write_details(xml, details));
            }
        });
    }
    additional(xml, "AddtlNtryInf", entry.additional.as_deref());
}

fn transaction_code(xml: &mut Writer, code: &BankTransactionCode) {
    match code {
        BankTransactionCode::Standard { domain, family, sub_family } => xml.element("Domn", |xml| {
            xml.limited("Cd", domain, MAX_CODE);
            xml.element("Fmly", |xml| {
                xml.limited("Cd", family, MAX_CODE);
                xml.limited("SubFmlyCd", sub_family, MAX_CODE);
            });
        }),
        BankTransactionCode::Proprietary(code) => xml.element("Prtry", |xml| xml.id("Cd", code)),
    }
}

fn write_details(xml: &mut Writer, details: &EntryDetails) {
    references(xml, details);
    if let Some((amount, side)) = &details.amount {
        xml.amount("Amt", amount);
        xml.text("CdtDbtInd", side.code());
        if let Some(bearer) = details.charges {
            let nothing = Money::from_minor_units(amount.currency, 0, 0);
            xml.element("Chrgs", |xml| {
                xml.element("Rcrd", |xml| {
                    xml.amount("Amt", &nothing);
                    xml.text("CdtDbtInd", CreditDebit::Debit.code());
                    xml.text("Br", bearer.code());
                });
            });
        }
    }
    related_parties(xml, details);
    if let Some(purpose) = &details.purpose {
        purpose.write(xml, "Purp");
    }
    remittance::write(xml, &details.remittance);
    if let Some(note) = &details.returned {
        xml.element("RtrInf", |xml| {
            note.reason.write(xml, "Rsn");
            for piece in pieces(&note.text, MAX_INFORMATION) {
                xml.text("AddtlInf", &piece);
            }
        });
    }
    additional(xml, "AddtlTxInf", details.additional.as_deref());
}

fn references(xml: &mut Writer, details: &EntryDetails) {
    let ids = [
        &details.message_id,
        &details.servicer_reference,
        &details.payment_information_id,
        &details.instruction_id,
        &details.end_to_end_id,
        &details.transaction_id,
    ];
    if details.uetr.is_none() && ids.iter().all(|id| id.is_none()) {
        return;
    }
    xml.element("Refs", |xml| {
        xml.optional_id("MsgId", details.message_id.as_deref());
        xml.optional_id("AcctSvcrRef", details.servicer_reference.as_deref());
        xml.optional_id("PmtInfId", details.payment_information_id.as_deref());
        xml.optional_id("InstrId", details.instruction_id.as_deref());
        xml.optional_id("EndToEndId", details.end_to_end_id.as_deref());
        output::uetr(xml, "UETR", details.uetr.as_ref());
        xml.optional_id("TxId", details.transaction_id.as_deref());
    });
}

fn related_parties(xml: &mut Writer, details: &EntryDetails) {
    let sides = [
        ("Dbtr", "DbtrAcct", &details.debtor, "UltmtDbtr", &details.ultimate_debtor),
        ("Cdtr", "CdtrAcct", &details.creditor, "UltmtCdtr", &details.ultimate_creditor),
    ];
    if sides.iter().any(|(_, _, party, _, ultimate)| party.is_some() || ultimate.is_some()) {
        xml.element("RltdPties", |xml| {
            for (party_name, account_name, party, ultimate_name, ultimate) in sides {
                if let Some(party) = party {
                    output::party_choice(xml, party_name, party);
                    output::account(xml, account_name, party);
                }
                if let Some(ultimate) = ultimate {
                    output::party_choice(xml, ultimate_name, ultimate);
                }
            }
        });
    }
    if details.debtor_agent.is_some() || details.creditor_agent.is_some() {
        xml.element("RltdAgts", |xml| {
            output::agent(xml, "DbtrAgt", details.debtor_agent.as_ref());
            output::agent(xml, "CdtrAgt", details.creditor_agent.as_ref());
        });
    }
}

fn additional(xml: &mut Writer, name: &'static str, text: Option<&str>) {
    if let Some(text) = text {
        xml.limited(name, text, MAX_ADDITIONAL);
    }
}
