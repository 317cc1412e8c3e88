//! Builds blocks and validates those of others, one at a time, beside the driver.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, Bytes};
use tally_consensus::{Block as Proposed, BuildRequest, MIX_HASH, Settings, View};
use tally_evm::{Block, Recovered, Refusal};

use super::{Node, Notice, driver};
use crate::branch::{Branch, Candidate};
use crate::chain::{Attributes, Reason, Skipped};
use crate::error::ImportError;
use crate::pool::{Draw, Fate, Pooled};
use crate::sealed::Seals;

/// How long after a fault of the store a block is validated again.
const RETRY: Duration = Duration::from_millis(250);

/// What the driver wants done.
pub(super) enum Job {
    /// A block on `parent`.
    Build { request: BuildRequest, parent: Box<Branch>, settings: Settings },
    /// Whether a proposed block can follow `parent`.
    Validate { block: Proposed, parent: Box<Branch> },
}

pub(super) fn run(node: Node, jobs: Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        if node.is_stopping() {
            break;
        }
        let told = match job {
            Job::Build { request, parent, settings } => {
                let view = request.view;
                match build(&node, request, &parent, settings) {
                    Ok((bytes, candidate)) => {
                        driver::Told::Built { view, block: Some((bytes, Box::new(candidate))) }
                    }
                    Err(error) => {
                        node.failed("building a block", &error);
                        driver::Told::Built { view, block: None }
                    }
                }
            }
            Job::Validate { block, parent } => {
                let hash = block.hash();
                let Some(validated) = validate(&node, &block, &parent) else { continue };
                driver::Told::Validated { hash, candidate: validated.map(Box::new) }
            }
        };
        let _ = node.shared.driver.send(told);
    }
}

/// How long a block may take to execute here, so that others have time to do so as well within round 0.
fn time_to_build(settings: &Settings) -> Duration {
    Duration::from_millis((settings.request_timeout_ms / 4).clamp(20, 2_000))
}

/// One step from the parent's gas limit towards the target, as far as a block may go (yellow paper, section 4.4.4).
fn next_gas_limit(parent: u64, target: Option<u64>) -> u64 {
    const DIVISOR: u64 = 1_024;
    let step = (parent / DIVISOR).saturating_sub(1);
    match target {
        Some(target) if target > parent => target.min(parent.saturating_add(step)),
        Some(target) => target.max(parent.saturating_sub(step)),
        None => parent,
    }
}

fn build(
    node: &Node,
    request: BuildRequest,
    parent: &Branch,
    settings: Settings,
) -> Result<(Bytes, Candidate), ImportError> {
    let header = &parent.sealed.header;
    let gas_limit = next_gas_limit(header.gas_limit, node.shared.target_gas_limit);
    let base_fee =
        tally_evm::block::next_base_fee(node.chain().schedule(), header, request.timestamp_s).unwrap_or(0);
    let attributes = Attributes {
        timestamp: request.timestamp_s,
        beneficiary: request.proposer,
        extra_data: request.extra_data,
        mix_hash: MIX_HASH,
        gas_limit,
        withdrawals: Vec::new(),
        parent_beacon_block_root: None,
        until: Some(Instant::now() + time_to_build(&settings)),
    };
    let drawn = Drawn::new(node, u128::from(base_fee));
    let built = node.chain().build(parent, attributes, drawn)?;
    for skipped in &built.skipped {
        settle(node, skipped);
    }
    let bytes = built.candidate.block.encode().into();
    Ok((bytes, built.candidate))
}

/// Transactions of the pool for a block, drawn as they are needed: how many a block takes shows when they are executed.
struct Drawn<'a> {
    node: &'a Node,
    draw: Draw,
    ready: std::vec::IntoIter<Arc<Pooled>>,
}

impl<'a> Drawn<'a> {
    /// As many as most blocks take: the pool is locked for each draw.
    const AT_ONCE: usize = 8_192;

    fn new(node: &'a Node, base_fee: u128) -> Self {
        let mut draw = Draw::new(base_fee);
        let ready = node.pool().draw(&mut draw, Self::AT_ONCE).into_iter();
        Self { node, draw, ready }
    }
}

impl Iterator for Drawn<'_> {
    type Item = Recovered;

    fn next(&mut self) -> Option<Recovered> {
        if self.ready.len() == 0 {
            self.ready = self.node.pool().draw(&mut self.draw, Self::AT_ONCE).into_iter();
        }
        self.ready.next().map(|pooled| pooled.transaction().clone())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ready.len(), None)
    }
}

/// Lets go of what no later block can take either.
fn settle(node: &Node, skipped: &Skipped) {
    let refusal = match &skipped.reason {
        Reason::Refused(refusal) => refusal,
        Reason::Validators(error) => {
            let reason = error.to_string();
            node.notice(Notice::LeftOut {
                transaction: skipped.hash,
                sender: skipped.sender,
                reason: reason.clone(),
            });
            node.drop_transaction(skipped.hash, Fate::NoValidators { reason, at_ms: super::now_ms() });
            return;
        }
    };
    match refusal {
        // Its turn comes in a later block, or the pool learns from one that it never will.
        Refusal::BlockGas { .. }
        | Refusal::BlobGas { .. }
        | Refusal::FeeTooLow
        | Refusal::BlobFeeTooLow
        | Refusal::NonceTooHigh { .. }
        | Refusal::State(_) => {}
        // An authorization (EIP-7702) used the sender's nonce without a transaction of its own.
        Refusal::NonceTooLow { expected, .. } => {
            let head = node.chain().head();
            let conditions = super::conditions(node.chain(), &head);
            node.pool().committed(head.number(), [], [(skipped.sender, *expected)], conditions);
        }
        reason => {
            node.drop_transaction(skipped.hash, Fate::Invalid { reason: reason.to_string() });
        }
    }
}

/// The block executed, or that it is invalid. A fault of this node's own store is no verdict on it: it is tried again as long
/// as the height is open, and `None` after that.
fn validate(node: &Node, proposed: &Proposed, parent: &Branch) -> Option<Option<Candidate>> {
    loop {
        let error = match execute(node, proposed, parent, Seals::Proposal) {
            Ok(candidate) => return Some(Some(candidate)),
            Err(error) => error,
        };
        node.failed("validating a proposed block", &error);
        if !matches!(error, ImportError::Chain(_)) {
            return Some(None);
        }
        std::thread::sleep(RETRY);
        if node.is_stopping() || proposed.number() <= node.chain().head().number() {
            return None;
        }
    }
}

/// Executes a block of the consensus; senders are known from the pool as far as the transactions are.
pub(super) fn execute(
    node: &Node,
    proposed: &Proposed,
    parent: &Branch,
    seals: Seals,
) -> Result<Candidate, ImportError> {
    let bytes = proposed.bytes();
    let block = Block::decode(bytes).map_err(|source| ImportError::Invalid {
        number: proposed.number(),
        hash: proposed.hash(),
        source: Box::new(source),
    })?;
    let known = node.known(&block);
    let find = |hash: &B256| known.get(hash).cloned();
    let prepared = node.chain().prepare(block, bytes.len() as u64, &find, node.shared.threads)?;
    node.chain().execute(parent, prepared, seals)
}

/// Whether a view is of a time that has passed; answers for it are of no use.
pub(super) fn is_stale(view: View, height: u64) -> bool {
    view.height <= height
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gas_limit_moves_by_less_than_a_1024th() {
        assert_eq!(next_gas_limit(1_024_000, None), 1_024_000);
        assert_eq!(next_gas_limit(1_024_000, Some(2_000_000)), 1_024_999);
        assert_eq!(next_gas_limit(1_024_000, Some(1_024_500)), 1_024_500);
        assert_eq!(next_gas_limit(1_024_000, Some(5_000)), 1_023_001);
        assert_eq!(next_gas_limit(1_024_000, Some(1_024_000)), 1_024_000);
    }
}
