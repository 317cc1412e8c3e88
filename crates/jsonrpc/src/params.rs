//! The parameters of a call: a JSON array, read in place and converted one by one.
//!
//! What is wrong with a parameter is said in the words of the most used client, since tools match on them.

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{INVALID_PARAMS, RpcError};

mod block;
mod filter;
mod quantity;
pub use block::{BlockChoice, BlockName};
pub use filter::{LogQuery, LogRange};
pub use quantity::{Hexed, decode_bytes, decode_quantity, decode_u64, text};

#[cfg(test)]
mod tests;

/// The `params` member of a request, not yet read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params<'a> {
    raw: Option<&'a str>,
}

/// One parameter, by its place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Argument<'a> {
    index: usize,
    raw: Option<&'a str>,
}

/// What a parameter is converted to.
pub trait FromArgument: Sized {
    /// Reads the JSON text of one value.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    fn from_json(raw: &str) -> Result<Self, String>;
}

impl<'a> Params<'a> {
    /// Parameters from the raw member; `None` stands for none.
    #[must_use]
    pub fn new(raw: Option<&'a str>) -> Self {
        Self { raw: raw.filter(|text| *text != "null") }
    }

    /// The JSON text, if there are any.
    #[must_use]
    pub fn raw(&self) -> Option<&'a str> {
        self.raw
    }

    /// The parameters by place, at most `N` of them; those left out are absent.
    ///
    /// # Errors
    /// -32602 when they are not an array, or more than `N`.
    pub fn take<const N: usize>(&self) -> Result<[Argument<'a>; N], RpcError> {
        let mut list = [Argument::default(); N];
        for (index, argument) in list.iter_mut().enumerate() {
            argument.index = index;
        }
        let Some(raw) = self.raw else { return Ok(list) };
        if !raw.starts_with('[') {
            return Err(RpcError::params("non-array args"));
        }
        let mut reader = serde_json::Deserializer::from_str(raw);
        let read: Positional<'a, N> = serde::Deserializer::deserialize_seq(&mut reader, Places::<N>)
            .map_err(|error| RpcError::params(format!("invalid params: {error}")))?;
        if read.more {
            return Err(RpcError::params(format!("too many arguments, want at most {N}")));
        }
        for (argument, value) in list.iter_mut().zip(read.values) {
            argument.raw = value;
        }
        Ok(list)
    }

    /// Says that the method takes none.
    ///
    /// # Errors
    /// -32602 when there are any.
    pub fn none(&self) -> Result<(), RpcError> {
        match self.raw {
            None | Some("[]") => Ok(()),
            Some(_) => self.take::<0>().map(|_| ()),
        }
    }
}

struct Positional<'a, const N: usize> {
    values: [Option<&'a str>; N],
    more: bool,
}

struct Places<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for Places<N> {
    type Value = Positional<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of parameters")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut values = [None; N];
        for value in &mut values {
            match sequence.next_element::<&'de RawValue>()? {
                Some(raw) => *value = Some(raw.get()),
                None => return Ok(Positional { values, more: false }),
            }
        }
        let mut more = false;
        while sequence.next_element::<IgnoredAny>()?.is_some() {
            more = true;
        }
        Ok(Positional { values, more })
    }
}

impl<'a> Argument<'a> {
    /// The JSON text of the parameter; `null` is as good as absent.
    #[must_use]
    pub fn raw(&self) -> Option<&'a str> {
        self.raw.filter(|text| *text != "null")
    }

    /// The parameter.
    ///
    /// # Errors
    /// -32602 when it is absent or malformed.
    pub fn required<T: FromArgument>(self) -> Result<T, RpcError> {
        match self.optional()? {
            Some(value) => Ok(value),
            None => Err(RpcError::params(format!("missing value for required argument {}", self.index))),
        }
    }

    /// The parameter, if it was given.
    ///
    /// # Errors
    /// -32602 when it is malformed.
    pub fn optional<T: FromArgument>(self) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.raw() else { return Ok(None) };
        T::from_json(raw).map(Some).map_err(|reason| self.invalid(reason))
    }

    /// The parameter by its `Deserialize`, for objects.
    ///
    /// # Errors
    /// -32602 when it is malformed.
    pub fn deserialize<T: Deserialize<'a>>(self) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.raw() else { return Ok(None) };
        serde_json::from_str(raw).map(Some).map_err(|error| self.invalid(error))
    }

    /// The error that says why this parameter is none.
    pub fn invalid(&self, reason: impl fmt::Display) -> RpcError {
        RpcError::new(INVALID_PARAMS, format!("invalid argument {}: {reason}", self.index))
    }
}
