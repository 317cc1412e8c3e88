//! The scheduler: form, balance, expiry, duplicates, client signatures; then one proposal for every
//! participant concerned.

use crate::message::{AcceptedBatch, Intake, ProposalBatch, Source};
use crate::recent::{Recent, Seen};
use std::sync::Arc;
use tally_crypto::{BatchVerifier, Signed};
use tally_ledger::batch::{Hashed, Hasher, Place};
use tally_ledger::order::{AccountAction, MAX_RANGE};
use tally_ledger::transaction::{Kind, MAX_LEGS, MAX_SIGNERS};
use tally_ledger::{
    AccountNumber, AccountRole, Network, ParticipantId, Refusal, SignaturePolicy, Timestamp,
    TransactionBatch, balance,
};

/// References that are read ahead of use together.
const AHEAD: usize = 32;
/// Payers' keys that a verifier remembers in decoded form: about 16 MiB.
pub(crate) const KNOWN_KEYS: usize = 1 << 16;

/// One scheduler: of all transactions, those whose reference falls to it.
pub struct Scheduler {
    network: Arc<Network>,
    recent: Recent,
    instance: u64,
    next: u64,
    clock: Timestamp,
    hasher: Hasher,
    hashed: Hashed,
    places: Vec<u64>,
    verifier: BatchVerifier,
    signed: Vec<Signed>,
    signed_of: Vec<usize>,
    verdicts: Vec<Result<(), Refusal>>,
    /// Batches accepted since they were last taken, with when the last of their transactions expires.
    accepted: Vec<(u64, Timestamp)>,
}

/// What the scheduler made of a batch.
pub struct Scheduled {
    /// One for each transaction.
    pub results: Vec<Intake>,
    /// What was accepted, under its name; none when nothing was.
    pub accepted: Option<(Source, AcceptedBatch)>,
    /// What each participant is asked; nothing of those that it does not concern.
    pub proposals: Vec<ProposalBatch>,
}

impl Scheduler {
    /// Scheduler number `instance`, whose next accepted batch is number `next`.
    ///
    /// `remember` is the most references it remembers; `key` is a secret of this process.
    pub fn new(network: Arc<Network>, instance: u64, next: u64, remember: usize, key: [u64; 2]) -> Self {
        Self {
            network,
            recent: Recent::new(instance, remember, key),
            instance,
            next,
            clock: Timestamp(0),
            hasher: Hasher::default(),
            hashed: Hashed::default(),
            places: Vec::new(),
            verifier: BatchVerifier::new(KNOWN_KEYS),
            signed: Vec::new(),
            signed_of: Vec::new(),
            verdicts: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// The numbers of the batches accepted since this was last called, each with when the last of its transactions expires.
    pub fn take_accepted(&mut self) -> Vec<(u64, Timestamp)> {
        std::mem::take(&mut self.accepted)
    }

    /// The transaction that used the reference, if it is still remembered.
    pub fn find(&self, uetr: &tally_ledger::Uetr, now: Timestamp) -> Option<(Source, u32)> {
        self.recent.find(uetr, now)
    }

    /// How many references are remembered.
    pub fn remembered(&self) -> usize {
        self.recent.len()
    }

    /// Learns, when recovering, what an earlier process accepted.
    ///
    /// # Panics
    /// When the batches do not come in order.
    pub fn restore(&mut self, source: Source, accepted: &AcceptedBatch) {
        assert!(source.number >= self.next, "accepted batches are restored in order");
        self.clock = self.clock.max(accepted.accepted_at);
        for (index, header) in (0u32..).zip(&accepted.batch.headers) {
            let place = self.recent.place(&header.uetr);
            self.recent.insert(
                place,
                &header.uetr,
                source.number,
                index,
                header.expiry,
                accepted.accepted_at,
            );
        }
        self.next = source.number + 1;
    }

    /// Ends recovery: the next accepted batch is number `next`, and no time before `clock` comes again.
    pub fn go_on(&mut self, next: u64, clock: Timestamp) {
        self.next = next;
        self.clock = self.clock.max(clock);
    }

    /// The time by which it judges.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Checks a batch and accepts what is in order. A clock that goes back stands still instead.
    pub fn step(&mut self, now: Timestamp, batch: TransactionBatch) -> Scheduled {
        self.clock = self.clock.max(now);
        self.verdicts.clear();
        let places: Vec<Place> = batch.places().collect();
        for place in &places {
            let verdict = self.form(&batch, self.verdicts.len(), place);
            self.verdicts.push(verdict);
        }
        self.hasher.hash(&batch, &mut self.hashed);
        self.places.clear();
        self.places.extend(batch.headers.iter().map(|header| self.recent.place(&header.uetr)));
        self.verify_signatures(&batch, &places);
        let results = self.remember(&batch);
        let source = Source::new(self.instance, self.next);
        let accepted = results.iter().filter(|r| matches!(r, Intake::Accepted(_))).count();
        if accepted == 0 {
            return Scheduled { results, accepted: None, proposals: Vec::new() };
        }
        self.next += 1;
        let batch = if accepted == batch.len() { batch } else { self.keep(&batch, &places, &results) };
        let proposals = propose(&self.network, source, &batch, &self.hashed, |_| true);
        let accepted = AcceptedBatch { accepted_at: self.clock, batch };
        self.accepted.push((source.number, accepted.expires()));
        Scheduled { results, accepted: Some((source, accepted)), proposals }
    }

    /// The proposals for those transactions of a batch accepted by an earlier process that are undecided.
    pub fn propose_again(
        &mut self,
        source: Source,
        batch: &TransactionBatch,
        undecided: impl Fn(u32) -> bool,
    ) -> Vec<ProposalBatch> {
        self.hasher.hash(batch, &mut self.hashed);
        propose(&self.network, source, batch, &self.hashed, undecided)
    }

    fn form(&self, batch: &TransactionBatch, index: usize, place: &Place) -> Result<(), Refusal> {
        let header = &batch.headers[index];
        let kind = Kind::from_number(header.kind).ok_or(Refusal::Malformed)?;
        if usize::from(header.legs) > MAX_LEGS {
            return Err(Refusal::TooManyLegs);
        }
        if header.network != self.network.id {
            return Err(Refusal::WrongNetwork);
        }
        let legs = &batch.legs[place.legs.clone()];
        balance::check(&self.network, kind, legs)?;
        let participants = match kind {
            Kind::Account => self.order_form(batch, index, place)?,
            _ => distinct(legs.iter().map(|leg| leg.participant)),
        };
        if usize::from(header.participants) != participants {
            return Err(Refusal::Malformed);
        }
        if header.expiry <= self.clock {
            return Err(Refusal::Expired);
        }
        if header.expiry > self.clock.plus_ms(self.network.longest_validity_ms) {
            return Err(Refusal::ExpiryTooFar);
        }
        if usize::from(header.signers) > MAX_SIGNERS {
            return Err(Refusal::TooManySigners);
        }
        let free = kind == Kind::Transfer && self.network.signatures == SignaturePolicy::InstitutionsOnly;
        if header.signers == 0 && !free {
            return Err(Refusal::Unsigned);
        }
        Ok(())
    }

    fn order_form(&self, batch: &TransactionBatch, index: usize, place: &Place) -> Result<usize, Refusal> {
        let order = &batch.orders[place.order];
        if batch.headers[index].details != order.hash() {
            return Err(Refusal::Malformed);
        }
        if order.participant.index() >= self.network.participants.len() {
            return Err(Refusal::UnknownParticipant);
        }
        let fits = match &order.action {
            AccountAction::Open { count, asset, floor, alias, .. } => {
                if asset.index() >= self.network.assets.len() {
                    return Err(Refusal::UnknownAsset);
                }
                (1..=MAX_RANGE).contains(count)
                    && (alias.is_empty() || *count == 1)
                    && (-crate::accounts::BALANCE_RANGE..=0).contains(&floor.0)
            }
            AccountAction::SetFloor(floor) => (-crate::accounts::BALANCE_RANGE..=0).contains(&floor.0),
            _ => true,
        };
        if fits && !order.number.is_institution() { Ok(1) } else { Err(Refusal::OrderNotPossible) }
    }

    /// Verifies the signatures of all transactions whose form is right as one batch.
    fn verify_signatures(&mut self, batch: &TransactionBatch, places: &[Place]) {
        if batch.signers.is_empty() {
            return;
        }
        self.signed.clear();
        self.signed_of.clear();
        for (index, place) in places.iter().enumerate() {
            if index % AHEAD == 0 {
                self.recent.touch(&self.places[index..self.places.len().min(index + AHEAD)]);
            }
            let known = self.recent.find(&batch.headers[index].uetr, self.clock).is_some();
            if self.verdicts[index].is_err() || known {
                continue;
            }
            for signer in &batch.signers[place.signers.clone()] {
                self.signed.push(signer.signed(self.hashed.ids[index]));
                self.signed_of.push(index);
            }
        }
        if let Err(wrong) = self.verifier.verify(&self.signed) {
            for at in wrong {
                self.verdicts[self.signed_of[at]] = Err(Refusal::WrongSignature);
            }
        }
    }

    fn remember(&mut self, batch: &TransactionBatch) -> Vec<Intake> {
        let now = self.clock;
        let mut next = 0u32;
        let mut results = Vec::with_capacity(batch.len());
        for (index, (header, verdict)) in batch.headers.iter().zip(&self.verdicts).enumerate() {
            if index % AHEAD == 0 {
                self.recent.touch(&self.places[index..self.places.len().min(index + AHEAD)]);
            }
            let seen = match verdict {
                Err(refusal) => {
                    results.push(Intake::Refused(*refusal));
                    continue;
                }
                Ok(()) => {
                    self.recent.insert(self.places[index], &header.uetr, self.next, next, header.expiry, now)
                }
            };
            results.push(match seen {
                Seen::New => {
                    next += 1;
                    Intake::Accepted(next - 1)
                }
                Seen::Before(source, index) => Intake::Duplicate(source, index),
                Seen::Full => Intake::Refused(Refusal::Overloaded),
            });
        }
        results
    }

    /// The accepted transactions alone; their hashes move with them.
    fn keep(&mut self, batch: &TransactionBatch, places: &[Place], results: &[Intake]) -> TransactionBatch {
        let mut kept = TransactionBatch::default();
        let mut hashed = Hashed::default();
        for ((index, place), result) in places.iter().enumerate().zip(results) {
            if !matches!(result, Intake::Accepted(_)) {
                continue;
            }
            kept.headers.push(batch.headers[index]);
            kept.seeds.push(batch.seeds[index]);
            kept.legs.extend_from_slice(&batch.legs[place.legs.clone()]);
            kept.signers.extend_from_slice(&batch.signers[place.signers.clone()]);
            if batch.headers[index].kind == Kind::Account.number() {
                kept.orders.push(batch.orders[place.order].clone());
            }
            hashed.ids.push(self.hashed.ids[index]);
            hashed.salts.extend_from_slice(&self.hashed.salts[place.legs.clone()]);
            hashed.legs.extend_from_slice(&self.hashed.legs[place.legs.clone()]);
        }
        self.hashed = hashed;
        kept
    }
}

/// How many different participants there are; transactions have few legs, so that searching is quickest.
fn distinct(participants: impl Iterator<Item = ParticipantId> + Clone) -> usize {
    participants
        .clone()
        .enumerate()
        .filter(|(at, p)| !participants.clone().take(*at).any(|q| q == *p))
        .count()
}

/// Whether `participant` is shown a leg: it is in its partition or on its settlement account.
fn is_shown(participant: ParticipantId, of: ParticipantId, account: AccountNumber) -> bool {
    of == participant || matches!(account.role(), AccountRole::Settlement(_, holder) if holder == participant)
}

fn propose(
    network: &Network,
    source: Source,
    batch: &TransactionBatch,
    hashed: &Hashed,
    wanted: impl Fn(u32) -> bool,
) -> Vec<ProposalBatch> {
    let source_len = u32::try_from(batch.len()).expect("batches are bounded");
    let mut slots: Vec<Option<usize>> = vec![None; network.participants.len()];
    let mut proposals: Vec<ProposalBatch> = Vec::new();
    for ((index, header), place) in (0u32..).zip(&batch.headers).zip(batch.places()) {
        if !wanted(index) {
            continue;
        }
        let legs = &batch.legs[place.legs.clone()];
        let ordered = (header.kind == Kind::Account.number()).then(|| &batch.orders[place.order].participant);
        let concerned = legs.iter().map(|leg| &leg.participant).chain(ordered);
        let mut previous: [ParticipantId; MAX_LEGS] = [ParticipantId(u16::MAX); MAX_LEGS];
        let mut known = 0;
        for participant in concerned {
            if previous[..known].contains(participant) {
                continue;
            }
            previous[known] = *participant;
            known += 1;
            let slot = *slots[participant.index()].get_or_insert_with(|| {
                proposals.push(with_room(source, source_len, *participant, batch));
                proposals.len() - 1
            });
            let to = &mut proposals[slot];
            to.indices.push(index);
            to.headers.push(*header);
            let mut shown = 0u8;
            for ((position, leg), at) in (0u8..).zip(legs).zip(place.legs.clone()) {
                if is_shown(*participant, leg.participant, leg.account) {
                    shown += 1;
                    to.legs.push(*leg);
                    let (salt, _) =
                        hashed.salts[at].as_bytes().split_first_chunk().expect("a hash has 32 bytes");
                    to.salts.push(*salt);
                    to.positions.push(position);
                } else {
                    to.hidden.push(hashed.legs[at]);
                }
            }
            to.shown.push(shown);
            to.signers.extend(batch.signers[place.signers.clone()].iter().map(|signer| signer.key));
            if ordered.is_some() {
                to.orders.push(batch.orders[place.order].clone());
            }
        }
    }
    // Everybody hears of every batch: who is not concerned knows then that it need not wait for proposals of it.
    let silent = (0u16..).map(ParticipantId).zip(&slots).filter(|(_, slot)| slot.is_none());
    proposals.extend(silent.map(|(participant, _)| ProposalBatch {
        source,
        source_len,
        participant,
        ..ProposalBatch::default()
    }));
    proposals
}

fn with_room(
    source: Source,
    source_len: u32,
    participant: ParticipantId,
    batch: &TransactionBatch,
) -> ProposalBatch {
    let (items, legs) = (batch.len(), batch.legs.len());
    ProposalBatch {
        source,
        source_len,
        participant,
        indices: Vec::with_capacity(items),
        headers: Vec::with_capacity(items),
        shown: Vec::with_capacity(items),
        legs: Vec::with_capacity(legs),
        salts: Vec::with_capacity(legs),
        positions: Vec::with_capacity(legs),
        ..ProposalBatch::default()
    }
}
