//! `tally account open | freeze | release | close | limit`

use super::{Ended, print, transfer};
use crate::connection::{Connection, ConnectionArguments, batch_of, one};
use crate::{keys, name};
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};
use tally_crypto::PublicKey;
use tally_crypto::keystore::ScryptCost;
use tally_gateway::wire::{OutcomeView, Status};
use tally_ledger::order::AccountAction;
use tally_ledger::{AccountNumber, AccountOrder, Amount, ParticipantId, Refusal, Transaction};

/// How often an order to open an account may be overtaken by another before it is given up.
const OVERTAKEN: usize = 50;
/// How long the order that came first is given to take effect.
const DECIDED_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Orders of an institution for the accounts in its books, signed with its key.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Account {
    /// Open an account
    Open(Open),
    /// Stop payments from and to an account
    Freeze(Named),
    /// End a freeze
    Release(Named),
    /// Close an empty account for ever
    Close(Named),
    /// Set how far below zero an account may go
    Limit(Limit),
}

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// The institution
    bic: String,
    /// IBAN, alias or number
    account: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct Limit {
    #[command(flatten)]
    named: Named,
    /// How far below zero, such as 500.00
    amount: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct Open {
    /// The institution
    bic: String,
    /// IBAN or other alias by which payments find it
    alias: String,
    /// Currency code or ISIN
    asset: String,
    /// Public key of the owner, in hexadecimal
    #[arg(long, value_name = "HEX", conflicts_with = "key")]
    owner: Option<PublicKey>,
    /// Name of the owner's key in the network's directory; without it, the alias. Made if there is none
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// How far below zero it may go, such as 500.00
    #[arg(long, value_name = "AMOUNT")]
    overdraft: Option<String>,
}

impl Account {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = connection.connect()?;
        let (participant, number, action) = match self {
            Self::Open(open) => open.order(&connection)?,
            Self::Freeze(named) => named.order(&connection, AccountAction::Freeze)?,
            Self::Release(named) => named.order(&connection, AccountAction::Release)?,
            Self::Close(named) => named.order(&connection, AccountAction::Close)?,
            Self::Limit(limit) => {
                let asset = connection.client.account(&limit.named.bic, &limit.named.account)?.asset;
                let floor = floor(&connection, &limit.amount, &asset)?;
                limit.named.order(&connection, AccountAction::SetFloor(floor))?
            }
        };
        let mut order = AccountOrder { participant, number, action };
        let mut outcome = send(&connection, &order)?;
        for _ in 0..OVERTAKEN {
            match next_free(&connection, &order, &outcome)? {
                Some(number) => order.number = number,
                None => break,
            }
            outcome = send(&connection, &order)?;
        }
        Ok(print::outcome(&outcome))
    }
}

/// Signs an order with the institution's key and hands it in.
fn send(connection: &Connection, order: &AccountOrder) -> anyhow::Result<OutcomeView> {
    let mut transaction = Transaction::account(&connection.terms()?, order.clone());
    let key = connection.network.participants[order.participant.index()].key;
    connection.sign(&mut transaction, &[key])?;
    one(connection.client.order(&batch_of(&transaction)?)?.outcomes)
}

/// The next free number, where an order to open an account was refused because another one got its number: orders
/// name the number they take, so that of two made at the same time one comes too late.
fn next_free(
    connection: &Connection,
    order: &AccountOrder,
    outcome: &OutcomeView,
) -> anyhow::Result<Option<AccountNumber>> {
    let AccountAction::Open { alias, .. } = &order.action else { return Ok(None) };
    let does_not_fit =
        outcome.reason.as_ref().is_some_and(|r| r.code == Refusal::OrderNotPossible.iso_code());
    let bic = &connection.network.participants[order.participant.index()].bic;
    if outcome.status != Status::Refused || !does_not_fit || connection.client.account(bic, alias).is_ok() {
        return Ok(None);
    }
    let deadline = Instant::now() + DECIDED_WITHIN;
    loop {
        let next = AccountNumber(connection.client.books(bic)?.next_account);
        if next != order.number {
            return Ok(Some(next));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

type Order = (ParticipantId, AccountNumber, AccountAction);

impl Named {
    fn order(&self, connection: &Connection, action: AccountAction) -> anyhow::Result<Order> {
        let participant = connection.participant(&self.bic)?;
        let number = AccountNumber(connection.client.account(&self.bic, &self.account)?.number);
        Ok((participant, number, action))
    }
}

impl Open {
    fn order(&self, connection: &Connection) -> anyhow::Result<Order> {
        ensure!(
            name::is_alias(&self.alias),
            "'{}' cannot be an alias: 1 to 128 bytes without space",
            self.alias
        );
        let participant = connection.participant(&self.bic)?;
        let (asset, _) = connection
            .network
            .asset(&self.asset)
            .with_context(|| format!("the network has no asset {}", self.asset))?;
        let floor = match &self.overdraft {
            Some(amount) => floor(connection, amount, &self.asset)?,
            None => Amount::ZERO,
        };
        let owner = match self.owner {
            Some(owner) => owner,
            None => {
                let (directory, passphrase) =
                    (connection.layout()?.customer_keys(), connection.passphrase()?);
                let name = self.key.as_deref().unwrap_or(&self.alias);
                keys::find_or_create(&directory, name, &passphrase, ScryptCost::DEFAULT)?
            }
        };
        let number = AccountNumber(connection.client.books(&self.bic)?.next_account);
        let alias = self.alias.clone();
        Ok((participant, number, AccountAction::Open { count: 1, asset, owner, floor, alias }))
    }
}

/// The floor that a limit of that amount means.
fn floor(connection: &Connection, amount: &str, asset: &str) -> anyhow::Result<Amount> {
    if amount.bytes().all(|byte| matches!(byte, b'0' | b'.')) && !amount.is_empty() {
        return Ok(Amount::ZERO);
    }
    let (_, amount) = transfer::quantity(connection, amount, asset)?;
    amount.checked_neg().context("the amount does not fit")
}
