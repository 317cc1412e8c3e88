//! From payment messages to transactions and from outcomes to status reports. Pure: the accounts are asked
//! for through [`Accounts`], and the time is given.

mod details;
mod instructions;
mod parties;
mod returns;

pub use details::Said;
pub use instructions::{Instructions, Orders};
pub use returns::reference;

use crate::access::{Denied, User};
use crate::codec;
use crate::references::References;
use crate::settings::{ControlSum, Settings};
use tally_crypto::{Hash, PublicKey};
use tally_iso20022::{Bic, Date, Message, MessageKind, ParseError, Payment, Reason, StatusReason, Transfer};
use tally_ledger::transaction::{Kind, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, Amount, AssetId, AssetKind, Leg, Network, ParticipantId,
    Timestamp, Transaction, Uetr,
};
use tally_settlement::engine::Answer;
use tally_settlement::path;
use tally_settlement::recent::Reference;

/// The accounts as the network knows them.
pub trait Accounts {
    /// The account of that IBAN or other alias in a participant's books.
    fn by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId>;
    /// Whose signature debits a customer's account.
    fn owner(&self, account: AccountId) -> Option<PublicKey>;
    /// The transfer with that reference that the user means, if it was settled; the user may not be told of it.
    ///
    /// # Errors
    /// When it cannot be looked up now.
    fn settled(&self, user: &User, uetr: Uetr) -> Result<Option<Settled>, Reason>;
    /// The return with that reference, if it was settled or may be yet; none was handed in before `since`. The ledger forgets
    /// a reference when its transaction has expired, and what it decided is in the journal for good.
    ///
    /// # Errors
    /// When it cannot be looked up now.
    fn returned(&self, reference: Reference, since: Timestamp) -> Result<Option<Returned>, Reason>;
}

/// A transfer that was settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// What it moved.
    pub legs: Vec<Leg>,
    /// When it was decided.
    pub at: Timestamp,
}

/// A return that was handed in before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// What has become of it.
    pub answer: Answer,
    /// What it moved; nothing while it is not decided.
    pub legs: Vec<Leg>,
    /// The same as a sentence.
    pub text: String,
}

/// Reads messages for one network.
#[derive(Clone, Copy)]
pub struct Gateway<'a> {
    /// Who takes part.
    pub network: &'a Network,
    /// What only messages need.
    pub settings: &'a Settings,
    /// The accounts.
    pub accounts: &'a dyn Accounts,
    /// Who sends the message: nothing is looked up for a payment that the user may not make.
    pub user: &'a User,
    /// What gives references to payments without one.
    pub references: &'a References,
}

/// A payment that can be made once it is signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its reference.
    pub uetr: Uetr,
    /// What it moves.
    pub legs: Vec<Leg>,
    /// Who must sign.
    pub signers: Vec<PublicKey>,
    /// Commits the signatures to the message, see [`Said`].
    pub details: Hash,
    /// What the message said, where there was one.
    pub said: Option<Said>,
    /// What has become of it, where it was made before and the message says that it may be a copy: told, and not made again.
    pub first: Option<Answer>,
}

impl Order {
    /// The transaction that makes the payment, unsigned. The `seed` is a fresh random secret.
    pub fn draft(&self, network: &Network, now: Timestamp, seed: [u8; 16]) -> Transaction {
        let terms = Terms {
            network: network.id,
            uetr: self.uetr,
            // References are remembered until they expire, so that the longest validity is the longest
            // protection against paying a message twice.
            expiry: network.latest_expiry(now),
            details: self.details,
            seed,
        };
        Transaction::new(Kind::Transfer, &terms, self.legs.clone())
    }

    /// Whether `signed` makes this payment and nothing else, whoever signed it.
    pub fn is_made_by(&self, signed: &Transaction) -> bool {
        signed.header.kind == Kind::Transfer.number()
            && signed.header.uetr == self.uetr
            && signed.header.details == self.details
            && signed.legs == self.legs
    }
}

impl Gateway<'_> {
    /// The institution to which a payment of this user's from that payer belongs.
    fn institution_of(&self, payer: Option<ParticipantId>) -> Option<Bic> {
        self.user.institution(self.network, payer)
    }

    /// The reference of the payment at that position: the sender's, or one derived from the message.
    fn reference(&self, message: &Message, position: usize, payer: Option<ParticipantId>) -> Uetr {
        let stated = message.payments.get(position).and_then(|payment| payment.uetr).map(Uetr);
        let derived = || self.references.of_payment(self.institution_of(payer), message, position);
        stated.or_else(derived).unwrap_or_default()
    }

    /// How a payment is called that is refused: by the sender's reference, or by one that belongs to the user's own
    /// institution, whatever institution the message names. Nobody learns another's references by asking for its payments.
    pub fn refused_reference(&self, instructions: &Instructions, position: usize) -> Uetr {
        match instructions {
            Instructions::Payments(message) => self.reference(message, position, None),
            Instructions::Returns(message, _) => {
                let original =
                    message.returns.get(position).and_then(|returned| reference(&returned.original));
                let derived = |original| self.references.of_return(self.institution_of(None), original);
                original.map(derived).unwrap_or_default()
            }
        }
    }

    /// That the user acts for the institution that pays; asked before anything is looked up in its books.
    fn may_debit(&self, payer: ParticipantId) -> Result<(), Reason> {
        let denied = |denied: Denied| Reason::new(StatusReason::AG01, denied.to_string());
        self.user.must_act_for(self.network, payer).map_err(denied)
    }

    /// Reads a message as this network is configured to read it.
    ///
    /// # Errors
    /// When the file as a whole is not a message.
    pub fn read(&self, xml: &[u8]) -> Result<Instructions, ParseError> {
        let mut instructions = Instructions::read(xml)?;
        if self.settings.messages.control_sum == ControlSum::Ignore {
            instructions.group_rejection().take_if(|reason| reason.code == StatusReason::AM10);
        }
        Ok(instructions)
    }

    /// For each payment that the message asks for, in order: what makes it, or why it is refused.
    pub fn instructed(&self, instructions: &Instructions, today: Date) -> Orders {
        match instructions {
            Instructions::Payments(message) => self.orders(message, today),
            Instructions::Returns(message, _) => self.returns(message, instructions.is_copy(), today),
        }
    }

    /// For each payment of the message, in order: what makes it, or why it is refused.
    pub fn orders(&self, message: &Message, today: Date) -> Vec<Result<Order, Reason>> {
        (0..message.payments.len())
            .map(|position| match &message.group_rejection {
                Some(reason) => Err(reason.clone()),
                None => self.order(message, position, today),
            })
            .collect()
    }

    fn order(&self, message: &Message, position: usize, today: Date) -> Result<Order, Reason> {
        let payment: &Payment = &message.payments[position];
        let transfer = payment.transfer.as_ref().map_err(Clone::clone)?;
        if let Some(date) = transfer.requested_date.filter(|date| *date > today) {
            return Err(Reason::new(
                StatusReason::DT01,
                format!("the requested date {date} lies ahead; today is {today}"),
            ));
        }
        let (asset, amount) = self.amount(transfer)?;
        let (from, to) = match message.kind {
            MessageKind::FinancialInstitutionCreditTransfer => self.institutions(transfer, asset)?,
            _ => self.customers(transfer)?,
        };
        if from == to {
            return Err(Reason::new(StatusReason::AC03, "debtor and creditor have the same account"));
        }
        let legs = path::payment(self.network, from, to, asset, amount);
        let signers = self.signers(&legs);
        let said = Said::by_payment(message, position);
        let uetr = self.reference(message, position, Some(from.participant));
        Ok(Order { uetr, legs, signers, details: said.hash(), said: Some(said), first: None })
    }

    fn amount(&self, transfer: &Transfer) -> Result<(AssetId, Amount), Reason> {
        let code = transfer.amount.currency_code();
        let found = self.network.asset(&code).filter(|(_, asset)| asset.kind == AssetKind::Currency);
        let Some((id, asset)) = found else {
            return Err(Reason::new(StatusReason::AM03, format!("the network does not settle {code}")));
        };
        Ok((id, Amount(transfer.amount.minor_units(asset.exponent)?)))
    }

    /// Whose signatures the legs need: the owners' of the debited accounts. Settlement accounts are debited
    /// on the word of the institution whose customer pays.
    pub fn signers(&self, legs: &[Leg]) -> Vec<PublicKey> {
        signers(self.network, legs, &|account| self.accounts.owner(account))
    }
}

/// As [`Gateway::signers`], for legs of any kind: what touches an issuance account needs its institution.
pub fn signers(
    network: &Network,
    legs: &[Leg],
    owner: &dyn Fn(AccountId) -> Option<PublicKey>,
) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    for leg in legs {
        let institution = || network.participants.get(leg.participant.index()).map(|p| p.key);
        let key = match leg.account.role() {
            AccountRole::Issuance(_) => institution(),
            AccountRole::Settlement(..) => None,
            _ if !leg.amount.is_debit() => None,
            AccountRole::Own(_) => institution(),
            AccountRole::Customer => owner(AccountId { participant: leg.participant, number: leg.account }),
        };
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

/// The own account of a participant in an asset.
fn own(participant: ParticipantId, asset: AssetId) -> AccountId {
    AccountId { participant, number: AccountNumber::own(asset) }
}

/// The day on which a payment that is asked for now is made.
pub fn today(now: Timestamp) -> Date {
    codec::day(now)
}

#[cfg(test)]
mod tests;
