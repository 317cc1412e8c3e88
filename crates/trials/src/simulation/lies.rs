//! What members with real keys make of their own and of each other's transactions, and what may become of it.

use super::clients::{Expected, Known};
use super::plan::keys;
use super::workload::Workload;
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Signer;
use tally_ledger::{
    AccountNumber, AccountOrder, Amount, Kind, NetworkId, ParticipantId, SignaturePolicy, Timestamp,
    Transaction,
};
use tally_settlement::path;
use tally_sim::Rng;

macro_rules! lies {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a member with a real key hands in.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Lie { $($(#[doc = $doc])+ $name,)+ }

        impl Lie {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

lies! {
    /// A customer signs the debit of another's account with its own key.
    DebitsAnothersAccount,
    /// The payee's institution, or any other, signs the debit of a customer.
    InstitutionDebitsCustomer,
    /// An institution signs another's account order.
    OrdersForAnother,
    /// An institution signs what another issues.
    IssuesForAnother,
    /// An institution signs the debit of another's own funds.
    SpendsAnothersFunds,
    /// Another payment under a reference that somebody used, signed by those who have to.
    ReusesReferenceSigned,
    /// The same, not signed.
    ReusesReferenceUnsigned,
    /// The same, signed by others.
    ReusesReferenceWronglySigned,
    /// A field of what was signed is another.
    Changed,
    /// The same, signed again by those who had signed.
    ChangedAndSignedAgain,
    /// The same, signed by another member.
    ChangedAndSignedByAnother,
    /// The same content with other signatures.
    OtherSignatures,
}

/// What may become of a transaction of which a field was changed, and which was not signed again. Its signatures are over
/// something else; only where nobody signed, it is a payment like any other.
pub(crate) fn changed(signed: &Transaction) -> Expected {
    if signed.signers.is_empty() { Expected::Anything } else { Expected::Refusal }
}

impl Workload {
    /// A key that is not that one.
    fn other_key(rng: &mut Rng, index: usize) -> &'static SigningKey {
        &keys()[(index + 1 + rng.index(keys().len() - 1)) % keys().len()]
    }

    /// What members make of transactions that somebody handed in, or of each other's accounts.
    pub(crate) fn lie(
        &mut self,
        rng: &mut Rng,
        now: Timestamp,
        known: &[Known],
    ) -> Option<(Lie, Transaction, Expected)> {
        let network = self.network.id;
        let needs_signature = self.network.signatures == SignaturePolicy::Required;
        let unsigned = if needs_signature { Expected::Refusal } else { Expected::Anything };
        let back = known.len().checked_sub(1)?;
        let one = &known[back - rng.index(known.len().min(30))];
        let signs = |transaction: &mut Transaction, key: &SigningKey| transaction.sign(&network, key);
        if self.opened.is_empty() {
            return None;
        }
        let from = self.opened[rng.index(self.opened.len())];
        let to = self.opened[rng.index(self.opened.len())];
        let amount = Amount(i64::try_from(rng.between(1, 200)).expect("small"));
        Some(match rng.below(13) {
            0 | 1 if from.id != to.id && from.asset == to.asset => {
                let legs = path::payment(&self.network, from.id, to.id, from.asset, amount);
                let mut forged = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                let bank = usize::from(to.id.participant.0);
                let (lie, key) = if rng.chance(1, 2) {
                    (Lie::DebitsAnothersAccount, Self::other_key(rng, from.owner))
                } else {
                    (Lie::InstitutionDebitsCustomer, &keys()[bank])
                };
                signs(&mut forged, key);
                (lie, forged, unsigned)
            }
            2 => {
                let action = match rng.below(4) {
                    0 => AccountAction::Freeze,
                    1 => AccountAction::Release,
                    2 => AccountAction::Close,
                    _ => AccountAction::SetFloor(Amount(-1_000)),
                };
                let participant = from.id.participant;
                let order = AccountOrder { participant, number: from.id.number, action };
                let mut forged = Transaction::account(&self.terms(now), order);
                signs(&mut forged, Self::other_key(rng, participant.index()));
                (Lie::OrdersForAnother, forged, Expected::Refusal)
            }
            3 => {
                let (kind, legs) = match rng.below(3) {
                    0 => (Kind::Issue, path::issue(to.id, to.asset, amount)),
                    1 => (Kind::Redeem, path::reverse(path::issue(to.id, to.asset, amount))),
                    _ => {
                        let holder = to.id.participant;
                        if self.network.assets[to.asset.index()].settled_at == holder {
                            return None;
                        }
                        (Kind::Issue, path::issue_reserves(&self.network, holder, to.asset, amount))
                    }
                };
                let issuer = legs[0].participant.index();
                let mut forged = Transaction::new(kind, &self.terms(now), legs);
                let other = Self::other_key(rng, issuer);
                signs(&mut forged, other);
                if kind == Kind::Redeem && other.public_key() != keys()[to.owner].public_key() {
                    // The customer agrees, its bank does not.
                    signs(&mut forged, &keys()[to.owner]);
                }
                (Lie::IssuesForAnother, forged, Expected::Refusal)
            }
            4 => {
                let bank = from.id.participant;
                let number = AccountNumber::own(from.asset);
                let own = tally_ledger::AccountId { participant: bank, number };
                if from.asset != to.asset {
                    return None;
                }
                let legs = path::payment(&self.network, own, to.id, from.asset, amount);
                let mut forged = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                signs(&mut forged, Self::other_key(rng, bank.index()));
                (Lie::SpendsAnothersFunds, forged, unsigned)
            }
            5 | 6 if from.id != to.id && from.asset == to.asset => {
                let legs = path::payment(&self.network, from.id, to.id, from.asset, amount);
                let mut other = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                other.header.uetr = one.transaction.header.uetr;
                match rng.below(3) {
                    0 => {
                        signs(&mut other, &keys()[from.owner]);
                        (Lie::ReusesReferenceSigned, other, Expected::Order)
                    }
                    1 => (Lie::ReusesReferenceUnsigned, other, unsigned),
                    _ => {
                        signs(&mut other, Self::other_key(rng, from.owner));
                        (Lie::ReusesReferenceWronglySigned, other, unsigned)
                    }
                }
            }
            7 | 8 => {
                let mut other = one.transaction.clone();
                transaction(rng, &mut other);
                (Lie::Changed, other, changed(&one.transaction))
            }
            9 => {
                let mut other = one.transaction.clone();
                transaction(rng, &mut other);
                let before: Vec<Signer> = other.signers.drain(..).collect();
                other.header.signers = 0;
                for signer in before {
                    let key = keys().iter().find(|key| key.public_key() == signer.key)?;
                    signs(&mut other, key);
                }
                (Lie::ChangedAndSignedAgain, other, Expected::Anything)
            }
            10 => {
                let mut other = one.transaction.clone();
                transaction(rng, &mut other);
                let signed = other.signers.first().map(|signer| signer.key);
                other.signers.clear();
                let at = signed.and_then(|key| keys().iter().position(|other| other.public_key() == key));
                let another = Self::other_key(rng, at?);
                signs(&mut other, another);
                // Where it was not needed before, it may be in order; where more than one sign, too.
                (Lie::ChangedAndSignedByAnother, other, Expected::Anything)
            }
            _ => {
                let mut copy = one.transaction.clone();
                signers(rng, &network, &mut copy);
                (Lie::OtherSignatures, copy, Expected::Anything)
            }
        })
    }
}

pub(crate) fn hash(rng: &mut Rng) -> Hash {
    let mut bytes = [0; 32];
    rng.fill(&mut bytes);
    tally_crypto::hash(&bytes)
}

pub(crate) fn signature(rng: &mut Rng) -> Signature {
    let mut bytes = [0; 64];
    rng.fill(&mut bytes);
    Signature::from_bytes(bytes)
}

pub(crate) fn participant(rng: &mut Rng, before: ParticipantId) -> ParticipantId {
    match rng.below(4) {
        0 => ParticipantId(u16::MAX),
        _ => ParticipantId((before.0 % 6 + 1 + u16::try_from(rng.below(3)).expect("small")) % 6),
    }
}

pub(crate) fn amount(rng: &mut Rng, before: Amount) -> Amount {
    Amount(match rng.below(6) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => 0,
        3 => before.0.saturating_neg(),
        4 => before.0.saturating_mul(2),
        _ => before.0.saturating_add(1),
    })
}

pub(crate) fn account(rng: &mut Rng, before: AccountNumber) -> AccountNumber {
    match rng.below(4) {
        0 => AccountNumber(u32::MAX),
        1 => AccountNumber(5_000_000),
        2 => AccountNumber(before.0 ^ 1),
        _ => AccountNumber(u32::try_from(rng.below(4)).expect("small")),
    }
}

/// A transaction in which one field is another; signatures stay. Its counts fit its columns.
pub(crate) fn transaction(rng: &mut Rng, transaction: &mut Transaction) {
    let legs = transaction.legs.len();
    match rng.below(9) {
        0 => transaction.header.expiry = transaction.header.expiry.plus_ms(rng.between(1, 9)),
        1 => transaction.header.details = hash(rng),
        2 => rng.fill(&mut transaction.seed),
        3 if legs > 0 => {
            let at = rng.index(legs);
            transaction.legs[at].account = account(rng, transaction.legs[at].account);
        }
        4 if legs > 0 => {
            let at = rng.index(legs);
            transaction.legs[at].amount = amount(rng, transaction.legs[at].amount);
        }
        5 if legs > 0 => {
            let at = rng.index(legs);
            transaction.legs[at].participant = participant(rng, transaction.legs[at].participant);
            transaction.header.participants =
                u8::try_from(transaction.participants().len()).unwrap_or(u8::MAX);
        }
        6 if legs > 0 => {
            // Another amount, in balance.
            let factor = i64::try_from(rng.between(2, 9)).expect("small");
            for leg in &mut transaction.legs {
                leg.amount = Amount(leg.amount.0.saturating_mul(factor));
            }
        }
        7 if transaction.order.is_none() => transaction.header.kind = 1 + (transaction.header.kind % 3),
        _ => {
            if let Some(order) = &mut transaction.order {
                order.number = account(rng, order.number);
                transaction.header.details = order.hash();
            } else if legs > 1 {
                transaction.legs.reverse();
            }
        }
    }
}

/// Other signatures under the same content.
pub(crate) fn signers(rng: &mut Rng, network: &NetworkId, transaction: &mut Transaction) {
    let id = transaction.id(network);
    let other = &keys()[rng.index(keys().len())];
    let count = transaction.signers.len();
    let at = rng.index(count.max(1));
    match rng.below(5) {
        0 => transaction.signers.clear(),
        1 if count > 0 => transaction.signers[at].signature = signature(rng),
        2 if count > 0 => {
            // The owner's key, over which another signed.
            transaction.signers[at].signature = other.sign(id.as_bytes());
        }
        3 if count > 0 => {
            let signature = other.sign(id.as_bytes());
            transaction.signers[at] = Signer { key: other.public_key(), signature };
        }
        _ => {
            let signature = other.sign(id.as_bytes());
            transaction.signers = vec![Signer { key: other.public_key(), signature }];
        }
    }
    transaction.header.signers = u8::try_from(transaction.signers.len()).unwrap_or(u8::MAX);
}
