//! What is final arrives: at who lacked it, and at this node if a flow ended before it knew.
//!
//! A flow that was started for a transaction ends when everybody has answered. Who answered with a failure, or whose
//! session was lost when the flow was killed, is noted beside the transaction; the node starts [`Deliver`] for it, later
//! and later, until it has confirmed. A transaction whose notary was asked and has not been heard is noted as well; the
//! node starts [`Resolve`], which asks again. Both begin at the node alone and survive its restarts like every flow.

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::{Name, SignedTransaction, TransactionId};
use tally_flows::{Context, Filter, Flow, FlowError, Origin};

use crate::Final;
use crate::check::invalid;
use crate::finalise::{NOT_COMMITTED, conclude, send};

/// Most transactions that one [`Deliver`] hands over. A node runs one for each party.
pub const DELIVERED: usize = 16;
/// How long a party has to answer before the transaction counts as undelivered again. What was sent stays in the queue
/// to it, so that a party that is away for longer still gets it.
pub const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// What is handed to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliverArguments {
    /// Who lacks it.
    pub party: Name,
    /// What it lacks, recorded here; at most [`DELIVERED`].
    pub transactions: Vec<TransactionId>,
}

/// What a party has confirmed now, and what it has not.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Delivery {
    /// Recorded there.
    pub delivered: Vec<TransactionId>,
    /// Tried again later.
    pub undelivered: Vec<TransactionId>,
}

/// # Errors
/// A user who starts what only the node may: it would hand a transaction to anybody.
fn by_the_node(context: &Context) -> Result<(), FlowError> {
    match context.origin() {
        Origin::Node => Ok(()),
        _ => Err(FlowError::refused("this flow is started by its node and not by a user")),
    }
}

/// Hands final transactions to a party that has not confirmed them.
pub struct Deliver;

impl Flow for Deliver {
    const NAME: &'static str = "Deliver";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("party", "who lacks the transactions; the node starts this flow by itself"),
        ("transactions", "which ones"),
    ];
    type Arguments = DeliverArguments;
    type Output = Delivery;

    async fn run(context: Context, arguments: DeliverArguments) -> Result<Delivery, FlowError> {
        by_the_node(&context)?;
        let DeliverArguments { party, mut transactions } = arguments;
        transactions.truncate(DELIVERED);
        let party = context.party(&party).await?;
        let until = context.now().await.saturating_add(PATIENCE);
        context.step("Sending");
        let mut open = Vec::new();
        let mut answers = Vec::new();
        for (id, found) in transactions.iter().zip(context.transactions(transactions.clone()).await?) {
            let Some(transaction) = found else {
                answers.push((*id, Err(FlowError::refused("this node does not have it"))));
                continue;
            };
            match send(&context, &transaction, &party, None).await {
                Ok((session, offered)) => open.push((*id, session, offered)),
                Err(error) => answers.push((*id, Err(error))),
            }
        }
        for (id, session, mut offered) in open {
            answers.push((id, offered.serve_until::<()>(&context, &session, until).await));
        }
        // All of it in one unit with this flow's end, so that the node starts no second one meanwhile.
        let mut delivery = Delivery { delivered: Vec::new(), undelivered: Vec::new() };
        for (id, answer) in answers {
            match answer {
                Ok(()) => {
                    context.delivered(id, &party.name).await?;
                    delivery.delivered.push(id);
                }
                Err(error) => {
                    context.undelivered(id, &party.name, &error).await?;
                    delivery.undelivered.push(id);
                }
            }
        }
        Ok(delivery)
    }
}

/// A transaction of unknown fate.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveArguments {
    /// It, encoded, with all signatures but the notary's.
    pub transaction: Vec<u8>,
    /// Who has to have it if it is final.
    pub told: Vec<Name>,
}

/// Asks the notary again about a transaction that an earlier flow left unknown, and records it if it is final.
pub struct Resolve;

impl Flow for Resolve {
    const NAME: &'static str = "Resolve";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("transaction", "a transaction of unknown fate; the node starts this flow by itself"),
        ("told", "who has to have it if it is final"),
    ];
    type Arguments = ResolveArguments;
    type Output = Final;

    async fn run(context: Context, arguments: ResolveArguments) -> Result<Final, FlowError> {
        by_the_node(&context)?;
        let ResolveArguments { transaction, told } = arguments;
        let transaction = SignedTransaction::decode(&transaction).map_err(|error| invalid(&error))?;
        let id = transaction.id();
        // Until the notary says whether they are consumed, no other flow should try to.
        let inputs = transaction.transaction().inputs().to_vec();
        if let Ok(limit) = u32::try_from(inputs.len())
            && limit > 0
        {
            context.find(Filter { references: inputs, hold: true, limit, ..Filter::default() }).await?;
        }
        let concluded = conclude(&context, transaction, &told, is_refusal_again).await;
        if concluded.as_ref().err().is_none_or(is_refusal_again) {
            context.resolved(id).await?;
        }
        concluded?;
        for party in &told {
            context.undelivered(id, party, &FlowError::refused("it was not sent yet")).await?;
        }
        Ok(Final { transaction: id })
    }
}

/// Does this answer to a repeated question say that the notary has never committed the transaction? What keeps it from
/// looking, such as being busy, does not.
fn is_refusal_again(error: &FlowError) -> bool {
    match error {
        FlowError::Counterparty { kind, .. } => NOT_COMMITTED.contains(&kind.as_str()),
        FlowError::Conflict { .. } | FlowError::OutsideTimeWindow { .. } => true,
        _ => false,
    }
}
