//! Reading.

use crate::amount;
use crate::envelope::{self, Envelope};
use crate::error::ParseError;
use crate::limits::Limits;
use crate::message::{Agent, Party};
use crate::parties::{self, MAX_ID, Side};
use crate::reason::StatusReason;
use crate::remittance;
use crate::shapes::statement as shapes;
use crate::terms::{self, ChargesBearer, Coded, MAX_CODE};
use crate::tree::{Children, Element, Fault, Source};

use super::write::MAX_ACCOUNT_NAME;
use super::{
    AccountReport, Balance, BalanceKind, BankTransactionCode, CreditDebit, EntryDetails, EntryStatus,
    NotificationMessage, Page, ReportHeader, ReportedAccount, ReturnNote, Statement, StatementEntry,
    StatementMessage,
};

/// Longest additional information that is read.
const MAX_ADDITIONAL: usize = 500;

/// Reads a camt.053.001.08, with or without a business application header. Whether balances and entries
/// belong together is not checked.
///
/// # Errors
/// If the file is not such a statement, or has more entries or details than the limits allow payments.
pub fn parse_statement(xml: &[u8], limits: &Limits) -> Result<StatementMessage, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read_statement(&envelope, limits)
}

/// Reads a camt.054.001.08, with or without a business application header.
///
/// # Errors
/// If the file is not such a notification, or has more entries or details than the limits allow payments.
pub fn parse_notification(xml: &[u8], limits: &Limits) -> Result<NotificationMessage, ParseError> {
    let (tree, text) = envelope::tree(xml, limits)?;
    let source = Source::new(text);
    let envelope = Envelope::open(&tree, &source)?;
    envelope.header()?;
    read_notification(&envelope, limits)
}

/// The statements in the envelope.
pub(crate) fn read_statement(
    envelope: &Envelope<'_>,
    limits: &Limits,
) -> Result<StatementMessage, ParseError> {
    let version = envelope.expect("camt.053", 8..=8, "a statement camt.053.001.08")?;
    let body = envelope.body("BkToCstmrStmt", version)?;
    let read = || {
        let mut room = Room { left: limits.payments, most: limits.payments };
        let parts = body.children(shapes::STATEMENT_MESSAGE)?;
        let header = header(parts.require("GrpHdr")?)?;
        parts.require("Stmt")?;
        let statements = parts.all("Stmt").map(|element| {
            let fields = element.children(shapes::REPORT)?;
            fields.require("Bal")?;
            Ok(Statement {
                balances: fields.all("Bal").map(balance).collect::<Result<_, _>>()?,
                report: report(&fields, "StmtPgntn", "AddtlStmtInf", &mut room)?,
            })
        });
        Ok(StatementMessage { header, statements: statements.collect::<Result<_, _>>()? })
    };
    read().map_err(Fault::into_error)
}

/// The notifications in the envelope.
pub(crate) fn read_notification(
    envelope: &Envelope<'_>,
    limits: &Limits,
) -> Result<NotificationMessage, ParseError> {
    let version = envelope.expect("camt.054", 8..=8, "a notification camt.054.001.08")?;
    let body = envelope.body("BkToCstmrDbtCdtNtfctn", version)?;
    let read = || {
        let mut room = Room { left: limits.payments, most: limits.payments };
        let parts = body.children(shapes::NOTIFICATION_MESSAGE)?;
        let header = header(parts.require("GrpHdr")?)?;
        parts.require("Ntfctn")?;
        let notifications = parts.all("Ntfctn").map(|element| {
            report(&element.children(shapes::REPORT)?, "NtfctnPgntn", "AddtlNtfctnInf", &mut room)
        });
        Ok(NotificationMessage { header, notifications: notifications.collect::<Result<_, _>>()? })
    };
    read().map_err(Fault::into_error)
}

/// How many entries and details may still come.
struct Room {
    left: usize,
    most: usize,
}

impl Room {
    fn take(&mut self, element: Element<'_>) -> Result<(), Fault> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            element.fault(StatusReason::FF01, format!("more than {} entries and details", self.most))
        })?;
        Ok(())
    }
}

fn header(element: Element<'_>) -> Result<ReportHeader, Fault> {
    let fields = element.children(shapes::HEADER)?;
    Ok(ReportHeader {
        message_id: fields.require("MsgId")?.text_up_to(MAX_ID)?,
        created: parties::date_time(fields.require("CreDtTm")?)?,
        recipient: parties::optional(&fields, "MsgRcpt")?,
    })
}

fn report(
    fields: &Children<'_>,
    page_name: &str,
    additional_name: &str,
    room: &mut Room,
) -> Result<AccountReport, Fault> {
    let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?;
    let sequence = fields.get("ElctrncSeqNb");
    Ok(AccountReport {
        id: fields.require("Id")?.text_up_to(MAX_ID)?,
        page: fields.get(page_name).map(page).transpose()?,
        electronic_sequence: sequence.map(|element| element.read("a whole number", number)).transpose()?,
        created: fields.get("CreDtTm").map(parties::date_time).transpose()?,
        period: fields.get("FrToDt").map(period).transpose()?,
        account: account(fields.require("Acct")?)?,
        entries: fields.all("Ntry").map(|element| entry(element, room)).collect::<Result<_, _>>()?,
        additional: fields.text(additional_name, MAX_ADDITIONAL)?,
    })
}

fn page(element: Element<'_>) -> Result<Page, Fault> {
    let fields = element.children(shapes::PAGE)?;
    Ok(Page {
        number: parties::number_of_transactions(fields.require("PgNb")?, StatusReason::CH16)?,
        is_last: parties::yes_or_no(fields.require("LastPgInd")?)?,
    })
}

fn period(element: Element<'_>) -> Result<(String, String), Fault> {
    let fields = element.children(shapes::PERIOD)?;
    Ok((parties::date_time(fields.require("FrDtTm")?)?, parties::date_time(fields.require("ToDtTm")?)?))
}

fn account(element: Element<'_>) -> Result<ReportedAccount, Fault> {
    let fields = element.children(shapes::ACCOUNT)?;
    let currency = fields.get("Ccy");
    let currency =
        currency.map(|code| code.read("a currency code of three capital letters", amount::currency));
    Ok(ReportedAccount {
        id: parties::account_id(fields.require("Id")?)?,
        currency: currency.transpose()?,
        name: fields.text("Nm", MAX_ACCOUNT_NAME)?,
        owner: parties::optional(&fields, "Ownr")?,
        servicer: fields.get("Svcr").map(parties::agent).transpose()?,
    })
}

fn balance(element: Element<'_>) -> Result<Balance, Fault> {
    let fields = element.children(shapes::BALANCE)?;
    let kind = fields.require("Tp")?.children(shapes::BALANCE_KIND)?;
    let sub_kind = kind.get("SubTp").map(Coded::read).transpose()?;
    Ok(Balance {
        kind: BalanceKind::from_coded(Coded::read(kind.require("CdOrPrtry")?)?),
        is_intermediate: sub_kind.is_some_and(|kind| kind.as_str() == "INTM"),
        amount: parties::money(fields.require("Amt")?)?,
        side: side(fields.require("CdtDbtInd")?)?,
        date: parties::date_choice(fields.require("Dt")?)?,
    })
}

fn side(element: Element<'_>) -> Result<CreditDebit, Fault> {
    element.read("CRDT or DBIT", CreditDebit::from_code)
}

fn entry(element: Element<'_>, room: &mut Room) -> Result<StatementEntry, Fault> {
    room.take(element)?;
    let fields = element.children(shapes::ENTRY)?;
    let status = fields.require("Sts")?.children(crate::shapes::CODE_CHOICE)?;
    let mut transactions = Vec::new();
    for group in fields.all("NtryDtls") {
        for transaction in group.children(shapes::ENTRY_DETAILS)?.all("TxDtls") {
            room.take(transaction)?;
            transactions.push(details(transaction)?);
        }
    }
    Ok(StatementEntry {
        reference: fields.text("NtryRef", MAX_ID)?,
        amount: parties::money(fields.require("Amt")?)?,
        side: side(fields.require("CdtDbtInd")?)?,
        is_reversal: fields.get("RvslInd").map(parties::yes_or_no).transpose()?.unwrap_or_default(),
        status: status.require("Cd")?.read("BOOK, PDNG or INFO", EntryStatus::from_code)?,
        booked_on: fields.get("BookgDt").map(parties::date_choice).transpose()?,
        value_on: fields.get("ValDt").map(parties::date_choice).transpose()?,
        servicer_reference: fields.text("AcctSvcrRef", MAX_ID)?,
        code: transaction_code(fields.require("BkTxCd")?)?,
        details: transactions,
        additional: fields.text("AddtlNtryInf", MAX_ADDITIONAL)?,
    })
}

fn transaction_code(element: Element<'_>) -> Result<BankTransactionCode, Fault> {
    let fields = element.children(shapes::TRANSACTION_CODE)?;
    if let Some(domain) = fields.get("Domn") {
        let domain = domain.children(shapes::DOMAIN)?;
        let family = domain.require("Fmly")?.children(shapes::FAMILY)?;
        return Ok(BankTransactionCode::Standard {
            domain: domain.require("Cd")?.text_up_to(MAX_CODE)?,
            family: family.require("Cd")?.text_up_to(MAX_CODE)?,
            sub_family: family.require("SubFmlyCd")?.text_up_to(MAX_CODE)?,
        });
    }
    let other = fields.require("Prtry")?.children(shapes::OTHER_CODE)?;
    other.require("Cd")?.text_up_to(MAX_ID).map(BankTransactionCode::Proprietary)
}

fn details(element: Element<'_>) -> Result<EntryDetails, Fault> {
    let fields = element.children(shapes::TRANSACTION)?;
    let mut details = EntryDetails::default();
    if let Some(references) = fields.get("Refs") {
        let references = references.children(shapes::REFERENCES)?;
        details.message_id = references.text("MsgId", MAX_ID)?;
        details.servicer_reference = references.text("AcctSvcrRef", MAX_ID)?;
        details.payment_information_id = references.text("PmtInfId", MAX_ID)?;
        details.instruction_id = references.text("InstrId", MAX_ID)?;
        details.end_to_end_id = references.text("EndToEndId", MAX_ID)?;
        details.uetr = references.get("UETR").map(parties::uetr).transpose()?;
        details.transaction_id = references.text("TxId", MAX_ID)?;
    }
    if let (Some(amount), Some(direction)) = (fields.get("Amt"), fields.get("CdtDbtInd")) {
        details.amount = Some((parties::money(amount)?, side(direction)?));
    }
    details.charges = charges(&fields)?;
    if let Some(related) = fields.get("RltdPties") {
        let related = related.children(shapes::PARTIES)?;
        details.debtor = with_account(&related, "Dbtr", "DbtrAcct", Side::Debtor)?;
        details.ultimate_debtor = parties::party_choice(&related, "UltmtDbtr")?;
        details.creditor = with_account(&related, "Cdtr", "CdtrAcct", Side::Creditor)?;
        details.ultimate_creditor = parties::party_choice(&related, "UltmtCdtr")?;
    }
    if let Some(agents) = fields.get("RltdAgts") {
        let agents = agents.children(shapes::AGENTS)?;
        let agent =
            |name| -> Result<Option<Agent>, Fault> { agents.get(name).map(parties::agent).transpose() };
        (details.debtor_agent, details.creditor_agent) = (agent("DbtrAgt")?, agent("CdtrAgt")?);
    }
    details.purpose = terms::purpose(&fields)?;
    details.remittance = remittance::read(fields.get("RmtInf"))?;
    details.returned = fields.get("RtrInf").map(return_note).transpose()?.flatten();
    details.additional = fields.text("AddtlTxInf", MAX_ADDITIONAL)?;
    Ok(details)
}

fn charges(fields: &Children<'_>) -> Result<Option<ChargesBearer>, Fault> {
    let Some(charges) = fields.get("Chrgs") else { return Ok(None) };
    let charges = charges.children(shapes::CHARGES)?;
    let Some(first) = charges.get("Rcrd") else { return Ok(None) };
    let bearer = first.children(shapes::CHARGE)?.get("Br");
    bearer.map(|bearer| bearer.read("DEBT, CRED, SHAR or SLEV", ChargesBearer::from_code)).transpose()
}

fn with_account(
    fields: &Children<'_>,
    party_name: &str,
    account_name: &str,
    side: Side,
) -> Result<Option<Party>, Fault> {
    let party = parties::party_choice(fields, party_name)?;
    let account = fields.get(account_name);
    if party.is_none() && account.is_none() {
        return Ok(None);
    }
    let mut party = party.unwrap_or_default();
    parties::account(&mut party, account, side)?;
    Ok(Some(party))
}

fn return_note(element: Element<'_>) -> Result<Option<ReturnNote>, Fault> {
    let fields = element.children(shapes::RETURN)?;
    let text = fields.all("AddtlInf").map(|piece| piece.text()).collect::<Result<Vec<_>, _>>()?.join(" ");
    Ok(fields.get("Rsn").map(Coded::read).transpose()?.map(|reason| ReturnNote { reason, text }))
}
