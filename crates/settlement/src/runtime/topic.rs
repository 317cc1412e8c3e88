//! Topics: ordered batches from one stage to others.
//!
//! A topic lives in memory, or in memory before a [`Log`]: then each batch is appended to the log as
//! well, and a reader may ask to see only what is durable. Across processes a reader reads a [shared log](tally_log::cluster::SharedLog)
//! instead ([`Reader::shared`]). A stage cannot tell which it reads.

use super::executor::Signal;
use super::feed::{Feeds, Polled, Unreadable};
use crate::message::Message;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tally_log::{Log, LogError, Offset, Ticket, TopicId, Visibility};

/// A topic that could not take a batch or give one.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// The log behind it refused.
    #[error("the log behind topic '{topic}' failed")]
    Log {
        /// The topic's name.
        topic: String,
        /// Why.
        #[source]
        source: LogError,
    },
    /// A record that others wrote cannot be read, and to pass over it could change a decision.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

struct Entry<T> {
    ticket: Ticket,
    value: Arc<T>,
}

struct Queue<T> {
    /// Position of the first entry held.
    first: u64,
    entries: VecDeque<Entry<T>>,
    /// The next position that each reader wants.
    readers: Vec<u64>,
    /// Where batches are encoded for the log.
    scratch: Vec<u8>,
}

struct Shared<T> {
    name: String,
    queue: Mutex<Queue<T>>,
    capacity: u64,
    log: Option<(Arc<dyn Log>, TopicId)>,
    signal: Arc<Signal>,
    held: AtomicU64,
}

/// A topic; clones name the same one.
pub struct Topic<T>(Arc<Shared<T>>);

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Topic<T> {
    fn with(
        name: &str,
        capacity: usize,
        first: u64,
        log: Option<(Arc<dyn Log>, TopicId)>,
        signal: &Arc<Signal>,
    ) -> Self {
        let queue = Queue { first, entries: VecDeque::new(), readers: Vec::new(), scratch: Vec::new() };
        Self(Arc::new(Shared {
            name: name.to_owned(),
            queue: Mutex::new(queue),
            capacity: capacity as u64,
            log,
            signal: Arc::clone(signal),
            held: AtomicU64::new(0),
        }))
    }

    /// A topic in memory that holds about `capacity` batches before its writer should wait.
    pub fn memory(name: &str, capacity: usize, signal: &Arc<Signal>) -> Self {
        Self::with(name, capacity, 0, None, signal)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.0.queue.lock().expect("no holder of a topic's lock panics")
    }

    /// Whether its slowest reader is near enough for the writer to go on.
    pub fn has_room(&self) -> bool {
        self.0.held.load(Ordering::Relaxed) < self.0.capacity
    }

    /// A reader of everything from now on.
    pub fn reader(&self, visibility: Visibility) -> Reader<T> {
        let mut queue = self.lock();
        let next = queue.first + queue.entries.len() as u64;
        queue.readers.push(next);
        let local = Local { topic: self.clone(), index: queue.readers.len() - 1, visibility };
        Reader(Backing::Local(local))
    }

    fn push(&self, mut queue: MutexGuard<'_, Queue<T>>, ticket: Ticket, value: Arc<T>) -> u64 {
        let position = queue.first + queue.entries.len() as u64;
        if queue.readers.is_empty() {
            queue.first = position + 1;
        } else {
            queue.entries.push_back(Entry { ticket, value });
            self.0.held.store(queue.entries.len() as u64, Ordering::Relaxed);
        }
        drop(queue);
        self.0.signal.notify();
        position
    }

    /// Appends to a topic in memory; its position.
    pub fn send(&self, value: Arc<T>) -> u64 {
        debug_assert!(self.0.log.is_none(), "a logged topic is sent to by `append`");
        self.push(self.lock(), Ticket(0), value)
    }
}

impl<T: Message> Topic<T> {
    /// A topic before `log`, going on after what the log holds.
    pub fn logged(
        name: &str,
        capacity: usize,
        log: Arc<dyn Log>,
        topic: TopicId,
        signal: &Arc<Signal>,
    ) -> Self {
        let next = log.next(topic).0;
        Self::with(name, capacity, next, Some((log, topic)), signal)
    }

    /// Appends to the topic, and to the log where it has one; its position, and its ticket in the log.
    ///
    /// # Errors
    /// When the log refuses; nothing is appended then.
    pub fn append(&self, value: Arc<T>) -> Result<(u64, Ticket), TopicError> {
        let mut queue = self.lock();
        let Some((log, topic)) = &self.0.log else {
            return Ok((self.push(queue, Ticket(0), value), Ticket(0)));
        };
        let mut scratch = std::mem::take(&mut queue.scratch);
        let appended = value.encode_parts(&mut scratch, |parts| log.append(*topic, parts));
        queue.scratch = scratch;
        let appended = appended.map_err(|source| TopicError::Log { topic: self.0.name.clone(), source })?;
        let position = self.push(queue, appended.ticket, value);
        debug_assert_eq!(appended.offset, Offset(position), "a topic has one writer");
        Ok((position, appended.ticket))
    }
}

/// Reads a topic in order.
pub struct Reader<T>(Backing<T>);

enum Backing<T> {
    Local(Local<T>),
    Shared(Feeds),
}

struct Local<T> {
    topic: Topic<T>,
    index: usize,
    visibility: Visibility,
}

impl<T: Message> Reader<T> {
    /// A reader of what other processes append: the partitions of `feeds` in turn, each in its order.
    pub fn shared(feeds: Feeds) -> Self {
        Self(Backing::Shared(feeds))
    }

    /// What other processes append; none where the topic is this process's own. Then everything that was appended before
    /// something else was can be read before it.
    pub(crate) fn feeds(&self) -> Option<&Feeds> {
        match &self.0 {
            Backing::Local(_) => None,
            Backing::Shared(feeds) => Some(feeds),
        }
    }

    /// The next batch with its place, if one is there that this reader may see.
    ///
    /// # Errors
    /// When what is there cannot be read; it is not passed over.
    pub fn poll(&mut self) -> Result<Option<Polled<T>>, TopicError> {
        self.poll_unless(|_| false)
    }

    /// The next batch as [`Self::poll`] gives it, but none of the partitions of which `waits` says so.
    ///
    /// # Errors
    /// When what is there cannot be read; it is not passed over.
    pub fn poll_unless(&mut self, waits: impl Fn(usize) -> bool) -> Result<Option<Polled<T>>, TopicError> {
        match &mut self.0 {
            Backing::Local(_) if waits(0) => Ok(None),
            Backing::Local(local) => {
                Ok(local.poll().map(|(position, value)| Polled { feed: 0, position, value }))
            }
            Backing::Shared(feeds) => Ok(feeds.poll_unless(waits)?),
        }
    }
}

impl<T> Local<T> {
    fn poll(&mut self) -> Option<(u64, Arc<T>)> {
        let mut queue = self.topic.lock();
        let position = queue.readers[self.index];
        let at = usize::try_from(position - queue.first).expect("a queue fits in memory");
        let entry = queue.entries.get(at)?;
        if self.visibility == Visibility::Durable
            && let Some((log, _)) = &self.topic.0.log
            && log.durable() < entry.ticket
        {
            return None;
        }
        let value = Arc::clone(&entry.value);
        queue.readers[self.index] += 1;
        let slowest = queue.readers.iter().copied().min().expect("this reader is one");
        let mut dropped = Vec::new();
        while queue.first < slowest {
            dropped.extend(queue.entries.pop_front());
            queue.first += 1;
        }
        self.topic.0.held.store(queue.entries.len() as u64, Ordering::Relaxed);
        drop(queue);
        // Freeing a batch takes longer than reading one: not under the lock.
        drop(dropped);
        Some((position, value))
    }
}
