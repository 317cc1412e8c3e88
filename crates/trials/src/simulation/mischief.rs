//! Transactions that are wrong: every way to be refused.

use super::clients::Expected;
use super::plan::keys;
use super::workload::{Next, Workload};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Signer};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, AssetId, Kind, NetworkTag, ParticipantId, Refusal,
    SignaturePolicy, Timestamp, Transaction,
};
use tally_settlement::path;

impl Workload {
    /// Something that must not be made.
    pub(crate) fn mischief(&mut self, now: Timestamp, next: Next<'_>) -> (Transaction, Expected) {
        if self.rng.chance(1, 4) {
            return self.bad_order(now, next);
        }
        let Some((from, to)) = self.pair() else { return self.bad_order(now, next) };
        let amount = self.amount();
        let mut legs = path::payment(&self.network, from.id, to.id, from.asset, amount);
        let last = legs.len() - 1;
        let needs_signature = self.network.signatures == SignaturePolicy::Required;
        match self.rng.below(22) {
            0 => {
                legs[last].amount = Amount(amount.0 + 1);
                self.made(now, Kind::Transfer, legs, &[Refusal::Unbalanced, Refusal::AmountOutOfRange])
            }
            1 => {
                legs.iter_mut().for_each(|leg| leg.amount = Amount::ZERO);
                self.made(now, Kind::Transfer, legs, &[Refusal::ZeroAmount])
            }
            2 => {
                legs[last].participant = ParticipantId(if self.rng.chance(1, 2) { 99 } else { u16::MAX });
                self.made(now, Kind::Transfer, legs, &[Refusal::UnknownParticipant])
            }
            3 => {
                legs.iter_mut().for_each(|leg| leg.asset = AssetId(77));
                self.made(now, Kind::Transfer, legs, &[Refusal::UnknownAsset])
            }
            4 => self.changed(now, legs, &[Refusal::WrongNetwork], |transaction, _| {
                transaction.header.network = NetworkTag(transaction.header.network.0 ^ 1);
            }),
            5 => self.changed(now, legs, &[Refusal::Expired], |transaction, now| {
                transaction.header.expiry = Timestamp(now.0 - 3_000_000);
            }),
            6 => self.changed(now, legs, &[Refusal::ExpiryTooFar], |transaction, now| {
                transaction.header.expiry = now.plus_ms(3_000_000);
            }),
            7 => self.changed(now, legs, &[Refusal::ExpiryTooFar], |transaction, _| {
                transaction.header.expiry = Timestamp(u64::MAX);
            }),
            8 if needs_signature => {
                let transaction = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                (transaction, Expected::One(&[Refusal::Unsigned]))
            }
            9 if needs_signature => {
                let mut transaction = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                transaction.sign(&self.network.id, &keys()[(from.owner + 1) % keys().len()]);
                (transaction, Expected::Refusal)
            }
            10 => {
                let mut transaction = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                transaction.sign(&self.network.id, &keys()[from.owner]);
                transaction.seed[3] ^= 0x10;
                (transaction, Expected::One(&[Refusal::WrongSignature]))
            }
            11 => {
                let count = self.rng.between(31, 300);
                let legs = many(from.id.participant, from.asset, count);
                self.made(now, Kind::Transfer, legs, &[Refusal::TooManyLegs, Refusal::Malformed])
            }
            12 => {
                legs.truncate(self.rng.index(2));
                self.made(now, Kind::Transfer, legs, &[Refusal::TooFewLegs])
            }
            13 => {
                let kind = if self.rng.chance(1, 2) { 0 } else { 9 };
                self.changed(now, legs, &[Refusal::Malformed], |transaction, _| {
                    transaction.header.kind = kind;
                })
            }
            14 => self.changed(now, legs, &[Refusal::Malformed], |transaction, _| {
                transaction.header.participants += 1;
            }),
            15 => {
                let mut transaction = Transaction::new(Kind::Transfer, &self.terms(now), legs);
                transaction.sign(&self.network.id, &keys()[from.owner]);
                let signer: Signer = transaction.signers[0];
                transaction.signers.resize(17, signer);
                transaction.header.signers = 17;
                (transaction, Expected::One(&[Refusal::TooManySigners]))
            }
            16 => {
                legs[last].account = AccountNumber(5_000_000);
                let transaction = self.signed(now, Kind::Transfer, legs);
                (transaction, Expected::Refusal)
            }
            17 => {
                let most = Amount::MAX_LEG.0 + 1;
                let sign = |leg: &Leg| leg.amount.0.signum();
                legs.iter_mut().for_each(|leg| leg.amount = Amount(most * sign(leg)));
                self.made(now, Kind::Transfer, legs, &[Refusal::AmountOutOfRange])
            }
            18 => {
                let repeated = legs[last];
                legs.push(repeated);
                self.made(now, Kind::Transfer, legs, &[Refusal::Malformed])
            }
            19 => {
                let legs = path::issue(to.id, to.asset, amount);
                self.made(now, Kind::Transfer, legs, &[Refusal::NotIssuer])
            }
            20 => {
                // The customer creates money.
                let mut transaction =
                    Transaction::new(Kind::Issue, &self.terms(now), path::issue(to.id, to.asset, amount));
                transaction.sign(&self.network.id, &keys()[to.owner]);
                (transaction, Expected::Refusal)
            }
            21 => {
                let wrong = AccountNumber::settlement(from.asset, ParticipantId(40));
                legs[last].account = wrong;
                self.made(now, Kind::Transfer, legs, &[Refusal::UnknownAccount])
            }
            _ => {
                let mut transaction = self.signed(now, Kind::Transfer, legs);
                transaction.header.legs += 1;
                (transaction, Expected::One(&[Refusal::Malformed]))
            }
        }
    }

    fn made(
        &mut self,
        now: Timestamp,
        kind: Kind,
        legs: Vec<Leg>,
        wanted: &'static [Refusal],
    ) -> (Transaction, Expected) {
        (self.signed(now, kind, legs), Expected::One(wanted))
    }

    /// A payment that was changed before it was signed.
    fn changed(
        &mut self,
        now: Timestamp,
        legs: Vec<Leg>,
        wanted: &'static [Refusal],
        change: impl FnOnce(&mut Transaction, Timestamp),
    ) -> (Transaction, Expected) {
        let signers = self.signers(Kind::Transfer, &legs);
        let mut transaction = Transaction::new(Kind::Transfer, &self.terms(now), legs);
        change(&mut transaction, now);
        let network = self.network.id;
        signers.iter().for_each(|key| transaction.sign(&network, key));
        (transaction, Expected::One(wanted))
    }

    fn bad_order(&mut self, now: Timestamp, next: Next<'_>) -> (Transaction, Expected) {
        let (bank, asset) = (self.bank(), self.asset());
        let mut order = self.opening(next, bank, asset);
        let mut wanted: &'static [Refusal] = &[Refusal::OrderNotPossible];
        match (self.rng.below(9), &mut order.action) {
            (0, AccountAction::Open { count, .. }) => *count = 0,
            (1, AccountAction::Open { count, alias, .. }) => {
                (*count, *alias) = (2, "for two".into());
            }
            (2, AccountAction::Open { floor, .. }) => *floor = Amount(1),
            (3, AccountAction::Open { asset, .. }) => {
                *asset = AssetId(70);
                wanted = &[Refusal::UnknownAsset];
            }
            (4, _) => order.number = AccountNumber(order.number.0 + 70),
            (5, _) => {
                let number = AccountNumber::own(asset);
                order = AccountOrder { participant: bank, number, action: AccountAction::Freeze };
            }
            (6, _) => {
                order.participant = ParticipantId(60);
                let mut transaction = Transaction::account(&self.terms(now), order);
                transaction.sign(&self.network.id, &keys()[0]);
                return (transaction, Expected::One(&[Refusal::UnknownParticipant]));
            }
            (7, _) => {
                // Another institution's order.
                let AccountId { participant, number } = self.account().id;
                let order = AccountOrder { participant, number, action: AccountAction::Freeze };
                let mut transaction = Transaction::account(&self.terms(now), order);
                transaction.sign(&self.network.id, &keys()[0]);
                return (transaction, Expected::One(&[Refusal::Unsigned]));
            }
            _ => {
                let mut transaction = self.ordered(now, order);
                transaction.header.details = tally_crypto::hash(b"another order");
                transaction.signers.clear();
                transaction.sign(&self.network.id, &keys()[bank.index()]);
                return (transaction, Expected::One(&[Refusal::Malformed]));
            }
        }
        (self.ordered(now, order), Expected::One(wanted))
    }
}

fn many(participant: ParticipantId, asset: AssetId, count: u64) -> Vec<Leg> {
    (0u32..)
        .zip(0..count)
        .map(|(number, _)| {
            let amount = Amount(if number % 2 == 0 { -1 } else { 1 });
            Leg { participant, asset, account: AccountNumber(number), amount }
        })
        .collect()
}
