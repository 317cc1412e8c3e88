//! Bytes that nobody should have sent: every decoder and every core that keeps state, fed with damaged
//! forms of what a small network really wrote.
//!
//! No corpus and no special compiler: the seed decides what is damaged and how, so that a finding is
//! replayed by its seed alone. A few thousand inputs for each target are part of the tests; `make fuzz`
//! runs longer.

mod chain;
mod consensus;
mod damage;
mod files;
mod flows;
mod iso20022;
mod jsonrpc;
mod messages;
mod processes;
mod proofs;
mod small;
mod stages;

pub use small::{Balances, Small};

use std::time::{Duration, Instant};
use tally_sim::Rng;

/// Something that is fed with damaged bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Feeds it once; panics when it does not do as it should.
    feed: fn(&mut Rng, &Small),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "transaction-batch", feed: messages::transaction_batch },
    Target { name: "account-order", feed: messages::account_order },
    Target { name: "submission", feed: messages::submission },
    Target { name: "withdrawal", feed: messages::withdrawal },
    Target { name: "annex", feed: messages::annex },
    Target { name: "accepted", feed: messages::accepted },
    Target { name: "proposal", feed: messages::proposal },
    Target { name: "approval", feed: messages::approval },
    Target { name: "consent", feed: messages::consent },
    Target { name: "decision", feed: messages::decision },
    Target { name: "sequence", feed: messages::sequence },
    Target { name: "iso20022", feed: iso20022::payments },
    Target { name: "iso20022-reports", feed: iso20022::reports },
    Target { name: "iso20022-statements", feed: iso20022::statements },
    Target { name: "iso20022-cancellations", feed: iso20022::cancellations },
    Target { name: "iso20022-returns", feed: iso20022::returns },
    Target { name: "snapshot", feed: files::snapshot },
    Target { name: "journal-segment", feed: files::segment },
    Target { name: "journal-record", feed: files::record },
    Target { name: "scheduler", feed: stages::scheduler },
    Target { name: "approver", feed: stages::approver },
    Target { name: "assembler", feed: stages::assembler },
    Target { name: "agreements", feed: stages::agreements },
    Target { name: "intake", feed: processes::intake },
    Target { name: "shard-state", feed: processes::state },
    Target { name: "assembler-state", feed: processes::finished },
    Target { name: "snapshot-piece", feed: processes::piece },
    Target { name: "processes-record", feed: processes::record },
    Target { name: "proof", feed: proofs::proof },
    Target { name: "proof-keys", feed: proofs::keys },
    Target { name: "proof-consistency", feed: proofs::consistency },
    Target { name: "proof-evidence", feed: proofs::evidence },
    Target { name: "flows-transaction", feed: flows::transaction },
    Target { name: "flows-signed-transaction", feed: flows::signed_transaction },
    Target { name: "flows-tear-off", feed: flows::tear_off },
    Target { name: "flows-message", feed: flows::message },
    Target { name: "flows-engine", feed: flows::engine },
    Target { name: "consensus-message", feed: consensus::message },
    Target { name: "consensus-block", feed: consensus::block },
    Target { name: "consensus-engine", feed: consensus::engine },
    Target { name: "chain-transaction", feed: chain::transaction },
    Target { name: "chain-block", feed: chain::block },
    Target { name: "chain-genesis", feed: chain::genesis },
    Target { name: "chain-message", feed: chain::message },
    Target { name: "chain-file", feed: chain::file },
    Target { name: "peers-enode", feed: chain::enode },
    Target { name: "peers-frames", feed: chain::frames },
    Target { name: "peers-handshake", feed: chain::handshake },
    Target { name: "peers-keystore", feed: chain::keystore },
    Target { name: "peers-permissions", feed: chain::permissions },
    Target { name: "jsonrpc-parameters", feed: jsonrpc::parameters },
];

impl Target {
    /// Feeds the input of a seed.
    ///
    /// # Panics
    /// When the target does not do as it should: this is the purpose. The message names the seed.
    pub fn feed(&self, seed: u64) {
        let witness = Witness { name: self.name, seed };
        (self.feed)(&mut Rng::new(seed), small::small());
        drop(witness);
    }

    /// Feeds inputs from `first` on for so long; how many.
    ///
    /// # Panics
    /// As [`Self::feed`].
    #[must_use]
    pub fn feed_for(&self, first: u64, time: Duration) -> u64 {
        let began = Instant::now();
        let mut seed = first;
        while began.elapsed() < time {
            for _ in 0..16 {
                self.feed(seed);
                seed = seed.wrapping_add(1);
            }
        }
        seed.wrapping_sub(first)
    }
}

struct Witness {
    name: &'static str,
    seed: u64,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { name, seed } = self;
            eprintln!("{name} failed on input {seed}; replay it with: tally-fuzz 0 {name} {seed}");
        }
    }
}
