use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use proptest::prelude::*;

use crate::tables::with_slot;
use crate::trie::rlp;
use crate::{
    Account, AccountChange, Batch, Changes, Database, Durability, EMPTY_ROOT, Error, Found, History, Layer,
    MemoryTrie, Options, Read, State, StoreOptions, StoredAccount, View,
};

/// What a state should be, in the simplest form.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    accounts: BTreeMap<Address, (Account, BTreeMap<U256, U256>)>,
}

impl Model {
    fn apply(&mut self, changes: &Changes) {
        for (address, change) in &changes.accounts {
            let Some(account) = change.account else {
                self.accounts.remove(address);
                continue;
            };
            let (known, storage) = self.accounts.entry(*address).or_default();
            *known = account;
            if change.storage_cleared {
                storage.clear();
            }
            for (slot, value) in &change.storage {
                if value.is_zero() {
                    storage.remove(slot);
                } else {
                    storage.insert(*slot, *value);
                }
            }
        }
    }

    fn storage_trie(&self, address: &Address) -> MemoryTrie {
        let mut trie = MemoryTrie::new();
        if let Some((_, storage)) = self.accounts.get(address) {
            for (slot, value) in storage {
                let mut encoded = Vec::new();
                with_slot(*value, |value| rlp::string(value, &mut encoded));
                trie.insert(keccak256(slot.to_be_bytes::<32>()).as_slice(), &encoded).unwrap();
            }
        }
        trie
    }

    fn trie(&self) -> MemoryTrie {
        let mut trie = MemoryTrie::new();
        for (address, (account, _)) in &self.accounts {
            let storage_root = self.storage_trie(address).root();
            let mut value = Vec::new();
            StoredAccount { account: *account, storage_root }.rlp(&mut value);
            trie.insert(keccak256(address).as_slice(), &value).unwrap();
        }
        trie
    }

    fn check(&self, view: &View) {
        let trie = self.trie();
        assert_eq!(view.root(), trie.root());
        for number in 0..=ADDRESSES {
            let address = address(number);
            let expected = self.accounts.get(&address);
            let found = expected
                .map(|(account, storage)| Found { account: *account, has_storage: !storage.is_empty() });
            assert_eq!(view.find(address).unwrap(), found);
            for slot in 0..=SLOTS {
                let slot = U256::from(slot);
                let value = expected.and_then(|(_, storage)| storage.get(&slot)).copied().unwrap_or_default();
                assert_eq!(view.storage(address, slot).unwrap(), value);
            }
        }
    }

    fn check_proofs(&self, view: &View, root: B256) {
        let trie = self.trie();
        assert_eq!(root, trie.root());
        for number in (0..=ADDRESSES).step_by(3) {
            let address = address(number);
            let slots: Vec<B256> = (0..=SLOTS).step_by(2).map(|slot| B256::from(U256::from(slot))).collect();
            let proof = view.proof(address, &slots).unwrap();
            assert_eq!(proof.proof, trie.proof(keccak256(address).as_slice()));
            let storage = self.storage_trie(&address);
            assert_eq!(proof.storage_root, storage.root());
            for (slot, proof) in slots.iter().zip(&proof.storage) {
                assert_eq!(proof.proof, storage.proof(keccak256(slot).as_slice()));
            }
            assert!(proof.verify(root).unwrap());
            let mut wrong = proof.clone();
            wrong.account = Some(Account { nonce: 77, ..Account::default() });
            assert!(!wrong.verify(root).unwrap());
            let mut wrong = proof;
            wrong.storage[0].value += U256::ONE;
            assert!(!wrong.verify(root).unwrap());
        }
    }
}

const ADDRESSES: u8 = 24;
const SLOTS: u8 = 24;

fn address(number: u8) -> Address {
    Address::repeat_byte(number)
}

fn account() -> impl Strategy<Value = Account> {
    (0..3u64, prop_oneof![Just(U256::ZERO), Just(U256::from(5)), Just(U256::MAX)], any::<bool>()).prop_map(
        |(nonce, balance, code)| Account {
            nonce,
            balance,
            code_hash: if code { B256::repeat_byte(0xcc) } else { Account::default().code_hash },
        },
    )
}

fn change() -> impl Strategy<Value = AccountChange> {
    let value = prop_oneof![Just(U256::ZERO), (1..200u8).prop_map(U256::from), Just(U256::MAX)];
    let storage = proptest::collection::hash_map((0..SLOTS).prop_map(U256::from), value, 0..12);
    (proptest::option::weighted(0.85, account()), proptest::bool::weighted(0.1), storage).prop_map(
        |(account, storage_cleared, storage)| AccountChange {
            account,
            storage_cleared,
            storage: storage.into_iter().collect(),
        },
    )
}

fn changes() -> impl Strategy<Value = Changes> {
    proptest::collection::hash_map((0..ADDRESSES).prop_map(address), change(), 0..10)
        .prop_map(|accounts| Changes { accounts: accounts.into_iter().collect(), ..Changes::default() })
}

fn open(database: Database, history: History) -> State {
    State::open(database, Options { history, ..Options::default() }).unwrap()
}

fn commit(state: &State, layers: &[(u64, &Layer)]) {
    let mut batch = Batch::new();
    for (number, layer) in layers {
        state.commit(&mut batch, *number, layer).unwrap();
    }
    state.database().commit(batch, Durability::Buffered).unwrap();
}

/// Commits a genesis and then `blocks`, in batches of one or two; the model after each.
fn chain(state: &State, blocks: &[Changes]) -> Vec<Model> {
    let mut model = Model::default();
    model.apply(&blocks[0]);
    let mut batch = Batch::new();
    let root = state.begin(&mut batch, 0, &blocks[0]).unwrap();
    state.database().commit(batch, Durability::Buffered).unwrap();
    assert_eq!(root, model.trie().root());
    let mut models = vec![model];
    for (pair, changes) in blocks[1..].chunks(2).enumerate() {
        let view = state.view().unwrap();
        let mut layers: Vec<Arc<Layer>> = Vec::new();
        for changes in changes {
            let view = view.on(&layers).unwrap();
            let mut model = models.last().unwrap().clone();
            model.check(&view);
            let layer = view.apply(changes).unwrap();
            model.apply(changes);
            models.push(model);
            layers.push(Arc::new(layer));
        }
        let above = view.on(&layers).unwrap();
        models.last().unwrap().check(&above);
        let first = 1 + 2 * pair as u64;
        let numbered: Vec<_> =
            layers.iter().enumerate().map(|(at, layer)| (first + at as u64, &**layer)).collect();
        commit(state, &numbered);
        // The view still shows what it showed.
        models.last().unwrap().check(&above);
        // Layers that are committed are left out.
        models.last().unwrap().check(&state.view().unwrap().on(&layers).unwrap());
    }
    models
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_state_is_what_its_blocks_made_it(blocks in proptest::collection::vec(changes(), 1..12)) {
        let state = open(Database::in_memory(), History::Archive);
        let models = chain(&state, &blocks);
        let head = models.len() as u64 - 1;
        for (number, model) in models.iter().enumerate() {
            let view = state.at(number as u64).unwrap();
            assert_eq!(view.number(), Some(number as u64));
            model.check(&view);
            model.check_proofs(&view, view.root());
        }
        assert_eq!(state.oldest().unwrap(), Some(0));
        assert!(matches!(state.at(head + 1), Err(Error::NotKept { oldest: 0, newest, .. }) if newest == head));
    }

    #[test]
    fn blocks_that_are_undone_leave_no_trace(
        blocks in proptest::collection::vec(changes(), 2..8),
        others in proptest::collection::vec(changes(), 1..4),
        back in 1..8u64,
    ) {
        let state = open(Database::in_memory(), History::Archive);
        let models = chain(&state, &blocks);
        let head = models.len() as u64 - 1;
        let target = head.saturating_sub(back);
        prop_assume!(target < head);

        // Other blocks are executed on top of the past, and all is committed at once.
        let reversed = Arc::new(state.reverse(target).unwrap());
        let mut layers = vec![Arc::clone(&reversed)];
        let mut model = models[target as usize].clone();
        let mut after = vec![model.clone()];
        for changes in &others {
            let view = state.view().unwrap().on(&layers).unwrap();
            model.check(&view);
            layers.push(Arc::new(view.apply(changes).unwrap()));
            model.apply(changes);
            after.push(model.clone());
        }
        let mut batch = Batch::new();
        state.undo(&mut batch, target, &reversed).unwrap();
        for (at, layer) in layers[1..].iter().enumerate() {
            state.commit(&mut batch, target + 1 + at as u64, layer).unwrap();
        }
        state.database().commit(batch, Durability::Buffered).unwrap();
        for (number, model) in models[..target as usize].iter().chain(&after).enumerate() {
            let view = state.at(number as u64).unwrap();
            model.check(&view);
            model.check_proofs(&view, view.root());
        }
        // What is stored is what a chain of these blocks alone has stored.
        let straight = open(Database::in_memory(), History::Archive);
        let kept: Vec<Changes> = blocks[..=target as usize].iter().chain(&others).cloned().collect();
        chain(&straight, &kept);
        assert_eq!(contents(&state), contents(&straight));
    }

    #[test]
    fn only_as_much_of_the_past_is_kept_as_was_asked_for(
        blocks in proptest::collection::vec(changes(), 8..16),
        kept in 1..5u64,
    ) {
        let state = open(Database::in_memory(), History::Blocks(kept));
        let models = chain(&state, &blocks);
        let head = models.len() as u64 - 1;
        let oldest = state.oldest().unwrap().unwrap();
        // Blocks that were in the last batch with the ones they follow are forgotten with the next.
        assert!(oldest <= head - kept && oldest + kept + 1 >= head, "{oldest} of {head}");
        for number in 0..=head {
            match state.at(number) {
                Ok(view) => {
                    assert!(number >= oldest);
                    models[number as usize].check(&view);
                }
                Err(error) => {
                    assert!(number < oldest);
                    assert!(matches!(error, Error::NotKept { newest, .. } if newest == head));
                }
            }
        }
        let snapshot = state.database().snapshot();
        let tables = state.tables();
        for table in [tables.account_history, tables.storage_history] {
            for entry in snapshot.prefix(table, &[]) {
                let (key, _) = entry.unwrap();
                let number = u64::from_be_bytes(key[key.len() - 8..].try_into().unwrap());
                assert!(number > oldest);
            }
        }
    }

    #[test]
    fn a_state_can_be_taken_in_from_ranges(
        blocks in proptest::collection::vec(changes(), 1..6),
        others in proptest::collection::vec(changes(), 0..2),
        back in 0..3u64,
        limit in 1..400usize,
        damage in any::<u16>(),
    ) {
        let source = open(Database::in_memory(), History::Archive);
        let models = chain(&source, &blocks);
        // The newest state, or one of the past.
        let newest = blocks.len() as u64 - 1;
        let number = newest.saturating_sub(back);
        let root = source.at(number).unwrap().root();
        let ranges = source.at(number).unwrap().ranges().unwrap();
        assert_eq!(ranges.root(), root);
        let target = open(Database::in_memory(), History::Archive);
        // A state that is there, and an import that was given up, are no trouble.
        if !others.is_empty() {
            chain(&target, &others);
        }
        let before = target.head().unwrap();
        let given_up = target.import(B256::repeat_byte(1)).unwrap();
        let mut batch = Batch::new();
        given_up.accounts(&mut batch, &ranges.account_range(B256::ZERO, LAST, 100).unwrap());
        target.database().commit(batch, Durability::Buffered).unwrap();

        let import = target.import(root).unwrap();
        let mut batch = Batch::new();
        import.code(&mut batch, &Bytes::from_static(b"code"));
        batch.put(target.tables().codes, B256::repeat_byte(0xcc), b"pretended");
        let mut start = B256::ZERO;
        loop {
            let range = ranges.account_range(start, LAST, limit).unwrap();
            let more = range.verify(root).unwrap();
            // A range with an account less or another value is refused.
            if !range.accounts.is_empty() {
                let at = usize::from(damage) % range.accounts.len();
                let mut less = range.clone();
                less.accounts.remove(at);
                if at + 1 < range.accounts.len() || more || !less.accounts.is_empty() {
                    // Without its last account a range is a shorter one, whose end is not proved.
                    let honest = at + 1 == range.accounts.len() && less.verify(root) == Ok(true);
                    assert!(honest || less.verify(root).is_err());
                }
                let mut other = range.clone();
                other.accounts[at].1.account.nonce += 1;
                assert!(other.verify(root).is_err());
                // A range that ends earlier has one more account at most.
                let end = range.accounts[at].0;
                let part = ranges.account_range(start, end, usize::MAX).unwrap();
                assert_eq!(part.accounts, range.accounts[..=at]);
                part.verify(root).unwrap();
            }
            import.accounts(&mut batch, &range);
            for (key, account) in &range.accounts {
                assert_eq!(ranges.account(key).unwrap(), Some(*account));
                let mut start = B256::ZERO;
                loop {
                    let slots = ranges.storage_range(*key, start, LAST, limit).unwrap();
                    let more = slots.verify(account.storage_root).unwrap();
                    import.slots(&mut batch, &slots);
                    if !more {
                        break;
                    }
                    start = after(slots.slots.last().unwrap().0);
                }
            }
            if !more {
                break;
            }
            start = after(range.accounts.last().unwrap().0);
        }
        target.database().commit(batch, Durability::Buffered).unwrap();
        assert_eq!(target.head().unwrap(), before);
        // The process ends here and goes on.
        let target = open(target.database().clone(), History::Archive);
        assert_eq!(target.head().unwrap(), before);
        let import = target.resume_import().unwrap().unwrap();
        assert_eq!(import.root(), root);
        let marker = target.database().table("marker").unwrap();
        import.finish(7, |batch| batch.put(marker, [1], [2])).unwrap();
        assert!(target.database().snapshot().get(marker, [1]).unwrap().is_some());
        assert!(target.resume_import().unwrap().is_none());
        let model = &models[number as usize];
        for state in [&target, &open(target.database().clone(), History::Archive)] {
            let imported = state.view().unwrap();
            assert_eq!((imported.number(), imported.root()), (Some(7), root));
            model.check(&imported);
            model.check_proofs(&imported, imported.root());
            assert_eq!(state.oldest().unwrap(), Some(7));
        }
        let nodes = |state: &State| {
            let mut contents = contents(state);
            contents.retain(|table, _| table.ends_with("nodes"));
            contents
        };
        if number == newest {
            assert_eq!(nodes(&target), nodes(&source));
        }
        // It goes on from there.
        let imported = target.view().unwrap();
        let layer = imported.apply(&blocks[0]).unwrap();
        commit(&target, &[(8, &layer)]);
        assert_eq!(target.at(7).unwrap().root(), imported.root());
        // And once more, back into the tables of the first.
        let import = target.import(EMPTY_ROOT).unwrap();
        assert_eq!(target.head().unwrap(), Some((8, layer.root())));
        import.finish(9, |_| ()).unwrap();
        assert_eq!(target.head().unwrap(), Some((9, EMPTY_ROOT)));
    }

    #[test]
    fn an_import_that_lacks_something_changes_nothing(blocks in proptest::collection::vec(changes(), 1..4)) {
        let source = open(Database::in_memory(), History::Archive);
        chain(&source, &blocks);
        let ranges = source.view().unwrap().ranges().unwrap();
        let all = ranges.account_range(B256::ZERO, LAST, usize::MAX).unwrap();
        let target = open(Database::in_memory(), History::Archive);
        chain(&target, &blocks[..1]);
        let state = |target: &State| {
            let mut contents = contents(target);
            contents.remove("meta");
            (target.head().unwrap(), contents)
        };
        let before = state(&target);
        // No storage and no codes.
        let import = target.import(ranges.root()).unwrap();
        let mut batch = Batch::new();
        import.accounts(&mut batch, &all);
        target.database().commit(batch, Durability::Buffered).unwrap();
        let contracts = import.contracts(B256::ZERO, usize::MAX).unwrap();
        assert_eq!(import.finish(3, |_| ()).is_err(), !contracts.is_empty());
        if !contracts.is_empty() {
            assert_eq!(state(&target), before);
            target.abandon_import().unwrap();
            assert!(target.resume_import().unwrap().is_none());
        }
    }
}

const LAST: B256 = B256::repeat_byte(0xff);

fn after(key: B256) -> B256 {
    B256::from(U256::from_be_bytes(key.0) + U256::ONE)
}

type Contents = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// All that a state has stored.
fn contents(state: &State) -> Contents {
    let tables = state.tables();
    let named = [
        ("accounts", tables.accounts),
        ("storage", tables.storage),
        ("account nodes", tables.account_nodes),
        ("storage nodes", tables.storage_nodes),
        ("account history", tables.account_history),
        ("storage history", tables.storage_history),
        ("changed", tables.changed),
        ("meta", tables.meta),
    ];
    let snapshot = state.database().snapshot();
    named
        .into_iter()
        .map(|(name, table)| {
            let entries = snapshot.prefix(table, &[]).map(|entry| entry.unwrap());
            (name, entries.map(|(key, value)| (key, value.to_vec())).collect())
        })
        .collect()
}

#[test]
fn a_block_outlasts_the_process_and_half_a_block_does_not_exist() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { write_buffer_bytes: 16 << 10, ..StoreOptions::default() };
    let mut model = Model::default();
    let block = |number: u64| {
        let mut changes = Changes::default();
        for at in 0..8u8 {
            let storage = (0..4).map(|slot| (U256::from(slot), U256::from(number * 10 + slot))).collect();
            let account = Some(Account { nonce: number, ..Account::default() });
            let number = (number as u8).wrapping_mul(3).wrapping_add(at) % ADDRESSES;
            changes
                .accounts
                .insert(address(number), AccountChange { account, storage_cleared: at == 0, storage });
        }
        changes
    };
    {
        let state = open(Database::open(directory.path(), options).unwrap(), History::Archive);
        let mut batch = Batch::new();
        state.begin(&mut batch, 0, &block(0)).unwrap();
        model.apply(&block(0));
        state.database().commit(batch, Durability::Synced).unwrap();
    }
    let mut models = vec![model.clone()];
    for number in 1..40 {
        let state = open(Database::open(directory.path(), options).unwrap(), History::Archive);
        let layer = state.view().unwrap().apply(&block(number)).unwrap();
        commit(&state, &[(number, &layer)]);
        model.apply(&block(number));
        models.push(model.clone());
        // Executed and put into a batch, but never committed.
        let lost = state.view().unwrap().apply(&block(number + 1)).unwrap();
        state.commit(&mut Batch::new(), number + 1, &lost).unwrap();
    }
    let state = open(Database::open(directory.path(), options).unwrap(), History::Archive);
    assert_eq!(state.head().unwrap().unwrap().0, 39);
    for (number, model) in models.iter().enumerate() {
        model.check(&state.at(number as u64).unwrap());
    }
}

#[test]
fn a_layer_goes_only_where_it_belongs() {
    let state = open(Database::in_memory(), History::Archive);
    let block = |nonce| {
        let account = Some(Account { nonce, ..Account::default() });
        let change = AccountChange { account, ..AccountChange::default() };
        Changes { accounts: [(Address::ZERO, change)].into_iter().collect(), ..Changes::default() }
    };
    assert!(matches!(state.at(0), Err(Error::NoState)));
    let empty = state.view().unwrap();
    let layer = empty.apply(&block(1)).unwrap();
    assert!(matches!(state.commit(&mut Batch::new(), 1, &layer), Err(Error::NoState)));
    let mut batch = Batch::new();
    state.begin(&mut batch, 0, &block(1)).unwrap();
    state.database().commit(batch, Durability::Buffered).unwrap();
    assert!(matches!(state.begin(&mut Batch::new(), 0, &block(1)), Err(Error::NotEmpty { number: 0 })));
    let view = state.view().unwrap();
    let (one, two) = (view.apply(&block(2)).unwrap(), view.apply(&block(3)).unwrap());
    assert!(matches!(state.commit(&mut Batch::new(), 2, &one), Err(Error::NotNext { number: 2, next: 1 })));
    commit(&state, &[(1, &one)]);
    assert!(matches!(state.commit(&mut Batch::new(), 2, &two), Err(Error::NotOnTop { .. })));
    // On the state of the past a block gives what it gave then, and cannot be committed.
    let again = state.at(0).unwrap().apply(&block(3)).unwrap();
    assert_eq!((again.root(), again.parent_root()), (two.root(), two.parent_root()));
    assert!(matches!(state.commit(&mut Batch::new(), 2, &again), Err(Error::NotOnTop { .. })));
    assert!(matches!(state.view().unwrap().on(&[Arc::new(two)]), Err(Error::NotOnTop { .. })));
}

#[test]
fn codes_are_found_by_their_hash_in_layers_and_in_the_store() {
    let state = open(Database::in_memory(), History::Archive);
    let mut batch = Batch::new();
    state.begin(&mut batch, 0, &Changes::default()).unwrap();
    state.database().commit(batch, Durability::Buffered).unwrap();
    let code = Bytes::from_static(b"\x60\x00");
    let mut changes = Changes::default();
    changes.codes.insert(keccak256(&code), code.clone());
    let layer = Arc::new(state.view().unwrap().apply(&changes).unwrap());
    let above = state.view().unwrap().on(&[Arc::clone(&layer)]).unwrap();
    assert_eq!(above.code(keccak256(&code)).unwrap(), code);
    assert!(matches!(state.view().unwrap().code(keccak256(&code)), Err(Error::UnknownCode { .. })));
    commit(&state, &[(1, &layer)]);
    assert_eq!(state.view().unwrap().code(keccak256(&code)).unwrap(), code);
    assert_eq!(state.view().unwrap().code(Account::default().code_hash).unwrap(), Bytes::new());
}

#[test]
fn changes_of_two_blocks_as_one() {
    let account = |nonce| Some(Account { nonce, ..Account::default() });
    let change = |account, slots: &[(u8, u8)], storage_cleared| AccountChange {
        account,
        storage_cleared,
        storage: slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect(),
    };
    let kinds = [
        change(account(1), &[(1, 1), (2, 2)], false),
        change(account(2), &[(2, 0), (3, 3)], false),
        change(account(3), &[(4, 4)], true),
        change(None, &[], false),
    ];
    let mut seen = BTreeSet::new();
    for (a, first) in kinds.iter().enumerate() {
        for (b, second) in kinds.iter().enumerate() {
            let one = |change: &AccountChange| Changes {
                accounts: [(Address::ZERO, change.clone())].into_iter().collect(),
                ..Changes::default()
            };
            let mut base = Model::default();
            base.apply(&one(&change(account(9), &[(1, 9), (2, 9), (7, 7)], false)));
            let (mut apart, mut joined) = (base.clone(), base);
            apart.apply(&one(first));
            apart.apply(&one(second));
            let mut both = one(first);
            both.extend(one(second));
            joined.apply(&both);
            assert_eq!(apart, joined, "{a} then {b}");
            seen.insert(format!("{joined:?}"));
        }
    }
    assert!(seen.len() > 4);
}
