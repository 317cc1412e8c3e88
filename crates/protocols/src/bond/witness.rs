//! The agent of a bond signs whatever others have settled between them, so that it keeps the register.

use tally_contracts::bond::{BondCommand, BondState};
use tally_contracts::{LedgerTransaction, Party};
use tally_flows::{Context, FlowError, Responder, Session};

use super::harmless;
use crate::agree::review;
use crate::check::invalid;
use crate::finalise::receive;

/// What sessions with an agent are called.
const NAME: &str = "BondWitness";
/// The version of what is said in them.
const VERSION: u32 = 1;

/// Opens a session with each agent.
pub(super) async fn witnesses(
    context: &Context,
    agents: Vec<Party>,
) -> Result<Vec<(Session, Party)>, FlowError> {
    let mut sessions = Vec::with_capacity(agents.len());
    for agent in agents {
        sessions.push((context.open_as(&agent.name, NAME, VERSION).await?, agent));
    }
    Ok(sessions)
}

/// The agent's side of transfers and redemptions.
pub struct Witness;

impl Responder for Witness {
    const ANSWERS: &'static str = NAME;
    const VERSION: u32 = VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let agreed = review(&context, &session, |ledger| judge(&context, ledger)).await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}

fn judge(context: &Context, ledger: &LedgerTransaction) -> Result<(), FlowError> {
    harmless(context, ledger, &[BondCommand::Transfer, BondCommand::Redeem])?;
    let bonds = ledger.inputs_of::<BondState>().map_err(|error| invalid(&error))?;
    if bonds.iter().any(|bond| context.is_me(&bond.terms.agent)) {
        Ok(())
    } else {
        Err(FlowError::refused(format!("{} does not keep the register of these bonds", context.me())))
    }
}
