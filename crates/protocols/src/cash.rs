//! Cash: issue, pay, exit.

mod exchange;
mod exit;
mod issue;
mod pay;

use tally_contracts::cash::{CashState, Coin, asset};
use tally_contracts::{Amount, Name, Party};
use tally_flows::{Context, Filter, FlowError, Selection};

use crate::build::refused;

pub use exchange::{CashPayAtRate, CashPayAtRateArguments};
pub use exit::{AgreeToExit, CashExit, CashExitArguments};
pub use issue::{CashIssue, CashIssueArguments};
pub use pay::{CashPay, CashPayArguments};

/// How many coins are looked at to see whose cash there is.
const SAMPLE: u32 = 200;

/// Chooses coins worth `amount` and holds them for this flow.
///
/// Without an `issuer`: cash that this node issued itself if it has any, otherwise the only issuer of whom it has cash
/// in that currency.
///
/// # Errors
/// [`FlowError::Insufficient`]; [`FlowError::Refused`] when it is not clear whose cash is meant.
pub(crate) async fn coins(
    context: &Context,
    amount: Amount,
    issuer: Option<&Name>,
    notary: &Party,
) -> Result<Vec<Coin>, FlowError> {
    let select = |issuer: &Party| {
        context.select(Selection {
            asset: asset(amount.currency(), issuer),
            quantity: amount.quantity(),
            notary: Some(notary.name.clone()),
        })
    };
    let selected = match issuer {
        Some(name) if *name == context.me().name => select(context.me()).await?,
        Some(name) => select(&context.party(name).await?).await?,
        None => match select(context.me()).await {
            Err(FlowError::Insufficient { available: 0, held: 0, .. }) => {
                let issuer = only_issuer(context, amount).await?;
                select(&issuer).await?
            }
            selected => selected?,
        },
    };
    selected.into_iter().map(|state| Coin::try_from(state).map_err(|error| refused(&error))).collect()
}

async fn only_issuer(context: &Context, amount: Amount) -> Result<Party, FlowError> {
    let filter = Filter { kind: Some("cash".to_owned()), limit: SAMPLE, ..Filter::default() };
    let mut issuers: Vec<Party> = Vec::new();
    for state in context.find(filter).await? {
        let cash: CashState = state.state.read().map_err(|error| refused(&error))?;
        if cash.amount.currency() == amount.currency() && !issuers.contains(&cash.issuer) {
            issuers.push(cash.issuer);
        }
    }
    match issuers.as_slice() {
        [issuer] => Ok(issuer.clone()),
        [] => Err(FlowError::Insufficient {
            asset: amount.currency().to_string(),
            wanted: amount.quantity(),
            available: 0,
            held: 0,
        }),
        several => {
            let names: Vec<_> = several.iter().map(|issuer| format!("`{}`", issuer.name)).collect();
            Err(FlowError::refused(format!(
                "there is {} of several issuers here; give the issuer: {}",
                amount.currency(),
                names.join(" or ")
            )))
        }
    }
}
