//! Free ports of the loopback interface, for networks on one machine.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

const ATTEMPTS: usize = 10_000;
/// Below are the services that a machine may run.
pub const LOWEST: u16 = 10_000;

/// Different ports of the loopback interface that are free now, below the range from which the system gives ports to
/// outgoing connections: none of those stands in the way when a node starts again.
///
/// # Errors
/// There are not so many.
pub fn free(count: usize) -> io::Result<Vec<u16>> {
    let mut held = Vec::with_capacity(count);
    let ceiling = first_outgoing().max(LOWEST + 1);
    for _ in 0..ATTEMPTS {
        if held.len() == count {
            // All are held until all are found, so that none is found twice.
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
        let port = draw(ceiling);
        if let Ok(listener) = bind(port) {
            held.push((port, listener));
        }
    }
    Err(io::Error::other(format!("no {count} ports from {LOWEST} to {ceiling} are free")))
}

/// The first of that many ports, one after the other, that are free now, from the same range.
///
/// # Errors
/// There are not so many in a row.
pub fn free_run(count: u16) -> io::Result<u16> {
    let ceiling = first_outgoing().max(LOWEST + 1);
    for _ in 0..ATTEMPTS {
        let first = draw(ceiling);
        let Some(end) = first.checked_add(count) else { continue };
        // Held until all are found: a port that nobody can have twice is free.
        let held: io::Result<Vec<TcpListener>> = (first..end).map(bind).collect();
        if held.is_ok() {
            return Ok(first);
        }
    }
    Err(io::Error::other(format!("no {count} ports in a row from {LOWEST} to {ceiling} are free")))
}

/// A port from the lowest to below the ceiling. Every state of a hasher is another one.
fn draw(ceiling: u16) -> u16 {
    let drawn = RandomState::new().build_hasher().finish() % u64::from(ceiling - LOWEST);
    LOWEST + u16::try_from(drawn).unwrap_or(0)
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// The first port that the system gives to outgoing connections.
pub fn first_outgoing() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_ports_is_free() {
        let first = free_run(12).unwrap();
        assert!((first..first + 12).all(|port| bind(port).is_ok()));
        let _taken = bind(first).unwrap();
        assert!(bind(first).is_err());
    }

    #[test]
    fn ports_are_free_and_different() {
        let ports = free(40).unwrap();
        assert_eq!(ports.iter().collect::<std::collections::BTreeSet<_>>().len(), 40);
        assert!(ports.iter().all(|port| (LOWEST..first_outgoing().max(LOWEST + 1)).contains(port)));
    }
}
