//! Accounts as the flat table and the trie's leaves keep them.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

use crate::Account;
use crate::trie::{EMPTY_ROOT, rlp};

/// An account with the root of its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAccount {
    /// What transactions see.
    pub account: Account,
    /// The root of its storage trie.
    pub storage_root: B256,
}

const HAS_CODE: u8 = 0x40;
const HAS_STORAGE: u8 = 0x80;

impl StoredAccount {
    /// A byte that says which parts follow and how long the nonce is, then nonce and balance without
    /// leading zeros, then code hash and storage root unless they are those of an account without.
    pub fn encode(&self) -> Vec<u8> {
        let nonce = self.account.nonce.to_be_bytes();
        let nonce = trim(&nonce);
        let balance = self.account.balance.to_be_bytes::<32>();
        let balance = trim(&balance);
        let mut out = Vec::with_capacity(2 + nonce.len() + balance.len() + 64);
        let mut head = nonce.len() as u8;
        if self.account.has_code() {
            head |= HAS_CODE;
        }
        if self.storage_root != EMPTY_ROOT {
            head |= HAS_STORAGE;
        }
        out.push(head);
        out.push(balance.len() as u8);
        out.extend_from_slice(nonce);
        out.extend_from_slice(balance);
        if head & HAS_CODE != 0 {
            out.extend_from_slice(self.account.code_hash.as_slice());
        }
        if head & HAS_STORAGE != 0 {
            out.extend_from_slice(self.storage_root.as_slice());
        }
        out
    }

    /// From what [`encode`](Self::encode) gives; `None` for bytes that are not of its form.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[head, balance], rest) = bytes.split_at_checked(2)? else { return None };
        let (nonce, rest) = rest.split_at_checked(usize::from(head & !(HAS_CODE | HAS_STORAGE)))?;
        let (balance, mut rest) = rest.split_at_checked(usize::from(balance))?;
        let mut hash = |present: bool, otherwise: B256| {
            if !present {
                return Some(otherwise);
            }
            let (hash, after) = rest.split_at_checked(32)?;
            rest = after;
            Some(B256::from_slice(hash))
        };
        let code_hash = hash(head & HAS_CODE != 0, KECCAK256_EMPTY)?;
        let storage_root = hash(head & HAS_STORAGE != 0, EMPTY_ROOT)?;
        if !rest.is_empty() || nonce.len() > 8 {
            return None;
        }
        let nonce = nonce.iter().fold(0, |nonce, byte| nonce << 8 | u64::from(*byte));
        let balance = U256::try_from_be_slice(balance)?;
        Some(Self { account: Account { nonce, balance, code_hash }, storage_root })
    }

    /// The account's form in the state trie (yellow paper, section 4.1).
    pub(crate) fn rlp(&self, out: &mut Vec<u8>) {
        let nonce = self.account.nonce.to_be_bytes();
        let balance = self.account.balance.to_be_bytes::<32>();
        rlp::list_header(self.rlp_content_length(), out);
        rlp::string(trim(&nonce), out);
        rlp::string(trim(&balance), out);
        rlp::string(self.storage_root.as_slice(), out);
        rlp::string(self.account.code_hash.as_slice(), out);
    }

    /// Bytes that [`rlp`](Self::rlp) appends.
    pub(crate) fn rlp_length(&self) -> usize {
        let content = self.rlp_content_length();
        rlp::header_length(content) + content
    }

    fn rlp_content_length(&self) -> usize {
        let nonce = self.account.nonce.to_be_bytes();
        let balance = self.account.balance.to_be_bytes::<32>();
        rlp::string_length(trim(&nonce)) + rlp::string_length(trim(&balance)) + 2 * (1 + 32)
    }

    /// From its form in the state trie.
    pub(crate) fn from_rlp(bytes: &[u8]) -> Option<Self> {
        let items = rlp::items(bytes)?;
        let [
            rlp::Item::String(nonce),
            rlp::Item::String(balance),
            rlp::Item::String(storage_root),
            rlp::Item::String(code_hash),
        ] = items[..]
        else {
            return None;
        };
        let canonical = |number: &[u8]| number.first() != Some(&0);
        if nonce.len() > 8 || !canonical(nonce) || !canonical(balance) {
            return None;
        }
        let nonce = nonce.iter().fold(0, |nonce, byte| nonce << 8 | u64::from(*byte));
        let balance = U256::try_from_be_slice(balance)?;
        let code_hash = B256::try_from(code_hash).ok()?;
        let storage_root = B256::try_from(storage_root).ok()?;
        Some(Self { account: Account { nonce, balance, code_hash }, storage_root })
    }
}

/// Without leading zeros.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}
