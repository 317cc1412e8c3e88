//! What became of every single transaction: committed, refused, never sent, still waiting, dropped with a reason; or lost,
//! which nothing may be.

use std::collections::BTreeMap;

use super::prepare::Calls;
use super::send::{Sent, general};
use crate::chain::ChainBenchError;
use crate::chain::network::Caller;
use crate::statistics::SplitMix;

/// Fates that are asked for at most; a run with more of them has failed in any case.
const ASKED: usize = 20_000;
/// Receipts that are looked at.
const SAMPLE: usize = 200;

/// Every transaction of a run, in exactly one place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// All that were to be sent.
    pub offered: u64,
    /// In a block.
    pub committed: u64,
    /// Refused when they were sent, by the node's words.
    pub refused: BTreeMap<String, u64>,
    /// Not sent, because one before them of the same account was refused.
    pub withheld: u64,
    /// Accepted, and in the pool still.
    pub waiting: u64,
    /// Accepted and let go of by the pool, which says why.
    pub dropped: BTreeMap<String, u64>,
    /// Accepted, and nobody knows of them.
    pub lost: u64,
}

impl Account {
    /// Refused in all.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Accepted in all.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.offered - self.refusals() - self.withheld
    }

    /// Let go of with a reason.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.dropped.values().sum()
    }
}

/// Puts every transaction into its place; `fate` says what the pool knows of one that was accepted and is in no block.
///
/// # Errors
/// What asking fails with.
pub fn account(
    committed: &[bool],
    sent: &Sent,
    mut fate: impl FnMut(u64) -> Result<Option<String>, ChainBenchError>,
) -> Result<Account, ChainBenchError> {
    let mut account = Account { offered: committed.len() as u64, ..Account::default() };
    let mut open = vec![true; committed.len()];
    let mut close = |number: u64| {
        let place = usize::try_from(number).ok().and_then(|number| open.get_mut(number));
        place.is_some_and(std::mem::take)
    };
    for (number, committed) in (0..).zip(committed) {
        if *committed {
            account.committed += u64::from(close(number));
        }
    }
    // Refused and in a block all the same: a block is the stronger word.
    for (number, reason) in &sent.refused {
        if close(*number) {
            *account.refused.entry(reason.clone()).or_default() += 1;
        }
    }
    for number in &sent.withheld {
        account.withheld += u64::from(close(*number));
    }
    let rest: Vec<u64> = (0..).zip(&open).filter(|(_, open)| **open).map(|(number, _)| number).collect();
    for (asked, number) in rest.iter().enumerate() {
        if asked == ASKED {
            // Nothing is claimed of what nobody asked for.
            account.lost += (rest.len() - asked) as u64;
            break;
        }
        match fate(*number)?.as_deref() {
            None => account.lost += 1,
            Some("waiting") => account.waiting += 1,
            Some(reason) => *account.dropped.entry(general(reason)).or_default() += 1,
        }
    }
    Ok(account)
}

/// What a node's pool knows of a transaction.
pub(super) fn fate(
    caller: &mut Caller,
    calls: &Calls,
    number: u64,
) -> Result<Option<String>, ChainBenchError> {
    let call = usize::try_from(number).ok().and_then(|number| calls.calls.get(number));
    let Some(call) = call else { return Ok(None) };
    caller.call("txpool_fate", &format!(r#"["{}"]"#, call.hash))
}

/// Looks at the receipts of some of those that were committed; how many were looked at, and how many say that the call failed
/// or are not there.
pub(super) fn sample(
    caller: &mut Caller,
    calls: &Calls,
    committed: &[bool],
    seed: u64,
) -> Result<(u64, u64), ChainBenchError> {
    let committed: Vec<usize> =
        committed.iter().enumerate().filter(|(_, committed)| **committed).map(|(at, _)| at).collect();
    let mut random = SplitMix::new(seed);
    let (mut looked, mut wrong) = (0, 0);
    while !committed.is_empty() && looked < SAMPLE.min(committed.len()) as u64 {
        let at = committed[random.below(committed.len())];
        looked += 1;
        let receipt = caller.receipt(&calls.calls[at].hash)?;
        wrong += u64::from(!receipt.is_some_and(|(_, succeeded)| succeeded));
    }
    Ok((looked, wrong))
}
