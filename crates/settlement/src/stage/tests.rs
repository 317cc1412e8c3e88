//! The stages against naive models, on one small network.

mod agreements;
mod approver;
mod assembler;
mod scheduler;
mod sequencer;
mod updater;
mod witness;

use crate::message::{ProposalBatch, SequenceBatch, Source};
use crate::replay::Partition;
use crate::stage::Scheduler;
use std::sync::Arc;
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, SignaturePolicy, Timestamp, Transaction, TransactionBatch, Uetr,
};

const NETWORK: NetworkId = NetworkId([5; 32]);
const CENTRAL: ParticipantId = ParticipantId(0);
const A: ParticipantId = ParticipantId(1);
const B: ParticipantId = ParticipantId(2);
const EUR: AssetId = AssetId(0);
const NOW: Timestamp = Timestamp(1_000_000);

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

fn network() -> Arc<Network> {
    let participant = |bic: &str, number: u8| Participant {
        bic: bic.into(),
        name: String::new(),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = Asset {
        code: "EUR".into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: CENTRAL,
        largest_payment: Amount(1 << 50),
    };
    Arc::new(Network {
        id: NETWORK,
        participants: vec![
            participant("CENTDEFF", 0),
            participant("ALPHDEFF", 1),
            participant("BETADEFF", 2),
        ],
        assets: vec![asset],
        signatures: SignaturePolicy::InstitutionsOnly,
        longest_validity_ms: 100_000,
    })
}

/// The partition of a participant with `count` accounts of `balance` each.
fn partition(network: &Network, participant: ParticipantId, count: u32, balance: i64) -> Partition {
    let mut partition = Partition::new(network, participant);
    partition.accounts.open(count, EUR, key(9).public_key(), Amount::ZERO);
    for number in 0..count {
        partition.accounts.apply(AccountNumber(number), Amount(balance));
    }
    partition
}

fn id(participant: ParticipantId, number: u32) -> AccountId {
    AccountId { participant, number: AccountNumber(number) }
}

fn terms(uetr: u64, expiry: Timestamp) -> Terms {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&uetr.to_le_bytes());
    Terms { network: NETWORK, uetr: Uetr(bytes), expiry, details: Hash::ZERO, seed: bytes }
}

fn payment(uetr: u64, from: AccountId, to: AccountId, amount: i64) -> Transaction {
    let legs = crate::path::payment(&network(), from, to, EUR, Amount(amount));
    Transaction::new(Kind::Transfer, &terms(uetr, NOW.plus_ms(50_000)), legs)
}

fn order(uetr: u64, participant: ParticipantId, number: u32, action: AccountAction) -> Transaction {
    let order = AccountOrder { participant, number: AccountNumber(number), action };
    let mut transaction = Transaction::account(&terms(uetr, NOW.plus_ms(50_000)), order);
    transaction.sign(&NETWORK, &key(u8::try_from(participant.0).unwrap()));
    transaction
}

fn batch(transactions: &[Transaction]) -> TransactionBatch {
    let mut batch = TransactionBatch::default();
    assert!(transactions.iter().all(|transaction| batch.push(transaction)));
    batch
}

/// What a participant is asked about these transactions, the accepted batch being number `number`.
fn proposals(number: u64, participant: ParticipantId, transactions: &[Transaction]) -> Arc<ProposalBatch> {
    let mut scheduler = Scheduler::new(network(), 0, 0, 10, [1, 2]);
    let all = scheduler.propose_again(Source::new(0, number), &batch(transactions), |_| true);
    Arc::new(all.proposals.into_iter().find(|proposals| proposals.participant == participant).unwrap())
}

/// A record of the sequence that decides transactions of a batch.
fn decided(first: u64, source: Source, decisions: &[(u32, u16)]) -> SequenceBatch {
    let (indices, verdicts): (Vec<_>, Vec<_>) = decisions.iter().copied().unzip();
    SequenceBatch {
        first,
        count: u32::try_from(decisions.len()).unwrap(),
        source,
        timestamp: NOW,
        runs: SequenceBatch::runs_of(&indices, &verdicts),
        root: Hash::ZERO,
        tree_root: [0; 32],
        tree_size: 0,
        signature: Signature::from_bytes([0; 64]),
    }
}

fn own_leg(participant: ParticipantId, account: u32, amount: i64) -> Leg {
    Leg { participant, asset: EUR, account: AccountNumber(account), amount: Amount(amount) }
}
