//! Decoders of the flows ledger, and engines that are sent what nobody should send.

use super::damage::damaged;
use super::small::Small;
use serde_json::json;
use std::sync::OnceLock;
use tally_contracts::{Contracts, LedgerTransaction, Name, SignedTransaction, TearOff, Transaction};
use tally_flows::Message;
use tally_protocols::testing::Network;
use tally_sim::Rng;

/// What a small network said and recorded.
struct Said {
    transactions: Vec<Vec<u8>>,
    signed: Vec<Vec<u8>>,
    tear_offs: Vec<Vec<u8>>,
    /// Receiver, sender, bytes.
    messages: Vec<(Name, Name, Vec<u8>)>,
    raw: Vec<Vec<u8>>,
}

fn network() -> (Network, Name, Name) {
    let mut network = Network::new();
    let a = network.party("Alpha");
    let b = network.party("Beta");
    network.notary("Notary", false);
    (network, a, b)
}

fn said() -> &'static Said {
    static ONE: OnceLock<Said> = OnceLock::new();
    ONE.get_or_init(|| {
        let (mut network, a, b) = network();
        network.run(&a, "CashIssue", json!({ "amount": "100.00 USD" })).expect("an issue");
        network.run(&a, "CashPay", json!({ "amount": "30.00 USD", "to": b })).expect("a payment");
        network.run(&a, "IouCreate", json!({ "value": 7, "lender": b })).expect("an IOU");
        let mut messages = Vec::new();
        for receiver in network.names() {
            messages.extend(
                network
                    .received(&receiver)
                    .into_iter()
                    .map(|received| (receiver.clone(), received.from, received.bytes)),
            );
        }
        let transactions: Vec<_> = network
            .vault(&a)
            .into_iter()
            .chain(network.vault(&b))
            .filter_map(|(state, _)| network.transaction(&a, &state.reference.transaction))
            .collect();
        Said {
            transactions: transactions.iter().map(|signed| signed.transaction().encode().to_vec()).collect(),
            signed: transactions.iter().map(|signed| signed.encode()).collect(),
            tear_offs: transactions
                .iter()
                .map(|signed| {
                    signed.transaction().tear_off_for_notary().expect("a tear-off").encode().to_vec()
                })
                .collect(),
            raw: messages.iter().map(|(_, _, bytes)| bytes.clone()).collect(),
            messages,
        }
    })
}

/// What is read has one form only, and can be judged without a panic.
pub(super) fn transaction(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, &said().transactions);
    let Ok(transaction) = Transaction::decode(&bytes) else { return };
    assert!(transaction.encode() == bytes, "read and written again, it is another");
    let _ = transaction.tear_off_for_notary().map(|tear_off| assert_eq!(tear_off.id(), transaction.id()));
    let contracts = Contracts::shipped();
    for state in transaction.outputs() {
        let _ = contracts.describe(state);
    }
    if transaction.inputs().is_empty()
        && transaction.references().is_empty()
        && let Ok(resolved) = LedgerTransaction::resolve(&transaction, Vec::new(), Vec::new(), Vec::new())
    {
        let _ = resolved.verify(&contracts);
    }
}

pub(super) fn signed_transaction(rng: &mut Rng, _: &Small) {
    let samples = &said().signed;
    let bytes = damaged(rng, samples);
    let Ok(signed) = SignedTransaction::decode(&bytes) else { return };
    assert!(signed.encode() == bytes, "read and written again, it is another");
    if signed.verify_signatures().is_ok() {
        assert!(samples.contains(&bytes), "damaged, it is still signed by all");
    }
}

pub(super) fn tear_off(rng: &mut Rng, _: &Small) {
    let samples = &said().tear_offs;
    let bytes = damaged(rng, samples);
    let Ok(tear_off) = TearOff::decode(&bytes) else { return };
    assert!(tear_off.encode() == bytes, "read and written again, it is another");
    if let Ok(view) = tear_off.for_notary() {
        let known = samples
            .iter()
            .filter_map(|sample| TearOff::decode(sample).ok())
            .find(|known| known.id() == view.id);
        if let Some(known) = known {
            let shown = known.for_notary().expect("a notary's tear-off");
            assert_eq!(view.inputs, shown.inputs, "under the same id, other inputs are shown");
        }
    }
}

pub(super) fn message(rng: &mut Rng, _: &Small) {
    let bytes = damaged(rng, &said().raw);
    if let Ok(message) = Message::decode(&bytes) {
        assert!(message.encode() == bytes, "read and written again, it is another");
    }
}

/// No message, damaged or of another life of the same network, makes an engine panic or run for ever. What is true of
/// the ledger afterwards is not asked here: what that other life signed is good here too.
pub(super) fn engine(rng: &mut Rng, _: &Small) {
    let (mut network, a, b) = network();
    network.run(&a, "CashIssue", json!({ "amount": "100.00 USD" })).expect("an issue");
    network.start(&a, "CashPay", json!({ "amount": "30.00 USD", "to": b })).expect("a start");
    let said = said();
    for _ in 0..4 {
        let (to, from, _) = &said.messages[rng.index(said.messages.len())];
        let bytes = damaged(rng, &said.raw);
        let _ = network.inject(from, to, bytes);
    }
    network.settle();
}
