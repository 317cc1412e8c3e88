//! What each stage is fed: batches that the stages before it made.

use crate::workload::{self, Generator, OPENING, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_crypto::log::Frontier;
use tally_ledger::{AccountNumber, Amount, AssetId, Network, ParticipantId, Timestamp, TransactionBatch};
use tally_settlement::accounts::AccountTable;
use tally_settlement::message::{
    ApprovalBatch, DecisionBatch, ParticipationBatch, ProposalBatch, SequenceBatch,
};
use tally_settlement::stage::{Approver, Assembler, Scheduler, Sequencer};

/// The clock of a run: any time will do, nothing here asks the machine's.
pub(super) const NOW: Timestamp = Timestamp(1_800_000_000_000);
/// How many references a scheduler may remember.
pub(super) const REMEMBER: usize = 1 << 26;
/// Stands for the secret of a scheduler's process.
pub(super) const SECRET: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// Batches for every stage, each made from those before it.
pub(super) struct Inputs {
    pub(super) network: Arc<Network>,
    pub(super) keys: Vec<SigningKey>,
    pub(super) transactions: Vec<TransactionBatch>,
    /// By participant and batch.
    pub(super) proposals: Vec<Vec<Arc<ProposalBatch>>>,
    /// For the assembler, one for each batch.
    pub(super) participations: Vec<Arc<ParticipationBatch>>,
    /// By participant and batch; none of a batch that does not concern the participant.
    pub(super) approvals: Vec<Vec<Arc<ApprovalBatch>>>,
    pub(super) decisions: Vec<DecisionBatch>,
    pub(super) sequence: Vec<SequenceBatch>,
    /// How many transactions there are.
    pub(super) len: u64,
    accounts: u32,
    payers: u32,
}

impl Inputs {
    /// `batches` of `batch` transactions.
    ///
    /// # Panics
    /// When a stage refuses a payment, which would measure something else.
    pub(super) fn make(workload: &Workload, batches: usize, batch: usize) -> Self {
        let (network, keys) = workload::network(workload.is_signed(), workload.validity, workload.spread);
        let network = Arc::new(network);
        let mut generator = Generator::new(workload, network.id, 1);
        let transactions: Vec<_> = (0..batches).map(|_| generator.batch(0, batch, NOW)).collect();
        let institutions = network.participants.len();
        let mut inputs = Self {
            proposals: vec![Vec::new(); institutions],
            network,
            keys,
            len: transactions.iter().map(|batch| batch.len() as u64).sum(),
            transactions,
            participations: Vec::new(),
            approvals: vec![Vec::new(); institutions],
            decisions: Vec::new(),
            sequence: Vec::new(),
            accounts: workload.accounts,
            payers: workload.payers,
        };
        inputs.run_stages();
        inputs
    }

    fn run_stages(&mut self) {
        let mut scheduler = Scheduler::new(Arc::clone(&self.network), 0, 0, REMEMBER, SECRET);
        let mut approvers: Vec<_> = (0..self.keys.len()).map(|at| self.approver(at)).collect();
        let mut assembler = Assembler::new(Arc::clone(&self.network), []);
        let mut sequencer = self.sequencer();
        for batch in &self.transactions {
            let scheduled = scheduler.step(NOW, batch.clone());
            let mut decided = Vec::new();
            if let Some(participation) = scheduled.asked.participation.map(Arc::new) {
                assembler.ask(Arc::clone(&participation));
                self.participations.push(participation);
            }
            for proposals in scheduled.asked.proposals {
                let proposals = Arc::new(proposals);
                let participant = proposals.participant.index();
                self.proposals[participant].push(Arc::clone(&proposals));
                // An institution that a batch does not concern has nothing to answer.
                let Some(approvals) = approvers[participant].propose(NOW, proposals) else { continue };
                let approvals = Arc::new(approvals);
                let decisions = assembler.count(NOW, &approvals).expect("the approver signed it");
                self.approvals[participant].push(approvals);
                if !decisions.indices.is_empty() {
                    decided.push(decisions);
                }
            }
            let all: usize = decided.iter().map(|decisions| decisions.indices.len()).sum();
            let made = decided.iter().all(|decisions| decisions.verdicts.iter().all(|verdict| *verdict == 0));
            assert!(all == batch.len() && made, "every payment of a workload is made");
            for decisions in decided {
                let sequence = sequencer.step(NOW, &decisions);
                for approver in &mut approvers {
                    approver.decide(&sequence).expect("it approved what is made");
                }
                self.decisions.push(decisions);
                self.sequence.push(sequence);
            }
        }
    }

    /// The accounts of a participant before the first payment.
    pub(super) fn accounts(&self, participant: usize) -> AccountTable {
        let id = ParticipantId(u16::try_from(participant).expect("participants are few"));
        let (network, asset) = (&self.network, AssetId(0));
        let mut table = AccountTable::new(network, id);
        if id.0 == 0 {
            for bank in (1u16..).take(network.participants.len() - 1).map(ParticipantId) {
                let reserves = OPENING.saturating_mul(i64::from(self.accounts));
                table.apply(AccountNumber::settlement(asset, bank), Amount(reserves));
            }
        } else {
            for payer in 0..self.payers {
                table.open(1, asset, workload::payer_key(payer).public_key(), Amount::ZERO);
            }
            let others = self.accounts.saturating_sub(self.payers);
            if others > 0 {
                table.open(others, asset, network.participants[participant].key, Amount::ZERO);
            }
            for number in 0..self.accounts {
                table.apply(AccountNumber(number), Amount(OPENING));
            }
        }
        table
    }

    /// A participant's approver before the first payment.
    pub(super) fn approver(&self, participant: usize) -> Approver {
        self.approver_with(participant, self.accounts(participant))
    }

    /// A participant's approver with those accounts.
    pub(super) fn approver_with(&self, participant: usize, accounts: AccountTable) -> Approver {
        let key = self.keys[participant].clone();
        Approver::new(Arc::clone(&self.network), key, accounts, std::iter::empty())
    }

    /// The sequencer before the first payment.
    pub(super) fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.network.id, self.keys[0].clone(), 0, Frontier::default(), NOW)
    }

    /// What a participant's approver and updater are fed, again and again.
    pub(super) fn rounds(&self, participant: usize) -> Rounds {
        let own = |batch: &&Arc<ProposalBatch>| !batch.is_empty();
        let copied = |batch: &Arc<ProposalBatch>| Arc::new(ProposalBatch::clone(batch));
        Rounds {
            proposals: self.proposals[participant].iter().filter(own).map(copied).collect(),
            approvals: self.approvals[participant].iter().map(|batch| Arc::new((**batch).clone())).collect(),
            sequence: self.sequence.clone(),
            batches: self.transactions.len() as u64,
            len: self.len,
        }
    }
}

/// A participant's batches, the decisions on them, and the same once more as batches that come later: no stage takes a
/// batch of the same number, or decisions of the same place in the sequence, a second time.
pub(super) struct Rounds {
    pub(super) proposals: Vec<Arc<ProposalBatch>>,
    pub(super) approvals: Vec<Arc<ApprovalBatch>>,
    pub(super) sequence: Vec<SequenceBatch>,
    batches: u64,
    len: u64,
}

impl Rounds {
    /// The same without the scheduler's word that it verified the signatures, as they come from another process.
    pub(super) fn unverified(mut self) -> Self {
        for batch in &mut self.proposals {
            Arc::make_mut(batch).verified = None;
        }
        self
    }

    /// Makes later batches of them.
    ///
    /// # Panics
    /// When a stage keeps proposals although all are decided.
    pub(super) fn go_on(&mut self) {
        for batch in &mut self.proposals {
            let batch = Arc::get_mut(batch).expect("a stage keeps nothing of a batch that is decided");
            batch.source.number += self.batches;
        }
        for batch in &mut self.approvals {
            Arc::make_mut(batch).source.number += self.batches;
        }
        for batch in &mut self.sequence {
            batch.source.number += self.batches;
            batch.first += self.len;
        }
    }
}

/// What each round does to a participant's accounts: by account, the balance at first and the change of each round.
pub(super) struct Movements(BTreeMap<AccountNumber, (i64, i64)>);

impl Movements {
    /// Those of the proposals in the accounts as they are before the first round.
    pub(super) fn of(rounds: &Rounds, before: &AccountTable) -> Self {
        let mut changes = BTreeMap::new();
        let legs = rounds.proposals.iter().flat_map(|batch| &batch.legs);
        for leg in legs.filter(|leg| leg.participant == before.participant()) {
            let balance = before.get(leg.account).map_or(0, |account| account.balance);
            let (_, change) = changes.entry(leg.account).or_insert((balance, 0));
            *change += leg.amount.0;
        }
        assert!(
            changes.values().any(|(_, change)| *change != 0),
            "payments that move nothing measure nothing"
        );
        Self(changes)
    }

    /// Checks that so many rounds were applied, each once.
    ///
    /// # Panics
    /// When a balance is not what they make of it.
    pub(super) fn check(&self, stage: &str, rounds: u64, accounts: &AccountTable) {
        let rounds = i64::try_from(rounds).expect("rounds are few");
        for (number, (before, change)) in &self.0 {
            let found = accounts.get(*number).map(|account| account.balance);
            assert_eq!(
                found,
                Some(before + rounds * change),
                "the benchmark of the {stage} is wrong: account {number:?} after {rounds} rounds"
            );
        }
    }
}
