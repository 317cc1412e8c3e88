//! Transactions: what clients build and sign.
//!
//! # The transaction id
//! The id is a BLAKE3 hash over the [`Header`] and one hash per leg. Each leg is hashed with a salt
//! of its own, derived from the transaction's secret seed, so that whoever is shown one leg and its
//! salt can check that it belongs to the id and learns nothing of the others:
//!
//! ```text
//! salt_i = BLAKE3_keyed(SALT, seed (16) ‖ i (1) ‖ 0 (47))[..16]
//! leg_i  = BLAKE3_keyed(LEG, salt_i (16) ‖ participant (2) ‖ asset (2) ‖ account (4) ‖ amount (8) ‖ i (1) ‖ 0 (31))
//! id     = BLAKE3(header (64, signer count as 0) ‖ leg_0 ‖ … ‖ leg_n ‖ 0 … to a multiple of 64)
//! ```
//!
//! All integers are little-endian. Every input is a whole number of 64-byte blocks, so that many are
//! hashed side by side in vector registers ([`crate::batch`]).

use crate::amount::Amount;
use crate::id::{AccountNumber, AssetId, NetworkId, ParticipantId, Timestamp, Uetr};
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
    /// How many participants have legs in it, all of whom must approve.
    pub participants: u8,
    /// How many signatures came with it; counts as 0 in the id, which is what they sign.
    pub signers: u8,
    /// The network it is for.
    pub network: NetworkId,
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

pub(crate) fn header_input(header: &Header) -> [u8; 64] {
    bytemuck::cast(Header { signers: 0, ..*header })
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

/// The id of a transaction with that header and those leg hashes.
pub fn transaction_id(header: &Header, leg_hashes: &[Hash]) -> TransactionId {
    let mut input = Vec::with_capacity(64);
    input.extend_from_slice(&header_input(header));
    input.extend_from_slice(bytemuck::cast_slice(leg_hashes));
    input.resize(input.len().next_multiple_of(64), 0);
    tally_crypto::hash(&input)
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
        let mut participants: Vec<_> = legs.iter().map(|leg| leg.participant).collect();
        participants.sort_unstable();
        participants.dedup();
        let count = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let header = Header {
            kind: kind.number(),
            legs: count(legs.len()),
            participants: count(participants.len()),
            signers: 0,
            network: terms.network,
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

    /// The id, computed from the content.
    pub fn id(&self) -> TransactionId {
        let hash = |(position, leg)| {
            // Positions beyond the form's are those of a transaction that the scheduler refuses.
            let position = u8::try_from(position).unwrap_or(u8::MAX);
            leg_hash(&leg_salt(&self.seed, position), leg, position)
        };
        let hashes: Vec<Hash> = self.legs.iter().enumerate().map(hash).collect();
        transaction_id(&self.header, &hashes)
    }

    /// Adds a signature over the id.
    pub fn sign(&mut self, key: &SigningKey) {
        let id = self.id();
        self.signers.push(Signer { key: key.public_key(), signature: key.sign(id.as_bytes()) });
        self.header.signers = u8::try_from(self.signers.len()).unwrap_or(u8::MAX);
    }
}
