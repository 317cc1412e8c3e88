//! Issue: cash that this node owes to itself, to be paid out.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::cash::{CashCommand, CashState};
use tally_contracts::{Amount, Name, TransactionBuilder};
use tally_flows::{Context, Flow, FlowError};

use crate::build::{Final, build, nonce, notary, split, verify_and_sign};

/// What is issued.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CashIssueArguments {
    /// How much in all.
    pub amount: Amount,
    /// In how many coins, nearly equal; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<u32>,
    /// The notary that keeps the coins unique; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Issues cash of this node to this node. No other node takes part.
pub struct CashIssue;

impl Flow for CashIssue {
    const NAME: &'static str = "CashIssue";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("amount", "how much, such as 100.00 USD"),
        ("outputs", "in how many coins; 1 if absent"),
        ("notary", "the notary of the coins; the network's first if absent"),
    ];
    type Arguments = CashIssueArguments;
    type Output = Final;

    async fn run(context: Context, arguments: CashIssueArguments) -> Result<Final, FlowError> {
        context.step("Building");
        let notary = notary(&context, arguments.notary.as_ref()).await?;
        let me = context.me();
        let mut builder = TransactionBuilder::new(context.network(), notary);
        for amount in split(arguments.amount, arguments.outputs.unwrap_or(1))? {
            builder = builder.output(&CashState { amount, issuer: me.clone(), owner: me.key });
        }
        let builder = builder.command(&CashCommand::Issue { nonce: nonce(&context) }, [me.key]);
        let transaction = verify_and_sign(&context, build(&context, builder)?, &[]).await?;
        context.step("Recording");
        let id = transaction.id();
        context.record(vec![Arc::new(transaction)]).await?;
        Ok(Final { transaction: id })
    }
}
