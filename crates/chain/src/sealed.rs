//! What the known validators of a chain mean for its blocks: who may seal, when, and who is paid.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256};
use tally_consensus::{
    DecodeError, Expectation, ExtraData, HeaderError, Keys, Period, Protocol, Seal, Settings, Tally,
    ValidatorSet, ValidatorsFrom, block_hash, recover,
};
use tally_evm::Env;
use tally_evm::genesis::{BftOptions, ValidatorSelection};

/// The rules of a chain with known validators.
#[derive(Clone, Debug)]
pub struct Sealed {
    protocol: Protocol,
    options: BftOptions,
}

/// The validators of the next block, and the votes that are pending.
#[derive(Clone, Debug)]
pub struct Validators {
    /// Those of the next block.
    pub set: Arc<ValidatorSet>,
    /// Where the next block names them.
    pub named: ValidatorsFrom,
    /// Votes since the epoch began.
    pub tally: Arc<Tally>,
}

/// How much of a header is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seals {
    /// A quorum of seals, as every block of the chain has.
    Quorum,
    /// A proposal: no seals yet.
    Proposal,
    /// Seals were checked before.
    Checked,
}

/// The validators of a block cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ValidatorsError {
    /// The extra data cannot be read.
    #[error("the extra data of block {number} cannot be read")]
    ExtraData {
        /// The block.
        number: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// The contract did not give a list of addresses.
    #[error("the contract {contract} gave no validators: {reason}")]
    Contract {
        /// Its address.
        contract: Address,
        /// What it gave.
        reason: String,
    },
    /// The contract could not be asked, because this node could not read the state: nothing is said about the block.
    #[error("the state cannot be read")]
    State(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There would be none.
    #[error("block {number} would have no validators")]
    None {
        /// The block.
        number: u64,
    },
}

impl Sealed {
    /// Rules of a protocol with the options of a genesis file.
    pub fn new(protocol: Protocol, options: BftOptions) -> Self {
        Self { protocol, options }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The options that hold for a block.
    pub fn options(&self, number: u64) -> BftOptions {
        self.options.at(number)
    }

    /// The hash of a block: its header without seals and round.
    ///
    /// # Errors
    /// Extra data that cannot be read.
    pub fn hash(&self, header: &Header) -> Result<B256, ValidatorsError> {
        block_hash(self.protocol, header)
            .map_err(|source| ValidatorsError::ExtraData { number: header.number, source })
    }

    /// The contract that names the validators of a block, where one does.
    pub fn contract(&self, number: u64) -> Option<Address> {
        self.options(number).validator_contract_address
    }

    /// Whether a contract names validators of any block up to this one: what it says is known only with the state.
    pub fn asks_contract_until(&self, number: u64) -> bool {
        let transitions = self.options.transitions.iter().filter(|transition| transition.block <= number);
        let mut named = transitions.map(|transition| transition.validator_contract_address);
        self.options.validator_contract_address.is_some() || named.any(|contract| contract.is_some())
    }

    /// Times for a block.
    pub fn settings(&self, number: u64) -> Settings {
        let options = self.options(number);
        Settings {
            period: match options.block_period_milliseconds {
                0 => Period::Seconds(options.block_period_seconds),
                period_ms => Period::Milliseconds(period_ms),
            },
            empty_period_s: options.empty_block_period_seconds,
            request_timeout_ms: match options.request_timeout_milliseconds {
                0 => options.request_timeout_seconds.saturating_mul(1_000),
                timeout_ms => timeout_ms,
            },
        }
    }

    /// Who is paid what in a block.
    pub fn environment(&self, header: &Header) -> Env {
        let options = self.options(header.number);
        Env {
            beneficiary: options.mining_beneficiary.unwrap_or(header.beneficiary),
            reward: Some(options.block_reward),
            ..Env::of(header)
        }
    }

    /// The validators of block 1.
    ///
    /// # Errors
    /// A genesis block that names none, and what the contract gave.
    pub fn first(
        &self,
        genesis: &Header,
        contract: impl FnOnce(Address) -> Result<Vec<Address>, ValidatorsError>,
    ) -> Result<Validators, ValidatorsError> {
        let extra = self.extra(genesis)?;
        let tally = Arc::new(Tally::new(&extra.validators));
        self.next(genesis.number.saturating_add(1), tally, contract)
    }

    /// The validators after a block.
    ///
    /// # Errors
    /// Extra data that cannot be read, and what the contract gave.
    pub fn after(
        &self,
        before: &Validators,
        header: &Header,
        contract: impl FnOnce(Address) -> Result<Vec<Address>, ValidatorsError>,
    ) -> Result<Validators, ValidatorsError> {
        let extra = self.extra(header)?;
        let mut tally = Arc::clone(&before.tally);
        if extra.vote.is_some() || header.number.is_multiple_of(self.epoch(header.number)) {
            let counted = Arc::make_mut(&mut tally);
            counted.apply(header.number, self.epoch(header.number), header.beneficiary, extra.vote);
        }
        self.next(header.number.saturating_add(1), tally, contract)
    }

    fn next(
        &self,
        number: u64,
        mut tally: Arc<Tally>,
        contract: impl FnOnce(Address) -> Result<Vec<Address>, ValidatorsError>,
    ) -> Result<Validators, ValidatorsError> {
        let replaced = self
            .options
            .transitions
            .iter()
            .filter(|transition| transition.block == number)
            .find_map(|transition| transition.validators.as_ref());
        if let Some(replaced) = replaced {
            Arc::make_mut(&mut tally).replace(replaced);
        }
        let options = self.options(number);
        let by_header = self
            .options
            .transitions
            .iter()
            .filter(|transition| transition.block <= number)
            .filter_map(|transition| transition.validator_selection)
            .next_back()
            == Some(ValidatorSelection::BlockHeader);
        let (set, named) = match options.validator_contract_address {
            Some(address) if !by_header => (ValidatorSet::new(contract(address)?), ValidatorsFrom::Contract),
            _ => (tally.validators(), ValidatorsFrom::Headers),
        };
        if set.is_empty() {
            return Err(ValidatorsError::None { number });
        }
        Ok(Validators { set: Arc::new(set), named, tally })
    }

    fn epoch(&self, number: u64) -> u64 {
        self.options(number).epoch_length.max(1)
    }

    /// The first block whose votes count for the validators after `number`.
    pub fn epoch_start(&self, number: u64) -> u64 {
        let epoch = self.epoch(number);
        number / epoch * epoch
    }

    /// Reads a header's extra data.
    ///
    /// # Errors
    /// Extra data that cannot be read.
    pub fn extra(&self, header: &Header) -> Result<ExtraData, ValidatorsError> {
        ExtraData::decode(self.protocol, &header.extra_data)
            .map_err(|source| ValidatorsError::ExtraData { number: header.number, source })
    }

    /// Checks a header that follows `parent` against the validators of its height.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(
        &self,
        validators: &Validators,
        parent: &Header,
        header: &Header,
        seals: Seals,
    ) -> Result<(), HeaderError> {
        let extra = ExtraData::decode(self.protocol, &header.extra_data)?;
        let gap = self.settings(header.number).timestamp_gap_s();
        let expectation = Expectation {
            protocol: self.protocol,
            validators: &validators.set,
            named: validators.named,
            earliest_s: parent.timestamp.saturating_add(gap),
        };
        expectation.check(header, &extra)?;
        match seals {
            Seals::Quorum => expectation.check_seals(header, &extra, &Recovery),
            Seals::Proposal | Seals::Checked => Ok(()),
        }
    }
}

/// Recovers keys and signs nothing: what checking the seals of others takes.
#[derive(Clone, Copy, Debug)]
struct Recovery;

impl Keys for Recovery {
    fn address(&self) -> Address {
        Address::ZERO
    }

    fn sign(&self, _: B256) -> Option<Seal> {
        None
    }

    fn recover(&self, hash: B256, seal: &Seal) -> Option<Address> {
        recover(hash, seal)
    }
}

/// The call `getValidators()` of a validator contract.
pub const GET_VALIDATORS: [u8; 4] = [0xb7, 0xab, 0x4d, 0xb5];

/// Reads what `getValidators()` returned: the ABI's form of `address[]`.
///
/// # Errors
/// Anything else, and more than 10,000 addresses.
pub fn read_validators(contract: Address, output: &Bytes) -> Result<Vec<Address>, ValidatorsError> {
    const MOST: usize = 10_000;
    let wrong = |reason: &str| ValidatorsError::Contract { contract, reason: reason.into() };
    let word =
        |at: usize| -> Option<U256> { Some(U256::from_be_slice(output.get(at..at.checked_add(32)?)?)) };
    let offset = word(0).and_then(|word| usize::try_from(word).ok()).ok_or_else(|| wrong("no offset"))?;
    let count = word(offset)
        .and_then(|word| usize::try_from(word).ok())
        .filter(|count| *count <= MOST)
        .ok_or_else(|| wrong("no length, or one above 10,000"))?;
    (1..=count)
        .map(|index| {
            let word = offset
                .checked_add(32 * index)
                .and_then(word)
                .ok_or_else(|| wrong("fewer than its length"))?;
            Ok(Address::from_word(B256::from(word)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::keccak256;

    use super::*;

    #[test]
    fn the_selector_is_that_of_get_validators() {
        assert_eq!(keccak256("getValidators()")[..4], GET_VALIDATORS);
    }

    #[test]
    fn a_list_of_addresses_is_read_and_anything_else_refused() {
        let contract = Address::ZERO;
        let two = [Address::repeat_byte(1), Address::repeat_byte(2)];
        let mut output = U256::from(32).to_be_bytes::<32>().to_vec();
        output.extend(U256::from(2).to_be_bytes::<32>());
        two.iter().for_each(|address| output.extend(address.into_word()));
        assert_eq!(read_validators(contract, &output.clone().into()).unwrap(), two);
        for length in 0..output.len() {
            assert!(read_validators(contract, &output[..length].to_vec().into()).is_err(), "{length}");
        }
        let mut far = output.clone();
        far[0] = 0xff;
        assert!(read_validators(contract, &far.into()).is_err());
        output[32..64].copy_from_slice(&U256::from(10_001).to_be_bytes::<32>());
        assert!(read_validators(contract, &output.into()).is_err());
    }
}
