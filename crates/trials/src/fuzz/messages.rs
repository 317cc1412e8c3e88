//! Decoders of what crosses a log or a wire.

use super::damage::damaged;
use super::small::{Small, bytes};
use tally_ledger::wire::Reader;
use tally_ledger::{AccountOrder, TransactionBatch};
use tally_settlement::message::{
    AcceptedBatch, AnnexBatch, ApprovalBatch, ConsentBatch, DecisionBatch, Message, ParticipationBatch,
    ProposalBatch, SequenceBatch, Source, Submission, Withdrawal,
};
use tally_sim::Rng;

/// What is read has one form only: these bytes.
pub(super) fn decode<M: Message>(rng: &mut Rng, samples: &[Vec<u8>]) {
    let bytes = damaged(rng, samples);
    if let Ok(message) = M::decode(&bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert!(again == bytes, "read and written again, it is another");
    }
}

pub(super) fn transaction_batch(rng: &mut Rng, small: &Small) {
    let bytes = damaged(rng, &small.batches);
    let mut reader = Reader::new("transactions", &bytes);
    let Ok(batch) = TransactionBatch::decode(&mut reader) else { return };
    if reader.end().is_err() {
        return;
    }
    let mut again = Vec::new();
    batch.encode(&mut again);
    assert!(again == bytes, "read and written again, it is another");
    for at in 0..batch.len() {
        let transaction = batch.transaction(at).expect("a batch holds what it counts");
        let _ = transaction.id(&small.network.id);
        assert!(TransactionBatch::default().push(&transaction), "what was read fits a batch");
    }
    assert_eq!(batch.transaction(batch.len()), None);
}

pub(super) fn account_order(rng: &mut Rng, small: &Small) {
    let bytes = damaged(rng, &small.orders);
    let mut reader = Reader::new("order", &bytes);
    if let Ok(order) = AccountOrder::decode(&mut reader)
        && reader.end().is_ok()
    {
        let mut again = Vec::new();
        order.encode(&mut again);
        assert!(again == bytes, "read and written again, it is another");
    }
}

pub(super) fn submission(rng: &mut Rng, small: &Small) {
    decode::<Submission>(rng, &small.submissions);
}

pub(super) fn accepted(rng: &mut Rng, small: &Small) {
    decode::<AcceptedBatch>(rng, &small.accepted);
}

pub(super) fn proposal(rng: &mut Rng, small: &Small) {
    decode::<ProposalBatch>(rng, &small.proposals);
}

pub(super) fn approval(rng: &mut Rng, small: &Small) {
    decode::<ParticipationBatch>(rng, &small.participations);
    decode::<ApprovalBatch>(rng, &small.approvals);
}

pub(super) fn consent(rng: &mut Rng, small: &Small) {
    decode::<ConsentBatch>(rng, &small.consents);
}

pub(super) fn decision(rng: &mut Rng, small: &Small) {
    decode::<DecisionBatch>(rng, &small.decisions);
}

pub(super) fn withdrawal(rng: &mut Rng, _: &Small) {
    decode::<Withdrawal>(rng, &[bytes(&Withdrawal { source: Source::new(1, 7), index: 3 })]);
}

pub(super) fn annex(rng: &mut Rng, small: &Small) {
    let items = small.orders.iter().take(3).cloned().collect();
    decode::<AnnexBatch>(rng, &[bytes(&AnnexBatch { kept_at: small.now, items })]);
}

pub(super) fn sequence(rng: &mut Rng, small: &Small) {
    decode::<SequenceBatch>(rng, &small.sequences);
}
