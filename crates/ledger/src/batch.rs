//! Batches: many transactions in a few flat columns, the form in which they are hashed, logged and sent.

use crate::id::{NetworkId, ParticipantId};
use crate::order::AccountOrder;
use crate::transaction::{
    Header, IdKey, Leg, Seed, Signer, Transaction, TransactionId, concerned, hash_legs, hash_salts,
    leg_input, preimage_length, salt_input, transaction_id, write_preimage,
};
use crate::wire::{DecodeError, Reader, write_count};
use std::ops::Range;
use tally_crypto::Hash;

/// The most transactions of one batch.
pub const MAX_BATCH: usize = 1 << 16;

/// Many transactions as columns. Legs, signers and orders lie in transaction order; how many belong
/// to each is in its header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionBatch {
    /// One for each transaction.
    pub headers: Vec<Header>,
    /// One for each transaction.
    pub seeds: Vec<Seed>,
    /// `header.legs` for each transaction.
    pub legs: Vec<Leg>,
    /// `header.signers` for each transaction.
    pub signers: Vec<Signer>,
    /// One for each transaction of kind [`crate::Kind::Account`].
    pub orders: Vec<AccountOrder>,
}

/// The place of one transaction in the columns of its batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Its legs.
    pub legs: Range<usize>,
    /// Its signers.
    pub signers: Range<usize>,
    /// Its order, when it is an account order.
    pub order: usize,
}

const VERSION: u8 = 1;

impl TransactionBatch {
    /// How many transactions.
    pub fn len(&self) -> usize {
        self.headers.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Adds a transaction whose counts fit its columns.
    ///
    /// Returns false and adds nothing when its header disagrees with its content.
    #[must_use]
    pub fn push(&mut self, transaction: &Transaction) -> bool {
        let header = &transaction.header;
        let fits = usize::from(header.legs) == transaction.legs.len()
            && usize::from(header.signers) == transaction.signers.len()
            && (header.kind == crate::Kind::Account.number()) == transaction.order.is_some();
        if fits {
            self.headers.push(*header);
            self.seeds.push(transaction.seed);
            self.legs.extend_from_slice(&transaction.legs);
            self.signers.extend_from_slice(&transaction.signers);
            self.orders.extend(transaction.order.clone());
        }
        fits
    }

    /// Where each transaction lies in the columns, in order.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let mut next = Place::default();
        self.headers.iter().map(move |header| {
            let advance = |from: usize, by: u8| from.saturating_add(usize::from(by));
            let place = Place {
                legs: next.legs.end..advance(next.legs.end, header.legs),
                signers: next.signers.end..advance(next.signers.end, header.signers),
                order: next.order,
            };
            let is_order = u8::from(header.kind == crate::Kind::Account.number());
            next = Place { order: advance(place.order, is_order), ..place.clone() };
            place
        })
    }

    /// The transaction at `index` as one value, if there is one.
    pub fn transaction(&self, index: usize) -> Option<Transaction> {
        let header = *self.headers.get(index)?;
        let place = self.places().nth(index)?;
        let is_order = header.kind == crate::Kind::Account.number();
        Some(Transaction {
            header,
            seed: *self.seeds.get(index)?,
            legs: self.legs.get(place.legs)?.to_vec(),
            signers: self.signers.get(place.signers)?.to_vec(),
            order: if is_order { Some(self.orders.get(place.order)?.clone()) } else { None },
        })
    }

    /// Appends the canonical form: head, columns, orders.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        for column in self.columns() {
            out.extend_from_slice(column);
        }
        self.encode_orders(out);
    }

    /// Appends the first part of the canonical form.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        for count in [self.len(), self.legs.len(), self.signers.len(), self.orders.len()] {
            write_count(out, count);
        }
    }

    /// The middle part of the canonical form: headers, seeds, legs and signers as they lie in memory.
    pub fn columns(&self) -> [&[u8]; 4] {
        [
            bytemuck::cast_slice(&self.headers),
            bytemuck::cast_slice(&self.seeds),
            bytemuck::cast_slice(&self.legs),
            bytemuck::cast_slice(&self.signers),
        ]
    }

    /// Appends the last part of the canonical form.
    pub fn encode_orders(&self, out: &mut Vec<u8>) {
        for order in &self.orders {
            order.encode(out);
        }
    }

    /// Reads the canonical form.
    ///
    /// # Errors
    /// When the bytes have another form, or the headers' counts disagree with the columns.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.version(VERSION)?;
        let count = reader.count(MAX_BATCH)?;
        let legs = reader.count(MAX_BATCH.saturating_mul(255))?;
        let signers = reader.count(MAX_BATCH.saturating_mul(255))?;
        let orders = reader.count(MAX_BATCH)?;
        let mut batch = Self {
            headers: reader.values(count)?,
            seeds: reader.values(count)?,
            legs: reader.values(legs)?,
            signers: reader.values(signers)?,
            orders: Vec::new(),
        };
        for _ in 0..orders {
            batch.orders.push(AccountOrder::decode(reader)?);
        }
        let end = batch.places().last().unwrap_or_default();
        let counted = batch.headers.iter().filter(|h| h.kind == crate::Kind::Account.number()).count();
        if end.legs.end != legs || end.signers.end != signers || counted != orders {
            return Err(reader.error("the headers' counts disagree with the columns"));
        }
        Ok(batch)
    }
}

/// Computes the ids of whole batches of one network; keeps its buffers from one to the next.
#[derive(Debug)]
pub struct Hasher {
    key: IdKey,
    inputs: Vec<[u8; 64]>,
    concerned: Concerned,
    preimages: Preimages,
    ids: Vec<Hash>,
}

/// The participants of every transaction of a batch, one transaction's after the other's.
#[derive(Default, Debug)]
struct Concerned {
    participants: Vec<ParticipantId>,
    /// How many each transaction has.
    counts: Vec<usize>,
    of_one: Vec<ParticipantId>,
}

/// What ids are hashes of, by length, so that those of one length are hashed side by side.
#[derive(Default, Debug)]
struct Preimages {
    /// Up to two legs and two participants: most transactions.
    blocks_2: Class<128>,
    blocks_3: Class<192>,
    blocks_4: Class<256>,
    blocks_5: Class<320>,
    /// Up to eight legs, of whatever participants.
    blocks_6: Class<384>,
}

/// The inputs of one length, and which transaction each is of.
#[derive(Debug)]
struct Class<const N: usize> {
    inputs: Vec<[u8; N]>,
    indices: Vec<usize>,
}

/// What hashing a batch yields.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// The salt of every leg in its first 16 bytes.
    pub salts: Vec<Hash>,
    /// The hash of every leg.
    pub legs: Vec<Hash>,
    /// The id of every transaction.
    pub ids: Vec<TransactionId>,
}

impl Hasher {
    /// Hashes transactions of `network`.
    pub fn new(network: &NetworkId) -> Self {
        Self {
            key: IdKey::new(network),
            inputs: Vec::new(),
            concerned: Concerned::default(),
            preimages: Preimages::default(),
            ids: Vec::new(),
        }
    }

    /// Hashes every leg and transaction of `batch`.
    ///
    /// The participants are those of the legs and orders, whatever the headers say of their number:
    /// whoever accepts a transaction compares the two.
    ///
    /// # Panics
    /// When the headers' counts disagree with the columns.
    pub fn hash(&mut self, batch: &TransactionBatch, out: &mut Hashed) {
        self.inputs.clear();
        for (header, seed) in batch.headers.iter().zip(&batch.seeds) {
            self.inputs.extend((0..header.legs).map(|position| salt_input(seed, position)));
        }
        out.salts.clear();
        hash_salts(&self.inputs, &mut out.salts);

        self.inputs.clear();
        let positions = batch.headers.iter().flat_map(|header| 0..header.legs);
        for ((leg, salt), position) in batch.legs.iter().zip(&out.salts).zip(positions) {
            self.inputs.push(leg_input(salt.as_bytes(), leg, position));
        }
        out.legs.clear();
        hash_legs(&self.inputs, &mut out.legs);

        let mut concerned = std::mem::take(&mut self.concerned);
        concerned.fill(batch);
        let counts = concerned.counts.iter().copied();
        self.ids_of(&batch.headers, counts, &concerned.participants, &out.legs, &mut out.ids);
        self.concerned = concerned;
    }

    /// The hashes of legs, each with its salt and position, in order.
    pub fn legs<'a>(&mut self, legs: impl Iterator<Item = (&'a Leg, &'a [u8], u8)>, out: &mut Vec<Hash>) {
        self.inputs.clear();
        self.inputs.extend(legs.map(|(leg, salt, position)| leg_input(salt, leg, position)));
        out.clear();
        hash_legs(&self.inputs, out);
    }

    /// The ids of transactions with those headers, whose participants and leg hashes lie one after
    /// the other in `participants` and `legs`: as many of each transaction as its header says.
    ///
    /// # Panics
    /// When there are fewer participants or leg hashes than the headers say.
    pub fn ids(
        &mut self,
        headers: &[Header],
        participants: &[ParticipantId],
        legs: &[Hash],
        out: &mut Vec<TransactionId>,
    ) {
        let counts = headers.iter().map(|header| usize::from(header.participants));
        self.ids_of(headers, counts, participants, legs, out);
    }

    fn ids_of(
        &mut self,
        headers: &[Header],
        counts: impl Iterator<Item = usize>,
        mut participants: &[ParticipantId],
        mut legs: &[Hash],
        out: &mut Vec<TransactionId>,
    ) {
        out.clear();
        out.resize(headers.len(), Hash::ZERO);
        let classes = &mut self.preimages;
        for ((index, header), count) in headers.iter().enumerate().zip(counts) {
            let (listed, other_participants) = participants.split_at(count);
            let (hashes, other_legs) = legs.split_at(usize::from(header.legs));
            (participants, legs) = (other_participants, other_legs);
            match preimage_length(listed.len(), hashes.len()) {
                128 => classes.blocks_2.push(index, header, listed, hashes),
                192 => classes.blocks_3.push(index, header, listed, hashes),
                256 => classes.blocks_4.push(index, header, listed, hashes),
                320 => classes.blocks_5.push(index, header, listed, hashes),
                384 => classes.blocks_6.push(index, header, listed, hashes),
                _ => out[index] = transaction_id(&self.key, header, listed, hashes),
            }
        }
        classes.blocks_2.hash(&self.key, &mut self.ids, out);
        classes.blocks_3.hash(&self.key, &mut self.ids, out);
        classes.blocks_4.hash(&self.key, &mut self.ids, out);
        classes.blocks_5.hash(&self.key, &mut self.ids, out);
        classes.blocks_6.hash(&self.key, &mut self.ids, out);
    }
}

impl Concerned {
    /// The participants of `batch` in place of those of the batch before.
    fn fill(&mut self, batch: &TransactionBatch) {
        self.participants.clear();
        self.counts.clear();
        for (header, place) in batch.headers.iter().zip(batch.places()) {
            let is_order = header.kind == crate::Kind::Account.number();
            match &batch.legs[place.legs] {
                [one, other] if !is_order && one.participant == other.participant => {
                    self.participants.push(one.participant);
                    self.counts.push(1);
                }
                legs => {
                    concerned(legs, is_order.then(|| &batch.orders[place.order]), &mut self.of_one);
                    self.participants.extend_from_slice(&self.of_one);
                    self.counts.push(self.of_one.len());
                }
            }
        }
    }
}

impl<const N: usize> Default for Class<N> {
    fn default() -> Self {
        Self { inputs: Vec::new(), indices: Vec::new() }
    }
}

impl<const N: usize> Class<N> {
    fn push(&mut self, index: usize, header: &Header, participants: &[ParticipantId], legs: &[Hash]) {
        let mut input = [0; N];
        write_preimage(header, participants, legs, &mut input);
        self.inputs.push(input);
        self.indices.push(index);
    }

    /// Puts the id of each input at its transaction's place, and empties the class.
    fn hash(&mut self, key: &IdKey, ids: &mut Vec<Hash>, out: &mut [TransactionId]) {
        ids.clear();
        tally_crypto::hash_many_keyed(key.as_bytes(), &self.inputs, ids);
        for (index, id) in self.indices.iter().zip(ids) {
            out[*index] = *id;
        }
        self.inputs.clear();
        self.indices.clear();
    }
}

#[cfg(test)]
mod tests;
