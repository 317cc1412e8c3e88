//! The naive ledger: a map of balances and the rules of settlement, written from the design and not
//! from the settlement code. It applies what the sequence says, one transaction at a time, and refuses
//! whatever breaks an invariant.

use std::collections::{BTreeMap, HashMap};
use tally_crypto::PublicKey;
use tally_ledger::order::AccountAction;
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, AccountRole, AccountStatus, AssetId, Kind, Network,
    ParticipantId, SignaturePolicy, Timestamp, Transaction, Uetr,
};

/// An account with all that is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) asset: AssetId,
    pub(crate) balance: i128,
    pub(crate) status: AccountStatus,
    pub(crate) floor: i128,
    pub(crate) owner: Option<PublicKey>,
    pub(crate) movements: Vec<Movement>,
}

/// One line of an account's statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Movement {
    pub(crate) sequence: u64,
    pub(crate) timestamp: Timestamp,
    pub(crate) uetr: Uetr,
    pub(crate) amount: i64,
    pub(crate) balance: i128,
}

/// All accounts of all participants.
pub(crate) struct Ledger {
    network: Network,
    pub(crate) accounts: BTreeMap<AccountId, Held>,
    pub(crate) aliases: HashMap<(ParticipantId, String), AccountNumber>,
    next: Vec<u32>,
    /// Who lies: what it does to its own accounts is its own affair.
    liar: Option<ParticipantId>,
}

const LOWEST: i128 = -(1 << 62);

impl Ledger {
    pub(crate) fn new(network: &Network) -> Self {
        let mut accounts = BTreeMap::new();
        for (participant, _) in (0u16..).map(ParticipantId).zip(&network.participants) {
            for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
                let mut add = |number, floor| {
                    let held = Held {
                        asset,
                        balance: 0,
                        status: AccountStatus::Open,
                        floor,
                        owner: None,
                        movements: Vec::new(),
                    };
                    accounts.insert(AccountId { participant, number }, held);
                };
                add(AccountNumber::issuance(asset), LOWEST);
                add(AccountNumber::own(asset), 0);
                if properties.settled_at == participant {
                    for (holder, of) in (0u16..).map(ParticipantId).zip(&network.participants) {
                        let floors = of.settlement_floors.iter();
                        let floor: i64 = floors.filter(|(of, _)| *of == asset).map(|(_, f)| f.0).sum();
                        add(AccountNumber::settlement(asset, holder), i128::from(floor));
                    }
                }
            }
        }
        let next = vec![0; network.participants.len()];
        Self { network: network.clone(), accounts, aliases: HashMap::new(), next, liar: None }
    }

    /// Of whose books nothing is expected: its own approver says yes to what it likes.
    pub(crate) fn expect_nothing_of(&mut self, liar: ParticipantId) {
        self.liar = Some(liar);
    }

    pub(crate) fn next_account(&self, participant: ParticipantId) -> u32 {
        self.next[participant.index()]
    }

    /// Makes a transaction true that the sequence says was made.
    ///
    /// # Errors
    /// When it should never have been.
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        sequence: u64,
        timestamp: Timestamp,
    ) -> Result<(), String> {
        if transaction.header.network != self.network.id.tag() {
            return Err("it is for another network".into());
        }
        if let Some(order) = &transaction.order {
            return self.order(transaction, order);
        }
        self.is_balanced(transaction)?;
        self.is_issued_by_issuer(transaction)?;
        for leg in &transaction.legs {
            let id = AccountId { participant: leg.participant, number: leg.account };
            if self.liar == Some(leg.participant) {
                continue;
            }
            let held = self.accounts.get_mut(&id).ok_or_else(|| format!("account {id} does not exist"))?;
            if held.status == AccountStatus::Closed {
                return Err(format!("account {id} is closed"));
            }
            if held.asset != leg.asset {
                return Err(format!("account {id} holds another asset"));
            }
            let needs = self.network.signatures == SignaturePolicy::Required
                || transaction.header.kind != Kind::Transfer.number();
            let institution = self.network.participants[leg.participant.index()].key;
            let wanted = match id.number.role() {
                AccountRole::Issuance(_) => Some(institution),
                AccountRole::Own(_) if needs && leg.amount.0 < 0 => Some(institution),
                AccountRole::Customer if needs && leg.amount.0 < 0 => held.owner,
                _ => None,
            };
            if wanted.is_some_and(|wanted| transaction.signers.iter().all(|signer| signer.key != wanted)) {
                return Err(format!("the owner of {id} did not sign"));
            }
            held.balance += i128::from(leg.amount.0);
            if leg.amount.0 < 0 && held.balance < held.floor {
                return Err(format!("account {id} goes to {}, below {}", held.balance, held.floor));
            }
            if !(LOWEST..=-LOWEST).contains(&held.balance) {
                return Err(format!("account {id} goes to {}, out of range", held.balance));
            }
            held.movements.push(Movement {
                sequence,
                timestamp,
                uetr: transaction.header.uetr,
                amount: leg.amount.0,
                balance: held.balance,
            });
        }
        Ok(())
    }

    /// Invariant 1: what a participant owes changes as its settlement account does.
    fn is_balanced(&self, transaction: &Transaction) -> Result<(), String> {
        let mut owed: HashMap<(ParticipantId, AssetId), i128> = HashMap::new();
        let mut settled: HashMap<(ParticipantId, AssetId), i128> = HashMap::new();
        for leg in &transaction.legs {
            let amount = i128::from(leg.amount.0);
            *owed.entry((leg.participant, leg.asset)).or_default() += amount;
            if let AccountRole::Settlement(asset, holder) = leg.account.role() {
                *settled.entry((holder, asset)).or_default() += amount;
            }
        }
        for (participant, asset) in owed.keys().chain(settled.keys()) {
            let at = self.network.assets[asset.index()].settled_at;
            let owed = owed.get(&(*participant, *asset)).copied().unwrap_or(0);
            let settled = settled.get(&(*participant, *asset)).copied().unwrap_or(0);
            let wanted = if *participant == at { 0 } else { settled };
            if owed != wanted {
                return Err(format!("participant {participant:?} owes {owed} more, and gets {wanted}"));
            }
        }
        Ok(())
    }

    fn is_issued_by_issuer(&self, transaction: &Transaction) -> Result<(), String> {
        let mut sign = 0;
        for leg in &transaction.legs {
            if let AccountRole::Issuance(_) = leg.account.role() {
                sign = leg.amount.0.signum();
            }
        }
        let wanted = match sign {
            0 => Kind::Transfer,
            1 => Kind::Redeem,
            _ => Kind::Issue,
        };
        if transaction.header.kind == wanted.number() {
            Ok(())
        } else {
            Err(format!("kind {} moves an issuance account by {sign}", transaction.header.kind))
        }
    }

    fn order(&mut self, transaction: &Transaction, order: &AccountOrder) -> Result<(), String> {
        if self.liar == Some(order.participant) {
            return Ok(());
        }
        let key = self.network.participants[order.participant.index()].key;
        if transaction.signers.iter().all(|signer| signer.key != key) {
            return Err("an account order that the institution did not sign".into());
        }
        let id = AccountId { participant: order.participant, number: order.number };
        if let AccountAction::Open { count, asset, owner, floor, alias } = &order.action {
            let next = &mut self.next[order.participant.index()];
            if order.number.0 != *next {
                return Err(format!("account {id} is opened, {next} is next"));
            }
            *next += count;
            for number in order.number.0..*next {
                let held = Held {
                    asset: *asset,
                    balance: 0,
                    status: AccountStatus::Open,
                    floor: i128::from(floor.0),
                    owner: Some(*owner),
                    movements: Vec::new(),
                };
                let id = AccountId { number: AccountNumber(number), ..id };
                self.accounts.insert(id, held);
            }
            if !alias.is_empty()
                && self.aliases.insert((order.participant, alias.clone()), order.number).is_some()
            {
                return Err(format!("alias {alias} is given twice"));
            }
            return Ok(());
        }
        let held = self.accounts.get_mut(&id).ok_or_else(|| format!("account {id} does not exist"))?;
        if held.status == AccountStatus::Closed {
            return Err(format!("account {id} is closed and ordered to change"));
        }
        match &order.action {
            AccountAction::Freeze => held.status = AccountStatus::Frozen,
            AccountAction::Release => held.status = AccountStatus::Open,
            AccountAction::Close if held.balance != 0 => {
                return Err(format!("account {id} is closed with {} in it", held.balance));
            }
            AccountAction::Close => held.status = AccountStatus::Closed,
            AccountAction::SetFloor(floor) if held.balance < i128::from(floor.0) => {
                return Err(format!("account {id} holds {}, less than its new floor", held.balance));
            }
            AccountAction::SetFloor(floor) => held.floor = i128::from(floor.0),
            AccountAction::Open { .. } => {}
        }
        Ok(())
    }

    /// Every participant's books match its settlement account, for every asset.
    pub(crate) fn books_match(&self) -> Result<(), String> {
        for (asset, properties) in (0u16..).map(AssetId).zip(&self.network.assets) {
            for participant in (0u16..).map(ParticipantId).take(self.network.participants.len()) {
                if self.liar.is_some_and(|liar| liar == participant || liar == properties.settled_at) {
                    continue;
                }
                let sum: i128 = self
                    .accounts
                    .iter()
                    .filter(|(id, held)| id.participant == participant && held.asset == asset)
                    .map(|(_, held)| held.balance)
                    .sum();
                let number = AccountNumber::settlement(asset, participant);
                let at = AccountId { participant: properties.settled_at, number };
                let wanted =
                    if properties.settled_at == participant { 0 } else { self.accounts[&at].balance };
                if sum != wanted {
                    return Err(format!(
                        "{participant:?} has {sum} of {asset:?} on its books, {wanted} settled"
                    ));
                }
            }
        }
        Ok(())
    }
}
