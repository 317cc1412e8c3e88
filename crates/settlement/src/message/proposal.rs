//! Proposals: what one participant is shown of a batch.

use super::{Message, SignaturesVerified, Source, decode_all};
use tally_crypto::Hash;
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::transaction::{Header, Leg, Salt};
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_ledger::{AccountOrder, Kind, ParticipantId, Signer};

/// The transactions of one accepted batch that concern one participant, with no more of each than
/// it needs to know: the legs in its partition, those on its own settlement accounts, and the
/// hashes of the others, from which it recomputes the transaction's id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProposalBatch {
    /// The accepted batch.
    pub source: Source,
    /// How many transactions the accepted batch has.
    pub source_len: u32,
    /// Who is asked.
    pub participant: ParticipantId,
    /// Which transactions of the accepted batch, ascending.
    pub indices: Vec<u32>,
    /// One for each.
    pub headers: Vec<Header>,
    /// `header.participants` for each, ascending: all whom the transaction concerns, to whom its id
    /// commits. So institutions that one transaction concerns are known to each other.
    pub participants: Vec<ParticipantId>,
    /// How many legs of each are shown.
    pub shown: Vec<u8>,
    /// The legs shown, in the order of their positions.
    pub legs: Vec<Leg>,
    /// The salt of each leg shown.
    pub salts: Vec<Salt>,
    /// The position in its transaction of each leg shown.
    pub positions: Vec<u8>,
    /// The hashes of the legs not shown, in the order of their positions.
    pub hidden: Vec<Hash>,
    /// `header.signers` for each: on whose authority it is made.
    pub signers: Vec<Signer>,
    /// One for each account order.
    pub orders: Vec<AccountOrder>,
    /// Whether this process verified the signatures. It is no part of the form that crosses logs.
    pub verified: Option<SignaturesVerified>,
}

/// One transaction of a [`ProposalBatch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proposal<'a> {
    /// Its position in the proposal batch.
    pub item: usize,
    /// What everybody concerned is shown.
    pub header: &'a Header,
    /// Whom it concerns.
    pub participants: &'a [ParticipantId],
    /// The legs shown.
    pub legs: &'a [Leg],
    /// Where those legs begin in the batch's column.
    pub first_leg: usize,
    /// The positions of those legs.
    pub positions: &'a [u8],
    /// The hashes of the other legs.
    pub hidden: &'a [Hash],
    /// The signatures.
    pub signers: &'a [Signer],
    /// The order, when it is one.
    pub order: Option<&'a AccountOrder>,
}

impl ProposalBatch {
    /// How many transactions.
    pub fn len(&self) -> usize {
        self.indices.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
    /// Where in this batch the transaction at `index` of the accepted batch is, if it is in it.
    pub fn position(&self, index: u32) -> Option<usize> {
        let guess = index as usize;
        if self.indices.get(guess) == Some(&index) {
            return Some(guess);
        }
        self.indices.binary_search(&index).ok()
    }
    /// The transactions in order.
    pub fn iter(&self) -> impl Iterator<Item = Proposal<'_>> {
        let mut cursor = ProposalCursor::default();
        (0..self.len()).map(move |_| cursor.next(self))
    }
}

/// Walks through a [`ProposalBatch`] that is kept elsewhere, and can stop in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProposalCursor {
    item: usize,
    participant: usize,
    leg: usize,
    hidden: usize,
    signer: usize,
    order: usize,
}

impl ProposalCursor {
    /// The position of the next transaction in the batch.
    pub fn item(&self) -> usize {
        self.item
    }
    /// The next transaction.
    ///
    /// # Panics
    /// Past the end of a batch, or on one whose columns disagree (never made by [`Message::decode`]).
    #[inline]
    pub fn next<'a>(&mut self, batch: &'a ProposalBatch) -> Proposal<'a> {
        let item = self.item;
        let header = &batch.headers[item];
        let participants = usize::from(header.participants);
        let shown = usize::from(batch.shown[item]);
        let hidden = usize::from(header.legs) - shown;
        let is_order = header.kind == Kind::Account.number();
        let proposal = Proposal {
            item,
            header,
            participants: &batch.participants[self.participant..self.participant + participants],
            legs: &batch.legs[self.leg..self.leg + shown],
            first_leg: self.leg,
            positions: &batch.positions[self.leg..self.leg + shown],
            hidden: &batch.hidden[self.hidden..self.hidden + hidden],
            signers: &batch.signers[self.signer..self.signer + usize::from(header.signers)],
            order: if is_order { Some(&batch.orders[self.order]) } else { None },
        };
        self.item += 1;
        self.participant += participants;
        self.leg += shown;
        self.hidden += hidden;
        self.signer += usize::from(header.signers);
        self.order += usize::from(is_order);
        proposal
    }
}

/// 1 had no participants.
const VERSION: u8 = 2;

impl Message for ProposalBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write(out, &self.source_len);
        write(out, &self.participant);
        for count in [
            self.len(),
            self.participants.len(),
            self.legs.len(),
            self.hidden.len(),
            self.signers.len(),
            self.orders.len(),
        ] {
            write_count(out, count);
        }
        write_slice(out, &self.indices);
        write_slice(out, &self.headers);
        write_slice(out, &self.participants);
        write_slice(out, &self.shown);
        write_slice(out, &self.legs);
        write_slice(out, &self.salts);
        write_slice(out, &self.positions);
        write_slice(out, &self.hidden);
        write_slice(out, &self.signers);
        for order in &self.orders {
            order.encode(out);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("proposals", bytes, |reader| {
            reader.version(VERSION)?;
            let (source, source_len, participant) =
                (Source::decode(reader)?, reader.value::<u32>()?, reader.value()?);
            if source_len as usize > MAX_BATCH {
                return Err(reader.error("a count is above its limit"));
            }
            let items = reader.count(MAX_BATCH)?;
            let participants = reader.count(MAX_BATCH * 255)?;
            let legs = reader.count(MAX_BATCH * 255)?;
            let hidden = reader.count(MAX_BATCH * 255)?;
            let signers = reader.count(MAX_BATCH * 255)?;
            let orders = reader.count(MAX_BATCH)?;
            let mut batch = Self {
                source,
                source_len,
                participant,
                indices: reader.values(items)?,
                headers: reader.values(items)?,
                participants: reader.values(participants)?,
                shown: reader.values(items)?,
                legs: reader.values(legs)?,
                salts: reader.values(legs)?,
                positions: reader.values(legs)?,
                hidden: reader.values(hidden)?,
                signers: reader.values(signers)?,
                orders: Vec::new(),
                verified: None,
            };
            for _ in 0..orders {
                batch.orders.push(AccountOrder::decode(reader)?);
            }
            let ascending = batch.indices.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending || batch.indices.last().is_some_and(|last| *last >= source_len) {
                return Err(reader.error("the positions do not ascend within the source"));
            }
            let mut sums = [0usize; 5];
            for (header, shown) in batch.headers.iter().zip(&batch.shown) {
                let hidden = header.legs.checked_sub(*shown);
                sums[0] += usize::from(*shown);
                sums[1] += usize::from(hidden.ok_or_else(|| reader.error("more legs shown than there are"))?);
                sums[2] += usize::from(header.signers);
                sums[3] += usize::from(header.kind == Kind::Account.number());
                sums[4] += usize::from(header.participants);
            }
            if sums != [legs, hidden, signers, orders, participants] {
                return Err(reader.error("the headers' counts disagree with the columns"));
            }
            Ok(batch)
        })
    }
}
