//! The scheduler: form, balance, expiry, duplicates, client signatures; then one proposal for every
//! participant concerned.

use crate::message::participation::NEVER;
use crate::message::{
    AcceptedBatch, Intake, ParticipationBatch, ProposalBatch, SequenceBatch, SignatureCheck,
    SignaturesVerified, Source,
};
use crate::recent::{Recent, Reference, Seen, may_be_remembered};
use std::collections::HashMap;
use std::sync::Arc;
use tally_crypto::Signed;
use tally_ledger::batch::{Hashed, Hasher, Place};
use tally_ledger::order::{AccountAction, MAX_RANGE};
use tally_ledger::transaction::{Kind, Leg, MAX_LEGS, MAX_SIGNERS, concerned};
use tally_ledger::{
    AccountNumber, AccountOrder, AccountRole, Network, ParticipantId, Refusal, SignaturePolicy, Timestamp,
    Transaction, TransactionBatch, Uetr, balance,
};

/// References that are read ahead of use together.
const AHEAD: usize = 32;

/// One scheduler: of all transactions, those whose reference falls to it.
pub struct Scheduler {
    network: Arc<Network>,
    recent: Recent,
    /// By number, the accepted batches that are not wholly decided.
    undecided: HashMap<u64, Undecided>,
    instance: u64,
    /// How many schedulers share the references; none where this process shares them out itself.
    among: Option<usize>,
    next: u64,
    clock: Timestamp,
    hasher: Hasher,
    hashed: Hashed,
    references: Vec<Reference>,
    places: Vec<u64>,
    check: SignatureCheck,
    signed: Vec<Signed>,
    signed_of: Vec<usize>,
    verdicts: Vec<Result<(), Refusal>>,
    /// Batches accepted since they were last taken, with when the last of their transactions expires.
    accepted: Vec<(u64, Timestamp)>,
}

/// The references of an accepted batch that is not wholly decided.
struct Undecided {
    references: Vec<Reference>,
    left: usize,
}

/// What the scheduler made of a batch.
pub struct Scheduled {
    /// One for each transaction.
    pub results: Vec<Intake>,
    /// What was accepted, under its name; none when nothing was.
    pub accepted: Option<(Source, AcceptedBatch)>,
    /// Who has to answer for what was accepted.
    pub asked: Asked,
}

/// What follows from an accepted batch for those who have to answer.
#[derive(Default)]
pub struct Asked {
    /// For the assembler: the participants of every transaction; none when nothing was accepted.
    pub participation: Option<ParticipationBatch>,
    /// What each participant is asked; nothing of those that it does not concern.
    pub proposals: Vec<ProposalBatch>,
}

impl Scheduler {
    /// Scheduler number `instance`, whose next accepted batch is number `next`.
    ///
    /// `remember` is the most references it remembers, of which each institution has a share; `key` is a secret of this
    /// process.
    pub fn new(network: Arc<Network>, instance: u64, next: u64, remember: usize, key: [u64; 2]) -> Self {
        let sharing = (network.participants.len(), network.longest_validity_ms);
        Self {
            hasher: Hasher::new(&network.id),
            recent: Recent::new(instance, remember, sharing, key),
            network,
            undecided: HashMap::new(),
            instance,
            among: None,
            next,
            clock: Timestamp(0),
            hashed: Hashed::default(),
            references: Vec::new(),
            places: Vec::new(),
            check: SignatureCheck::default(),
            signed: Vec::new(),
            signed_of: Vec::new(),
            verdicts: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// One of so many schedulers: it refuses what falls to another, where a reference may be used already.
    #[must_use]
    pub fn among(self, schedulers: usize) -> Self {
        Self { among: Some(schedulers), ..self }
    }

    /// The numbers of the batches accepted since this was last called, each with when the last of its transactions expires.
    pub fn take_accepted(&mut self) -> Vec<(u64, Timestamp)> {
        std::mem::take(&mut self.accepted)
    }

    /// The transactions that use the reference now, and the institution whose each is: several institutions may have chosen the
    /// same one. What was freed, or has expired, uses it no more.
    pub fn uses(&self, uetr: &Uetr) -> Vec<(ParticipantId, (Source, u32))> {
        let institutions = (0u16..).map(ParticipantId).take(self.network.participants.len());
        let found = |participant| {
            let place = self.recent.find(&Reference { participant, uetr: *uetr }, self.clock)?;
            Some((participant, place))
        };
        institutions.filter_map(found).collect()
    }

    /// How many references are remembered, some that have expired of late among them.
    pub fn remembered(&self) -> usize {
        self.recent.len()
    }

    /// Learns, when recovering, what an earlier process accepted: all of it, also beyond what it remembers otherwise. The
    /// limit may have been lowered since, and what decisions freed counts until these are learnt.
    ///
    /// # Panics
    /// When the batches do not come in order.
    pub fn restore(&mut self, source: Source, accepted: &AcceptedBatch) {
        assert!(source.number >= self.next, "accepted batches are restored in order");
        self.clock = self.clock.max(accepted.accepted_at);
        let references: Vec<_> = references(&accepted.batch).collect();
        for ((index, header), reference) in (0u32..).zip(&accepted.batch.headers).zip(&references) {
            let place = self.recent.place(reference);
            let (number, at) = (source.number, accepted.accepted_at);
            let seen = self.recent.restore(place, reference, number, index, header.expiry, at);
            if let Seen::Before(earlier, earlier_index) = seen {
                // It was freed before it was used again. Decisions are learnt later, and must not free this use.
                self.recent.release(reference, earlier.number, earlier_index);
                self.recent.restore(place, reference, number, index, header.expiry, at);
            }
        }
        self.undecided.insert(source.number, Undecided { left: references.len(), references });
        self.next = source.number + 1;
    }

    /// Learns decisions on what it accepted: a transaction that nobody with authority signed uses up no reference. What a
    /// reference was used for before it comes again is what was authorised.
    pub fn learn(&mut self, batch: &SequenceBatch) {
        if batch.source.scheduler != self.instance {
            return;
        }
        let number = batch.source.number;
        let Some(undecided) = self.undecided.get_mut(&number) else { return };
        for run in batch.runs.iter().filter(|run| is_unauthorised(run.verdict)) {
            for index in run.index..run.index + u32::from(run.count) {
                if let Some(reference) = undecided.references.get(index as usize) {
                    self.recent.release(reference, number, index);
                }
            }
        }
        undecided.left = undecided.left.saturating_sub(batch.count as usize);
        if undecided.left == 0 {
            self.undecided.remove(&number);
        }
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
        self.references.clear();
        self.references.extend(references(&batch));
        self.places.clear();
        self.places.extend(self.references.iter().map(|reference| self.recent.place(reference)));
        let verified = self.verify_signatures(&batch, &places);
        let results = self.remember(&batch);
        let source = Source::new(self.instance, self.next);
        let accepted = results.iter().filter(|r| matches!(r, Intake::Accepted(_))).count();
        if accepted == 0 {
            return Scheduled { results, accepted: None, asked: Asked::default() };
        }
        let taken = self.references.iter().zip(&results).filter(|(_, r)| matches!(r, Intake::Accepted(_)));
        let references: Vec<_> = taken.map(|(reference, _)| *reference).collect();
        self.undecided.insert(self.next, Undecided { left: references.len(), references });
        self.next += 1;
        let batch = if accepted == batch.len() { batch } else { self.keep(&batch, &places, &results) };
        let asked = propose(&self.network, source, &batch, &self.hashed, verified, |_| true);
        let accepted = AcceptedBatch { accepted_at: self.clock, batch };
        self.accepted.push((source.number, accepted.expires()));
        Scheduled { results, accepted: Some((source, accepted)), asked }
    }

    /// The proposals for those transactions of a batch accepted by an earlier process that are undecided, and the
    /// participation of all of them.
    pub fn propose_again(
        &mut self,
        source: Source,
        batch: &TransactionBatch,
        undecided: impl Fn(u32) -> bool,
    ) -> Asked {
        self.hasher.hash(batch, &mut self.hashed);
        let verified = SignaturesVerified::by_own_journal();
        propose(&self.network, source, batch, &self.hashed, verified, undecided)
    }

    fn form(&self, batch: &TransactionBatch, index: usize, place: &Place) -> Result<(), Refusal> {
        let header = &batch.headers[index];
        let kind = Kind::from_number(header.kind).ok_or(Refusal::Malformed)?;
        if self.among.is_some_and(|schedulers| route(&header.uetr, schedulers) as u64 != self.instance) {
            return Err(Refusal::Malformed);
        }
        if usize::from(header.legs) > MAX_LEGS {
            return Err(Refusal::TooManyLegs);
        }
        if header.network != self.network.id.tag() {
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
    fn verify_signatures(&mut self, batch: &TransactionBatch, places: &[Place]) -> SignaturesVerified {
        self.signed.clear();
        self.signed_of.clear();
        let signed = if batch.signers.is_empty() { &[] } else { places };
        for (index, place) in signed.iter().enumerate() {
            if index % AHEAD == 0 {
                self.recent.touch(&self.places[index..self.places.len().min(index + AHEAD)]);
            }
            let known = self.recent.find(&self.references[index], self.clock).is_some();
            if self.verdicts[index].is_err() || known {
                continue;
            }
            for signer in &batch.signers[place.signers.clone()] {
                self.signed.push(signer.signed(self.hashed.ids[index]));
                self.signed_of.push(index);
            }
        }
        let (verified, wrong) = self.check.verify(&self.signed);
        for at in wrong {
            self.verdicts[self.signed_of[at]] = Err(Refusal::WrongSignature);
        }
        verified
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
                    let (place, reference) = (self.places[index], &self.references[index]);
                    self.recent.insert(place, reference, self.next, next, header.expiry, now)
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

/// The scheduler, of so many, to which a reference falls: the same every time, since it alone remembers
/// the reference.
pub fn route(uetr: &Uetr, schedulers: usize) -> usize {
    usize::from(uetr.0[15]) % schedulers
}

/// When those references of a batch expire that the scheduler which accepted it may remember still, and that fall to
/// another of so many schedulers: that one does not know them, and would accept them again.
pub fn misplaced(
    accepted: &AcceptedBatch,
    scheduler: u64,
    schedulers: usize,
    now: Timestamp,
) -> impl Iterator<Item = Timestamp> {
    accepted.batch.headers.iter().filter_map(move |header| {
        let is_elsewhere = route(&header.uetr, schedulers) as u64 != scheduler;
        (is_elsewhere && may_be_remembered(header.expiry, now)).then_some(header.expiry)
    })
}

/// Whether a verdict says that nobody with authority signed.
pub(super) fn is_unauthorised(verdict: u16) -> bool {
    [Refusal::Unsigned, Refusal::WrongSignature].iter().any(|refusal| refusal.number() == verdict)
}

/// The reference of each transaction.
pub(crate) fn references(batch: &TransactionBatch) -> impl Iterator<Item = Reference> + '_ {
    batch.headers.iter().zip(batch.places()).map(|(header, place)| {
        Reference::in_use(header.uetr, &batch.legs[place.legs], batch.orders.get(place.order))
    })
}

impl Reference {
    /// The reference of a transaction, see [`payer`](Self::payer).
    pub fn of(transaction: &Transaction) -> Self {
        Self::in_use(transaction.header.uetr, &transaction.legs, transaction.order.as_ref())
    }

    /// The reference as it is used: that of the institution whose customer, own funds or issuance is debited first, or which
    /// orders.
    fn in_use(uetr: Uetr, legs: &[Leg], order: Option<&AccountOrder>) -> Self {
        let ordered = || order.map(|order| order.participant);
        let participant = payer(legs).map(|leg| leg.participant).or_else(ordered);
        Self { participant: participant.unwrap_or_default(), uetr }
    }

    /// The leg of a transaction that says whose its reference is: the first that debits a customer, own funds or issuance.
    pub fn payer(transaction: &Transaction) -> Option<&Leg> {
        payer(&transaction.legs)
    }
}

fn payer(legs: &[Leg]) -> Option<&Leg> {
    let is_settlement = |leg: &Leg| matches!(leg.account.role(), AccountRole::Settlement(..));
    legs.iter().find(|leg| leg.amount.is_debit() && !is_settlement(leg)).or(legs.first())
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
    verified: SignaturesVerified,
    wanted: impl Fn(u32) -> bool,
) -> Asked {
    let source_len = u32::try_from(batch.len()).expect("batches are bounded");
    let mut slots: Vec<Option<usize>> = vec![None; network.participants.len()];
    let mut proposals: Vec<ProposalBatch> = Vec::new();
    let mut participation = ParticipationBatch {
        source,
        ids: hashed.ids.clone(),
        expiries: batch
            .headers
            .iter()
            .map(|header| if header.kind == Kind::Account.number() { NEVER } else { header.expiry })
            .collect(),
        counts: Vec::with_capacity(batch.len()),
        participants: Vec::with_capacity(batch.len()),
    };
    let mut participants = Vec::new();
    for ((index, header), place) in (0u32..).zip(&batch.headers).zip(batch.places()) {
        let legs = &batch.legs[place.legs.clone()];
        let order = (header.kind == Kind::Account.number()).then(|| &batch.orders[place.order]);
        concerned(legs, order, &mut participants);
        participation.counts.push(u8::try_from(participants.len()).expect("legs are few"));
        participation.participants.extend_from_slice(&participants);
        if !wanted(index) {
            continue;
        }
        for participant in &participants {
            let slot = *slots[participant.index()].get_or_insert_with(|| {
                let room = with_room(source, source_len, *participant, batch);
                proposals.push(ProposalBatch { verified: Some(verified), ..room });
                proposals.len() - 1
            });
            let to = &mut proposals[slot];
            to.indices.push(index);
            to.headers.push(*header);
            to.participants.extend_from_slice(&participants);
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
            to.signers.extend_from_slice(&batch.signers[place.signers.clone()]);
            to.orders.extend(order.cloned());
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
    Asked { participation: Some(participation), proposals }
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
        participants: Vec::with_capacity(items),
        shown: Vec::with_capacity(items),
        legs: Vec::with_capacity(legs),
        salts: Vec::with_capacity(legs),
        positions: Vec::with_capacity(legs),
        ..ProposalBatch::default()
    }
}
