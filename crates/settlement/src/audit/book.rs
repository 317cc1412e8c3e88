//! The auditor's own book of one partition. It shares no code with the tables of the engine.

use std::collections::{HashMap, HashSet};
use tally_crypto::PublicKey;
use tally_ledger::{AccountNumber, AccountRole, AssetId, Network, ParticipantId};

use super::item::Place;
use super::{Opened, OpenedAccount};

/// How far below zero an issuance account may go: 2^62 minor units, the range of every balance.
const ISSUED_AT_MOST: i64 = 1 << 62;

/// Whether an account takes part in payments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Open,
    Frozen,
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Customer {
    balance: i64,
    floor: i64,
    /// Position in [`Book::owners`].
    owner: u32,
    asset: AssetId,
    status: Status,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    balance: i64,
    floor: i64,
}

/// One account at the present place of the sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) asset: AssetId,
    pub(super) balance: i64,
    pub(super) floor: i64,
    pub(super) status: Status,
    /// Of a customer's account.
    pub(super) owner: Option<PublicKey>,
}

/// The accounts of one partition.
pub(super) struct Book {
    pub(super) participant: ParticipantId,
    customers: Vec<Customer>,
    /// By asset, then: issued, own funds, and one settlement account for each participant.
    own: Vec<Own>,
    participants: usize,
    assets: usize,
    owners: Vec<PublicKey>,
    aliases: HashSet<Box<str>>,
    /// Which decision last froze or released each account that ever was.
    changed: HashMap<u32, Place>,
}

impl Book {
    pub(super) fn new(network: &Network, participant: ParticipantId) -> Self {
        let (participants, assets) = (network.participants.len(), network.assets.len());
        let mut own = Vec::with_capacity(assets * (participants + 2));
        for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
            own.push(Own { balance: 0, floor: -ISSUED_AT_MOST });
            own.push(Own { balance: 0, floor: 0 });
            for holder in (0u16..).map(ParticipantId).take(participants) {
                let settles = properties.settled_at == participant;
                let floor = if settles { network.settlement_floor(holder, asset).0 } else { 0 };
                own.push(Own { balance: 0, floor });
            }
        }
        Self {
            participant,
            customers: Vec::new(),
            own,
            participants,
            assets,
            owners: Vec::new(),
            aliases: HashSet::new(),
            changed: HashMap::new(),
        }
    }

    /// Takes the accounts of a partition as they were saved.
    pub(super) fn restore(&mut self, opened: Opened) {
        for account in opened.customers {
            let OpenedAccount { asset, owner, balance, floor, frozen, closed } = account;
            self.open(1, asset, owner, floor);
            if let Some(customer) = self.customers.last_mut() {
                customer.balance = balance;
                customer.status = match (closed, frozen) {
                    (true, _) => Status::Closed,
                    (_, true) => Status::Frozen,
                    _ => Status::Open,
                };
            }
        }
        for (number, balance) in opened.own {
            self.set_balance(number, balance);
        }
        self.aliases = opened.aliases.into_iter().map(String::into_boxed_str).collect();
    }

    fn own_at(&self, number: AccountNumber) -> Option<(usize, AssetId)> {
        let (asset, slot) = match number.role() {
            AccountRole::Customer => return None,
            AccountRole::Issuance(asset) => (asset, 0),
            AccountRole::Own(asset) => (asset, 1),
            AccountRole::Settlement(asset, holder) => (asset, 2 + holder.index()),
        };
        let row = self.participants + 2;
        (asset.index() < self.assets && slot < row).then(|| (asset.index() * row + slot, asset))
    }

    /// The account, if there is one.
    pub(super) fn get(&self, number: AccountNumber) -> Option<Account> {
        if number.is_institution() {
            let (at, asset) = self.own_at(number)?;
            let Own { balance, floor } = self.own[at];
            return Some(Account { asset, balance, floor, status: Status::Open, owner: None });
        }
        let Customer { balance, floor, owner, asset, status } = *self.customers.get(number.0 as usize)?;
        let owner = self.owners.get(owner as usize).copied();
        Some(Account { asset, balance, floor, status, owner })
    }

    /// Sets the balance of an account that there is.
    pub(super) fn set_balance(&mut self, number: AccountNumber, balance: i64) {
        if !number.is_institution() {
            if let Some(customer) = self.customers.get_mut(number.0 as usize) {
                customer.balance = balance;
            }
        } else if let Some((at, _)) = self.own_at(number) {
            self.own[at].balance = balance;
        }
    }

    /// The number that the next account gets.
    pub(super) fn next(&self) -> u32 {
        u32::try_from(self.customers.len()).unwrap_or(u32::MAX)
    }

    /// Opens `count` accounts after the last.
    pub(super) fn open(&mut self, count: u32, asset: AssetId, owner: PublicKey, floor: i64) {
        if self.owners.last() != Some(&owner) {
            self.owners.push(owner);
        }
        let owner = u32::try_from(self.owners.len() - 1).unwrap_or(u32::MAX);
        let account = Customer { balance: 0, floor, owner, asset, status: Status::Open };
        self.customers.resize(self.customers.len() + count as usize, account);
    }

    /// Whether the alias was free; it is taken now.
    pub(super) fn take_alias(&mut self, alias: &str) -> bool {
        self.aliases.insert(alias.into())
    }

    pub(super) fn set_floor(&mut self, number: AccountNumber, floor: i64) {
        if let Some(customer) = self.customers.get_mut(number.0 as usize) {
            customer.floor = floor;
        }
    }

    /// Freezes, releases or closes a customer's account by the decision at that place.
    pub(super) fn set_status(&mut self, number: AccountNumber, status: Status, by: Place) {
        if let Some(customer) = self.customers.get_mut(number.0 as usize) {
            customer.status = status;
            self.changed.insert(number.0, by);
        }
    }

    /// The decision that gave the account its present status, unless it has that since it was opened.
    pub(super) fn changed(&self, number: AccountNumber) -> Option<&Place> {
        self.changed.get(&number.0)
    }

    /// Reads an account ahead of use, so that cache misses overlap.
    #[inline]
    pub(super) fn touch(&self, number: AccountNumber) -> i64 {
        self.customers.get(number.0 as usize).map_or(0, |customer| customer.balance)
    }

    /// What the accounts in each of so many assets sum to.
    pub(super) fn sums(&self, assets: usize) -> Vec<i128> {
        let mut sums = vec![0i128; assets];
        for (_, asset, balance) in self.balances() {
            if let Some(sum) = sums.get_mut(asset.index()) {
                *sum += i128::from(balance);
            }
        }
        sums
    }

    /// Every account's role, asset and balance.
    pub(super) fn balances(&self) -> impl Iterator<Item = (AccountRole, AssetId, i64)> + '_ {
        let row = self.participants + 2;
        let own = self.own.iter().enumerate().filter_map(move |(at, own)| {
            let asset = AssetId(u16::try_from(at / row).ok()?);
            let role = match at % row {
                0 => AccountRole::Issuance(asset),
                1 => AccountRole::Own(asset),
                slot => AccountRole::Settlement(asset, ParticipantId(u16::try_from(slot - 2).ok()?)),
            };
            Some((role, asset, own.balance))
        });
        own.chain(self.customers.iter().map(|c| (AccountRole::Customer, c.asset, c.balance)))
    }
}
