//! Reading the chain: blocks, transactions, receipts, states, each by number, hash or name.

use std::ops::RangeInclusive;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes, TxKind};
use tally_evm::execute::BlockHashes;
use tally_evm::{Recovered, Schedule};
use tally_state::View;

use super::{Chain, Head};
use crate::blocks::{
    Filter, FoundLog, FullBlock, LogLimits, Place, ReadError, Receipt, SealedHeader, TooMuch,
};
use crate::error::ChainError;

/// Which block is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockId {
    /// By number.
    Number(u64),
    /// By hash; only blocks of the chain are found.
    Hash(B256),
    /// The newest. Where validators seal it is safe and final as well.
    Latest,
}

/// The chain as it was when the reader was made. Cheap; made for each request.
#[derive(Clone, Debug)]
pub struct Reader {
    chain: Chain,
    head: Arc<Head>,
}

impl Chain {
    /// The chain as it is now.
    pub fn reader(&self) -> Reader {
        Reader { chain: self.clone(), head: self.head() }
    }
}

impl Reader {
    /// The newest block.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The forks.
    pub fn schedule(&self) -> &Schedule {
        self.chain.schedule()
    }

    /// The number of a block of the chain.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn number(&self, id: BlockId) -> Result<Option<u64>, ReadError> {
        match id {
            BlockId::Number(number) => Ok((number <= self.head.number()).then_some(number)),
            BlockId::Latest => Ok(Some(self.head.number())),
            BlockId::Hash(hash) if hash == self.head.hash() => Ok(Some(self.head.number())),
            BlockId::Hash(hash) => {
                let number = self.chain.shared.blocks.number(&self.head.snapshot, hash)?;
                Ok(number.filter(|number| *number <= self.head.number()))
            }
        }
    }

    /// The header of a block.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn header(&self, id: BlockId) -> Result<Option<Arc<SealedHeader>>, ReadError> {
        let Some(number) = self.number(id)? else { return Ok(None) };
        if number == self.head.number() {
            return Ok(Some(Arc::clone(self.head.sealed())));
        }
        if let Some(block) = self.recent(number) {
            return Ok(Some(Arc::new(block.sealed.clone())));
        }
        Ok(self.chain.shared.blocks.header(&self.head.snapshot, number)?.map(Arc::new))
    }

    /// A block with transactions and receipts.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn block(&self, id: BlockId) -> Result<Option<Arc<FullBlock>>, ReadError> {
        let Some(number) = self.number(id)? else { return Ok(None) };
        if let Some(block) = self.recent(number) {
            return Ok(Some(block));
        }
        let block = self.chain.shared.blocks.block(&self.head.snapshot, number)?;
        if let Some(block) = &block
            && self.is_current()
        {
            self.chain.shared.recent.put(Arc::clone(block));
        }
        Ok(block)
    }

    /// A block that was used lately, if it is the one of this reader's chain.
    fn recent(&self, number: u64) -> Option<Arc<FullBlock>> {
        self.chain.shared.recent.get(number).filter(|_| self.is_current())
    }

    /// Whether blocks of lower numbers are still those of this reader: always, where blocks are final.
    fn is_current(&self) -> bool {
        self.chain.sealed().is_some() || self.chain.head().hash() == self.head.hash()
    }

    /// Hashes of a block's transactions, 32 bytes each.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn transaction_hashes(&self, number: u64) -> Result<Vec<u8>, ReadError> {
        self.chain.shared.blocks.hashes(&self.head.snapshot, number)
    }

    /// Ommers and withdrawals of a block.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn rest(&self, number: u64) -> Result<(Vec<Header>, Option<Vec<Withdrawal>>), ReadError> {
        self.chain.shared.blocks.rest(&self.head.snapshot, number)
    }

    /// Where a transaction stands.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn place(&self, hash: B256) -> Result<Option<Place>, ReadError> {
        let place = self.chain.shared.blocks.place(&self.head.snapshot, hash)?;
        Ok(place.filter(|place| place.block <= self.head.number()))
    }

    /// The transaction at a place.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn transaction(&self, place: Place) -> Result<Option<Recovered>, ReadError> {
        if let Some(block) = self.recent(place.block) {
            return Ok(usize::try_from(place.index)
                .ok()
                .and_then(|index| block.transactions.get(index))
                .cloned());
        }
        self.chain.shared.blocks.transaction(&self.head.snapshot, place)
    }

    /// The receipt of the transaction at a place.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn receipt(&self, place: Place) -> Result<Option<Receipt>, ReadError> {
        if let Some(block) = self.recent(place.block) {
            return Ok(usize::try_from(place.index)
                .ok()
                .and_then(|index| block.receipts.get(index))
                .cloned());
        }
        self.chain.shared.blocks.receipt(&self.head.snapshot, place)
    }

    /// The receipts of a block.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn receipts(&self, number: u64) -> Result<Vec<Receipt>, ReadError> {
        match self.recent(number) {
            Some(block) => Ok(block.receipts.clone()),
            None => self.chain.shared.blocks.receipts(&self.head.snapshot, number),
        }
    }

    /// The logs of a range of blocks that a filter wants, in order. `go_on` is asked between blocks.
    ///
    /// # Errors
    /// The store's, and damage; inside, that the query asks for too much. `None` when `go_on` said no.
    pub fn logs(
        &self,
        filter: &Filter,
        range: RangeInclusive<u64>,
        limits: LogLimits,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<Result<Vec<FoundLog>, TooMuch>>, ReadError> {
        let range = *range.start()..=(*range.end()).min(self.head.number());
        let blocks = &self.chain.shared.blocks;
        let candidates = match blocks.candidates(&self.head.snapshot, filter, range, limits)? {
            Ok(candidates) => candidates,
            Err(too_much) => return Ok(Some(Err(too_much))),
        };
        let mut found = Vec::new();
        for number in candidates {
            if !go_on() {
                return Ok(None);
            }
            match self.recent(number) {
                Some(block) => found.extend(block.logs(filter)),
                None => found.extend(blocks.logs(&self.head.snapshot, filter, number)?),
            }
            if found.len() > limits.logs {
                return Ok(Some(Err(TooMuch::Logs { limit: limits.logs, until: number })));
            }
        }
        Ok(Some(Ok(found)))
    }

    /// The state after a block.
    ///
    /// # Errors
    /// The store's, damage, and a state that is no longer kept.
    pub fn state(&self, number: u64) -> Result<View, ChainError> {
        if number == self.head.number() {
            return Ok(self.head.branch.view.clone());
        }
        Ok(self.chain.shared.state.at(number)?)
    }

    /// The oldest block whose state is kept.
    ///
    /// # Errors
    /// The store's.
    pub fn oldest_state(&self) -> Result<u64, ChainError> {
        Ok(self.chain.shared.state.oldest()?.unwrap_or(0))
    }

    /// The hash of a block of the chain; zero when there is none, or it cannot be read: what `BLOCKHASH` gives.
    pub fn hash_or_zero(&self, number: u64) -> B256 {
        self.chain.shared.blocks.hash(&self.head.snapshot, number).ok().flatten().unwrap_or_default()
    }

    /// [`hash_or_zero`](Self::hash_or_zero) as execution wants it.
    pub fn hashes(&self) -> Box<BlockHashes<'_>> {
        Box::new(|number| self.hash_or_zero(number))
    }

    /// A block as it travels: RLP.
    ///
    /// # Errors
    /// The store's, and damage.
    pub fn rlp(&self, number: u64) -> Result<Option<Bytes>, ReadError> {
        Ok(self.block(BlockId::Number(number))?.map(|block| block.encode().into()))
    }
}

/// The address of the contract that a transaction created, whether or not it went through.
pub fn created_by(transaction: &Recovered) -> Option<alloy_primitives::Address> {
    use alloy_consensus::Transaction as _;
    match transaction.kind() {
        TxKind::Create => Some(transaction.sender().create(transaction.nonce())),
        TxKind::Call(_) => None,
    }
}
