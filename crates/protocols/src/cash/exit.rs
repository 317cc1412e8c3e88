//! Exit: cash is taken out of the world; its issuer owes it no longer.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::cash::{self, CashCommand, CashState};
use tally_contracts::{Amount, LedgerTransaction, Name, TransactionBuilder};
use tally_flows::{Context, Flow, FlowError, Responder, Session};

use super::coins;
use crate::agree::{collect, review};
use crate::build::{Final, build, notary, refused, verify_and_sign};
use crate::check::invalid;
use crate::finalise::{finalise, receive};

/// What is taken out.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CashExitArguments {
    /// How much.
    pub amount: Amount,
    /// Whose cash; if absent, what `[cash] issuers` lists, or else this node's own, or else the
    /// only one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only coins of this notary; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Gives cash back to its issuer, who owes it no longer.
pub struct CashExit;

impl Flow for CashExit {
    const NAME: &'static str = "CashExit";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("amount", "how much, such as 100.00 USD"),
        ("issuer", "whose cash; if absent, by [cash] issuers, or else this node's own, or the only one"),
        ("notary", "only coins of this notary; the network's first if absent"),
    ];
    type Arguments = CashExitArguments;
    type Output = Final;

    async fn run(context: Context, arguments: CashExitArguments) -> Result<Final, FlowError> {
        let CashExitArguments { amount, issuer, notary: notary_name } = arguments;
        context.step("Building");
        let notary = notary(&context, notary_name.as_ref()).await?;
        let coins = coins(&context, amount, issuer.as_ref(), &notary).await?;
        let issuer = coins.first().map_or_else(|| context.me().clone(), |coin| coin.cash.issuer.clone());
        let builder =
            cash::exit(TransactionBuilder::new(context.network(), notary), &coins, amount, context.me().key)
                .map_err(|error| refused(&error))?;
        let states: Vec<_> = coins.into_iter().map(|coin| coin.state).collect();
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        let transaction = if context.is_me(&issuer) {
            finalise(&context, transaction, &[], &[]).await?
        } else {
            let session = context.open(&issuer.name).await?;
            let transaction = collect(&context, transaction, &[(session.clone(), issuer.clone())]).await?;
            finalise(&context, transaction, &[issuer], &[session]).await?
        };
        Ok(Final { transaction: transaction.id() })
    }
}

/// The issuer's side: it agrees to owe less.
pub struct AgreeToExit;

impl Responder for AgreeToExit {
    const ANSWERS: &'static str = CashExit::NAME;
    const VERSION: u32 = CashExit::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let agreed = review(&context, &session, |ledger| judge(&context, ledger)).await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}

/// Nothing but an exit of cash that this node issued and others own: then it owes less and loses nothing.
fn judge(context: &Context, ledger: &LedgerTransaction) -> Result<(), FlowError> {
    let commands = ledger.commands_of::<CashCommand>().map_err(|error| invalid(&error))?;
    let all = ledger.transaction().commands();
    let inputs = ledger.inputs_of::<CashState>().map_err(|error| invalid(&error))?;
    let outputs = ledger.outputs_of::<CashState>().map_err(|error| invalid(&error))?;
    let only_cash = inputs.len() == ledger.inputs().len() && outputs.len() == ledger.outputs().len();
    let only_exit = all.len() == 1 && matches!(commands.as_slice(), [(CashCommand::Exit, _)]);
    let others_own = inputs.iter().all(|cash| context.is_me(&cash.issuer) && !context.owns(&cash.owner));
    if only_cash && only_exit && others_own {
        Ok(())
    } else {
        Err(FlowError::refused(format!(
            "{} agrees to nothing but the exit of cash that it issued and others own",
            context.me()
        )))
    }
}
