//! Issue: a bond that this node will repay.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::bond::{self, BondCommand, BondState, Isin, Terms};
use tally_contracts::{Amount, LedgerTransaction, Name, Party, Timestamp, TransactionBuilder};
use tally_flows::{Context, Flow, FlowError, Proposal, Responder, Session};

use super::{harmless, others, sessions};
use crate::agree::{collect, review};
use crate::build::{Final, build, notary, verify_and_sign};
use crate::check::invalid;
use crate::finalise::{finalise, receive};

/// What is issued.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BondIssueArguments {
    /// The identification number of the paper.
    pub isin: Isin,
    /// How much this node will repay.
    pub nominal: Amount,
    /// From when on. In JSON a date (its beginning in UTC), a time of RFC 3339, or milliseconds since the Unix epoch.
    #[serde(deserialize_with = "crate::moment::deserialize")]
    pub maturity: Timestamp,
    /// Who keeps the register; this node if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The notary that keeps the holdings unique; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Issues a bond of this node to this node.
pub struct BondIssue;

impl Flow for BondIssue {
    const NAME: &'static str = "BondIssue";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("isin", "the paper, such as XS0000000009"),
        ("nominal", "how much this node will repay, such as 1000.00 USD"),
        ("maturity", "from when on: 2027-12-31, 2027-12-31T17:00:00Z, or milliseconds since 1970-01-01 UTC"),
        ("agent", "who keeps the register and signs all transfers; this node if absent"),
        ("notary", "the notary of the holdings; the network's first if absent"),
    ];
    type Arguments = BondIssueArguments;
    type Output = Final;

    async fn run(context: Context, arguments: BondIssueArguments) -> Result<Final, FlowError> {
        let BondIssueArguments { isin, nominal, maturity, agent, notary: notary_name } = arguments;
        context.step("Building");
        let notary = notary(&context, notary_name.as_ref()).await?;
        let me = context.me().clone();
        let agent = match agent {
            Some(name) if name != me.name => context.party(&name).await?,
            _ => me.clone(),
        };
        let terms = Terms { isin, issuer: me.clone(), agent: agent.clone(), maturity };
        let builder = bond::issue(TransactionBuilder::new(context.network(), notary), terms, nominal, me.key);
        let transaction = verify_and_sign(&context, build(&context, builder)?, &[]).await?;
        let others = others(&me, [agent]);
        let signers = sessions(&context, others.clone()).await?;
        let transaction = collect(&context, transaction, &signers).await?;
        let open: Vec<_> = signers.into_iter().map(|(session, _)| session).collect();
        let transaction = finalise(&context, transaction, &others, &open).await?;
        Ok(Final { transaction: transaction.id() })
    }
}

/// The agent's side: it agrees to keep the register of a bond if the node's [`Policy`](crate::consent::Policy) does so for
/// its issuer.
pub struct AgreeToKeepRegister;

impl Responder for AgreeToKeepRegister {
    const ANSWERS: &'static str = BondIssue::NAME;
    const VERSION: u32 = BondIssue::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let issuer = context.party(session.peer()).await?;
        context.consent(Proposal::Register { issuer: issuer.clone() }).await?;
        let agreed = review(&context, &session, |ledger| judge(&context, ledger, &issuer)).await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}

/// A new register is kept under the present key alone.
fn judge(context: &Context, ledger: &LedgerTransaction, issuer: &Party) -> Result<(), FlowError> {
    harmless(context, ledger, &[BondCommand::Issue])?;
    let me = context.me();
    let bonds = ledger.outputs_of::<BondState>().map_err(|error| invalid(&error))?;
    if bonds.iter().all(|bond| bond.terms.agent == *me && bond.terms.issuer.name == issuer.name) {
        Ok(())
    } else {
        Err(FlowError::refused(format!("{me} keeps the register of nothing here but bonds of {issuer}")))
    }
}
