//! Money: a signed number of minor units with checked arithmetic only.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An amount in minor units of an asset (cents, or the smallest nominal of a security).
///
/// 64 bits hold every amount of ISO 20022 (`ActiveCurrencyAndAmount`: 18 digits in all). There is
/// no `+`: sums that do not fit are an answer, not a wrap-around.
#[repr(transparent)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Amount(pub i64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount of one leg: 18 digits.
    pub const MAX_LEG: Self = Self(999_999_999_999_999_999);

    /// The sum, unless it does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
    /// The difference, unless it does not fit.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
    /// The amount with the other sign, unless it does not fit.
    pub fn checked_neg(self) -> Option<Self> {
        self.0.checked_neg().map(Self)
    }
    /// Whether this takes from an account.
    pub fn is_debit(self) -> bool {
        self.0 < 0
    }

    /// Reads a decimal such as `1234.5` exactly, for an asset with `exponent` decimals.
    ///
    /// # Errors
    /// When the text is no plain decimal number, has more decimals than the asset, or more than 18 digits.
    pub fn parse(text: &str, exponent: u8) -> Result<Self, NotAmount> {
        let refuse = |why| NotAmount { text: text.chars().take(40).collect(), why };
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|c| c.is_ascii_digit()) {
            return Err(refuse("a decimal number such as 1234.50 is wanted"));
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > usize::from(exponent) {
            return Err(refuse("it has more decimals than the asset"));
        }
        let mut value: i64 = 0;
        let padding = std::iter::repeat_n(b'0', usize::from(exponent).saturating_sub(fraction.len()));
        for digit in whole.bytes().chain(fraction.bytes()).chain(padding) {
            value = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(i64::from(digit.wrapping_sub(b'0'))))
                .filter(|v| *v <= Self::MAX_LEG.0)
                .ok_or_else(|| refuse("it has more than 18 digits"))?;
        }
        Ok(Self(if negative { value.saturating_neg() } else { value }))
    }

    /// Shows the amount with `exponent` decimals: `Decimal(12345, 2)` is `123.45`.
    pub fn display(self, exponent: u8) -> Decimal {
        Decimal(i128::from(self.0), exponent)
    }
}

/// A number of minor units shown with its decimals.
#[derive(Clone, Copy, Debug)]
pub struct Decimal(pub i128, pub u8);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exponent = usize::from(self.1);
        let digits = format!("{:0>width$}", self.0.unsigned_abs(), width = exponent.saturating_add(1));
        let (whole, fraction) = digits.split_at(digits.len().saturating_sub(exponent));
        let text = if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") };
        f.pad_integral(self.0 >= 0, "", &text)
    }
}

/// The text is not an amount of the asset.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' is not an amount: {why}")]
pub struct NotAmount {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Amount::parse("99.99", 2), Ok(Amount(9999)));
        assert_eq!(Amount::parse("5000", 2), Ok(Amount(500_000)));
        assert_eq!(Amount::parse("1.500", 2), Ok(Amount(150)));
        assert_eq!(Amount::parse("-0.07", 2), Ok(Amount(-7)));
        assert_eq!(Amount::parse("7", 0), Ok(Amount(7)));
        for bad in ["", ".5", "1.005", "1e3", "1,5", "+1", "--1", "9999999999999999999", "٣"] {
            assert!(Amount::parse(bad, 2).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(value in -999_999_999_999_999_999i64..=999_999_999_999_999_999, exponent in 0u8..6) {
            let shown = Amount(value).display(exponent).to_string();
            prop_assert_eq!(Amount::parse(&shown, exponent), Ok(Amount(value)));
        }
    }
}
