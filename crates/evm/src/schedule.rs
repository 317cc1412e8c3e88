//! Which rules hold for a block: forks by number, by time and by total difficulty.

mod fork;
mod networks;
#[cfg(test)]
mod tests;

use alloy_consensus::Header;
use alloy_eips::eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS;
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::{Address, U256};
use revm::primitives::hardfork::SpecId;
use serde_json::Value;

pub use fork::Fork;
pub use networks::UnknownNetwork;

use crate::genesis::{Consensus, Genesis, GenesisError, Object};

/// The base fee of the first block with one, unless the genesis file says otherwise (EIP-1559), in wei.
pub(crate) const INITIAL_BASE_FEE: u64 = 1_000_000_000;

/// When a fork begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activation {
    Never,
    Block(u64),
    Time(u64),
}

/// The forks of a chain and what its configuration changes about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// EIP-155 identifier of the chain.
    pub chain_id: u64,
    /// Total difficulty at which blocks of work end (EIP-3675); `None` when they never do.
    pub terminal_total_difficulty: Option<U256>,
    /// Whether blocks are sealed by known validators (QBFT, IBFT 2.0): difficulty is then one, there
    /// are no ommers, and forks after London come by time without a merge.
    pub sealed: bool,
    /// `zeroBaseFee`: the base fee of a block that this node builds is zero. The first block has its own, and blocks of
    /// before the network became free have the market's.
    pub zero_base_fee: bool,
    /// `contractSizeLimit`: bytes of code that a contract may have, in place of the fork's own limit.
    pub contract_size_limit: Option<usize>,
    /// Whose logs are deposits (EIP-6110).
    pub deposit_contract: Address,
    /// Whether the chain took part in the DAO fork (EIP-779).
    pub dao_fork_support: bool,
    activations: [Activation; Fork::COUNT],
    blobs: [Option<BlobParams>; Fork::COUNT],
}

/// What holds for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The newest fork in force.
    pub fork: Fork,
    /// The same as `revm` calls it.
    pub spec: SpecId,
    /// EIP-155 identifier of the chain.
    pub chain_id: u64,
    /// Blob limits and prices, since Cancun.
    pub blobs: Option<BlobParams>,
    /// Bytes of code that a contract may have, when the chain has a limit of its own.
    pub contract_size_limit: Option<usize>,
}

impl Rules {
    /// Whether `fork` holds.
    pub fn has(&self, fork: Fork) -> bool {
        self.fork >= fork
    }

    /// Blobs that the block may carry; none before Cancun.
    pub fn max_blobs_per_block(&self) -> u64 {
        self.blobs.map_or(0, |blobs| blobs.max_blob_count)
    }
}

impl Schedule {
    /// A chain without any fork after Frontier.
    fn frontier(chain_id: u64) -> Self {
        let mut schedule = Self {
            chain_id,
            terminal_total_difficulty: None,
            sealed: false,
            zero_base_fee: false,
            contract_size_limit: None,
            deposit_contract: MAINNET_DEPOSIT_CONTRACT_ADDRESS,
            dao_fork_support: true,
            activations: [Activation::Never; Fork::COUNT],
            blobs: [None; Fork::COUNT],
        };
        schedule.activations[Fork::Frontier.index()] = Activation::Block(0);
        for (fork, blobs) in [
            (Fork::Cancun, BlobParams::cancun()),
            (Fork::Prague, BlobParams::prague()),
            (Fork::Osaka, BlobParams::osaka()),
            (Fork::Bpo1, BlobParams::bpo1()),
            (Fork::Bpo2, BlobParams::bpo2()),
        ] {
            schedule.blobs[fork.index()] = Some(blobs);
        }
        schedule
    }

    pub(crate) fn of(genesis: &Genesis) -> Result<Self, GenesisError> {
        let value = Value::Object(genesis.config.clone());
        let config = Object::new(&value, "config")?;
        let mut schedule = Self::frontier(genesis.chain_id);
        schedule.sealed = matches!(genesis.consensus, Consensus::Qbft(_) | Consensus::Ibft2(_));
        schedule.zero_base_fee = config.flag("zeroBaseFee")?.unwrap_or(false);
        schedule.contract_size_limit = config
            .number("contractSizeLimit")?
            .map(|bytes| {
                usize::try_from(bytes)
                    .map_err(|_| config.error("contractSizeLimit", "the limit is too large"))
            })
            .transpose()?;
        if let Some(address) = config.address("depositContractAddress")? {
            schedule.deposit_contract = address;
        }
        if let Some(curve) = config.text("ecCurve")?
            && !curve.eq_ignore_ascii_case("secp256k1")
        {
            return Err(config.error("ecCurve", "only secp256k1 is supported"));
        }
        if !schedule.sealed {
            schedule.terminal_total_difficulty = config.quantity("terminalTotalDifficulty")?;
            if schedule.terminal_total_difficulty.is_none()
                && config.flag("terminalTotalDifficultyPassed")? == Some(true)
            {
                schedule.terminal_total_difficulty = Some(U256::ZERO);
            }
        }
        schedule.dao_fork_support = config.flag("daoForkSupport")?.unwrap_or(true);

        let mut previous: Option<(&str, Activation)> = None;
        for fork in Fork::ALL {
            let mut found = None;
            for name in fork.keys() {
                if let Some(at) = config.number(name)? {
                    found = Some((*name, at));
                    break;
                }
            }
            let Some((name, at)) = found else { continue };
            let activation = if fork.by_time() { Activation::Time(at) } else { Activation::Block(at) };
            schedule.activations[fork.index()] = activation;
            if fork == Fork::Dao {
                continue;
            }
            match previous {
                Some((before, Activation::Block(block))) if !fork.by_time() && block > at => {
                    return Err(
                        config.error(name, format!("it is earlier than `{before}`, which it builds on"))
                    );
                }
                Some((before, Activation::Time(time))) if fork.by_time() && time > at => {
                    return Err(
                        config.error(name, format!("it is earlier than `{before}`, which it builds on"))
                    );
                }
                _ => previous = Some((name, activation)),
            }
        }
        // geth takes a lone `constantinopleBlock` for both; Besu's networks mean what they say.
        if !schedule.sealed && schedule.activations[Fork::Petersburg.index()] == Activation::Never {
            schedule.activations[Fork::Petersburg.index()] =
                schedule.activations[Fork::Constantinople.index()];
        }
        schedule.read_blobs(&config)?;
        Ok(schedule)
    }

    /// Reads the `blobSchedule` of a configuration (EIP-7840).
    pub(crate) fn read_blobs(&mut self, config: &Object<'_>) -> Result<(), GenesisError> {
        let Some(list) = config.object("blobSchedule")? else { return Ok(()) };
        for fork in Fork::ALL.into_iter().filter(|fork| *fork >= Fork::Cancun) {
            let Some(entry) = list.object(fork.name())? else { continue };
            let number = |name: &str| -> Result<u64, GenesisError> {
                let value = entry.number(name)?;
                value.ok_or_else(|| entry.error(name, "the field is missing"))
            };
            let (target, max) = (number("target")?, number("max")?);
            // Besu wrote the long name first, geth the short one.
            let fraction = match entry.number("baseFeeUpdateFraction")? {
                Some(fraction) => fraction,
                None => self.blob_parameters(fork).map_or(0, |blobs| blobs.update_fraction as u64),
            };
            if fraction == 0 {
                return Err(entry.error("baseFeeUpdateFraction", "the value must be above zero"));
            }
            if target > max || max > 4096 {
                return Err(entry.error("max", "it must be at least `target` and at most 4096"));
            }
            self.set_blobs(fork, target, max, fraction);
        }
        Ok(())
    }

    /// Replaces the blob limits and the speed of the blob price (EIP-7840) that come with `fork`.
    ///
    /// `update_fraction` must not be zero, nor `max` below `target`; both are counts of blobs.
    pub(crate) fn set_blobs(&mut self, fork: Fork, target: u64, max: u64, update_fraction: u64) {
        let base = if fork >= Fork::Osaka {
            BlobParams::osaka()
        } else {
            BlobParams { max_blobs_per_tx: max, ..BlobParams::cancun() }
        };
        self.blobs[fork.index()] = Some(BlobParams {
            target_blob_count: target,
            max_blob_count: max,
            update_fraction: u128::from(update_fraction),
            ..base
        });
    }

    fn blob_parameters(&self, fork: Fork) -> Option<BlobParams> {
        self.blobs[..=fork.index()].iter().rev().find_map(|blobs| *blobs)
    }

    /// The newest fork of a block. `merged` is whether the block comes after the terminal total
    /// difficulty: its own difficulty is then zero.
    pub fn fork(&self, number: u64, timestamp: u64, merged: bool) -> Fork {
        let mut newest = Fork::Frontier;
        for fork in Fork::ALL {
            let active = match self.activations[fork.index()] {
                Activation::Never => {
                    fork == Fork::Paris && merged && self.terminal_total_difficulty.is_some()
                }
                Activation::Block(block) => number >= block,
                Activation::Time(time) => timestamp >= time,
            };
            if active {
                newest = fork;
            }
        }
        newest
    }

    /// Whether a fork holds for a block, as far as number and time say: blocks after genesis count as
    /// merged when the terminal total difficulty is zero.
    pub fn is_active(&self, fork: Fork, number: u64, timestamp: u64) -> bool {
        let merged = number > 0 && self.terminal_total_difficulty == Some(U256::ZERO);
        self.fork(number, timestamp, merged) >= fork
    }

    /// What holds for a block. `merged` as in [`Schedule::fork`].
    pub fn rules(&self, number: u64, timestamp: u64, merged: bool) -> Rules {
        let fork = self.fork(number, timestamp, merged);
        Rules {
            fork,
            spec: fork.spec(),
            chain_id: self.chain_id,
            blobs: if fork >= Fork::Cancun { self.blob_parameters(fork) } else { None },
            contract_size_limit: self.contract_size_limit,
        }
    }

    /// What holds for the block with this header.
    pub fn rules_of(&self, header: &Header) -> Rules {
        self.rules(header.number, header.timestamp, header.difficulty.is_zero())
    }

    /// Whether the irregular state change of the DAO fork belongs to block `number`.
    pub fn is_dao_fork(&self, number: u64) -> bool {
        self.dao_fork_support && self.dao_fork_block() == Some(number)
    }

    /// The block of the DAO fork, whether or not the chain supports it.
    pub fn dao_fork_block(&self) -> Option<u64> {
        match self.activations[Fork::Dao.index()] {
            Activation::Block(block) => Some(block),
            Activation::Never | Activation::Time(_) => None,
        }
    }

    /// Whether the configuration has `fork` itself begin with block 0, and not only one that builds on it.
    pub(crate) fn has_from_the_start(&self, fork: Fork) -> bool {
        self.activations[fork.index()] == Activation::Block(0)
    }

    /// When each fork begins that the configuration names: its name, and a block number or a time.
    pub fn list(&self) -> Vec<(Fork, ForkStart)> {
        Fork::ALL
            .into_iter()
            .filter_map(|fork| match self.activations[fork.index()] {
                Activation::Never => None,
                Activation::Block(block) => Some((fork, ForkStart::Block(block))),
                Activation::Time(time) => Some((fork, ForkStart::Time(time))),
            })
            .collect()
    }
}

/// The first block of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkStart {
    /// By its number.
    Block(u64),
    /// The first with at least this timestamp, in seconds since 1970.
    Time(u64),
}
