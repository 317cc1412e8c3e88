//! The accounts of one participant as a table: dense arrays, so that finding one is one memory access.

use std::collections::HashMap;
use tally_crypto::PublicKey;
use tally_ledger::account::{Account, AccountStatus};
use tally_ledger::order::{AccountAction, AccountOrder};
use tally_ledger::{AccountNumber, AccountRole, Amount, AssetId, Network, ParticipantId};

/// No balance leaves ±2^62, so that reservations and releases in flight never overflow 64 bits.
pub const BALANCE_RANGE: i64 = 1 << 62;

/// The accounts of one participant's partition.
///
/// In a state updater `balance` is what the account holds; in an approver it is what is available.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountTable {
    participant: ParticipantId,
    assets: usize,
    holders: usize,
    /// By account number.
    pub(crate) customers: Vec<Account>,
    /// By asset and slot: issuance, own, and one settlement account for each participant.
    pub(crate) institution: Vec<Account>,
    /// Agreed floors other than zero, by account number.
    pub(crate) floors: HashMap<AccountNumber, Amount>,
    /// Keys of customers' accounts by [`Account::owner`]; equal neighbours share one.
    pub(crate) owners: Vec<PublicKey>,
}

impl AccountTable {
    /// The institution's own accounts, all empty, and no customers yet.
    pub fn new(network: &Network, participant: ParticipantId) -> Self {
        let (assets, holders) = (network.assets.len(), network.participants.len());
        let slots = holders + 2;
        let mut table = Self {
            participant,
            assets,
            holders,
            customers: Vec::new(),
            institution: Vec::with_capacity(assets * slots),
            floors: HashMap::new(),
            owners: Vec::new(),
        };
        for asset in (0u16..).take(assets).map(AssetId) {
            table.institution.extend((0..slots).map(|_| Account::open(asset, 0)));
        }
        table.agree_floors(network);
        table
    }

    /// Takes the floors of institutions' accounts from the configuration.
    pub fn agree_floors(&mut self, network: &Network) {
        self.floors.retain(|number, _| !number.is_institution());
        for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
            self.set_floor(AccountNumber::issuance(asset), Amount(-BALANCE_RANGE));
            if properties.settled_at == self.participant {
                for holder in (0u16..).map(ParticipantId).take(network.participants.len()) {
                    let floor = network.settlement_floor(holder, asset);
                    self.set_floor(AccountNumber::settlement(asset, holder), floor);
                }
            }
        }
    }

    /// Whose partition it is.
    pub fn participant(&self) -> ParticipantId {
        self.participant
    }

    fn slot(&self, number: AccountNumber) -> Option<usize> {
        let (asset, slot) = match number.role() {
            AccountRole::Customer => return None,
            AccountRole::Issuance(asset) => (asset, 0),
            AccountRole::Own(asset) => (asset, 1),
            AccountRole::Settlement(asset, holder) => (asset, 2 + holder.index()),
        };
        let slots = self.holders + 2;
        (asset.index() < self.assets && slot < slots).then(|| asset.index() * slots + slot)
    }

    /// The account, if there is one.
    #[inline]
    pub fn get(&self, number: AccountNumber) -> Option<&Account> {
        if number.is_institution() {
            self.institution.get(self.slot(number)?)
        } else {
            self.customers.get(number.0 as usize)
        }
    }

    /// The account, if there is one.
    #[inline]
    pub fn get_mut(&mut self, number: AccountNumber) -> Option<&mut Account> {
        if number.is_institution() {
            let slot = self.slot(number)?;
            self.institution.get_mut(slot)
        } else {
            self.customers.get_mut(number.0 as usize)
        }
    }

    /// How far below zero the account may go.
    #[inline]
    pub fn floor(&self, number: AccountNumber, account: &Account) -> Amount {
        if account.has_floor() {
            self.floors.get(&number).copied().unwrap_or(Amount::ZERO)
        } else {
            Amount::ZERO
        }
    }

    /// Agrees how far below zero the account may go.
    pub fn set_floor(&mut self, number: AccountNumber, floor: Amount) {
        if floor == Amount::ZERO {
            self.floors.remove(&number);
        } else {
            self.floors.insert(number, floor);
        }
        if let Some(account) = self.get_mut(number) {
            account.set_has_floor(floor != Amount::ZERO);
        }
    }

    /// The key that debits a customer's account.
    pub fn owner(&self, account: &Account) -> Option<&PublicKey> {
        self.owners.get(account.owner as usize)
    }

    /// How many customers' accounts there are; the number of the next one.
    pub fn customers(&self) -> u32 {
        u32::try_from(self.customers.len()).expect("opening checks the limit of 2^31")
    }

    /// Adds to an account's balance.
    ///
    /// # Panics
    /// When there is no such account or the sum leaves the range: approval rules both out, so that
    /// either is a broken invariant.
    #[inline]
    pub fn apply(&mut self, number: AccountNumber, amount: Amount) {
        let account = self.get_mut(number).expect("approved legs are on accounts that exist");
        account.balance = account.balance.checked_add(amount.0).expect("approved sums stay in range");
    }

    /// Reads accounts ahead of use, so that their cache misses overlap.
    #[inline]
    pub fn touch(&self, numbers: impl Iterator<Item = AccountNumber>) {
        let mut sum = 0i64;
        for number in numbers {
            if let Some(account) = self.customers.get(number.0 as usize) {
                sum ^= account.balance;
            }
        }
        std::hint::black_box(sum);
    }

    /// Opens `count` accounts after the last.
    pub fn open(&mut self, count: u32, asset: AssetId, owner: PublicKey, floor: Amount) {
        if self.owners.last() != Some(&owner) {
            self.owners.push(owner);
        }
        let owner = u32::try_from(self.owners.len() - 1).expect("at most one owner an account");
        let first = self.customers();
        self.customers.resize(self.customers.len() + count as usize, Account::open(asset, owner));
        if floor != Amount::ZERO {
            for number in first..first + count {
                self.set_floor(AccountNumber(number), floor);
            }
        }
    }

    /// Whether a decided order can be made true: accounts are opened in the order of their numbers, and changed once they
    /// are there.
    pub fn takes(&self, order: &AccountOrder) -> bool {
        match order.action {
            AccountAction::Open { .. } => order.number.0 == self.customers(),
            _ => order.participant == self.participant && self.get(order.number).is_some(),
        }
    }

    /// Makes a decided order true.
    ///
    /// # Panics
    /// When the table does not [take](Self::takes) the order.
    pub fn apply_order(&mut self, order: &AccountOrder) {
        match &order.action {
            AccountAction::Open { count, asset, owner, floor, .. } => {
                assert_eq!(order.number.0, self.customers(), "accounts are opened in order");
                self.open(*count, *asset, *owner, *floor);
            }
            AccountAction::Freeze => self.set_status(order.number, AccountStatus::Frozen),
            AccountAction::Release => self.set_status(order.number, AccountStatus::Open),
            AccountAction::Close => self.set_status(order.number, AccountStatus::Closed),
            AccountAction::SetFloor(floor) => self.set_floor(order.number, *floor),
        }
    }

    fn set_status(&mut self, number: AccountNumber, status: AccountStatus) {
        self.get_mut(number).expect("approved orders are for accounts that exist").set_status(status);
    }

    /// Every account with its number: the institution's own first.
    pub fn iter(&self) -> impl Iterator<Item = (AccountNumber, &Account)> {
        let slots = self.holders + 2;
        let own = self.institution.iter().enumerate().map(move |(at, account)| {
            let number = match at % slots {
                0 => AccountNumber::issuance(account.asset),
                1 => AccountNumber::own(account.asset),
                slot => AccountNumber::settlement(
                    account.asset,
                    ParticipantId(u16::try_from(slot - 2).expect("participants are numbered in 16 bits")),
                ),
            };
            (number, account)
        });
        own.chain((0u32..).map(AccountNumber).zip(&self.customers))
    }

    /// What the partition's accounts in `asset` sum to.
    pub fn sum(&self, asset: AssetId) -> i128 {
        self.iter().filter(|(_, account)| account.asset == asset).map(|(_, a)| i128::from(a.balance)).sum()
    }
}
