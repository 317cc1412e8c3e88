//! What an audit finds: in which record, about which transaction, whose key should have allowed it.

use crate::message::Source;
use std::fmt;
use tally_crypto::PublicKey;
use tally_ledger::{AccountId, Timestamp, TransactionId, Uetr};
use tally_log::Ticket;

/// What is wrong. Each names one rule of `docs/decisions/016-audit.md`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The form is not one that this version of the signed forms has.
    #[error("its form is not valid: {0}")]
    Malformed(&'static str),
    /// The transaction was signed for another network.
    #[error("it is for another network")]
    OtherNetwork,
    /// Legs do not balance.
    #[error(
        "the legs in asset {asset} leave {difference} minor units that no settlement account answers for"
    )]
    Unbalanced {
        /// The asset's code.
        asset: String,
        /// What the partition owes more than its settlement account got.
        difference: i128,
    },
    /// The header counts other participants than the legs have.
    #[error("its header counts {counted} participants concerned, its legs or order have {found}")]
    Concerned {
        /// In the header.
        counted: u8,
        /// In the legs or the order.
        found: usize,
    },
    /// A leg of a transfer is larger than the asset's limit.
    #[error("the leg of {amount} minor units is above the asset's largest payment of {limit}")]
    AboveLimit {
        /// Without its sign.
        amount: u64,
        /// Of the asset.
        limit: u64,
    },
    /// It had expired when it was accepted.
    #[error("it was accepted at {} ms and had expired at {} ms", accepted.0, expiry.0)]
    Expired {
        /// By the scheduler's clock.
        accepted: Timestamp,
        /// Of the transaction.
        expiry: Timestamp,
    },
    /// Another transaction with the reference was made, and both could have been accepted at once.
    #[error("its reference was used by what was made at sequence number {0}, which had not expired")]
    ReferenceUsed(u64),
    /// A change that needs a signature does not have it.
    #[error("{0} is not signed")]
    NotSigned(Change),
    /// A signature that came with it does not verify.
    #[error("a signature that came with it does not verify{}", OfWhat(*.0))]
    WrongSignature(Option<Change>),
    /// There is no such account at that place of the sequence.
    #[error("there is no such account at that place of the sequence")]
    NoAccount,
    /// The account holds another asset than the leg.
    #[error("the account holds another asset than the leg moves")]
    OtherAsset,
    /// The account was frozen.
    #[error("the account was frozen at sequence number {0}, and nothing on it was under way")]
    Frozen(u64),
    /// The account was closed.
    #[error("the account is closed")]
    Closed,
    /// The account goes below its floor.
    #[error("it leaves {after} minor units on the account, whose floor is {floor}")]
    BelowFloor {
        /// The balance after it.
        after: i64,
        /// Agreed.
        floor: i64,
    },
    /// The balance does not fit into 64 bits.
    #[error("the account's balance leaves the range that it can hold")]
    OutOfRange,
    /// An account order does not fit the account's state.
    #[error("the account order does not fit: {0}")]
    Order(&'static str),
    /// A decision is about a transaction that was not accepted before.
    #[error("it was not accepted before it was decided")]
    NotAccepted,
    /// A decision was not shown to the institution whose partition is audited before it was sequenced.
    #[error("the institution was shown nothing of the batch before it was decided")]
    NotShown,
    /// Another institution, of that BIC, was not shown to agree with its signature.
    #[error("that {0} agreed to it was not shown with {0}'s signature")]
    NotAgreed(String),
    /// A transaction has two outcomes.
    #[error("it is decided a second time")]
    DecidedTwice,
    /// A batch was accepted under a name that another has.
    #[error("a batch with that name was accepted before")]
    AcceptedTwice,
    /// The sequence has a gap or goes back.
    #[error("the sequence goes on with number {found} where {expected} is next")]
    Gap {
        /// The number that is next.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// A clock goes back.
    #[error("its time, {} ms, is before the {} ms of the record before it", now.0, before.0)]
    TimeBack {
        /// Of the record.
        now: Timestamp,
        /// Of an earlier record by the same writer.
        before: Timestamp,
    },
    /// The root over the decisions of a record is not what its decisions come to.
    #[error("the root over its decisions is not the one stated")]
    WrongRoot,
    /// The Merkle log does not come to the stated head.
    #[error("the Merkle log's size or root is not the one stated; heads after this one are not compared")]
    WrongTree,
    /// The head of the Merkle log is not signed by the operator.
    #[error("the head of the Merkle log is not signed by the operator")]
    WrongHead,
    /// At the end a participant's books do not match its settlement account.
    #[error("its accounts in asset {asset} sum to {sum}, its settlement account holds {settlement}")]
    Books {
        /// Code.
        asset: String,
        /// Of all accounts of the partition.
        sum: i128,
        /// At the asset's settlement institution.
        settlement: i128,
    },
}

/// A change that somebody's key has to allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A debit of a customer's account: by its owner.
    Debit,
    /// A debit of an institution's own funds: by the institution.
    OwnFunds,
    /// What is issued or taken back: by the issuer.
    Issuance,
    /// An account order: by the account's institution.
    Order,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debit => "the debit, by the account's owner,",
            Self::OwnFunds => "the debit of own funds, by the institution,",
            Self::Issuance => "the change of the amount issued, by the issuer,",
            Self::Order => "the account order, by the institution,",
        })
    }
}

struct OfWhat(Option<Change>);

impl fmt::Display for OfWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(change) => write!(f, ", on which rests {change}"),
            None => Ok(()),
        }
    }
}

/// The transaction that a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The accepted batch.
    pub source: Source,
    /// Its place in that batch.
    pub index: u32,
    /// Its reference and id; none where the record that held it is not at hand any more.
    pub named: Option<(Uetr, TransactionId)>,
}

/// Something that is not in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The record; none for what only the end shows.
    pub ticket: Option<Ticket>,
    /// The place in the one global order, where there is one.
    pub sequence: Option<u64>,
    /// The transaction, where it is about one.
    pub transaction: Option<Subject>,
    /// The BIC of the institution whose books it concerns.
    pub institution: Option<String>,
    /// The account.
    pub account: Option<AccountId>,
    /// The key that should have signed.
    pub key: Option<PublicKey>,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = Vec::new();
        if let Some(ticket) = self.ticket {
            place.push(format!("{ticket} of the journal"));
        }
        if let Some(sequence) = self.sequence {
            place.push(format!("sequence number {sequence}"));
        }
        if let Some(Subject { source, index, named }) = self.transaction {
            let at = format!("{index} of batch {} of scheduler {}", source.number, source.scheduler);
            place.push(match named {
                Some((uetr, id)) => format!("transaction {uetr} ({at}, id {id})"),
                None => format!("transaction {at}"),
            });
        }
        place.extend(self.institution.clone());
        place.extend(self.account.map(|account| format!("account {account}")));
        if !place.is_empty() {
            write!(f, "{}: ", place.join(", "))?;
        }
        write!(f, "{}", self.fault)?;
        match self.key {
            Some(key) => write!(f, "; the key that has to sign is {key}"),
            None => Ok(()),
        }
    }
}

/// The findings of an audit, in the order of the journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// The first of them.
    pub first: Vec<Finding>,
    /// How many there are beyond those.
    pub more: u64,
}

impl Findings {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Keeps a finding, if fewer than `most` are kept.
    pub(super) fn add(&mut self, most: usize, finding: Finding) {
        if self.first.len() < most { self.first.push(finding) } else { self.more += 1 }
    }

    /// Joins what was found beside the pass, and keeps the first `most` in the order of the journal.
    pub(super) fn join(&mut self, most: usize, other: Self) {
        self.first.extend(other.first);
        self.more += other.more;
        // What only the end shows comes last.
        self.first.sort_by_key(|finding| (finding.ticket.unwrap_or(Ticket(u64::MAX)), finding.sequence));
        let cut = self.first.len().saturating_sub(most);
        self.first.truncate(most);
        self.more += cut as u64;
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.first.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
