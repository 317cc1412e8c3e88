//! Transactions in order: what honest clients and institutions send.

use super::clients::{Clients, Expected, Known};
use super::plan::{FIRST_CUSTOMER, LARGEST_PAYMENT, VALIDITY_MS, keys};
use tally_crypto::{Hash, PublicKey, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, MAX_LEGS, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, AccountRole, Amount, AssetId, Kind, Network, ParticipantId,
    SignaturePolicy, Timestamp, Transaction, Uetr,
};
use tally_settlement::path;
use tally_sim::Rng;

/// The number of the next account at a bank.
pub(crate) type Next<'a> = &'a dyn Fn(ParticipantId) -> AccountNumber;

/// A customer's account that was opened, as its owner knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) id: AccountId,
    pub(crate) asset: AssetId,
    /// Index of the owner's key.
    pub(crate) owner: usize,
}

/// Makes transactions.
pub(crate) struct Workload {
    pub(crate) rng: Rng,
    pub(crate) network: Network,
    pub(crate) opened: Vec<Opened>,
    references: u64,
    aliases: u64,
}

impl Workload {
    pub(crate) fn new(rng: Rng, network: Network) -> Self {
        Self { rng, network, opened: Vec::new(), references: 0, aliases: 0 }
    }

    /// The participants that have customers: everybody but the first.
    pub(crate) fn bank(&mut self) -> ParticipantId {
        let banks = self.network.participants.len() - 1;
        ParticipantId(u16::try_from(1 + self.rng.index(banks)).expect("banks are few"))
    }

    pub(crate) fn asset(&mut self) -> AssetId {
        AssetId(u16::try_from(self.rng.index(self.network.assets.len())).expect("assets are few"))
    }

    pub(crate) fn account(&mut self) -> Opened {
        self.opened[self.rng.index(self.opened.len())]
    }

    fn account_with(&mut self, asset: AssetId) -> Opened {
        let all: Vec<Opened> = self.opened.iter().filter(|opened| opened.asset == asset).copied().collect();
        if all.is_empty() { self.account() } else { all[self.rng.index(all.len())] }
    }

    /// Another account in the same asset, if there is one.
    pub(crate) fn pair(&mut self) -> Option<(Opened, Opened)> {
        let from = self.account();
        let to = self.account_with(from.asset);
        (from.id != to.id).then_some((from, to))
    }

    /// Small amounts most of the time, all of the range sometimes.
    pub(crate) fn amount(&mut self) -> Amount {
        let most = match self.rng.below(40) {
            0 => Amount::MAX_LEG.0,
            1 => 1 << 41,
            2..=4 => 10_000,
            5..=9 => 1_000,
            _ => 150,
        };
        let most = u64::try_from(most.min(LARGEST_PAYMENT)).expect("limits are positive");
        Amount(i64::try_from(self.rng.between(1, most)).expect("it is below a limit"))
    }

    pub(crate) fn terms(&mut self, now: Timestamp) -> Terms {
        self.references += 1;
        let mut uetr = [0; 16];
        self.rng.fill(&mut uetr);
        uetr[..8].copy_from_slice(&self.references.to_le_bytes());
        let mut seed = [0; 16];
        self.rng.fill(&mut seed);
        let validity = match self.rng.below(8) {
            0 => self.rng.between(1, 100),
            1 => self.rng.between(1, 3_000),
            2 => VALIDITY_MS,
            _ => self.rng.between(5_000, VALIDITY_MS),
        };
        let expiry = now.plus_ms(validity);
        Terms { network: self.network.id, uetr: Uetr(uetr), expiry, details: Hash::ZERO, seed }
    }

    /// Whose signatures the legs need.
    pub(crate) fn signers(&self, kind: Kind, legs: &[Leg]) -> Vec<&'static SigningKey> {
        let free = kind == Kind::Transfer && self.network.signatures == SignaturePolicy::InstitutionsOnly;
        let mut wanted: Vec<usize> = Vec::new();
        for leg in legs {
            let id = AccountId { participant: leg.participant, number: leg.account };
            let key = match id.number.role() {
                AccountRole::Issuance(_) => Some(leg.participant.index()),
                AccountRole::Own(_) if leg.amount.0 < 0 && !free => Some(leg.participant.index()),
                AccountRole::Customer if leg.amount.0 < 0 && !free => {
                    self.opened.iter().find(|opened| opened.id == id).map(|opened| opened.owner)
                }
                _ => None,
            };
            wanted.extend(key.filter(|key| !wanted.contains(key)));
        }
        wanted.into_iter().map(|key| &keys()[key]).collect()
    }

    /// A transaction with those legs, signed by whoever has to.
    pub(crate) fn signed(&mut self, now: Timestamp, kind: Kind, legs: Vec<Leg>) -> Transaction {
        let signers = self.signers(kind, &legs);
        let mut transaction = Transaction::new(kind, &self.terms(now), legs);
        signers.iter().for_each(|key| transaction.sign(&self.network.id, key));
        transaction
    }

    /// Something that a client or an institution might want.
    pub(crate) fn next(&mut self, now: Timestamp, next: Next<'_>) -> (Transaction, Expected) {
        let (kind, legs) = match self.rng.below(20) {
            0..=8 => (Kind::Transfer, self.payments(1)),
            9..=11 => (Kind::Transfer, self.payments(2)),
            12..=13 => {
                let payments = self.rng.between(3, 9);
                (Kind::Transfer, self.payments(payments))
            }
            14 => (Kind::Issue, self.issue()),
            15 => (Kind::Redeem, path::reverse(self.issue())),
            16 => (Kind::Issue, self.reserves()),
            17 => (Kind::Redeem, path::reverse(self.reserves())),
            _ => return (self.order(now, next), Expected::Order),
        };
        if legs.is_empty() {
            return (self.order(now, next), Expected::Order);
        }
        (self.signed(now, kind, legs), Expected::Order)
    }

    /// Several payments as one transaction, netted: payment versus payment, delivery versus payment,
    /// a payroll.
    pub(crate) fn payments(&mut self, count: u64) -> Vec<Leg> {
        let mut legs = Vec::new();
        for _ in 0..count {
            if let Some((from, to)) = self.pair() {
                let amount = self.amount();
                legs.extend(path::payment(&self.network, from.id, to.id, from.asset, amount));
            }
        }
        let mut netted: Vec<Leg> = Vec::new();
        for leg in legs {
            let same =
                |other: &&mut Leg| other.participant == leg.participant && other.account == leg.account;
            match netted.iter_mut().find(same) {
                Some(other) => other.amount = Amount(other.amount.0.saturating_add(leg.amount.0)),
                None => netted.push(leg),
            }
        }
        netted.retain(|leg| leg.amount != Amount::ZERO);
        let fits = netted.len() <= MAX_LEGS
            && netted.iter().all(|leg| leg.amount.0.unsigned_abs() <= Amount::MAX_LEG.0.unsigned_abs());
        if fits { netted } else { Vec::new() }
    }

    fn issue(&mut self) -> Vec<Leg> {
        let account = self.account();
        let amount = self.amount();
        path::issue(account.id, account.asset, amount)
    }

    fn reserves(&mut self) -> Vec<Leg> {
        let (bank, asset) = (self.bank(), self.asset());
        if self.network.assets[asset.index()].settled_at == bank {
            return Vec::new();
        }
        let amount = self.amount();
        path::issue_reserves(&self.network, bank, asset, amount)
    }

    /// An order as a transaction, signed by its institution.
    pub(crate) fn ordered(&mut self, now: Timestamp, order: AccountOrder) -> Transaction {
        let signer = &keys()[order.participant.index()];
        let mut transaction = Transaction::account(&self.terms(now), order);
        transaction.sign(&self.network.id, signer);
        transaction
    }

    /// An account order that may be possible.
    pub(crate) fn order(&mut self, now: Timestamp, next: Next<'_>) -> Transaction {
        let account = self.account();
        let action = match self.rng.below(12) {
            0..=2 => {
                let bank = self.bank();
                let asset = self.asset();
                let order = self.opening(next, bank, asset);
                return self.ordered(now, order);
            }
            3 => AccountAction::Freeze,
            4..=7 => AccountAction::Release,
            8 => AccountAction::Close,
            _ => AccountAction::SetFloor(Amount(-(i64::try_from(self.rng.below(6)).expect("small") * 40))),
        };
        self.ordered(
            now,
            AccountOrder { participant: account.id.participant, number: account.id.number, action },
        )
    }

    /// Opens the next account at a bank, or a few.
    pub(crate) fn opening(&mut self, next: Next<'_>, bank: ParticipantId, asset: AssetId) -> AccountOrder {
        self.opening_at(bank, asset, next(bank))
    }

    pub(crate) fn opening_at(
        &mut self,
        participant: ParticipantId,
        asset: AssetId,
        number: AccountNumber,
    ) -> AccountOrder {
        let owner = FIRST_CUSTOMER + self.rng.index(keys().len() - FIRST_CUSTOMER);
        let count = if self.rng.chance(1, 4) { 3 } else { 1 };
        let alias = match self.rng.below(3) {
            0 if count == 1 => {
                // Sometimes one that is taken.
                self.aliases += self.rng.below(2);
                format!("DE{:020}", self.aliases)
            }
            _ => String::new(),
        };
        let floor = if self.rng.chance(1, 4) { Amount(-100) } else { Amount::ZERO };
        let owner = keys()[owner].public_key();
        let action = AccountAction::Open { count, asset, owner, floor, alias };
        AccountOrder { participant, number, action }
    }

    /// Learns which accounts clients were told are open.
    pub(crate) fn learn(&mut self, clients: &Clients) {
        let made = |known: &&Known| known.told.is_some_and(|(finality, _)| finality.verdict.is_ok());
        let orders = clients.known.iter().filter(made).filter_map(|known| known.transaction.order.as_ref());
        self.learn_from(orders);
    }

    /// Learns which accounts are open from the orders that were made.
    pub(crate) fn learn_from<'a>(&mut self, orders: impl Iterator<Item = &'a AccountOrder>) {
        self.opened.clear();
        for order in orders {
            if let AccountAction::Open { count, asset, owner, .. } = &order.action {
                let owner = index_of(owner);
                for number in (order.number.0..).take(*count as usize).map(AccountNumber) {
                    let id = AccountId { participant: order.participant, number };
                    self.opened.push(Opened { id, asset: *asset, owner });
                }
            }
        }
    }
}

fn index_of(key: &PublicKey) -> usize {
    keys().iter().position(|known| known.public_key() == *key).expect("accounts are opened for known keys")
}
