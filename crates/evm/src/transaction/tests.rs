use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, U256, bytes};
use alloy_rlp::Encodable;
use secp256k1::{Message, SECP256K1, SecretKey};

use super::*;
use crate::schedule::Schedule;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_byte_array([seed.max(1); 32]).unwrap()
}

fn sign(hash: B256, seed: u8) -> Signature {
    let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &key(seed));
    let (parity, bytes) = signature.serialize_compact();
    let (r, s) = bytes.split_at(32);
    Signature::new(U256::from_be_slice(r), U256::from_be_slice(s), i32::from(parity) == 1)
}

fn address(seed: u8) -> Address {
    let public = key(seed).public_key(SECP256K1).serialize_uncompressed();
    Address::from_raw_public_key(&public[1..])
}

fn signed(index: u8) -> Transaction {
    let (nonce, gas_limit, input) =
        (u64::from(index), 100_000, Bytes::from(vec![index; usize::from(index) * 3]));
    let access_list = vec![alloy_eips::eip2930::AccessListItem {
        address: Address::repeat_byte(index),
        storage_keys: vec![B256::repeat_byte(1); usize::from(index) % 3],
    }]
    .into();
    match index % 4 {
        0 => {
            let chain_id = index.is_multiple_of(8).then_some(1);
            let legacy = TxLegacy { chain_id, nonce, gas_price: 9, gas_limit, input, ..Default::default() };
            let signature = sign(legacy.signature_hash(), index);
            legacy.into_signed(signature).into()
        }
        1 => {
            let typed = TxEip2930 {
                chain_id: 1,
                nonce,
                gas_price: 9,
                gas_limit,
                input,
                access_list,
                ..Default::default()
            };
            let signature = sign(typed.signature_hash(), index);
            typed.into_signed(signature).into()
        }
        2 => {
            let typed = TxEip1559 {
                chain_id: 1,
                nonce,
                max_fee_per_gas: 9,
                max_priority_fee_per_gas: 1,
                gas_limit,
                input,
                access_list,
                ..Default::default()
            };
            let signature = sign(typed.signature_hash(), index);
            typed.into_signed(signature).into()
        }
        _ => {
            let authorization =
                Authorization { chain_id: U256::ONE, address: Address::repeat_byte(7), nonce: 3 };
            let signature = sign(authorization.signature_hash(), 77);
            let authorization_list = vec![
                authorization.clone().into_signed(signature),
                SignedAuthorization::new_unchecked(authorization, 2, U256::ONE, U256::ONE),
            ];
            let typed = TxEip7702 {
                chain_id: 1,
                nonce,
                max_fee_per_gas: 9,
                gas_limit,
                access_list,
                authorization_list,
                ..Default::default()
            };
            let signature = sign(typed.signature_hash(), index);
            typed.into_signed(signature).into()
        }
    }
}

#[test]
fn what_is_encoded_is_decoded_and_recovered() {
    for index in 1..=40 {
        let transaction = signed(index);
        let bytes = encode(&transaction);
        let decoded = decode(&bytes).unwrap();
        assert_eq!(decoded, transaction);
        assert_eq!(*decoded.tx_hash(), alloy_primitives::keccak256(&bytes));
        assert_eq!(recover(decoded).unwrap().sender(), address(index));

        let mut list = Vec::new();
        encode_in_list(&transaction, &mut list);
        list.push(0x80);
        let mut rest = &list[..];
        assert_eq!(decode_in_list(&mut rest).unwrap(), transaction);
        assert_eq!(rest, [0x80]);
    }
}

#[test]
fn many_are_recovered_in_order_over_threads() {
    let transactions: Vec<_> = (0..200).map(|index| signed(index % 40 + 1)).collect();
    let one = recover_all(transactions.clone(), 1);
    for threads in [2, 3, 7] {
        assert_eq!(recover_all(transactions.clone(), threads), one);
    }
    assert!(recover_all(Vec::<Transaction>::new(), 4).is_empty());
}

#[test]
fn authorizations_name_who_gave_them() {
    let Transaction::Eip7702(signed) = signed(3) else { panic!() };
    let list = &signed.tx().authorization_list;
    assert_eq!(recover_authorization(&list[0]).authority(), Some(address(77)));
    assert_eq!(recover_authorization(&list[1]).authority(), None);
}

#[test]
fn bytes_that_were_cut_or_changed_never_panic_and_never_pass_for_the_same() {
    for index in 1..=8 {
        let transaction = signed(index);
        let bytes = encode(&transaction);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err());
            let _ = decode_pooled(&bytes[..end]);
            let _ = decode_in_list(&mut &bytes[..end]);
        }
        for at in 0..bytes.len() {
            for change in [1, 0x40, 0x80, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] ^= change;
                if let Ok(decoded) = decode(&changed) {
                    // One encoding for each transaction.
                    assert_eq!(encode(&decoded), changed);
                    assert_ne!(decoded, transaction);
                }
            }
        }
    }
}

#[test]
fn a_fork_takes_only_its_own_types() {
    let error = |index, fork: &str| {
        let rules = Schedule::named(fork).unwrap().rules(1, 0, true);
        recover(signed(index)).unwrap().check(&rules).err().map(|error| error.test_name())
    };
    assert_eq!(error(4, "Frontier"), None);
    assert_eq!(error(8, "Frontier"), Some("TransactionException.INVALID_SIGNATURE_VRS"));
    assert_eq!(error(1, "Istanbul"), Some("TransactionException.TYPE_NOT_SUPPORTED"));
    assert_eq!(error(1, "Berlin"), None);
    assert_eq!(error(2, "Berlin"), Some("TransactionException.TYPE_NOT_SUPPORTED"));
    assert_eq!(error(3, "Cancun"), Some("TransactionException.TYPE_NOT_SUPPORTED"));
    assert_eq!(error(3, "Prague"), None);
}

#[test]
fn limits_of_forks_are_kept() {
    let rules = |fork: &str| Schedule::named(fork).unwrap().rules(1, 0, true);
    let checked = |transaction: TxLegacy, fork: &str| {
        let signature = sign(transaction.signature_hash(), 1);
        recover(Transaction::from(transaction.into_signed(signature))).unwrap().check(&rules(fork))
    };
    let base = TxLegacy { gas_limit: 21_000, to: Address::ZERO.into(), ..Default::default() };
    assert_eq!(checked(base.clone(), "Prague"), Ok(IntrinsicGas { gas: 21_000, floor: 21_000 }));
    let poor = TxLegacy { gas_limit: 20_999, ..base.clone() };
    let needed = TransactionError::IntrinsicGas { gas_limit: 20_999, needed: 21_000 };
    assert_eq!(checked(poor, "Prague"), Err(needed));
    let data = TxLegacy { gas_limit: 21_000 + 16 * 100, input: vec![1; 100].into(), ..base.clone() };
    assert!(checked(data.clone(), "Cancun").is_ok());
    assert!(matches!(checked(data, "Prague"), Err(TransactionError::FloorGas { needed: 25_000, .. })));
    let large = TxLegacy { gas_limit: (1 << 24) + 1, ..base.clone() };
    assert!(checked(large.clone(), "Prague").is_ok());
    assert!(matches!(checked(large, "Osaka"), Err(TransactionError::GasLimitCap { .. })));
    let last = TxLegacy { nonce: u64::MAX, ..base.clone() };
    assert_eq!(checked(last, "London"), Err(TransactionError::NonceMax));
    let other_chain = TxLegacy { chain_id: Some(5), ..base };
    assert_eq!(checked(other_chain, "London"), Err(TransactionError::InvalidChainId));
}

#[test]
fn a_price_above_128_bits_is_refused_as_such() {
    let error = decode(&bytes!("f8")).unwrap_err();
    assert_eq!(error, TransactionError::malformed(Field::Transaction, Malformed::TooShort));
    assert!(matches!(decode(&bytes!("05c0")), Err(TransactionError::TypeNotSupported(5))));
    assert!(matches!(
        decode(&bytes!("c0")),
        Err(TransactionError::Malformed { problem: Malformed::TooFewFields, .. })
    ));
}

/// As `TransactionWithGasLimitxPriceOverflow` and `GasLimitPriceProductOverflowtMinusOne` of the Ethereum tests.
#[test]
fn a_price_counts_up_to_where_gas_costs_more_than_256_bits() {
    let transaction = |kind: u8, gas_limit: u64, tip: U256, price: U256| {
        let mut fields = Vec::new();
        if kind > 0 {
            1_u64.encode(&mut fields);
        }
        7_u64.encode(&mut fields);
        if kind == 2 {
            tip.encode(&mut fields);
        }
        price.encode(&mut fields);
        gas_limit.encode(&mut fields);
        Address::repeat_byte(3).encode(&mut fields);
        U256::ZERO.encode(&mut fields);
        fields.extend([0x80]);
        if kind > 0 {
            fields.extend([0xc0]);
        }
        let list = |fields: &[u8]| {
            let mut bytes = if kind > 0 { vec![kind] } else { Vec::new() };
            alloy_rlp::Header { list: true, payload_length: fields.len() }.encode(&mut bytes);
            bytes.extend_from_slice(fields);
            bytes
        };
        let signature = sign(alloy_primitives::keccak256(list(&fields)), 5);
        (u64::from(signature.v()) + if kind == 0 { 27 } else { 0 }).encode(&mut fields);
        signature.r().encode(&mut fields);
        signature.s().encode(&mut fields);
        list(&fields)
    };
    let gas = 1 << 20;
    // The largest price at which as much gas is below 2^256.
    let most = U256::MAX >> 20;
    for kind in [0, 1, 2] {
        let bytes = transaction(kind, gas, most, most);
        let (taken, hash) = decode_any_price(&bytes).unwrap();
        let recovered = recover_from(taken.into(), hash.unwrap()).unwrap();
        assert_eq!(recovered.sender(), address(5), "type {kind}");
        assert_eq!(recovered.hash(), alloy_primitives::keccak256(&bytes));
        let field = if kind == 2 { Field::MaxFeePerGas } else { Field::GasPrice };
        assert_eq!(
            decode(&bytes),
            Err(TransactionError::Malformed { field, problem: Malformed::Overflow }),
            "nobody can pay it"
        );
        for (gas, price) in [(gas, most + U256::ONE), (gas + 1, most), (2, U256::MAX)] {
            let refused = decode_any_price(&transaction(kind, gas, U256::ONE, price));
            assert_eq!(refused, Err(TransactionError::GasPriceProduct), "type {kind}");
        }
        let (_, narrow) =
            decode_any_price(&transaction(kind, u64::MAX, U256::ONE, U256::from(u128::MAX))).unwrap();
        assert_eq!(narrow, None);
    }
    let tip = transaction(2, gas, most, most - U256::ONE);
    assert_eq!(decode_any_price(&tip), Err(TransactionError::TipAboveFeeCap));
}
