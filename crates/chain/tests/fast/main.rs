//! Fast sync over loopback: an empty node takes blocks and a state from others, proved by the validator's seals, and
//! goes on from there; peers lie, states are pruned, the process is killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod kill;
mod measure;
mod peers;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, U256};
use tally_chain::blocks::{Filter, LogLimits};
use tally_chain::node::{Node, Notice};
use tally_chain::protocol::{
    self, Accounts, GET_CODES, GET_HISTORY, GET_STATE, GET_STORAGE, GetAccounts, GetSlots, History, Items,
    Slots,
};
use tally_chain::{BlockId, Chain, ImportError, Reader};
use tally_state::{Database, History as StateHistory, Read};

use peers::Proxy;
use world::{LEAD, PIVOT, World, wait_until};

/// Everything that can be asked of a chain is answered the same by both, up to a block.
fn assert_same(one: &Chain, other: &Chain, until: u64) {
    let (one, other) = (one.reader(), other.reader());
    let limits = LogLimits { blocks: u64::MAX, logs: usize::MAX };
    for number in 0..=until {
        let id = BlockId::Number(number);
        let block = one.block(id).unwrap().unwrap();
        assert!(block == other.block(id).unwrap().unwrap(), "block {number}");
        assert_eq!(other.number(BlockId::Hash(block.sealed.hash)).unwrap(), Some(number));
        for (index, transaction) in (0..).zip(&block.transactions) {
            let place = other.place(transaction.hash()).unwrap().unwrap();
            assert_eq!((place.block, place.index), (number, index));
            assert_eq!(other.receipt(place).unwrap().unwrap(), block.receipts[index as usize]);
        }
    }
    let contract = Filter { addresses: vec![world::contract(0)], ..Filter::default() };
    for filter in [Filter::default(), contract] {
        let logs =
            |reader: &Reader| reader.logs(&filter, 0..=until, limits, || true).unwrap().unwrap().unwrap();
        assert!(logs(&one) == logs(&other));
        assert!(!logs(&one).is_empty());
    }
}

fn assert_same_state(world: &World, one: &Chain, other: &Chain, number: u64) {
    let (one, other) = (one.reader().state(number).unwrap(), other.reader().state(number).unwrap());
    assert_eq!(one.root(), other.root());
    for address in world.addresses() {
        let account = one.account(address).unwrap();
        assert_eq!(account, other.account(address).unwrap(), "{address}");
        let Some(account) = account else { continue };
        assert_eq!(one.code(account.code_hash).unwrap(), other.code(account.code_hash).unwrap());
    }
    for slot in (0..world::SLOTS).step_by(97).map(U256::from) {
        let contract = world::contract(0);
        assert_eq!(one.storage(contract, slot).unwrap(), other.storage(contract, slot).unwrap());
    }
}

/// Waits until a node has taken blocks that came after what it took at once.
fn follows(node: &Node, of: &Node) {
    let height = of.chain().head().number();
    wait_until("the node follows", || node.chain().head().number() >= height + 3);
}

#[test]
fn an_empty_node_takes_the_state_from_two_peers_and_goes_on_with_what_comes() {
    let world = World::new(60);
    let source = world.start_validator();
    let second = world.start_follower(2, world.copy(), &[&source], world::FULL);
    let first_pivot = world.height() - PIVOT - 1;
    let node = world.start_follower(3, Database::in_memory(), &[&source, &second], world::FAST);
    wait_until("the state is taken", || node.chain().head().number() >= first_pivot);
    follows(&node, &source);
    // The blocks up to the one whose state was taken were not executed: no state of before is there.
    let oldest = node.chain().reader().oldest_state().unwrap();
    assert!(oldest >= first_pivot, "{oldest}");
    let height = node.chain().head().number();
    assert_same(source.chain(), node.chain(), height);
    assert_same_state(&world, source.chain(), node.chain(), height);
    // A transaction goes through both.
    let to = Address::repeat_byte(0x77);
    let hash = node.submit(&world.transfer(world.nonce(), to)).unwrap();
    wait_until("the transaction is committed", || node.chain().reader().place(hash).unwrap().is_some());
    let newest = node.chain().head();
    assert_eq!(newest.branch.view.account(to).unwrap().unwrap().balance, U256::from(7));
    // It stays what it is when it is opened again.
    let database = node.chain().database().clone();
    let number = newest.number();
    drop(node);
    let chain = world.open(database, StateHistory::Blocks(512));
    assert!(chain.head().number() >= number);
    assert_same(source.chain(), &chain, number);
}

#[test]
fn a_short_chain_is_executed() {
    let world = World::new(LEAD - 1);
    let source = world.start_follower(2, world.copy(), &[], world::FULL);
    let node = world.start_follower(3, Database::in_memory(), &[&source], world::FAST);
    wait_until("the chain is executed", || node.chain().head().number() == world.height());
    assert_eq!(node.chain().reader().oldest_state().unwrap(), 0);
}

#[test]
fn a_chain_whose_validators_a_contract_names_is_executed_and_that_is_said() {
    let world = World::with_contract(LEAD + 20);
    let source = world.start_validator();
    let node = world.start_follower(2, Database::in_memory(), &[&source], world::FAST);
    let mut notices = node.notices();
    wait_until("the chain is executed", || node.chain().head().number() >= world.height());
    assert_eq!(node.chain().reader().oldest_state().unwrap(), 0);
    let mut said = false;
    while let Ok(notice) = notices.try_recv() {
        said |= matches!(notice, Notice::Failure { reason, .. } if reason.contains("a contract names them"));
    }
    assert!(said);
}

/// Sealed by a quorum or not, nobody builds it and nobody takes it: not as a block of the chain, nor one behind the other
/// before it is executed.
#[test]
fn withdrawals_in_a_sealed_block_are_refused_by_everybody() {
    let world = World::new(3);
    let (minting, refused) = world.minting();
    let reason = |error: ImportError| match error {
        ImportError::Invalid { source, .. } => source.to_string(),
        other => panic!("{other}"),
    };
    assert!(reason(refused).contains("withdrawals"), "who builds");
    let chain = world.open(world.copy(), StateHistory::Blocks(512));
    let block = tally_evm::Block::decode(&minting).unwrap();
    let prepared = chain.prepare(block, minting.len() as u64, &|_| None, 1).unwrap();
    let refused = chain.import(prepared).unwrap_err();
    assert!(reason(refused).contains("withdrawals in a block of a chain that has no beacon chain"));
    assert_eq!(chain.head().number(), world.height());
}

/// What a peer makes of the answers of an honest one.
type Lie = fn(kind: u8, answer: &[u8]) -> Option<Vec<u8>>;

fn of<T: alloy_rlp::Decodable>(answer: &[u8]) -> T {
    T::decode(&mut &answer[..]).unwrap()
}

fn changed_block(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut history: History = (kind == GET_HISTORY).then(|| of(answer))?;
    let last = history.blocks.last_mut()?;
    let mut block = last.block.to_vec();
    // In the header: the block has another hash, and nobody sealed it.
    block[200] ^= 1;
    last.block = block.into();
    Some(alloy_rlp::encode(history))
}

fn changed_receipt(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut history: History = (kind == GET_HISTORY).then(|| of(answer))?;
    let receipt = history.blocks.iter_mut().find_map(|past| past.receipts.last_mut())?;
    receipt.cumulative_gas_used += 1;
    Some(alloy_rlp::encode(history))
}

fn other_blocks(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut history: History = (kind == GET_HISTORY).then(|| of(answer))?;
    history.blocks.swap(0, 1);
    Some(alloy_rlp::encode(history))
}

fn too_many_blocks(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut history: History = (kind == GET_HISTORY).then(|| of(answer))?;
    history.blocks = (0..1_025).map(|at| history.blocks[at % history.blocks.len()].clone()).collect();
    Some(alloy_rlp::encode(history))
}

fn no_block(kind: u8, _: &[u8]) -> Option<Vec<u8>> {
    (kind == GET_HISTORY).then(|| b"no list".to_vec())
}

fn richer_account(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut accounts: Accounts = (kind == GET_STATE).then(|| of(answer))?;
    let account = accounts.accounts.last_mut()?;
    let mut encoded = account.account.to_vec();
    encoded[2] ^= 1;
    account.account = encoded.into();
    Some(alloy_rlp::encode(accounts))
}

fn account_less(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut accounts: Accounts = (kind == GET_STATE).then(|| of(answer))?;
    let middle = accounts.accounts.len() / 2;
    accounts.accounts.remove(middle);
    Some(alloy_rlp::encode(accounts))
}

fn no_proof(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut accounts: Accounts = (kind == GET_STATE).then(|| of(answer))?;
    accounts.proof.clear();
    Some(alloy_rlp::encode(accounts))
}

fn slot_less(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut slots: Slots = (kind == GET_STORAGE).then(|| of(answer))?;
    slots.storages.first_mut()?.slots.pop();
    Some(alloy_rlp::encode(slots))
}

fn storages_without_end(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut slots: Slots = (kind == GET_STORAGE).then(|| of(answer))?;
    let first = slots.storages.first()?.clone();
    slots.storages.extend(std::iter::repeat_n(first, 300));
    Some(alloy_rlp::encode(slots))
}

fn other_code(kind: u8, answer: &[u8]) -> Option<Vec<u8>> {
    let mut codes: Items = (kind == GET_CODES).then(|| of(answer))?;
    *codes.items.last_mut()? = vec![0xfe; 40].into();
    Some(alloy_rlp::encode(codes))
}

#[test]
fn a_peer_that_lies_is_asked_no_more_and_others_are() {
    let lies: [(&str, Lie); 11] = [
        ("changed block", changed_block),
        ("changed receipt", changed_receipt),
        ("other blocks", other_blocks),
        ("too many blocks", too_many_blocks),
        ("no block", no_block),
        ("richer account", richer_account),
        ("account less", account_less),
        ("no proof", no_proof),
        ("slot less", slot_less),
        ("storages without end", storages_without_end),
        ("other code", other_code),
    ];
    let world = World::new(LEAD + 20);
    let source = world.start_validator();
    for (name, lie) in lies {
        let liar = Proxy::start(&world, 20, &source, move |kind, answer| {
            Some(lie(kind, answer).unwrap_or_else(|| answer.to_vec()))
        });
        let node = world.start_node(3, Database::in_memory(), &[liar.enode()], world::FAST);
        let lied = || {
            let network = node.network().unwrap();
            network.peers().iter().all(|peer| peer.score < 100) && network.peer_count() > 0
        };
        wait_until(name, lied);
        // What was under way comes back; nothing else is asked for.
        let asked = liar.asked_in_all();
        assert_eq!(node.chain().head().number(), 0, "{name}");
        node.network().unwrap().add(source.network().unwrap().enode().unwrap()).unwrap();
        wait_until(name, || node.chain().head().number() > 0);
        assert!(node.chain().reader().oldest_state().unwrap() > LEAD, "{name}");
        assert_eq!(liar.asked(), asked, "{name}");
    }
}

#[test]
fn a_peer_that_boasts_holds_nobody_up() {
    // Both say that they have blocks that nobody has; one gives what there is, one gives nothing.
    let empty = |_: u8, _: &[u8], answer: &[u8]| Some(answer.to_vec());
    let silent = |_: u8, _: &[u8], _: &[u8]| None;
    let long = World::new(LEAD + 20);
    let source = long.start_validator();
    let boasters = [
        Proxy::start_boasting(&long, 20, &source, 1_000_000, empty),
        Proxy::start_boasting(&long, 21, &source, 2_000_000, silent),
    ];
    let known: Vec<_> = boasters.iter().map(Proxy::enode).chain(source.network().unwrap().enode()).collect();
    let node = long.start_node(3, Database::in_memory(), &known, world::FAST);
    wait_until("the state is taken", || node.chain().head().number() > 0);
    assert!(node.chain().reader().oldest_state().unwrap() > LEAD);
    // A chain that is short in truth is executed.
    let short = World::new(3);
    let source = short.start_follower(2, short.copy(), &[], world::FULL);
    let silent = Proxy::start_boasting(&short, 20, &source, 1_000_000, silent);
    let known = [silent.enode(), source.network().unwrap().enode().unwrap()];
    let node = short.start_node(3, Database::in_memory(), &known, world::FAST);
    wait_until("the chain is executed", || node.chain().head().number() == short.height());
    assert_eq!(node.chain().reader().oldest_state().unwrap(), 0);
}

#[test]
fn a_state_that_no_peer_has_any_more_is_left_for_a_newer_one() {
    let world = World::new(LEAD + 20);
    let source = world.start_validator();
    let first = AtomicU64::new(0);
    let peer = Proxy::start_with(&world, 20, &source, move |kind, request, answer| {
        let number = match kind {
            GET_STATE => of::<GetAccounts>(request).number,
            GET_STORAGE => of::<GetSlots>(request).number,
            _ => return Some(answer.to_vec()),
        };
        let _ = first.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        let is_first = number == first.load(Ordering::Relaxed);
        // The accounts are there still, the storage is not.
        match is_first && kind == GET_STORAGE {
            true => Some(alloy_rlp::encode(Slots::default())),
            false => Some(answer.to_vec()),
        }
    });
    let node = world.start_node(3, Database::in_memory(), &[peer.enode()], world::FAST);
    wait_until("a state is taken", || node.chain().head().number() > 0);
    let height = node.chain().head().number();
    assert!(node.chain().reader().oldest_state().unwrap() > LEAD);
    assert_same_state(&world, source.chain(), node.chain(), height);
}

/// Takes blocks and about half of the accounts, then stops.
fn half_taken(world: &World, source: &Node) -> Database {
    let left = AtomicU64::new(9);
    let peer = Proxy::start(world, 20, source, move |kind, answer| {
        let take = |left: u64| left.checked_sub(1);
        let is_given =
            kind != GET_STATE || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        is_given.then(|| answer.to_vec())
    });
    let database = Database::in_memory();
    let node = world.start_node(3, database.clone(), &[peer.enode()], world::FAST);
    let taken =
        || node.fast_sync().is_some_and(|progress| progress.accounts > 1_000 && progress.block > LEAD);
    wait_until("accounts are taken", taken);
    wait_until("no more come", || peer.asked() > 12 && peer.is_idle());
    assert_eq!(node.chain().head().number(), 0);
    database
}

#[test]
fn what_was_taken_is_not_asked_for_again() {
    let world = World::new(LEAD + 20);
    let source = world.start_validator();
    let database = half_taken(&world, &source);
    let asked: Arc<[AtomicU64; 256]> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
    let counted = Arc::clone(&asked);
    let peer = Proxy::start(&world, 21, &source, move |kind, answer| {
        counted[usize::from(kind)].fetch_add(1, Ordering::SeqCst);
        Some(answer.to_vec())
    });
    let node = world.start_node(3, database, &[peer.enode()], world::FAST);
    wait_until("the state is taken", || node.chain().head().number() > 0);
    let asked = |kind: u8| asked[usize::from(kind)].load(Ordering::SeqCst);
    assert_eq!(asked(GET_HISTORY), 0);
    assert!((1..=7).contains(&asked(GET_STATE)), "{} of 16 parts of the accounts", asked(GET_STATE));
    let height = node.chain().head().number();
    assert_same(source.chain(), node.chain(), height);
    assert_same_state(&world, source.chain(), node.chain(), height);
}

#[test]
fn a_node_that_is_told_to_execute_everything_does_so_over_what_was_half_taken() {
    let world = World::new(LEAD + 20);
    let source = world.start_validator();
    let database = half_taken(&world, &source);
    let node = world.start_follower(3, database.clone(), &[&source], world::FULL);
    wait_until("the chain is executed", || node.chain().head().number() >= world.height());
    let height = node.chain().head().number();
    assert_eq!(node.chain().reader().oldest_state().unwrap(), 0);
    assert_same(source.chain(), node.chain(), height);
    assert_same_state(&world, source.chain(), node.chain(), height);
    let state = tally_state::State::open(database, tally_state::Options::default()).unwrap();
    wait_until("what was half taken is gone", || state.resume_import().unwrap().is_none());
}

#[test]
fn a_node_gives_the_states_that_it_has_and_no_others() {
    let world = World::new(40);
    let database = world.copy();
    let chain = world.open(database.clone(), StateHistory::Blocks(8));
    let source = world.start_validator();
    let node = world.start_follower_on(2, chain, &[&source], world::FULL);
    let client = Proxy::start(&world, 21, &node, |_, answer| Some(answer.to_vec()));
    let ask = |number: u64, root: B256| -> Accounts {
        let request = GetAccounts { number, root, start: B256::ZERO, end: B256::repeat_byte(0xff) };
        of(&client.request(GET_STATE, protocol::encode(&request)))
    };
    let root = |number: u64| {
        let header = source.chain().reader().header(BlockId::Number(number)).unwrap().unwrap();
        header.header.state_root
    };
    // Blocks are executed by this node from here on, and so are states of the past.
    follows(&node, &source);
    let height = node.chain().head().number();
    let recent = ask(height - 2, root(height - 2));
    assert!(!recent.accounts.is_empty() && !recent.proof.is_empty());
    // Of a block that is not there, of another block, and one that is no longer kept.
    for (number, root) in [(height + 1_000, root(3)), (height, B256::repeat_byte(5)), (3, root(3))] {
        assert!(ask(number, root) == Accounts::default(), "block {number}");
    }
    // The one that was given is held while the chain goes on.
    let later = node.chain().head().number() + 12;
    wait_until("the chain goes on", || node.chain().head().number() > later);
    assert!(ask(height - 2, root(height - 2)) == recent);
}
