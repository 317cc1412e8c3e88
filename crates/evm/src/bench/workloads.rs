//! Contracts that each spend their gas on one kind of work.

use alloy_primitives::{Address, Bytes, U256, bytes, hex, keccak256};

/// Code, what it starts from, and the calls to it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it spends its gas on.
    pub name: &'static str,
    pub(super) code: Bytes,
    pub(super) storage: Vec<(U256, U256)>,
    pub(super) calls: Vec<(Address, Bytes)>,
    pub(super) gas_limit: u64,
}

/// All of them.
pub fn workloads() -> Vec<Workload> {
    vec![
        arithmetic(),
        keccak(),
        storage(),
        token(),
        creation(),
        precompile("ecrecover", 1, 3_000, ECRECOVER_INPUT),
        precompile("sha256", 2, 20_000, &[0x5a; 128]),
        precompile("modexp", 5, 4_000, &modexp_input()),
    ]
}

fn sender(index: u64) -> Address {
    Address::from_word(keccak256(index.to_be_bytes()))
}

fn words<const N: usize>(words: [u64; N]) -> Bytes {
    words.iter().flat_map(|word| U256::from(*word).to_be_bytes::<32>()).collect::<Vec<_>>().into()
}

/// The same call, from as many senders.
fn repeated(count: u64, input: &Bytes) -> Vec<(Address, Bytes)> {
    (0..count).map(|index| (sender(index), input.clone())).collect()
}

/// x = (x * x + 11) xor ((x * x + 11) >> 3), as often as the call data says.
fn arithmetic() -> Workload {
    Workload {
        name: "arithmetic",
        // PUSH0 CALLDATALOAD PUSH1 7, then: JUMPDEST DUP1 MUL PUSH1 11 ADD DUP1 PUSH1 3 SHR XOR
        // SWAP1 PUSH1 1 SWAP1 SUB SWAP1 DUP2 PUSH1 4 JUMPI, then STOP.
        code: bytes!("5f3560075b8002600b018060031c189060019003908160045700"),
        storage: Vec::new(),
        calls: repeated(20, &words([170_000])),
        gas_limit: 12_000_000,
    }
}

/// The hash of 64 bytes, stored in the first half of them.
fn keccak() -> Workload {
    Workload {
        name: "keccak",
        // PUSH0 CALLDATALOAD, then: JUMPDEST PUSH1 64 PUSH0 KECCAK256 PUSH0 MSTORE PUSH1 1 SWAP1 SUB
        // DUP1 PUSH1 2 JUMPI, then STOP.
        code: bytes!("5f355b60405f205f52600190038060025700"),
        storage: Vec::new(),
        calls: repeated(20, &words([100_000])),
        gas_limit: 12_000_000,
    }
}

/// New slots; each call begins where the one before ended.
fn storage() -> Workload {
    const SLOTS: u64 = 400;
    Workload {
        name: "storage",
        // PUSH0 CALLDATALOAD, then: JUMPDEST DUP1 DUP1 PUSH1 32 CALLDATALOAD ADD SSTORE PUSH1 1 SWAP1
        // SUB DUP1 PUSH1 2 JUMPI, then STOP.
        code: bytes!("5f355b80806020350155600190038060025700"),
        storage: Vec::new(),
        calls: (0..40).map(|index| (sender(index), words([SLOTS, index * SLOTS]))).collect(),
        gas_limit: 12_000_000,
    }
}

/// `transfer(address,uint256)` of an ERC-20 token with its balances in a mapping at slot 0 and its log.
fn token() -> Workload {
    const HOLDERS: u64 = 4_000;
    let mut code = Vec::new();
    for part in [
        // The caller's balance: its slot, and whether it is enough.
        "335f525f60205260405f20805460243580821060",
        "5e",
        "57",
        // The caller's balance afterwards.
        "80910390915560",
        "0435",
        // The receiver's.
        "5f5260405f208054820190555f52",
        // The log: from the caller to the receiver.
        "600435337f",
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        "60205fa3",
        // True.
        "60015f5260205ff3",
        // Revert.
        "5b5f5ffd",
    ] {
        code.extend(hex::decode(part).unwrap_or_default());
    }
    let slot = |holder: Address| {
        let mut key = [0; 64];
        key[12..32].copy_from_slice(holder.as_slice());
        U256::from_be_bytes(keccak256(key).0)
    };
    let call = |index: u64| {
        let mut input = vec![0xa9, 0x05, 0x9c, 0xbb];
        input.extend(sender((index + 1) % HOLDERS).into_word());
        input.extend(U256::from(index + 1).to_be_bytes::<32>());
        (sender(index), input.into())
    };
    Workload {
        name: "ERC-20 transfer",
        code: code.into(),
        storage: (0..HOLDERS).map(|index| (slot(sender(index)), U256::from(1_000_000))).collect(),
        calls: (0..HOLDERS).map(call).collect(),
        gas_limit: 100_000,
    }
}

/// Contracts of 32 bytes.
fn creation() -> Workload {
    Workload {
        name: "creation",
        // Init code that returns 32 zero bytes in memory, and PUSH0 CALLDATALOAD, then: JUMPDEST PUSH1 4
        // PUSH1 28 PUSH0 CREATE POP PUSH1 1 SWAP1 SUB DUP1 PUSH1 9 JUMPI, then STOP.
        code: bytes!("6360205ff35f525f355b6004601c5ff050600190038060095700"),
        storage: Vec::new(),
        calls: repeated(20, &words([250])),
        gas_limit: 12_000_000,
    }
}

/// Calls of a precompiled contract, always with the same input.
fn precompile(name: &'static str, address: u8, count: u64, input: &[u8]) -> Workload {
    // The call data after its first word to memory, PUSH0 CALLDATALOAD, then: JUMPDEST PUSH1 32
    // PUSH2 4096 PUSH1 32 CALLDATASIZE SUB PUSH0 PUSH1 address GAS STATICCALL POP PUSH1 1 SWAP1 SUB DUP1
    // PUSH1 10 JUMPI, then STOP.
    let mut code = bytes!("6020360360205f375f355b6020611000602036035f60").to_vec();
    code.push(address);
    code.extend(bytes!("5afa506001900380600a5700"));
    let mut data = words([count]).to_vec();
    data.extend_from_slice(input);
    Workload {
        name,
        code: code.into(),
        storage: Vec::new(),
        calls: repeated(4, &data.into()),
        gas_limit: 30_000_000,
    }
}

/// A hash, `v`, `r` and `s`.
const ECRECOVER_INPUT: &[u8] = &hex!(
    "456e9aea5e197a1f1af7a3e85a3212fa4049a3ba34c2289b4c860fc0b0c64ef3"
    "000000000000000000000000000000000000000000000000000000000000001c"
    "9242685bf161793cc25603c231bc2f568eb630ea16aa137d2664ac8038825608"
    "4f8ae3bd7535248d0bd448298cc2e2071e56992d0774dc340c368ae950852ada"
);

/// Base, exponent and modulus of 32 bytes each.
fn modexp_input() -> Vec<u8> {
    let mut input = words([32, 32, 32]).to_vec();
    input.extend(keccak256("base"));
    input.extend(keccak256("exponent"));
    let mut modulus = keccak256("modulus");
    modulus.0[31] |= 1;
    input.extend(modulus);
    input
}
