//! `tally issue ACCOUNT AMOUNT ASSET`

use super::{Ended, print, transfer};
use crate::connection::{Connection, ConnectionArguments};
use tally_ledger::transaction::Kind;
use tally_ledger::{AccountRole, Leg};
use tally_settlement::path;

/// Arguments of `tally issue`.
#[derive(Debug, clap::Args)]
pub(super) struct Issue {
    /// Where it goes, as BIC/ACCOUNT: the institution of that BIC issues. On settlement:EUR:BIC the holder's own
    /// funds grow with it
    account: String,
    /// How much, such as 10.50
    amount: String,
    /// Currency code or ISIN
    asset: String,
}

impl Issue {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = connection.connect()?;
        let legs = issuance(&connection, &self.account, &self.amount, &self.asset)?;
        Ok(print::outcome(&connection.transact(Kind::Issue, legs)?))
    }
}

/// The legs that issue what the command line names.
pub(super) fn issuance(
    connection: &Connection,
    account: &str,
    amount: &str,
    asset: &str,
) -> anyhow::Result<Vec<Leg>> {
    let account = connection.account(account)?;
    let (asset, amount) = transfer::quantity(connection, amount, asset)?;
    let settled_at = connection.network.assets[asset.index()].settled_at;
    Ok(match account.number.role() {
        AccountRole::Settlement(of, holder) if of == asset && account.participant == settled_at => {
            path::issue_reserves(&connection.network, holder, asset, amount)
        }
        _ => path::issue(account, asset, amount),
    })
}
