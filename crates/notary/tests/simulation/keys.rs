//! Signatures that cost nothing and that nobody can forge by the rules of the simulation.

use alloy_primitives::{Address, B256};
use tally_consensus::{Keys, Seal};
use tally_contracts::{Name, PublicKey, Signature, encode};
use tally_crypto::{Hash, hash};
use tally_notary::{Answer, Cluster, Member, Signatures, SignedAnswer};

/// The voting key of one member: a seal is its address and the hash.
pub(crate) struct PlainKeys(pub(crate) Address);

pub(crate) fn address(node: usize) -> Address {
    Address::repeat_byte(u8::try_from(node + 1).expect("a few members"))
}

pub(crate) fn node_of(address: Address) -> usize {
    usize::from(address.0[0]) - 1
}

pub(crate) fn seal(author: Address, hash: B256) -> Seal {
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

pub(crate) fn name(text: &str) -> Name {
    Name::new(text, "Zurich", "CH").expect("a good name")
}

pub(crate) fn cluster(nodes: usize) -> Cluster {
    let member = |node: usize| {
        let seed = [u8::try_from(node + 1).expect("a few members"); 32];
        let key =
            tally_contracts::SigningKey::from_secret(tally_contracts::Scheme::Ed25519, &seed).expect("a key");
        Member { name: name(&format!("Notary {node}")), voter: address(node).into(), key: key.public_key() }
    };
    Cluster::new(Hash::from_bytes([7; 32]), (0..nodes).map(member).collect()).expect("a cluster")
}

/// Signatures over answers: a hash over the key and the answer.
pub(crate) struct PlainForm;

fn plain(by: &PublicKey, answer: &Answer) -> Signature {
    let mut bytes = vec![0; 65];
    bytes[1..33].copy_from_slice(hash(&encode(&(by, answer))).as_bytes());
    borsh::from_slice(&bytes).expect("64 bytes of Ed25519")
}

pub(crate) fn sign(cluster: &Cluster, node: usize, answer: Answer) -> SignedAnswer {
    let by = cluster.members()[node].key;
    SignedAnswer { answer, by, signature: plain(&by, &answer) }
}

impl Signatures for PlainForm {
    fn verify(&self, _: &Cluster, by: &PublicKey, answer: &Answer, signature: &Signature) -> bool {
        plain(by, answer) == *signature
    }
}
