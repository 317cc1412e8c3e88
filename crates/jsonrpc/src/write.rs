//! Answers written as JSON text into a buffer, without a tree of values in between.

use alloy_primitives::{U256, hex};

mod block;
mod receipt;
mod transaction;

#[cfg(test)]
mod tests;

pub(crate) use block::open_block;
pub use block::{Transactions, block, header, withdrawals};
pub use receipt::{LogPlace, Outcome, log, receipt};
pub use transaction::{Placed, access_list, transaction, unsigned_transaction};

/// Writes a JSON string, escaped.
pub fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if serde_json::to_writer(&mut *out, text).is_err() {
        // Writing text to memory does not fail; were it to, the answer must still be JSON.
        out.extend_from_slice(b"\"\"");
    }
}

/// Writes bytes as a JSON string of `0x` and two digits for each.
pub fn data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    digits(out, bytes);
    out.push(b'"');
}

/// Writes two digits for each byte, and nothing around them.
pub fn digits(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    if hex::encode_to_slice(bytes, &mut out[start..]).is_err() {
        // The slice is exactly as long as the digits are.
        out.truncate(start);
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes a number as a JSON string of `0x` and digits without leading zeros.
pub fn quantity(out: &mut Vec<u8>, value: u64) {
    let mut text = [b'0'; 16];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = DIGITS[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(b"\"0x");
    out.extend_from_slice(&text[at..]);
    out.push(b'"');
}

/// As [`quantity`] for numbers of 128 bits.
pub fn quantity_u128(out: &mut Vec<u8>, value: u128) {
    match u64::try_from(value) {
        Ok(value) => quantity(out, value),
        Err(_) => quantity_u256(out, U256::from(value)),
    }
}

/// As [`quantity`] for numbers of 256 bits.
pub fn quantity_u256(out: &mut Vec<u8>, value: U256) {
    if let Ok(value) = u64::try_from(value) {
        return quantity(out, value);
    }
    let bytes: [u8; 32] = value.to_be_bytes();
    let zeros = value.leading_zeros() / 8;
    let bytes = &bytes[zeros..];
    out.extend_from_slice(b"\"0x");
    let start = out.len();
    digits(out, bytes);
    if bytes[0] < 16 {
        out.remove(start);
    }
    out.push(b'"');
}

/// Writes the members of an object: the comma, the name in quotes, the colon.
#[derive(Debug)]
pub struct Object {
    first: bool,
}

impl Object {
    /// Opens an object.
    pub fn open(out: &mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { first: true }
    }

    /// Writes a member's name; its value follows. `name` needs no escapes.
    pub fn member(&mut self, out: &mut Vec<u8>, name: &str) {
        if !std::mem::take(&mut self.first) {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    }

    /// Writes a member whose value is data.
    pub fn data(&mut self, out: &mut Vec<u8>, name: &str, bytes: impl AsRef<[u8]>) {
        self.member(out, name);
        data(out, bytes.as_ref());
    }

    /// Writes a member whose value is a quantity.
    pub fn quantity(&mut self, out: &mut Vec<u8>, name: &str, value: u64) {
        self.member(out, name);
        quantity(out, value);
    }

    /// Writes a member whose value is a quantity of up to 256 bits.
    pub fn quantity_u256(&mut self, out: &mut Vec<u8>, name: &str, value: U256) {
        self.member(out, name);
        quantity_u256(out, value);
    }

    /// Writes a member whose value is data, or null.
    pub fn data_or_null(&mut self, out: &mut Vec<u8>, name: &str, bytes: Option<impl AsRef<[u8]>>) {
        self.member(out, name);
        match bytes {
            Some(bytes) => data(out, bytes.as_ref()),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// Closes the object.
    pub fn close(self, out: &mut Vec<u8>) {
        out.push(b'}');
    }
}

/// Writes an array, each element by `write`.
pub fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
