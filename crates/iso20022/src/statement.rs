//! Reports on accounts, written and read: camt.053.001.08 BankToCustomerStatement and camt.054.001.08
//! BankToCustomerDebitCreditNotification.

mod details;
mod pages;
mod read;
mod totals;
mod write;

use std::fmt;

use crate::amount::Money;
use crate::date::Date;
use crate::message::{AccountId, Agent, Party};
use crate::terms::Coded;

pub use details::{EntryDetails, ReturnNote};
pub use pages::statement_pages;
pub use read::{parse_notification, parse_statement};
pub(crate) use read::{read_notification, read_statement};
pub use write::{notification, statement};

/// The definition of the statements that are written and read.
pub const STATEMENT_DEFINITION: &str = "camt.053.001.08";
/// The definition of the notifications that are written and read.
pub const NOTIFICATION_DEFINITION: &str = "camt.054.001.08";

/// How a report is called, and who it is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportHeader {
    /// The identification of the message, 1 to 35 characters, unique for the sender.
    pub message_id: String,
    /// When it was made, as an `ISODateTime`.
    pub created: String,
    /// Who it is for, if that is not the owner of the account.
    pub recipient: Option<Party>,
}

/// A message of statements (camt.053).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatementMessage {
    /// How the message is called.
    pub header: ReportHeader,
    /// The statements, at least one.
    pub statements: Vec<Statement>,
}

/// A message of notifications (camt.054).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotificationMessage {
    /// How the message is called.
    pub header: ReportHeader,
    /// The notifications, at least one.
    pub notifications: Vec<AccountReport>,
}

/// The balances of an account and what changed them, or one page of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Account, period and entries.
    pub report: AccountReport,
    /// The balances, at least one. If there are an opening and a closing booked balance, the booked
    /// entries lead from one to the other.
    pub balances: Vec<Balance>,
}

/// Entries of one account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountReport {
    /// The identification of the statement or notification, 1 to 35 characters.
    pub id: String,
    /// Which page it is, if it may have several.
    pub page: Option<Page>,
    /// A number that grows by one with every statement of the account; at most `10^18 - 1`.
    pub electronic_sequence: Option<u64>,
    /// When it was made, as an `ISODateTime`.
    pub created: Option<String>,
    /// The first and the last moment of what it reports, as `ISODateTime`s.
    pub period: Option<(String, String)>,
    /// The account.
    pub account: ReportedAccount,
    /// The entries, in the order in which they were booked, all of one currency.
    pub entries: Vec<StatementEntry>,
    /// Anything else, 1 to 500 characters.
    pub additional: Option<String>,
}

/// One page of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its number, from 1 to 99999.
    pub number: u32,
    /// Whether it is the last one.
    pub is_last: bool,
}

/// The account that a report is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedAccount {
    /// Its number.
    pub id: AccountId,
    /// Its currency (ISO 4217).
    pub currency: Option<[u8; 3]>,
    /// Its name, 1 to 70 characters.
    pub name: Option<String>,
    /// Whose it is.
    pub owner: Option<Party>,
    /// The institution that holds it.
    pub servicer: Option<Agent>,
}

/// Whether money comes or goes (`CreditDebitCode`); of a balance, whether it is above zero or below.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CreditDebit {
    /// CRDT: it comes. A balance of zero is a credit too.
    Credit,
    /// DBIT: it goes.
    Debit,
}

impl CreditDebit {
    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Credit => "CRDT",
            Self::Debit => "DBIT",
        }
    }

    /// What these four letters say.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::Credit, Self::Debit].into_iter().find(|side| side.code() == code)
    }
}

/// A balance on a day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Balance {
    /// Which balance it is.
    pub kind: BalanceKind,
    /// Whether it is that of a page between others, not of the whole statement (`INTM`).
    pub is_intermediate: bool,
    /// How much it is.
    pub amount: Money,
    /// Above or below zero.
    pub side: CreditDebit,
    /// The day.
    pub date: Date,
}

/// Which balance it is (`ExternalBalanceType1Code`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum BalanceKind {
    /// OPBD: booked, at the beginning.
    OpeningBooked,
    /// CLBD: booked, at the end.
    ClosingBooked,
    /// ITBD: booked, in between.
    InterimBooked,
    /// CLAV: what can be disposed of, at the end.
    ClosingAvailable,
    /// PRCD: what was the closing booked balance of the statement before.
    PreviouslyClosedBooked,
    /// Any other.
    Other(Coded),
}

impl BalanceKind {
    fn coded(&self) -> Coded {
        let code = match self {
            Self::OpeningBooked => "OPBD",
            Self::ClosingBooked => "CLBD",
            Self::InterimBooked => "ITBD",
            Self::ClosingAvailable => "CLAV",
            Self::PreviouslyClosedBooked => "PRCD",
            Self::Other(coded) => return coded.clone(),
        };
        Coded::Code(code.to_owned())
    }

    fn from_coded(coded: Coded) -> Self {
        let named = [
            Self::OpeningBooked,
            Self::ClosingBooked,
            Self::InterimBooked,
            Self::ClosingAvailable,
            Self::PreviouslyClosedBooked,
        ];
        named.into_iter().find(|kind| kind.coded() == coded).unwrap_or(Self::Other(coded))
    }
}

/// How far an entry came (`ExternalEntryStatus1Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EntryStatus {
    /// BOOK: booked.
    Booked,
    /// PDNG: not booked yet.
    Pending,
    /// INFO: told, and not on this account.
    Information,
}

impl EntryStatus {
    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Booked => "BOOK",
            Self::Pending => "PDNG",
            Self::Information => "INFO",
        }
    }

    /// The status of these four letters, if it is one of these.
    pub fn from_code(code: &str) -> Option<Self> {
        [Self::Booked, Self::Pending, Self::Information].into_iter().find(|status| status.code() == code)
    }
}

/// What kind of transaction an entry is, by the standard's external code set (domain, family, sub-family
/// of 1 to 4 characters each) or by another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum BankTransactionCode {
    /// By the standard's code set.
    Standard {
        /// The business area: `PMNT` for payments.
        domain: String,
        /// The family: `ICDT` for issued, `RCDT` for received credit transfers.
        family: String,
        /// The kind within the family.
        sub_family: String,
    },
    /// By a code of 1 to 35 characters that parties agreed on.
    Proprietary(String),
}

impl BankTransactionCode {
    /// PMNT/ICDT/DMCT: a credit transfer to another institution, sent.
    pub fn issued_credit_transfer() -> Self {
        Self::payment("ICDT", "DMCT")
    }

    /// PMNT/RCDT/DMCT: a credit transfer from another institution, received.
    pub fn received_credit_transfer() -> Self {
        Self::payment("RCDT", "DMCT")
    }

    /// PMNT/ICDT/BOOK: a transfer to another account of the same institution.
    pub fn issued_book_transfer() -> Self {
        Self::payment("ICDT", "BOOK")
    }

    /// PMNT/RCDT/BOOK: a transfer from another account of the same institution.
    pub fn received_book_transfer() -> Self {
        Self::payment("RCDT", "BOOK")
    }

    /// PMNT/ICDT/RRTN: a credit transfer that came back.
    pub fn returned_credit_transfer() -> Self {
        Self::payment("ICDT", "RRTN")
    }

    fn payment(family: &str, sub_family: &str) -> Self {
        Self::Standard {
            domain: "PMNT".to_owned(),
            family: family.to_owned(),
            sub_family: sub_family.to_owned(),
        }
    }
}

impl fmt::Display for BankTransactionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard { domain, family, sub_family } => write!(f, "{domain}/{family}/{sub_family}"),
            Self::Proprietary(code) => f.write_str(code),
        }
    }
}

/// One change of the account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatementEntry {
    /// Its reference within the report, 1 to 35 characters.
    pub reference: Option<String>,
    /// How much.
    pub amount: Money,
    /// Whether it comes or goes.
    pub side: CreditDebit,
    /// Whether it takes back an earlier entry.
    pub is_reversal: bool,
    /// How far it came.
    pub status: EntryStatus,
    /// The day on which it was booked.
    pub booked_on: Option<Date>,
    /// The day from which it counts.
    pub value_on: Option<Date>,
    /// The institution's own reference, 1 to 35 characters.
    pub servicer_reference: Option<String>,
    /// What kind of transaction it is.
    pub code: BankTransactionCode,
    /// The transactions that it is made of.
    pub details: Vec<EntryDetails>,
    /// Anything else, 1 to 500 characters.
    pub additional: Option<String>,
}
