//! Opening a chain: from its genesis file the first time, as the last commit left it afterwards.

use std::sync::{Arc, Mutex, RwLock};

use alloy_consensus::Header;
use alloy_primitives::Address;
use tally_consensus::{Protocol, Tally, ValidatorSet, ValidatorsFrom};
use tally_evm::genesis::Consensus;
use tally_evm::{Block, Body, Genesis, Schedule};
use tally_state::{Batch, Database, Durability, Options as StateOptions, Snapshot, State};
use tokio::sync::broadcast;

use super::{Chain, Head, Shared};
use crate::blocks::{Blocks, SealedHeader};
use crate::branch::{Branch, Recent, codes};
use crate::error::ChainError;
use crate::recent::RecentBlocks;
use crate::sealed::{Sealed, Validators, ValidatorsError};

/// How many events a slow listener may fall behind.
const EVENTS: usize = 256;

/// How a chain is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How the state is kept, and how much of its past.
    pub state: StateOptions,
    /// Bytes of blocks that are kept decoded in memory.
    pub recent_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { state: StateOptions::default(), recent_bytes: 64 << 20 }
    }
}

impl Chain {
    /// Opens the chain of a genesis file in a store, which is filled if it is empty.
    ///
    /// # Errors
    /// A genesis file that is wrong or of another chain than the store's, and what failed.
    pub fn open(database: Database, genesis: Genesis, options: Options) -> Result<Self, ChainError> {
        let schedule = genesis.schedule()?;
        let sealed = match &genesis.consensus {
            Consensus::Qbft(bft) => Some(Sealed::new(Protocol::QBFT, (**bft).clone())),
            Consensus::Ibft2(bft) => Some(Sealed::new(Protocol::Ibft2, (**bft).clone())),
            Consensus::Ethereum => None,
            Consensus::Clique => return Err(ChainError::Consensus("clique")),
        };
        let blocks = Blocks::open(&database)?;
        let state = State::open(database.clone(), options.state)?;
        let first = first_block(&genesis, &schedule, sealed.as_ref())?;
        let snapshot = database.snapshot();
        match blocks.hash(&snapshot, genesis.number)? {
            None => {
                if let Some(sealed) = &sealed {
                    // A contract is asked once there is a state; anything else must be right before anything is written.
                    sealed.first(&first.header, |contract| Ok(vec![contract]))?;
                }
                let mut batch = Batch::new();
                let body = Body {
                    withdrawals: first.header.withdrawals_root.map(|_| Vec::new()),
                    ..Body::default()
                };
                let block = Block { header: first.header.clone(), body };
                let size = block.encode().len() as u64;
                let full =
                    Blocks::assemble(block, first.hash, first.total_difficulty, size, Vec::new(), Vec::new());
                blocks.put(&mut batch, &full);
                state.begin(&mut batch, genesis.number, &genesis.changes())?;
                database.commit(batch, Durability::Synced)?;
            }
            Some(found) if found != first.hash => {
                return Err(ChainError::OtherGenesis { expected: first.hash, found });
            }
            Some(_) => {}
        }
        let snapshot = database.snapshot();
        let view = state.view()?;
        // Blocks beyond the newest state are there when a fast sync is under way; they are not of the chain yet.
        let number = view.number().ok_or(tally_state::Error::NoState)?;
        let newest = blocks.header(&snapshot, number)?.ok_or(ChainError::Missing { number })?;
        if view.root() != newest.header.state_root {
            return Err(ChainError::Torn {
                number: newest.header.number,
                expected: newest.header.state_root,
                found: view.root(),
            });
        }
        let branch = Branch { sealed: Arc::new(newest), view, validators: None, recent: Recent::default() };
        let (events, _) = broadcast::channel(EVENTS);
        let chain = Self {
            shared: Arc::new(Shared {
                genesis_hash: first.hash,
                genesis,
                schedule,
                sealed,
                database,
                blocks,
                state,
                codes: codes(),
                head: RwLock::new(Arc::new(Head { branch: branch.clone(), snapshot: snapshot.clone() })),
                writer: Mutex::new(()),
                recent: RecentBlocks::new(options.recent_bytes),
                events,
            }),
        };
        let validators = chain.validators_at_open(&branch, &snapshot)?;
        chain.set_head(Head { branch: Branch { validators, ..branch }, snapshot });
        Ok(chain)
    }

    /// The validators of the next block, from the headers since the epoch began.
    fn validators_at_open(&self, branch: &Branch, at: &Snapshot) -> Result<Option<Validators>, ChainError> {
        let newest = branch.number();
        self.validators_after_block(newest, at, |number, header, address| {
            // Only the contract's newest answer counts; what it said before is not asked for.
            if number == newest {
                self.call_validators(&branch.view, header, address)
            } else {
                Ok(vec![address])
            }
        })
    }

    /// The validators of the block after `newest`, from the headers since the epoch began. `contract` gives what a
    /// contract says after a block.
    pub(super) fn validators_after_block(
        &self,
        newest: u64,
        at: &Snapshot,
        contract: impl Fn(u64, &Header, Address) -> Result<Vec<Address>, ValidatorsError>,
    ) -> Result<Option<Validators>, ChainError> {
        let Some(sealed) = self.sealed() else { return Ok(None) };
        let start = sealed.epoch_start(newest).max(self.genesis().number);
        let header = self.header_at(at, start)?;
        let mut validators = if start == self.genesis().number {
            sealed.first(&header, |address| contract(start, &header, address))?
        } else {
            let named = sealed.extra(&header)?.validators;
            let before = Validators {
                set: Arc::new(ValidatorSet::new(named.clone())),
                named: ValidatorsFrom::Headers,
                tally: Arc::new(Tally::new(&named)),
            };
            sealed.after(&before, &header, |address| contract(start, &header, address))?
        };
        for number in start + 1..=newest {
            let header = self.header_at(at, number)?;
            validators = sealed.after(&validators, &header, |address| contract(number, &header, address))?;
        }
        Ok(Some(validators))
    }

    pub(super) fn header_at(&self, at: &Snapshot, number: u64) -> Result<Header, ChainError> {
        match self.shared.blocks.header(at, number)? {
            Some(sealed) => Ok(sealed.header),
            None => Err(ChainError::Missing { number }),
        }
    }
}

/// The first block of a genesis file.
fn first_block(
    genesis: &Genesis,
    schedule: &Schedule,
    sealed: Option<&Sealed>,
) -> Result<SealedHeader, ChainError> {
    let scratch = State::open(Database::in_memory(), StateOptions::default())?;
    let root = scratch.begin(&mut Batch::new(), genesis.number, &genesis.changes())?;
    let header = genesis.header(schedule, root);
    let hash = match sealed {
        Some(sealed) => sealed.hash(&header)?,
        None => header.hash_slow(),
    };
    Ok(SealedHeader { hash, total_difficulty: header.difficulty, size: 0, header })
}
