//! A run from its seed to its end.

use super::clients::Clients;
use super::liars::{Judge, Liar};
use super::setup::Setup;
use super::truth::Truth;
use super::world::{Key, World};
use crate::simulation::clients::Expected;
use crate::simulation::life::chain;
use crate::simulation::plan::{VALIDITY_MS, keys};
use crate::simulation::workload::Workload;
use crate::witness::Witness;
use std::collections::BTreeMap;
use tally_ledger::order::AccountAction;
use tally_ledger::{
    AccountId, AccountNumber, Amount, AssetId, Kind, ParticipantId, Refusal, Transaction, TransactionId,
};
use tally_settlement::audit::{Audit, AuditError, totals};
use tally_settlement::message::Withdrawal;
use tally_settlement::path;
use tally_settlement::process::Role;
use tally_settlement::process::journal::Journal;
use tally_sim::Rng;

/// What a run came to; equal for equal seeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Hash over everything that happened.
    pub trace: u64,
    /// Steps taken.
    pub steps: u64,
    /// Times that a shard was opened.
    pub lives: u64,
    /// Times that a shard's process was ended.
    pub kills: u64,
    /// Processes that were replaced and found out when they wrote.
    pub fenced: u64,
    /// Turns that ended within: appended, and not known whether visible.
    pub lost: u64,
    /// Shards that were not opened because the machine's clock was too far behind.
    pub clocks: u64,
    /// Different transactions handed in.
    pub transactions: u64,
    /// Of these, accepted.
    pub accepted: u64,
    /// Of these, made.
    pub made: u64,
    /// Decided because an answer was missing.
    pub timed_out: u64,
    /// Refused because somebody asked for it in time.
    pub withdrawn: u64,
    /// Answers to what had been answered before.
    pub repeats: u64,
    /// Answers that named an earlier use of the reference.
    pub duplicates: u64,
    /// Outcomes that a gateway told.
    pub told: u64,
    /// Records set aside because nobody can read them.
    pub dead_letters: u64,
    /// Refusals by schedulers, by reason.
    pub refused: BTreeMap<Refusal, u64>,
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The sum over all runs.
    pub sum: Summary,
}

impl Total {
    /// One more.
    pub fn add(&mut self, run: &Summary) {
        let sum = &mut self.sum;
        sum.trace ^= run.trace;
        sum.steps += run.steps;
        sum.lives += run.lives;
        sum.kills += run.kills;
        sum.fenced += run.fenced;
        sum.lost += run.lost;
        sum.clocks += run.clocks;
        sum.transactions += run.transactions;
        sum.accepted += run.accepted;
        sum.made += run.made;
        sum.timed_out += run.timed_out;
        sum.withdrawn += run.withdrawn;
        sum.repeats += run.repeats;
        sum.duplicates += run.duplicates;
        sum.told += run.told;
        sum.dead_letters += run.dead_letters;
        for (refusal, count) in &run.refused {
            *sum.refused.entry(*refusal).or_default() += count;
        }
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { steps, lives, kills, fenced, lost, clocks, transactions, accepted, made, .. } =
            &self.sum;
        let Summary { timed_out, withdrawn, repeats, duplicates, told, dead_letters, .. } = &self.sum;
        write!(
            f,
            "{transactions} transactions, {accepted} accepted, {made} made, {timed_out} timed out, {withdrawn} withdrawn, {told} outcomes told, \
             {repeats} answers repeated, {duplicates} duplicates, {dead_letters} dead letters, {steps} steps, {lives} \
             lives, {kills} kills, {fenced} fenced, {lost} turns cut off, {clocks} clocks too wrong to open"
        )
    }
}

/// Runs a seed.
///
/// # Panics
/// When anything is not as it should be: this is the purpose. The message names seed and step.
#[must_use]
pub fn run(seed: u64) -> Summary {
    let witness = Witness::of_processes(seed);
    let mut run = Run::new(seed);
    let steps =
        if run.rng().chance(1, 10) { run.rng().between(1_000, 3_000) } else { run.rng().between(50, 700) };
    for step in 1..=steps {
        witness.sees(step);
        run.act();
    }
    run.end();
    let summary = run.summary();
    drop(witness);
    summary
}

pub(super) struct Run {
    pub(super) world: World,
    pub(super) clients: Clients,
    pub(super) truth: Truth,
    pub(super) work: Workload,
    /// How many accounts were given money to begin with.
    funded: usize,
    /// Who does not want what any more; apart, so that without them a seed means what it meant.
    regrets: Rng,
    stalled: bool,
    /// Whether nothing goes wrong but what a liar does.
    pub(super) is_calm: bool,
    /// Who judges where the operator lies.
    pub(super) judge: Option<Judge>,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7072_6f63);
        let setup = Setup::new(&mut rng);
        let work = Workload::new(rng.fork(), (*setup.network).clone());
        let truth = Truth::new(&setup.network, &setup.layout);
        Self {
            clients: Clients::new(setup.network.id),
            world: World::new(setup, rng),
            truth,
            work,
            funded: 0,
            regrets: Rng::new(seed ^ 0x7769_7468),
            stalled: false,
            is_calm: false,
            judge: None,
        }
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.world.rng
    }

    pub(super) fn any(&mut self) -> Key {
        let all = self.world.all();
        all[self.rng().index(all.len())]
    }

    pub(super) fn any_gateway(&mut self) -> u16 {
        let gateways = u64::from(self.world.setup.layout.gateways);
        u16::try_from(self.rng().below(gateways)).expect("few")
    }

    pub(super) fn act(&mut self) {
        let world = &mut self.world;
        world.step += 1;
        let passes = world.rng.below(world.setup.step_ms + 1);
        world.now = world.now.plus_ms(passes);
        match world.rng.below(100) {
            0..70 => self.turns(),
            70..78 => self.send(),
            78..83 => self.repeat(),
            83..92 => self.hear(),
            92..97 => self.world.zombie_turn(),
            _ => self.pass_time(),
        }
        if self.regrets.chance(1, 25) {
            self.withdraw();
        }
        let faults = self.world.setup.faults;
        if self.rng().chance(1, faults) {
            self.fault();
        }
        if self.stalled && self.rng().chance(1, 20) {
            self.stall(false);
        }
        self.world.restart();
        self.flush();
        self.look();
    }

    pub(super) fn turns(&mut self) {
        for _ in 0..self.rng().between(1, 12) {
            let key = self.any();
            let progress = self.world.turn(key);
            self.world.trace.record_number("turn", u64::from(progress));
        }
    }

    /// What has become visible is compared with what may be.
    pub(super) fn look(&mut self) {
        if let Some(judge) = &mut self.judge {
            judge.look(&self.world, &self.clients);
            self.truth.orders.clone_from(&judge.orders);
            return;
        }
        let records = self.truth.read(&self.world.cluster, &self.clients);
        self.world.trace.record_number("records", records as u64);
    }

    fn hear(&mut self) {
        if self.judge.is_some() {
            // What an operator that lies tells at its own gateways is its own affair.
            return;
        }
        let number = usize::from(self.any_gateway());
        self.hear_at(number);
    }

    fn hear_at(&mut self, number: usize) -> usize {
        let gateway = self.world.gateways[number].as_mut().expect("gateways are opened at once");
        self.clients.hear(number, gateway, &mut self.world.trace)
    }

    fn pass_time(&mut self) {
        let ms = match self.rng().below(30) {
            0 => self.rng().between(10_000, 2 * VALIDITY_MS),
            1..=3 => self.rng().between(1_000, 5_000),
            4..=9 => self.rng().between(100, 1_000),
            _ => self.rng().between(0, 30),
        };
        let ms = if self.is_calm { ms.min(30) } else { ms };
        self.world.now = self.world.now.plus_ms(ms);
    }

    /// Passes on what gateways hold, where the cluster takes it.
    pub(super) fn flush(&mut self) {
        for number in 0..self.world.setup.layout.gateways {
            let gateway =
                self.world.gateways[usize::from(number)].as_ref().expect("gateways are opened at once");
            if gateway.pending_bytes() == 0 {
                continue;
            }
            match gateway.flush() {
                Ok(taken) => self.world.trace.record_number("flush", u64::from(taken)),
                // Its answer was lost: nobody knows whether what it held was taken.
                Err(error) => {
                    self.world.trace.record("flush lost", chain(&error).as_bytes());
                    self.replace_gateway(number);
                }
            }
        }
    }

    pub(super) fn replace_gateway(&mut self, number: u16) {
        self.clients.forget_waiting(usize::from(number));
        self.world.open_gateway(number);
    }

    /// The number of the next account at a bank, as its updater knows it.
    fn next_accounts(&self) -> impl Fn(ParticipantId) -> AccountNumber + use<> {
        let of = |(number, state): (&u16, &tally_settlement::runtime::shell::SharedState<_>)| {
            let updater: &tally_settlement::stage::Updater =
                &state.lock().expect("nobody panics and goes on");
            (*number, updater.accounts().customers())
        };
        let next: BTreeMap<u16, u32> = self.world.updaters.iter().map(of).collect();
        move |bank| AccountNumber(next.get(&bank.0).copied().unwrap_or(0))
    }

    /// What must be there before anything can be paid: reserves, accounts, then money in them.
    fn foundations(&mut self) -> Vec<(Transaction, Expected)> {
        let now = self.world.now;
        let network = std::sync::Arc::clone(&self.world.setup.network);
        let mut transactions = Vec::new();
        if self.work.opened.is_empty() {
            for bank in (1u16..).take(network.participants.len() - 1).map(ParticipantId) {
                for (asset, properties) in (0u16..).map(AssetId).zip(&network.assets) {
                    if properties.settled_at != bank {
                        let legs = path::issue_reserves(&network, bank, asset, Amount(2_000));
                        transactions.push((self.work.signed(now, Kind::Issue, legs), Expected::Order));
                    }
                }
                let mut number = AccountNumber(0);
                for _ in 0..self.rng().between(2, 4) {
                    let asset = self.work.asset();
                    let order = self.work.opening_at(bank, asset, number);
                    if let AccountAction::Open { count, .. } = order.action {
                        number.0 += count;
                    }
                    transactions.push((self.work.ordered(now, order), Expected::Order));
                }
            }
        }
        for opened in self.work.opened.clone().into_iter().skip(self.funded) {
            self.funded += 1;
            let legs = path::issue(opened.id, opened.asset, Amount(1_000));
            transactions.push((self.work.signed(now, Kind::Issue, legs), Expected::Order));
        }
        transactions
    }

    /// A few clients send something.
    fn send(&mut self) {
        let now = self.world.now;
        self.work.learn_from(self.truth.orders.iter());
        let mut transactions = self.foundations();
        let next = self.next_accounts();
        for _ in 0..self.rng().between(1, 6) {
            if self.work.opened.is_empty() {
                break;
            }
            transactions.push(match self.rng().below(5) {
                0 => self.work.mischief(now, &next),
                _ => self.work.next(now, &next),
            });
        }
        self.submit(transactions);
    }

    fn submit(&mut self, transactions: Vec<(Transaction, Expected)>) {
        let number = self.any_gateway();
        self.submit_at(number, transactions);
    }

    fn submit_at(&mut self, number: u16, transactions: Vec<(Transaction, Expected)>) {
        self.world.trace.record_number("submit", transactions.len() as u64);
        let gateway = self.world.gateways[usize::from(number)].as_ref().expect("gateways are opened at once");
        self.clients.submit(usize::from(number), gateway, transactions);
    }

    /// Somebody does not want a transaction any more that is not decided, as far as can be seen; or was, long ago.
    fn withdraw(&mut self) {
        let undecided = self.truth.open.len();
        let place = if undecided > 0 && self.regrets.chance(9, 10) {
            self.truth.open.keys().nth(self.regrets.index(undecided)).copied()
        } else {
            self.truth.decided.keys().min().copied()
        };
        let Some((source, index)) = place else { return };
        let number = self.regrets.index(self.world.gateways.len());
        let gateway = self.world.gateways[number].as_ref().expect("gateways are opened at once");
        gateway.withdraw(Withdrawal { source, index }).expect("a gateway that works takes it");
        self.truth.withdrawn.insert((source, index));
        self.world.trace.record_number("withdraw", source.number);
    }

    /// Somebody sends something again, or uses its reference for something else.
    fn repeat(&mut self) {
        let mut transactions = Vec::new();
        for _ in 0..self.rng().between(1, 4) {
            let count = self.clients.known.len();
            if count == 0 {
                return;
            }
            let recent = [4, 12, 50, 1_000][self.rng().index(4)];
            let back = self.rng().index(count.min(recent));
            let known = &self.clients.known[count - 1 - back];
            let (mut transaction, expected) = (known.transaction.clone(), known.expected.clone());
            if self.rng().chance(1, 4) {
                let signers: Vec<_> = transaction.signers.drain(..).collect();
                transaction.header.signers = 0;
                transaction.header.expiry = transaction.header.expiry.plus_ms(self.rng().between(1, 50));
                for signer in signers {
                    let key = keys().iter().find(|key| key.public_key() == signer.key);
                    transaction.sign(&self.world.setup.network.id, key.expect("everybody's key is known"));
                }
                // What was wrong with it may be mended by signing it again, or covered up.
                transactions.push((transaction, expected.or_anything()));
                continue;
            }
            transactions.push((transaction, expected));
        }
        self.submit(transactions);
    }

    pub(super) fn stall(&mut self, stalls: bool) {
        self.stalled = stalls;
        self.world.cluster.stall(stalls);
        self.world.trace.record_number("stall", u64::from(stalls));
    }

    fn fault(&mut self) {
        let kind = self.rng().below(20);
        self.world.trace.record_number("fault", kind);
        let key = self.any();
        match kind {
            0..=4 => {
                let steps = self.world.pause();
                self.world.end(key, steps);
            }
            5..=8 => self.world.open(key),
            9..=11 => self.world.lose(key),
            12 => {
                for key in self.world.all() {
                    if self.rng().chance(1, 3) {
                        let steps = self.world.pause();
                        self.world.end(key, steps);
                    }
                }
            }
            13 => {
                let steps = self.world.pause();
                for key in self.world.all() {
                    self.world.end(key, steps);
                }
            }
            14 => self.stall(true),
            15 => {
                let number = self.any_gateway();
                if self.rng().chance(1, 2) {
                    self.world.lose((Role::Gateway, number));
                } else {
                    self.replace_gateway(number);
                }
            }
            16 => {
                let number = self.any_gateway();
                self.world.write_undecodable(number);
                self.replace_gateway(number);
            }
            17 => {
                let participants = self.world.setup.network.participants.len();
                let participant = ParticipantId(u16::try_from(self.rng().index(participants)).expect("few"));
                let steps = self.world.pause();
                self.world.end((Role::Updater, participant.0), steps);
                self.world.write_half_a_snapshot(participant);
            }
            _ => {
                // Nobody runs it for longer than transactions live.
                let steps = self.rng().between(5, 60);
                self.world.end(key, steps);
                self.send();
                for _ in 0..self.rng().between(0, 20) {
                    self.turns();
                }
                let ms = self.rng().between(1_000, 2 * VALIDITY_MS);
                self.world.now = self.world.now.plus_ms(ms);
            }
        }
    }

    /// Everything is well again: all is decided, and everybody agrees.
    pub(super) fn end(&mut self) {
        self.stall(false);
        self.world.bury();
        // Clients without an answer ask again, elsewhere.
        let unanswered = |known: &&super::clients::Known| !known.answered;
        let again: Vec<_> = self.clients.known.iter().filter(unanswered).collect();
        let again: Vec<_> =
            again.iter().map(|known| (known.transaction.clone(), known.expected.clone())).collect();
        self.world.now = self.world.now.plus_ms(200_000);
        self.world.healed = true;
        for number in 0..self.world.setup.layout.gateways {
            self.replace_gateway(number);
        }
        let number = self.any_gateway();
        self.submit_at(number, again);
        for key in self.world.all() {
            self.world.open(key);
        }
        self.world.bury();
        let mut rounds = 0;
        while let Some(missing) = self.missing() {
            rounds += 1;
            assert!(rounds < 4_000, "it does not come to rest: {missing}");
            self.flush();
            self.world.now = self.world.now.plus_ms(60);
            for key in self.world.all() {
                self.world.turn(key);
            }
            for number in 0..self.world.gateways.len() {
                self.hear_at(number);
            }
            self.look();
        }
        self.world.trace.record_number("rest", self.truth.sequenced);
        self.truth.ledger.books_match().unwrap_or_else(|wrong| panic!("{wrong}"));
        self.clients.were_told_the_truth(&self.truth);
        self.check_books();
        self.check_dead_letters();
        self.check_audit();
    }

    /// Whether it is the institution that lies.
    fn lies(&self, participant: u16) -> bool {
        self.world.liar.as_ref().and_then(Liar::participant).is_some_and(|liar| liar.0 == participant)
    }

    /// Whether a transaction concerns nobody but the institution that lies: then it need not be decided.
    fn is_the_liars_alone(&self, id: &TransactionId) -> bool {
        let known = self.clients.find(id).expect("it was handed in");
        known.transaction.participants().iter().all(|participant| self.lies(participant.0))
    }

    /// What is still to come before everything is at rest.
    fn missing(&self) -> Option<String> {
        if self.clients.waiting() > 0 {
            return Some(format!("{} submissions have no answer", self.clients.waiting()));
        }
        let undecided = self.truth.open.iter().filter(|(_, id)| !self.is_the_liars_alone(id));
        if let Some((place, _)) = undecided.clone().next() {
            return Some(format!("{} are undecided, {place:?} the first", undecided.count()));
        }
        for number in 0..self.world.setup.layout.schedulers {
            let key = (Role::Scheduler, number);
            let (found, wanted) = (self.world.dead_letters(key), self.unreadable_of_scheduler(number));
            if found < wanted {
                return Some(format!("scheduler {number} has set {found} of {wanted} records aside"));
            }
        }
        for (number, state) in &self.world.updaters {
            if self.lies(*number) {
                continue;
            }
            let applied = state.lock().expect("nobody panics and goes on").applied();
            if applied < self.truth.sequenced {
                return Some(format!("updater {number} has applied {applied} of {}", self.truth.sequenced));
            }
            let Some(approver) = self.world.approver(*number) else {
                return Some(format!("approver {number} is not open"));
            };
            if approver.under_way() > 0 {
                return Some(format!("approver {number} has {} under way", approver.under_way()));
            }
        }
        None
    }

    /// Updaters, and approvers at rest, hold what the naive ledger holds.
    fn check_books(&self) {
        for (number, state) in &self.world.updaters {
            if self.lies(*number) {
                continue;
            }
            let updater = state.lock().expect("nobody panics and goes on");
            assert_eq!(updater.applied(), self.truth.sequenced, "updater {number}");
            let approver = self.world.approver(*number).expect("it is open");
            let available = approver.accounts();
            let mut accounts = 0;
            for (id, held) in &self.truth.ledger.accounts {
                let AccountId { participant, number: account } = *id;
                if participant.0 != *number {
                    continue;
                }
                accounts += u32::from(!account.is_institution());
                for (whose, table) in [("updater", updater.accounts()), ("approver", available)] {
                    let shown = table.get(account).unwrap_or_else(|| panic!("{whose} {number} has no {id}"));
                    let floor = table.floor(account, shown).0;
                    let shown = (i128::from(shown.balance), shown.status(), i128::from(floor));
                    assert_eq!(shown, (held.balance, held.status, held.floor), "{id} of {whose} {number}");
                }
            }
            assert_eq!(updater.accounts().customers(), accounts, "updater {number} has accounts of nobody");
            for ((participant, alias), account) in &self.truth.ledger.aliases {
                if participant.0 == *number {
                    assert_eq!(updater.alias(alias), Some(*account));
                }
            }
        }
    }

    /// Records that nobody can read, by damage or by a liar, where this scheduler reads.
    fn unreadable_of_scheduler(&self, number: u16) -> u64 {
        let damaged = self.world.undecodable.get(&number);
        let lies = self.world.unreadable.get(&(Role::Scheduler, number));
        damaged.into_iter().chain(lies).sum()
    }

    /// What nobody could read is set aside, once, and nothing else is.
    fn check_dead_letters(&mut self) {
        for key in self.world.all() {
            let mut wanted = match key {
                (Role::Scheduler, number) => self.unreadable_of_scheduler(number),
                _ => 0,
            };
            if let Some(liar) = self.world.liar.as_ref().and_then(Liar::participant) {
                if matches!(key.0, Role::Approver | Role::Updater) && key.1 == liar.0 {
                    continue;
                }
                if key.0 == Role::Assembler {
                    self.check_letters_of_liar(liar);
                    continue;
                }
            }
            let found = self.world.dead_letters(key);
            if key.0 == Role::Assembler {
                // Withdrawals from before it was opened it does not read.
                wanted = found.min(self.world.unreadable.get(&key).copied().unwrap_or(0));
            }
            assert_eq!(found, wanted, "dead letters of {key:?}: {:?}", self.letters(key));
            self.world.counts.dead_letters += found;
        }
    }

    fn check_audit(&mut self) {
        let setup = &self.world.setup;
        let journal = Journal::open(&self.world.cluster, &setup.layout).expect("the partitions are there");
        let audited = Audit::new(&setup.network).findings(1 << 16).entries(journal);
        let liar = self.world.liar.as_ref().and_then(Liar::participant);
        if let (Some(liar), Err(AuditError::NotInOrder { findings, stopped: None })) = (liar, &audited) {
            // Its own books are not in order: nobody else's are not.
            let bic = &setup.network.participants[liar.index()].bic;
            for finding in &findings.first {
                assert_eq!(finding.institution.as_ref(), Some(bic), "the audit finds: {finding}");
            }
            assert_eq!(findings.more, 0);
            self.world.trace.record_number("findings", findings.count());
            return;
        }
        let report = audited.unwrap_or_else(|error| panic!("the audit finds: {}", chain(&error)));
        if liar.is_some() {
            self.world.trace.record("audited", &report.tree_root);
            return;
        }
        assert_eq!((report.sequenced, report.undecided), (self.truth.sequenced, 0));
        assert_eq!((report.accepted, report.made), (self.truth.accepted.len() as u64, self.truth.made));
        let updaters = self.world.updaters.values();
        let sums = updaters.flat_map(|state| {
            totals(state.lock().expect("nobody panics and goes on").accounts(), &setup.network)
        });
        assert_eq!(sums.collect::<Vec<_>>(), report.totals, "the audit's totals");
        self.world.trace.record("audited", &report.tree_root);
    }

    pub(super) fn summary(self) -> Summary {
        let Self { world, clients, truth, .. } = self;
        let counts = world.counts;
        Summary {
            trace: world.trace.hash(),
            steps: world.step,
            lives: counts.lives,
            kills: counts.kills,
            fenced: counts.fenced,
            lost: counts.lost,
            clocks: counts.clocks,
            transactions: clients.known.len() as u64,
            accepted: truth.accepted.len() as u64,
            made: truth.made,
            timed_out: truth.timed_out,
            withdrawn: truth.withdrawn_in_time,
            repeats: clients.repeats,
            duplicates: clients.duplicates(),
            told: clients.told(),
            dead_letters: counts.dead_letters,
            refused: clients.refusals,
        }
    }
}
