//! Slows down those who guess passwords. Pure: time comes in as input.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures that cost nothing, for one user from one address; from one address; for one user from anywhere. The last
/// is wide, so that strangers cannot easily keep a user out.
const FREE: [u32; 3] = [5, 20, 100];
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Failures are forgotten after this long without another.
const MEMORY: Duration = Duration::from_secs(15 * 60);
const ENTRIES_LIMIT: usize = 30_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    UserAt(Box<str>, IpAddr),
    At(IpAddr),
    User(Box<str>),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    latest: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Throttle(HashMap<Key, Failures>);

impl Throttle {
    /// How long until this user may try again from this address; `None` when now.
    pub(crate) fn wait(&self, user: &str, address: IpAddr, now: Instant) -> Option<Duration> {
        let waits = keys(user, address).into_iter().zip(FREE).filter_map(|(key, free)| {
            let failures = self.0.get(&key)?;
            let beyond = failures.count.checked_sub(free)?;
            let wait = FIRST_WAIT.saturating_mul(1 << beyond.min(6)).min(LONGEST_WAIT);
            (failures.latest + wait).checked_duration_since(now).filter(|left| !left.is_zero())
        });
        waits.max()
    }

    /// Counts a failed attempt.
    pub(crate) fn failed(&mut self, user: &str, address: IpAddr, now: Instant) {
        if self.0.len() + FREE.len() > ENTRIES_LIMIT {
            self.0.retain(|_, failures| now.duration_since(failures.latest) < MEMORY);
        }
        // Someone has very many addresses: those and names that failed once are worth the least.
        if self.0.len() + FREE.len() > ENTRIES_LIMIT {
            self.0.retain(|_, failures| failures.count > FREE[0]);
        }
        if self.0.len() + FREE.len() > ENTRIES_LIMIT {
            self.0.clear();
        }
        for key in keys(user, address) {
            let failures = self.0.entry(key).or_insert(Failures { count: 0, latest: now });
            if now.duration_since(failures.latest) >= MEMORY {
                failures.count = 0;
            }
            failures.count = failures.count.saturating_add(1);
            failures.latest = now;
        }
    }

    /// Forgets the failures of this user from this address, who turned out to know the password.
    pub(crate) fn succeeded(&mut self, user: &str, address: IpAddr) {
        let [both, _, _] = keys(user, address);
        self.0.remove(&both);
    }
}

fn keys(user: &str, address: IpAddr) -> [Key; 3] {
    let user: Box<str> = user.chars().take(crate::users::NAME_LIMIT).collect();
    // One subscriber has a whole /64 of IPv6.
    let address = match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    };
    [Key::UserAt(user.clone(), address), Key::At(address), Key::User(user)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn waits_double_up_to_a_minute_and_success_ends_them() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..4 {
            throttle.failed("a", HERE, now);
        }
        assert_eq!(throttle.wait("a", HERE, now), None);
        let mut waits = Vec::new();
        for _ in 0..8 {
            throttle.failed("a", HERE, now);
            waits.push(throttle.wait("a", HERE, now).unwrap().as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(throttle.wait("a", HERE, now + Duration::from_secs(60)), None);
        assert_eq!(throttle.wait("a", THERE, now), None, "the user is free elsewhere");
        assert_eq!(throttle.wait("b", HERE, now), None, "another user is free here");
        throttle.succeeded("a", HERE);
        assert_eq!(throttle.wait("a", HERE, now), None);
    }

    #[test]
    fn one_address_cannot_try_many_users_nor_many_addresses_one_user() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for n in 0..20 {
            throttle.failed(&format!("user {n}"), HERE, now);
        }
        assert!(throttle.wait("somebody", HERE, now).is_some());
        for n in 0..100 {
            throttle.failed("a", IpAddr::from([10, 0, n, 1]), now);
        }
        assert!(throttle.wait("a", THERE, now).is_some());
        assert_eq!(throttle.wait("b", THERE, now), None);
    }

    #[test]
    fn addresses_of_one_subscriber_count_as_one_and_memory_is_bounded() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for n in 0..5 {
            throttle.failed("a", IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]), now);
        }
        assert!(throttle.wait("a", IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 99]), now).is_some());
        for n in 0..40_000_u32 {
            throttle.failed(&n.to_string(), IpAddr::from(n.to_be_bytes()), now);
            assert!(throttle.0.len() <= ENTRIES_LIMIT);
        }
    }

    #[test]
    fn failures_are_forgotten() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..10 {
            throttle.failed("a", HERE, now);
        }
        let later = now + MEMORY;
        throttle.failed("a", HERE, later);
        assert_eq!(throttle.wait("a", HERE, later), None);
    }
}
