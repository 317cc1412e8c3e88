//! States, commands, contracts and signed transactions of the flows ledger: pure, bounded, deterministic.
//!
//! No IO, no clock, no random source: time and randomness come in as arguments, so that every
//! node reaches the same verdict on the same bytes.
//!
//! Reading order: [`Name`] and [`Party`] say who; [`State`] is a fact they agree on;
//! [`TransactionBuilder`] makes a [`Transaction`] that consumes and creates states;
//! [`TearOff`] shows a part of one; [`SignedTransaction`] carries its signatures;
//! [`LedgerTransaction`] has the consumed states at hand and asks each [`Contract`] whether the
//! transaction keeps its rules. [`cash`], [`iou`], [`bond`] and [`oracle`] are the contracts that
//! every node ships.
//!
//! A decoded or built value is always well-formed: whatever can be checked without other
//! transactions is checked by `decode` and `build`, and everything decoded has been limited
//! ([`limits`]) before memory is set aside for it.

// Tests may add up numbers that they chose themselves.
#![cfg_attr(
    not(test),
    deny(clippy::float_arithmetic, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

mod amount;
mod attachment;
pub mod bond;
mod builder;
pub mod cash;
mod component;
mod composite;
mod content;
mod contract;
mod encoding;
#[cfg(test)]
mod fixture;
mod id;
pub mod iou;
mod ledger_transaction;
pub mod limits;
mod name;
pub mod oracle;
mod party;
mod selection;
mod signed;
mod state;
mod tear_off;
mod text;
mod time;
mod transaction;

pub use amount::{Amount, AmountError, Currency};
pub use attachment::Attachment;
pub use builder::{BuildError, TransactionBuilder};
pub use component::{Component, Group};
pub use composite::{CompositeKey, CompositeKeyError};
pub use content::TransactionError;
pub use contract::{Contract, ContractName, ContractNameError, Contracts, Involved, Summary, Violation};
pub use encoding::{DecodeError, decode, encode};
pub use id::{AttachmentId, NetworkId, StateRef, StateRefError, TransactionId};
pub use ledger_transaction::{LedgerTransaction, ResolveError, VerificationError};
pub use name::{Name, NameError};
pub use party::Party;
pub use selection::{Insufficient, Selection, select_coins};
pub use signed::{
    Role, SignatureError, SignaturesError, SignedTransaction, TransactionSignature, sign,
    verify_signatures_of,
};
pub use state::{Command, ContractCommand, ContractState, State, StateAndRef, VersionRange};
pub use tally_crypto::BatchVerifier;
pub use tally_crypto::scheme::{PublicKey, Scheme, Signature, SigningKey};
pub use tear_off::{CommandContent, NotShown, NotaryView, TearOff, TearOffError, Visible};
pub use time::{TimeWindow, Timestamp};
pub use transaction::Transaction;

#[cfg(test)]
mod tests;
