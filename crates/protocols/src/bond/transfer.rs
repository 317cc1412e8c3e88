//! Transfer, free of payment.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::bond::{self, BondCommand, Isin};
use tally_contracts::{Amount, LedgerTransaction, Name, TransactionBuilder};
use tally_flows::{Context, Flow, FlowError, Responder, Session};

use super::witness::witnesses;
use super::{harmless, holdings, others, sessions, terms};
use crate::agree::{collect, review};
use crate::build::{Final, build, notary, refused, verify_and_sign};
use crate::finalise::{finalise, receive};

/// What is given to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BondTransferArguments {
    /// Which paper.
    pub isin: Isin,
    /// How much of it.
    pub nominal: Amount,
    /// To whom.
    pub to: Name,
    /// Whose bond it is; looked up in the vault if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only holdings of this notary; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Gives a bond to another party, for nothing on the ledger.
pub struct BondTransfer;

impl Flow for BondTransfer {
    const NAME: &'static str = "BondTransfer";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("isin", "the paper, such as XS0000000009"),
        ("nominal", "how much of it, such as 1000.00 USD"),
        ("to", "who receives it, such as O=PartyB, L=London, C=GB"),
        ("issuer", "whose bond it is; looked up in the vault if absent"),
        ("notary", "only holdings of this notary; the network's first if absent"),
    ];
    type Arguments = BondTransferArguments;
    type Output = Final;

    async fn run(context: Context, arguments: BondTransferArguments) -> Result<Final, FlowError> {
        let BondTransferArguments { isin, nominal, to, issuer, notary: notary_name } = arguments;
        context.step("Building");
        let me = context.me().clone();
        let notary = notary(&context, notary_name.as_ref()).await?;
        let to = context.party(&to).await?;
        let holdings = holdings(&context, isin, nominal, issuer.as_ref(), &notary).await?;
        let terms = terms(&holdings)?.clone();
        let builder = bond::transfer(
            TransactionBuilder::new(context.network(), notary),
            &holdings,
            nominal,
            to.key,
            me.key,
        )
        .map_err(|error| refused(&error))?;
        let states: Vec<_> = holdings.into_iter().map(|holding| holding.state).collect();
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        let mut signers = sessions(&context, others(&me, [to.clone()])).await?;
        let agent =
            others(&me, [terms.agent.clone()]).into_iter().filter(|agent| agent.name != to.name).collect();
        signers.extend(witnesses(&context, agent).await?);
        let transaction = collect(&context, transaction, &signers).await?;
        let open: Vec<_> = signers.into_iter().map(|(session, _)| session).collect();
        let told = others(&me, [to, terms.agent, terms.issuer]);
        let transaction = finalise(&context, transaction, &told, &open).await?;
        Ok(Final { transaction: transaction.id() })
    }
}

/// The receiver's side: it loses nothing.
pub struct AgreeToTransfer;

impl Responder for AgreeToTransfer {
    const ANSWERS: &'static str = BondTransfer::NAME;
    const VERSION: u32 = BondTransfer::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let judge = |ledger: &LedgerTransaction| harmless(&context, ledger, &[BondCommand::Transfer]);
        let agreed = review(&context, &session, judge).await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}
