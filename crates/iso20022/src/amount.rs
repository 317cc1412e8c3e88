//! Amounts as messages write them: decimal digits, exact, never a binary fraction.

use std::fmt;

use crate::reason::{Reason, StatusReason};

/// Most digits of an amount or control sum (`totalDigits` of `ActiveCurrencyAndAmount` and
/// `DecimalNumber`).
pub(crate) const MAX_DIGITS: u8 = 18;
/// Most decimals of an amount (`fractionDigits` of `ActiveCurrencyAndAmount`).
pub(crate) const MAX_AMOUNT_SCALE: u8 = 5;
/// Most decimals of a control sum (`fractionDigits` of `DecimalNumber`).
pub(crate) const MAX_SUM_SCALE: u8 = 17;

/// An unsigned decimal number of at most 18 digits: `digits / 10^scale`, without trailing zeros
/// after the point, so that equal numbers are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decimal {
    digits: u64,
    scale: u8,
}

/// Why a text is not an amount or a control sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecimalFault {
    NotANumber,
    Negative,
    TooManyDigits,
    TooManyDecimals,
}

impl fmt::Display for DecimalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "is not a decimal number",
            Self::Negative => "is negative",
            Self::TooManyDigits => "has more than 18 digits",
            Self::TooManyDecimals => "has too many decimals",
        })
    }
}

impl Decimal {
    /// `digits / 10^scale`.
    pub fn new(digits: u64, scale: u8) -> Self {
        let (mut digits, mut scale) = (digits, scale);
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        Self { digits, scale }
    }

    /// The number without its decimal point.
    pub fn digits(self) -> u64 {
        self.digits
    }

    /// How many of the digits are decimals.
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// The number in units of `10^-scale`, if it is a whole number of them.
    pub(crate) fn in_units(self, scale: u8) -> Option<u128> {
        let more = scale.checked_sub(self.scale)?;
        u128::from(self.digits).checked_mul(10u128.checked_pow(u32::from(more))?)
    }

    /// Reads an `xs:decimal` with the limits of the standard's amounts. Zeros that carry no value
    /// (leading, or trailing after the point) do not count as digits, as in XML Schema part 2, 4.3.11.
    pub(crate) fn parse(text: &str, max_scale: u8) -> Result<Self, DecimalFault> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let only_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !only_digits(whole) || !only_digits(fraction) {
            return Err(DecimalFault::NotANumber);
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if negative && !(whole.is_empty() && fraction.is_empty()) {
            return Err(DecimalFault::Negative);
        }
        if fraction.len() > usize::from(max_scale) {
            return Err(DecimalFault::TooManyDecimals);
        }
        if whole.len() + fraction.len() > usize::from(MAX_DIGITS) {
            return Err(DecimalFault::TooManyDigits);
        }
        let digits =
            whole.bytes().chain(fraction.bytes()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let scale = u8::try_from(fraction.len()).map_err(|_| DecimalFault::TooManyDecimals)?;
        Ok(Self::new(digits, scale))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>width$}", self.digits, width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        if fraction.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{fraction}") }
    }
}

/// An amount of a currency as a message states it: up to 18 digits, of which at most 5 decimals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Money {
    /// ISO 4217 code, three capital letters. Whether the currency exists is for the network to say.
    pub currency: [u8; 3],
    /// The amount without its decimal point, at most `10^18 - 1`.
    pub digits: u64,
    /// How many of the digits are decimals, at most 5.
    pub scale: u8,
}

impl Money {
    pub(crate) fn new(currency: [u8; 3], amount: Decimal) -> Self {
        Self { currency, digits: amount.digits(), scale: amount.scale() }
    }

    /// So many minor units of a currency with that many decimals: `from_minor_units(*b"EUR", 1_020, 2)` is
    /// written 10.20.
    pub fn from_minor_units(currency: [u8; 3], units: u64, exponent: u8) -> Self {
        Self { currency, digits: units, scale: exponent }
    }

    /// The amount in units of the fifth decimal, exactly; `None` if it has more decimals than amounts have.
    pub(crate) fn in_smallest_units(&self) -> Option<u128> {
        self.decimal().in_units(MAX_AMOUNT_SCALE)
    }

    /// The amount as a number.
    pub fn decimal(&self) -> Decimal {
        Decimal::new(self.digits, self.scale)
    }

    /// The currency code as text.
    pub fn currency_code(&self) -> String {
        self.currency.iter().map(|byte| char::from(*byte)).collect()
    }

    /// The amount in minor units of a currency with that many decimals (2 for EUR: cents), exactly.
    ///
    /// # Errors
    /// AM01 if the amount is zero, AM12 if it has more decimals than the currency, AM02 if it is
    /// more than an `i64` holds.
    pub fn minor_units(&self, exponent: u8) -> Result<i64, Reason> {
        if self.digits == 0 {
            return Err(Reason::new(StatusReason::AM01, format!("the amount {self} is zero")));
        }
        let amount = self.decimal();
        if amount.scale() > exponent {
            return Err(Reason::new(
                StatusReason::AM12,
                format!("the amount {self} has {} decimals; the currency has {exponent}", amount.scale()),
            ));
        }
        amount
            .in_units(exponent)
            .and_then(|units| i64::try_from(units).ok())
            .ok_or_else(|| Reason::new(StatusReason::AM02, format!("the amount {self} is too large")))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency_code(), self.decimal())
    }
}

/// Reads an ISO 4217 code: three capital letters.
pub(crate) fn currency(text: &str) -> Option<[u8; 3]> {
    let code: [u8; 3] = text.as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_uppercase).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Result<String, DecimalFault> {
        Decimal::parse(text, MAX_AMOUNT_SCALE).map(|decimal| decimal.to_string())
    }

    #[test]
    fn amounts_are_read_exactly() {
        for (text, read) in [
            ("99.99", "99.99"),
            ("0.10", "0.1"),
            ("5000.", "5000"),
            (".5", "0.5"),
            ("+1", "1"),
            ("-0", "0"),
            ("000000000000000000000001.50000000", "1.5"),
            ("999999999999999999", "999999999999999999"),
            ("0.00001", "0.00001"),
        ] {
            assert_eq!(amount(text).as_deref(), Ok(read), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for (text, fault) in [
            ("", DecimalFault::NotANumber),
            (".", DecimalFault::NotANumber),
            ("1,5", DecimalFault::NotANumber),
            ("1e3", DecimalFault::NotANumber),
            ("+-1", DecimalFault::NotANumber),
            ("1 000", DecimalFault::NotANumber),
            ("٣", DecimalFault::NotANumber),
            ("NaN", DecimalFault::NotANumber),
            ("-0.01", DecimalFault::Negative),
            ("0.000001", DecimalFault::TooManyDecimals),
            ("1000000000000000000", DecimalFault::TooManyDigits),
            ("12345678901234.12345", DecimalFault::TooManyDigits),
        ] {
            assert_eq!(amount(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn minor_units_are_exact_or_refused() {
        let money = |text: &str| {
            Money::new(*b"EUR", Decimal::parse(text, MAX_AMOUNT_SCALE).expect("an amount of the test"))
        };
        assert_eq!(money("99.99").minor_units(2), Ok(9_999));
        assert_eq!(money("1").minor_units(2), Ok(100));
        assert_eq!(money("1.50").minor_units(1), Ok(15));
        assert_eq!(money("7").minor_units(0), Ok(7));
        let code = |result: Result<i64, Reason>| result.map_err(|reason| reason.code);
        assert_eq!(code(money("0.00").minor_units(2)), Err(StatusReason::AM01));
        assert_eq!(code(money("1.005").minor_units(2)), Err(StatusReason::AM12));
        assert_eq!(code(money("999999999999999999").minor_units(2)), Err(StatusReason::AM02));
        assert_eq!(money("92233720368547758").minor_units(2), Ok(9_223_372_036_854_775_800));
        assert_eq!(code(money("92233720368547759").minor_units(2)), Err(StatusReason::AM02));
    }

    #[test]
    fn a_currency_is_three_capital_letters() {
        assert_eq!(currency("EUR"), Some(*b"EUR"));
        for text in ["eur", "EU", "EURO", "E1R", "€"] {
            assert_eq!(currency(text), None, "{text}");
        }
    }
}
