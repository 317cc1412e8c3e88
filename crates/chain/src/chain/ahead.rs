//! Taking blocks without executing them, and the state after one of them (fast sync).
//!
//! Validators seal a header, a header names transactions, receipts and state by their roots: whoever follows the
//! seals from the genesis block on needs to execute nothing to know that all of it is what the validators agreed on.
//! Blocks taken so lie in the tables beyond the head, where nobody sees them, until the state after one of them is
//! there: then that block is the head, in one commit.

use std::sync::{Arc, PoisonError};

use alloy_consensus::proofs::calculate_receipt_root;
use alloy_consensus::{Header, ReceiptEnvelope, ReceiptWithBloom, TxReceipt as _};
use alloy_primitives::{Bytes, U256};
use tally_evm::block::{Sealing, validate_header};
use tally_evm::{Block, BlockError};
use tally_state::{Batch, Durability, Import};

use super::{Chain, Event, Head, Prepared};
use crate::blocks::{Blocks, FullBlock, Receipt, SealedHeader, receipts};
use crate::branch::{Branch, Recent};
use crate::error::{ChainError, ImportError};
use crate::sealed::{Seals, Validators, ValidatorsError};

/// Bytes of blocks that are written together.
const TOGETHER_BYTES: usize = 8 << 20;

/// The newest block that was taken, with the validators of the next one.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// Its header.
    pub sealed: Arc<SealedHeader>,
    validators: Validators,
}

impl Ahead {
    /// The block's number.
    pub fn number(&self) -> u64 {
        self.sealed.header.number
    }
}

/// A block whose transactions and receipts are those that its header names. Who sealed it is not known yet.
#[derive(Debug)]
pub struct Unexecuted {
    prepared: Prepared,
    receipts: Vec<Receipt>,
}

impl Chain {
    /// Whether headers alone tell the validators of all blocks up to this one and the one after it: not where work or a
    /// beacon chain decides, and not where a contract names validators.
    pub fn is_told_by_headers(&self, number: u64) -> bool {
        self.sealed().is_some_and(|sealed| !sealed.asks_contract_until(number.saturating_add(1)))
    }

    /// The newest block that was taken, or the head.
    ///
    /// # Errors
    /// The store's, damage, and [`ValidatorsError::Contract`] where headers do not tell the validators.
    pub fn ahead(&self) -> Result<Ahead, ChainError> {
        let head = self.head();
        let snapshot = self.shared.database.snapshot();
        let newest = self.shared.blocks.newest(&snapshot)?;
        let sealed = newest.ok_or(ChainError::Missing { number: head.number() })?;
        let number = sealed.header.number;
        let untold = |contract| ValidatorsError::Contract { contract, reason: "it was not asked".into() };
        let validators = self
            .validators_after_block(number, &snapshot, |_, _, address| Err(untold(address)))?
            .ok_or(ValidatorsError::None { number: number.saturating_add(1) })?;
        Ok(Ahead { sealed: Arc::new(sealed), validators })
    }

    /// Checks what can be checked of a block without the ones before it: that transactions and receipts are those of its
    /// header, and who sent the transactions. Any number of blocks can be checked at the same time.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn unexecuted(&self, encoded: &Bytes, found: &[Receipt]) -> Result<Unexecuted, ImportError> {
        let block = Block::decode(encoded).map_err(|source| ImportError::Invalid {
            number: 0,
            hash: alloy_primitives::keccak256(encoded),
            source: Box::new(source),
        })?;
        let prepared = self.prepare(block, encoded.len() as u64, &|_| None, 1)?;
        let header = prepared.header();
        let differs = |field, expected: String, found: String| {
            self.classify(header.number, prepared.hash(), BlockError::Outcome { field, expected, found })
        };
        if found.len() != prepared.senders().len() {
            let expected = prepared.senders().len().to_string();
            return Err(differs("receipts", expected, found.len().to_string()));
        }
        let envelopes: Vec<ReceiptEnvelope> = found
            .iter()
            .zip(prepared.senders())
            .map(|(found, transaction)| {
                let receipt = alloy_consensus::Receipt {
                    status: found.outcome,
                    cumulative_gas_used: found.cumulative_gas_used,
                    logs: found.logs.clone(),
                };
                let logs_bloom = receipt.bloom();
                let kind = transaction.transaction().tx_type();
                ReceiptEnvelope::from_typed(kind, ReceiptWithBloom { receipt, logs_bloom })
            })
            .collect();
        let root = calculate_receipt_root(&envelopes);
        if root != header.receipts_root {
            return Err(differs("receiptsRoot", header.receipts_root.to_string(), root.to_string()));
        }
        // What follows from the rest is computed, not believed.
        Ok(Unexecuted { prepared, receipts: receipts(&envelopes) })
    }

    /// Takes blocks that follow `ahead`, in order: checks their headers and who sealed them, and writes them with all that
    /// leads to them. They are not of the chain before [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// The first rule that one of them breaks; then none of them is taken. What failed here.
    pub fn take(&self, ahead: &Ahead, blocks: Vec<Unexecuted>, threads: usize) -> Result<Ahead, ImportError> {
        let mut newest = ahead.clone();
        let mut checked: Vec<(Validators, Arc<SealedHeader>, FullBlock)> = Vec::with_capacity(blocks.len());
        for Unexecuted { prepared, receipts } in blocks {
            let before = newest;
            let (number, hash) = (prepared.header().number, prepared.hash());
            self.check_header(&before.validators, &before.sealed, prepared.header(), Seals::Checked)
                .map_err(|error| self.classify(number, hash, error))?;
            let (block, size, transactions) = prepared.into_parts();
            let total: U256 = before.sealed.total_difficulty.saturating_add(block.header.difficulty);
            let full = Blocks::assemble(block, hash, total, size, transactions, receipts);
            let untold = |contract| {
                Err(ValidatorsError::Contract { contract, reason: "there is no state to ask it in".into() })
            };
            let sealed = self.sealed().ok_or(ValidatorsError::None { number })?;
            let validators = sealed
                .after(&before.validators, &full.sealed.header, untold)
                .map_err(|error| self.classify(number, hash, BlockError::Seal(Box::new(error))))?;
            newest = Ahead { sealed: Arc::new(full.sealed.clone()), validators };
            checked.push((before.validators, before.sealed, full));
        }
        self.check_seals(&checked, threads)?;
        let mut batch = Batch::new();
        for (_, _, full) in &checked {
            self.shared.blocks.put(&mut batch, full);
            if batch.size_bytes() >= TOGETHER_BYTES {
                self.shared.database.commit(std::mem::take(&mut batch), Durability::Buffered)?;
            }
        }
        self.shared.database.commit(batch, Durability::Buffered)?;
        Ok(newest)
    }

    /// Recovering the keys of seals takes longest, and needs nothing but the header.
    fn check_seals(
        &self,
        blocks: &[(Validators, Arc<SealedHeader>, FullBlock)],
        threads: usize,
    ) -> Result<(), ImportError> {
        let part = blocks.len().div_ceil(threads.max(1)).max(1);
        let check = |part: &[(Validators, Arc<SealedHeader>, FullBlock)]| {
            part.iter().try_for_each(|(validators, parent, full)| {
                let SealedHeader { hash, header, .. } = &full.sealed;
                self.check_header(validators, parent, header, Seals::Quorum)
                    .map_err(|error| self.classify(header.number, *hash, error))
            })
        };
        std::thread::scope(|scope| {
            let mut parts = blocks.chunks(part);
            let own = parts.next();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || check(part))).collect();
            let mut outcome = own.map_or(Ok(()), check);
            for other in others {
                let found = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                outcome = outcome.and(found);
            }
            outcome
        })
    }

    fn check_header(
        &self,
        validators: &Validators,
        parent: &SealedHeader,
        header: &Header,
        seals: Seals,
    ) -> Result<(), BlockError> {
        let check = |header: &Header, before: &Header| match self.sealed() {
            Some(sealed) => sealed.check(validators, before, header, seals).map_err(Into::into),
            None => Ok(()),
        };
        validate_header(self.schedule(), header, &parent.header, parent.hash, &Sealing::Validators(&check))
    }

    /// Makes a block that was taken the head, with the state after it, which was imported. What `also` puts into the
    /// batch becomes durable in the same moment.
    ///
    /// # Errors
    /// [`ImportError::Final`] when the chain has gone on to that block or beyond it meanwhile; what failed here. The head is
    /// then the one from before.
    pub fn adopt(
        &self,
        number: u64,
        import: Import,
        also: impl FnOnce(&mut Batch),
    ) -> Result<Arc<Head>, ImportError> {
        let _writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.shared.database.snapshot();
        let block = self.shared.blocks.block(&snapshot, number)?.ok_or(ChainError::Missing { number })?;
        let header = &block.sealed.header;
        let head = self.head().number();
        if number <= head {
            return Err(ImportError::Final { number, parent: header.parent_hash, head });
        }
        if import.root() != header.state_root {
            let (expected, found) = (header.state_root, import.root());
            return Err(ChainError::Torn { number, expected, found }.into());
        }
        let untold = |contract| ValidatorsError::Contract { contract, reason: "it was not asked".into() };
        let validators =
            self.validators_after_block(number, &snapshot, |_, _, address| Err(untold(address)))?;
        import.finish(number, also)?;
        let branch = Branch {
            sealed: Arc::new(block.sealed.clone()),
            view: self.shared.state.view()?,
            validators,
            recent: Recent::default(),
        };
        self.shared.recent.put(Arc::clone(&block));
        self.set_head(Head { branch, snapshot: self.shared.database.snapshot() });
        self.tell(Event::Head(block));
        Ok(self.head())
    }
}
