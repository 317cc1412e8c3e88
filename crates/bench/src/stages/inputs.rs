//! What each stage is fed: batches that the stages before it made.

use crate::workload::{self, Generator, OPENING, Workload};
use std::sync::Arc;
use tally_crypto::SigningKey;
use tally_crypto::log::Frontier;
use tally_ledger::{AccountNumber, Amount, AssetId, Network, ParticipantId, Timestamp, TransactionBatch};
use tally_settlement::accounts::AccountTable;
use tally_settlement::message::{ApprovalBatch, DecisionBatch, ProposalBatch, SequenceBatch};
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
    pub(super) approvals: Vec<ApprovalBatch>,
    pub(super) decisions: Vec<DecisionBatch>,
    pub(super) sequence: Vec<SequenceBatch>,
    /// How many transactions there are.
    pub(super) len: u64,
    accounts: u32,
}

impl Inputs {
    /// `batches` of `batch` transactions. Later stages get inputs only where payments are unsigned: to them a
    /// signature makes no difference.
    ///
    /// # Panics
    /// When a stage refuses a payment, which would measure something else.
    pub(super) fn make(workload: &Workload, batches: usize, batch: usize) -> Self {
        let (network, keys) = workload::network(workload.is_signed(), workload.validity, workload.spread);
        let network = Arc::new(network);
        let mut generator = Generator::new(workload, network.id, 1);
        let transactions: Vec<_> = (0..batches).map(|_| generator.batch(0, batch, NOW)).collect();
        let mut inputs = Self {
            proposals: vec![Vec::new(); network.participants.len()],
            network,
            keys,
            len: transactions.iter().map(|batch| batch.len() as u64).sum(),
            transactions,
            approvals: Vec::new(),
            decisions: Vec::new(),
            sequence: Vec::new(),
            accounts: workload.accounts,
        };
        if !workload.is_signed() {
            inputs.run_stages();
        }
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
            for proposals in scheduled.proposals {
                let proposals = Arc::new(proposals);
                let participant = proposals.participant.index();
                self.proposals[participant].push(Arc::clone(&proposals));
                // An institution that a batch does not concern has nothing to answer.
                let Some(approvals) = approvers[participant].propose(NOW, proposals) else { continue };
                let decisions = assembler.count(NOW, &approvals).expect("the approver signed it");
                self.approvals.push(approvals);
                if !decisions.indices.is_empty() {
                    decided.push(decisions);
                }
            }
            let all: usize = decided.iter().map(|decisions| decisions.indices.len()).sum();
            let made = decided.iter().all(|decisions| decisions.verdicts.iter().all(|verdict| *verdict == 0));
            assert!(all == batch.len() && made, "every payment of a workload is made");
            for decisions in decided {
                let sequence = sequencer.step(NOW, &decisions);
                approvers.iter_mut().for_each(|approver| approver.decide(&sequence));
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
            table.open(self.accounts, asset, network.participants[participant].key, Amount::ZERO);
            for number in 0..self.accounts {
                table.apply(AccountNumber(number), Amount(OPENING));
            }
        }
        table
    }

    /// A participant's approver before the first payment.
    pub(super) fn approver(&self, participant: usize) -> Approver {
        let key = self.keys[participant].clone();
        let accounts = self.accounts(participant);
        Approver::new(Arc::clone(&self.network), key, accounts, std::iter::empty())
    }

    /// The sequencer before the first payment.
    pub(super) fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.keys[0].clone(), 0, Frontier::default(), NOW)
    }
}
