//! The history of a transaction: handed over by who offers it, verified by who receives it.
//!
//! Whoever offers a transaction sends along what it directly builds on, and more of its history while that is small.
//! The receiver asks for what it lacks, in batches, and answers the offer once it has verified all of it, from the
//! oldest on. The one who offers hands out nothing but the history of what it offered: the receiver may ask for what
//! an offered or handed-out transaction names, and for nothing else.
//!
//! Attachments are never sent unasked. Once the signatures of a transaction are verified, the receiver asks for those
//! of its attachments that it lacks, part by part, keeps each once all of it is here and is what the id is the hash
//! of, and only then verifies the contracts. It may ask for the attachments of what it was offered or handed out.

mod attachments;
mod offer;
mod receive;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{AttachmentId, SignedTransaction, TransactionId};

pub use attachments::Attachments;
pub use offer::Offered;
pub use receive::History;
pub(crate) use receive::recorded;

/// Most transactions that are sent along unasked.
pub const PUSHED_TRANSACTIONS: usize = 16;
/// Most bytes of transactions that are sent along unasked.
pub const PUSHED_BYTES: usize = 64 << 10;
/// Most transactions that are asked for at once.
pub const ASKED: usize = 100;
/// Most transactions in one answer.
pub const BATCH_TRANSACTIONS: usize = 500;
/// Most bytes of transactions in one answer, unless a single one has more.
pub const BATCH_BYTES: usize = 512 << 10;
/// Most transactions of a history that is fetched. The share of memory that the peer who sends it has at this node
/// (`Limits::peer_bytes`) may allow fewer: about 250 bytes are remembered of each until the whole history is verified.
pub const HISTORY_TRANSACTIONS: usize = 1_000_000;
/// Most bytes of a history that is fetched (2 GiB). They are kept in the database until they are verified.
pub const HISTORY_BYTES: u64 = 2 << 30;
/// Bytes of each part of an attachment but its last.
pub const PART_BYTES: usize = 256 << 10;
/// Most attachments that are fetched for one offer.
pub const FETCHED_ATTACHMENTS: usize = 10_000;
/// Most bytes of attachments that are fetched for one offer (256 MiB).
pub const FETCHED_BYTES: u64 = 256 << 20;

/// A transaction, offered with the beginning of its history.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct Offer {
    /// What is offered.
    pub transaction: SignedTransaction,
    /// What it builds on, nearest first.
    pub history: Vec<SignedTransaction>,
}

/// What the receiver of an offer says.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub enum Reply<T> {
    /// These transactions of the history are not here yet. Answered by a [`Batch`].
    Fetch(Vec<TransactionId>),
    /// The history is verified, and this is the answer to the offer.
    Answer(T),
    /// This part of an attachment, counted from zero, each after the one before. Answered by `Option<`[`Part`]`>`:
    /// `None` when the one who offers does not have the attachment.
    Part(AttachmentId, u32),
}

/// A part of an attachment: [`PART_BYTES`], or what is left of it. An attachment of no bytes has one part.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Part {
    /// Bytes of the whole attachment.
    pub length: u64,
    /// What this part holds.
    pub bytes: Vec<u8>,
}

/// Transactions that were asked for, and further ones that they build on, nearest first.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct Batch(pub Vec<SignedTransaction>);
