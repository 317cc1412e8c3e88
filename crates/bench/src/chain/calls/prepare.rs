//! Transactions that are signed before time begins: signing shares no core with what is measured.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use alloy_primitives::B256;

use super::Plan;
use crate::chain::network::CHAIN_ID;
use crate::chain::registry::{self, Account, Signed};

/// The calls of a run.
#[derive(Debug)]
pub struct Calls {
    /// Creates the contract.
    pub creation: Signed,
    /// The calls, by number. Number `n` is of account `n % accounts`, whose nonces follow each other.
    pub calls: Vec<Signed>,
    /// The number of each.
    pub numbers: Numbers,
}

/// Numbers of transactions by their hash.
pub type Numbers = HashMap<B256, u32, BuildHasherDefault<Beginning>>;

/// A hash is spread evenly already: its first bytes are as good as any hash of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beginning(u64);

impl Hasher for Beginning {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// The length comes before the bytes, and says nothing.
    fn write_usize(&mut self, _: usize) {}
}

/// Signs everything that a plan sends, on all cores.
#[must_use]
pub fn prepare(plan: &Plan) -> Calls {
    let total = plan.total();
    let deployer = Account::deployer(plan.seed);
    let contract = deployer.contract();
    let accounts = plan.accounts.clamp(1, total.max(1));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    // Each thread signs for some of the accounts: a key is made once.
    let sign = |thread: u64| {
        let mut signed = Vec::new();
        for index in (thread..accounts).step_by(threads as usize) {
            let account = Account::new(plan.seed, index);
            for (nonce, number) in (0_u64..).zip((index..total).step_by(accounts as usize)) {
                let identity = registry::identity(plan.seed, number);
                let input = registry::register(identity, account.address());
                let call = account.call(CHAIN_ID, nonce, contract, input);
                signed.push((number, Signed::from(&call)));
            }
        }
        signed
    };
    let mut all: Vec<(u64, Signed)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || sign(thread))).collect();
        let results = workers.into_iter().map(|worker| match worker.join() {
            Ok(signed) => signed,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.flatten().collect()
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    let calls: Vec<Signed> = all.into_iter().map(|(_, signed)| signed).collect();
    let numbers = (0..).zip(&calls).map(|(number, call)| (call.hash, number)).collect();
    Calls { creation: Signed::from(&deployer.create(CHAIN_ID)), calls, numbers }
}
