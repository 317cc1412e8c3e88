//! What a block costs the state: 4,000 of 10,000 accounts changed, and 8,000 new slots in a contract
//! that has 2,000,000 already.
//!
//! `cargo run --release -p tally-state --example bench_state [slots] [directory]`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use tally_state::{
    Account, AccountChange, Batch, Changes, Database, Durability, History, Options, Read, State, StoreOptions,
};

const ACCOUNTS: u64 = 10_000;
const CHANGED_ACCOUNTS: u64 = 4_000;
const NEW_SLOTS: u64 = 8_000;
const CONTRACT: Address = Address::repeat_byte(0xc0);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    tally_ops::memory::share_one_heap();
    let mut arguments = std::env::args().skip(1);
    let slots: u64 = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let directory = arguments.next().map_or_else(|| std::env::temp_dir().join("bench-state"), PathBuf::from);
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    let mut bench = Bench { state: open(&directory)?, next_slot: 0, number: 0, random: 1 };
    bench.load(slots)?;
    println!("memory after the load: {} MiB, files {} MiB", resident_mib(), size_mib(&directory)?);

    bench.rounds("warm", 12)?;
    bench.reads()?;
    let Bench { next_slot, number, random, state } = bench;
    drop(state);
    let started = Instant::now();
    let state = open(&directory)?;
    println!("opened again in {:?}", started.elapsed());
    let mut bench = Bench { state, next_slot, number, random };
    bench.rounds("first after opening", 1)?;
    bench.rounds("warm again", 20)?;
    let started = Instant::now();
    bench.state.database().settle()?;
    println!(
        "settled in {:?}; memory {} MiB, files {} MiB",
        started.elapsed(),
        resident_mib(),
        size_mib(&directory)?
    );
    bench.reads()?;
    drop(bench);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn open(directory: &std::path::Path) -> Result<State, Failure> {
    let database = Database::open(directory, StoreOptions::default())?;
    Ok(State::open(database, Options { history: History::Blocks(64), ..Options::default() })?)
}

struct Bench {
    state: State,
    next_slot: u64,
    number: u64,
    random: u64,
}

impl Bench {
    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn load(&mut self, slots: u64) -> Result<(), Failure> {
        let started = Instant::now();
        let mut genesis = Changes::default();
        for number in 0..ACCOUNTS {
            genesis
                .accounts
                .insert(address(number), AccountChange { account: Some(account(0)), ..Default::default() });
        }
        let mut batch = Batch::new();
        self.state.begin(&mut batch, 0, &genesis)?;
        self.state.database().commit(batch, Durability::Buffered)?;
        while self.next_slot < slots {
            let count = (slots - self.next_slot).min(50_000);
            let changes = self.block(0, count);
            let layer = self.state.view()?.apply(&changes)?;
            self.commit(&layer, Durability::Buffered)?;
        }
        self.state.database().settle()?;
        let elapsed = started.elapsed();
        println!("loaded {slots} slots in {elapsed:?}, {:?} of the processor", processor_time());
        Ok(())
    }

    fn block(&mut self, accounts: u64, slots: u64) -> Changes {
        let mut changes = Changes::default();
        for _ in 0..accounts {
            let number = self.random() % ACCOUNTS;
            let account = Some(account(self.number + 1));
            changes.accounts.insert(address(number), AccountChange { account, ..Default::default() });
        }
        let contract = Account { code_hash: keccak256(b"code"), nonce: 1, balance: U256::ZERO };
        let storage = (self.next_slot..self.next_slot + slots)
            .map(|slot| (slot_of(slot), U256::from_be_slice(address(slot).as_slice())))
            .collect();
        self.next_slot += slots;
        let change = AccountChange { account: Some(contract), storage_cleared: false, storage };
        changes.accounts.insert(CONTRACT, change);
        changes
    }

    fn commit(
        &mut self,
        layer: &tally_state::Layer,
        durability: Durability,
    ) -> Result<(Duration, Duration), Failure> {
        self.number += 1;
        let started = Instant::now();
        let mut batch = Batch::new();
        self.state.commit(&mut batch, self.number, layer)?;
        let filled = started.elapsed();
        let started = Instant::now();
        self.state.database().commit(batch, durability)?;
        Ok((filled, started.elapsed()))
    }

    fn rounds(&mut self, name: &str, rounds: usize) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for _ in 0..rounds {
            let changes = self.block(CHANGED_ACCOUNTS, NEW_SLOTS);
            let before = thread_time();
            let started = Instant::now();
            let layer = self.state.view()?.apply(&changes)?;
            let applied = started.elapsed();
            let thread = thread_time() - before;
            let (filled, committed) = self.commit(&layer, Durability::Synced)?;
            lines.push((applied, thread, filled, committed, layer.cost()));
        }
        lines.sort_by_key(|line| line.1);
        let (applied, processor, filled, committed, cost) = lines[lines.len() / 2];
        let alone = hashing_alone(cost.permutations);
        println!(
            "{name} ({rounds} blocks): apply {applied:?} ({processor:?} of the processor), fastest {:?}, slowest {:?}; \
             batch {filled:?}, commit {committed:?}",
            lines[0].0,
            lines[lines.len() - 1].0
        );
        println!(
            "  branches read {}, written {}; {} hashes of {} bytes = {} permutations, which alone one after \
             the other take {alone:?}",
            cost.branches_read, cost.branches_written, cost.hashes, cost.hashed_bytes, cost.permutations
        );
        Ok(())
    }

    fn reads(&mut self) -> Result<(), Failure> {
        const READS: u64 = 100_000;
        let view = self.state.view()?;
        let hot: Vec<U256> = (0..2_000).map(|_| slot_of(self.random() % self.next_slot)).collect();
        let per = |elapsed: Duration| elapsed / READS as u32;
        for slot in &hot {
            view.storage(CONTRACT, *slot)?;
        }
        let started = thread_time();
        for at in 0..READS {
            view.storage(CONTRACT, hot[at as usize % hot.len()])?;
        }
        let hot_slot = per(thread_time() - started);
        let started = thread_time();
        for at in 0..READS {
            view.account(address(at % ACCOUNTS))?.ok_or("an account is missing")?;
        }
        let hot_account = per(thread_time() - started);
        let started = thread_time();
        for _ in 0..READS {
            let slot = slot_of(self.random() % self.next_slot);
            if view.storage(CONTRACT, slot)?.is_zero() {
                return Err("a slot is missing".into());
            }
        }
        let any_slot = per(thread_time() - started);
        let started = thread_time();
        for at in 0..READS {
            view.storage(CONTRACT, slot_of(self.next_slot + at))?;
        }
        let absent = per(thread_time() - started);
        println!(
            "reads: hot slot {hot_slot:?}, account {hot_account:?}, any slot {any_slot:?}, absent slot {absent:?}"
        );
        Ok(())
    }
}

fn account(nonce: u64) -> Account {
    Account { nonce, balance: U256::from(10).pow(U256::from(21)), ..Account::default() }
}

fn address(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

fn slot_of(number: u64) -> U256 {
    U256::from_be_bytes(keccak256([&[1; 32][..], &number.to_be_bytes()].concat()).0)
}

/// What so many permutations take, one after the other.
fn hashing_alone(permutations: usize) -> Duration {
    let before = thread_time();
    let mut hash = B256::ZERO;
    for _ in 0..permutations {
        hash = keccak256(hash);
    }
    std::hint::black_box(hash);
    thread_time() - before
}

/// Of this thread. Other work on the machine makes the wall's clock say little.
fn thread_time() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Of this process, all its threads.
fn processor_time() -> Duration {
    // Fields 14 and 15 in ticks of 10 ms are too coarse; the scheduler's own count is in nanoseconds.
    let total = std::fs::read_dir("/proc/self/task").map(|tasks| {
        tasks
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
            .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .sum()
    });
    Duration::from_nanos(total.unwrap_or(0))
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn size_mib(directory: &std::path::Path) -> Result<u64, Failure> {
    let mut total = 0;
    for entry in std::fs::read_dir(directory)? {
        total += entry?.metadata()?.len();
    }
    Ok(total >> 20)
}
