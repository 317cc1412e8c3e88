//! What a message says, whatever its version.

use std::fmt;
use std::ops::Range;

use crate::amount::{Decimal, Money};
use crate::date::Date;
use crate::header::AppHeader;
use crate::identifier::{Bic, Iban};
use crate::reason::{Reason, StatusReason};
use crate::remittance::Remittance;
use crate::terms::{ChargesBearer, Coded};

/// Which of the messages it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MessageKind {
    /// pain.001: a customer asks its bank to pay.
    CustomerCreditTransferInitiation,
    /// pacs.008: a bank pays another bank for a customer.
    FiToFiCustomerCreditTransfer,
    /// pacs.009: a bank pays another bank on its own account.
    FinancialInstitutionCreditTransfer,
}

impl MessageKind {
    /// The name of the message without its version: `pain.001`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CustomerCreditTransferInitiation => "pain.001",
            Self::FiToFiCustomerCreditTransfer => "pacs.008",
            Self::FinancialInstitutionCreditTransfer => "pacs.009",
        }
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A payment message of any supported kind and version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The business application header, if there is one.
    pub header: Option<AppHeader>,
    /// Which message it is.
    pub kind: MessageKind,
    /// Its full name with version: `pain.001.001.03`.
    pub definition: String,
    /// The sender's identification of the message, 1 to 35 characters.
    pub message_id: String,
    /// When the message was made, as an `ISODateTime`.
    pub created: String,
    /// How many payments the header states.
    pub number_of_transactions: u32,
    /// The sum of all amounts, whatever their currency, that the header states.
    pub control_sum: Option<Decimal>,
    /// The total that the header states (pacs only).
    pub total_settlement_amount: Option<Money>,
    /// Who sends the instructions (pain.001 only).
    pub initiating_party: Option<Party>,
    /// The institution that instructs (pacs only).
    pub instructing_agent: Option<Agent>,
    /// The institution that is instructed (pacs only).
    pub instructed_agent: Option<Agent>,
    /// The payments, in the order of the message; at least one.
    pub payments: Vec<Payment>,
    /// The blocks that the payments stand in (pain.001 only).
    pub blocks: Vec<PaymentBlock>,
    /// Set if the header contradicts the payments: AM19 for the number, AM10 for the control sum
    /// or total. Then no payment of the message may be made, see [`Message::instructions`].
    pub group_rejection: Option<Reason>,
}

impl Message {
    /// Every payment with what may be done: the transfer to make, or why it is refused, be it for
    /// its own sake or because the whole message is.
    pub fn instructions(&self) -> impl Iterator<Item = (&Payment, Result<&Transfer, &Reason>)> {
        self.payments.iter().map(|payment| {
            let verdict = match &self.group_rejection {
                Some(reason) => Err(reason),
                None => payment.transfer.as_ref(),
            };
            (payment, verdict)
        })
    }
}

/// A block of payments from one account (`PmtInf`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentBlock {
    /// The sender's identification of the block, 1 to 35 characters.
    pub id: String,
    /// How many payments the block states, if it does and it is a number.
    pub number_of_transactions: Option<u32>,
    /// The sum of all amounts that the block states, if it does and it is a number.
    pub control_sum: Option<Decimal>,
    /// Which of the message's payments are the block's.
    pub payments: Range<usize>,
    /// Why the block as a whole is refused, if it is: each of its payments then has the same refusal.
    pub rejection: Option<Reason>,
}

/// One payment: how it is called, and what it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payment {
    /// The block of payments that it belongs to (pain.001 only).
    pub payment_information_id: Option<String>,
    /// The reference between the sender and its bank.
    pub instruction_id: Option<String>,
    /// The reference that stays with the payment to its end; `NOTPROVIDED` if the debtor gave none
    /// or it could not be read.
    pub end_to_end_id: String,
    /// The reference among the institutions (pacs only).
    pub transaction_id: Option<String>,
    /// The unique end-to-end transaction reference, if the sender gave one. Otherwise see
    /// [`crate::derived_uetr`].
    pub uetr: Option<[u8; 16]>,
    /// What to transfer; or why this payment, and only this one, is refused for its form.
    pub transfer: Result<Transfer, Reason>,
}

/// A transfer of money whose form is right. Whether accounts and institutions exist, and check
/// digits and currencies are acceptable, is for the network to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The amount; never zero.
    pub amount: Money,
    /// Who pays: a customer, or in a pacs.009 an institution.
    pub debtor: Party,
    /// The institution that holds the debtor's account. Always there but in a pacs.009.
    pub debtor_agent: Option<Agent>,
    /// Who is paid: a customer, or in a pacs.009 an institution.
    pub creditor: Party,
    /// The institution that holds the creditor's account. Always there in a pacs.008.
    pub creditor_agent: Option<Agent>,
    /// Institutions that the sender wants the money to pass through.
    pub intermediary_agents: Vec<Agent>,
    /// The day on which to execute (pain.001) or settle (pacs).
    pub requested_date: Option<Date>,
    /// What the payment is for: the unstructured text (lines joined by a line feed), or the
    /// creditor's reference.
    pub remittance: Option<String>,
    /// All that is said of it.
    pub remittance_information: Remittance,
    /// Who bears the charges, if stated; always there in a pacs.008.
    pub charges: Option<ChargesBearer>,
    /// The purpose, for the creditor.
    pub purpose: Option<Coded>,
    /// The category of the purpose, for the institutions.
    pub category_purpose: Option<Coded>,
    /// On whose behalf the debtor pays.
    pub ultimate_debtor: Option<Party>,
    /// For whom the creditor is paid.
    pub ultimate_creditor: Option<Party>,
}

impl Transfer {
    /// Checks the check digits of the debtor's and the creditor's IBAN (ISO 13616, ISO 7064 MOD
    /// 97-10). Reading does not: a network that has accounts with wrong ones leaves this call out.
    ///
    /// # Errors
    /// AC02 if those of the debtor's are wrong, otherwise AC03 if those of the creditor's are.
    pub fn check_ibans(&self) -> Result<(), Reason> {
        let sides =
            [(&self.debtor, StatusReason::AC02, "debtor"), (&self.creditor, StatusReason::AC03, "creditor")];
        for (party, code, side) in sides {
            if let Some(AccountId::Iban(iban)) = &party.account
                && !iban.checksum_ok()
            {
                return Err(Reason::new(code, format!("the {side}'s IBAN {iban} has wrong check digits")));
            }
        }
        Ok(())
    }
}

/// A customer or institution that pays, is paid, or sends instructions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Party {
    /// Its name, runs of white space as one space.
    pub name: Option<String>,
    /// An identification that is not a BIC: of the organisation or person.
    pub identification: Option<String>,
    /// Whether the identification is that of a person.
    pub is_person: bool,
    /// The BIC of an organisation or institution.
    pub bic: Option<Bic>,
    /// For an institution: its identification at a clearing system.
    pub member_id: Option<String>,
    /// The account.
    pub account: Option<AccountId>,
    /// The account's currency, if stated.
    pub account_currency: Option<[u8; 3]>,
    /// Another name for the account, such as a telephone number, if stated.
    pub alias: Option<Alias>,
}

/// The identification of an account.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AccountId {
    /// An IBAN. Its check digits may be wrong, see [`Iban::checksum_ok`].
    Iban(Iban),
    /// Any other, by a scheme that the sender may name.
    Other {
        /// The identification, 1 to 34 characters.
        id: String,
        /// The scheme: its code or its proprietary name.
        scheme: Option<String>,
    },
}

impl AccountId {
    /// The identification as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Iban(iban) => iban.as_str(),
            Self::Other { id, .. } => id,
        }
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A proxy for an account (`Prxy`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Alias {
    /// The kind of alias: its code (`TELE`, `EMAL`, …) or its proprietary name.
    pub kind: Option<String>,
    /// The alias.
    pub id: String,
}

/// An institution. One without `bic` and `member_id` may have only a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Agent {
    /// Its BIC.
    pub bic: Option<Bic>,
    /// Its identification at a clearing system.
    pub member_id: Option<String>,
    /// Its name, runs of white space as one space.
    pub name: Option<String>,
}

impl From<Bic> for Agent {
    fn from(bic: Bic) -> Self {
        Self { bic: Some(bic), ..Self::default() }
    }
}

impl From<Agent> for Party {
    fn from(agent: Agent) -> Self {
        Self { name: agent.name, bic: agent.bic, member_id: agent.member_id, ..Self::default() }
    }
}
