//! Connections that have not finished their handshake.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::shared::lock;

/// The handshakes under way, oldest first. An honest handshake takes milliseconds, so the one that has
/// tried longest is the one to push out when there are too many.
#[derive(Debug)]
pub(crate) struct Pending {
    limit: usize,
    places: Mutex<VecDeque<Arc<Notify>>>,
}

/// The place of one handshake, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pending: &'a Pending,
    evicted: Arc<Notify>,
}

impl Pending {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, places: Mutex::default() }
    }

    /// Takes a place; returns whether another had to give way.
    pub(crate) fn enter(&self) -> (Place<'_>, bool) {
        let evicted = Arc::new(Notify::new());
        let mut places = lock(&self.places);
        let oldest = if places.len() >= self.limit { places.pop_front() } else { None };
        places.push_back(Arc::clone(&evicted));
        if let Some(oldest) = &oldest {
            oldest.notify_one();
        }
        (Place { pending: self, evicted }, oldest.is_some())
    }
}

impl Place<'_> {
    /// Resolves when the place is wanted by a newer handshake.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = lock(&self.pending.places);
        if let Some(index) = places.iter().position(|place| Arc::ptr_eq(place, &self.evicted)) {
            places.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_oldest_gives_way_and_places_come_back() {
        let pending = Pending::new(2);
        let (first, evicted) = pending.enter();
        assert!(!evicted);
        let (second, evicted) = pending.enter();
        assert!(!evicted);
        drop(second);
        let (third, evicted) = pending.enter();
        assert!(!evicted, "the second's place is free");
        let (_fourth, evicted) = pending.enter();
        assert!(evicted);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(first.evicted()).poll(&mut context).is_ready());
        assert!(pin!(third.evicted()).poll(&mut context).is_pending());
        drop(first);
        assert_eq!(lock(&pending.places).len(), 2);
    }
}
