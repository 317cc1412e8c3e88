//! The transactions that an entry is made of.

use crate::amount::Money;
use crate::message::{Agent, Message, Party, Payment};
use crate::remittance::Remittance;
use crate::terms::{ChargesBearer, Coded};

use super::CreditDebit;

/// What is told of one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntryDetails {
    /// The message that it came in.
    pub message_id: Option<String>,
    /// The institution's own reference.
    pub servicer_reference: Option<String>,
    /// The block of payments that it came in.
    pub payment_information_id: Option<String>,
    /// The reference between the sender and its bank.
    pub instruction_id: Option<String>,
    /// The reference that stays with the payment to its end.
    pub end_to_end_id: Option<String>,
    /// The unique end-to-end transaction reference.
    pub uetr: Option<[u8; 16]>,
    /// The reference among the institutions.
    pub transaction_id: Option<String>,
    /// How much, and whether it comes or goes.
    pub amount: Option<(Money, CreditDebit)>,
    /// Who bears the charges. The message has a place for it only with an amount: charges of zero.
    pub charges: Option<ChargesBearer>,
    /// Who pays, with the account.
    pub debtor: Option<Party>,
    /// On whose behalf.
    pub ultimate_debtor: Option<Party>,
    /// Who is paid, with the account.
    pub creditor: Option<Party>,
    /// For whom.
    pub ultimate_creditor: Option<Party>,
    /// The debtor's institution.
    pub debtor_agent: Option<Agent>,
    /// The creditor's institution.
    pub creditor_agent: Option<Agent>,
    /// The purpose, for the creditor.
    pub purpose: Option<Coded>,
    /// What is settled by it.
    pub remittance: Remittance,
    /// Why it came back, if it did.
    pub returned: Option<ReturnNote>,
    /// Anything else, 1 to 500 characters.
    pub additional: Option<String>,
}

/// Why a payment came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReturnNote {
    /// The reason (`ExternalReturnReason1Code`).
    pub reason: Coded,
    /// The same in words.
    pub text: String,
}

impl EntryDetails {
    /// All that a payment said, as its sender wrote it. What could not be read is absent.
    pub fn of(message: &Message, payment: &Payment, side: CreditDebit) -> Self {
        let mut details = Self {
            message_id: Some(message.message_id.clone()),
            payment_information_id: payment.payment_information_id.clone(),
            instruction_id: payment.instruction_id.clone(),
            end_to_end_id: Some(payment.end_to_end_id.clone()),
            uetr: payment.uetr,
            transaction_id: payment.transaction_id.clone(),
            ..Self::default()
        };
        if let Ok(transfer) = &payment.transfer {
            details.amount = Some((transfer.amount, side));
            details.charges = transfer.charges;
            details.debtor = Some(transfer.debtor.clone());
            details.ultimate_debtor = transfer.ultimate_debtor.clone();
            details.creditor = Some(transfer.creditor.clone());
            details.ultimate_creditor = transfer.ultimate_creditor.clone();
            details.debtor_agent = transfer.debtor_agent.clone();
            details.creditor_agent = transfer.creditor_agent.clone();
            details.purpose = transfer.purpose.clone();
            details.remittance = transfer.remittance_information.clone();
        }
        details
    }
}
