//! The pass over a journal: what was accepted, what was decided, and the auditor's own state transition.

use super::book::{Account, Book, Status};
use super::finding::{Change, Fault, Finding, Findings, Subject};
use super::form::{self, Remainders};
use super::item::{Item, Place};
use super::open::Open;
use super::references::{References, Use};
use super::signatures::{Claim, Signatures, Wrong};
use super::{AuditOptions, AuditReport, Beginning, Coverage, Earlier, Limit, Order};
use crate::engine::Total;
use crate::message::{AcceptedBatch, ConsentBatch, ProposalBatch, SequenceBatch, SequenceLeafHasher, Source};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tally_crypto::log::Frontier;
use tally_crypto::merkle::RootBuilder;
use tally_crypto::{Hash, PublicKey, Signed};
use tally_ledger::batch::{Hashed, Hasher};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Kind, Leg};
use tally_ledger::{
    AccountId, AccountOrder, AccountRole, AssetId, Network, ParticipantId, SignaturePolicy, Timestamp,
};
use tally_log::Ticket;

/// An answer that was given before a transaction's expiry may reach the assembler for so long after it.
const GRACE_MS: u64 = 2_000;
/// How far the clocks of two processes may be apart, where the order of two records is known by their clocks alone.
const CLOCKS_MS: u64 = 300_000;
/// A scheduler that accepted nothing for so long, by the sequence's clock, holds no reference back.
const IDLE_MS: u64 = 48 * 60 * 60 * 1000;
/// Transactions that are read ahead of use together.
const AHEAD: usize = 32;

/// What a pass looks at.
pub(super) struct Plan {
    pub(super) network: Arc<Network>,
    pub(super) options: AuditOptions,
    /// The one institution whose partition is audited; all if none.
    pub(super) institution: Option<ParticipantId>,
    pub(super) earlier: Vec<Earlier>,
    pub(super) order: Order,
    pub(super) most: usize,
}

impl Plan {
    /// How far below zero a settlement account could go at that place of the sequence.
    fn settlement_floor(&self, sequence: u64, holder: ParticipantId, asset: AssetId, now: i64) -> i64 {
        let floors = self.earlier.iter().filter(|earlier| sequence < earlier.until);
        let floors = floors.filter_map(|earlier| match earlier.limit {
            Limit::SettlementFloor(of, in_asset, floor) if of == holder && in_asset == asset => Some(floor.0),
            _ => None,
        });
        floors.fold(now, i64::min)
    }

    /// The largest leg of a transfer at that place of the sequence.
    fn largest_payment(&self, sequence: u64, asset: AssetId) -> u64 {
        let now =
            self.network.assets.get(asset.index()).map_or(0, |asset| asset.largest_payment.0.unsigned_abs());
        let limits = self.earlier.iter().filter(|earlier| sequence < earlier.until);
        let limits = limits.filter_map(|earlier| match earlier.limit {
            Limit::LargestPayment(of, largest) if of == asset => Some(largest.0.unsigned_abs()),
            _ => None,
        });
        limits.fold(now, u64::max)
    }
}

/// One audit under way.
pub(super) struct Pass {
    plan: Plan,
    findings: Findings,
    signatures: Option<Signatures>,
    hasher: Hasher,
    hashed: Hashed,
    open: BTreeMap<Source, Open>,
    schedulers: HashMap<u64, Scheduler>,
    sequence: Sequence,
    ledger: Ledger,
    /// Where one institution is audited from what it is shown.
    known: Option<Known>,
    accepted: u64,
    made: u64,
    late: u64,
}

/// What is known of one scheduler.
#[derive(Default)]
struct Scheduler {
    /// The number after the last batch that it accepted.
    next: u64,
    clock: Timestamp,
    /// The first batch of which an institution is shown anything.
    first: Option<u64>,
}

/// The sequence as far as it was read.
struct Sequence {
    operator: PublicKey,
    next: u64,
    clock: Timestamp,
    tree: Frontier,
    /// Whether the tree is still the one that the records state.
    comparable: bool,
    leaves: SequenceLeafHasher,
    root: RootBuilder,
}

/// From where on what is at hand, where that is not everything.
#[derive(Default)]
struct Known {
    /// From here on everything that is decided was shown.
    from: u64,
    /// From here on the books are those that the decisions come to.
    accounts: u64,
    /// By assembler, from when on it was shown that the others agreed.
    consents: Vec<ConsentsFrom>,
    /// Of the first transaction of which that was asked.
    consents_from: Option<u64>,
}

/// From when on an assembler's consents are at hand.
#[derive(Clone, Copy)]
enum ConsentsFrom {
    /// From the beginning.
    Beginning,
    /// From some time on; the time of the first decision with all consents, once there was one.
    Later(Option<Timestamp>),
}

/// The state that decided transactions come to.
struct Ledger {
    books: Vec<Book>,
    references: References,
    remainders: Remainders,
}

impl Pass {
    pub(super) fn new(plan: Plan) -> Self {
        let network = &plan.network;
        let participants = (0u16..).map(ParticipantId).take(network.participants.len());
        let operator =
            network.participants.first().map_or(PublicKey::from_bytes([0; 32]), |operator| operator.key);
        Self {
            findings: Findings::default(),
            signatures: plan.options.signatures.then(|| Signatures::new(plan.most)),
            hasher: Hasher::new(&network.id),
            hashed: Hashed::default(),
            open: BTreeMap::new(),
            schedulers: HashMap::new(),
            sequence: Sequence {
                operator,
                next: 0,
                clock: Timestamp(0),
                tree: Frontier::new(),
                comparable: true,
                leaves: SequenceLeafHasher::default(),
                root: RootBuilder::new(),
            },
            ledger: Ledger {
                books: participants.map(|participant| Book::new(network, participant)).collect(),
                references: References::new(),
                remainders: Remainders::default(),
            },
            known: None,
            accepted: 0,
            made: 0,
            late: 0,
            plan,
        }
    }

    /// Starts from what an institution is shown, and the accounts that it saved.
    pub(super) fn begin(&mut self, beginning: Beginning) {
        let Beginning { from, accounts, consents_expired } = beginning;
        let begins = |expired| if expired { ConsentsFrom::Later(None) } else { ConsentsFrom::Beginning };
        let consents = consents_expired.into_iter().map(begins).collect();
        let mut known = Known { from, accounts: 0, consents, consents_from: None };
        if let (Some(opened), Some(of)) = (accounts, self.plan.institution) {
            known.accounts = opened.sequence;
            let network = Arc::clone(&self.plan.network);
            let book = &mut self.ledger.books[of.index()];
            book.restore(opened);
            // What it holds at the settlement institutions is not in its own snapshot: it is what its books sum to.
            let sums = book.sums(network.assets.len());
            for ((asset, properties), sum) in (0u16..).map(AssetId).zip(&network.assets).zip(sums) {
                if properties.settled_at != of {
                    let number = tally_ledger::AccountNumber::settlement(asset, of);
                    let held = i64::try_from(sum).unwrap_or(i64::MAX);
                    self.ledger.books[properties.settled_at.index()].set_balance(number, held);
                }
            }
        }
        self.known = Some(known);
    }

    /// Takes what the institution is shown of an accepted batch.
    pub(super) fn propose(&mut self, batch: ProposalBatch) {
        let source = batch.source;
        if self.plan.institution != Some(batch.participant) {
            // It lies where it does not belong, and nobody takes it for the institution's.
            return;
        }
        let scheduler = self.schedulers.entry(source.scheduler).or_default();
        // A batch that is proposed again is the same.
        if source.number >= scheduler.next {
            scheduler.next = source.number.saturating_add(1);
            scheduler.first = scheduler.first.or(Some(source.number));
            self.accepted += batch.len() as u64;
            self.open.insert(source, Open::shown(batch, &mut self.hasher));
        }
    }

    /// Takes what another institution agreed to. What it did not sign counts for nothing.
    pub(super) fn agree(&mut self, consents: &ConsentBatch) {
        let Some(open) = self.open.get_mut(&consents.source) else { return };
        let network = &self.plan.network;
        let Some(other) = network.participants.get(consents.participant.index()) else { return };
        if !open.has_length(consents.source_len) {
            return;
        }
        if !self.plan.options.signatures || consents.verifies(&network.id, &other.key, |index| open.id(index))
        {
            open.agree(consents);
        }
    }

    /// Asks who else agreed to what was made. Where earlier consents have expired that is asked of what was accepted after
    /// the first decision with all of them: a transaction expires no later than a validity after it was accepted.
    fn is_agreed(&mut self, place: Place, item: &Item<'_>, open: &Open) {
        let (Some(known), Some(of)) = (&mut self.known, self.plan.institution) else { return };
        let others = open.others(place.index, of);
        let assemblers = known.consents.len() as u64;
        let assembler = place.source.number.checked_rem(assemblers).and_then(|at| usize::try_from(at).ok());
        let Some(begins) = assembler.and_then(|at| known.consents.get_mut(at)) else { return };
        if others.is_empty() {
            return;
        }
        let missing = others.iter().find(|(_, agreed)| !agreed).map(|(other, _)| *other);
        let validity_ms = self.plan.network.longest_validity_ms.saturating_add(CLOCKS_MS);
        let is_at_hand = match *begins {
            ConsentsFrom::Beginning => true,
            ConsentsFrom::Later(Some(from)) => item.header.expiry > from.plus_ms(validity_ms),
            ConsentsFrom::Later(None) => false,
        };
        if let (ConsentsFrom::Later(from @ None), None) = (begins, missing) {
            *from = Some(place.timestamp);
        }
        if is_at_hand || missing.is_none() {
            known.consents_from.get_or_insert(place.sequence);
        }
        if let Some(missing) = missing.filter(|_| is_at_hand) {
            let bic = super::bic(&self.plan.network, missing).to_owned();
            let named = Some((item.header.uetr, item.id));
            self.find_at(place, named, Some(missing), None, None, Fault::NotAgreed(bic));
        }
    }

    /// Takes the next accepted batch. What is wrong with its transactions counts once they are made.
    pub(super) fn accept(&mut self, ticket: Ticket, source: Source, batch: Arc<AcceptedBatch>) {
        self.accepted += batch.batch.len() as u64;
        let scheduler = self.schedulers.entry(source.scheduler).or_default();
        let (before, now) = (scheduler.clock, batch.accepted_at);
        scheduler.next = scheduler.next.max(source.number.saturating_add(1));
        scheduler.clock = before.max(now);
        let of_batch = |fault| Finding {
            ticket: Some(ticket),
            sequence: None,
            transaction: Some(Subject { source, index: 0, named: None }),
            institution: None,
            account: None,
            key: None,
            fault,
        };
        if now < before {
            self.findings.add(self.plan.most, of_batch(Fault::TimeBack { now, before }));
        }
        if self.open.contains_key(&source) {
            return self.findings.add(self.plan.most, of_batch(Fault::AcceptedTwice));
        }
        self.hasher.hash(&batch.batch, &mut self.hashed);
        let ids = std::mem::take(&mut self.hashed.ids);
        self.open.insert(source, Open::whole(ticket, source, batch, ids));
    }

    /// Checks one record of the sequence and makes what it decides true.
    pub(super) fn sequence(&mut self, ticket: Ticket, batch: &SequenceBatch) {
        let open = self.open.remove(&batch.source);
        self.record(ticket, batch, open.as_ref());
        let Some(mut open) = open else {
            if self.known.as_ref().is_some_and(|known| batch.first < known.from) {
                return;
            }
            let known = self.schedulers.get(&batch.source.scheduler);
            let decided = known.is_some_and(|scheduler| batch.source.number < scheduler.next);
            let fault = match (decided, &self.known) {
                (true, _) => Fault::DecidedTwice,
                (false, None) => Fault::NotAccepted,
                (false, Some(_)) => Fault::NotShown,
            };
            for ((index, _), sequence) in batch.decisions().zip(batch.first..) {
                let place = place(ticket, sequence, batch, index);
                self.find(place, None, None, fault.clone());
            }
            return;
        };
        let decisions: Vec<(u32, u16)> = batch.decisions().collect();
        let mut scratch = Vec::new();
        for (at, (index, verdict)) in decisions.iter().enumerate() {
            if at % AHEAD == 0 {
                self.touch(&open, &decisions[at..decisions.len().min(at + AHEAD)]);
            }
            let place = place(ticket, batch.first.saturating_add(at as u64), batch, *index);
            match open.decide(*index) {
                None => self.find(place, None, None, Fault::NotAccepted),
                Some(false) => {
                    let named = open.item(*index, None, &mut scratch).map(|item| (item.header.uetr, item.id));
                    self.find(place, named, None, Fault::DecidedTwice);
                }
                Some(true) if *verdict == 0 => {
                    if let Some(item) = open.item(*index, self.plan.institution, &mut scratch) {
                        self.is_agreed(place, &item, &open);
                        self.make(place, &item);
                    }
                }
                Some(true) => {}
            }
        }
        if open.left() > 0 {
            self.open.insert(batch.source, open);
        }
    }

    /// Checks that a record of the sequence follows on the one before it, and commits to what it decides.
    fn record(&mut self, ticket: Ticket, batch: &SequenceBatch, open: Option<&Open>) {
        let mut faults = Vec::new();
        let sequence = &mut self.sequence;
        if batch.first != sequence.next {
            faults.push(Fault::Gap { expected: sequence.next, found: batch.first });
        }
        sequence.next = batch.first.saturating_add(u64::from(batch.count));
        if batch.timestamp < sequence.clock {
            faults.push(Fault::TimeBack { now: batch.timestamp, before: sequence.clock });
        }
        sequence.clock = sequence.clock.max(batch.timestamp);
        // What an institution is not shown it cannot compute: the root is part of the log's leaf all the same.
        let ids = open.and_then(|open| {
            batch.decisions().map(|(index, _)| open.id(index)).collect::<Option<Vec<Hash>>>()
        });
        if let Some(ids) = ids {
            let mut leaves = Vec::with_capacity(ids.len());
            let verdicts = batch.decisions().map(|(_, verdict)| verdict);
            sequence.leaves.hash(batch.first, &ids, verdicts, &mut leaves);
            if sequence.root.root(&leaves) != batch.root {
                faults.push(Fault::WrongRoot);
            }
        }
        sequence.tree.append(&batch.leaf_data());
        if sequence.comparable
            && (sequence.tree.len() != batch.tree_size || sequence.tree.root() != batch.tree_root)
        {
            sequence.comparable = false;
            faults.push(Fault::WrongTree);
        }
        let head = batch.tree_head().verify(&self.plan.network.id.0, &sequence.operator).is_err();
        if head {
            faults.push(Fault::WrongHead);
        }
        for fault in faults {
            let key = (fault == Fault::WrongHead).then_some(self.sequence.operator);
            let finding = Finding {
                ticket: Some(ticket),
                sequence: Some(batch.first),
                transaction: None,
                institution: None,
                account: None,
                key,
                fault,
            };
            self.findings.add(self.plan.most, finding);
        }
    }

    fn touch(&self, open: &Open, decisions: &[(u32, u16)]) {
        let mut sum = 0;
        for (index, _) in decisions {
            let Some(header) = open.header(*index) else { continue };
            sum ^= self.ledger.references.touch(&header.uetr);
            for leg in open.legs(*index) {
                if let Some(book) = self.ledger.books.get(leg.participant.index()) {
                    sum ^= book.touch(leg.account).unsigned_abs();
                }
            }
        }
        std::hint::black_box(sum);
    }

    fn find(
        &mut self,
        place: Place,
        named: Option<(tally_ledger::Uetr, Hash)>,
        wrong: Option<(AccountId, Option<PublicKey>)>,
        fault: Fault,
    ) {
        let participant = wrong.map(|(account, _)| account.participant);
        self.find_at(
            place,
            named,
            participant,
            wrong.map(|(account, _)| account),
            wrong.and_then(|w| w.1),
            fault,
        );
    }

    fn find_at(
        &mut self,
        place: Place,
        named: Option<(tally_ledger::Uetr, Hash)>,
        participant: Option<ParticipantId>,
        account: Option<AccountId>,
        key: Option<PublicKey>,
        fault: Fault,
    ) {
        let bic =
            participant.and_then(|p| self.plan.network.participants.get(p.index())).map(|p| p.bic.clone());
        let finding = Finding {
            ticket: Some(place.ticket),
            sequence: Some(place.sequence),
            transaction: Some(Subject { source: place.source, index: place.index, named }),
            institution: bic,
            account,
            key,
            fault,
        };
        self.findings.add(self.plan.most, finding);
    }

    /// Asks of a transaction that was made what allowed it, and makes its changes.
    fn make(&mut self, place: Place, item: &Item<'_>) {
        self.made += 1;
        let named = Some((item.header.uetr, item.id));
        self.late += u64::from(place.timestamp > item.header.expiry.plus_ms(GRACE_MS));
        let network = Arc::clone(&self.plan.network);
        let (of, remainders) = (self.plan.institution, &mut self.ledger.remainders);
        let kind = form::check(&network, item, of, remainders);
        if let Err(wrong) = kind {
            self.find_at(place, named, wrong.participant, wrong.account, None, wrong.fault);
        }
        let kind = Kind::from_number(item.header.kind).unwrap_or(Kind::Transfer);
        self.is_within_limits(place, item, kind);
        self.use_reference(place, item);
        let mut rests = Rests::default();
        if let Some(order) = item.order {
            self.make_order(place, item, order, &mut rests);
        }
        for leg in item.legs {
            self.make_leg(place, item, kind, leg, &mut rests);
        }
        if let Some(signatures) = &mut self.signatures {
            for (at, signer) in item.signers.iter().enumerate() {
                let signed = Signed { key: signer.key, message: item.id, signature: signer.signature };
                let claim = Claim { place, uetr: item.header.uetr, rests: rests.of(at) };
                signatures.add(signed, claim);
            }
        }
    }

    fn is_within_limits(&mut self, place: Place, item: &Item<'_>, kind: Kind) {
        if kind != Kind::Transfer {
            return;
        }
        let above = item.legs.iter().find_map(|leg| {
            let limit = self.plan.largest_payment(place.sequence, leg.asset);
            let amount = leg.amount.0.unsigned_abs();
            (amount > limit).then_some((account_of(leg), Fault::AboveLimit { amount, limit }))
        });
        if let Some((account, fault)) = above {
            self.find(place, Some((item.header.uetr, item.id)), Some((account, None)), fault);
        }
    }

    fn use_reference(&mut self, place: Place, item: &Item<'_>) {
        // Of what others pay it, an institution is not shown who pays.
        let Some(payer) = item.payer else { return };
        let accepted = item.accepted.map_or(item.header.expiry, |(_, at)| at);
        let (uetr, expiry) = (item.header.uetr, item.header.expiry);
        let new = Use { uetr, payer, accepted, expiry, sequence: place.sequence };
        let (open, schedulers, clock) = (&self.open, &self.schedulers, self.sequence.clock);
        let horizon = || horizon(open, schedulers, clock).min(accepted);
        if let Some(before) = self.ledger.references.insert(&new, horizon) {
            let named = Some((uetr, item.id));
            self.find_at(place, named, Some(payer), None, None, Fault::ReferenceUsed(before));
        }
    }

    /// The key whose signature a leg needs, by the policy of the network.
    fn needs(&self, kind: Kind, leg: &Leg, account: &Account) -> Option<(Change, Option<PublicKey>)> {
        let institution =
            || self.plan.network.participants.get(leg.participant.index()).map(|institution| institution.key);
        let free =
            kind == Kind::Transfer && self.plan.network.signatures == SignaturePolicy::InstitutionsOnly;
        match leg.account.role() {
            AccountRole::Issuance(_) => Some((Change::Issuance, institution())),
            AccountRole::Own(_) if leg.amount.is_debit() && !free => Some((Change::OwnFunds, institution())),
            AccountRole::Customer if leg.amount.is_debit() && !free => Some((Change::Debit, account.owner)),
            // What a settlement account pays, its holder's own books pay, under the signatures that these need.
            _ => None,
        }
    }

    /// Whether the accounts that were begun with already have what is decided there.
    fn is_before_accounts(&self, place: Place) -> bool {
        self.known.as_ref().is_some_and(|known| place.sequence < known.accounts)
    }

    fn make_leg(&mut self, place: Place, item: &Item<'_>, kind: Kind, leg: &Leg, rests: &mut Rests) {
        let named = Some((item.header.uetr, item.id));
        let id = account_of(leg);
        let account = self.ledger.books.get(leg.participant.index()).and_then(|book| book.get(leg.account));
        let Some(account) = account else {
            return self.find(place, named, Some((id, None)), Fault::NoAccount);
        };
        if account.asset != leg.asset {
            self.find(place, named, Some((id, None)), Fault::OtherAsset);
        }
        if let Some((change, key)) = self.needs(kind, leg, &account) {
            match key.and_then(|key| item.signers.iter().position(|signer| signer.key == key)) {
                Some(at) => rests.add(at, change, id),
                None => self.find(place, named, Some((id, key)), Fault::NotSigned(change)),
            }
        }
        if self.is_before_accounts(place) {
            return;
        }
        match account.status {
            Status::Open => {}
            Status::Closed => self.find(place, named, Some((id, None)), Fault::Closed),
            Status::Frozen => {
                let frozen = self.ledger.books[leg.participant.index()].changed(leg.account).copied();
                if let Some(frozen) = frozen.filter(|frozen| !self.may_precede(item, frozen)) {
                    self.find(place, named, Some((id, None)), Fault::Frozen(frozen.sequence));
                }
            }
        }
        let Some(after) = account.balance.checked_add(leg.amount.0) else {
            return self.find(place, named, Some((id, None)), Fault::OutOfRange);
        };
        let floor = match leg.account.role() {
            AccountRole::Settlement(asset, holder) => {
                self.plan.settlement_floor(place.sequence, holder, asset, account.floor)
            }
            _ => account.floor,
        };
        if leg.amount.is_debit() && after < floor {
            let fault = Fault::BelowFloor { after, floor };
            self.find(place, named, Some((id, None)), fault);
        }
        if let Some(book) = self.ledger.books.get_mut(leg.participant.index()) {
            book.set_balance(leg.account, after);
        }
    }

    fn make_order(&mut self, place: Place, item: &Item<'_>, order: &AccountOrder, rests: &mut Rests) {
        let named = Some((item.header.uetr, item.id));
        let id = AccountId { participant: order.participant, number: order.number };
        let Some(institution) = self.plan.network.participants.get(order.participant.index()) else { return };
        let key = institution.key;
        match item.signers.iter().position(|signer| signer.key == key) {
            Some(at) => rests.add(at, Change::Order, id),
            None => self.find(place, named, Some((id, Some(key))), Fault::NotSigned(Change::Order)),
        }
        if self.is_before_accounts(place) {
            return;
        }
        let Some(book) = self.ledger.books.get(order.participant.index()) else { return };
        let account = book.get(order.number).filter(|_| !order.number.is_institution());
        let wrong = match (&order.action, account) {
            (AccountAction::Open { .. }, _) if order.number.0 != book.next() => {
                Some(Fault::Order("accounts are opened in the order of their numbers"))
            }
            (AccountAction::Open { .. }, _) => None,
            (_, None) => Some(Fault::NoAccount),
            (_, Some(Account { status: Status::Closed, .. })) => Some(Fault::Closed),
            (AccountAction::Freeze, Some(Account { status: Status::Frozen, .. })) => {
                Some(Fault::Order("the account is frozen already"))
            }
            (AccountAction::Release, Some(Account { status: Status::Open, .. })) => {
                Some(Fault::Order("the account is not frozen"))
            }
            (AccountAction::Close, Some(Account { balance, .. })) if balance != 0 => {
                Some(Fault::Order("the account is not empty"))
            }
            (AccountAction::SetFloor(floor), Some(Account { balance, .. })) if balance < floor.0 => {
                Some(Fault::BelowFloor { after: balance, floor: floor.0 })
            }
            _ => None,
        };
        if let Some(fault) = wrong {
            // The state goes on without it: an order that does not fit has no meaning.
            return self.find(place, named, Some((id, None)), fault);
        }
        let book = &mut self.ledger.books[order.participant.index()];
        match &order.action {
            AccountAction::Open { count, asset, owner, floor, alias } => {
                if item.header.kind == Kind::Account.number() {
                    book.open((*count).min(tally_ledger::order::MAX_RANGE), *asset, *owner, floor.0);
                }
                if !alias.is_empty() && !book.take_alias(alias) {
                    self.find(place, named, Some((id, None)), Fault::Order("its alias is another account's"));
                }
            }
            AccountAction::Freeze => book.set_status(order.number, Status::Frozen, place),
            AccountAction::Release => book.set_status(order.number, Status::Open, place),
            AccountAction::Close => book.set_status(order.number, Status::Closed, place),
            AccountAction::SetFloor(floor) => book.set_floor(order.number, floor.0),
        }
    }

    /// Whether a transaction on an account that is frozen by now may have been approved before the freeze was: it
    /// waited for another institution's answer meanwhile. The proof is in `docs/decisions/016-audit.md`.
    fn may_precede(&self, item: &Item<'_>, frozen: &Place) -> bool {
        // An institution answers what one scheduler proposes in the order in which it was accepted.
        let at = (item.source.number, item.index);
        if item.source.scheduler == frozen.source.scheduler && at >= (frozen.source.number, frozen.index) {
            return false;
        }
        let Some((ticket, accepted)) = item.accepted else { return true };
        match self.plan.order {
            // What concerns one institution alone is decided in the order in which that one answers.
            Order::Journal => item.header.participants > 1 && ticket < frozen.ticket,
            Order::Topics => accepted <= frozen.timestamp.plus_ms(CLOCKS_MS),
        }
    }

    /// What signatures were handed in come before any record at which reading stopped.
    pub(super) fn findings(&mut self) -> Findings {
        if let Some(signatures) = self.signatures.take() {
            let Wrong { first, more } = signatures.finish();
            let bic = |account: AccountId| {
                let institution = self.plan.network.participants.get(account.participant.index());
                institution.map(|institution| institution.bic.clone())
            };
            let finding = |(claim, signed): (Claim, Signed)| Finding {
                ticket: Some(claim.place.ticket),
                sequence: Some(claim.place.sequence),
                transaction: Some(Subject {
                    source: claim.place.source,
                    index: claim.place.index,
                    named: Some((claim.uetr, signed.message)),
                }),
                institution: claim.rests.and_then(|(_, account)| bic(account)),
                account: claim.rests.map(|(_, account)| account),
                key: Some(signed.key),
                fault: Fault::WrongSignature(claim.rests.map(|(change, _)| change)),
            };
            let wrong = Findings { first: first.into_iter().map(finding).collect(), more };
            self.findings.join(self.plan.most, wrong);
        }
        std::mem::take(&mut self.findings)
    }

    /// Checks at the end that each institution's accounts sum to its settlement account, and to nothing at the
    /// asset's settlement institution itself.
    pub(super) fn books_match(&mut self) {
        let network = Arc::clone(&self.plan.network);
        let participants = (0u16..).map(ParticipantId).take(network.participants.len());
        for participant in participants.filter(|p| self.plan.institution.is_none_or(|of| of == *p)) {
            let sums = self.ledger.books[participant.index()].sums(network.assets.len());
            for ((asset, properties), sum) in (0u16..).map(AssetId).zip(&network.assets).zip(sums) {
                let number = tally_ledger::AccountNumber::settlement(asset, participant);
                let book = self.ledger.books.get(properties.settled_at.index());
                let settlement = match book.filter(|book| book.participant != participant) {
                    Some(book) => book.get(number).map_or(0, |account| i128::from(account.balance)),
                    None => 0,
                };
                if sum != settlement {
                    let finding = Finding {
                        ticket: None,
                        sequence: None,
                        transaction: None,
                        institution: Some(network.participants[participant.index()].bic.clone()),
                        account: None,
                        key: None,
                        fault: Fault::Books { asset: properties.code.clone(), sum, settlement },
                    };
                    self.findings.add(self.plan.most, finding);
                }
            }
        }
    }

    /// What the pass came to.
    pub(super) fn report(&self) -> AuditReport {
        AuditReport {
            journal: None,
            institution: self.plan.institution,
            coverage: self.known.as_ref().map(|known| Coverage {
                keys_from: known.from,
                accounts_from: known.accounts,
                consents_from: known.consents_from,
            }),
            accepted: self.accepted,
            sequenced: self.sequence.next,
            made: self.made,
            undecided: self.open.values().map(|open| open.left() as u64).sum(),
            late: self.late,
            tree_size: self.sequence.tree.len(),
            tree_root: self.sequence.tree.root(),
            totals: self.totals(),
            took: Duration::ZERO,
        }
    }

    fn totals(&self) -> Vec<Total> {
        let books = self.ledger.books.iter();
        let books = books.filter(|book| self.plan.institution.is_none_or(|of| of == book.participant));
        let mut all = Vec::new();
        for book in books {
            let first = all.len();
            let of_asset = |asset| Total {
                participant: book.participant,
                asset,
                accounts: 0,
                customers: 0,
                own: 0,
                issued: 0,
                settlement: 0,
            };
            all.extend((0u16..).map(AssetId).take(self.plan.network.assets.len()).map(of_asset));
            for (role, asset, balance) in book.balances() {
                let Some(total) = all.get_mut(first + asset.index()) else { continue };
                let balance = i128::from(balance);
                match role {
                    AccountRole::Customer => {
                        total.accounts += 1;
                        total.customers += balance;
                    }
                    AccountRole::Own(_) => total.own += balance,
                    AccountRole::Issuance(_) => total.issued -= balance,
                    AccountRole::Settlement(..) => total.settlement += balance,
                }
            }
        }
        all
    }
}

/// The first change that rests on each signature.
#[derive(Default)]
struct Rests(Vec<(usize, Change, AccountId)>);

impl Rests {
    fn add(&mut self, signer: usize, change: Change, account: AccountId) {
        self.0.push((signer, change, account));
    }
    fn of(&self, signer: usize) -> Option<(Change, AccountId)> {
        self.0.iter().find(|(at, ..)| *at == signer).map(|(_, change, account)| (*change, *account))
    }
}

fn account_of(leg: &Leg) -> AccountId {
    AccountId { participant: leg.participant, number: leg.account }
}

fn place(ticket: Ticket, sequence: u64, batch: &SequenceBatch, index: u32) -> Place {
    Place { ticket, sequence, timestamp: batch.timestamp, source: batch.source, index }
}

/// Before this time nothing is accepted any more: by the schedulers' clocks, and by what is not decided.
fn horizon(
    open: &BTreeMap<Source, Open>,
    schedulers: &HashMap<u64, Scheduler>,
    clock: Timestamp,
) -> Timestamp {
    let active = schedulers.values().map(|scheduler| scheduler.clock);
    let active = active.filter(|at| at.plus_ms(IDLE_MS) >= clock);
    let undecided = open.values().filter_map(Open::accepted_at);
    active.chain(undecided).min().unwrap_or(Timestamp(clock.0.saturating_sub(IDLE_MS)))
}
