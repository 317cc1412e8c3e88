//! Filters that clients poll: `eth_newFilter`, `eth_getFilterChanges` and the like.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use ring::rand::{SecureRandom as _, SystemRandom};
use tally_chain::BlockId;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;

use super::client::write_bool;
use super::logs;
use super::{Answer, Api, Methods, read_error};
use crate::error::RpcError;
use crate::params::{BlockName, LogQuery, LogRange, Params};
use crate::server::CallContext;
use crate::write;

/// Blocks that one poll of a block filter tells of.
const MOST_BLOCKS: u64 = 10_000;

/// All filters.
#[derive(Debug)]
pub(super) struct Filters {
    most: usize,
    idle: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    filters: HashMap<u64, Kept>,
}

#[derive(Debug)]
struct Kept {
    kind: Kind,
    asked: Instant,
}

#[derive(Debug)]
enum Kind {
    /// Logs of blocks after the one that was seen last.
    Logs { query: LogQuery, seen: u64 },
    /// Blocks after the one that was seen last.
    Blocks { seen: u64 },
    /// Transactions as they come into the pool.
    Pending(broadcast::Receiver<B256>),
}

impl Filters {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { most, idle, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        inner.filters.retain(|_, kept| now.duration_since(kept.asked) < self.idle);
        inner
    }

    fn add(&self, kind: Kind) -> Result<u64, RpcError> {
        let mut inner = self.lock();
        if inner.filters.len() >= self.most {
            return Err(RpcError::limit(format!("limit exceeded: there are {} filters already", self.most)));
        }
        loop {
            let id = self.random_id()?;
            if let Entry::Vacant(free) = inner.filters.entry(id) {
                free.insert(Kept { kind, asked: Instant::now() });
                return Ok(id);
            }
        }
    }

    /// Nobody can tell from its own filter's identifier what another's is: who knows it can read and remove the filter.
    fn random_id(&self) -> Result<u64, RpcError> {
        let mut bytes = [0; 8];
        let drawn = SystemRandom::new().fill(&mut bytes);
        drawn.map_err(|_| RpcError::internal("the system gave no random number"))?;
        Ok(u64::from_le_bytes(bytes))
    }
}

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_newFilter", |api, params, out, _| {
        let [query] = params.take::<1>()?;
        let query = query.required::<LogQuery>()?;
        let seen = api.chain().head().number();
        write::quantity(out, api.filters.add(Kind::Logs { query, seen })?);
        Ok(())
    });
    methods.add("eth_newBlockFilter", |api, params, out, _| {
        params.none()?;
        let seen = api.chain().head().number();
        write::quantity(out, api.filters.add(Kind::Blocks { seen })?);
        Ok(())
    });
    methods.add("eth_newPendingTransactionFilter", |api, params, out, _| {
        params.none()?;
        write::quantity(out, api.filters.add(Kind::Pending(api.node.subscribe_pending()))?);
        Ok(())
    });
    methods.add("eth_uninstallFilter", |api, params, out, _| {
        let [id] = params.take::<1>()?;
        let id = id.required::<u64>()?;
        write_bool(out, api.filters.lock().filters.remove(&id).is_some());
        Ok(())
    });
    methods.add("eth_getFilterChanges", changes);
    methods.add("eth_getFilterLogs", |api, params, out, context| {
        let [id] = params.take::<1>()?;
        let id = id.required::<u64>()?;
        context.costly()?;
        let query = match api.filters.lock().filters.get_mut(&id) {
            Some(Kept { kind: Kind::Logs { query, .. }, asked }) => {
                *asked = Instant::now();
                query.clone()
            }
            _ => return Err(not_found()),
        };
        let reader = api.chain().reader();
        let range = logs::range(api, &reader, query.range)?;
        logs::search(api, &reader, &query.filter, range, out, context)
    });
}

fn not_found() -> RpcError {
    RpcError::server("filter not found")
}

fn changes(api: &Api, params: Params<'_>, out: &mut Vec<u8>, context: &CallContext<'_>) -> Answer {
    let [id] = params.take::<1>()?;
    let id = id.required::<u64>()?;
    let reader = api.chain().reader();
    let head = reader.head().number();
    let mut inner = api.filters.lock();
    let kept = inner.filters.get_mut(&id).ok_or_else(not_found)?;
    match &mut kept.kind {
        Kind::Pending(receiver) => {
            let mut hashes = Vec::new();
            loop {
                match receiver.try_recv() {
                    Ok(hash) => hashes.push(hash),
                    // Who polls too rarely misses the oldest.
                    Err(TryRecvError::Lagged(_)) => {}
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            write::array(out, &hashes, |out, hash| write::data(out, hash.as_slice()));
        }
        Kind::Blocks { seen } => {
            let first = seen.saturating_add(1).max(head.saturating_sub(MOST_BLOCKS));
            let hashes = (first..=head)
                .map(|number| Ok(reader.header(BlockId::Number(number))?.map(|header| header.hash)))
                .collect::<Result<Vec<_>, _>>()
                .map_err(read_error)?;
            write::array(out, hashes.iter().flatten(), |out, hash| write::data(out, hash.as_slice()));
            *seen = head;
        }
        Kind::Logs { query, seen } => {
            let first = seen.saturating_add(1);
            let (from, to) = match query.range {
                LogRange::Range(from, to) => (numbered(from), numbered(to)),
                LogRange::Block(_) => (None, Some(0)),
            };
            let first = first.max(from.unwrap_or(0));
            let last = head.min(to.unwrap_or(u64::MAX));
            if first > last {
                out.extend_from_slice(b"[]");
                kept.asked = Instant::now();
                return Ok(());
            }
            context.costly()?;
            let filter = query.filter.clone();
            drop(inner);
            // Only what was told of counts as seen.
            logs::search(api, &reader, &filter, first..=last, out, context)?;
            if let Some(Kept { kind: Kind::Logs { seen, .. }, asked }) =
                api.filters.lock().filters.get_mut(&id)
            {
                *seen = (*seen).max(last);
                *asked = Instant::now();
            }
            return Ok(());
        }
    }
    kept.asked = Instant::now();
    Ok(())
}

/// The end of a range, where it is a number.
fn numbered(name: Option<BlockName>) -> Option<u64> {
    match name {
        Some(BlockName::Number(number)) => Some(number),
        Some(BlockName::Earliest) => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_from_no_other() {
        let filters = Filters::new(100, Duration::from_secs(60));
        let mut ids: Vec<u64> = (0..100).map(|_| filters.add(Kind::Blocks { seen: 0 }).unwrap()).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[1] - pair[0] > 1));
        assert!(filters.add(Kind::Blocks { seen: 0 }).is_err());
    }
}
