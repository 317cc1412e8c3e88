//! A message with any of its fields changed; signatures are the caller's.

use super::other_time;
use crate::simulation::lies::{account, amount, participant};
pub(super) use crate::simulation::lies::{hash, signature, signers, transaction};
use crate::simulation::plan::keys;
use tally_ledger::refusal::verdict_number;
use tally_ledger::{AssetId, NetworkTag, ParticipantId, Refusal, Uetr};
use tally_settlement::message::{
    ApprovalBatch, ConsentBatch, DecisionBatch, ParticipationBatch, ProposalBatch, Source,
};
use tally_sim::Rng;

/// Another verdict than that one, by its number.
pub(super) fn verdict(rng: &mut Rng, before: u16) -> u16 {
    if before != 0 && rng.chance(2, 3) {
        return 0;
    }
    verdict_number(Err(Refusal::ALL[rng.index(Refusal::ALL.len())]))
}

pub(super) fn source(rng: &mut Rng, source: Source) -> Source {
    match rng.below(4) {
        0 => Source { scheduler: source.scheduler + 1, ..source },
        1 => Source { scheduler: u64::MAX, ..source },
        2 => Source { number: source.number.saturating_sub(1), ..source },
        _ => Source { number: source.number.saturating_add(rng.between(1, 40)), ..source },
    }
}

/// Answers in which one field is another.
pub(super) fn answers(rng: &mut Rng, batch: &mut ApprovalBatch) {
    let at = rng.index(batch.indices.len().max(1));
    match rng.below(6) {
        0 => batch.source = source(rng, batch.source),
        1 if !batch.ids.is_empty() => batch.ids[at] = hash(rng),
        2 if !batch.indices.is_empty() => {
            // One answer is left out.
            batch.indices.remove(at);
            batch.ids.remove(at);
            batch.verdicts.remove(at);
            batch.leaves.clear();
        }
        3 if !batch.ids.is_empty() => batch.ids.rotate_left(1),
        4 if !batch.verdicts.is_empty() => batch.verdicts[at] = verdict(rng, batch.verdicts[at]),
        _ => {
            // One answer more.
            batch.indices.push(batch.indices.last().map_or(0, |last| last + 1));
            batch.ids.push(hash(rng));
            batch.verdicts.push(0);
            batch.leaves.clear();
        }
    }
}

/// Consents in which one field is another, and that can be read; they cannot be signed again.
pub(super) fn consents(rng: &mut Rng, batch: &mut ConsentBatch) {
    let at = rng.index(batch.indices.len());
    match rng.below(7) {
        0 => batch.source = source(rng, batch.source),
        1 => batch.participant = participant(rng, batch.participant),
        2 => {
            batch.indices[at] = rng.index(batch.source_len as usize).try_into().expect("batches are bounded")
        }
        3 if batch.indices.len() > 1 => {
            batch.indices.remove(at);
            batch.positions.remove(at);
        }
        4 if !batch.beside.is_empty() => {
            let at = rng.index(batch.beside.len());
            batch.beside[at] = hash(rng);
        }
        5 if batch.answers < batch.source_len => batch.answers += 1,
        _ => batch.signature = signature(rng),
    }
}

/// Participations in which one column is another.
pub(super) fn participants(rng: &mut Rng, batch: &mut ParticipationBatch) {
    let at = rng.index(batch.len());
    let first = batch.firsts()[at] as usize;
    let count = usize::from(batch.counts[at]);
    match rng.below(4) {
        0 if count > 1 => {
            batch.participants.remove(first + rng.index(count));
            batch.counts[at] -= 1;
        }
        1 => {
            // Somebody who has no part in it, or is not there at all.
            batch.participants.insert(first + count, ParticipantId(u16::MAX - 1));
            batch.counts[at] += 1;
        }
        2 => {
            let one = ParticipantId(u16::try_from(rng.below(6)).expect("small"));
            batch.participants.splice(first..first + count, [one]);
            batch.counts[at] = 1;
        }
        _ => {
            let all: Vec<_> = (0..4).map(ParticipantId).collect();
            batch.counts[at] = 4;
            batch.participants.splice(first..first + count, all);
        }
    }
}

/// Decisions in which one transaction is decided otherwise.
pub(super) fn verdicts(rng: &mut Rng, batch: &mut DecisionBatch) {
    if !batch.verdicts.is_empty() {
        let at = rng.index(batch.verdicts.len());
        batch.verdicts[at] = verdict(rng, batch.verdicts[at]);
    }
}

/// What one institution is shown, with one field changed.
pub(super) fn proposals(rng: &mut Rng, batch: &mut ProposalBatch) {
    if batch.is_empty() {
        batch.source_len += 1;
        return;
    }
    let item = rng.index(batch.len());
    let header = &mut batch.headers[item];
    match rng.below(20) {
        0 => batch.source_len += 1,
        1 => batch.participant = participant(rng, batch.participant),
        2 => header.uetr = Uetr([7; 16]),
        3 => header.expiry = other_time(rng, header.expiry),
        4 => header.network = NetworkTag(header.network.0 ^ 1),
        5 => header.details = hash(rng),
        6 if header.kind < 4 => header.kind = 1 + (header.kind % 3),
        7 if header.kind < 4 => header.kind = 9,
        8 => {
            let at = rng.index(batch.participants.len());
            batch.participants[at] = participant(rng, batch.participants[at]);
        }
        9 if !batch.legs.is_empty() => {
            let leg = leg_of(rng, batch);
            leg.amount = amount(rng, leg.amount);
        }
        10 if !batch.legs.is_empty() => {
            let leg = leg_of(rng, batch);
            leg.account = account(rng, leg.account);
        }
        11 if !batch.legs.is_empty() => {
            let leg = leg_of(rng, batch);
            leg.asset = AssetId(if rng.chance(1, 2) { 77 } else { leg.asset.0 ^ 1 });
        }
        12 if !batch.legs.is_empty() => {
            let leg = leg_of(rng, batch);
            leg.participant = participant(rng, leg.participant);
        }
        13 if !batch.salts.is_empty() => {
            let at = rng.index(batch.salts.len());
            batch.salts[at] = [rng.next_u64().to_le_bytes()[0]; 16];
        }
        14 if !batch.positions.is_empty() => {
            let at = rng.index(batch.positions.len());
            batch.positions[at] = if rng.chance(1, 2) { 200 } else { batch.positions[at] ^ 1 };
        }
        15 if !batch.hidden.is_empty() => {
            let at = rng.index(batch.hidden.len());
            batch.hidden[at] = hash(rng);
        }
        16 if !batch.signers.is_empty() => {
            let at = rng.index(batch.signers.len());
            batch.signers[at].signature = signature(rng);
        }
        17 if !batch.signers.is_empty() => {
            let at = rng.index(batch.signers.len());
            batch.signers[at].key = keys()[rng.index(keys().len())].public_key();
        }
        18 if !batch.orders.is_empty() => {
            let at = rng.index(batch.orders.len());
            batch.orders[at].number = account(rng, batch.orders[at].number);
        }
        _ => {
            // Word that nothing concerns the institution.
            let Source { scheduler, number } = batch.source;
            *batch = ProposalBatch {
                source: Source { scheduler, number },
                source_len: batch.source_len,
                participant: batch.participant,
                ..ProposalBatch::default()
            };
        }
    }
}

fn leg_of<'a>(rng: &mut Rng, batch: &'a mut ProposalBatch) -> &'a mut tally_ledger::transaction::Leg {
    let at = rng.index(batch.legs.len());
    &mut batch.legs[at]
}
