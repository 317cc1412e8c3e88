//! IOU: a borrower owes a lender a small number.
//!
//! *Create* makes one IOU out of nothing, *settle* consumes one and leaves nothing. Lender and
//! borrower are two different parties and both sign; the value is from 1 to 99.

use crate::state::ascending;
use crate::{
    Contract, ContractCommand, ContractName, ContractState, DecodeError, Involved, LedgerTransaction, Party,
    PublicKey, State, StateAndRef, Summary, TransactionBuilder, VersionRange, Violation,
};
use borsh::{BorshDeserialize, BorshSerialize};
use serde_json::json;
use tally_crypto::Hash;

/// The name of the IOU contract.
pub const NAME: ContractName = ContractName::literal("tally.iou");
/// The versions of the IOU contract in this code.
pub const VERSIONS: VersionRange = VersionRange::only(1);
/// The largest value of an IOU.
pub const LARGEST_VALUE: u32 = 99;

/// `borrower` owes `value` to `lender`.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct IouState {
    /// How much, from 1 to [`LARGEST_VALUE`].
    pub value: u32,
    /// To whom it is owed.
    pub lender: Party,
    /// Who owes it.
    pub borrower: Party,
    /// Tells this agreement from others; random.
    pub linear_id: Hash,
}

impl ContractState for IouState {
    const CONTRACT: ContractName = NAME;
    const VERSIONS: VersionRange = VERSIONS;

    fn consumers(&self) -> Vec<PublicKey> {
        vec![self.lender.key, self.borrower.key]
    }
}

/// What is done to an IOU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum IouCommand {
    /// Makes one.
    Create,
    /// Consumes one that was paid back.
    Settle,
}

impl ContractCommand for IouCommand {
    const CONTRACT: ContractName = NAME;
}

/// Adds the creation of an IOU.
pub fn create(builder: TransactionBuilder, iou: &IouState) -> TransactionBuilder {
    builder.output(iou).command(&IouCommand::Create, [iou.lender.key, iou.borrower.key])
}

/// Adds the settlement of an IOU.
///
/// # Errors
/// [`DecodeError`] when `state` is not an IOU.
pub fn settle(builder: TransactionBuilder, state: StateAndRef) -> Result<TransactionBuilder, DecodeError> {
    let iou: IouState = state.state.read()?;
    Ok(builder.input(state).command(&IouCommand::Settle, [iou.lender.key, iou.borrower.key]))
}

/// The IOU contract.
#[derive(Debug, Clone, Copy)]
pub struct Iou;

impl Contract for Iou {
    fn name(&self) -> ContractName {
        NAME
    }

    fn versions(&self) -> VersionRange {
        VERSIONS
    }

    fn verify(&self, _version: u32, transaction: &LedgerTransaction) -> Result<(), Violation> {
        let inputs = transaction.inputs_of::<IouState>()?;
        let outputs = transaction.outputs_of::<IouState>()?;
        let commands = transaction.commands_of::<IouCommand>()?;
        let [(command, signers)] = commands.as_slice() else {
            let detail = format!("there are {} IOU commands, one is wanted", commands.len());
            return Err(Violation::new("iou-one-command", detail));
        };
        match (command, inputs.as_slice(), outputs.as_slice()) {
            (IouCommand::Create, [], [iou]) => {
                check(iou)?;
                both_sign(iou, signers)
            }
            (IouCommand::Settle, [iou], []) => both_sign(iou, signers),
            (command, inputs, outputs) => {
                let detail =
                    format!("{command:?} with {} IOUs in and {} IOUs out", inputs.len(), outputs.len());
                Err(Violation::new("iou-shape", detail))
            }
        }
    }

    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        let iou: IouState = state.read()?;
        let consumers = ascending(iou.consumers());
        Ok(Involved { consumers, identities: vec![iou.lender, iou.borrower] })
    }

    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        let iou: IouState = state.read()?;
        Ok(Summary {
            kind: "iou".to_owned(),
            participants: vec![iou.lender.key, iou.borrower.key],
            owner: None,
            asset: None,
            quantity: Some(u64::from(iou.value)),
            linear_id: Some(iou.linear_id),
            details: json!({
                "value": iou.value,
                "lender": iou.lender.name,
                "borrower": iou.borrower.name,
                "linear_id": iou.linear_id,
            }),
        })
    }
}

fn check(iou: &IouState) -> Result<(), Violation> {
    if iou.value == 0 || iou.value > LARGEST_VALUE {
        let detail = format!("the value is {}; 1 to {LARGEST_VALUE} are allowed", iou.value);
        return Err(Violation::new("iou-value", detail));
    }
    // Neither the same institution under two keys nor one key under two names.
    if iou.lender.name == iou.borrower.name || iou.lender.key == iou.borrower.key {
        return Err(Violation::new("iou-two-parties", "lender and borrower are the same party"));
    }
    Ok(())
}

fn both_sign(iou: &IouState, signers: &[PublicKey]) -> Result<(), Violation> {
    for (role, party) in [("lender", &iou.lender), ("borrower", &iou.borrower)] {
        if !signers.contains(&party.key) {
            return Err(Violation::new("iou-signed", format!("the {role} {party} has to sign")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
