//! A fixed number of places for connections, each opened when it is needed.

use crate::Result;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Pool<C> {
    // A place without a connection is one whose connection was lost.
    free: Mutex<Vec<Option<C>>>,
    freed: Condvar,
}

impl<C> Pool<C> {
    pub(crate) fn new(connections: Vec<C>) -> Self {
        Self { free: Mutex::new(connections.into_iter().map(Some).collect()), freed: Condvar::new() }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Option<C>>> {
        // Places are taken and given back whole, so a panic between leaves the list right.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. The place is free again when what is returned is dropped.
    pub(crate) fn take(&self) -> Place<'_, C> {
        let mut free = self.free();
        loop {
            if let Some(connection) = free.pop() {
                return Place { pool: self, connection };
            }
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

pub(crate) struct Place<'a, C> {
    pool: &'a Pool<C>,
    connection: Option<C>,
}

impl<C> Place<'_, C> {
    /// The connection, opened now if the place has none.
    pub(crate) fn connection(&mut self, open: impl FnOnce() -> Result<C>) -> Result<&mut C> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(open()?)),
        }
    }

    /// Closes the connection: the next user of the place opens another.
    pub(crate) fn discard(&mut self) {
        self.connection = None;
    }
}

impl<C> Drop for Place<'_, C> {
    fn drop(&mut self) {
        // A connection in the middle of a panic is in an unknown state.
        let connection = if std::thread::panicking() { None } else { self.connection.take() };
        self.pool.free().push(connection);
        self.pool.freed.notify_one();
    }
}
