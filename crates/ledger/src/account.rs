//! Accounts as tables hold them: 16 bytes each, four to a cache line.

use crate::id::AssetId;
use bytemuck::{Pod, Zeroable};

/// Whether an account takes part in payments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountStatus {
    /// It does.
    Open,
    /// Not until released.
    Frozen,
    /// Never again.
    Closed,
}

/// One account.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
pub struct Account {
    /// Balance in minor units; what is available of it where the table is an approver's.
    pub balance: i64,
    /// Position in the table of owners' keys.
    pub owner: u32,
    /// What it holds.
    pub asset: AssetId,
    status: u8,
    /// Whether its floor is in the side table; otherwise it is zero.
    has_floor: u8,
}

impl Account {
    /// A new, open account.
    pub fn open(asset: AssetId, owner: u32) -> Self {
        Self { balance: 0, owner, asset, status: 0, has_floor: 0 }
    }
    /// Whether it takes part in payments.
    pub fn status(&self) -> AccountStatus {
        match self.status {
            0 => AccountStatus::Open,
            1 => AccountStatus::Frozen,
            _ => AccountStatus::Closed,
        }
    }
    /// Sets whether it takes part in payments.
    pub fn set_status(&mut self, status: AccountStatus) {
        self.status = match status {
            AccountStatus::Open => 0,
            AccountStatus::Frozen => 1,
            AccountStatus::Closed => 2,
        };
    }
    /// Whether a floor other than zero was agreed.
    pub fn has_floor(&self) -> bool {
        self.has_floor != 0
    }
    /// Sets whether a floor other than zero was agreed.
    pub fn set_has_floor(&mut self, has: bool) {
        self.has_floor = u8::from(has);
    }
}
