//! The methods that a server offers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{RpcError, TIMED_OUT};
use crate::params::Params;

use super::share::{Gate, Inside, Taken};
use super::stream::{HELD, Outgoing};
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
    around: Option<Around<'a>>,
}

/// What the server knows of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// What the request has taken of what all answers share.
    pub(super) taken: &'a Taken,
    /// Bytes of the request's answer before this call's.
    pub(super) before: usize,
    /// Where traces get a place.
    pub(super) gate: &'a Gate,
    /// Where the answer may leave while it is made.
    pub(super) outgoing: Option<&'a Outgoing>,
}

/// A trace is being made; another may be once this is dropped.
#[derive(Debug)]
pub struct Tracing<'a> {
    _place: Option<Inside<'a>>,
}

impl<'a> CallContext<'a> {
    /// A context; `stop` becomes true when nobody waits for the result anymore.
    #[must_use]
    pub fn new(place: Place, deadline: Instant, answer_bytes: usize, stop: &'a AtomicBool) -> Self {
        Self { place, deadline, answer_bytes, stop, around: None }
    }

    pub(super) fn within(self, around: Around<'a>) -> Self {
        Self { around: Some(around), ..self }
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
        let leaving = self.outgoing().and_then(Outgoing::until);
        if self.stop.load(Ordering::Relaxed) || Instant::now() >= leaving.unwrap_or(self.deadline) {
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
    /// -32005 when it may not: because of its own length, or of what all answers hold together.
    pub fn check_size(&self, written: usize) -> Result<(), RpcError> {
        self.check_held(written, 0)
    }

    /// As [`CallContext::check_size`], for a call that holds `beside` bytes beside its result.
    ///
    /// # Errors
    /// -32005 when it may not.
    pub fn check_held(&self, written: usize, beside: usize) -> Result<(), RpcError> {
        let held = written.saturating_add(beside);
        if held > self.answer_bytes {
            return Err(RpcError::limit(format!(
                "limit exceeded: the answer has more than {} bytes, ask for less",
                self.answer_bytes
            )));
        }
        let Some(around) = self.around else { return Ok(()) };
        let before = if self.is_leaving() { HELD } else { around.before };
        if around.taken.raise_to(before.saturating_add(held)) {
            Ok(())
        } else {
            Err(RpcError::answers_full())
        }
    }

    fn outgoing(&self) -> Option<&'a Outgoing> {
        self.around.and_then(|around| around.outgoing)
    }

    /// Whether the answer has begun to leave: what was written is not in the buffer anymore.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.outgoing().is_some_and(|outgoing| outgoing.until().is_some())
    }

    /// Lets what was written leave, if there is enough of it and the request is one whose answer may leave
    /// while it is made (one call, over HTTP); otherwise as [`CallContext::check_size`] of what `out` has
    /// from `start` on.
    ///
    /// Who calls this must leave the whole value of a result in `out` also where it then fails: the text so
    /// far may have left. The error is sent after it, as a member of its own, and null as the result.
    ///
    /// # Errors
    /// -32005 when the answer may not grow, -32002 when nobody reads it or the time is up.
    pub fn pass_on(&self, out: &mut Vec<u8>, start: usize) -> Result<(), RpcError> {
        self.check()?;
        if let Some(around) = self.around
            && let Some(outgoing) = around.outgoing
            && outgoing.pass_on(out)?
        {
            return Ok(());
        }
        self.check_size(out.len() - start)
    }

    /// A place among the traces that may be made at a time.
    ///
    /// # Errors
    /// -32005 when there is none.
    pub fn trace(&self) -> Result<Tracing<'a>, RpcError> {
        let Some(around) = self.around else { return Ok(Tracing { _place: None }) };
        let place = around.gate.enter().ok_or_else(|| {
            RpcError::limit(format!(
                "limit exceeded: {} traces are being made, as many as may, try again later",
                around.gate.most()
            ))
        })?;
        Ok(Tracing { _place: Some(place) })
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
