//! The methods that a server offers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{RpcError, TIMED_OUT};
use crate::params::Params;

use super::subscription::Subscriptions;

/// A method: reads its parameters and writes its result, as JSON text, to the end of the buffer.
pub type Handler =
    Box<dyn for<'a> Fn(Params<'a>, &mut Vec<u8>, &CallContext<'a>) -> Result<(), RpcError> + Send + Sync>;

/// Where a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On a thread that serves other connections too: nothing may take longer than a millisecond or so.
    Inline,
    /// On a thread for costly calls.
    Pool,
    /// Inline, when the pool is full: what is costly is refused.
    Refused,
}

/// What a method knows about the call around its parameters.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// Where it runs.
    pub place: Place,
    /// When it must be done.
    pub deadline: Instant,
    /// Bytes that the result may have.
    pub answer_bytes: usize,
    stop: &'a AtomicBool,
}

impl<'a> CallContext<'a> {
    /// A context; `stop` becomes true when nobody waits for the result anymore.
    #[must_use]
    pub fn new(place: Place, deadline: Instant, answer_bytes: usize, stop: &'a AtomicBool) -> Self {
        Self { place, deadline, answer_bytes, stop }
    }

    /// What becomes true when nobody waits for the result anymore, for work that polls a flag.
    #[must_use]
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Whether to go on; long work asks now and then.
    ///
    /// # Errors
    /// -32002 when the client has gone or the time is up.
    pub fn check(&self) -> Result<(), RpcError> {
        if self.stop.load(Ordering::Relaxed) || Instant::now() >= self.deadline {
            return Err(RpcError::new(TIMED_OUT, "request timed out"));
        }
        Ok(())
    }

    /// Says that what follows is costly: goes on where that is allowed.
    ///
    /// # Errors
    /// [`RpcError::costly`] on an IO thread: pass it on.
    pub fn costly(&self) -> Result<(), RpcError> {
        match self.place {
            Place::Pool => self.check(),
            Place::Inline | Place::Refused => Err(RpcError::costly()),
        }
    }

    /// Whether the result, so far `written` bytes, may grow.
    ///
    /// # Errors
    /// -32005 when it may not.
    pub fn check_size(&self, written: usize) -> Result<(), RpcError> {
        if written > self.answer_bytes {
            return Err(RpcError::limit(format!(
                "limit exceeded: the answer has more than {} bytes, ask for less",
                self.answer_bytes
            )));
        }
        Ok(())
    }
}

struct Method {
    handler: Handler,
    lane: Lane,
}

/// What a costly call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    /// Processor time: as many threads as there are cores serve it best.
    #[default]
    Work,
    /// Waiting, mostly for a disk: many threads wait together.
    Wait,
}

/// Methods by name.
#[derive(Default)]
pub struct Registry {
    methods: HashMap<Box<str>, Method>,
    subscriptions: Option<Arc<dyn Subscriptions>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("methods", &self.methods.len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// No methods yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method; its namespace is what stands before the first underscore. A second one of the same
    /// name takes the place of the first.
    pub fn add<H>(&mut self, name: &str, handler: H)
    where
        H: for<'a> Fn(Params<'a>, &mut Vec<u8>, &CallContext<'a>) -> Result<(), RpcError>
            + Send
            + Sync
            + 'static,
    {
        self.insert(name, Lane::Work, Box::new(handler));
    }

    /// As [`Registry::add`] for a method that mostly waits once it is costly.
    pub fn add_waiting<H>(&mut self, name: &str, handler: H)
    where
        H: for<'a> Fn(Params<'a>, &mut Vec<u8>, &CallContext<'a>) -> Result<(), RpcError>
            + Send
            + Sync
            + 'static,
    {
        self.insert(name, Lane::Wait, Box::new(handler));
    }

    fn insert(&mut self, name: &str, lane: Lane, handler: Handler) {
        self.methods.insert(name.into(), Method { handler, lane });
    }

    /// What the method takes when it is costly.
    #[must_use]
    pub fn lane(&self, name: &str) -> Lane {
        self.methods.get(name).map_or(Lane::Work, |method| method.lane)
    }

    /// Sets what answers `eth_subscribe`.
    pub fn set_subscriptions(&mut self, subscriptions: Arc<dyn Subscriptions>) {
        self.subscriptions = Some(subscriptions);
    }

    /// The names of all methods, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.methods.keys().map(AsRef::as_ref)
    }

    /// The method of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Handler> {
        self.methods.get(name).map(|method| &method.handler)
    }

    pub(super) fn subscriptions(&self) -> Option<&Arc<dyn Subscriptions>> {
        self.subscriptions.as_ref()
    }
}
