//! Flows that no node ships: one that ignores soft locks, and one that notices every message.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::cash::{self, Coin};
use tally_contracts::{Name, Role, SignedTransaction, StateRef, TransactionBuilder};
use tally_flows::{Context, Flow, FlowError, Registry, Responder, Session};
use tally_protocols::{Final, check, finalise::finalise};

/// All flows of a simulated node.
pub(crate) fn registry() -> Registry {
    tally_protocols::registry().flow::<Spend>().flow::<Chatter>().responder::<Listen>()
}

/// Which coin to spend, whoever else wants to.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct SpendArguments {
    pub(crate) coin: StateRef,
    pub(crate) to: Name,
}

/// Pays a whole coin without asking the vault whether it is there or held, so that only the notary decides.
pub(crate) struct Spend;

impl Flow for Spend {
    const NAME: &'static str = "Spend";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("coin", "which"), ("to", "to whom")];
    type Arguments = SpendArguments;
    type Output = Final;

    async fn run(context: Context, arguments: SpendArguments) -> Result<Final, FlowError> {
        let SpendArguments { coin, to } = arguments;
        let to = context.party(&to).await?;
        let found = context.transactions(vec![coin.transaction]).await?;
        let state =
            found.into_iter().flatten().next().and_then(|found| found.transaction().output(coin.index));
        let state = state.ok_or_else(|| FlowError::refused(format!("there is no {coin}")))?;
        let chosen = Coin::try_from(state.clone()).map_err(FlowError::invalid)?;
        let amount = chosen.cash.amount;
        let me = context.me().clone();
        let builder = TransactionBuilder::new(context.network(), state.state.notary.clone());
        let builder = cash::pay(builder, &[chosen], amount, to.key, me.key, 1).map_err(FlowError::refused)?;
        let transaction =
            builder.build(context.random("salt"), check::contracts()).map_err(FlowError::refused)?;
        check::built(&context, &transaction, &[state]).await?;
        let signature = context.sign(&me.key, Role::Party, transaction.id()).await?;
        let signed = SignedTransaction::new(transaction, [signature]).map_err(FlowError::invalid)?;
        let others = if to == me { Vec::new() } else { vec![to] };
        Ok(Final { transaction: finalise(&context, signed, &others, &[]).await?.id() })
    }
}

/// With whom, and how much of it.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct ChatterArguments {
    pub(crate) with: Vec<Name>,
    pub(crate) rounds: u64,
    pub(crate) pause_ms: u64,
}

/// Says numbers to several nodes at once, which notice if one is missing, comes twice or out of order, and answer with
/// what they have heard so far.
pub(crate) struct Chatter;

impl Flow for Chatter {
    const NAME: &'static str = "Chatter";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] =
        &[("with", "whom"), ("rounds", "how often"), ("pause_ms", "how long between two")];
    type Arguments = ChatterArguments;
    type Output = u64;

    async fn run(context: Context, arguments: ChatterArguments) -> Result<u64, FlowError> {
        let mut sessions = Vec::new();
        for name in &arguments.with {
            sessions.push(context.open(name).await?);
        }
        for round in 0..arguments.rounds {
            for session in &sessions {
                session.send(&round).await;
                if round % 3 == 0 {
                    session.send(&u64::MAX).await;
                }
            }
            if round % 2 == 1 && arguments.pause_ms > 0 {
                let now = context.now().await;
                context
                    .sleep_until(now.saturating_add(std::time::Duration::from_millis(arguments.pause_ms)))
                    .await;
            }
            for session in &sessions {
                if round % 3 == 0 {
                    let heard: u64 = session.receive().await?;
                    if heard != round + 1 {
                        return Err(FlowError::invalid(format!("{heard} of {} were heard", round + 1)));
                    }
                }
            }
        }
        Ok(arguments.rounds * sessions.len() as u64)
    }
}

/// The other side.
pub(crate) struct Listen;

impl Responder for Listen {
    const ANSWERS: &'static str = Chatter::NAME;
    const VERSION: u32 = Chatter::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let mut heard = 0;
        loop {
            match session.receive::<u64>().await {
                Ok(u64::MAX) => session.send(&heard).await,
                Ok(number) if number == heard => heard += 1,
                Ok(number) => {
                    return Err(FlowError::invalid(format!("{number} came where {heard} was due")));
                }
                Err(FlowError::SessionEnded { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
