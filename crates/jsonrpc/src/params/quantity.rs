//! Hexadecimal values: quantities without leading zeros, data with two digits for each byte.

use alloy_primitives::{Address, B256, Bytes, U64, U256, hex};

use super::FromArgument;

/// The content of a JSON string, without a copy where it has no escapes.
///
/// # Errors
/// When the value is not a string.
pub fn text(raw: &str) -> Result<std::borrow::Cow<'_, str>, String> {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Ok(inner.into()),
        Some(_) => serde_json::from_str::<String>(raw).map(Into::into).map_err(|error| error.to_string()),
        None => Err("json: cannot unmarshal non-string into a hex value".into()),
    }
}

fn digits(text: &str) -> Result<&str, &'static str> {
    if text.is_empty() {
        return Err("empty hex string");
    }
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or("hex string without 0x prefix")
}

/// A quantity of at most 256 bits: `0x`, then digits without leading zeros.
///
/// # Errors
/// What is wrong with it.
pub fn decode_quantity(text: &str) -> Result<U256, &'static str> {
    let digits = digits(text)?;
    if digits.is_empty() {
        return Err("hex string \"0x\"");
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("hex number with leading zero digits");
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("invalid hex string");
    }
    if digits.len() > 64 {
        return Err("hex number > 256 bits");
    }
    U256::from_str_radix(digits, 16).map_err(|_| "invalid hex string")
}

/// A quantity of at most 64 bits.
///
/// # Errors
/// What is wrong with it.
pub fn decode_u64(text: &str) -> Result<u64, &'static str> {
    u64::try_from(decode_quantity(text)?).map_err(|_| "hex number > 64 bits")
}

/// Data: `0x`, then two digits for each byte.
///
/// # Errors
/// What is wrong with it.
pub fn decode_bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    let digits = digits(text)?;
    if !digits.len().is_multiple_of(2) {
        return Err("hex string of odd length");
    }
    hex::decode(digits).map_err(|_| "invalid hex string")
}

fn fixed<const N: usize>(raw: &str, name: &str) -> Result<[u8; N], String> {
    let text =
        text(raw).map_err(|_| format!("json: cannot unmarshal non-string into Go value of type {name}"))?;
    let fault = |reason: &str| format!("json: cannot unmarshal {reason} into Go value of type {name}");
    let digits = digits(&text).map_err(fault)?;
    if !digits.len().is_multiple_of(2) {
        return Err(fault("hex string of odd length"));
    }
    if digits.len() != 2 * N {
        return Err(format!("hex string has length {}, want {} for {name}", digits.len(), 2 * N));
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(digits, &mut bytes).map_err(|_| fault("invalid hex string"))?;
    Ok(bytes)
}

impl FromArgument for Address {
    fn from_json(raw: &str) -> Result<Self, String> {
        fixed::<20>(raw, "common.Address").map(Self::from)
    }
}

impl FromArgument for B256 {
    fn from_json(raw: &str) -> Result<Self, String> {
        fixed::<32>(raw, "common.Hash").map(Self::from)
    }
}

impl FromArgument for Bytes {
    fn from_json(raw: &str) -> Result<Self, String> {
        let fault =
            |reason: &str| format!("json: cannot unmarshal {reason} into Go value of type hexutil.Bytes");
        let text = text(raw).map_err(|_| fault("non-string"))?;
        decode_bytes(&text).map(Into::into).map_err(fault)
    }
}

impl FromArgument for u64 {
    fn from_json(raw: &str) -> Result<Self, String> {
        let fault =
            |reason: &str| format!("json: cannot unmarshal {reason} into Go value of type hexutil.Uint64");
        let text = text(raw).map_err(|_| fault("non-string"))?;
        decode_u64(&text).map_err(fault)
    }
}

impl FromArgument for U64 {
    fn from_json(raw: &str) -> Result<Self, String> {
        u64::from_json(raw).map(Self::from)
    }
}

impl FromArgument for U256 {
    fn from_json(raw: &str) -> Result<Self, String> {
        let fault =
            |reason: &str| format!("json: cannot unmarshal {reason} into Go value of type *hexutil.Big");
        let text = text(raw).map_err(|_| fault("non-string"))?;
        decode_quantity(&text).map_err(fault)
    }
}

impl FromArgument for bool {
    fn from_json(raw: &str) -> Result<Self, String> {
        match raw {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("json: cannot unmarshal non-boolean into Go value of type bool".into()),
        }
    }
}

impl FromArgument for String {
    fn from_json(raw: &str) -> Result<Self, String> {
        serde_json::from_str(raw)
            .map_err(|_| "json: cannot unmarshal non-string into Go value of type string".into())
    }
}

impl<T: FromArgument> FromArgument for Vec<T> {
    fn from_json(raw: &str) -> Result<Self, String> {
        let items: Vec<&serde_json::value::RawValue> = serde_json::from_str(raw)
            .map_err(|_| "json: cannot unmarshal non-array into a list".to_owned())?;
        items.into_iter().map(|item| T::from_json(item.get())).collect()
    }
}

/// A [`FromArgument`] inside of objects that are read by `Deserialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Hexed<T>(pub T);

impl<'de, T: FromArgument> serde::Deserialize<'de> for Hexed<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &serde_json::value::RawValue = serde::Deserialize::deserialize(deserializer)?;
        T::from_json(raw.get()).map(Hexed).map_err(serde::de::Error::custom)
    }
}
