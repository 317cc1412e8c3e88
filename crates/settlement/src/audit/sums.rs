//! The sums of the engine's own books, as a desk shows them. An audit does not use them: it compares its own with these.

use crate::accounts::AccountTable;
use crate::engine::Total;
use tally_ledger::{AccountNumber, AccountRole, AssetId, Network};

/// The sums of one participant's books.
pub fn totals(accounts: &AccountTable, network: &Network) -> Vec<Total> {
    let mut totals: Vec<Total> = (0u16..)
        .map(AssetId)
        .take(network.assets.len())
        .map(|asset| Total {
            participant: accounts.participant(),
            asset,
            accounts: 0,
            customers: 0,
            own: 0,
            issued: 0,
            settlement: 0,
        })
        .collect();
    for (number, account) in accounts.iter() {
        let total = &mut totals[account.asset.index()];
        let balance = i128::from(account.balance);
        match number.role() {
            AccountRole::Customer => {
                total.accounts += 1;
                total.customers += balance;
            }
            AccountRole::Own(_) => total.own += balance,
            AccountRole::Issuance(_) => total.issued -= balance,
            AccountRole::Settlement(..) => total.settlement += balance,
        }
    }
    totals
}

/// Books that do not match: what a participant's accounts sum to is not what its settlement account holds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "participant {participant}'s accounts in asset {asset} sum to {sum}, its settlement account holds {settlement}"
)]
pub struct BooksDiffer {
    /// BIC.
    pub participant: String,
    /// Code.
    pub asset: String,
    /// Of all accounts of the partition.
    pub sum: i128,
    /// At the asset's settlement institution.
    pub settlement: i128,
}

/// Checks that each participant's accounts sum to its settlement account, and to nothing at the
/// asset's settlement institution itself. The tables are all participants', in their order.
///
/// # Errors
/// The first that does not.
pub fn books_match(tables: &[&AccountTable], network: &Network) -> Result<(), BooksDiffer> {
    for table in tables {
        for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
            let settlement = if properties.settled_at == table.participant() {
                0
            } else {
                let number = AccountNumber::settlement(asset, table.participant());
                let at = tables[properties.settled_at.index()].get(number);
                i128::from(at.map_or(0, |account| account.balance))
            };
            let sum = table.sum(asset);
            if sum != settlement {
                return Err(BooksDiffer {
                    participant: network.participants[table.participant().index()].bic.clone(),
                    asset: properties.code.clone(),
                    sum,
                    settlement,
                });
            }
        }
    }
    Ok(())
}
