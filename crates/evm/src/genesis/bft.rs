//! The options of QBFT and IBFT 2.0 in a genesis file, and how they change at later blocks.

use alloy_primitives::{Address, U256};
use serde_json::{Map, Value};

use super::GenesisError;
use super::json::{self, Object};

/// The options under `config.qbft` or `config.ibft2`, as Besu names and defaults them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BftOptions {
    /// `epochlength`: blocks after which pending votes are dropped.
    pub epoch_length: u64,
    /// `blockperiodseconds`: least seconds between two blocks.
    pub block_period_seconds: u64,
    /// `xblockperiodmilliseconds`: replaces the period in seconds when it is not zero.
    pub block_period_milliseconds: u64,
    /// `xemptyblockperiodseconds`: least seconds before a block without transactions; zero for no difference.
    pub empty_block_period_seconds: u64,
    /// `requesttimeoutseconds`: how long round 0 lasts before it is changed.
    pub request_timeout_seconds: u64,
    /// `requesttimeoutmilliseconds`: replaces the timeout in seconds when it is not zero.
    pub request_timeout_milliseconds: u64,
    /// `gossipedhistorylimit`
    pub gossiped_history_limit: u64,
    /// `messagequeuelimit`
    pub message_queue_limit: u64,
    /// `duplicatemessagelimit`
    pub duplicate_message_limit: u64,
    /// `futuremessageslimit`
    pub future_messages_limit: u64,
    /// `futuremessagesmaxdistance`: heights ahead for which messages are kept.
    pub future_messages_max_distance: u64,
    /// `miningbeneficiary`: who gets fees and rewards, in place of the proposer.
    pub mining_beneficiary: Option<Address>,
    /// `blockreward`, in wei.
    pub block_reward: U256,
    /// `validatorcontractaddress`: the contract that names the validators, instead of the headers.
    pub validator_contract_address: Option<Address>,
    /// `startblock`: the first block of this consensus when a chain moves to it.
    pub start_block: Option<u64>,
    /// Changes by block, in ascending order of block.
    pub transitions: Vec<BftTransition>,
    /// Every key of the object as the file has it.
    pub all: Map<String, Value>,
}

/// What changes at a block; `None` leaves an option as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BftTransition {
    /// The first block with the new options.
    pub block: u64,
    /// `blockperiodseconds`
    pub block_period_seconds: Option<u64>,
    /// `xblockperiodmilliseconds`
    pub block_period_milliseconds: Option<u64>,
    /// `xemptyblockperiodseconds`
    pub empty_block_period_seconds: Option<u64>,
    /// `requesttimeoutseconds`
    pub request_timeout_seconds: Option<u64>,
    /// `blockreward`, in wei.
    pub block_reward: Option<U256>,
    /// `miningbeneficiary`; an empty string gives it back to the proposer, here `Some(None)`.
    pub mining_beneficiary: Option<Option<Address>>,
    /// `validators`: replaces the validators of the headers from this block on.
    pub validators: Option<Vec<Address>>,
    /// `validatorselectionmode`
    pub validator_selection: Option<ValidatorSelection>,
    /// `validatorcontractaddress`
    pub validator_contract_address: Option<Address>,
}

/// Where the list of validators comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidatorSelection {
    /// From votes in the headers.
    BlockHeader,
    /// From a contract's `getValidators()`.
    Contract,
}

impl Default for BftOptions {
    fn default() -> Self {
        Self {
            epoch_length: 30_000,
            block_period_seconds: 1,
            block_period_milliseconds: 0,
            empty_block_period_seconds: 0,
            request_timeout_seconds: 1,
            request_timeout_milliseconds: 0,
            gossiped_history_limit: 1_000,
            message_queue_limit: 1_000,
            duplicate_message_limit: 100,
            future_messages_limit: 1_000,
            future_messages_max_distance: 10,
            mining_beneficiary: None,
            block_reward: U256::ZERO,
            validator_contract_address: None,
            start_block: None,
            transitions: Vec::new(),
            all: Map::new(),
        }
    }
}

impl BftOptions {
    /// `options` is the object under the consensus's name; `transitions` the list for it under
    /// `config.transitions`, to which the object's own list is added.
    pub(super) fn read(
        options: &Object<'_>,
        transitions: &[Value],
        path: &str,
    ) -> Result<Self, GenesisError> {
        let default = Self::default();
        let number = |name: &str, default: u64| options.number(name).map(|value| value.unwrap_or(default));
        let positive = |name: &str, default: u64| match number(name, default)? {
            0 => Err(options.error(name, "the value must be above zero")),
            value => Ok(value),
        };
        let mut read = Self {
            epoch_length: positive("epochlength", default.epoch_length)?,
            block_period_seconds: positive("blockperiodseconds", default.block_period_seconds)?,
            block_period_milliseconds: number("xblockperiodmilliseconds", 0)?,
            empty_block_period_seconds: number("xemptyblockperiodseconds", 0)?,
            request_timeout_seconds: positive("requesttimeoutseconds", default.request_timeout_seconds)?,
            request_timeout_milliseconds: number("requesttimeoutmilliseconds", 0)?,
            gossiped_history_limit: number("gossipedhistorylimit", default.gossiped_history_limit)?,
            message_queue_limit: number("messagequeuelimit", default.message_queue_limit)?,
            duplicate_message_limit: number("duplicatemessagelimit", default.duplicate_message_limit)?,
            future_messages_limit: number("futuremessageslimit", default.future_messages_limit)?,
            future_messages_max_distance: number(
                "futuremessagesmaxdistance",
                default.future_messages_max_distance,
            )?,
            mining_beneficiary: beneficiary(options)?.flatten(),
            block_reward: options.quantity("blockreward")?.unwrap_or_default(),
            validator_contract_address: options.address("validatorcontractaddress")?,
            start_block: options.number("startblock")?,
            transitions: Vec::new(),
            all: options.map().clone(),
        };
        for (index, value) in transitions.iter().enumerate() {
            read.transitions.push(BftTransition::read(&Object::new(value, format!("{path}[{index}]"))?)?);
        }
        for (index, value) in options.array("transitions")?.iter().enumerate() {
            let path = format!("{}[{index}]", options.at("transitions"));
            read.transitions.push(BftTransition::read(&Object::new(value, path)?)?);
        }
        read.transitions.sort_by_key(|transition| transition.block);
        Ok(read)
    }

    /// The options that hold for block `number`: its transitions applied in order.
    pub fn at(&self, number: u64) -> Self {
        let mut options = self.clone();
        for transition in self.transitions.iter().take_while(|transition| transition.block <= number) {
            transition.apply(&mut options);
        }
        options
    }
}

impl BftTransition {
    fn read(object: &Object<'_>) -> Result<Self, GenesisError> {
        let block = object.number("block")?.ok_or_else(|| object.error("block", "the field is missing"))?;
        let validators = match object.get("validators") {
            None => None,
            Some(_) => Some(
                object
                    .array("validators")?
                    .iter()
                    .enumerate()
                    .map(|(index, value)| {
                        let text = value.as_str().ok_or_else(|| "an address was expected".to_owned());
                        text.and_then(json::address)
                            .map_err(|problem| object.error(&format!("validators[{index}]"), problem))
                    })
                    .collect::<Result<Vec<_>, _>>()?,
            ),
        };
        let validator_selection = match object.text("validatorselectionmode")? {
            None => None,
            Some(mode) if mode.eq_ignore_ascii_case("blockheader") => Some(ValidatorSelection::BlockHeader),
            Some(mode) if mode.eq_ignore_ascii_case("contract") => Some(ValidatorSelection::Contract),
            Some(_) => {
                return Err(
                    object.error("validatorselectionmode", "`blockheader` or `contract` was expected")
                );
            }
        };
        let contract = object.address("validatorcontractaddress")?;
        match validator_selection {
            // What headers named before the contract did is stale or empty, and a node that starts again after the epoch
            // began would take something else for it. Besu refuses such a file as well (`QbftForksSchedulesFactory`).
            Some(ValidatorSelection::BlockHeader) if validators.as_ref().is_none_or(Vec::is_empty) => {
                return Err(object.error(
                    "validators",
                    "a transition to `blockheader` needs a list of at least one validator",
                ));
            }
            Some(ValidatorSelection::Contract) if contract.is_none() => {
                return Err(object.error(
                    "validatorcontractaddress",
                    "a transition to `contract` needs the address of the contract",
                ));
            }
            _ if validators.as_ref().is_some_and(Vec::is_empty) => {
                return Err(object.error("validators", "a chain needs at least one validator"));
            }
            _ => {}
        }
        Ok(Self {
            block,
            block_period_seconds: object.number("blockperiodseconds")?,
            block_period_milliseconds: object.number("xblockperiodmilliseconds")?,
            empty_block_period_seconds: object.number("xemptyblockperiodseconds")?,
            request_timeout_seconds: object.number("requesttimeoutseconds")?,
            block_reward: object.quantity("blockreward")?,
            mining_beneficiary: beneficiary(object)?,
            validators,
            validator_selection,
            validator_contract_address: contract,
        })
    }

    fn apply(&self, options: &mut BftOptions) {
        let set = |target: &mut u64, value: Option<u64>| *target = value.unwrap_or(*target);
        set(&mut options.block_period_seconds, self.block_period_seconds);
        set(&mut options.block_period_milliseconds, self.block_period_milliseconds);
        set(&mut options.empty_block_period_seconds, self.empty_block_period_seconds);
        set(&mut options.request_timeout_seconds, self.request_timeout_seconds);
        options.block_reward = self.block_reward.unwrap_or(options.block_reward);
        options.mining_beneficiary = self.mining_beneficiary.unwrap_or(options.mining_beneficiary);
        match self.validator_selection {
            Some(ValidatorSelection::BlockHeader) => options.validator_contract_address = None,
            Some(ValidatorSelection::Contract) | None => {
                options.validator_contract_address =
                    self.validator_contract_address.or(options.validator_contract_address);
            }
        }
    }
}

fn beneficiary(object: &Object<'_>) -> Result<Option<Option<Address>>, GenesisError> {
    match object.text("miningbeneficiary")?.map(str::trim) {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(_) => Ok(Some(object.address("miningbeneficiary")?)),
    }
}
