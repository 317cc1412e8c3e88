//! Writes journals as an operator could that holds every key but those of the customers, and obeys no rule.

use std::sync::Arc;
use tally_crypto::log::Frontier;
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::order::AccountAction;
use tally_ledger::refusal::verdict_number;
use tally_ledger::transaction::{Leg, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, Refusal, SignaturePolicy, Timestamp, Transaction, TransactionBatch, Uetr,
};
use tally_log::{FileLog, Log, Options, Ticket};
use tally_settlement::audit::{Audit, AuditError, AuditReport, Beginning, Earlier, Findings, Shown};
use tally_settlement::journal::{self, Entry, SEQUENCE};
use tally_settlement::message::{
    AcceptedBatch, ApprovalBatch, ApprovalSigner, ConsentBatch, DecisionBatch, Message, SequenceBatch, Source,
};
use tally_settlement::path;
use tally_settlement::stage::scheduler::Asked;
use tally_settlement::stage::{Assembler, Scheduler, Sequencer};

pub(crate) const EUR: AssetId = AssetId(0);
pub(crate) const USD: AssetId = AssetId(1);
pub(crate) const CENTRAL: ParticipantId = ParticipantId(0);
pub(crate) const ALPHA: ParticipantId = ParticipantId(1);
pub(crate) const BETA: ParticipantId = ParticipantId(2);
pub(crate) const NETWORK: NetworkId = NetworkId([7; 32]);
const START: Timestamp = Timestamp(1_750_000_000_000);
const VALIDITY_MS: u64 = 60_000;

/// The institutions' keys are 1 to 3.
pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

pub(crate) fn institution(participant: ParticipantId) -> SigningKey {
    key(u8::try_from(participant.0).unwrap() + 1)
}

/// The owner of an account that [`Forge::new`] opened.
pub(crate) fn owner(account: AccountId) -> SigningKey {
    key(u8::try_from(100 + 10 * u32::from(account.participant.0) + account.number.0).unwrap())
}

pub(crate) fn account(participant: ParticipantId, number: u32) -> AccountId {
    AccountId { participant, number: AccountNumber(number) }
}

pub(crate) fn network(signatures: SignaturePolicy) -> Network {
    let participant = |bic: &str, number: u8| Participant {
        bic: bic.into(),
        name: String::new(),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    let asset = |code: &str| Asset {
        code: code.into(),
        kind: AssetKind::Currency,
        exponent: 2,
        settled_at: CENTRAL,
        largest_payment: Amount(1_000_000),
    };
    Network {
        id: NETWORK,
        participants: vec![
            participant("CENTDEFF", 1),
            participant("ALPHDEFF", 2),
            participant("BETAFRPP", 3),
        ],
        assets: vec![asset("EUR"), asset("USD")],
        signatures,
        longest_validity_ms: VALIDITY_MS,
    }
}

/// A journal that somebody writes record by record.
pub(crate) struct Forge {
    pub(crate) network: Arc<Network>,
    directory: tempfile::TempDir,
    log: FileLog,
    sequencer: Sequencer,
    pub(crate) now: Timestamp,
    references: u32,
}

impl Forge {
    /// A network with accounts 0 and 1 in euro, each with 100.00, and 2 in dollars at each of the two banks.
    pub(crate) fn new() -> Self {
        Self::with(network(SignaturePolicy::Required))
    }

    pub(crate) fn with(network: Network) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1 << 16, ..Options::default() };
        let (log, _) = FileLog::open(directory.path().join("journal"), options).unwrap();
        let sequencer = Sequencer::new(NETWORK, key(1), 0, Frontier::new(), START);
        let mut forge =
            Self { network: Arc::new(network), directory, log, sequencer, now: START, references: 0 };
        for bank in [ALPHA, BETA] {
            let reserves = path::issue_reserves(&forge.network, bank, EUR, Amount(50_000));
            forge.make_legs(Kind::Issue, reserves, &[&institution(CENTRAL)]);
            for (number, asset) in [(0, EUR), (1, EUR), (2, USD)] {
                let opened = account(bank, number);
                let action = AccountAction::Open {
                    count: 1,
                    asset,
                    owner: owner(opened).public_key(),
                    floor: Amount::ZERO,
                    alias: format!("alias-{number}"),
                };
                forge.make_order(opened, action, &institution(bank));
                forge.make_legs(
                    Kind::Issue,
                    path::issue(opened, asset, Amount(10_000)),
                    &[&institution(bank)],
                );
            }
        }
        forge
    }

    pub(crate) fn terms(&mut self) -> Terms {
        self.references += 1;
        let mut uetr = [0; 16];
        uetr[..4].copy_from_slice(&self.references.to_le_bytes());
        let expiry = self.now.plus_ms(VALIDITY_MS / 2);
        Terms { network: self.network.id, uetr: Uetr(uetr), expiry, details: Hash::ZERO, seed: uetr }
    }

    pub(crate) fn signed(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) -> Transaction {
        let mut transaction = Transaction::new(kind, &self.terms(), legs);
        sign(&mut transaction, signers);
        transaction
    }

    pub(crate) fn payment(&mut self, from: AccountId, to: AccountId, amount: i64) -> Transaction {
        let legs = path::payment(&self.network, from, to, EUR, Amount(amount));
        self.signed(Kind::Transfer, legs, &[&owner(from)])
    }

    pub(crate) fn order(&mut self, of: AccountId, action: AccountAction, signer: &SigningKey) -> Transaction {
        let order = AccountOrder { participant: of.participant, number: of.number, action };
        let mut transaction = Transaction::account(&self.terms(), order);
        sign(&mut transaction, &[signer]);
        transaction
    }

    /// Writes that a scheduler accepted them.
    pub(crate) fn accept(&mut self, scheduler: u64, transactions: &[Transaction]) -> Source {
        let mut batch = TransactionBatch::default();
        for transaction in transactions {
            assert!(batch.push(transaction));
        }
        let accepted = AcceptedBatch { accepted_at: self.now, batch };
        let topic = journal::accepted(scheduler);
        Source::new(scheduler, self.append(topic, &accepted))
    }

    /// Makes a record of the sequence; it is not written yet.
    pub(crate) fn sequenced(
        &mut self,
        source: Source,
        decided: &[(&Transaction, u32, Result<(), Refusal>)],
    ) -> SequenceBatch {
        let mut decisions = DecisionBatch { source, ..DecisionBatch::default() };
        for (transaction, index, verdict) in decided {
            decisions.indices.push(*index);
            decisions.ids.push(transaction.id(&NETWORK));
            decisions.verdicts.push(verdict_number(*verdict));
        }
        self.sequencer.step(self.now, &decisions)
    }

    pub(crate) fn append<M: Message>(&self, topic: tally_log::TopicId, message: &M) -> u64 {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.log.append(topic, &[&bytes]).unwrap().offset.0
    }

    pub(crate) fn decide(
        &mut self,
        source: Source,
        transaction: &Transaction,
        index: u32,
        verdict: Result<(), Refusal>,
    ) -> u64 {
        let batch = self.sequenced(source, &[(transaction, index, verdict)]);
        self.append(SEQUENCE, &batch);
        batch.first
    }

    /// Accepts a transaction and decides that it is made; its sequence number.
    pub(crate) fn make(&mut self, transaction: &Transaction) -> u64 {
        let source = self.accept(0, std::slice::from_ref(transaction));
        self.decide(source, transaction, 0, Ok(()))
    }

    pub(crate) fn make_legs(&mut self, kind: Kind, legs: Vec<Leg>, signers: &[&SigningKey]) -> Transaction {
        let transaction = self.signed(kind, legs, signers);
        self.make(&transaction);
        transaction
    }

    pub(crate) fn make_order(&mut self, of: AccountId, action: AccountAction, signer: &SigningKey) -> u64 {
        let transaction = self.order(of, action, signer);
        self.make(&transaction)
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    /// An honest payment after the theft: the audit goes on, and finds nothing in it.
    pub(crate) fn go_on(&mut self) {
        self.pass(10);
        let payment = self.payment(account(BETA, 1), account(BETA, 0), 1);
        self.make(&payment);
    }

    pub(crate) fn audit(&self) -> Result<AuditReport, AuditError> {
        self.log.sync().unwrap();
        Audit::new(&self.network).directory(self.directory.path())
    }

    /// With what was agreed before.
    pub(crate) fn audit_with(&self, earlier: Vec<Earlier>) -> Result<AuditReport, AuditError> {
        self.log.sync().unwrap();
        Audit::new(&self.network).earlier(earlier).directory(self.directory.path())
    }

    /// What the audit of one institution's partition alone says.
    pub(crate) fn audit_of(&self, institution: ParticipantId) -> Result<AuditReport, AuditError> {
        self.log.sync().unwrap();
        Audit::new(&self.network).institution(institution).directory(self.directory.path())
    }

    /// What the audit of one institution's partition says from what it is shown, from a beginning.
    pub(crate) fn audit_shown(
        &self,
        institution: ParticipantId,
        beginning: Beginning,
    ) -> Result<AuditReport, AuditError> {
        self.audit_with_consents(institution, beginning, |_| None)
    }

    /// As [`Self::audit_shown`], with what others agreed to: all of it, signed with the key that is given for each batch of
    /// answers, or not shown.
    pub(crate) fn audit_with_consents(
        &self,
        institution: ParticipantId,
        beginning: Beginning,
        signer: impl Fn(&ApprovalBatch) -> Option<SigningKey>,
    ) -> Result<AuditReport, AuditError> {
        self.log.sync().unwrap();
        let mut entries = Vec::new();
        for read in journal::entries(&self.log, Ticket(0)) {
            let (ticket, entry) = read.unwrap();
            match entry {
                Entry::Accepted(source, accepted) => {
                    let network = Arc::clone(&self.network);
                    let mut scheduler = Scheduler::new(network, source.scheduler, 0, 10, [1, 2]);
                    let asked = scheduler.propose_again(source, &accepted.batch, |_| true);
                    let consents = self.consents(&asked, institution, &signer);
                    let mut own = asked.proposals;
                    own.retain(|proposals| proposals.participant == institution);
                    entries.extend(own.into_iter().map(|own| Ok((ticket, Shown::Proposed(own)))));
                    entries.extend(consents.into_iter().map(|shown| Ok((ticket, Shown::Agreed(shown)))));
                }
                Entry::Sequenced(_, batch) => entries.push(Ok((ticket, Shown::Sequenced(batch)))),
            }
        }
        Audit::new(&self.network).shown(institution, beginning, entries.into_iter())
    }

    /// What everybody else agrees to, as an assembler shows it to one institution.
    fn consents(
        &self,
        asked: &Asked,
        to: ParticipantId,
        signer: impl Fn(&ApprovalBatch) -> Option<SigningKey>,
    ) -> Vec<ConsentBatch> {
        let Some(participation) = &asked.participation else { return Vec::new() };
        let mut shown = Vec::new();
        for proposals in asked.proposals.iter().filter(|proposals| proposals.participant != to) {
            let mut answers = ApprovalBatch {
                source: proposals.source,
                source_len: proposals.source_len,
                participant: proposals.participant,
                indices: proposals.indices.clone(),
                ids: proposals.indices.iter().map(|at| participation.ids[*at as usize]).collect(),
                verdicts: vec![0; proposals.indices.len()],
                leaves: Vec::new(),
                signature: Signature::from_bytes([0; 64]),
            };
            let Some(key) = signer(&answers).filter(|_| !answers.indices.is_empty()) else { continue };
            let mut assembler = Assembler::new(Arc::clone(&self.network), []).with_consents();
            assembler.ask(Arc::new(participation.clone()));
            let mut sign = ApprovalSigner::new(NETWORK);
            sign.sign(&mut answers, &institution(proposals.participant));
            assembler.count(self.now, &Arc::new(answers.clone())).unwrap();
            sign.sign(&mut answers, &key);
            let own = assembler.take_consents().into_iter().filter(|(participant, _)| *participant == to);
            shown.extend(own.map(|(_, consents)| ConsentBatch { signature: answers.signature, ..consents }));
        }
        shown
    }

    /// What an audit finds that must find something.
    pub(crate) fn findings(&self) -> Findings {
        findings(self.audit())
    }
}

pub(crate) fn findings(audited: Result<AuditReport, AuditError>) -> Findings {
    match audited {
        Err(AuditError::NotInOrder { findings, stopped: None }) => findings,
        Err(error) => panic!("{error}"),
        Ok(report) => panic!("nothing is found: {report:?}"),
    }
}

pub(crate) fn sign(transaction: &mut Transaction, signers: &[&SigningKey]) {
    for signer in signers {
        transaction.sign(&NETWORK, signer);
    }
}

/// The legs of a payment that were changed.
pub(crate) fn changed(mut legs: Vec<Leg>, change: impl FnOnce(&mut Vec<Leg>)) -> Vec<Leg> {
    change(&mut legs);
    legs
}
