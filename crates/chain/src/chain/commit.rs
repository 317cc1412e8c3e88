//! Making executed blocks part of the chain.

use std::sync::{Arc, PoisonError};

use alloy_consensus::Header;
use alloy_primitives::B256;
use tally_state::{Batch, Durability, Layer, Table};

use super::{Chain, Event, Head, Prepared};
use crate::blocks::FullBlock;
use crate::branch::{Branch, Candidate, Recent};
use crate::error::{ChainError, ImportError};
use crate::sealed::Seals;

/// What importing a block did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The block is the newest of the chain.
    Head,
    /// The block is of the chain already, or on a branch that is known.
    Known,
    /// The block is valid, on a branch that the chain does not follow.
    Branch,
    /// The chain moved to the block's branch.
    Reorganised {
        /// The newest block that both have.
        ancestor: u64,
    },
}

/// How the chain leads to a block on another branch.
struct Path {
    /// The newest block that both have.
    ancestor: Branch,
    /// What leads from the newest state back to that block's; `None` when it is the newest.
    back: Option<Arc<Layer>>,
    /// The blocks after it, executed.
    candidates: Vec<Candidate>,
}

impl Chain {
    /// Makes candidates part of the chain: each follows the one before it, the first follows the head. What `also`
    /// puts into the batch becomes durable with them.
    ///
    /// # Errors
    /// [`ImportError::Final`] when they do not follow the head, and what failed here; then nothing changed.
    pub fn commit(
        &self,
        candidates: &[Candidate],
        durability: Durability,
        also: impl FnOnce(&mut Batch),
    ) -> Result<Arc<Head>, ImportError> {
        let _writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = candidates.last() else { return Ok(self.head()) };
        let mut before = self.head().hash();
        for candidate in candidates {
            self.must_follow(before, &candidate.block)?;
            before = candidate.block.sealed.hash;
        }
        let mut batch = Batch::new();
        for candidate in candidates {
            self.put(&mut batch, candidate)?;
        }
        also(&mut batch);
        self.shared.database.commit(batch, durability)?;
        let head = self.advance(last)?;
        for candidate in candidates {
            self.tell(Event::Head(Arc::clone(&candidate.block)));
        }
        Ok(head)
    }

    fn must_follow(&self, before: B256, block: &FullBlock) -> Result<(), ImportError> {
        let parent = block.sealed.header.parent_hash;
        if parent == before {
            return Ok(());
        }
        Err(ImportError::Final { number: block.number(), parent, head: self.head().number() })
    }

    fn put(&self, batch: &mut Batch, candidate: &Candidate) -> Result<(), ChainError> {
        self.shared.blocks.put(batch, &candidate.block);
        self.shared.blocks.remove_branch(batch, candidate.block.sealed.hash);
        Ok(self.shared.state.commit(batch, candidate.block.number(), &candidate.layer)?)
    }

    /// After a durable commit: `last` is the head.
    fn advance(&self, last: &Candidate) -> Result<Arc<Head>, ChainError> {
        let view = self.shared.state.view()?;
        assert_eq!(
            view.root(),
            last.layer.root(),
            "the state that was committed is the one that was computed"
        );
        let branch = Branch { view, recent: Recent::default(), ..last.branch.clone() };
        self.shared.recent.put(Arc::clone(&last.block));
        self.set_head(Head { branch, snapshot: self.shared.database.snapshot() });
        Ok(self.head())
    }

    pub(super) fn tell(&self, event: Event) {
        // Nobody listening is no failure.
        let _ = self.shared.events.send(event);
    }

    /// Executes a block wherever it belongs and takes it into the chain, if its branch is the one to follow.
    ///
    /// # Errors
    /// Why the block is not taken; then nothing changed.
    pub fn import(&self, prepared: Prepared) -> Result<Commit, ImportError> {
        let head = self.head();
        if prepared.header().parent_hash == head.hash() {
            let candidate = self.execute(&head.branch, prepared, Seals::Quorum)?;
            self.commit(&[candidate], Durability::Synced, |_| ())?;
            return Ok(Commit::Head);
        }
        if self.is_known(&head, prepared.hash())? {
            return Ok(Commit::Known);
        }
        if self.sealed().is_some() {
            return Err(ImportError::Final {
                number: prepared.header().number,
                parent: prepared.header().parent_hash,
                head: head.number(),
            });
        }
        self.import_branch(&head, prepared)
    }

    fn is_known(&self, head: &Head, hash: B256) -> Result<bool, ChainError> {
        let blocks = &self.shared.blocks;
        let number = blocks.number(&head.snapshot, hash)?.filter(|number| *number <= head.number());
        Ok(number.is_some() || blocks.branch(&head.snapshot, hash)?.is_some())
    }

    fn import_branch(&self, head: &Head, prepared: Prepared) -> Result<Commit, ImportError> {
        let Path { ancestor, back, candidates: mut path } = self.path_to(head, prepared.header())?;
        let parent = path.last().map_or(&ancestor, |candidate| &candidate.branch);
        let candidate = self.execute(parent, prepared, Seals::Quorum)?;
        let total = candidate.branch.total_difficulty();
        let merged = candidate.block.sealed.header.difficulty.is_zero();
        let overtakes = total > head.branch.total_difficulty()
            || (merged
                && total == head.branch.total_difficulty()
                && candidate.block.number() > head.number());
        let _writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::new();
        if !overtakes {
            let rlp = candidate.block.encode();
            self.shared.blocks.put_branch(&mut batch, candidate.block.sealed.hash, total, &rlp);
            self.shared.database.commit(batch, Durability::Synced).map_err(ChainError::from)?;
            self.refresh();
            return Ok(Commit::Branch);
        }
        path.push(candidate);
        self.reorganise(head, &ancestor, back.as_deref(), &path)?;
        Ok(Commit::Reorganised { ancestor: ancestor.number() })
    }

    /// The newest block of the chain that `block` descends from, what leads back to its state, and the blocks between
    /// them, executed.
    fn path_to(&self, head: &Head, header: &Header) -> Result<Path, ImportError> {
        let blocks = &self.shared.blocks;
        let mut waiting = Vec::new();
        let mut parent = header.parent_hash;
        let number = loop {
            if let Some(number) = blocks.number(&head.snapshot, parent)? {
                break number;
            }
            let Some((_, found)) = blocks.branch(&head.snapshot, parent)? else {
                return Err(ImportError::UnknownParent { number: header.number, parent });
            };
            parent = found.header.parent_hash;
            waiting.push(found);
        };
        let (ancestor, back) = self.branch_at(head, number)?;
        let mut path: Vec<Candidate> = Vec::new();
        for block in waiting.into_iter().rev() {
            let before = path.last().map_or(&ancestor, |candidate| &candidate.branch);
            let size = block.encode().len() as u64;
            let prepared = self.prepare(block, size, &|_| None, 1)?;
            path.push(self.execute(before, prepared, Seals::Checked)?);
        }
        Ok(Path { ancestor, back, candidates: path })
    }

    /// A block of the chain with the state after it, and what leads back to that.
    fn branch_at(&self, head: &Head, number: u64) -> Result<(Branch, Option<Arc<Layer>>), ImportError> {
        if number == head.number() {
            return Ok((head.branch.clone(), None));
        }
        let sealed = self.shared.blocks.header(&head.snapshot, number)?;
        let sealed = sealed.ok_or(ImportError::UnknownParent { number, parent: B256::ZERO })?;
        let back = Arc::new(self.shared.state.reverse(number)?);
        let view = self.shared.state.view()?.on(&[Arc::clone(&back)])?;
        let branch = Branch { sealed: Arc::new(sealed), view, validators: None, recent: Recent::default() };
        Ok((branch, Some(back)))
    }

    fn reorganise(
        &self,
        head: &Head,
        ancestor: &Branch,
        back: Option<&Layer>,
        path: &[Candidate],
    ) -> Result<(), ImportError> {
        let blocks = &self.shared.blocks;
        let mut batch = Batch::new();
        let mut removed = Vec::new();
        for number in (ancestor.number() + 1..=head.number()).rev() {
            let Some(block) = blocks.block(&head.snapshot, number)? else { continue };
            blocks.remove(&mut batch, &block);
            let rlp = block.encode();
            blocks.put_branch(&mut batch, block.sealed.hash, block.sealed.total_difficulty, &rlp);
            removed.push(block);
        }
        if let Some(back) = back {
            self.shared.state.undo(&mut batch, ancestor.number(), back)?;
        }
        for candidate in path {
            self.put(&mut batch, candidate)?;
        }
        self.shared.database.commit(batch, Durability::Synced).map_err(ChainError::from)?;
        for block in &removed {
            self.shared.recent.remove(block.number());
        }
        if let Some(last) = path.last() {
            self.advance(last)?;
        }
        removed.reverse();
        self.tell(Event::Removed(Arc::new(removed)));
        for candidate in path {
            self.tell(Event::Head(Arc::clone(&candidate.block)));
        }
        Ok(())
    }

    /// The same head over the tables as they are now.
    fn refresh(&self) {
        let head = self.head();
        self.set_head(Head { branch: head.branch.clone(), snapshot: self.shared.database.snapshot() });
    }

    /// A table beside those of the chain.
    ///
    /// # Errors
    /// The store's.
    pub fn table(&self, name: &str) -> Result<Table, ChainError> {
        Ok(self.shared.database.table(name)?)
    }
}
