//! What evidence proves, or why it proves nothing.

use crate::approval::ApprovalError;
use crate::receipt::ReceiptError;
use crate::witness::WitnessError;
use std::fmt;
use tally_crypto::SignatureError;
use tally_crypto::log::CosignatureError;
use tally_ledger::refusal::Verdict;
use tally_ledger::{NetworkId, ParticipantId, Refusal, TransactionId};

/// Who did what against the rules, proven by signatures of its own. It prints as a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misconduct {
    /// Who.
    pub by: Party,
    /// What.
    pub act: Act,
}

/// Who is accountable for a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Party {
    /// The operator of the log: the sequencer's key.
    Operator,
    /// An institution.
    Institution {
        /// Its position in the network's configuration.
        participant: ParticipantId,
        /// Its BIC by the keys.
        bic: String,
    },
}

/// What was done. Pairs are in the order of the evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// It signed, or cosigned, two heads of one size with different roots.
    TwoRoots {
        /// How many records both are of.
        size: u64,
    },
    /// It signed, or cosigned, two heads under which one place of the log has two records.
    TwoLeaves {
        /// The place, from 0.
        index: u64,
        /// How many records each head is of.
        sizes: [u64; 2],
    },
    /// It signed a larger head of an earlier time, or cosigned one at an earlier time.
    TimeWentBack {
        /// How many records each head is of.
        sizes: [u64; 2],
        /// Each one's time: of heads in milliseconds, of cosignatures in seconds since the Unix
        /// epoch.
        times: [u64; 2],
    },
    /// It gave one place in the global order to two decisions.
    TwoDecisions {
        /// The place.
        sequence: u64,
        /// The transactions, and what became of each.
        decisions: [(TransactionId, Verdict); 2],
    },
    /// It settled one transaction twice.
    SettledTwice {
        /// The transaction.
        id: TransactionId,
        /// Its two places in the global order.
        sequences: [u64; 2],
    },
    /// It settled what an institution concerned had refused.
    ///
    /// An institution that signs a refusal after its approval can make this evidence too. The
    /// operator then shows that approval, and both answers together are [`Act::TwoAnswers`] by the
    /// institution. An operator that settled by the rules has the approval of every institution
    /// concerned.
    SettledAgainstRefusal {
        /// The transaction.
        id: TransactionId,
        /// Its place in the global order.
        sequence: u64,
        /// Which institution refused it.
        institution: ParticipantId,
        /// Its BIC by the keys.
        bic: String,
        /// Why.
        refusal: Refusal,
    },
    /// It answered one question twice, and not the same.
    TwoAnswers {
        /// The scheduler that asked.
        scheduler: u64,
        /// In which accepted batch of that scheduler.
        batch: u64,
        /// About which transaction of that batch, from 0.
        index: u32,
        /// What it took the transaction to be, and its verdict.
        answers: [(TransactionId, Verdict); 2],
    },
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("The operator"),
            Self::Institution { bic, .. } => f.write_str(bic),
        }
    }
}

/// What became of a transaction, in a few words.
struct Outcome<'a>(&'a Verdict, &'static str);

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(()) => f.write_str(self.1),
            Err(refusal) => write!(f, "refused with {}", refusal.iso_code()),
        }
    }
}

impl fmt::Display for Misconduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, operator) = (&self.by, self.by == Party::Operator);
        let (signed, its) = if operator { ("signed", "its") } else { ("cosigned", "the") };
        match &self.act {
            Act::TwoRoots { size } => {
                let so = if operator { "it shows two histories" } else { "it saw two histories" };
                write!(
                    f,
                    "{by} {signed} two heads of {its} log of {size} records with different roots: {so}."
                )
            }
            Act::TwoLeaves { index, sizes: [first, second] } => write!(
                f,
                "{by} {signed} two heads of {its} log, of {first} and of {second} records, that have two different \
                 records at place {index}: they are of two histories."
            ),
            Act::TimeWentBack { sizes: [first, second], times: [one, other] } => {
                let unit = if operator { "ms" } else { "s" };
                write!(
                    f,
                    "{by} {signed} a head of {its} log of {first} records as of {one} {unit} since 1970 and one of \
                     {second} records as of {other} {unit}: the larger one is earlier."
                )
            }
            Act::TwoDecisions { sequence, decisions: [(one, was), (other, became)] } => {
                let (was, became) = (Outcome(was, "settled"), Outcome(became, "settled"));
                write!(
                    f,
                    "{by} gave place {sequence} of the global order to two decisions: {one} {was}, and {other} {became}."
                )
            }
            Act::SettledTwice { id, sequences: [first, second] } => write!(
                f,
                "{by} settled transaction {id} twice: at place {first} and at place {second} of the global order."
            ),
            Act::SettledAgainstRefusal { id, sequence, bic, refusal, .. } => write!(
                f,
                "{by} settled transaction {id} at place {sequence} of the global order, which {bic} had refused ({} {}). \
                 The one answer to this is {bic}'s signed approval of it, which would prove two answers by {bic}.",
                refusal.iso_code(),
                refusal.sentence()
            ),
            Act::TwoAnswers { scheduler, batch, index, answers: [(one, said), (other, answered)] } => {
                let (said, answered) = (Outcome(said, "approved"), Outcome(answered, "approved"));
                write!(
                    f,
                    "{by} gave two answers about transaction {index} of batch {batch} of scheduler {scheduler}: \
                     {one} {said}, and {other} {answered}."
                )
            }
        }
    }
}

/// Why evidence proves nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvidenceError {
    /// It is of another version.
    #[error(
        "the evidence is of version {0}, and this program reads version 1: use the program that goes with it"
    )]
    Version(u32),
    /// It is of another network than the keys.
    #[error(
        "the evidence is of network {evidence} and the keys are of network {keys}: take the keys of that network"
    )]
    Network {
        /// The evidence's.
        evidence: NetworkId,
        /// The keys'.
        keys: NetworkId,
    },
    /// The keys name no such institution.
    #[error("participant {} is accused, and the keys do not name it: take the keys of that time", .0.0)]
    UnknownInstitution(ParticipantId),
    /// It cannot be what it says it is.
    #[error("the evidence's parts do not belong together: {0}")]
    Form(&'static str),
    /// A head is not the operator's.
    #[error("the operator did not sign the tree head of {size} records")]
    Head {
        /// How many records the head is of.
        size: u64,
        /// What is wrong with its signature.
        #[source]
        source: SignatureError,
    },
    /// A cosignature is not the witness's.
    #[error("{institution} did not cosign the tree head of {size} records")]
    Cosignature {
        /// Whose it is said to be.
        institution: String,
        /// How many records the head is of.
        size: u64,
        /// What is wrong with it.
        #[source]
        source: CosignatureError,
    },
    /// A record is not shown to be in the log at its place.
    #[error("it is not shown that the log of {size} records has that record there")]
    Leaf {
        /// How many records the head is of.
        size: u64,
        /// What is wrong with the path.
        #[source]
        source: tally_crypto::ProofError,
    },
    /// An answer is not the institution's.
    #[error("the answer of {institution} is not proven")]
    Answer {
        /// Whose it is said to be.
        institution: String,
        /// What is wrong with it.
        #[source]
        source: ApprovalError,
    },
    /// A receipt proves nothing.
    #[error("a decision's place in the global order is not proven")]
    Receipt(#[from] ReceiptError),
    /// A receipt's cosignatures are not what they say.
    #[error("a receipt's cosignatures are not what they say")]
    Witnesses(#[from] WitnessError),
    /// All of it is signed, and an honest party may sign all of it.
    #[error("what was signed is no contradiction: {0}")]
    NoContradiction(&'static str),
}
