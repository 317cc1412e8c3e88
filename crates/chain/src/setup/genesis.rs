//! The genesis file of a new network, in the form that Besu reads.

use alloy_eips::eip7825::MAX_TX_GAS_LIMIT_OSAKA;
use alloy_primitives::{Address, U256, hex};
use serde_json::{Value, json};
use tally_consensus::{Cover, ExtraData, MIX_HASH, Protocol};
use tally_evm::Fork;

/// The newest fork of a new network, in force from its first block on with all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewestFork {
    /// Cancun (EIP-7569).
    Cancun,
    /// Prague (EIP-7600): the newest that lets a transaction use a whole block's gas.
    #[default]
    Prague,
    /// Osaka (EIP-7607), whose EIP-7825 caps a transaction's gas at 2^24.
    Osaka,
}

impl NewestFork {
    /// The same among all forks.
    #[must_use]
    pub fn fork(self) -> Fork {
        match self {
            Self::Cancun => Fork::Cancun,
            Self::Prague => Fork::Prague,
            Self::Osaka => Fork::Osaka,
        }
    }

    /// The most gas that a transaction may ask for in blocks with this gas limit (EIP-7825).
    #[must_use]
    pub fn transaction_gas_limit(self, block_gas_limit: u64) -> u64 {
        match self {
            Self::Cancun | Self::Prague => block_gas_limit,
            Self::Osaka => block_gas_limit.min(MAX_TX_GAS_LIMIT_OSAKA),
        }
    }
}

/// What the first block says.
#[derive(Debug, Clone)]
pub struct GenesisPlan {
    /// The protocol of the validators.
    pub protocol: Protocol,
    /// The newest fork in force.
    pub fork: NewestFork,
    /// The identifier of the chain (EIP-155), which is also that of the network.
    pub chain_id: u64,
    /// The least time between two blocks, in seconds.
    pub block_period_seconds: u64,
    /// Blocks after which pending votes are dropped.
    pub epoch_length: u64,
    /// How long a round lasts at first, in seconds.
    pub request_timeout_seconds: u64,
    /// The gas limit of the first block.
    pub gas_limit: u64,
    /// When the first block was made, in seconds since 1970.
    pub timestamp: u64,
    /// The validators.
    pub validators: Vec<Address>,
    /// Accounts that have something from the start, in wei.
    pub funded: Vec<(Address, U256)>,
}

/// The text of the genesis file: every fork up to [`GenesisPlan::fork`] holds from the start, the base fee is zero.
///
/// The order of the validators does not matter: the first block lists them in ascending order.
#[must_use]
pub fn genesis_json(plan: &GenesisPlan) -> String {
    let mut validators = plan.validators.clone();
    validators.sort_unstable();
    validators.dedup();
    let extra_data = ExtraData::of_validators(&validators).encode(plan.protocol, Cover::Everything);
    let name = match plan.protocol {
        Protocol::Ibft2 => "ibft2",
        Protocol::Qbft(_) => "qbft",
    };
    let alloc: serde_json::Map<String, Value> = plan
        .funded
        .iter()
        .map(|(address, wei)| (hex::encode(address), json!({ "balance": format!("{wei:#x}") })))
        .collect();
    let mut config = json!({
        "chainId": plan.chain_id,
        "berlinBlock": 0,
        "londonBlock": 0,
        "shanghaiTime": 0,
        "cancunTime": 0,
        "zeroBaseFee": true,
        name: {
            "blockperiodseconds": plan.block_period_seconds,
            "epochlength": plan.epoch_length,
            "requesttimeoutseconds": plan.request_timeout_seconds,
        },
    });
    for (fork, key) in [(Fork::Prague, "pragueTime"), (Fork::Osaka, "osakaTime")] {
        if plan.fork.fork() >= fork {
            config[key] = json!(0);
        }
    }
    let file = json!({
        "config": config,
        "nonce": "0x0",
        "timestamp": format!("{:#x}", plan.timestamp),
        "gasLimit": format!("{:#x}", plan.gas_limit),
        "difficulty": "0x1",
        "mixHash": MIX_HASH,
        "coinbase": Address::ZERO,
        // Without it the first block would have 1 gwei, `zeroBaseFee` or not.
        "baseFeePerGas": "0x0",
        "extraData": hex::encode_prefixed(extra_data),
        "alloc": alloc,
    });
    // A value made of texts and numbers is always JSON.
    format!("{file:#}\n")
}
