//! Genesis files: the first block of a chain, the state it starts from and its configuration.
//!
//! Both forms in use are read: geth's, and Besu's with its `qbft`, `ibft2` and `transitions` objects,
//! keys in any case and comments.

mod bft;
pub(crate) mod json;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use alloy_consensus::Header;
use alloy_consensus::constants::{EMPTY_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{Address, B64, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use serde_json::{Map, Value};
use tally_state::{Account, AccountChange, Changes};

pub use bft::{BftOptions, BftTransition, ValidatorSelection};

use crate::schedule::{Fork, INITIAL_BASE_FEE, Schedule};
pub(crate) use json::Object;

/// Why a genesis file was refused.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The text is no JSON.
    #[error("the genesis file is not JSON")]
    Json(#[source] serde_json::Error),
    /// A field is missing or has a value that it cannot have.
    #[error("genesis field `{path}`: {problem}")]
    Field {
        /// Where the field stands, such as `config.qbft.blockperiodseconds`.
        path: String,
        /// What was expected there.
        problem: String,
    },
}

/// Who decides which block comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consensus {
    /// Proof of work, and what followed it: blocks of work up to the terminal total difficulty, then
    /// blocks that a beacon chain ordered.
    Ethereum,
    /// Clique's proof of authority (EIP-225); recognised so that it can be refused by name.
    Clique,
    /// IBFT 2.0.
    Ibft2(Box<BftOptions>),
    /// QBFT.
    Qbft(Box<BftOptions>),
}

/// A genesis file.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// `config`: every key as the file has it.
    pub config: Map<String, Value>,
    /// `config.chainId`; 1 when absent, as in tests.
    pub chain_id: u64,
    /// Which consensus the configuration names.
    pub consensus: Consensus,
    /// `number`, zero in ordinary files.
    pub number: u64,
    /// `nonce`
    pub nonce: B64,
    /// `timestamp`, seconds since 1970.
    pub timestamp: u64,
    /// `extraData`
    pub extra_data: Bytes,
    /// `gasLimit`
    pub gas_limit: u64,
    /// `gasUsed`
    pub gas_used: u64,
    /// `difficulty`
    pub difficulty: U256,
    /// `mixHash`
    pub mix_hash: B256,
    /// `coinbase`
    pub coinbase: Address,
    /// `parentHash`
    pub parent_hash: B256,
    /// `baseFeePerGas`, in wei: the base fee of the first block.
    pub base_fee_per_gas: Option<u64>,
    /// `excessBlobGas`
    pub excess_blob_gas: Option<u64>,
    /// `blobGasUsed`
    pub blob_gas_used: Option<u64>,
    /// `parentBeaconBlockRoot`
    pub parent_beacon_block_root: Option<B256>,
    /// `alloc`: the accounts that exist from the start.
    pub alloc: BTreeMap<Address, Allocation>,
}

/// One account of `alloc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// In wei.
    pub balance: U256,
    /// Transactions counted as sent.
    pub nonce: u64,
    /// Runtime code.
    pub code: Bytes,
    /// Slots that are not zero.
    pub storage: BTreeMap<U256, U256>,
}

impl Genesis {
    /// Reads the text of a genesis file.
    ///
    /// # Errors
    /// Text that is no JSON, and the path of the first field that is wrong.
    pub fn parse(text: &str) -> Result<Self, GenesisError> {
        let value = serde_json::from_str(&json::without_comments(text)).map_err(GenesisError::Json)?;
        Self::from_value(&value)
    }

    /// As [`Genesis::parse`], of a file that is JSON already.
    ///
    /// # Errors
    /// The path of the first field that is wrong.
    pub fn from_value(value: &Value) -> Result<Self, GenesisError> {
        let file = Object::new(value, "")?;
        let config = file.object("config")?.unwrap_or_else(|| Object::empty("config"));
        Ok(Self {
            chain_id: config.number("chainId")?.unwrap_or(1),
            consensus: consensus(&config)?,
            number: file.number("number")?.unwrap_or(0),
            nonce: B64::from(file.number("nonce")?.unwrap_or(0)),
            timestamp: file.number("timestamp")?.unwrap_or(0),
            extra_data: file.bytes("extraData")?.unwrap_or_default(),
            gas_limit: file
                .number("gasLimit")?
                .ok_or_else(|| file.error("gasLimit", "the field is missing"))?,
            gas_used: file.number("gasUsed")?.unwrap_or(0),
            difficulty: file
                .quantity("difficulty")?
                .ok_or_else(|| file.error("difficulty", "the field is missing"))?,
            mix_hash: file.word("mixHash")?.unwrap_or_default(),
            coinbase: file.address("coinbase")?.unwrap_or_default(),
            parent_hash: file.word("parentHash")?.unwrap_or_default(),
            base_fee_per_gas: file.number("baseFeePerGas")?,
            excess_blob_gas: file.number("excessBlobGas")?,
            blob_gas_used: file.number("blobGasUsed")?,
            parent_beacon_block_root: file.word("parentBeaconBlockRoot")?,
            alloc: alloc(&file)?,
            config: config.map().clone(),
        })
    }

    /// Which forks the chain has, and when.
    ///
    /// # Errors
    /// The path of the first field of `config` that is wrong, or of a fork that comes before its
    /// predecessor.
    pub fn schedule(&self) -> Result<Schedule, GenesisError> {
        Schedule::of(self)
    }

    /// The header of the first block, over the state with this root.
    ///
    /// The fields that forks added are there when the fork holds for block 0 and the header has a base fee, behind which
    /// they stand (Besu, `BlockHeader.writeTo`).
    pub fn header(&self, schedule: &Schedule, state_root: B256) -> Header {
        let base_fee_per_gas = self.first_base_fee(schedule);
        let active =
            |fork| base_fee_per_gas.is_some() && schedule.is_active(fork, self.number, self.timestamp);
        let cancun = active(Fork::Cancun);
        let amsterdam = active(Fork::Amsterdam);
        Header {
            parent_hash: self.parent_hash,
            beneficiary: self.coinbase,
            state_root,
            transactions_root: EMPTY_ROOT_HASH,
            receipts_root: EMPTY_ROOT_HASH,
            difficulty: self.difficulty,
            number: self.number,
            gas_limit: self.gas_limit,
            gas_used: self.gas_used,
            timestamp: self.timestamp,
            extra_data: self.extra_data.clone(),
            mix_hash: self.mix_hash,
            nonce: self.nonce,
            base_fee_per_gas,
            withdrawals_root: active(Fork::Shanghai).then_some(EMPTY_WITHDRAWALS),
            blob_gas_used: cancun.then(|| self.blob_gas_used.unwrap_or(0)),
            excess_blob_gas: cancun.then(|| self.excess_blob_gas.unwrap_or(0)),
            parent_beacon_block_root: cancun.then(|| self.parent_beacon_block_root.unwrap_or_default()),
            requests_hash: active(Fork::Prague).then_some(EMPTY_REQUESTS_HASH),
            block_access_list_hash: amsterdam.then_some(crate::block::EMPTY_BLOCK_ACCESS_LIST_HASH),
            slot_number: amsterdam.then_some(0),
            ..Header::default()
        }
    }

    /// The base fee of the first block, in wei. `zeroBaseFee` does not count here: it is for the blocks after.
    ///
    /// Where validators seal as Besu has it (`GenesisConfig.getGenesisBaseFeePerGas`): what the file says, London or not,
    /// else 1 gwei if the file itself has `londonBlock` at 0. Elsewhere as geth has it: since London, 1 gwei by default.
    fn first_base_fee(&self, schedule: &Schedule) -> Option<u64> {
        let default = if schedule.sealed {
            schedule.has_from_the_start(Fork::London)
        } else if schedule.is_active(Fork::London, self.number, self.timestamp) {
            true
        } else {
            return None;
        };
        self.base_fee_per_gas.or(default.then_some(INITIAL_BASE_FEE))
    }

    /// The state before block 1, as changes of the empty state.
    pub fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (address, allocation) in &self.alloc {
            let code_hash =
                if allocation.code.is_empty() { KECCAK256_EMPTY } else { keccak256(&allocation.code) };
            if !allocation.code.is_empty() {
                changes.codes.insert(code_hash, allocation.code.clone());
            }
            let account = Account { nonce: allocation.nonce, balance: allocation.balance, code_hash };
            changes.accounts.insert(
                *address,
                AccountChange {
                    account: Some(account),
                    storage_cleared: false,
                    storage: allocation.storage.iter().map(|(slot, value)| (*slot, *value)).collect(),
                },
            );
        }
        changes
    }
}

fn consensus(config: &Object<'_>) -> Result<Consensus, GenesisError> {
    let transitions = config.object("transitions")?;
    let options = |name: &str| -> Result<Option<Box<BftOptions>>, GenesisError> {
        let Some(options) = config.object(name)? else { return Ok(None) };
        let list = match &transitions {
            Some(transitions) => transitions.array(name)?,
            None => &[],
        };
        BftOptions::read(&options, list, &format!("config.transitions.{name}")).map(Box::new).map(Some)
    };
    if let Some(options) = options("qbft")? {
        return Ok(Consensus::Qbft(options));
    }
    if let Some(options) = options("ibft2")? {
        return Ok(Consensus::Ibft2(options));
    }
    Ok(if config.get("clique").is_some() { Consensus::Clique } else { Consensus::Ethereum })
}

fn alloc(file: &Object<'_>) -> Result<BTreeMap<Address, Allocation>, GenesisError> {
    match file.object("alloc")? {
        Some(alloc) => accounts(&alloc),
        None => Ok(BTreeMap::new()),
    }
}

/// Accounts by address, as `alloc` and the tests list them.
pub(crate) fn accounts(alloc: &Object<'_>) -> Result<BTreeMap<Address, Allocation>, GenesisError> {
    let mut accounts = BTreeMap::new();
    for (key, value) in alloc.map() {
        let address = json::address(key).map_err(|problem| alloc.error(key, problem))?;
        let entry = Object::new(value, alloc.at(key))?;
        let mut storage = BTreeMap::new();
        if let Some(slots) = entry.object("storage")? {
            for (slot, value) in slots.map() {
                let key = json::word(slot).map_err(|problem| slots.error(slot, problem))?;
                let text = value.as_str().ok_or_else(|| slots.error(slot, "a string was expected"))?;
                let value = json::word(text).map_err(|problem| slots.error(slot, problem))?;
                if !value.is_zero() {
                    storage.insert(key, value);
                }
            }
        }
        let allocation = Allocation {
            balance: entry.quantity("balance")?.unwrap_or_default(),
            nonce: entry.number("nonce")?.unwrap_or(0),
            code: entry.bytes("code")?.unwrap_or_default(),
            storage,
        };
        if accounts.insert(address, allocation).is_some() {
            return Err(alloc.error(key, "the address is listed twice"));
        }
    }
    Ok(accounts)
}
