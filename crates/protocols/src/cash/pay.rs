//! Pay: coins of this node become coins of another.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::{Amount, Name, TransactionBuilder, cash};
use tally_flows::{Context, Flow, FlowError};

use super::coins;
use crate::build::{Final, build, notary, refused, verify_and_sign};
use crate::finalise::finalise;

/// What is paid to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CashPayArguments {
    /// How much.
    pub amount: Amount,
    /// To whom.
    pub to: Name,
    /// In how many coins, nearly equal; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<u32>,
    /// Whose cash is paid; if absent, what `[cash] issuers` lists, or else this node's own, or else the
    /// only one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only coins of this notary are paid; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Pays cash.
pub struct CashPay;

impl Flow for CashPay {
    const NAME: &'static str = "CashPay";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("amount", "how much, such as 100.00 USD"),
        ("to", "who receives it, such as O=PartyB, L=London, C=GB"),
        ("outputs", "in how many coins; 1 if absent"),
        (
            "issuer",
            "whose cash is paid; if absent, by [cash] issuers, or else this node's own, or the only one",
        ),
        ("notary", "only coins of this notary; the network's first if absent"),
    ];
    type Arguments = CashPayArguments;
    type Output = Final;

    async fn run(context: Context, arguments: CashPayArguments) -> Result<Final, FlowError> {
        let CashPayArguments { amount, to, outputs, issuer, notary: notary_name } = arguments;
        context.step("Building");
        let notary = notary(&context, notary_name.as_ref()).await?;
        let to = context.party(&to).await?;
        let coins = coins(&context, amount, issuer.as_ref(), &notary).await?;
        let builder = cash::pay(
            TransactionBuilder::new(context.network(), notary),
            &coins,
            amount,
            to.key,
            context.me().key,
            outputs.unwrap_or(1),
        )
        .map_err(|error| refused(&error))?;
        let states: Vec<_> = coins.into_iter().map(|coin| coin.state).collect();
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        let transaction = finalise(&context, transaction, &[to], &[]).await?;
        Ok(Final { transaction: transaction.id() })
    }
}
