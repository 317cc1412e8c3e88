//! Refusals: why a transaction was not made, as a stable code with the ISO 20022 reason beside it.

use serde::{Deserialize, Serialize};

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $iso:literal, $sentence:literal;)+) => {
        /// Why a transaction was refused. The number is what logs hold and never changes its
        /// meaning; where several reasons apply, the lowest number of the earliest stage wins.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[repr(u16)]
        pub enum Refusal { $($(#[doc = $doc])+ $name = $number,)+ }

        impl Refusal {
            /// Every refusal, in order of precedence.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The refusal of that number.
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$name),)+ _ => None }
            }
            /// The number that logs hold.
            pub fn number(self) -> u16 {
                match self { $(Self::$name => $number,)+ }
            }
            /// The ISO 20022 external status reason code.
            pub fn iso_code(self) -> &'static str {
                match self { $(Self::$name => $iso,)+ }
            }
            /// One sentence for the payer.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)+ }
            }
            /// The name as used in metrics: `insufficient_funds`.
            pub fn metric_name(self) -> String {
                let mut name = String::new();
                for c in stringify_of(self).chars() {
                    if c.is_ascii_uppercase() && !name.is_empty() { name.push('_'); }
                    name.push(c.to_ascii_lowercase());
                }
                name
            }
        }
        fn stringify_of(refusal: Refusal) -> &'static str {
            match refusal { $(Refusal::$name => stringify!($name),)+ }
        }
    };
}

refusals! {
    /// The transaction's form is broken: unknown kind, reserved bytes set, a leg repeated.
    Malformed = 1, "FF01", "The transaction's form is not valid.";
    /// Fewer than two legs.
    TooFewLegs = 2, "FF01", "A transaction needs at least two legs.";
    /// More legs than a transaction may have.
    TooManyLegs = 3, "FF01", "The transaction has more legs than the limit.";
    /// It is meant for another network.
    WrongNetwork = 4, "FF01", "The transaction is for another network.";
    /// A leg names a participant that the network does not have.
    UnknownParticipant = 5, "RC01", "No participant of this network has that identifier.";
    /// A leg names an asset that the network does not have.
    UnknownAsset = 6, "AM03", "The network does not hold that currency or asset.";
    /// A leg of nothing.
    ZeroAmount = 7, "AM01", "An amount of zero cannot be paid.";
    /// An amount beyond 18 digits, or sums that do not fit.
    AmountOutOfRange = 8, "AM12", "The amount is outside the range that can be paid.";
    /// Legs do not balance for a participant and asset.
    Unbalanced = 9, "AM09", "The legs do not balance for every participant and asset.";
    /// The expiry lies in the past.
    Expired = 10, "TM01", "The transaction reached its expiry before it was decided.";
    /// The expiry lies further ahead than the network remembers.
    ExpiryTooFar = 11, "DT01", "The expiry lies further ahead than the network allows.";
    /// The same end-to-end reference was used before.
    Duplicate = 12, "AM05", "A transaction with this end-to-end reference was received before.";
    /// A signature that is needed is missing.
    Unsigned = 13, "DS0A", "The owner of a debited account did not sign.";
    /// A signature does not fit.
    WrongSignature = 14, "DS0B", "A signature does not verify.";
    /// More signers than a transaction may have.
    TooManySigners = 15, "FF01", "The transaction has more signatures than the limit.";
    /// The scheduler remembers as many transactions as it can.
    Overloaded = 16, "AB10", "The network holds as many open transactions as it can; send it again later.";
    /// The participant has no such account.
    UnknownAccount = 20, "AC01", "There is no such account at that participant.";
    /// The account was closed.
    ClosedAccount = 21, "AC04", "The account is closed.";
    /// The account is frozen.
    BlockedAccount = 22, "AC06", "The account is blocked.";
    /// The account holds another asset.
    WrongAsset = 23, "AC09", "The account holds another currency or asset.";
    /// Not enough money, nor an agreed limit.
    InsufficientFunds = 24, "AM04", "The account's funds do not cover the amount.";
    /// Beyond the limit for one payment.
    AboveLimit = 25, "AM02", "The amount is above the institution's limit for one payment.";
    /// The balance would not fit.
    BalanceOverflow = 26, "AM12", "The account's balance would leave the range that it can hold.";
    /// Only issue and redeem may move the issuance account, in their direction.
    NotIssuer = 27, "AG01", "Only the issuer can issue or redeem, and only by that kind of transaction.";
    /// The account order does not fit the account's state.
    OrderNotPossible = 28, "AG01", "The account order does not fit the account's state.";
    /// An account with money in it, or with payments under way, cannot be closed.
    NotEmpty = 29, "AG01", "The account is not empty or has payments under way.";
    /// What the participant was shown does not belong to the transaction.
    NotProven = 30, "NARR", "The legs shown to the participant do not belong to the transaction.";
    /// A participant did not answer in time.
    ApprovalTimeout = 40, "AB05", "A participant concerned did not answer before the expiry.";
    /// Participants answered for different transactions.
    ApprovalConflict = 41, "ED05", "The participants' answers do not belong together.";
    /// Whoever may hand it in took it back before it was decided.
    Withdrawn = 42, "DS02", "The payment was cancelled before it was decided.";
}

/// What a participant or the assembler says of a transaction: yes, or why not.
pub type Verdict = Result<(), Refusal>;

/// The number that a verdict has in logs: 0 for yes.
pub fn verdict_number(verdict: Verdict) -> u16 {
    match verdict {
        Ok(()) => 0,
        Err(refusal) => refusal.number(),
    }
}

/// The verdict of that number, if there is one.
pub fn verdict_from_number(number: u16) -> Option<Verdict> {
    if number == 0 { Some(Ok(())) } else { Refusal::from_number(number).map(Err) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_in_order_of_precedence() {
        assert!(Refusal::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
        for refusal in Refusal::ALL {
            assert_eq!(verdict_from_number(refusal.number()), Some(Err(*refusal)));
            assert_eq!(refusal.iso_code().len(), 4);
        }
        assert_eq!(verdict_from_number(0), Some(Ok(())));
        assert_eq!(verdict_from_number(999), None);
        assert_eq!(Refusal::InsufficientFunds.metric_name(), "insufficient_funds");
    }
}
