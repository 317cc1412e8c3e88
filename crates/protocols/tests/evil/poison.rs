//! Flows of a node that pays with coins which cannot be spent.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use tally_contracts::cash::{self, CashCommand, CashState, Coin};
use tally_contracts::{
    Amount, Name, Role, SignedTransaction, State, StateAndRef, TransactionBuilder, TransactionId,
};
use tally_flows::{Context, Flow, FlowError, Registry};
use tally_protocols::check::contracts;
use tally_protocols::notarise::notarise;
use tally_protocols::resolve::{Offer, Reply};
use tally_protocols::{Final, finalise};

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct To {
    to: Name,
    amount: Amount,
}

/// Issues cash, and pays it encumbered by a coin of one minor unit that stays with the payer.
pub(crate) struct PayEncumbered;

impl Flow for PayEncumbered {
    const NAME: &'static str = "PayEncumbered";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = To;
    type Output = Final;

    async fn run(context: Context, To { to, amount }: To) -> Result<Final, FlowError> {
        let to = context.party(&to).await?;
        let me = context.me().clone();
        let notary = context.notaries().await?.current[0].party.clone();
        let one = Amount::new(1, amount.currency()).unwrap();
        let builder = TransactionBuilder::new(context.network(), notary.clone());
        let builder = cash::issue(builder, amount.checked_add(one).unwrap(), &me, me.key, 1);
        let issue = builder.build(context.random("issue"), contracts()).unwrap();
        let signature = context.sign(&me.key, Role::Party, issue.id()).await?;
        let issue = SignedTransaction::new(issue, [signature]).unwrap();
        context.record(vec![Arc::new(issue.clone())]).await?;
        let encumbered = |amount, owner, by| State {
            encumbrance: Some(by),
            ..State::new(&CashState { amount, issuer: me.clone(), owner }, notary.clone())
        };
        let builder = TransactionBuilder::new(context.network(), notary.clone())
            .input(issue.transaction().output(0).unwrap())
            .output_state(encumbered(amount, to.key, 1))
            .output_state(encumbered(one, me.key, 0))
            .command(&CashCommand::Move, [me.key]);
        let payment = builder.build(context.random("payment"), contracts()).unwrap();
        let signature = context.sign(&me.key, Role::Party, payment.id()).await?;
        let payment = SignedTransaction::new(payment, [signature]).unwrap();
        let payment = notarise(&context, &payment).await?;
        let session = context.open_as(&to.name, finalise::NAME, finalise::VERSION).await?;
        session.send(&Offer { transaction: payment.clone(), history: vec![issue] }).await;
        match session.receive().await? {
            Reply::<()>::Answer(()) => Ok(Final { transaction: payment.id() }),
            _ => Err(FlowError::refused("something is asked for")),
        }
    }
}

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct Spent {
    transaction: TransactionId,
}

/// Has the notary consume a coin, and tells nobody: as a copy of this node would.
pub(crate) struct SpendSilently;

impl Flow for SpendSilently {
    const NAME: &'static str = "SpendSilently";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Spent;
    type Output = Final;

    async fn run(context: Context, Spent { transaction }: Spent) -> Result<Final, FlowError> {
        let me = context.me().clone();
        let issue = context.transactions(vec![transaction]).await?.remove(0).unwrap();
        let coin: StateAndRef = issue.transaction().output(0).unwrap();
        let coin = Coin::try_from(coin).unwrap();
        let amount = coin.cash.amount;
        let builder = TransactionBuilder::new(context.network(), issue.transaction().notary().clone());
        let builder = cash::pay(builder, &[coin], amount, me.key, me.key, 1).unwrap();
        let payment = builder.build(context.random("payment"), contracts()).unwrap();
        let signature = context.sign(&me.key, Role::Party, payment.id()).await?;
        let payment = SignedTransaction::new(payment, [signature]).unwrap();
        notarise(&context, &payment).await?;
        Ok(Final { transaction: payment.id() })
    }
}

/// Other flows, and these.
pub(crate) fn poison(registry: Registry) -> Registry {
    registry.flow::<PayEncumbered>().flow::<SpendSilently>()
}
