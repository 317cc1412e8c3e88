//! What the node holds the chain's forks to be: `eth_config` (EIP-7910).

use alloy_eips::eip2124::ForkHash;
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, hex};
use serde_json::{Map, Value, json};
use tally_evm::Fork;
use tally_evm::schedule::ForkStart;

use super::{Answer, Api, Methods};
use crate::params::Params;
use crate::server::CallContext;

/// Precompiled contracts: the fork that brought each, its name, its address.
const PRECOMPILES: [(Fork, &str, u16); 18] = [
    (Fork::Frontier, "ECREC", 0x01),
    (Fork::Frontier, "SHA256", 0x02),
    (Fork::Frontier, "RIPEMD160", 0x03),
    (Fork::Frontier, "ID", 0x04),
    (Fork::Byzantium, "MODEXP", 0x05),
    (Fork::Byzantium, "BN254_ADD", 0x06),
    (Fork::Byzantium, "BN254_MUL", 0x07),
    (Fork::Byzantium, "BN254_PAIRING", 0x08),
    (Fork::Istanbul, "BLAKE2F", 0x09),
    (Fork::Cancun, "KZG_POINT_EVALUATION", 0x0a),
    (Fork::Prague, "BLS12_G1ADD", 0x0b),
    (Fork::Prague, "BLS12_G1MSM", 0x0c),
    (Fork::Prague, "BLS12_G2ADD", 0x0d),
    (Fork::Prague, "BLS12_G2MSM", 0x0e),
    (Fork::Prague, "BLS12_PAIRING_CHECK", 0x0f),
    (Fork::Prague, "BLS12_MAP_FP_TO_G1", 0x10),
    (Fork::Prague, "BLS12_MAP_FP2_TO_G2", 0x11),
    (Fork::Osaka, "P256VERIFY", 0x100),
];

pub(super) fn register(methods: &mut Methods<'_>) {
    methods.add("eth_config", config);
}

fn config(api: &Api, params: Params<'_>, out: &mut Vec<u8>, _: &CallContext<'_>) -> Answer {
    params.none()?;
    let now = api.chain().head().sealed().header.timestamp;
    let mut times: Vec<u64> = api
        .chain()
        .schedule()
        .list()
        .into_iter()
        .filter_map(|(_, start)| if let ForkStart::Time(time) = start { Some(time) } else { None })
        .collect();
    times.sort_unstable();
    times.dedup();
    let current = times.iter().rev().find(|time| **time <= now).copied().unwrap_or(0);
    let next = times.iter().find(|time| **time > now).copied();
    let last = next.and(times.last().copied());
    let answer = json!({
        "current": at(api, current),
        "next": next.map(|time| at(api, time)),
        "last": last.map(|time| at(api, time)),
    });
    out.extend_from_slice(answer.to_string().as_bytes());
    Ok(())
}

/// What holds from a time on.
fn at(api: &Api, time: u64) -> Value {
    let schedule = api.chain().schedule();
    let number = api.chain().head().number();
    let rules = schedule.rules(number, time, schedule.terminal_total_difficulty.is_some());
    let blobs = rules.blobs.map_or(json!({"target": 0, "max": 0, "baseFeeUpdateFraction": 0}), |blobs| {
        json!({
            "target": blobs.target_blob_count,
            "max": blobs.max_blob_count,
            "baseFeeUpdateFraction": u64::try_from(blobs.update_fraction).unwrap_or(u64::MAX),
        })
    });
    let precompiles: Map<String, Value> = PRECOMPILES
        .into_iter()
        .filter(|(fork, ..)| rules.has(*fork))
        .map(|(_, name, number)| {
            let mut address = Address::ZERO;
            address.0[18..].copy_from_slice(&number.to_be_bytes());
            (name.to_owned(), json!(address))
        })
        .collect();
    let mut contracts = Map::new();
    if rules.has(Fork::Cancun) {
        contracts.insert("BEACON_ROOTS_ADDRESS".into(), json!(eip4788::BEACON_ROOTS_ADDRESS));
    }
    if rules.has(Fork::Prague) {
        for (name, address) in [
            ("CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS", eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS),
            ("DEPOSIT_CONTRACT_ADDRESS", schedule.deposit_contract),
            ("HISTORY_STORAGE_ADDRESS", eip2935::HISTORY_STORAGE_ADDRESS),
            ("WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS", eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS),
        ] {
            contracts.insert(name.into(), json!(address));
        }
    }
    json!({
        "activationTime": time,
        "blobSchedule": blobs,
        "chainId": format!("{:#x}", schedule.chain_id),
        "forkId": hex::encode_prefixed(fork_hash(api, time).0),
        "precompiles": precompiles,
        "systemContracts": contracts,
    })
}

/// The hash of EIP-6122 over the forks up to a time.
fn fork_hash(api: &Api, time: u64) -> ForkHash {
    let (mut blocks, mut times) = (Vec::new(), Vec::new());
    for (_, start) in api.chain().schedule().list() {
        match start {
            ForkStart::Block(block) => blocks.push(block),
            ForkStart::Time(start) if start <= time => times.push(start),
            ForkStart::Time(_) => {}
        }
    }
    // Where work ended by difficulty, some chains named the block afterwards, for this hash alone.
    blocks.extend(api.chain().genesis().config.get("mergeNetsplitBlock").and_then(Value::as_u64));
    let genesis_time = api.chain().genesis().timestamp;
    let mut hash = ForkHash::from(api.chain().genesis_hash());
    for list in [&mut blocks, &mut times] {
        list.sort_unstable();
        list.dedup();
    }
    for block in blocks.into_iter().filter(|block| *block > 0) {
        hash += block;
    }
    for time in times.into_iter().filter(|time| *time > genesis_time) {
        hash += time;
    }
    hash
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    #[test]
    fn the_addresses_are_those_of_the_standard() {
        assert_eq!(eip4788::BEACON_ROOTS_ADDRESS, address!("000f3df6d732807ef1319fb7b8bb8522d0beac02"));
        assert_eq!(eip2935::HISTORY_STORAGE_ADDRESS, address!("0000f90827f1c53a10cb7a02335b175320002935"));
    }
}
