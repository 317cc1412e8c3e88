//! Signatures that cost nothing and that nobody can forge by the rules of the simulation.

use alloy_primitives::{Address, B256};
use tally_consensus::{Keys, Seal};

/// The key of one validator: a seal is its address and the hash.
pub(super) struct PlainKeys(pub(super) Address);

/// The address of validator `node`.
pub(super) fn address(node: usize) -> Address {
    let byte = u8::try_from(node + 1).expect("a network of a few validators");
    Address::repeat_byte(byte)
}

/// The validator with an address.
pub(super) fn node_of(address: Address) -> Option<usize> {
    usize::from(address.0[0]).checked_sub(1)
}

pub(super) fn seal(author: Address, hash: B256) -> Seal {
    let mut bytes = [0; 65];
    bytes[..20].copy_from_slice(author.as_slice());
    bytes[32..64].copy_from_slice(hash.as_slice());
    Seal::from_slice(&bytes).expect("it has the length of a seal")
}

impl Keys for PlainKeys {
    fn address(&self) -> Address {
        self.0
    }

    fn sign(&self, hash: B256) -> Option<Seal> {
        Some(seal(self.0, hash))
    }

    fn recover(&self, hash: B256, seal: &Seal) -> Option<Address> {
        let bytes = seal.as_bytes();
        (bytes[32..64] == hash[..]).then(|| Address::from_slice(&bytes[..20]))
    }
}
