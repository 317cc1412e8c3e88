//! Putting a transaction together.

use crate::content::Content;
use crate::{
    AttachmentId, Command, ContractCommand, ContractName, ContractState, Contracts, NetworkId, Party,
    PublicKey, State, StateAndRef, StateRef, TimeWindow, Transaction, TransactionError, VersionRange,
};
use std::collections::BTreeMap;

/// A transaction in the making. [`TransactionBuilder::build`] checks all of it at once.
#[derive(Debug, Clone)]
pub struct TransactionBuilder {
    inputs: Vec<StateAndRef>,
    references: Vec<StateAndRef>,
    outputs: Vec<State>,
    commands: Vec<Command>,
    attachments: Vec<AttachmentId>,
    network: NetworkId,
    notary: Party,
    time_window: Option<TimeWindow>,
}

/// Why a transaction cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A state to be consumed or read belongs to another notary.
    #[error("state {state} has notary {found}, the transaction has {expected}")]
    Notary {
        /// Which state.
        state: StateRef,
        /// Its notary.
        found: Box<Party>,
        /// The transaction's notary.
        expected: Box<Party>,
    },
    /// No contract of that name is known here.
    #[error("contract {0} is not known to this node")]
    UnknownContract(ContractName),
    /// No version of a contract is known here and allowed by all of its states.
    #[error("no version of contract {contract} is known here ({known}) and allowed by all of its states")]
    NoVersion {
        /// The contract.
        contract: ContractName,
        /// The versions known here.
        known: VersionRange,
    },
    /// What was put together is not a well-formed transaction.
    #[error("the transaction is not well-formed")]
    Malformed(#[from] TransactionError),
}

impl TransactionBuilder {
    /// Begins a transaction of `network` that `notary` is to make final.
    pub fn new(network: NetworkId, notary: Party) -> Self {
        Self {
            inputs: Vec::new(),
            references: Vec::new(),
            outputs: Vec::new(),
            commands: Vec::new(),
            attachments: Vec::new(),
            network,
            notary,
            time_window: None,
        }
    }

    /// The notary given.
    pub fn notary(&self) -> &Party {
        &self.notary
    }

    /// How many outputs there are so far: the index of the next one.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// Consumes a state.
    #[must_use]
    pub fn input(mut self, state: StateAndRef) -> Self {
        self.inputs.push(state);
        self
    }

    /// Reads a state.
    #[must_use]
    pub fn reference(mut self, state: StateAndRef) -> Self {
        self.references.push(state);
        self
    }

    /// Creates a state under the transaction's notary.
    #[must_use]
    pub fn output<T: ContractState>(self, value: &T) -> Self {
        let state = State::new(value, self.notary.clone());
        self.output_state(state)
    }

    /// Creates a state, with an encumbrance or a version range of its own.
    #[must_use]
    pub fn output_state(mut self, state: State) -> Self {
        self.outputs.push(state);
        self
    }

    /// Adds a command that `signers` have to sign.
    #[must_use]
    pub fn command<C: ContractCommand>(
        self,
        value: &C,
        signers: impl IntoIterator<Item = PublicKey>,
    ) -> Self {
        self.add_command(Command::new(value, signers))
    }

    /// Adds a command that is already put together.
    #[must_use]
    pub fn add_command(mut self, command: Command) -> Self {
        self.commands.push(command);
        self
    }

    /// Names an attachment.
    #[must_use]
    pub fn attachment(mut self, id: AttachmentId) -> Self {
        self.attachments.push(id);
        self
    }

    /// Sets the time window.
    #[must_use]
    pub fn time_window(mut self, window: TimeWindow) -> Self {
        self.time_window = Some(window);
        self
    }

    /// The transaction. Each contract is named with the highest version that is known to
    /// `contracts` and allowed by all states consumed and created.
    ///
    /// `salt` must be 32 fresh random bytes: it hides what tear-offs leave out.
    ///
    /// # Errors
    /// [`BuildError`] says what does not fit together.
    pub fn build(self, salt: [u8; 32], contracts: &Contracts) -> Result<Transaction, BuildError> {
        for StateAndRef { state, reference } in self.inputs.iter().chain(&self.references) {
            if state.notary != self.notary {
                return Err(BuildError::Notary {
                    state: *reference,
                    found: Box::new(state.notary.clone()),
                    expected: Box::new(self.notary),
                });
            }
        }
        let content = Content {
            network: self.network,
            contracts: self.versions(contracts)?,
            inputs: self.inputs.iter().map(|input| input.reference).collect(),
            references: self.references.iter().map(|state| state.reference).collect(),
            outputs: self.outputs,
            commands: self.commands,
            attachments: self.attachments,
            notary: self.notary,
            time_window: self.time_window,
        };
        Ok(Transaction::new(salt, content)?)
    }

    /// The contracts concerned and the version of each.
    fn versions(&self, contracts: &Contracts) -> Result<Vec<(ContractName, u32)>, BuildError> {
        let states = self.inputs.iter().map(|input| &input.state).chain(&self.outputs);
        let wanted = states
            .map(|state| (state.contract, state.versions))
            .chain(self.commands.iter().map(|command| (command.contract, VersionRange::new(0, u32::MAX))));
        let mut allowed = BTreeMap::new();
        for (contract, range) in wanted {
            let known = || {
                contracts
                    .get(&contract)
                    .map(|found| found.versions())
                    .ok_or(BuildError::UnknownContract(contract))
            };
            let so_far = match allowed.get(&contract) {
                Some(so_far) => *so_far,
                None => known()?,
            };
            let both = match so_far.intersection(range) {
                Some(both) => both,
                None => return Err(BuildError::NoVersion { contract, known: known()? }),
            };
            allowed.insert(contract, both);
        }
        Ok(allowed.into_iter().map(|(contract, range)| (contract, range.to)).collect())
    }
}

#[cfg(test)]
mod tests;
