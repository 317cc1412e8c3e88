//! The vocabulary of settlement: participants, accounts, assets, legs, transactions, refusals and
//! balances. Everything here is pure: no IO, no clock, no randomness.
//!
//! Reading order: [`id`] and [`amount`] name the quantities, [`network`] says who takes part,
//! [`transaction`] is what clients sign, [`batch`] is how stages carry many of them, [`balance`]
//! is the rule that every transaction obeys, [`account`] and [`refusal`] are what an institution
//! answers with, and [`order`] opens, freezes and closes accounts.

// Tests may add up numbers that they chose themselves.
#![cfg_attr(
    not(test),
    deny(clippy::float_arithmetic, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

pub mod account;
pub mod amount;
pub mod balance;
pub mod batch;
pub mod id;
pub mod network;
pub mod order;
pub mod refusal;
pub mod transaction;
pub mod wire;

pub use account::{Account, AccountStatus};
pub use amount::Amount;
pub use batch::TransactionBatch;
pub use id::{
    AccountId, AccountNumber, AccountRole, AssetId, NetworkId, NetworkTag, NotNetworkId, ParticipantId,
    Timestamp, Uetr,
};
pub use network::{Asset, AssetKind, Network, Participant, SignaturePolicy};
pub use order::AccountOrder;
pub use refusal::Refusal;
pub use transaction::{Header, IdKey, Kind, Leg, Signer, Transaction, TransactionId};
