//! Proofs of accounts and slots against a state's root (EIP-1186).

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use crate::trie::node::Kind;
use crate::trie::proof::prove;
use crate::trie::{EMPTY_ROOT, MemoryTrie, ProofError};
use crate::{Account, Error, StoredAccount, View};

/// The most accounts and slots that are undone for a proof of a past state.
pub const PROOF_UNDO_LIMIT: usize = 200_000;

/// An account with the nodes that prove it, or that it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// Whose it is.
    pub address: Address,
    /// The account; `None` when it does not exist.
    pub account: Option<Account>,
    /// The root of its storage; that of an empty trie when it does not exist.
    pub storage_root: B256,
    /// The nodes from the state's root on.
    pub proof: Vec<Bytes>,
    /// The slots that were asked for.
    pub storage: Vec<StorageProof>,
}

/// A slot with the nodes that prove its value, or that it is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProof {
    /// Which slot.
    pub slot: B256,
    /// Its value.
    pub value: U256,
    /// The nodes from the storage's root on; none when it is empty.
    pub proof: Vec<Bytes>,
}

impl View {
    /// The state after block `number`, with a trie: the blocks since are undone in memory.
    pub(crate) fn undone_to(&self, number: u64) -> Result<Self, Error> {
        let newest = Self { past: None, root: self.head_root()?, ..self.clone() };
        let layer = newest.reverse(number, PROOF_UNDO_LIMIT)?;
        newest.on(&[Arc::new(layer)])
    }

    /// An account and slots of it with their proofs. On a state of the past, the blocks since are undone
    /// in memory first, at most [`PROOF_UNDO_LIMIT`] changed accounts and slots.
    ///
    /// # Errors
    /// [`Error::TooLongAgo`] if there were more; what reading the state says.
    pub fn proof(&self, address: Address, slots: &[B256]) -> Result<AccountProof, Error> {
        if let Some(number) = self.past {
            return self.undone_to(number)?.proof(address, slots);
        }
        let key = keccak256(address);
        let stored = self.stored_account(&key)?;
        let proof = prove(self, Kind::Accounts, &B256::ZERO, &key)?;
        let storage_root = stored.map_or(EMPTY_ROOT, |stored| stored.storage_root);
        let storage = slots
            .iter()
            .map(|slot| {
                let hashed = keccak256(slot);
                if storage_root == EMPTY_ROOT {
                    return Ok(StorageProof { slot: *slot, value: U256::ZERO, proof: Vec::new() });
                }
                let value = self.stored_slot(&key, &hashed)?;
                let proof = prove(self, Kind::Storage, &key, &hashed)?;
                Ok(StorageProof { slot: *slot, value, proof })
            })
            .collect::<Result<_, Error>>()?;
        let account = stored.map(|stored| stored.account);
        Ok(AccountProof { address, account, storage_root, proof, storage })
    }

    fn head_root(&self) -> Result<B256, Error> {
        let head = self.shared.tables.head(&self.snapshot)?;
        head.map(|(_, root)| root).ok_or(Error::NoState)
    }
}

impl AccountProof {
    /// Whether the nodes prove what this says, given the state's root.
    ///
    /// # Errors
    /// [`ProofError`] if the nodes are not those of a proof at all.
    pub fn verify(&self, root: B256) -> Result<bool, ProofError> {
        let trie = MemoryTrie::from_proof(root, &self.proof)?;
        let leaf = trie.get(keccak256(self.address).as_slice())?;
        let proved = leaf.map(StoredAccount::from_rlp);
        let said = self.account.map(|account| StoredAccount { account, storage_root: self.storage_root });
        let account_holds = match (proved, said) {
            (None, None) => self.storage_root == EMPTY_ROOT,
            (Some(Some(proved)), Some(said)) => proved == said,
            _ => false,
        };
        if !account_holds {
            return Ok(false);
        }
        for slot in &self.storage {
            let trie = MemoryTrie::from_proof(self.storage_root, &slot.proof)?;
            let leaf = trie.get(keccak256(slot.slot).as_slice())?;
            let mut said = Vec::new();
            crate::tables::with_slot(slot.value, |value| crate::trie::rlp::string(value, &mut said));
            let holds = match leaf {
                None => slot.value.is_zero(),
                Some(leaf) => leaf == said && !slot.value.is_zero(),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
