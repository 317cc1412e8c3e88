//! Transactions in open loop: so many calls a second, whatever the network does with them.
//!
//! | module | promise |
//! | --- | --- |
//! | [`prepare`] | all transactions, signed before time begins |
//! | [`send`] | each sent when it is due, or counted as late |
//! | [`observe`] | the blocks as a client of the follower sees them, and what is in them |
//! | [`account`] | what became of every single transaction |
//! | [`limit`] | how fast this machine recovers keys |

pub mod account;
pub mod limit;
pub mod observe;
pub mod prepare;
mod run;
pub mod send;

use std::time::Duration;

use super::network::Layout;

pub use run::run;

/// Transactions in open loop on a network of their own.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The network; its connections and time of beginning are set by this plan.
    pub layout: Layout,
    /// Transactions a second.
    pub rate_tps: u64,
    /// How long they are sent before they are measured.
    pub warm_up: Duration,
    /// How long they are sent and measured.
    pub duration: Duration,
    /// How long blocks are waited for after the last was sent, while none of them is committed.
    pub patience: Duration,
    /// Accounts that send.
    pub accounts: u64,
    /// Connections to the follower.
    pub connections: usize,
    /// Makes the same transactions again.
    pub seed: u64,
}

impl Plan {
    /// How many transactions are sent.
    #[must_use]
    pub fn total(&self) -> u64 {
        let seconds = (self.warm_up + self.duration).as_secs_f64();
        (self.rate_tps as f64 * seconds).round() as u64
    }

    /// When a transaction is due, from the start.
    #[must_use]
    pub fn due(&self, number: u64) -> Duration {
        let nanoseconds = u128::from(number) * 1_000_000_000 / u128::from(self.rate_tps.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
