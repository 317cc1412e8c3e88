//! Texts of binary forms: hexadecimal, times, and batches of one.

use std::time::{Duration, UNIX_EPOCH};
use tally_ledger::order::AccountAction;
use tally_ledger::wire::{DecodeError, Reader};
use tally_ledger::{Timestamp, Transaction, TransactionBatch};

/// A text or bytes are not what they should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// Hexadecimal text of an odd length.
    #[error("hexadecimal text has an even number of digits")]
    Odd,
    /// A byte of a text is no hexadecimal digit.
    #[error("byte {0} of the text is not a hexadecimal digit")]
    Digit(usize),
    /// The bytes are no batch.
    #[error(transparent)]
    Batch(#[from] DecodeError),
    /// The batch does not have one transaction.
    #[error("a batch of one transaction is wanted, this has {0}")]
    Count(usize),
    /// A transaction whose header disagrees with its content.
    #[error("the transaction's header disagrees with its content")]
    Header,
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Reads hexadecimal of any case.
///
/// # Errors
/// When the text is something else.
pub fn from_hex(text: &[u8]) -> Result<Vec<u8>, CodecError> {
    if !text.len().is_multiple_of(2) {
        return Err(CodecError::Odd);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2)
        .enumerate()
        .map(|(place, pair)| match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(CodecError::Digit(place * 2)),
        })
        .collect()
}

/// The encoded batch.
pub fn encode(batch: &TransactionBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.encode(&mut bytes);
    bytes
}

/// Reads an encoded batch; nothing may follow it.
///
/// # Errors
/// When the bytes are something else.
pub fn decode(bytes: &[u8]) -> Result<TransactionBatch, CodecError> {
    let mut reader = Reader::new("transaction batch", bytes);
    let batch = TransactionBatch::decode(&mut reader)?;
    reader.end()?;
    Ok(batch)
}

/// A transaction as an encoded batch of one, in hexadecimal.
///
/// # Errors
/// When its header disagrees with its content.
pub fn encode_one(transaction: &Transaction) -> Result<String, CodecError> {
    let mut batch = TransactionBatch::default();
    if !batch.push(transaction) {
        return Err(CodecError::Header);
    }
    Ok(to_hex(&encode(&batch)))
}

/// Reads what [`encode_one`] writes.
///
/// # Errors
/// When the text is something else.
pub fn decode_one(text: &str) -> Result<Transaction, CodecError> {
    let batch = decode(&from_hex(text.as_bytes())?)?;
    match batch.len() {
        1 => batch.transaction(0).ok_or(CodecError::Count(0)),
        count => Err(CodecError::Count(count)),
    }
}

/// A time as ISO 8601 writes it, in UTC with milliseconds.
pub fn time(timestamp: Timestamp) -> String {
    // Year 9999 is the last that the form can write.
    let ms = timestamp.0.min(253_402_300_799_999);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// What an account order does, in a few words.
pub(crate) fn action(action: &AccountAction) -> String {
    match action {
        AccountAction::Open { count: 1, alias, .. } if !alias.is_empty() => format!("open as {alias}"),
        AccountAction::Open { count, .. } => format!("open {count}"),
        AccountAction::Freeze => "freeze".to_owned(),
        AccountAction::Release => "release".to_owned(),
        AccountAction::Close => "close".to_owned(),
        AccountAction::SetFloor(floor) => format!("limit {}", floor.0),
    }
}

/// The day of a time, in UTC.
pub fn day(timestamp: Timestamp) -> tally_iso20022::Date {
    let text = time(timestamp);
    let date = text.get(..10).and_then(tally_iso20022::Date::parse);
    date.expect("a formatted time begins with a day of the calendar")
}

/// When a day begins, in UTC; days before 1970 begin with that.
pub fn midnight(day: tally_iso20022::Date) -> Timestamp {
    let begins = humantime::parse_rfc3339(&format!("{day}T00:00:00Z")).unwrap_or(UNIX_EPOCH);
    let since = begins.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight() {
        let date = |text| tally_iso20022::Date::parse(text).unwrap();
        for (text, begins) in [("1970-01-02", 86_400_000), ("2024-02-29", 1_709_164_800_000)] {
            assert_eq!(midnight(date(text)), Timestamp(begins));
            assert_eq!(day(Timestamp(begins)), date(text));
            assert_eq!(day(Timestamp(begins - 1)), date(text).previous().unwrap());
        }
        assert_eq!(midnight(date("0001-01-01")), Timestamp(0));
        assert_eq!(midnight(date("9999-12-31")), Timestamp(253_402_214_400_000));
    }

    #[test]
    fn hexadecimal_is_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(to_hex(&bytes).as_bytes()).unwrap(), bytes);
        assert_eq!(from_hex(b"0aFF").unwrap(), [10, 255]);
        for bad in ["0", "0g", "é0"] {
            assert!(from_hex(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_the_form_of_the_standard() {
        assert_eq!(time(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(Timestamp(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(day(Timestamp(1_700_000_000_123)).to_string(), "2023-11-14");
        assert_eq!(time(Timestamp(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn other_bytes_are_not_a_batch() {
        let mut bytes = encode(&TransactionBatch::default());
        assert!(decode(&bytes).unwrap().is_empty());
        assert!(decode_one(&to_hex(&bytes)).is_err());
        bytes.push(0);
        assert!(decode(&bytes).is_err());
        assert!(decode(b"").is_err());
    }
}
