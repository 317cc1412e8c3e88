use alloy_consensus::transaction::Recovered;
use alloy_consensus::{
    Eip658Value, EthereumTxEnvelope, Header, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxEip4844,
};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{Address, B256, Bloom, Log, LogData, Signature, U256};
use alloy_rpc_types_eth as rpc;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

type Signed = EthereumTxEnvelope<TxEip4844>;

fn parse(out: &[u8]) -> Value {
    serde_json::from_slice(out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(out)))
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    parse(&out)
}

/// Any transaction that can be said in JSON: fees have 128 bits there, but their products are not checked.
fn transactions() -> impl Strategy<Value = Signed> {
    (proptest::collection::vec(any::<u8>(), 600..4000), any::<(u64, u64, bool)>()).prop_map(
        |(bytes, (r, s, parity))| {
            use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
            let mut source = arbitrary::Unstructured::new(&bytes);
            let signature = Signature::new(U256::from(r), U256::from(s) << 190, parity);
            let kind = source.int_in_range(0..=4).unwrap_or(0);
            macro_rules! signed {
                ($type:ty, $variant:ident) => {{
                    let unsigned: $type = source.arbitrary().unwrap();
                    Signed::$variant(unsigned.into_signed(signature))
                }};
            }
            match kind {
                0 => signed!(TxLegacy, Legacy),
                1 => signed!(TxEip2930, Eip2930),
                2 => signed!(TxEip1559, Eip1559),
                3 => signed!(TxEip4844, Eip4844),
                _ => signed!(TxEip7702, Eip7702),
            }
        },
    )
}

fn headers() -> impl Strategy<Value = Header> {
    proptest::collection::vec(any::<u8>(), 1200..2000)
        .prop_map(|bytes| arbitrary::Unstructured::new(&bytes).arbitrary().unwrap())
}

fn logs() -> impl Strategy<Value = Vec<Log>> {
    let log = (
        any::<[u8; 20]>(),
        proptest::collection::vec(any::<[u8; 32]>(), 0..5),
        proptest::collection::vec(any::<u8>(), 0..70),
    );
    let log = log.prop_map(|(address, topics, data)| Log {
        address: address.into(),
        data: LogData::new_unchecked(topics.into_iter().map(B256::from).collect(), data.into()),
    });
    proptest::collection::vec(log, 0..4)
}

fn theirs(signed: &Signed, sender: Address, placed: Option<&Placed>) -> Value {
    let base_fee = placed.and_then(|placed| placed.base_fee);
    let price =
        if base_fee.is_some() { signed.effective_gas_price(base_fee) } else { signed.max_fee_per_gas() };
    let transaction = rpc::Transaction {
        inner: Recovered::new_unchecked(signed.clone(), sender),
        block_hash: placed.map(|placed| placed.hash),
        block_number: placed.map(|placed| placed.number),
        transaction_index: placed.map(|placed| placed.index),
        effective_gas_price: Some(price),
        block_timestamp: placed.map(|placed| placed.timestamp),
    };
    serde_json::to_value(transaction).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn quantities_and_data_have_the_digits_of_the_standard(number: u128, limbs: [u64; 4], bytes: Vec<u8>, shift in 0..256_usize) {
        prop_assert_eq!(written(|out| quantity(out, number as u64)), json!(format!("{:#x}", number as u64)));
        prop_assert_eq!(written(|out| quantity(out, number as u64 >> (shift % 64))), json!(format!("{:#x}", number as u64 >> (shift % 64))));
        prop_assert_eq!(written(|out| quantity_u128(out, number)), json!(format!("{number:#x}")));
        let large = U256::from_limbs(limbs) >> shift;
        prop_assert_eq!(written(|out| quantity_u256(out, large)), json!(format!("{large:#x}")));
        prop_assert_eq!(written(|out| data(out, &bytes)), json!(alloy_primitives::hex::encode_prefixed(&bytes)));
    }

    #[test]
    fn any_text_survives(text: String) {
        prop_assert_eq!(written(|out| string(out, &text)), json!(text));
    }

    #[test]
    fn transactions_are_those_of_alloy(
        signed in transactions(), sender: [u8; 20], hash: [u8; 32], numbers: [u64; 3], base_fee: Option<u32>, waits: bool,
    ) {
        let placed = Placed {
            hash: hash.into(), number: numbers[0], timestamp: numbers[1], index: numbers[2],
            base_fee: base_fee.map(u64::from),
        };
        let placed = (!waits).then_some(&placed);
        let ours = written(|out| transaction(out, &signed, sender.into(), placed));
        prop_assert_eq!(ours, theirs(&signed, sender.into(), placed));
    }

    #[test]
    fn receipts_are_those_of_alloy(
        signed in transactions(), sender: [u8; 20], hash: [u8; 32], numbers: [u64; 6], logs in logs(),
        root: Option<[u8; 32]>, success: bool, blob_gas_price: u128,
    ) {
        let placed = Placed { hash: hash.into(), number: numbers[0], timestamp: numbers[1], index: numbers[2], base_fee: Some(7) };
        let status = root.map_or(Eip658Value::Eip658(success), |root| Eip658Value::PostState(root.into()));
        let first_log = numbers[3] >> 1;
        let outcome = Outcome {
            status: &status, cumulative_gas_used: numbers[4], gas_used: numbers[5], first_log, logs: &logs,
            blob_gas_price: Some(blob_gas_price),
        };
        let ours = written(|out| receipt(out, &signed, sender.into(), &placed, &outcome));
        let sender = Address::from(sender);
        let theirs = rpc::TransactionReceipt {
            inner: ReceiptEnvelope::from_typed(signed.tx_type(), ReceiptWithBloom {
                logs_bloom: logs.iter().collect::<Bloom>(),
                receipt: rpc::Receipt {
                    status,
                    cumulative_gas_used: numbers[4],
                    logs: logs.iter().zip(first_log..).map(|(log, index)| rpc::Log {
                        inner: log.clone(), block_hash: Some(placed.hash), block_number: Some(placed.number),
                        block_timestamp: Some(placed.timestamp), transaction_hash: Some(*signed.tx_hash()),
                        transaction_index: Some(placed.index), log_index: Some(index), removed: false,
                    }).collect(),
                },
            }),
            transaction_hash: *signed.tx_hash(),
            transaction_index: Some(placed.index),
            block_hash: Some(placed.hash),
            block_number: Some(placed.number),
            gas_used: numbers[5],
            effective_gas_price: signed.effective_gas_price(Some(7)),
            blob_gas_used: signed.blob_gas_used(),
            blob_gas_price: signed.blob_gas_used().map(|_| blob_gas_price),
            from: sender,
            to: signed.to(),
            contract_address: signed.is_create().then(|| sender.create(signed.nonce())),
        };
        prop_assert_eq!(ours, serde_json::to_value(theirs).unwrap());
    }

    #[test]
    fn blocks_are_those_of_alloy(
        inner in headers(), hash: [u8; 32], size: u64, full: bool, signed in proptest::collection::vec((any::<[u8; 20]>(), transactions()), 0..3),
        ommers: Vec<[u8; 32]>, withdrawals: Option<Vec<(u64, u64, [u8; 20], u64)>>,
    ) {
        let hash = B256::from(hash);
        let ommers: Vec<B256> = ommers.into_iter().map(B256::from).collect();
        let withdrawals: Option<Vec<Withdrawal>> = withdrawals.map(|list| list.into_iter().map(
            |(index, validator_index, address, amount)| Withdrawal { index, validator_index, address: address.into(), amount },
        ).collect());
        let list: Vec<(Address, &Signed)> = signed.iter().map(|(sender, signed)| (Address::from(*sender), signed)).collect();
        let hashes: Vec<u8> = signed.iter().flat_map(|(_, signed)| signed.tx_hash().0).collect();
        let transactions = if full { Transactions::Full(&list) } else { Transactions::Hashes(&hashes) };
        let ours = written(|out| block(out, hash, &inner, size, transactions, &ommers, withdrawals.as_deref()));
        let transactions: rpc::BlockTransactions<Value> = if full {
            rpc::BlockTransactions::Full((0..).zip(&list).map(|(index, (sender, signed))| theirs(signed, *sender, Some(&Placed {
                hash, number: inner.number, timestamp: inner.timestamp, index, base_fee: inner.base_fee_per_gas,
            }))).collect())
        } else {
            rpc::BlockTransactions::Hashes(list.iter().map(|(_, signed)| *signed.tx_hash()).collect())
        };
        let header = rpc::Header { hash, inner: inner.clone(), total_difficulty: None, size: Some(U256::from(size)) };
        let theirs = rpc::Block { header, uncles: ommers, transactions, withdrawals: withdrawals.map(Withdrawals::new) };
        prop_assert_eq!(ours, serde_json::to_value(theirs).unwrap());

        let ours = written(|out| super::header(out, hash, &inner));
        let theirs = rpc::Header { hash, inner, total_difficulty: None, size: None };
        prop_assert_eq!(ours, serde_json::to_value(theirs).unwrap());
    }
}
