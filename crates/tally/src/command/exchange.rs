//! `tally exchange --pay FROM TO AMOUNT ASSET --pay …`

use super::{Ended, print, transfer};
use crate::connection::ConnectionArguments;
use anyhow::{Context, ensure};
use tally_ledger::transaction::Kind;
use tally_ledger::{Amount, Leg};

/// Arguments of `tally exchange`.
#[derive(Debug, clap::Args)]
pub(super) struct Exchange {
    /// One of the payments: FROM and TO as BIC/ACCOUNT, the amount, and the currency code or ISIN
    #[arg(long = "pay", num_args = 4, value_names = ["FROM", "TO", "AMOUNT", "ASSET"], required = true,
          action = clap::ArgAction::Append)]
    payments: Vec<String>,
}

impl Exchange {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let connection = connection.connect()?;
        let mut legs = Vec::new();
        for payment in self.payments.chunks_exact(4) {
            let [from, to, amount, asset] = payment else { continue };
            let more = transfer::payment(&connection, from, to, amount, asset)?;
            merge(&mut legs, more)?;
        }
        ensure!(!legs.is_empty(), "the payments cancel each other");
        Ok(print::outcome(&connection.transact(Kind::Transfer, legs)?))
    }
}

/// Adds legs; those on one account become one, and none is of nothing.
fn merge(legs: &mut Vec<Leg>, more: Vec<Leg>) -> anyhow::Result<()> {
    for leg in more {
        let same = |other: &&mut Leg| {
            (other.participant, other.account, other.asset) == (leg.participant, leg.account, leg.asset)
        };
        match legs.iter_mut().find(same) {
            Some(known) => {
                known.amount = known.amount.checked_add(leg.amount).context("the amounts do not fit")?;
            }
            None => legs.push(leg),
        }
    }
    legs.retain(|leg| leg.amount != Amount::ZERO);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_ledger::{AccountNumber, AssetId, ParticipantId};

    #[test]
    fn legs_on_one_account_become_one() {
        let leg = |account, amount| Leg {
            participant: ParticipantId(1),
            asset: AssetId(0),
            account: AccountNumber(account),
            amount: Amount(amount),
        };
        let mut legs = Vec::new();
        merge(&mut legs, vec![leg(1, -5), leg(2, 5)]).unwrap();
        merge(&mut legs, vec![leg(1, -2), leg(3, 2)]).unwrap();
        merge(&mut legs, vec![leg(2, -5), leg(3, 5)]).unwrap();
        assert_eq!(legs, [leg(1, -7), leg(3, 7)]);
        assert!(merge(&mut legs, vec![leg(3, i64::MAX)]).is_err());
    }
}
