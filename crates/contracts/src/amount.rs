//! Money: a whole number of minor units of a currency.

use crate::encoding::invalid;
use crate::text::as_text;
use borsh::io::{Error, Read};
use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::str::FromStr;
use tally_ledger::amount::{Decimal, NotAmount};

/// An ISO 4217 currency code: three capital letters. Its number of decimals follows from the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize)]
pub struct Currency([u8; 3]);

as_text!(Currency, "a currency code such as 'USD'");

impl Currency {
    /// A code known to be good.
    ///
    /// # Panics
    /// When `code` is not three capital letters; at compile time in a `const`.
    pub const fn literal(code: &str) -> Self {
        match Self::parse(code.as_bytes()) {
            Some(currency) => currency,
            None => panic!("a currency code is three capital letters"),
        }
    }

    const fn parse(code: &[u8]) -> Option<Self> {
        match code {
            [a @ b'A'..=b'Z', b @ b'A'..=b'Z', c @ b'A'..=b'Z'] => Some(Self([*a, *b, *c])),
            _ => None,
        }
    }

    /// The three letters.
    pub fn code(&self) -> &str {
        // Only capital letters get in, which are UTF-8.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// How many decimals the minor unit has (ISO 4217 list one): 2 unless the list says otherwise.
    pub const fn decimals(&self) -> u8 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG" | b"RWF"
            | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            _ => 2,
        }
    }
}

impl FromStr for Currency {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        Self::parse(text.as_bytes()).ok_or_else(|| AmountError::Currency(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl BorshDeserialize for Currency {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let code = <[u8; 3]>::deserialize_reader(reader)?;
        Self::parse(&code).ok_or_else(|| invalid("a currency code is three capital letters"))
    }
}

/// An amount of money, never negative, at most [`Amount::MAX`] minor units.
///
/// Text and serde form: `100.00 USD`; parsing also takes `100 USD`.
///
/// ```
/// let amount: tally_contracts::Amount = "100 USD".parse()?;
/// assert_eq!(amount.quantity(), 10_000);
/// assert_eq!(amount.to_string(), "100.00 USD");
/// # Ok::<(), tally_contracts::AmountError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize)]
pub struct Amount {
    quantity: u64,
    currency: Currency,
}

as_text!(Amount, "an amount such as '100.00 USD'");

/// Why something is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// No currency code where one should be.
    #[error("'{0}' is not a currency code: three capital letters are wanted, such as USD")]
    Currency(String),
    /// Not a number and a currency code.
    #[error("'{0}' is not an amount: a number and a currency code are wanted, such as 100.00 USD")]
    Form(String),
    /// The number is none, or has more decimals than the currency, or more than 18 digits.
    #[error(transparent)]
    Number(#[from] NotAmount),
    /// Beyond [`Amount::MAX`] or below zero.
    #[error("an amount has 0 to {} minor units", Amount::MAX)]
    Range,
    /// Two amounts of different currencies do not add up.
    #[error("{0} and {1} are different currencies")]
    Mixed(Currency, Currency),
}

impl Amount {
    /// Most minor units of one amount: 18 digits.
    pub const MAX: u64 = 999_999_999_999_999_999;

    /// `quantity` minor units.
    ///
    /// # Errors
    /// [`AmountError::Range`] beyond [`Amount::MAX`].
    pub const fn new(quantity: u64, currency: Currency) -> Result<Self, AmountError> {
        if quantity > Self::MAX { Err(AmountError::Range) } else { Ok(Self { quantity, currency }) }
    }

    /// Minor units, such as cents.
    pub const fn quantity(&self) -> u64 {
        self.quantity
    }

    /// The currency.
    pub const fn currency(&self) -> Currency {
        self.currency
    }

    /// The sum.
    ///
    /// # Errors
    /// When the currencies differ or the sum is beyond [`Amount::MAX`].
    pub fn checked_add(self, other: Self) -> Result<Self, AmountError> {
        self.same_currency(other)?;
        Self::new(self.quantity.checked_add(other.quantity).ok_or(AmountError::Range)?, self.currency)
    }

    /// The difference.
    ///
    /// # Errors
    /// When the currencies differ or `other` is more than this.
    pub fn checked_sub(self, other: Self) -> Result<Self, AmountError> {
        self.same_currency(other)?;
        Self::new(self.quantity.checked_sub(other.quantity).ok_or(AmountError::Range)?, self.currency)
    }

    fn same_currency(self, other: Self) -> Result<(), AmountError> {
        if self.currency == other.currency {
            Ok(())
        } else {
            Err(AmountError::Mixed(self.currency, other.currency))
        }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (number, code) =
            text.trim().split_once(' ').ok_or_else(|| AmountError::Form(text.chars().take(40).collect()))?;
        let currency: Currency = code.parse()?;
        let number = tally_ledger::Amount::parse(number, currency.decimals())?;
        Self::new(u64::try_from(number.0).map_err(|_| AmountError::Range)?, currency)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = Decimal(i128::from(self.quantity), self.currency.decimals());
        write!(f, "{number} {}", self.currency)
    }
}

impl BorshDeserialize for Amount {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        let quantity = u64::deserialize_reader(reader)?;
        Self::new(quantity, Currency::deserialize_reader(reader)?).map_err(invalid)
    }
}

#[cfg(test)]
mod tests;
