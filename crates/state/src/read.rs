//! Reading a state, whatever it is made of.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::Account;

/// An account as a state has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its nonce, balance and code.
    pub account: Account,
    /// Whether any of its slots is not zero.
    pub has_storage: bool,
}

/// A state that holds still: the same question has the same answer for as long as the value lives.
pub trait Read {
    /// Why a read failed. An account or slot that is not there is no failure.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The account, or `None` when it does not exist. One read tells both parts.
    ///
    /// # Errors
    /// The state cannot be read.
    fn find(&self, address: Address) -> Result<Option<Found>, Self::Error>;

    /// As [`find`](Self::find), without the storage.
    ///
    /// # Errors
    /// The state cannot be read.
    fn account(&self, address: Address) -> Result<Option<Account>, Self::Error> {
        Ok(self.find(address)?.map(|found| found.account))
    }

    /// The value of a slot; zero when it was never written.
    fn storage(&self, address: Address, slot: U256) -> Result<U256, Self::Error>;

    /// The code with this keccak-256; empty for [`KECCAK256_EMPTY`](alloy_primitives::KECCAK256_EMPTY).
    ///
    /// # Errors
    /// A hash that no account's code has is an error: it can only come from a state that is damaged.
    fn code(&self, hash: B256) -> Result<Bytes, Self::Error>;
}

impl<R: Read + ?Sized> Read for &R {
    type Error = R::Error;

    fn find(&self, address: Address) -> Result<Option<Found>, Self::Error> {
        (**self).find(address)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Self::Error> {
        (**self).storage(address, slot)
    }

    fn code(&self, hash: B256) -> Result<Bytes, Self::Error> {
        (**self).code(hash)
    }
}

impl<R: Read + ?Sized> Read for Arc<R> {
    type Error = R::Error;

    fn find(&self, address: Address) -> Result<Option<Found>, Self::Error> {
        (**self).find(address)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Self::Error> {
        (**self).storage(address, slot)
    }

    fn code(&self, hash: B256) -> Result<Bytes, Self::Error> {
        (**self).code(hash)
    }
}
