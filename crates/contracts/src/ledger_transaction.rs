//! Transactions with everything they name at hand, and their verification.

use crate::state::read;
use crate::{
    Attachment, AttachmentId, ContractCommand, ContractName, ContractState, Contracts, DecodeError, Involved,
    Party, PublicKey, State, StateRef, Transaction, VersionRange, Violation,
};

/// A transaction with the states it consumes and reads and the attachments it names.
#[derive(Debug, Clone)]
pub struct LedgerTransaction {
    transaction: Transaction,
    inputs: Vec<State>,
    references: Vec<State>,
    attachments: Vec<Attachment>,
}

/// What was found does not fit what the transaction names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There must be one state for each input and each reference.
    #[error("the transaction names {expected} {what}, {got} were found")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many it names.
        expected: usize,
        /// How many were found.
        got: usize,
    },
    /// An attachment is another than the one named at its place.
    #[error("the transaction names attachment {expected}, {got} was found")]
    Attachment {
        /// The one named.
        expected: AttachmentId,
        /// The one found.
        got: AttachmentId,
    },
}

/// Why a transaction must not become part of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    /// A state consumed or read belongs to another notary.
    #[error("state {state} has notary {found}, the transaction has {expected}")]
    Notary {
        /// Which state.
        state: StateRef,
        /// Its notary.
        found: Box<Party>,
        /// The transaction's notary.
        expected: Box<Party>,
    },
    /// A state is consumed without the one that encumbers it.
    #[error("input {state} is encumbered by {encumbrance}, which is not consumed with it")]
    Encumbrance {
        /// The state consumed.
        state: StateRef,
        /// The one that had to be consumed too.
        encumbrance: StateRef,
    },
    /// The contract of an input is not named.
    #[error("contract {0} of an input is not named by the transaction")]
    ContractNotNamed(ContractName),
    /// A contract is named that has nothing to check.
    #[error("contract {0} is named by the transaction and governs nothing in it")]
    ContractUnused(ContractName),
    /// The version named may not govern an input.
    #[error("input {state} is governed by {allowed} of {contract}, the transaction names {named}")]
    Version {
        /// Which state.
        state: StateRef,
        /// Its contract.
        contract: ContractName,
        /// The versions that it allows.
        allowed: VersionRange,
        /// The version that the transaction names.
        named: u32,
    },
    /// No contract of that name is known here.
    #[error("contract {0} is not known to this node")]
    UnknownContract(ContractName),
    /// A new transaction names a version that is known for the sake of history alone.
    #[error("version {version} of contract {contract} is out of use: name version {oldest} or a newer one")]
    OutOfUse {
        /// The contract.
        contract: ContractName,
        /// The version named.
        version: u32,
        /// The oldest version in use.
        oldest: u32,
    },
    /// An output does not say whose signatures consume it, as its contract has it.
    #[error("output {output} names other consumers than its contract {contract} does")]
    Consumers {
        /// Which output.
        output: usize,
        /// Its contract.
        contract: ContractName,
    },
    /// An output is none of its contract's states.
    #[error("output {output} is not a state of its contract")]
    Output {
        /// Which output.
        output: usize,
        /// What is wrong with it.
        #[source]
        violation: Violation,
    },
    /// A state is consumed without the signature of somebody who has to agree.
    #[error("input {state} is consumed without a command that {consumer} signs")]
    NotConsumed {
        /// The state consumed.
        state: StateRef,
        /// Whose signature is missing.
        consumer: PublicKey,
    },
    /// This version of the contract is not known here.
    #[error("version {version} of contract {contract} is not known to this node, which knows {known}")]
    UnknownVersion {
        /// The contract.
        contract: ContractName,
        /// The version named.
        version: u32,
        /// The versions known.
        known: VersionRange,
    },
    /// A contract refuses.
    #[error("contract {contract} version {version} refuses the transaction")]
    Contract {
        /// The contract.
        contract: ContractName,
        /// The version applied.
        version: u32,
        /// The rule broken.
        #[source]
        violation: Violation,
    },
}

impl LedgerTransaction {
    /// Puts a transaction together with what it names, each in the order in which it names them.
    /// The caller vouches that each state is the output that its reference names.
    ///
    /// # Errors
    /// [`ResolveError`] when something is missing, too much or another attachment.
    pub fn resolve(
        transaction: &Transaction,
        inputs: Vec<State>,
        references: Vec<State>,
        attachments: Vec<Attachment>,
    ) -> Result<Self, ResolveError> {
        let counts = [
            ("inputs", transaction.inputs().len(), inputs.len()),
            ("references", transaction.references().len(), references.len()),
            ("attachments", transaction.attachments().len(), attachments.len()),
        ];
        for (what, expected, got) in counts {
            if expected != got {
                return Err(ResolveError::Count { what, expected, got });
            }
        }
        for (expected, attachment) in transaction.attachments().iter().zip(&attachments) {
            if *expected != attachment.id() {
                return Err(ResolveError::Attachment { expected: *expected, got: attachment.id() });
            }
        }
        Ok(Self { transaction: transaction.clone(), inputs, references, attachments })
    }

    /// The transaction.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The states consumed.
    pub fn inputs(&self) -> &[State] {
        &self.inputs
    }

    /// The states read.
    pub fn references(&self) -> &[State] {
        &self.references
    }

    /// The states created.
    pub fn outputs(&self) -> &[State] {
        self.transaction.outputs()
    }

    /// The attachments.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// The consumed states of one contract, in order.
    ///
    /// # Errors
    /// [`DecodeError`] when the data of one is malformed.
    pub fn inputs_of<T: ContractState>(&self) -> Result<Vec<T>, DecodeError> {
        of(&self.inputs)
    }

    /// The states of one contract that are read, in order.
    ///
    /// # Errors
    /// [`DecodeError`] when the data of one is malformed.
    pub fn references_of<T: ContractState>(&self) -> Result<Vec<T>, DecodeError> {
        of(&self.references)
    }

    /// The created states of one contract, in order.
    ///
    /// # Errors
    /// [`DecodeError`] when the data of one is malformed.
    pub fn outputs_of<T: ContractState>(&self) -> Result<Vec<T>, DecodeError> {
        of(self.outputs())
    }

    /// The commands of one contract and who signs each, in order.
    ///
    /// # Errors
    /// [`DecodeError`] when the data of one is malformed.
    pub fn commands_of<C: ContractCommand>(&self) -> Result<Vec<(C, &[PublicKey])>, DecodeError> {
        let commands = self.transaction.commands().iter().filter(|command| command.contract == C::CONTRACT);
        commands.map(|command| Ok((command.read()?, command.signers.as_slice()))).collect()
    }

    /// Checks everything that the ledger and its contracts ask for, except signatures, whether the
    /// inputs are unspent, and the time.
    ///
    /// Deterministic and total; work is bounded by the size of the transaction. Rules, checked in
    /// this order: states consumed and read have the transaction's notary; an encumbered state is
    /// consumed together with its encumbrance; every contract of inputs, outputs and commands is
    /// named, with a version that all its states allow, and no other is; each contract is known and
    /// accepts; whoever a consumed state names as its consumer signs a command; each output names
    /// the consumers that its contract says. (What needs no other transaction was checked when this one was decoded.)
    ///
    /// # Errors
    /// The first rule broken.
    pub fn verify(&self, contracts: &Contracts) -> Result<(), VerificationError> {
        self.check_notary()?;
        self.check_encumbrances()?;
        self.check_versions()?;
        for (name, version) in self.transaction.contracts() {
            let contract = contracts.get(name).ok_or(VerificationError::UnknownContract(*name))?;
            let known = contract.versions();
            if !known.contains(*version) {
                return Err(VerificationError::UnknownVersion { contract: *name, version: *version, known });
            }
            contract.verify(*version, self).map_err(|violation| VerificationError::Contract {
                contract: *name,
                version: *version,
                violation,
            })?;
        }
        self.check_consumers()?;
        self.check_outputs(contracts)
    }

    /// [`LedgerTransaction::verify`] for a transaction that is about to be signed, notarised or
    /// received: its contracts are in use, too.
    ///
    /// # Errors
    /// The first rule broken.
    pub fn verify_new(&self, contracts: &Contracts) -> Result<(), VerificationError> {
        self.verify_versions_in_use(contracts)?;
        self.verify(contracts)
    }

    /// Checks that the versions of contracts that the transaction names are in use.
    ///
    /// # Errors
    /// [`VerificationError::OutOfUse`] for the first that is known for the sake of history alone.
    pub fn verify_versions_in_use(&self, contracts: &Contracts) -> Result<(), VerificationError> {
        for (name, version) in self.transaction.contracts() {
            let oldest = contracts.get(name).map_or(0, |contract| contract.oldest());
            if *version < oldest {
                return Err(VerificationError::OutOfUse { contract: *name, version: *version, oldest });
            }
        }
        Ok(())
    }

    /// Every identity that the outputs name, in order, once for each output.
    ///
    /// # Errors
    /// [`VerificationError::UnknownContract`]; [`VerificationError::Output`] for an output that its
    /// contract cannot read.
    pub fn identities(&self, contracts: &Contracts) -> Result<Vec<Party>, VerificationError> {
        let mut identities = Vec::new();
        for (output, state) in self.outputs().iter().enumerate() {
            identities.extend(involved(contracts, output, state)?.identities);
        }
        Ok(identities)
    }

    fn check_consumers(&self) -> Result<(), VerificationError> {
        let signers = self.transaction.required_signers();
        for (reference, state) in self.transaction.inputs().iter().zip(&self.inputs) {
            let absent = state.consumers.iter().find(|consumer| signers.binary_search(consumer).is_err());
            if let Some(consumer) = absent {
                return Err(VerificationError::NotConsumed { state: *reference, consumer: *consumer });
            }
        }
        Ok(())
    }

    fn check_outputs(&self, contracts: &Contracts) -> Result<(), VerificationError> {
        for (output, state) in self.outputs().iter().enumerate() {
            if involved(contracts, output, state)?.consumers != state.consumers {
                return Err(VerificationError::Consumers { output, contract: state.contract });
            }
        }
        Ok(())
    }

    fn check_notary(&self) -> Result<(), VerificationError> {
        let expected = self.transaction.notary();
        let inputs = self.transaction.inputs().iter().zip(&self.inputs);
        let references = self.transaction.references().iter().zip(&self.references);
        for (reference, state) in inputs.chain(references) {
            if state.notary != *expected {
                return Err(VerificationError::Notary {
                    state: *reference,
                    found: Box::new(state.notary.clone()),
                    expected: Box::new(expected.clone()),
                });
            }
        }
        Ok(())
    }

    fn check_encumbrances(&self) -> Result<(), VerificationError> {
        if self.inputs.iter().all(|state| state.encumbrance.is_none()) {
            return Ok(());
        }
        let mut consumed = self.transaction.inputs().to_vec();
        consumed.sort_unstable();
        for (reference, state) in self.transaction.inputs().iter().zip(&self.inputs) {
            let Some(index) = state.encumbrance else { continue };
            let encumbrance = StateRef { transaction: reference.transaction, index };
            if consumed.binary_search(&encumbrance).is_err() {
                return Err(VerificationError::Encumbrance { state: *reference, encumbrance });
            }
        }
        Ok(())
    }

    fn check_versions(&self) -> Result<(), VerificationError> {
        for (reference, state) in self.transaction.inputs().iter().zip(&self.inputs) {
            let contract = state.contract;
            let named = self
                .transaction
                .version_of(&contract)
                .ok_or(VerificationError::ContractNotNamed(contract))?;
            if !state.versions.contains(named) {
                let allowed = state.versions;
                return Err(VerificationError::Version { state: *reference, contract, allowed, named });
            }
        }
        for (name, _) in self.transaction.contracts() {
            let states = || self.inputs.iter().chain(self.outputs()).any(|state| state.contract == *name);
            let commands = || self.transaction.commands().iter().any(|command| command.contract == *name);
            if !commands() && !states() {
                return Err(VerificationError::ContractUnused(*name));
            }
        }
        Ok(())
    }
}

fn involved(contracts: &Contracts, output: usize, state: &State) -> Result<Involved, VerificationError> {
    let contract =
        contracts.get(&state.contract).ok_or(VerificationError::UnknownContract(state.contract))?;
    contract
        .involved(state)
        .map_err(|error| VerificationError::Output { output, violation: Violation::from(error) })
}

fn of<T: ContractState>(states: &[State]) -> Result<Vec<T>, DecodeError> {
    let states = states.iter().filter(|state| state.contract == T::CONTRACT);
    states.map(|state| read("a state", T::CONTRACT, state.contract, &state.data)).collect()
}

#[cfg(test)]
mod tests;
