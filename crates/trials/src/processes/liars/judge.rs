//! What an honest institution's books may be, whatever the operator writes.
//!
//! It reads what the institution itself was shown, what it answered and the sequence, and applies to books of its own
//! what the institution approved *and* what the owners' or issuer's keys allow, as their clients know it. Its rules
//! are those of `docs/decisions/017-members-that-lie.md`; it shares no code with approvers and updaters.

use super::institution::first_answers;
use super::{own, shared};
use crate::processes::clients::Clients;
use crate::processes::world::World;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tally_crypto::PublicKey;
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Leg;
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, AccountRole, AccountStatus, AssetId, Kind, Network,
    ParticipantId, SignaturePolicy, Transaction, TransactionId,
};
use tally_log::Offset;
use tally_settlement::message::{Message, Proposal, ProposalBatch, SequenceBatch, Source};
use tally_settlement::process::Role;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Account {
    asset: AssetId,
    balance: i128,
    status: AccountStatus,
    floor: i128,
    owner: Option<PublicKey>,
}

type Books = BTreeMap<AccountNumber, Account>;

/// One honest institution, as the judge sees it.
struct Institution {
    participant: ParticipantId,
    books: Books,
    customers: u32,
    /// The decisions below this number are judged.
    applied: u64,
    /// The records of the sequence that are.
    records: u64,
    /// By scheduler, the proposals that are known, and the number after the last that was shown.
    shown: Vec<(u64, u64)>,
    proposals: HashMap<Source, Arc<ProposalBatch>>,
    decided: BTreeSet<(Source, u32)>,
    /// What was made in its books.
    made: BTreeSet<TransactionId>,
    /// Every state of its books within the last record.
    states: Vec<Books>,
    /// It must not go on.
    halted: bool,
}

/// All honest institutions.
pub(crate) struct Judge {
    network: Arc<Network>,
    institutions: Vec<Institution>,
    /// The account orders that were made, in their order at each institution.
    pub(in crate::processes) orders: Vec<AccountOrder>,
    /// Transactions that were made in an institution's books.
    pub(super) made: u64,
    /// How often the operator made what an institution had approved and another had not, and the institution did not go on.
    pub(super) without_consent: u64,
    /// How often books were compared.
    pub(super) compared: u64,
}

impl Judge {
    pub(super) fn new(world: &World) -> Self {
        let network = Arc::clone(&world.setup.network);
        let schedulers = usize::from(world.setup.layout.schedulers);
        let institution = |participant| Institution {
            participant,
            books: opening(&network, participant),
            customers: 0,
            applied: 0,
            records: 0,
            shown: vec![(0, 0); schedulers],
            proposals: HashMap::new(),
            decided: BTreeSet::new(),
            made: BTreeSet::new(),
            states: Vec::new(),
            halted: false,
        };
        let institutions = world.setup.layout.everybody().map(institution).collect();
        Self { institutions, network, orders: Vec::new(), made: 0, without_consent: 0, compared: 0 }
    }

    /// Compares the books of every institution with what they may be.
    pub(in crate::processes) fn look(&mut self, world: &World, clients: &Clients) {
        let mut institutions = std::mem::take(&mut self.institutions);
        for institution in &mut institutions {
            let Some(state) = world.updaters.get(&institution.participant.0) else { continue };
            let updater = state.lock().expect("nobody panics and goes on");
            let applied = updater.applied();
            if applied > institution.applied {
                self.advance(world, clients, institution, applied);
            }
            // One that was opened again may begin earlier, with balances that were compared then.
            if applied != institution.applied {
                continue;
            }
            self.compared += 1;
            let mut shown = Books::new();
            for (number, account) in updater.accounts().iter() {
                let owner = (!number.is_institution()).then(|| updater.accounts().owner(account).copied());
                let status = account.status();
                let floor = i128::from(updater.accounts().floor(number, account).0);
                let balance = i128::from(account.balance);
                let owner = owner.flatten();
                shown.insert(number, Account { asset: account.asset, balance, status, floor, owner });
            }
            // What it is not used for is not in the judge's books.
            shown.retain(|number, account| {
                institution.books.contains_key(number) || account.balance != 0 || !number.is_institution()
            });
            if shown == institution.books {
                continue;
            }
            let stopped = world.stopped.contains_key(&(Role::Updater, institution.participant.0));
            let partly = stopped && institution.states.contains(&shown);
            assert!(
                partly,
                "the books of {:?} at {applied} are not what its approvals and its customers' keys allow:\n{:#?}",
                institution.participant,
                differences(&institution.books, &shown)
            );
        }
        self.institutions = institutions;
    }

    /// Judges the sequence up to a number.
    fn advance(&mut self, world: &World, clients: &Clients, institution: &mut Institution, until: u64) {
        let sequence = shared(&world.setup.layout, "sequence", 0);
        let answers = Answers::of(world);
        for record in world.cluster.peek(&sequence, Offset(institution.records)) {
            if institution.applied >= until || institution.halted {
                break;
            }
            institution.records = record.offset.0 + 1;
            let Ok(batch) = SequenceBatch::decode(&record.payload) else {
                institution.halted = true;
                break;
            };
            if batch.first < institution.applied {
                continue;
            }
            if batch.first > institution.applied {
                institution.halted = true;
                break;
            }
            institution.applied += u64::from(batch.count);
            institution.states = vec![institution.books.clone()];
            institution.hear(world, batch.source);
            let Some(proposals) = institution.proposals.get(&batch.source).cloned() else { continue };
            for (index, verdict) in batch.decisions() {
                let Ok(item) = proposals.indices.binary_search(&index) else { continue };
                if !institution.decided.insert((batch.source, index)) || institution.halted {
                    continue;
                }
                let own = answers.yes(institution.participant, batch.source, index);
                if verdict != 0 || own.is_none() {
                    continue;
                }
                let proposal = proposals.iter().nth(item).expect("it was found");
                for participant in proposal.participants {
                    assert_eq!(
                        answers.yes(*participant, batch.source, index),
                        own,
                        "{:?} made {proposal:?}, to which {participant:?} did not agree",
                        institution.participant
                    );
                }
                self.make(clients, institution, &proposal);
            }
        }
        assert!(
            institution.applied >= until || institution.halted,
            "{:?} has applied {until}, and {} are sequenced",
            institution.participant,
            institution.applied
        );
        if institution.halted {
            // It counts what it stopped within.
            institution.applied = institution.applied.max(until);
        }
    }

    /// Counts the institutions that stand before a record of the sequence that makes what they agreed to, and another did not.
    pub(super) fn end(&mut self, world: &World) {
        let sequence = shared(&world.setup.layout, "sequence", 0);
        let answers = Answers::of(world);
        let mut institutions = std::mem::take(&mut self.institutions);
        for institution in &mut institutions {
            let next = world.cluster.peek(&sequence, Offset(institution.records)).into_iter().next();
            let Some(Ok(batch)) = next.map(|record| SequenceBatch::decode(&record.payload)) else { continue };
            institution.hear(world, batch.source);
            let Some(proposals) = institution.proposals.get(&batch.source) else { continue };
            let lacks = |(index, verdict): (u32, u16)| {
                let own = answers.yes(institution.participant, batch.source, index);
                let Ok(item) = proposals.indices.binary_search(&index) else { return false };
                let proposal = proposals.iter().nth(item).expect("it was found");
                let others = || proposal.participants.iter();
                verdict == 0
                    && own.is_some()
                    && others().any(|other| answers.yes(*other, batch.source, index) != own)
            };
            self.without_consent += u64::from(batch.decisions().any(lacks));
        }
        self.institutions = institutions;
    }

    /// Makes what an institution approved, if those who must have signed it did.
    fn make(&mut self, clients: &Clients, institution: &mut Institution, proposal: &Proposal<'_>) {
        let participant = institution.participant;
        let legs: Vec<Leg> =
            proposal.legs.iter().filter(|leg| leg.participant == participant).copied().collect();
        let needed = self.needed(institution, proposal, &legs);
        if !needed.is_empty() {
            let signed = clients.known.iter().find(|known| {
                let transaction = &known.transaction;
                let own = transaction.legs.iter().filter(|leg| leg.participant == participant);
                let header = (transaction.header.uetr, transaction.header.expiry, transaction.header.kind);
                header == (proposal.header.uetr, proposal.header.expiry, proposal.header.kind)
                    && own.copied().eq(legs.iter().copied())
                    && transaction.order.as_ref() == proposal.order
                    && self.signers(known.id, transaction, &needed)
            });
            let signed = signed.unwrap_or_else(|| {
                panic!("{participant:?} approved {proposal:?}, which {needed:?} did not all sign")
            });
            assert!(
                institution.made.insert(signed.id),
                "{participant:?} made {proposal:?} twice, which {needed:?} signed once"
            );
        }
        self.balances(participant, proposal);
        self.made += 1;
        for leg in &legs {
            let account = institution.books.get_mut(&leg.account);
            let account = account.unwrap_or_else(|| panic!("{participant:?} approved a leg on no account"));
            let after = account.balance + i128::from(leg.amount.0);
            if leg.amount.0 < 0 && after < account.floor {
                // Its updater stops.
                institution.halted = true;
                return;
            }
            account.balance = after;
            institution.states.push(institution.books.clone());
        }
        if let Some(order) = proposal.order {
            if !institution.order(order) {
                institution.halted = true;
                return;
            }
            institution.states.push(institution.books.clone());
            self.orders.push(order.clone());
        }
    }

    /// Whose keys have to allow it.
    fn needed(&self, institution: &Institution, proposal: &Proposal<'_>, legs: &[Leg]) -> Vec<PublicKey> {
        let bank = self.network.participants[institution.participant.index()].key;
        if proposal.order.is_some() {
            return vec![bank];
        }
        let free = proposal.header.kind == Kind::Transfer.number()
            && self.network.signatures == SignaturePolicy::InstitutionsOnly;
        let mut needed = Vec::new();
        for leg in legs {
            let account = institution.books.get(&leg.account);
            let key = match leg.account.role() {
                AccountRole::Issuance(_) => Some(bank),
                AccountRole::Own(_) if leg.amount.0 < 0 && !free => Some(bank),
                AccountRole::Customer if leg.amount.0 < 0 && !free => account.and_then(|held| held.owner),
                _ => None,
            };
            needed.extend(key);
        }
        needed
    }

    /// Whether all of those signed what a client made.
    fn signers(&self, id: TransactionId, transaction: &Transaction, needed: &[PublicKey]) -> bool {
        let signs = |key: &PublicKey| {
            transaction.signers.iter().any(|signer| {
                signer.key == *key && tally_crypto::verify(key, id.as_bytes(), &signer.signature).is_ok()
            })
        };
        needed.iter().all(signs)
    }

    /// In an institution's own books, what it owes changes as its settlement account does.
    fn balances(&self, participant: ParticipantId, proposal: &Proposal<'_>) {
        let mut sums: BTreeMap<u16, i128> = BTreeMap::new();
        for leg in proposal.legs {
            let amount = i128::from(leg.amount.0);
            let settled_at = self.network.assets[usize::from(leg.asset.0)].settled_at;
            let sum = sums.entry(leg.asset.0).or_default();
            if leg.participant == participant {
                *sum += amount;
            } else if leg.participant == settled_at
                && leg.account == AccountNumber::settlement(leg.asset, participant)
            {
                *sum -= amount;
            }
        }
        assert!(
            sums.values().all(|sum| *sum == 0),
            "{participant:?} approved {proposal:?}, which does not balance in its own books"
        );
    }
}

/// What every institution answered first.
struct Answers(Vec<BTreeMap<(Source, u32), (u16, TransactionId)>>);

impl Answers {
    fn of(world: &World) -> Self {
        Self(world.setup.layout.everybody().map(|participant| first_answers(world, participant)).collect())
    }

    /// The transaction to which an institution agreed, if it did.
    fn yes(&self, participant: ParticipantId, source: Source, index: u32) -> Option<TransactionId> {
        let (verdict, id) = self.0.get(participant.index())?.get(&(source, index))?;
        (*verdict == 0).then_some(*id)
    }
}

impl Institution {
    /// Reads what a scheduler proposed, as far as the batch and further. Batches come in the order of their numbers: what
    /// comes later under an earlier name is not looked at.
    fn hear(&mut self, world: &World, source: Source) {
        let Some((read, next)) =
            usize::try_from(source.scheduler).ok().and_then(|scheduler| self.shown.get_mut(scheduler))
        else {
            return;
        };
        let scheduler = u16::try_from(source.scheduler).expect("few");
        let partition = own(&world.setup.layout, "proposals", self.participant, scheduler);
        for record in world.cluster.peek(&partition, Offset(*read)) {
            if *next > source.number {
                break;
            }
            *read = record.offset.0 + 1;
            let Ok(batch) = ProposalBatch::decode(&record.payload) else { continue };
            if batch.participant != self.participant || batch.source.scheduler != source.scheduler {
                continue;
            }
            if batch.source.number >= *next {
                *next = batch.source.number + 1;
                self.proposals.insert(batch.source, Arc::new(batch));
            }
        }
    }

    /// Makes an order; whether it is possible.
    fn order(&mut self, order: &AccountOrder) -> bool {
        if let AccountAction::Open { count, asset, owner, floor, .. } = &order.action {
            if order.number.0 != self.customers {
                return false;
            }
            self.customers += count;
            for number in order.number.0..self.customers {
                let account = Account {
                    asset: *asset,
                    balance: 0,
                    status: AccountStatus::Open,
                    floor: i128::from(floor.0),
                    owner: Some(*owner),
                };
                self.books.insert(AccountNumber(number), account);
            }
            return true;
        }
        let Some(account) = self.books.get_mut(&order.number) else { return false };
        match &order.action {
            AccountAction::Freeze => account.status = AccountStatus::Frozen,
            AccountAction::Release => account.status = AccountStatus::Open,
            AccountAction::Close => account.status = AccountStatus::Closed,
            AccountAction::SetFloor(floor) => account.floor = i128::from(floor.0),
            AccountAction::Open { .. } => {}
        }
        true
    }
}

/// The institution's own accounts.
fn opening(network: &Network, participant: ParticipantId) -> Books {
    let mut books = Books::new();
    for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
        let mut add = |number, floor| {
            let account = Account { asset, balance: 0, status: AccountStatus::Open, floor, owner: None };
            books.insert(number, account);
        };
        add(AccountNumber::issuance(asset), -(1 << 62));
        add(AccountNumber::own(asset), 0);
        if properties.settled_at == participant {
            for (holder, of) in (0u16..).map(ParticipantId).zip(&network.participants) {
                let floors = of.settlement_floors.iter().filter(|(of, _)| *of == asset);
                let floor: i64 = floors.map(|(_, floor)| floor.0).sum();
                add(AccountNumber::settlement(asset, holder), i128::from(floor));
            }
        }
    }
    books
}

fn differences<'a>(
    allowed: &'a Books,
    shown: &'a Books,
) -> Vec<(AccountId, Option<&'a Account>, Option<&'a Account>)> {
    let all: BTreeSet<_> = allowed.keys().chain(shown.keys()).collect();
    let each = all.into_iter().map(|number| (number, allowed.get(number), shown.get(number)));
    let differ = each.filter(|(_, allowed, shown)| allowed != shown);
    let whose = |number: &AccountNumber| AccountId { participant: ParticipantId(0), number: *number };
    differ.map(|(number, allowed, shown)| (whose(number), allowed, shown)).collect()
}
