//! Bonds: issue, transfer, delivery versus payment, redemption.
//!
//! Whoever answers agrees by itself to what cannot leave its party worse off: to receive, to sign as the agent that it
//! is, to repay what is due in cash of its own. What needs a decision, the buyer's side of a delivery versus payment, a
//! repayment in others' cash and a new register to keep, asks the node's [`Policy`](crate::consent::Policy).

mod ask;
mod delivery;
mod issue;
mod redeem;
mod transfer;
mod witness;

use tally_contracts::bond::{self, BondCommand, BondState, Holding, Isin, Terms};
use tally_contracts::{Amount, Currency, LedgerTransaction, Name, Party, PublicKey, State, Timestamp};
use tally_flows::{Context, Filter, FlowError, Selection, Session};

use crate::build::refused;
use crate::check::contracts;

pub use delivery::{AgreeToDelivery, DeliveryVersusPayment, DeliveryVersusPaymentArguments};
pub use issue::{AgreeToKeepRegister, BondIssue, BondIssueArguments};
pub use redeem::{BondRedeem, BondRedeemArguments, Repay};
pub use transfer::{AgreeToTransfer, BondTransfer, BondTransferArguments};
pub use witness::Witness;

/// How many holdings are looked at to see of whose bond they are.
const SAMPLE: u32 = 200;

/// What vaults call holdings of a bond in this currency.
fn asset(isin: Isin, currency: Currency, issuer: &Party) -> Result<String, FlowError> {
    // Agent and maturity are not part of it.
    let terms = Terms { isin, issuer: issuer.clone(), agent: issuer.clone(), maturity: Timestamp::EPOCH };
    let one = Amount::new(1, currency).map_err(|error| refused(&error))?;
    Ok(bond::asset(&terms, one))
}

/// The issuer of a bond: the one named, or that of the holdings which this node has of it.
async fn issuer(context: &Context, isin: Isin, name: Option<&Name>) -> Result<Party, FlowError> {
    if let Some(name) = name {
        return context.party(name).await;
    }
    let filter = Filter { kind: Some("bond".to_owned()), limit: SAMPLE, ..Filter::default() };
    for state in context.find(filter).await? {
        let bond: BondState = state.state.read().map_err(|error| refused(&error))?;
        if bond.terms.isin == isin && context.owns(&bond.owner) {
            return Ok(bond.terms.issuer);
        }
    }
    Err(FlowError::refused(format!("no holding of {isin} was found here; give its issuer if there is one")))
}

/// Chooses holdings of at least `nominal` and holds them for this flow.
async fn holdings(
    context: &Context,
    isin: Isin,
    nominal: Amount,
    issuer_name: Option<&Name>,
    notary: &Party,
) -> Result<Vec<Holding>, FlowError> {
    let issuer = issuer(context, isin, issuer_name).await?;
    let selected = context
        .select(Selection {
            asset: asset(isin, nominal.currency(), &issuer)?,
            quantity: nominal.quantity(),
            notary: Some(notary.clone()),
            wait: true,
        })
        .await?;
    read(selected)
}

fn read(states: Vec<tally_contracts::StateAndRef>) -> Result<Vec<Holding>, FlowError> {
    states.into_iter().map(|state| Holding::try_from(state).map_err(|error| refused(&error))).collect()
}

/// The terms of holdings that are all of one bond.
fn terms(holdings: &[Holding]) -> Result<&Terms, FlowError> {
    let first = holdings.first().ok_or_else(|| FlowError::refused("there is no holding"))?;
    Ok(&first.bond.terms)
}

/// Each of `parties` once, without `me` under whichever key.
fn others(me: &Party, parties: impl IntoIterator<Item = Party>) -> Vec<Party> {
    let mut others: Vec<Party> = Vec::new();
    for party in parties {
        if party.name != me.name && !others.contains(&party) {
            others.push(party);
        }
    }
    others
}

/// Opens a session with each party.
async fn sessions(context: &Context, parties: Vec<Party>) -> Result<Vec<(Session, Party)>, FlowError> {
    let mut sessions = Vec::with_capacity(parties.len());
    for party in parties {
        sessions.push((context.open(&party.name).await?, party));
    }
    Ok(sessions)
}

/// The transaction takes nothing from this node, whichever of its keys owns it, and has it sign nothing but these bond
/// commands with any of them.
fn harmless(context: &Context, ledger: &LedgerTransaction, allowed: &[BondCommand]) -> Result<(), FlowError> {
    let me = context.me();
    for command in ledger.transaction().commands() {
        let names_me = command.signers.iter().any(|key| context.owns(key));
        if names_me && !matches!(command.read::<BondCommand>(), Ok(command) if allowed.contains(&command)) {
            return Err(FlowError::refused(format!("{me} is asked to sign more than {allowed:?}")));
        }
    }
    let mine = |owner: Option<PublicKey>| owner.is_some_and(|owner| context.owns(&owner));
    let is_mine =
        |state: &State| !matches!(contracts().describe(state), Ok(Some(summary)) if !mine(summary.owner));
    if ledger.inputs().iter().any(is_mine) {
        return Err(FlowError::refused(format!("the transaction would take something from {me}")));
    }
    Ok(())
}
