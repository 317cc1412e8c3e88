//! The contract that is called, and accounts that sign calls of it.
//!
//! `data/chain/Registry.sol` is the contract; a call of `register(bytes32,address)` writes two slots, adds to a third
//! and emits an event, as the published measurements' calls do.

use alloy_consensus::{SignableTransaction, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use tally_evm::{Recovered, Transaction};
use tally_peers::NodeKey;

/// The contract's creation code, as hexadecimal digits.
const CREATION: &str = include_str!("../../data/chain/Registry.hex");
/// `register(bytes32,address)`
const REGISTER: [u8; 4] = hex!("d22057a9");
/// `entries(bytes32)`, which gives who registered an identity, and in which block.
const ENTRIES: [u8; 4] = hex!("267b6922");

/// Gas that a call of `register` may use: two new slots and one that is added to, with the event, stay below it.
pub const REGISTER_GAS: u64 = 120_000;
/// Gas for the contract's creation.
const CREATION_GAS: u64 = 2_000_000;

/// The contract's creation code.
///
/// # Panics
/// Never: the file is compiled in, and a test reads it.
#[must_use]
pub fn creation_code() -> Bytes {
    hex::decode(CREATION.trim()).expect("the compiled-in code is hexadecimal").into()
}

/// What a `register` call names: never the same twice for one seed.
#[must_use]
pub fn identity(seed: u64, number: u64) -> B256 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    keccak256(bytes)
}

/// The input of a `register` call.
#[must_use]
pub fn register(identity: B256, owner: Address) -> Bytes {
    let mut input = Vec::with_capacity(68);
    input.extend_from_slice(&REGISTER);
    input.extend_from_slice(identity.as_slice());
    input.extend_from_slice(owner.into_word().as_slice());
    input.into()
}

/// The input of a call that reads what is registered.
#[must_use]
pub fn entries(identity: B256) -> Bytes {
    let mut input = Vec::with_capacity(36);
    input.extend_from_slice(&ENTRIES);
    input.extend_from_slice(identity.as_slice());
    input.into()
}

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Its hash.
    pub hash: B256,
    /// As it is sent.
    pub encoded: Box<[u8]>,
}

/// An account of a benchmark: its key follows from seed and number.
#[derive(Debug, Clone)]
pub struct Account {
    key: NodeKey,
    address: Address,
}

impl Account {
    /// The account of this number.
    ///
    /// # Panics
    /// Never in practice: one hash in 2^128 is no key.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Self {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(b"account ");
        bytes[8..16].copy_from_slice(&seed.to_be_bytes());
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        let key = NodeKey::new(&keccak256(bytes).0).expect("a hash is a key but for one in 2^128");
        let address = key.address();
        Self { key, address }
    }

    /// Whoever creates the contract; never one of those that call it.
    #[must_use]
    pub fn deployer(seed: u64) -> Self {
        Self::new(seed, u64::MAX)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The transaction that creates the contract, which is at [`Account::contract`] afterwards.
    #[must_use]
    pub fn create(&self, chain_id: u64) -> Transaction {
        self.sign(chain_id, 0, TxKind::Create, creation_code(), CREATION_GAS)
    }

    /// Where the contract is that this account creates with its first transaction.
    #[must_use]
    pub fn contract(&self) -> Address {
        self.address.create(0)
    }

    /// Signs a call of a contract.
    #[must_use]
    pub fn call(&self, chain_id: u64, nonce: u64, contract: Address, input: Bytes) -> Transaction {
        self.sign(chain_id, nonce, TxKind::Call(contract), input, REGISTER_GAS)
    }

    /// A transaction of this account, with its sender known.
    #[must_use]
    pub fn recovered(&self, transaction: Transaction) -> Recovered {
        Recovered::new_unchecked(transaction, self.address)
    }

    fn sign(&self, chain_id: u64, nonce: u64, to: TxKind, input: Bytes, gas_limit: u64) -> Transaction {
        let unsigned = TxLegacy {
            chain_id: Some(chain_id),
            nonce,
            gas_price: 0,
            gas_limit,
            to,
            value: U256::ZERO,
            input,
        };
        let signature = self.key.sign_recoverable(&unsigned.signature_hash());
        unsigned.into_signed(signature).into()
    }
}

impl From<&Transaction> for Signed {
    fn from(transaction: &Transaction) -> Self {
        let encoded = tally_evm::transaction::encode(transaction).to_vec().into();
        Self { hash: *transaction.tx_hash(), encoded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_those_of_the_contract() {
        assert_eq!(keccak256("register(bytes32,address)")[..4], REGISTER);
        assert_eq!(keccak256("entries(bytes32)")[..4], ENTRIES);
        // What the compiler made of the source knows both.
        let code = creation_code();
        for selector in [REGISTER, ENTRIES] {
            assert!(code.windows(4).any(|window| window == selector));
        }
        assert_eq!((register(B256::ZERO, Address::ZERO).len(), entries(B256::ZERO).len()), (68, 36));
    }

    #[test]
    fn what_is_signed_is_of_its_account() {
        let account = Account::new(1, 7);
        let transaction = account.call(1337, 3, Account::deployer(1).contract(), entries(B256::ZERO));
        let recovered = tally_evm::recover(transaction.clone()).unwrap();
        assert_eq!(recovered.sender(), account.address());
        assert_eq!(account.recovered(transaction.clone()), recovered);
        let signed = Signed::from(&transaction);
        let decoded = tally_evm::transaction::decode(&signed.encoded).unwrap();
        assert_eq!(*decoded.tx_hash(), signed.hash);
        assert_ne!(Account::new(2, 7).address(), account.address());
        assert_ne!(identity(1, 2), identity(2, 1));
    }
}
