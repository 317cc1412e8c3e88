//! `tally transfer FROM TO AMOUNT ASSET`

use super::{Ended, print};
use crate::connection::{Connection, ConnectionArguments};
use anyhow::{Context, ensure};
use tally_ledger::transaction::Kind;
use tally_ledger::{AccountId, Amount, AssetId, Leg};
use tally_settlement::path;

/// Arguments of `tally transfer`.
#[derive(Debug, clap::Args)]
pub(super) struct Transfer {
    /// The account that pays, as BIC/ACCOUNT
    from: String,
    /// The account that is paid, as BIC/ACCOUNT
    to: String,
    /// How much, such as 10.50
    amount: String,
    /// Currency code or ISIN
    asset: String,
}

impl Transfer {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = connection.connect()?;
        let legs = payment(&connection, &self.from, &self.to, &self.amount, &self.asset)?;
        Ok(print::outcome(&connection.transact(Kind::Transfer, legs)?))
    }
}

/// The legs of one payment as the command line names it.
pub(super) fn payment(
    connection: &Connection,
    from: &str,
    to: &str,
    amount: &str,
    asset: &str,
) -> anyhow::Result<Vec<Leg>> {
    let (from, to): (AccountId, AccountId) = (connection.account(from)?, connection.account(to)?);
    ensure!(from != to, "both accounts are the same");
    let (asset, amount) = quantity(connection, amount, asset)?;
    Ok(path::payment(&connection.network, from, to, asset, amount))
}

/// An amount of an asset as the command line names it; more than zero.
pub(super) fn quantity(
    connection: &Connection,
    amount: &str,
    asset: &str,
) -> anyhow::Result<(AssetId, Amount)> {
    let found = connection.network.asset(asset);
    let (id, asset) = found.with_context(|| format!("the network has no asset {asset}"))?;
    let amount = Amount::parse(amount, asset.exponent)?;
    ensure!(amount > Amount::ZERO, "an amount above zero is wanted");
    Ok((id, amount))
}
