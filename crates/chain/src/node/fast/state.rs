//! The state after a block, in ranges that are proved against its root.

use std::sync::atomic::Ordering;

use alloy_primitives::map::B256Set;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use tally_state::{
    AccountRange, Batch, Durability, EMPTY_ROOT, Import, ProofError, StorageRange, StoredAccount,
};

use super::peers::{Has, Peers};
use super::progress::Record;
use super::segment::{LAST, Segment, after};
use super::{Stop, work};
use crate::chain::Ahead;
use crate::node::Node;
use crate::protocol::{
    Accounts, GET_CODES, GET_STATE, GET_STORAGE, GetAccounts, GetSlots, Hashes, Items, Slots, Storage,
};

/// Requests under way, each with a thread that checks its answer.
const UNDER_WAY: usize = 8;
/// Contracts that are looked after before it is noted that they are whole.
const CONTRACTS: usize = 1_024;
/// Contracts whose storage is asked for at once.
const STORAGES: usize = 64;
/// Codes that are asked for at once.
const CODES: usize = 64;

/// What a peer sent is wrong.
#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("the accounts are not those of the state")]
    Accounts(#[source] ProofError),
    #[error("an account cannot be read")]
    Account,
    #[error("the slots are not those of the account at {account}")]
    Slots { account: B256, source: ProofError },
    #[error("a code was not asked for")]
    Code,
    #[error("{found} items came where {asked} were asked for")]
    TooMany { found: usize, asked: usize },
}

/// Something to fetch.
enum Job {
    /// A part of the accounts.
    Accounts(Segment),
    /// Storages from their beginning, each with its root.
    Storages(Vec<(B256, B256)>),
    /// A part of a storage that is too large for one answer.
    Part { account: B256, root: B256, segment: Segment },
    /// Codes by their hashes.
    Codes(Vec<B256>),
}

struct Download<'a> {
    node: &'a Node,
    peers: &'a Peers,
    record: &'a Record,
    import: &'a Import,
    /// The block after which the state is.
    number: u64,
}

/// Takes all of the state after the newest block that was taken.
pub(super) fn take(
    node: &Node,
    peers: &Peers,
    record: &Record,
    import: &Import,
    ahead: &Ahead,
) -> Result<(), Stop> {
    if import.root() == EMPTY_ROOT {
        return Ok(());
    }
    let download = Download { node, peers, record, import, number: ahead.number() };
    let parts = record.segments(node, None)?;
    let jobs = parts.into_iter().filter(|part| !part.is_done).map(Job::Accounts).collect();
    download.run(jobs)?;
    loop {
        let start = record.contracts(node)?;
        let contracts = import.contracts(start, CONTRACTS)?;
        let Some((last, _)) = contracts.last() else { return Ok(()) };
        download.run(download.of_contracts(&contracts)?)?;
        let storages: Vec<B256> = contracts.iter().map(|(key, _)| *key).collect();
        let mut batch = Batch::new();
        let next = after(*last);
        record.put_contracts(node, &mut batch, next.unwrap_or(LAST), &storages);
        node.chain().database().commit(batch, Durability::Buffered)?;
        if next.is_none() {
            return Ok(());
        }
    }
}

impl Download<'_> {
    fn run(&self, jobs: Vec<Job>) -> Result<(), Stop> {
        work::run(jobs, UNDER_WAY, |job| match job {
            Job::Accounts(segment) => self.accounts(segment),
            Job::Storages(storages) => self.storages(storages),
            Job::Part { account, root, segment } => self.part(account, root, segment),
            Job::Codes(hashes) => self.codes(hashes),
        })
    }

    /// What code and storage of these accounts take.
    fn of_contracts(&self, contracts: &[(B256, StoredAccount)]) -> Result<Vec<Job>, Stop> {
        let mut jobs = Vec::new();
        let mut whole = Vec::new();
        let mut codes = B256Set::default();
        for (account, stored) in contracts {
            if !self.import.has_code(stored.account.code_hash)? {
                codes.insert(stored.account.code_hash);
            }
            let root = stored.storage_root;
            if root == EMPTY_ROOT {
                continue;
            }
            let parts = self.record.segments(self.node, Some(account))?;
            if parts.is_empty() {
                whole.push((*account, root));
            }
            let missing = parts.into_iter().filter(|part| !part.is_done);
            jobs.extend(missing.map(|segment| Job::Part { account: *account, root, segment }));
        }
        jobs.extend(whole.chunks(STORAGES).map(|part| Job::Storages(part.to_vec())));
        let codes: Vec<B256> = codes.into_iter().collect();
        jobs.extend(codes.chunks(CODES).map(|part| Job::Codes(part.to_vec())));
        Ok(jobs)
    }

    fn ask<T: alloy_rlp::Decodable>(
        &self,
        kind: u8,
        request: &impl alloy_rlp::Encodable,
        what: &'static str,
    ) -> Result<Option<(Address, T)>, Stop> {
        let asked = self.peers.ask(Has::State(self.number), kind, request, || Ok(()))?;
        Ok(self.peers.answer(asked, what).map(|(peer, answer, _)| (peer, answer)))
    }

    fn accounts(&self, segment: Segment) -> Result<Vec<Job>, Stop> {
        let again = || Ok(vec![Job::Accounts(segment)]);
        let request = GetAccounts {
            number: self.number,
            root: self.import.root(),
            start: segment.next,
            end: segment.end,
        };
        let Some((peer, answer)) = self.ask::<Accounts>(GET_STATE, &request, "accounts")? else {
            return again();
        };
        if answer.accounts.is_empty() && answer.proof.is_empty() {
            self.peers.lacks_state(peer);
            return again();
        }
        let (range, more) = match self.check_accounts(segment.next, answer) {
            Ok(checked) => checked,
            Err(wrong) => {
                self.peers.lied(peer, &wrong);
                return again();
            }
        };
        self.peers.served(peer);
        let left = segment.until(range.accounts.last().map(|(key, _)| *key), more);
        let mut batch = Batch::new();
        self.import.accounts(&mut batch, &range);
        self.record.put(&mut batch, None, &left);
        self.node.chain().database().commit(batch, Durability::Buffered)?;
        self.node.shared.fast.accounts.fetch_add(range.accounts.len() as u64, Ordering::Relaxed);
        Ok(if left.is_done { Vec::new() } else { vec![Job::Accounts(left)] })
    }

    fn check_accounts(&self, start: B256, answer: Accounts) -> Result<(AccountRange, bool), Wrong> {
        let accounts = answer
            .accounts
            .iter()
            .map(|found| Some((found.key, StoredAccount::decode(&found.account)?)))
            .collect::<Option<_>>()
            .ok_or(Wrong::Account)?;
        let range = AccountRange { start, accounts, proof: answer.proof };
        let more = range.verify(self.import.root()).map_err(Wrong::Accounts)?;
        Ok((range, more))
    }

    fn storages(&self, wanted: Vec<(B256, B256)>) -> Result<Vec<Job>, Stop> {
        let request = GetSlots {
            number: self.number,
            root: self.import.root(),
            accounts: wanted.iter().map(|(account, _)| *account).collect(),
            start: B256::ZERO,
            end: LAST,
        };
        let Some((peer, answer)) = self.ask::<Slots>(GET_STORAGE, &request, "slots")? else {
            return Ok(vec![Job::Storages(wanted)]);
        };
        if answer.storages.is_empty() {
            self.peers.lacks_state(peer);
            return Ok(vec![Job::Storages(wanted)]);
        }
        let found = answer.storages.len();
        let checked = match found > wanted.len() {
            true => Err(Wrong::TooMany { found, asked: wanted.len() }),
            false => wanted
                .iter()
                .zip(answer.storages)
                .map(|((account, root), storage)| check_slots(*account, *root, B256::ZERO, storage))
                .collect::<Result<Vec<_>, Wrong>>(),
        };
        let checked = match checked {
            Ok(checked) => checked,
            Err(wrong) => {
                self.peers.lied(peer, &wrong);
                return Ok(vec![Job::Storages(wanted)]);
            }
        };
        self.peers.served(peer);
        let mut jobs = Vec::new();
        let mut batch = Batch::new();
        for ((range, more), (account, root)) in checked.iter().zip(&wanted) {
            self.import.slots(&mut batch, range);
            self.count(range);
            let next = range.slots.last().filter(|_| *more).and_then(|(last, _)| after(*last));
            for segment in next.map(Segment::split).unwrap_or_default() {
                self.record.put(&mut batch, Some(account), &segment);
                if !segment.is_done {
                    jobs.push(Job::Part { account: *account, root: *root, segment });
                }
            }
        }
        self.node.chain().database().commit(batch, Durability::Buffered)?;
        if found < wanted.len() {
            jobs.push(Job::Storages(wanted[found..].to_vec()));
        }
        Ok(jobs)
    }

    fn part(&self, account: B256, root: B256, segment: Segment) -> Result<Vec<Job>, Stop> {
        let again = || Ok(vec![Job::Part { account, root, segment }]);
        let request = GetSlots {
            number: self.number,
            root: self.import.root(),
            accounts: vec![account],
            start: segment.next,
            end: segment.end,
        };
        let Some((peer, answer)) = self.ask::<Slots>(GET_STORAGE, &request, "slots")? else {
            return again();
        };
        let found = answer.storages.len();
        let mut storages = answer.storages.into_iter();
        let Some(storage) = storages.next() else {
            self.peers.lacks_state(peer);
            return again();
        };
        let checked = match storages.next() {
            Some(_) => Err(Wrong::TooMany { found, asked: 1 }),
            None => check_slots(account, root, segment.next, storage),
        };
        let (range, more) = match checked {
            Ok(checked) => checked,
            Err(wrong) => {
                self.peers.lied(peer, &wrong);
                return again();
            }
        };
        self.peers.served(peer);
        let left = segment.until(range.slots.last().map(|(key, _)| *key), more);
        let mut batch = Batch::new();
        self.import.slots(&mut batch, &range);
        self.record.put(&mut batch, Some(&account), &left);
        self.node.chain().database().commit(batch, Durability::Buffered)?;
        self.count(&range);
        Ok(if left.is_done { Vec::new() } else { vec![Job::Part { account, root, segment: left }] })
    }

    fn codes(&self, hashes: Vec<B256>) -> Result<Vec<Job>, Stop> {
        let request = Hashes { hashes };
        let answer = self.ask::<Items>(GET_CODES, &request, "codes")?;
        let Hashes { hashes } = request;
        let Some((peer, Items { items })) = answer else { return Ok(vec![Job::Codes(hashes)]) };
        if items.is_empty() {
            self.peers.lacks_state(peer);
            return Ok(vec![Job::Codes(hashes)]);
        }
        let mut missing: B256Set = hashes.iter().copied().collect();
        let is_wanted = |code: &Bytes| missing.remove(&keccak256(code));
        if !items.iter().all(is_wanted) {
            self.peers.lied(peer, &Wrong::Code);
            return Ok(vec![Job::Codes(hashes)]);
        }
        self.peers.served(peer);
        let mut batch = Batch::new();
        items.iter().for_each(|code| self.import.code(&mut batch, code));
        self.node.chain().database().commit(batch, Durability::Buffered)?;
        let missing: Vec<B256> = missing.into_iter().collect();
        Ok(if missing.is_empty() { Vec::new() } else { vec![Job::Codes(missing)] })
    }

    fn count(&self, range: &StorageRange) {
        self.node.shared.fast.slots.fetch_add(range.slots.len() as u64, Ordering::Relaxed);
    }
}

fn check_slots(
    account: B256,
    root: B256,
    start: B256,
    storage: Storage,
) -> Result<(StorageRange, bool), Wrong> {
    let slots = storage.slots.iter().map(|slot| (slot.key, slot.value)).collect();
    let range = StorageRange { account, start, slots, proof: storage.proof };
    let more = range.verify(root).map_err(|source| Wrong::Slots { account, source })?;
    Ok((range, more))
}
