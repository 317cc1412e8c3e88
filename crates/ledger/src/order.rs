//! Account orders: how an institution opens, freezes and closes accounts while the network runs.
//! An order travels the same way as a payment, so that it has its place in the one global order.

use crate::amount::Amount;
use crate::id::{AccountNumber, AssetId, ParticipantId};
use crate::wire::{DecodeError, Reader, write, write_count};
use tally_crypto::{Hash, PublicKey};

/// The longest alias in bytes: an IBAN has 34, a proxy such as an e-mail address may be longer.
pub const MAX_ALIAS: usize = 128;
/// The most accounts that one order opens.
pub const MAX_RANGE: u32 = 1 << 20;

/// What is done to accounts of one participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountOrder {
    /// In whose partition.
    pub participant: ParticipantId,
    /// The account, or the first of a range.
    pub number: AccountNumber,
    /// What is done.
    pub action: AccountAction,
}

/// The action of an [`AccountOrder`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccountAction {
    /// Opens `count` accounts with consecutive numbers, the first of which must be the next free one.
    Open {
        /// How many; an alias needs exactly one.
        count: u32,
        /// What they hold.
        asset: AssetId,
        /// Whose signature debits them.
        owner: PublicKey,
        /// How far below zero they may go: zero or negative.
        floor: Amount,
        /// IBAN or another name by which payments find it; empty for none.
        alias: String,
    },
    /// No payment goes in or out any more, until it is released.
    Freeze,
    /// Ends a freeze.
    Release,
    /// Closes an empty account for ever.
    Close,
    /// Changes how far below zero it may go.
    SetFloor(Amount),
}

const VERSION: u8 = 1;

impl AccountOrder {
    /// The hash to which the transaction's header commits.
    pub fn hash(&self) -> Hash {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        tally_crypto::hash(&bytes)
    }

    /// Appends the canonical form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        write(out, &self.participant);
        write(out, &self.number);
        match &self.action {
            AccountAction::Open { count, asset, owner, floor, alias } => {
                out.push(1);
                write(out, count);
                write(out, asset);
                write(out, owner);
                write(out, floor);
                write_count(out, alias.len());
                out.extend_from_slice(alias.as_bytes());
            }
            AccountAction::Freeze => out.push(2),
            AccountAction::Release => out.push(3),
            AccountAction::Close => out.push(4),
            AccountAction::SetFloor(floor) => {
                out.push(5);
                write(out, floor);
            }
        }
    }

    /// Reads the canonical form.
    ///
    /// # Errors
    /// On any other bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.version(VERSION)?;
        let participant = reader.value()?;
        let number = reader.value()?;
        let action = match reader.value::<u8>()? {
            1 => {
                let (count, asset, owner, floor) =
                    (reader.value()?, reader.value()?, reader.value()?, reader.value()?);
                let length = reader.count(MAX_ALIAS)?;
                let alias = std::str::from_utf8(reader.take(length)?)
                    .map_err(|_| reader.error("an alias is not UTF-8"))?
                    .to_owned();
                AccountAction::Open { count, asset, owner, floor, alias }
            }
            2 => AccountAction::Freeze,
            3 => AccountAction::Release,
            4 => AccountAction::Close,
            5 => AccountAction::SetFloor(reader.value()?),
            _ => return Err(reader.error("the action is unknown")),
        };
        Ok(Self { participant, number, action })
    }
}
