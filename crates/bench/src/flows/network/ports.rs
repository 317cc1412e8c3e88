//! Ports for nodes on one machine.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use crate::flows::FlowsError;

const ATTEMPTS: usize = 10_000;
/// Below are the services that a machine may run.
const LOWEST: u16 = 10_000;

/// Different ports of the loopback interface that are free now, below the range from which the system gives ports to
/// outgoing connections: none of those stands in the way when a node starts again.
pub(super) fn free(count: usize) -> Result<Vec<u16>, FlowsError> {
    let mut held = Vec::with_capacity(count);
    let ceiling = first_outgoing().max(LOWEST + 1);
    for _ in 0..ATTEMPTS {
        if held.len() == count {
            // All are held until all are found, so that none is found twice.
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
        // Every state of a hasher is another one.
        let drawn = RandomState::new().build_hasher().finish() % u64::from(ceiling - LOWEST);
        let port = LOWEST + u16::try_from(drawn).unwrap_or(0);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
    }
    Err(FlowsError::Late { what: format!("{count} free ports from {LOWEST} to {ceiling}"), seconds: 0 })
}

fn first_outgoing() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_different() {
        let ports = free(40).unwrap();
        assert_eq!(ports.iter().collect::<std::collections::BTreeSet<_>>().len(), 40);
        assert!(ports.iter().all(|port| (LOWEST..first_outgoing().max(LOWEST + 1)).contains(port)));
    }
}
