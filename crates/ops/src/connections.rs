//! Who keeps a connection to a listener when there are too many: those that have shown who they are.
//!
//! A stranger costs nothing to be, so strangers push out strangers: of the same address first, and the oldest first,
//! since an honest client does in milliseconds what makes it known. The listener decides what "known" means, such as a
//! login.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Close = Box<dyn FnOnce() + Send>;

/// The connections that a listener may have at once. Cheap to clone.
#[derive(Clone)]
pub struct Places {
    most: usize,
    of_source: usize,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    count: usize,
    turns: u64,
    /// The connections of strangers, in the order in which they were last active.
    strangers: BTreeMap<u64, Stranger>,
    /// How many of them are from each source.
    sources: HashMap<IpAddr, usize>,
}

struct Stranger {
    source: IpAddr,
    close: Close,
}

/// The place of one connection, given back when dropped.
pub struct Place {
    places: Places,
    /// Where it is among the strangers; `None` when it is known.
    turn: Mutex<Option<u64>>,
}

/// What became of a newcomer.
pub struct Entered {
    /// Its place.
    pub place: Place,
    /// Whether the place was that of another, which was told to close.
    pub evicted: bool,
}

impl Places {
    /// `most` connections at once, `of_source` of them from strangers at one address. An address of IPv6 stands for its
    /// /64, which one subscriber has. Each limit is one at least.
    pub fn new(most: usize, of_source: usize) -> Self {
        Self { most: most.max(1), of_source: of_source.max(1), held: Arc::default() }
    }

    /// A place for a new connection of a stranger. `close` is called, at most once, when another needs the place; it must
    /// be quick. `None` when all places are of those who are known.
    pub fn enter(&self, source: IpAddr, close: impl FnOnce() + Send + 'static) -> Option<Entered> {
        let source = subscriber(source);
        let mut held = self.lock();
        let evicted = if held.sources.get(&source).is_some_and(|count| *count >= self.of_source) {
            let own = held.strangers.iter().find(|(_, stranger)| stranger.source == source);
            own.map(|(turn, _)| *turn)
        } else if held.count >= self.most {
            Some(*held.strangers.first_key_value()?.0)
        } else {
            None
        };
        let close_other = evicted.and_then(|turn| held.leave(turn)).map(|stranger| stranger.close);
        held.count += 1;
        held.turns += 1;
        let turn = held.turns;
        held.strangers.insert(turn, Stranger { source, close: Box::new(close) });
        *held.sources.entry(source).or_default() += 1;
        drop(held);
        let evicted = close_other.is_some();
        if let Some(close) = close_other {
            close();
        }
        Some(Entered { place: Place { places: self.clone(), turn: Mutex::new(Some(turn)) }, evicted })
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.lock().count
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// A stranger's place is another's, or nobody's.
    fn leave(&mut self, turn: u64) -> Option<Stranger> {
        let stranger = self.become_known(turn)?;
        self.count -= 1;
        Some(stranger)
    }

    fn become_known(&mut self, turn: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&turn)?;
        if let Some(count) = self.sources.get_mut(&stranger.source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&stranger.source);
            }
        }
        Some(stranger)
    }
}

impl Place {
    /// The connection has shown who it is, and keeps its place from now on; `false` when it was another's already.
    pub fn known(&self) -> bool {
        let mut own = self.turn();
        match *own {
            None => true,
            Some(turn) => {
                let is_held = self.places.lock().become_known(turn).is_some();
                if is_held {
                    *own = None;
                }
                is_held
            }
        }
    }

    /// Has the connection shown who it is?
    pub fn is_known(&self) -> bool {
        self.turn().is_none()
    }

    /// The connection does something: of the strangers it is now the last to go.
    pub fn is_active(&self) {
        let mut own = self.turn();
        let Some(turn) = *own else { return };
        let mut held = self.places.lock();
        if let Some(stranger) = held.strangers.remove(&turn) {
            held.turns += 1;
            let latest = held.turns;
            held.strangers.insert(latest, stranger);
            *own = Some(latest);
        }
    }

    fn turn(&self) -> MutexGuard<'_, Option<u64>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let turn = *self.turn();
        let mut held = self.places.lock();
        match turn {
            None => held.count -= 1,
            // One whose place is another's does not count any more.
            Some(turn) => drop(held.leave(turn)),
        }
    }
}

/// One subscriber has a whole /64 of IPv6.
fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Door {
        places: Places,
        closed: Arc<AtomicUsize>,
    }

    impl Door {
        fn new(most: usize, of_source: usize) -> Self {
            Self { places: Places::new(most, of_source), closed: Arc::default() }
        }

        /// A connection from `source`, that notes its number when it is closed.
        fn enter(&self, source: &str, number: usize) -> Option<Place> {
            let closed = self.closed.clone();
            let close = move || closed.store(number, Ordering::SeqCst);
            self.places.enter(source.parse().expect("an address"), close).map(|entered| entered.place)
        }

        fn closed(&self) -> usize {
            self.closed.swap(0, Ordering::SeqCst)
        }
    }

    #[test]
    fn strangers_push_out_strangers_of_their_own_address_first() {
        let door = Door::new(3, 2);
        let _quiet = door.enter("10.0.0.1", 1).expect("a place");
        let _first = door.enter("10.0.0.2", 2).expect("a place");
        let _second = door.enter("10.0.0.2", 3).expect("a place");
        let _third = door.enter("10.0.0.2", 4).expect("a place");
        assert_eq!(door.closed(), 2, "the older of its own address, though another is older");
        let _fourth = door.enter("10.0.0.3", 5).expect("a place");
        assert_eq!(door.closed(), 1, "of all addresses the oldest");
        assert_eq!(door.places.len(), 3);
    }

    #[test]
    fn who_is_known_stays_and_who_is_active_goes_later() {
        let door = Door::new(2, 2);
        let user = door.enter("10.0.0.1", 1).expect("a place");
        assert!(user.known() && user.is_known() && user.known());
        let active = door.enter("10.0.0.1", 2).expect("a place");
        let newcomer = door.enter("10.0.0.2", 3).expect("a place");
        assert_eq!(door.closed(), 2);
        assert!(!active.known(), "its place is another's");
        assert!(newcomer.known());
        assert!(door.enter("10.0.0.3", 4).is_none(), "all are known");
        drop(active);
        drop(user);
        let (older, _younger) = (door.enter("10.0.0.4", 5).expect("a place"), 0);
        drop(newcomer);
        let _younger = door.enter("10.0.0.5", 6).expect("a place");
        older.is_active();
        let _latest = door.enter("10.0.0.6", 7).expect("a place");
        assert_eq!(door.closed(), 6, "the other was active since");
    }

    #[test]
    fn places_come_back_and_a_subscriber_of_ipv6_is_one_source() {
        let door = Door::new(8, 1);
        let first = door.enter("2001:db8::1", 1).expect("a place");
        let second = door.enter("2001:db8::ffff:1", 2).expect("a place");
        assert_eq!(door.closed(), 1);
        let mapped = door.enter("::ffff:10.0.0.1", 3).expect("a place");
        let plain = door.enter("10.0.0.1", 4).expect("a place");
        assert_eq!(door.closed(), 3);
        drop((first, second, mapped, plain));
        assert!(door.places.is_empty());
        assert!(door.places.lock().sources.is_empty() && door.places.lock().strangers.is_empty());
    }
}
