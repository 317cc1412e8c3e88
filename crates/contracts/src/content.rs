//! What a transaction says, and the rules that it keeps whatever its contracts are.

use crate::component::{Component, FORMAT, GROUPS};
use crate::limits::{
    ATTACHMENTS, COMMANDS, CONSUMERS, CONTRACTS, DATA_BYTES, SIGNATURES, SIGNERS, STATES, TRANSACTION_BYTES,
};
use crate::{
    AttachmentId, Command, ContractName, NetworkId, Party, PublicKey, State, StateRef, TimeWindow,
    VersionRange,
};
use borsh::{BorshDeserialize, BorshSerialize};

/// Everything a transaction says.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub(crate) struct Content {
    pub(crate) network: NetworkId,
    pub(crate) inputs: Vec<StateRef>,
    pub(crate) references: Vec<StateRef>,
    pub(crate) outputs: Vec<State>,
    pub(crate) commands: Vec<Command>,
    pub(crate) attachments: Vec<AttachmentId>,
    pub(crate) contracts: Vec<(ContractName, u32)>,
    pub(crate) notary: Party,
    pub(crate) time_window: Option<TimeWindow>,
}

/// Why something is not a well-formed transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The encoding is of another format.
    #[error("the transaction is of format {0}, this code reads format {FORMAT}")]
    Format(u8),
    /// The encoding is too long.
    #[error("the transaction has {0} bytes, at most {TRANSACTION_BYTES} are allowed")]
    TooLong(usize),
    /// Too many of something.
    #[error("the transaction has {count} {what}, at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// It neither consumes nor creates anything.
    #[error("the transaction has neither inputs nor outputs")]
    Empty,
    /// It has no command, so nobody would say what it is for.
    #[error("the transaction has no command")]
    NoCommand,
    /// No command has a signer.
    #[error("no command of the transaction has a signer")]
    NoSigner,
    /// A state is consumed or read twice, or both.
    #[error("state {0} occurs twice among inputs and references")]
    StateTwice(StateRef),
    /// An attachment is named twice.
    #[error("attachment {0} is named twice")]
    AttachmentTwice(AttachmentId),
    /// Signers of a command are not in strictly ascending order.
    #[error("the signers of command {command} are not in strictly ascending order")]
    SignerOrder {
        /// Which command.
        command: usize,
    },
    /// Consumers of an output are not in strictly ascending order.
    #[error("the consumers of output {output} are not in strictly ascending order")]
    ConsumerOrder {
        /// Which output.
        output: usize,
    },
    /// A composite key is to sign as a party, or to consume a state.
    #[error("a composite key is a notary's alone: it neither signs a command nor consumes a state")]
    Composite,
    /// Contracts are not in strictly ascending order of their names.
    #[error("the contracts named are not in strictly ascending order")]
    ContractOrder,
    /// A contract of an output or a command is not named.
    #[error("contract {0} of an output or a command is not named by the transaction")]
    ContractNotNamed(ContractName),
    /// The version named may not govern an output.
    #[error("output {output} is to be governed by {allowed} of {contract}, the transaction names {named}")]
    Version {
        /// Which output.
        output: usize,
        /// Its contract.
        contract: ContractName,
        /// The versions that it allows.
        allowed: VersionRange,
        /// The version that the transaction names.
        named: u32,
    },
    /// An output has another notary than the transaction.
    #[error("output {output} has notary {found}, the transaction has {expected}")]
    OutputNotary {
        /// Which output.
        output: usize,
        /// Its notary.
        found: Box<Party>,
        /// The transaction's notary.
        expected: Box<Party>,
    },
    /// An output's encumbrance is not another encumbered output, or shared with a third.
    #[error(
        "output {output} is encumbered by {encumbrance}: encumbrances form closed rings of at least two outputs"
    )]
    Encumbrance {
        /// Which output.
        output: usize,
        /// Its encumbrance.
        encumbrance: u32,
    },
    /// The time window has no bound or ends before it begins.
    #[error("the time window ({0}) has no bound, or contains no moment")]
    TimeWindow(TimeWindow),
}

impl Content {
    /// The number of components of each group.
    pub(crate) fn counts(&self) -> [u32; GROUPS] {
        // The limits are far below 2^32, and are checked before this is used.
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        [
            count(self.inputs.len()),
            count(self.references.len()),
            count(self.outputs.len()),
            count(self.commands.len()),
            count(self.commands.len()),
            count(self.attachments.len()),
            count(self.contracts.len()),
            1,
            u32::from(self.time_window.is_some()),
            count(self.outputs.len()),
        ]
    }

    /// All components, group after group.
    pub(crate) fn components(&self) -> impl Iterator<Item = Component<'_>> {
        (self.inputs.iter().map(Component::Input))
            .chain(self.references.iter().map(Component::Reference))
            .chain(self.outputs.iter().map(Component::Output))
            .chain(self.commands.iter().map(Component::Command))
            .chain(self.commands.iter().map(Component::Signers))
            .chain(self.attachments.iter().map(Component::Attachment))
            .chain(self.contracts.iter().map(Component::Contract))
            .chain(std::iter::once(Component::Notary(&self.notary)))
            .chain(self.time_window.iter().map(Component::TimeWindow))
            .chain(self.outputs.iter().map(Component::Consumers))
    }

    pub(crate) fn version_of(&self, contract: &ContractName) -> Option<u32> {
        let at = self.contracts.binary_search_by_key(contract, |(name, _)| *name).ok()?;
        self.contracts.get(at).map(|(_, version)| *version)
    }

    pub(crate) fn check(&self) -> Result<(), TransactionError> {
        let limits = [
            ("inputs", self.inputs.len(), STATES),
            ("references", self.references.len(), STATES),
            ("outputs", self.outputs.len(), STATES),
            ("commands", self.commands.len(), COMMANDS),
            ("attachments", self.attachments.len(), ATTACHMENTS),
            ("contracts", self.contracts.len(), CONTRACTS),
        ];
        for (what, count, limit) in limits {
            if count > limit {
                return Err(TransactionError::TooMany { what, count, limit });
            }
        }
        if self.inputs.is_empty() && self.outputs.is_empty() {
            return Err(TransactionError::Empty);
        }
        if self.commands.is_empty() {
            return Err(TransactionError::NoCommand);
        }
        if let Some(twice) = duplicate(self.inputs.iter().chain(&self.references)) {
            return Err(TransactionError::StateTwice(*twice));
        }
        if let Some(twice) = duplicate(self.attachments.iter()) {
            return Err(TransactionError::AttachmentTwice(*twice));
        }
        if !self.contracts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(TransactionError::ContractOrder);
        }
        if let Some(window) = self.time_window.filter(|window| !window.is_well_formed()) {
            return Err(TransactionError::TimeWindow(window));
        }
        self.check_commands()?;
        self.check_outputs()
    }

    fn check_commands(&self) -> Result<(), TransactionError> {
        for (command, Command { contract, data, signers }) in self.commands.iter().enumerate() {
            if signers.len() > SIGNERS {
                return Err(TransactionError::TooMany {
                    what: "signers of one command",
                    count: signers.len(),
                    limit: SIGNERS,
                });
            }
            if !signers.is_sorted_by(|a, b| a < b) {
                return Err(TransactionError::SignerOrder { command });
            }
            if signers.iter().any(PublicKey::is_composite) {
                return Err(TransactionError::Composite);
            }
            check_data("bytes in one command", data)?;
            if self.version_of(contract).is_none() {
                return Err(TransactionError::ContractNotNamed(*contract));
            }
        }
        if self.commands.iter().all(|command| command.signers.is_empty()) {
            return Err(TransactionError::NoSigner);
        }
        Ok(())
    }

    fn check_outputs(&self) -> Result<(), TransactionError> {
        for (output, state) in self.outputs.iter().enumerate() {
            check_data("bytes in one state", &state.data)?;
            let count = state.consumers.len();
            if count > CONSUMERS {
                let what = "consumers of one state";
                return Err(TransactionError::TooMany { what, count, limit: CONSUMERS });
            }
            if !state.consumers.is_sorted_by(|a, b| a < b) {
                return Err(TransactionError::ConsumerOrder { output });
            }
            if state.consumers.iter().any(PublicKey::is_composite) {
                return Err(TransactionError::Composite);
            }
            let named =
                self.version_of(&state.contract).ok_or(TransactionError::ContractNotNamed(state.contract))?;
            if !state.versions.contains(named) {
                return Err(TransactionError::Version {
                    output,
                    contract: state.contract,
                    allowed: state.versions,
                    named,
                });
            }
            if state.notary != self.notary {
                return Err(TransactionError::OutputNotary {
                    output,
                    found: Box::new(state.notary.clone()),
                    expected: Box::new(self.notary.clone()),
                });
            }
        }
        self.check_encumbrances()
    }

    /// Encumbered outputs stand in rings, so that consuming one of them consumes all: an output
    /// whose encumbrance could be consumed without it would be frozen for ever.
    fn check_encumbrances(&self) -> Result<(), TransactionError> {
        if self.outputs.iter().all(|state| state.encumbrance.is_none()) {
            return Ok(());
        }
        let mut taken = vec![false; self.outputs.len()];
        for (output, state) in self.outputs.iter().enumerate() {
            let Some(encumbrance) = state.encumbrance else { continue };
            let refused = TransactionError::Encumbrance { output, encumbrance };
            let Ok(target) = usize::try_from(encumbrance) else { return Err(refused) };
            let encumbered = self.outputs.get(target).is_some_and(|state| state.encumbrance.is_some());
            // Each encumbered output is pointed at at most once, so following them makes rings.
            match taken.get_mut(target) {
                Some(taken) if encumbered && target != output && !*taken => *taken = true,
                _ => return Err(refused),
            }
        }
        Ok(())
    }

    /// Whether the notary has anything to attest.
    pub(crate) fn needs_notary(&self) -> bool {
        !self.inputs.is_empty() || !self.references.is_empty() || self.time_window.is_some()
    }

    pub(crate) fn required_signers(&self) -> Result<Vec<PublicKey>, TransactionError> {
        let mut signers: Vec<_> =
            self.commands.iter().flat_map(|command| &command.signers).copied().collect();
        signers.sort_unstable();
        signers.dedup();
        if signers.len() > SIGNATURES {
            let count = signers.len();
            return Err(TransactionError::TooMany { what: "required signers", count, limit: SIGNATURES });
        }
        Ok(signers)
    }
}

fn check_data(what: &'static str, data: &[u8]) -> Result<(), TransactionError> {
    if data.len() > DATA_BYTES {
        return Err(TransactionError::TooMany { what, count: data.len(), limit: DATA_BYTES });
    }
    Ok(())
}

/// One of the items that occur more than once.
pub(crate) fn duplicate<'a, T: Ord>(items: impl Iterator<Item = &'a T>) -> Option<&'a T> {
    let mut sorted: Vec<_> = items.collect();
    if sorted.len() < 2 {
        return None;
    }
    sorted.sort_unstable();
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}
