//! Transactions: what clients build and sign.
//!
//! # The transaction id
//! The id is a BLAKE3 hash over the [`Header`], the set of participants and one hash per leg, under
//! a key that belongs to the network ([`IdKey`]). Each leg is hashed with a salt of its own,
//! derived from the transaction's secret seed, so that whoever is shown one leg and its salt can
//! check that it belongs to the id and learns nothing of the others:
//!
//! ```text
//! salt_i = BLAKE3_keyed(SALT, seed (16) ‖ i (1) ‖ 0 (47))[..16]
//! leg_i  = BLAKE3_keyed(LEG, salt_i (16) ‖ participant (2) ‖ asset (2) ‖ account (4) ‖ amount (8) ‖ i (1) ‖ 0 (31))
//! key    = BLAKE3_derive_key("tallystick settlement v2 transaction", network id (32))
//! id     = BLAKE3_keyed(key, header' (64) ‖ [participants (64)] ‖ leg_0 ‖ … ‖ leg_n ‖ 0 … to a multiple of 64)
//! ```
//!
//! `header'` is the header with the count of signers as 0 and, in place of the network's tag, the
//! participants where there are one or two: two `u16`, ascending, the second 0xFFFF where there is
//! one. Of more than two, those four bytes are 0 and a block follows the header: all of them as
//! `u16`, ascending, filled up with 0xFF. So the id commits to the *set* of participants
//! ([`concerned`]), and the payments inside one institution, of which there are most, hash no block
//! more for it.
//!
//! Owners, issuers and institutions sign the 32 bytes of the id. By the key it names the protocol,
//! its version, the purpose and the whole network; by the header the kind, which is the role in
//! which its signer acts.
//!
//! All integers are little-endian. Every input is a whole number of 64-byte blocks, so that many are
//! hashed side by side in vector registers ([`crate::batch`]).

use crate::amount::Amount;
use crate::id::{AccountNumber, AssetId, NetworkId, NetworkTag, ParticipantId, Timestamp, Uetr};
use crate::order::AccountOrder;
use bytemuck::{Pod, Zeroable};
use tally_crypto::{Hash, PublicKey, Signature, Signed, SigningKey};

/// The identity of a transaction: a hash that commits to each leg separately.
pub type TransactionId = Hash;

/// The most legs of one transaction.
pub const MAX_LEGS: usize = 30;
/// The most signers of one transaction.
pub const MAX_SIGNERS: usize = 16;

/// What a transaction does. The number is part of the signed form; a new form gets a new number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Moves what is there; every total stays.
    Transfer = 1,
    /// The issuer creates a liability.
    Issue = 2,
    /// The issuer takes a liability back.
    Redeem = 3,
    /// An institution opens or changes accounts in its partition; has no legs.
    Account = 4,
}

impl Kind {
    /// The kind of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Transfer,
            2 => Self::Issue,
            3 => Self::Redeem,
            4 => Self::Account,
            _ => return None,
        })
    }
    /// The number that the signed form holds.
    pub fn number(self) -> u8 {
        match self {
            Self::Transfer => 1,
            Self::Issue => 2,
            Self::Redeem => 3,
            Self::Account => 4,
        }
    }
}

/// The part of a transaction that every participant concerned is shown: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct Header {
    /// See [`Kind`].
    pub kind: u8,
    /// How many legs it has.
    pub legs: u8,
    /// How many participants are [`concerned`], all of whom must approve.
    pub participants: u8,
    /// How many signatures came with it; counts as 0 in the id, which is what they sign.
    pub signers: u8,
    /// Of the network it is for; not in the id, which commits to the whole [`NetworkId`].
    pub network: NetworkTag,
    /// When it is refused if not decided.
    pub expiry: Timestamp,
    /// End-to-end reference.
    pub uetr: Uetr,
    /// Hash of what is kept off the ledger (the payment message), or of the account order; zeros for none.
    pub details: Hash,
}

/// A change of one account: 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Pod, Zeroable)]
pub struct Leg {
    /// Whose partition.
    pub participant: ParticipantId,
    /// Which asset the account must hold.
    pub asset: AssetId,
    /// Which account.
    pub account: AccountNumber,
    /// What it gets, negative for a debit; never zero.
    pub amount: Amount,
}

/// Secret from which the legs' salts are derived; known to the payer's side and the scheduler only.
pub type Seed = [u8; 16];
/// Hides a leg behind its hash from those who are shown the hash only.
pub type Salt = [u8; 16];

/// A signature over the transaction id.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct Signer {
    /// Whose.
    pub key: PublicKey,
    /// The Ed25519 signature over the 32 bytes of the id.
    pub signature: Signature,
}

impl Signer {
    /// What has to verify, where `id` is the transaction's.
    pub fn signed(&self, id: TransactionId) -> Signed {
        Signed { key: self.key, message: id, signature: self.signature }
    }
}

const SALT_KEY: &[u8; 32] = b"tallystick 2026 leg salt v1\0\0\0\0\0";
const LEG_KEY: &[u8; 32] = b"tallystick 2026 leg hash v1\0\0\0\0\0";
const ID_CONTEXT: &str = "tallystick settlement v2 transaction";

pub(crate) fn salt_input(seed: &Seed, position: u8) -> [u8; 64] {
    let mut input = [0; 64];
    input[..16].copy_from_slice(seed);
    input[16] = position;
    input
}

pub(crate) fn leg_input(salt: &[u8], leg: &Leg, position: u8) -> [u8; 64] {
    let mut input = [0; 64];
    input[..16].copy_from_slice(&salt[..16]);
    input[16..32].copy_from_slice(bytemuck::bytes_of(leg));
    input[32] = position;
    input
}

/// Under which the ids of one network's transactions are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdKey([u8; 32]);

impl IdKey {
    /// The key of `network`: two compressions, so that what hashes many transactions keeps it.
    pub fn new(network: &NetworkId) -> Self {
        Self(tally_crypto::derive_key(ID_CONTEXT, &network.0))
    }

    /// The 32 bytes of the key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Writes the participants of a transaction to `out` in place of what is there: those with a leg,
/// and for an account order the participant of the order alone; ascending, each once.
pub fn concerned(legs: &[Leg], order: Option<&AccountOrder>, out: &mut Vec<ParticipantId>) {
    out.clear();
    if let Some(order) = order {
        out.push(order.participant);
        return;
    }
    for leg in legs {
        if let Err(at) = out.binary_search(&leg.participant) {
            out.insert(at, leg.participant);
        }
    }
}

/// As many participants as the header's four bytes hold.
const IN_HEADER: usize = 2;
/// Bytes of a block of the id's input.
const BLOCK: usize = 64;

/// The length in bytes of what the id hashes, for so many participants and legs.
pub(crate) fn preimage_length(participants: usize, legs: usize) -> usize {
    let listed = if participants > IN_HEADER { participants.saturating_mul(2) } else { 0 };
    let legs = legs.saturating_mul(Hash::LENGTH);
    BLOCK.saturating_add(listed.next_multiple_of(BLOCK)).saturating_add(legs.next_multiple_of(BLOCK))
}

/// Writes what the id hashes to `out`, which is zero and has its length.
#[inline]
pub(crate) fn write_preimage(header: &Header, participants: &[ParticipantId], legs: &[Hash], out: &mut [u8]) {
    let (front, mut rest) = out.split_at_mut(BLOCK);
    front.copy_from_slice(bytemuck::bytes_of(header));
    front[3] = 0;
    let [first, second] = match participants {
        [] => [[0xff; 2]; 2],
        [one] => [one.0.to_le_bytes(), [0xff; 2]],
        [one, two] => [one.0.to_le_bytes(), two.0.to_le_bytes()],
        _ => [[0; 2]; 2],
    };
    front[4..6].copy_from_slice(&first);
    front[6..8].copy_from_slice(&second);
    if participants.len() > IN_HEADER {
        let listed: &[u8] = bytemuck::cast_slice(participants);
        let (list, after) = rest.split_at_mut(listed.len().next_multiple_of(BLOCK));
        list.fill(0xff);
        list[..listed.len()].copy_from_slice(listed);
        rest = after;
    }
    let legs: &[u8] = bytemuck::cast_slice(legs);
    rest[..legs.len()].copy_from_slice(legs);
}

/// The hashes of many legs, given as salted inputs of 64 bytes; appended to `out`.
pub(crate) fn hash_legs(inputs: &[[u8; 64]], out: &mut Vec<Hash>) {
    tally_crypto::hash_many_keyed(LEG_KEY, inputs, out);
}

/// The salts (their first 16 bytes) of many positions; appended to `out`.
pub(crate) fn hash_salts(inputs: &[[u8; 64]], out: &mut Vec<Hash>) {
    tally_crypto::hash_many_keyed(SALT_KEY, inputs, out);
}

/// The salt of the leg at `position`.
pub fn leg_salt(seed: &Seed, position: u8) -> Salt {
    let hash = tally_crypto::keyed(SALT_KEY, &salt_input(seed, position));
    let mut salt = [0; 16];
    salt.copy_from_slice(&hash.as_bytes()[..16]);
    salt
}

/// The hash of a leg under its salt.
pub fn leg_hash(salt: &Salt, leg: &Leg, position: u8) -> Hash {
    tally_crypto::keyed(LEG_KEY, &leg_input(salt, leg, position))
}

/// The id of a transaction with that header, those participants and those leg hashes, in the
/// network of that key. The participants are those that are [`concerned`], ascending.
pub fn transaction_id(
    key: &IdKey,
    header: &Header,
    participants: &[ParticipantId],
    leg_hashes: &[Hash],
) -> TransactionId {
    let mut input = vec![0; preimage_length(participants.len(), leg_hashes.len())];
    write_preimage(header, participants, leg_hashes, &mut input);
    tally_crypto::keyed(&key.0, &input)
}

/// One transaction with everything that belongs to it; not yet checked by anybody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// What every participant concerned is shown.
    pub header: Header,
    /// From which the salts derive.
    pub seed: Seed,
    /// The changes.
    pub legs: Vec<Leg>,
    /// Who signed.
    pub signers: Vec<Signer>,
    /// The account order of a transaction of kind [`Kind::Account`].
    pub order: Option<AccountOrder>,
}

/// What a client decides of a new transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The network it is for.
    pub network: NetworkId,
    /// End-to-end reference, chosen by the payer's side and used once.
    pub uetr: Uetr,
    /// When it is refused if not decided.
    pub expiry: Timestamp,
    /// Hash of the payment message, or zeros.
    pub details: Hash,
    /// Random secret.
    pub seed: Seed,
}

impl Transaction {
    /// A transaction that moves, issues or redeems, unsigned yet.
    ///
    /// Counts of legs and participants beyond what the form can hold are cut to 255, which the
    /// scheduler refuses.
    pub fn new(kind: Kind, terms: &Terms, legs: Vec<Leg>) -> Self {
        let mut participants = Vec::new();
        concerned(&legs, None, &mut participants);
        let count = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let header = Header {
            kind: kind.number(),
            legs: count(legs.len()),
            participants: count(participants.len()),
            signers: 0,
            network: terms.network.tag(),
            expiry: terms.expiry,
            uetr: terms.uetr,
            details: terms.details,
        };
        Self { header, seed: terms.seed, legs, signers: Vec::new(), order: None }
    }

    /// An account order, unsigned yet; `terms.details` is replaced by the order's hash.
    pub fn account(terms: &Terms, order: AccountOrder) -> Self {
        let mut transaction = Self::new(Kind::Account, terms, Vec::new());
        transaction.header.participants = 1;
        transaction.header.details = order.hash();
        transaction.order = Some(order);
        transaction
    }

    /// The participants that are [`concerned`], ascending.
    pub fn participants(&self) -> Vec<ParticipantId> {
        let mut participants = Vec::new();
        concerned(&self.legs, self.order.as_ref(), &mut participants);
        participants
    }

    /// The id in `network`, computed from the content.
    pub fn id(&self, network: &NetworkId) -> TransactionId {
        let hash = |(position, leg)| {
            // Positions beyond the form's are those of a transaction that the scheduler refuses.
            let position = u8::try_from(position).unwrap_or(u8::MAX);
            leg_hash(&leg_salt(&self.seed, position), leg, position)
        };
        let hashes: Vec<Hash> = self.legs.iter().enumerate().map(hash).collect();
        transaction_id(&IdKey::new(network), &self.header, &self.participants(), &hashes)
    }

    /// Adds a signature over the id in `network`.
    pub fn sign(&mut self, network: &NetworkId, key: &SigningKey) {
        let id = self.id(network);
        self.signers.push(Signer { key: key.public_key(), signature: key.sign(id.as_bytes()) });
        self.header.signers = u8::try_from(self.signers.len()).unwrap_or(u8::MAX);
    }
}
