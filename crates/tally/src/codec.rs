//! Texts of binary forms: hexadecimal, times, and batches of one.

use anyhow::{Context, ensure};
use std::time::{Duration, UNIX_EPOCH};
use tally_ledger::wire::Reader;
use tally_ledger::{Timestamp, Transaction, TransactionBatch};

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
pub fn from_hex(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(2), "hexadecimal text has an even number of digits");
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2)
        .enumerate()
        .map(|(place, pair)| match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(anyhow::anyhow!("byte {} of the text is not a hexadecimal digit", place * 2)),
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
pub fn decode(bytes: &[u8]) -> anyhow::Result<TransactionBatch> {
    let mut reader = Reader::new("transaction batch", bytes);
    let batch = TransactionBatch::decode(&mut reader)?;
    reader.end()?;
    Ok(batch)
}

/// A transaction as an encoded batch of one, in hexadecimal.
///
/// # Errors
/// When its header disagrees with its content.
pub fn encode_one(transaction: &Transaction) -> anyhow::Result<String> {
    let mut batch = TransactionBatch::default();
    ensure!(batch.push(transaction), "the transaction's header disagrees with its content");
    Ok(to_hex(&encode(&batch)))
}

/// Reads what [`encode_one`] writes.
///
/// # Errors
/// When the text is something else.
pub fn decode_one(text: &str) -> anyhow::Result<Transaction> {
    let batch = decode(&from_hex(text.as_bytes())?)?;
    ensure!(batch.len() == 1, "a batch of one transaction is wanted, this has {}", batch.len());
    batch.transaction(0).context("a batch of one has a first transaction")
}

/// A time as ISO 8601 writes it, in UTC with milliseconds.
pub fn time(timestamp: Timestamp) -> String {
    // Year 9999 is the last that the form can write.
    let ms = timestamp.0.min(253_402_300_799_999);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// The day of a time, in UTC.
pub fn day(timestamp: Timestamp) -> tally_iso20022::Date {
    let text = time(timestamp);
    let date = text.get(..10).and_then(tally_iso20022::Date::parse);
    date.expect("a formatted time begins with a day of the calendar")
}

#[cfg(test)]
mod tests {
    use super::*;

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
