//! How many streams are open: so many for each user, so that nobody takes all of them; and all together so many that
//! half of the threads that wait for outcomes are left to others.

use super::super::connection::Lease;
use super::super::failure::Failure;
use axum::http::Extensions;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tally_slots::{Slot, Working};

/// Streams of one user at once.
const MAX_OF_USER: usize = 32;
/// Streams of everybody at once.
const MAX: usize = super::super::MAX_WAITING / 2;

/// The streams that are open, by user.
#[derive(Clone, Default)]
pub(in crate::server) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

/// What keeps a stream: its place, its connection beyond that one's age, and its slot against newcomers.
pub(in crate::server) struct Kept {
    _place: Place,
    _connection: Option<Arc<()>>,
    _slot: Option<Working>,
}

/// A stream's place.
struct Place {
    streams: Streams,
    user: String,
}

impl Streams {
    /// Keeps another stream of that user, which was asked for by a request with those extensions.
    ///
    /// # Errors
    /// When there are as many as may be.
    pub(in crate::server) fn keep(&self, user: &str, extensions: &Extensions) -> Result<Kept, Failure> {
        let full = "there are as many streams as may be; use those, or try later";
        let place = self.open(user).ok_or_else(|| Failure::new(429, "streams", full))?;
        let slot = extensions.get::<Arc<Slot>>();
        if let Some(slot) = slot {
            slot.is_users();
        }
        Ok(Kept {
            _place: place,
            _connection: extensions.get::<Lease>().and_then(|Lease(lease)| lease.upgrade()),
            _slot: slot.and_then(Slot::try_working),
        })
    }

    /// A place for another stream of that user, if there is one.
    fn open(&self, user: &str) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.get(user).copied().unwrap_or_default();
        if own >= MAX_OF_USER || open.values().sum::<usize>() >= MAX {
            return None;
        }
        open.insert(user.to_owned(), own + 1);
        Some(Place { streams: self.clone(), user: user.to_owned() })
    }

    /// How many are open.
    pub(in crate::server) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_places() {
        let streams = Streams::default();
        let held: Vec<_> = (0..MAX_OF_USER).map(|_| streams.open("alice").unwrap()).collect();
        assert!(streams.open("alice").is_none());
        let other = streams.open("bob").unwrap();
        drop(held);
        assert_eq!(streams.count(), 1);
        assert!(streams.open("alice").is_some());
        drop(other);
        assert_eq!(streams.count(), 0);
        let all: Vec<_> = (0..MAX).filter_map(|n| streams.open(&format!("user{n}"))).collect();
        assert_eq!(all.len(), MAX);
        assert!(streams.open("bob").is_none());
    }
}
