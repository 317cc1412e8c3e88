//! `tally redeem ACCOUNT AMOUNT ASSET`

use super::{Ended, issue, print};
use crate::connection::ConnectionArguments;
use tally_ledger::transaction::Kind;
use tally_settlement::path;

/// Arguments of `tally redeem`.
#[derive(Debug, clap::Args)]
pub(super) struct Redeem {
    /// Where it is taken from, as BIC/ACCOUNT: the institution of that BIC redeems. On settlement:EUR:BIC the
    /// holder's own funds shrink with it
    account: String,
    /// How much, such as 10.50
    amount: String,
    /// Currency code or ISIN
    asset: String,
}

impl Redeem {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = connection.connect()?;
        let legs = path::reverse(issue::issuance(&connection, &self.account, &self.amount, &self.asset)?);
        Ok(print::outcome(&connection.transact(Kind::Redeem, legs)?))
    }
}
