//! Batches: many transactions in a few flat columns, the form in which they are hashed, logged and sent.

use crate::order::AccountOrder;
use crate::transaction::{
    Header, Leg, Seed, Signer, Transaction, TransactionId, hash_legs, hash_salts, header_input, leg_input,
    salt_input,
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

/// Computes the ids of whole batches; keeps its buffers from one to the next.
#[derive(Default, Debug)]
pub struct Hasher {
    inputs: Vec<[u8; 64]>,
    classes: [Vec<usize>; CLASSES],
    ids: Vec<Hash>,
    preimages: Preimages,
}

#[derive(Default, Debug)]
struct Preimages {
    two: Vec<[u8; 128]>,
    four: Vec<[u8; 192]>,
    six: Vec<[u8; 256]>,
    eight: Vec<[u8; 320]>,
}

/// Up to two, four, six and eight legs; a class for all others.
const CLASSES: usize = 5;

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
    /// Hashes every leg and transaction of `batch`.
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
        self.ids(&batch.headers, &out.legs, &mut out.ids);
    }

    /// The hashes of legs, each with its salt and position, in order.
    pub fn legs<'a>(&mut self, legs: impl Iterator<Item = (&'a Leg, &'a [u8], u8)>, out: &mut Vec<Hash>) {
        self.inputs.clear();
        self.inputs.extend(legs.map(|(leg, salt, position)| leg_input(salt, leg, position)));
        out.clear();
        hash_legs(&self.inputs, out);
    }

    /// The ids of transactions with those headers, whose leg hashes lie one after the other in `legs`.
    ///
    /// # Panics
    /// When there are fewer leg hashes than the headers say.
    pub fn ids(&mut self, headers: &[Header], legs: &[Hash], out: &mut Vec<TransactionId>) {
        out.clear();
        out.resize(headers.len(), Hash::ZERO);
        self.classes.iter_mut().for_each(Vec::clear);
        self.preimages.clear();
        let mut start = 0usize;
        for (index, header) in headers.iter().enumerate() {
            let end = start.saturating_add(usize::from(header.legs));
            let hashes = &legs[start..end];
            let class = match header.legs {
                1..=2 => push(&mut self.preimages.two, header, hashes, 0),
                3..=4 => push(&mut self.preimages.four, header, hashes, 1),
                5..=6 => push(&mut self.preimages.six, header, hashes, 2),
                7..=8 => push(&mut self.preimages.eight, header, hashes, 3),
                _ => {
                    out[index] = crate::transaction::transaction_id(header, hashes);
                    4
                }
            };
            self.classes[class].push(index);
            start = end;
        }
        for class in 0..CLASSES {
            self.ids.clear();
            match class {
                0 => tally_crypto::hash_many(&self.preimages.two, &mut self.ids),
                1 => tally_crypto::hash_many(&self.preimages.four, &mut self.ids),
                2 => tally_crypto::hash_many(&self.preimages.six, &mut self.ids),
                3 => tally_crypto::hash_many(&self.preimages.eight, &mut self.ids),
                _ => continue,
            }
            for (index, id) in self.classes[class].iter().zip(&self.ids) {
                out[*index] = *id;
            }
        }
    }
}

impl Preimages {
    fn clear(&mut self) {
        self.two.clear();
        self.four.clear();
        self.six.clear();
        self.eight.clear();
    }
}

fn push<const N: usize>(inputs: &mut Vec<[u8; N]>, header: &Header, legs: &[Hash], class: usize) -> usize {
    let mut input = [0; N];
    let (front, back) = input.split_at_mut(64);
    front.copy_from_slice(&header_input(header));
    let legs: &[u8] = bytemuck::cast_slice(legs);
    back[..legs.len()].copy_from_slice(legs);
    inputs.push(input);
    class
}

#[cfg(test)]
mod tests;
