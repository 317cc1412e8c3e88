//! The state of a chain: its newest committed version, and as much of its past as is kept.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use alloy_primitives::B256;
use alloy_primitives::map::DefaultHashBuilder;
use quick_cache::OptionsBuilder;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::store::{Batch, Database, Durability, Snapshot};
use crate::tables::{Tables, slot_key, with_slot};
use crate::trie::EMPTY_ROOT;
use crate::view::{Shared, Weight};
use crate::{Changes, Error, Layer, View};

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// All of it.
    Archive,
    /// The states after the newest block and this many before it. Blocks can be undone as far.
    Blocks(u64),
}

/// How a state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much of the past.
    pub history: History,
    /// For branches of the tries that were read or written lately. The upper levels of a large trie
    /// take about 2.3 MB for three levels, 37 MB for four.
    pub branch_cache_bytes: usize,
    /// For codes.
    pub code_cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { history: History::Blocks(512), branch_cache_bytes: 16 << 20, code_cache_bytes: 4 << 20 }
    }
}

/// The state of a chain in a [`Database`]. Cheap to clone, shared between threads; one of them commits.
#[derive(Clone)]
pub struct State {
    database: Database,
    /// Replaced when a state that was imported takes the place of the one before it.
    shared: Arc<RwLock<Arc<Shared>>>,
    options: Options,
    progress: Arc<Mutex<Progress>>,
}

/// What was put into batches, committed or not.
struct Progress {
    /// The newest block put into a batch, and its root.
    staged: Option<(u64, B256)>,
    /// The oldest block whose changes may be kept still.
    unpruned: Option<u64>,
}

impl Shared {
    pub(crate) fn new(tables: Tables, options: Options) -> Self {
        Self {
            tables,
            branches: cache(options.branch_cache_bytes, 512),
            codes: cache(options.code_cache_bytes, 8192),
        }
    }
}

fn cache<V: Clone>(bytes: usize, item_bytes: usize) -> Cache<B256, V, Weight, DefaultHashBuilder>
where
    Weight: Weighter<B256, V>,
{
    let options = OptionsBuilder::new()
        .weight_capacity(bytes as u64)
        .estimated_items_capacity((bytes / item_bytes).max(16))
        .shards(4)
        .build()
        .expect("all required options are set");
    Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
}

impl State {
    /// The state in `database`, as the last commit left it.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(database: Database, options: Options) -> Result<Self, Error> {
        let tables = Tables::open(&database)?;
        let snapshot = database.snapshot();
        let progress = Progress { staged: None, unpruned: tables.first_changed(&snapshot)? };
        let shared = Shared::new(tables, options);
        Ok(Self {
            database,
            shared: Arc::new(RwLock::new(Arc::new(shared))),
            options,
            progress: Arc::new(Mutex::new(progress)),
        })
    }

    /// The store, for whoever commits.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The newest committed block and its state's root; `None` before the genesis.
    pub fn head(&self) -> Result<Option<(u64, B256)>, Error> {
        let (shared, snapshot) = self.newest();
        shared.tables.head(&snapshot)
    }

    /// The first block whose state can be read; `None` before the genesis.
    pub fn oldest(&self) -> Result<Option<u64>, Error> {
        let (shared, snapshot) = self.newest();
        let Some((head, _)) = shared.tables.head(&snapshot)? else { return Ok(None) };
        let first = shared.tables.first_changed(&snapshot)?;
        Ok(Some(first.map_or(head, |first| first.saturating_sub(1))))
    }

    /// The newest committed state: without accounts before the genesis.
    ///
    /// # Errors
    /// What the store says.
    pub fn view(&self) -> Result<View, Error> {
        let (shared, snapshot) = self.newest();
        let head = shared.tables.head(&snapshot)?;
        Ok(View {
            shared,
            snapshot,
            layers: Vec::new(),
            head: head.map(|(number, _)| number),
            past: None,
            root: head.map_or(EMPTY_ROOT, |(_, root)| root),
        })
    }

    /// The state after block `number`.
    ///
    /// # Errors
    /// [`Error::NotKept`] says which blocks' states are.
    pub fn at(&self, number: u64) -> Result<View, Error> {
        let mut view = self.view()?;
        let Some(head) = view.head else { return Err(Error::NoState) };
        if number == head {
            return Ok(view);
        }
        let tables = &view.shared.tables;
        let next = match number < head {
            true => tables.changed_keys(&view.snapshot, number + 1)?,
            false => None,
        };
        let Some(next) = next else { return Err(tables.not_kept(&view.snapshot, number, head)?) };
        view.root = next.root_before;
        view.past = Some(number);
        Ok(view)
    }

    /// Writes the state of the first block: `number` is zero, or where a chain that was imported begins.
    /// Returns its root; the batch is not committed.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there is a state already.
    pub fn begin(&self, batch: &mut Batch, number: u64, changes: &Changes) -> Result<B256, Error> {
        let view = self.view()?;
        if let Some(number) = view.head {
            return Err(Error::NotEmpty { number });
        }
        let layer = view.apply(changes)?;
        self.put(batch, &layer);
        self.tables().put_head(batch, number, layer.root);
        self.progress().staged = Some((number, layer.root));
        Ok(layer.root)
    }

    /// Puts block `number` into a batch, which may hold the blocks before it. Forgets what is older than
    /// the history that is kept.
    ///
    /// # Errors
    /// [`Error::NotNext`] and [`Error::NotOnTop`] if the layer does not follow what is committed or
    /// was put into the batch; what the store says.
    pub fn commit(&self, batch: &mut Batch, number: u64, layer: &Layer) -> Result<(), Error> {
        let (shared, snapshot) = self.newest();
        let tables = &shared.tables;
        let committed = tables.head(&snapshot)?;
        let mut progress = self.progress();
        let follows = |before: &(u64, B256)| number == before.0 + 1 && layer.parent_root == before.1;
        if !progress.staged.iter().chain(&committed).any(follows) {
            let Some((head, root)) = progress.staged.or(committed) else { return Err(Error::NoState) };
            return Err(match number == head + 1 {
                true => Error::NotOnTop { expected: layer.parent_root, found: root },
                false => Error::NotNext { number, next: head + 1 },
            });
        }
        self.put(batch, layer);
        tables.put_history(batch, number, layer);
        tables.put_head(batch, number, layer.root);
        if let History::Blocks(kept) = self.options.history {
            while let Some(oldest) = progress.unpruned.filter(|oldest| oldest + kept <= number) {
                // What stands in the batch only is forgotten with a later one.
                let Some(keys) = tables.changed_keys(&snapshot, oldest)? else { break };
                tables.forget(batch, oldest, &keys);
                progress.unpruned = Some(oldest + 1);
            }
        }
        progress.unpruned.get_or_insert(number);
        progress.staged = Some((number, layer.root));
        Ok(())
    }

    /// What leads from the newest state back to the one after block `number`, to execute other blocks
    /// on top of before [`undo`](Self::undo) writes it.
    ///
    /// # Errors
    /// [`Error::NotKept`] if that is too long ago.
    pub fn reverse(&self, number: u64) -> Result<Layer, Error> {
        self.view()?.reverse(number, usize::MAX)
    }

    /// Puts what [`reverse`](Self::reverse) gave for `number` into a batch: afterwards `number` is the
    /// newest block, and others can follow in the same batch.
    ///
    /// # Errors
    /// [`Error::NotOnTop`] if blocks were committed since, and what the store says.
    pub fn undo(&self, batch: &mut Batch, number: u64, layer: &Layer) -> Result<(), Error> {
        let view = self.view()?;
        let Some(head) = view.head else { return Err(Error::NoState) };
        if layer.parent_root != view.root {
            return Err(Error::NotOnTop { expected: layer.parent_root, found: view.root });
        }
        let tables = &view.shared.tables;
        for block in number + 1..=head {
            if let Some(keys) = tables.changed_keys(&view.snapshot, block)? {
                tables.forget(batch, block, &keys);
            }
        }
        self.put(batch, layer);
        tables.put_head(batch, number, layer.root);
        let mut progress = self.progress();
        progress.staged = Some((number, layer.root));
        progress.unpruned = progress.unpruned.map(|oldest| oldest.min(number + 1));
        Ok(())
    }

    pub(crate) fn tables(&self) -> Tables {
        self.shared().tables
    }

    pub(crate) fn options(&self) -> Options {
        self.options
    }

    fn shared(&self) -> RwLockReadGuard<'_, Arc<Shared>> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables that are the state, and a snapshot in which they are: another set takes their place under the lock.
    fn newest(&self) -> (Arc<Shared>, Snapshot) {
        let shared = self.shared();
        let snapshot = self.database.snapshot();
        (Arc::clone(&shared), snapshot)
    }

    /// Commits a batch after which `shared` is the state, of block `number`.
    pub(crate) fn replace(
        &self,
        batch: Batch,
        shared: Arc<Shared>,
        number: u64,
        root: B256,
    ) -> Result<(), Error> {
        // In the order in which `commit` takes them.
        let mut progress = self.progress();
        let mut current = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        self.database.commit(batch, Durability::Synced)?;
        *progress = Progress { staged: Some((number, root)), unpruned: None };
        *current = shared;
        Ok(())
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The accounts, slots, codes and nodes of a layer.
    fn put(&self, batch: &mut Batch, layer: &Layer) {
        let tables = self.tables();
        for (key, account) in &layer.accounts {
            match &account.after {
                Some(after) => batch.put(tables.accounts, key, after.encode()),
                None => batch.delete(tables.accounts, key),
            }
        }
        for (account, storage) in &layer.storage {
            for (slot, value) in &storage.slots {
                let key = slot_key(account, slot);
                if value.after.is_zero() {
                    batch.delete(tables.storage, key);
                } else if value.before != value.after {
                    with_slot(value.after, |bytes| batch.put(tables.storage, key, bytes));
                }
            }
        }
        for (hash, code) in &layer.codes {
            batch.put(tables.codes, hash, code);
        }
        for (place, record) in &layer.nodes {
            let (table, key) = tables.node_key(&place.trie, place.path.as_ref());
            match record {
                Some(record) => batch.put(table, key, record),
                None => batch.delete(table, key),
            }
        }
    }
}

impl View {
    /// The layer from this committed state back to the one after `number`, of at most `limit` keys.
    pub(crate) fn reverse(&self, number: u64, limit: usize) -> Result<Layer, Error> {
        let Some(head) = self.head else { return Err(Error::NoState) };
        let tables = &self.shared.tables;
        if number >= head {
            return Err(tables.not_kept(&self.snapshot, number, head)?);
        }
        let changes = tables
            .reversed(&self.snapshot, head, number, limit)?
            .map_err(|oldest| Error::TooLongAgo { number, oldest })?;
        let expected = tables.changed_keys(&self.snapshot, number + 1)?.map(|keys| keys.root_before);
        let layer = self.apply_hashed(changes)?;
        match expected {
            Some(expected) if expected != layer.root => Err(Error::WrongRoot { expected, found: layer.root }),
            _ => Ok(layer),
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("history", &self.options.history).finish_non_exhaustive()
    }
}
