//! Free ports for networks on one machine.

use anyhow::{Context, bail, ensure};
use std::net::{Ipv4Addr, TcpListener};

/// Below are the services that a machine may run.
const LOWEST: u16 = 10_000;
const ATTEMPTS: usize = 10_000;

/// That many different ports of the loopback interface that are free now: from `base` on, or drawn at random.
///
/// Random ones lie below the range from which the system gives ports to outgoing connections, so that none of those
/// stands in the way when a node starts again.
pub(crate) fn free(base: Option<u16>, count: usize) -> anyhow::Result<Vec<u16>> {
    // All are held until all are found, so that none is found twice.
    let mut held = Vec::with_capacity(count);
    let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    if let Some(base) = base {
        ensure!(base > 0, "--base-port: port 0 is no port to be reached at");
        for offset in 0..count {
            let port = u16::try_from(offset).ok().and_then(|offset| base.checked_add(offset));
            let port = port.with_context(|| {
                format!("--base-port {base}: {count} ports from there on are beyond 65535")
            })?;
            held.push((
                port,
                bind(port).with_context(|| format!("--base-port {base}: port {port} is not free"))?,
            ));
        }
    }
    let ceiling = first_outgoing().max(LOWEST + 1);
    for _ in 0..ATTEMPTS {
        if held.len() == count {
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
        let draw = u16::from_le_bytes(crate::connection::random()?);
        let port = LOWEST + draw % (ceiling - LOWEST);
        if let Ok(listener) = bind(port) {
            held.push((port, listener));
        }
    }
    bail!("no {count} ports between {LOWEST} and {ceiling} are free; give --base-port")
}

/// The first of that many ports of the loopback interface, one after the other, that are free now.
pub(crate) fn free_run(count: usize) -> anyhow::Result<u16> {
    let ceiling = first_outgoing().max(LOWEST + 1);
    for _ in 0..ATTEMPTS {
        let draw = u16::from_le_bytes(crate::connection::random()?);
        let first = LOWEST + draw % (ceiling - LOWEST);
        if free(Some(first), count).is_ok() {
            return Ok(first);
        }
    }
    bail!("no {count} ports in a row between {LOWEST} and {ceiling} are free")
}

/// The first port that the system gives to outgoing connections.
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
    fn a_run_of_ports_is_free() {
        let first = free_run(12).unwrap();
        assert!((first..first + 12).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()));
    }

    #[test]
    fn ports_are_free_and_different() {
        let ports = free(None, 40).unwrap();
        assert_eq!(ports.iter().collect::<std::collections::BTreeSet<_>>().len(), 40);
        assert!(ports.iter().all(|port| *port >= LOWEST && *port < first_outgoing().max(LOWEST + 1)));
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let error = free(Some(taken.local_addr().unwrap().port()), 1).unwrap_err();
        assert!(error.to_string().contains("is not free"), "{error}");
        assert!(free(Some(65_530), 10).is_err());
    }
}
