//! The whole truth: what the log says, applied to the naive ledger, compared with what clients were
//! told and with what the process shows.

use super::clients::{Clients, Known, is_unauthorised};
use super::ledger::{Ledger, Movement};
use super::life::{Life, chain};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tally_crypto::log::{MerkleLog, SignedTreeHead, TreeHead};
use tally_crypto::merkle;
use tally_ledger::order::AccountAction;
use tally_ledger::refusal::verdict_from_number;
use tally_ledger::{AccountId, AccountNumber, Network, ParticipantId, Timestamp, Transaction, TransactionId};
use tally_log::Ticket;
use tally_settlement::audit::{Audit, AuditOptions, audit_log};
use tally_settlement::clerk::Finality;
use tally_settlement::engine::Outcome;
use tally_settlement::journal::{self, Entry};
use tally_settlement::message::{SequenceBatch, Source, sequence_leaf};
use tally_settlement::proof::Wanted;
use tally_settlement::statement::Movements;
use tally_sim::Rng;

/// What the journal holds, read without the stages.
pub(super) struct Truth {
    pub(super) ledger: Ledger,
    /// Every transaction with an outcome, in the one global order.
    order: Vec<(TransactionId, Finality)>,
    decided: HashMap<TransactionId, Finality>,
    accepted: HashMap<TransactionId, Source>,
    open: BTreeMap<(Source, u32), TransactionId>,
    /// What was accepted of what came with several sets of signatures.
    signed: HashMap<(Source, u32), Transaction>,
    tree: MerkleLog,
    head: Option<SignedTreeHead>,
    /// Made, and sequenced more than two seconds after it expired.
    late: u64,
}

/// What every check leaves for the next.
#[derive(Default)]
pub(super) struct Memory {
    order: Vec<(TransactionId, Finality)>,
    heads: Vec<TreeHead>,
}

impl Memory {
    /// Remembers a tree head that somebody saw.
    pub(super) fn see(&mut self, head: Option<SignedTreeHead>) {
        if let Some(SignedTreeHead { head, .. }) = head
            && self.heads.last() != Some(&head)
        {
            self.heads.push(head);
        }
    }
}

impl Truth {
    /// Reads the journal of a process and applies it to the naive ledger.
    pub(super) fn read(life: &Life, network: &Network, clients: &Clients) -> Self {
        let mut truth = Self {
            ledger: Ledger::new(network),
            order: Vec::new(),
            decided: HashMap::new(),
            accepted: HashMap::new(),
            open: BTreeMap::new(),
            signed: HashMap::new(),
            tree: MerkleLog::new(),
            head: None,
            late: 0,
        };
        let mut clock = Timestamp(0);
        for entry in journal::entries(&life.log, Ticket(0)) {
            let (ticket, entry) = entry.unwrap_or_else(|error| panic!("{}", chain(&error)));
            match entry {
                Entry::Accepted(source, accepted) => {
                    let count = u32::try_from(accepted.batch.len()).expect("batches are bounded");
                    for index in 0..count {
                        let transaction = accepted.batch.transaction(index as usize).expect("it is there");
                        truth.accept(source, index, &transaction, clients);
                        assert!(
                            transaction.header.expiry > accepted.accepted_at,
                            "{ticket}: accepted after its expiry"
                        );
                    }
                }
                Entry::Sequenced(_, batch) => {
                    assert!(batch.timestamp >= clock, "{ticket}: time goes back in the sequence");
                    clock = batch.timestamp;
                    truth.sequence(&batch, clients);
                }
            }
        }
        truth.ledger.books_match().unwrap_or_else(|wrong| panic!("{wrong}"));
        truth
    }

    fn accept(&mut self, source: Source, index: u32, transaction: &Transaction, clients: &Clients) {
        let id = clients.id(transaction);
        let known = clients.find(&id).unwrap_or_else(|| panic!("nobody handed {transaction:?} in"));
        assert!(known.was_handed_in(transaction), "it was accepted as it was handed in");
        if known.has_copies() {
            self.signed.insert((source, index), transaction.clone());
        }
        assert!(known.open > 0, "{transaction:?} was refused to everybody who handed it in, and accepted");
        assert!(!known.expired, "somebody was told that {transaction:?} expired, and it was accepted");
        let again = self.decided.get(&id).is_some_and(|finality| is_unauthorised(finality.verdict));
        let before = self.accepted.insert(id, source);
        assert!(again || before.is_none(), "{} is accepted twice", transaction.header.uetr);
        self.open.insert((source, index), id);
    }

    fn sequence(&mut self, batch: &SequenceBatch, clients: &Clients) {
        assert_eq!(batch.first, self.order.len() as u64, "the sequence has no gap");
        let mut leaves = Vec::new();
        for (index, number) in batch.decisions() {
            let sequence = self.order.len() as u64;
            let id = self.open.remove(&(batch.source, index)).unwrap_or_else(|| {
                panic!("{sequence}: decides {index} of {:?} again, or too soon", batch.source)
            });
            let verdict = verdict_from_number(number).expect("verdicts are known");
            let finality = Finality { sequence, timestamp: batch.timestamp, verdict };
            self.order.push((id, finality));
            let before = self.decided.insert(id, finality);
            let again = before.is_none_or(|before| is_unauthorised(before.verdict));
            assert!(again, "{id} is decided twice");
            leaves.push(sequence_leaf(&id, sequence, number));
            let known = clients.find(&id).expect("looked up when it was accepted");
            if verdict.is_ok() {
                let signed = self.signed.get(&(batch.source, index)).unwrap_or(&known.transaction);
                let applied = self.ledger.apply(signed, sequence, batch.timestamp);
                for signer in self.signed.get(&(batch.source, index)).iter().flat_map(|one| &one.signers) {
                    let verified = tally_crypto::verify(&signer.key, id.as_bytes(), &signer.signature);
                    assert!(verified.is_ok(), "{sequence}: {:?} did not sign {signed:?}", signer.key);
                }
                applied.unwrap_or_else(|wrong| panic!("{sequence}: {wrong} by {:?}", known.transaction));
                let expiry = known.transaction.header.expiry;
                self.late += u64::from(batch.timestamp > expiry.plus_ms(2_000));
            }
        }
        assert_eq!(leaves.len() as u64, u64::from(batch.count));
        assert_eq!(merkle::root(&leaves), batch.root, "the root over the decisions");
        self.tree.append(&batch.leaf_data());
        let head =
            TreeHead { size: self.tree.len(), root: self.tree.root(), timestamp_ms: batch.timestamp.0 };
        assert_eq!((batch.tree_size, batch.tree_root), (head.size, head.root), "the Merkle log");
        self.head = Some(SignedTreeHead { head, signature: batch.signature });
    }

    /// That what was decided and what was promised before is still so.
    pub(super) fn keeps_promises(&self, clients: &Clients, memory: &mut Memory) {
        assert!(self.order.starts_with(&memory.order), "what was sequenced changed");
        memory.order.clone_from(&self.order);
        for known in &clients.known {
            let decided = self.decided.get(&known.id);
            if let Some((told, _)) = known.told {
                let again = is_unauthorised(told.verdict) && decided.is_some();
                let uetr = known.transaction.header.uetr;
                assert!(again || decided == Some(&told), "{uetr} was told otherwise");
            }
        }
        for first in &clients.firsts {
            assert!(self.accepted.contains_key(first), "a first use of a reference, once told of, is lost");
        }
        for head in &memory.heads {
            assert_eq!(self.tree.root_at(head.size), Some(head.root), "a tree head of before");
        }
        self.frozen_means_frozen(clients);
    }

    /// A payment handed in after its account was known to be frozen or closed is not made, unless a release
    /// came between.
    fn frozen_means_frozen(&self, clients: &Clients) {
        /// Sequence number, step in which it became known, whether it releases.
        type Change = (u64, Option<u64>, bool);
        let mut changes: HashMap<AccountId, Vec<Change>> = HashMap::new();
        for (id, finality) in &self.order {
            let known: &Known = clients.find(id).expect("everything accepted is known");
            if finality.verdict.is_err() {
                continue;
            }
            if let Some(order) = &known.transaction.order {
                let releases = match order.action {
                    AccountAction::Freeze | AccountAction::Close => false,
                    AccountAction::Release => true,
                    _ => continue,
                };
                let account = AccountId { participant: order.participant, number: order.number };
                let change = (finality.sequence, known.told.map(|(_, step)| step), releases);
                changes.entry(account).or_default().push(change);
            }
            for leg in &known.transaction.legs {
                let account = AccountId { participant: leg.participant, number: leg.account };
                let all = changes.get(&account).map_or(&[][..], Vec::as_slice);
                let in_force = all
                    .iter()
                    .rposition(|(_, step, releases)| !releases && step.is_some_and(|step| step < known.sent));
                if let Some(at) = in_force {
                    assert!(
                        all[at..].iter().any(|(_, _, releases)| *releases),
                        "{account} was known to be frozen or closed before {:?} was handed in",
                        known.transaction
                    );
                }
            }
        }
    }

    /// That a process at rest shows what the log says.
    pub(super) fn is_shown(&self, life: &Life, network: &Arc<Network>, clients: &Clients, rng: &mut Rng) {
        let desk = &life.desk;
        assert!(self.open.is_empty(), "{} accepted transactions have no outcome", self.open.len());
        assert_eq!(desk.sequenced(), self.order.len() as u64);
        assert_eq!(desk.tree_head(), self.head, "the tree head");
        if let Some(head) = self.head {
            assert!(
                head.verify(&network.id.0, &network.participants[0].key).is_ok(),
                "the tree head is signed"
            );
        }
        for (id, held) in &self.ledger.accounts {
            let view = desk.account(*id).unwrap_or_else(|| panic!("account {id} is gone"));
            assert_eq!(i128::from(view.balance.0), held.balance, "the balance of {id}");
            assert_eq!((view.status, view.asset), (held.status, held.asset), "the status of {id}");
            assert_eq!(i128::from(view.floor.0), held.floor, "the floor of {id}");
            assert_eq!(view.owner, held.owner, "the owner of {id}");
        }
        for participant in (0u16..).map(ParticipantId).take(network.participants.len()) {
            let next = AccountNumber(self.ledger.next_account(participant));
            assert_eq!(desk.next_account(participant), Some(next));
            assert_eq!(desk.account(AccountId { participant, number: next }), None);
        }
        for ((participant, alias), number) in &self.ledger.aliases {
            let id = AccountId { participant: *participant, number: *number };
            assert_eq!(desk.account_by_alias(*participant, alias), Some(id));
        }
        self.answers_are_shown(life, clients, rng);
    }

    /// That the audit agrees, reading the same journal.
    pub(super) fn is_audited(&self, life: &Life, network: &Arc<Network>, signatures: bool) {
        let made = self.order.iter().filter(|(_, finality)| finality.verdict.is_ok()).count() as u64;
        let report = audit_log(&life.log, life.report.journal.clone(), network, AuditOptions { signatures })
            .unwrap_or_else(|error| panic!("the audit finds: {}", chain(&error)));
        assert_eq!((report.sequenced, report.made, report.undecided), (self.order.len() as u64, made, 0));
        // Nothing is undecided; what was refused for want of authority may be there again.
        assert_eq!(report.accepted, self.order.len() as u64);
        assert_eq!(report.tree_root, self.tree.root());
        assert_eq!(report.totals, life.desk.totals(), "the audit's totals");
        assert_eq!(report.late, self.late, "what was made after its expiry");
        let one = ParticipantId(u16::try_from(made % network.participants.len() as u64).expect("few"));
        let alone = Audit::new(network).options(AuditOptions { signatures }).institution(one);
        let alone = alone
            .log(&life.log, life.report.journal.clone())
            .unwrap_or_else(|error| panic!("the audit of {one:?} alone finds: {}", chain(&error)));
        let own = report.totals.iter().filter(|total| total.participant == one).copied();
        assert_eq!(alone.totals, own.collect::<Vec<_>>(), "the totals of {one:?} alone");
    }

    /// A few references and statements, by chance: each reads the journal.
    fn answers_are_shown(&self, life: &Life, clients: &Clients, rng: &mut Rng) {
        for _ in 0..clients.known.len().min(4) {
            let known = &clients.known[rng.index(clients.known.len())];
            let wanted = Wanted::Uetr(known.transaction.header.uetr);
            let answer = life.desk.status(wanted).expect("the journal can be read");
            let Some(finality) = self.decided.get(&known.id) else { continue };
            let answer = answer.expect("what was accepted is found");
            if answer.id == known.id {
                assert_eq!(answer.outcome, Outcome::Final(*finality), "the status of {}", answer.uetr);
            } else {
                let other = self.decided.get(&answer.id);
                assert_eq!(
                    other.copied().map(Outcome::Final),
                    Some(answer.outcome),
                    "a later use of {}",
                    answer.uetr
                );
            }
        }
        let all: Vec<_> = self.ledger.accounts.iter().collect();
        let (id, held) = all[rng.index(all.len())];
        // Two pages, the second of which goes on where the first ended.
        let mut asked = Movements::latest(3);
        let mut wanted = held.movements.iter().rev();
        for _ in 0..2 {
            let statement = life.desk.statement(*id, &asked).expect("the journal can be read");
            let page: Vec<_> = wanted.by_ref().take(3).collect();
            assert_eq!(statement.entries.len(), page.len(), "the statement of {id}");
            for (entry, movement) in statement.entries.iter().zip(page) {
                let shown = (
                    entry.sequence,
                    entry.timestamp,
                    entry.uetr,
                    entry.amount.0,
                    i128::from(entry.balance.0),
                );
                let Movement { sequence, timestamp, uetr, amount, balance } = *movement;
                assert_eq!(shown, (sequence, timestamp, uetr, amount, balance), "the statement of {id}");
                let made = life.desk.transaction(sequence).expect("the journal can be read");
                assert_eq!(made.map(|made| made.header.uetr), Some(uetr), "what was made at {sequence}");
            }
            let before = wanted.clone().next().map_or(0, |movement| movement.balance);
            assert_eq!(i128::from(statement.opening.0), before, "what {id} held before");
            asked.before = statement.entries.last().map(|entry| entry.sequence).or(asked.before);
        }
    }
}
