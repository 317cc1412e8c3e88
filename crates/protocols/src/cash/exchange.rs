//! Pay what an amount of one currency is worth in another, by the rate of an oracle.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::oracle::{self, Rate};
use tally_contracts::{Amount, Currency, Name, TransactionBuilder, TransactionId, cash};
use tally_flows::{Context, Flow, FlowError};

use super::coins;
use crate::build::{build, notary, refused, verify_and_sign};
use crate::finalise::finalise;
use crate::oracle::Asked;

/// What is paid to whom, by whose rate.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CashPayAtRateArguments {
    /// What the payment shall be worth.
    pub amount: Amount,
    /// The currency in which it is paid.
    pub currency: Currency,
    /// To whom.
    pub to: Name,
    /// Whose rate is used.
    pub oracle: Name,
    /// Whose cash is paid; if absent, what `[cash] issuers` lists, or else this node's own, or else the
    /// only one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only coins of this notary are paid; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// A payment at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct PaidAtRate {
    /// The transaction, recorded here and by the payee.
    pub transaction: TransactionId,
    /// What was paid.
    pub paid: Amount,
    /// The rate, which is part of the transaction.
    pub rate: Rate,
}

/// Pays in one currency what an amount of another is worth. The rate is part of the transaction and signed by the
/// oracle, who learns of it that rate and who signs it.
pub struct CashPayAtRate;

impl Flow for CashPayAtRate {
    const NAME: &'static str = "CashPayAtRate";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("amount", "what the payment shall be worth, such as 100.00 EUR"),
        ("currency", "the currency in which it is paid, such as USD"),
        ("to", "who receives it, such as O=PartyB, L=London, C=GB"),
        ("oracle", "whose rate is used, such as O=Oracle, L=London, C=GB"),
        (
            "issuer",
            "whose cash is paid; if absent, by [cash] issuers, or else this node's own, or the only one",
        ),
        ("notary", "only coins of this notary; the network's first if absent"),
    ];
    type Arguments = CashPayAtRateArguments;
    type Output = PaidAtRate;

    async fn run(context: Context, arguments: CashPayAtRateArguments) -> Result<PaidAtRate, FlowError> {
        let CashPayAtRateArguments { amount, currency, to, oracle, issuer, notary: notary_name } = arguments;
        let asked = Asked::rate(&context, amount.currency(), currency, &oracle).await?;
        let rate = asked.rate;
        context.step("Building");
        let paid = rate.convert(amount).map_err(|error| refused(&error))?;
        let notary = notary(&context, notary_name.as_ref()).await?;
        let to = context.party(&to).await?;
        let coins = coins(&context, paid, issuer.as_ref(), &notary).await?;
        let builder = cash::pay(
            TransactionBuilder::new(context.network(), notary),
            &coins,
            paid,
            to.key,
            context.me().key,
            1,
        )
        .map_err(|error| refused(&error))?;
        let builder = oracle::quote(builder, rate, asked.oracle.key);
        let states: Vec<_> = coins.into_iter().map(|coin| coin.state).collect();
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        let transaction = asked.sign(&context, &transaction).await?;
        let transaction = finalise(&context, transaction, &[to], &[]).await?;
        Ok(PaidAtRate { transaction: transaction.id(), paid, rate })
    }
}
