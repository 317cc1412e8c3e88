//! A run with a liar, and what must be so in it.

use super::judge::Judge;
use super::{Liar, Lie, Member, own};
use crate::processes::run::{Run, Summary, Total};
use crate::processes::truth::Lies;
use crate::simulation::life::chain;
use crate::witness::Witness;
use std::collections::BTreeMap;
use tally_crypto::log::{Checkpoint, Cosignature};
use tally_ledger::ParticipantId;
use tally_log::Offset;
use tally_settlement::message::{CosignatureBatch, Message, SequenceBatch};
use tally_settlement::process::{Gateway, Role, Stop, first_origin};
use tally_sim::Rng;

/// What a run with a liar came to; equal for equal seeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Liars {
    /// What happened besides.
    pub summary: Summary,
    /// Who lied.
    pub member: Member,
    /// How often it told which lie.
    pub told: BTreeMap<Lie, u64>,
    /// Why members stopped, or what they set aside, by the name of the reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Decisions about transactions in which an institution that lied had no part.
    pub of_others: u64,
    /// Transactions that were made in the books of honest institutions while the operator lied.
    pub made_by_honest: u64,
    /// Institutions that did not go on where the operator made what another had not agreed to.
    pub without_consent: u64,
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct LiarsTotal {
    /// What happened besides.
    pub total: Total,
    /// How often which lie was told.
    pub told: BTreeMap<Lie, u64>,
    /// Why members stopped, or what they set aside.
    pub reasons: BTreeMap<&'static str, u64>,
    /// See [`Liars::of_others`].
    pub of_others: u64,
    /// See [`Liars::made_by_honest`].
    pub made_by_honest: u64,
    /// See [`Liars::without_consent`].
    pub without_consent: u64,
}

impl LiarsTotal {
    /// One more.
    pub fn add(&mut self, run: &Liars) {
        self.total.add(&run.summary);
        for (lie, count) in &run.told {
            *self.told.entry(*lie).or_default() += count;
        }
        for (reason, count) in &run.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.of_others += run.of_others;
        self.made_by_honest += run.made_by_honest;
        self.without_consent += run.without_consent;
    }
}

impl std::fmt::Display for LiarsTotal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lies: u64 = self.told.values().sum();
        write!(
            f,
            "{}; {lies} lies of {} kinds, {} reasons, {} decisions about others, {} made beside a lying operator, \
             {} institutions that did not go on without consent",
            self.total,
            self.told.len(),
            self.reasons.len(),
            self.of_others,
            self.made_by_honest,
            self.without_consent
        )
    }
}

/// Runs a seed in which a member lies.
///
/// # Panics
/// When a lie harms anybody else, or anything else is not as it should be. The message names the seed.
#[must_use]
pub fn run_liars(seed: u64) -> Liars {
    let witness = Witness::of_liars(seed);
    let mut rng = Rng::new(seed ^ 0x6c69_6172);
    let mut run = Run::new(seed);
    let member = Member::draw(&mut rng, run.world.setup.network.participants.len());
    let is_operator = matches!(member, Member::Operator { .. });
    let is_calm = !is_operator && rng.chance(1, 2);
    if is_calm {
        run.keep_calm();
    }
    if is_operator {
        run.judge = Some(Judge::new(&run.world));
    } else {
        let institution = match member {
            Member::Institution(participant, _) => Some(participant),
            _ => None,
        };
        if let Some(participant) = institution {
            run.truth.ledger.expect_nothing_of(participant);
        }
        run.truth.lies = Some(Lies::new(institution, is_calm));
    }
    let liar = Liar::new(member, rng.fork(), &mut run.world);
    run.world.liar = Some(liar);
    let steps = rng.between(60, 260);
    for step in 1..=steps {
        witness.sees(step);
        run.act();
        if member == Member::Gateway && rng.chance(1, 3) {
            run.lie_as_gateway();
        }
        if let Some(liar) = &mut run.world.liar {
            liar.opened.clone_from(&run.work.opened);
        }
    }
    if is_operator {
        run.end_beside_liar();
    } else {
        if is_calm {
            run.calm_down();
        }
        run.end();
    }
    let reasons = run.reasons();
    let mut judged = (0, 0);
    if let Some(judge) = &mut run.judge {
        judge.end(&run.world);
        judged = (judge.made, judge.without_consent);
        assert!(judge.compared > 0, "no books were compared");
    }
    if let Member::Institution(participant, _) = member {
        run.check_cosignatures(participant);
    }
    let told = run.world.liar.take().map(|liar| liar.told).unwrap_or_default();
    let of_others = run.truth.lies.as_ref().map_or(0, |lies| lies.of_others);
    let summary = run.summary();
    drop(witness);
    let (made_by_honest, without_consent) = judged;
    Liars { summary, member, told, reasons, of_others, made_by_honest, without_consent }
}

/// What a reason for setting answers aside is called, by what it says.
const SET_ASIDE: [(&str, &str); 6] = [
    ("where only participant", "NotCounted::Foreign"),
    ("which was not accepted", "NotCounted::UnknownBatch"),
    ("a batch of another length", "NotCounted::WrongLength"),
    ("did not sign", "NotCounted::WrongSignature"),
    ("in which it has no part", "NotCounted::NotAsked"),
    ("a second time, and otherwise", "NotCounted::Contradiction"),
];

impl Run {
    /// Nothing else goes wrong.
    fn keep_calm(&mut self) {
        self.is_calm = true;
        let setup = &mut self.world.setup;
        setup.faults = u64::MAX;
        setup.skew_ms = 0;
        setup.step_ms = setup.step_ms.min(5);
        setup.remember = 1 << 16;
    }

    /// A gateway does what it must not.
    fn lie_as_gateway(&mut self) {
        let Some(mut liar) = self.world.liar.take() else { return };
        let number = self.any_gateway();
        match self.rng().below(6) {
            0..=3 => {
                let (transactions, places) = liar.hand_in(&self.world, &self.clients.known);
                let at = usize::from(number);
                let gateway = self.world.gateways[at].as_ref().expect("gateways are opened at once");
                self.clients.submit_beside(at, gateway, transactions, places);
            }
            4 => {
                let open = self.truth.open.keys().copied().collect();
                let withdrawal = liar.withdrawal(open);
                let at = usize::from(number);
                let gateway = self.world.gateways[at].as_ref().expect("gateways are opened at once");
                gateway.withdraw(withdrawal).expect("a gateway that works takes it");
                self.truth.withdrawn.insert((withdrawal.source, withdrawal.index));
            }
            _ => {
                if let Some(key) = liar.write_unreadable(&mut self.world, number) {
                    *self.world.unreadable.entry(key).or_default() += 1;
                }
                self.replace_gateway(number);
            }
        }
        self.world.liar = Some(liar);
    }

    /// Without faults, all that does not concern the liar is decided long before it expires.
    fn calm_down(&mut self) {
        for round in 0.. {
            let undecided = self.truth.open.values().filter(|id| {
                let known = self.clients.find(id).expect("it was handed in");
                !self.truth.concerns_liar(&known.transaction)
            });
            let undecided = undecided.count();
            if undecided == 0 {
                break;
            }
            let first = || {
                self.truth.open.iter().find(|(_, id)| {
                    let known = self.clients.find(id).expect("it was handed in");
                    !self.truth.concerns_liar(&known.transaction)
                })
            };
            assert!(round < 3_000, "{undecided} transactions of others are not decided: {:?}", first());
            self.flush();
            self.world.now = self.world.now.plus_ms(3);
            for key in self.world.all() {
                self.world.turn(key);
            }
            self.look();
        }
    }

    /// The faults end; what the operator may not do, it has not done. Whether all is decided is its affair.
    fn end_beside_liar(&mut self) {
        self.stall(false);
        self.world.bury();
        self.world.now = self.world.now.plus_ms(200_000);
        self.world.healed = true;
        for key in self.world.all() {
            self.world.open(key);
        }
        for _ in 0..60 {
            self.flush();
            self.world.now = self.world.now.plus_ms(200);
            for key in self.world.all() {
                self.world.turn(key);
            }
            self.look();
        }
    }

    /// Why members stopped, and why answers were set aside.
    fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let mut reasons = BTreeMap::new();
        for reason in self.world.stopped.values() {
            *reasons.entry(*reason).or_default() += 1;
        }
        let layout = &self.world.setup.layout;
        for assembler in 0..layout.assemblers {
            for letter in self.letters((Role::Assembler, assembler)) {
                let known = SET_ASIDE.iter().find(|(text, _)| letter.1.contains(text));
                *reasons.entry(known.map_or("Unreadable", |(_, name)| name)).or_default() += 1;
            }
        }
        reasons
    }

    /// What a shard set aside: of which topic, and why.
    pub(in crate::processes) fn letters(&self, (role, number): (Role, u16)) -> Vec<(String, String)> {
        let partition = self.world.setup.layout.dead_letters(role, number);
        let mut letters = Vec::new();
        for record in self.world.cluster.peek(&partition, Offset(0)) {
            let (length, rest) = record.payload.split_at(4);
            let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
            let text = &rest[..usize::try_from(length).expect("letters are short")];
            let letter: serde_json::Value = serde_json::from_slice(text).expect("a letter is JSON");
            let field = |name: &str| letter[name].as_str().expect("it is text").to_owned();
            letters.push((field("topic"), field("reason")));
        }
        letters
    }

    /// Assemblers set aside what the liar wrote and nothing else.
    pub(in crate::processes) fn check_letters_of_liar(&self, participant: ParticipantId) {
        let layout = &self.world.setup.layout;
        let wanted = own(layout, "approvals", participant, 0).topic;
        for assembler in 0..layout.assemblers {
            for (topic, reason) in self.letters((Role::Assembler, assembler)) {
                assert_eq!(
                    topic, wanted,
                    "assembler {assembler} sets aside what is not the liar's: {reason}"
                );
            }
        }
    }

    /// Honest witnesses have cosigned the whole sequence; the liar has shown no second history of the operator's, and what
    /// it wrote stops no gateway.
    fn check_cosignatures(&mut self, liar: ParticipantId) {
        let setup = &self.world.setup;
        let sequence = self.world.cluster.peek(&super::shared(&setup.layout, "sequence", 0), Offset(0));
        let decode = |payload: &[u8]| SequenceBatch::decode(payload).expect("the sequencer wrote it");
        let roots: BTreeMap<u64, [u8; 32]> = sequence
            .iter()
            .map(|record| decode(&record.payload))
            .map(|batch| (batch.tree_size, batch.tree_root))
            .collect();
        let operator = setup.network.participants[0].key;
        for participant in setup.layout.everybody() {
            let mut last = 0;
            let partition = own(&setup.layout, "cosignatures", participant, 0);
            for record in self.world.cluster.peek(&partition, Offset(0)) {
                let Ok(batch) = CosignatureBatch::decode(&record.payload) else {
                    assert_eq!(participant, liar, "an honest witness writes what nobody can read");
                    continue;
                };
                for head in &batch.heads {
                    let is_true = roots.get(&head.size) == Some(&head.root);
                    if participant == liar {
                        let signed = head.head().verify(&setup.network.id.0, &operator).is_ok();
                        assert!(is_true || !signed, "a witness made a second history up");
                        continue;
                    }
                    let checkpoint = Checkpoint::of(&head.head().head, &setup.network.id.0);
                    let cosignature = Cosignature { time_s: head.time_s, signature: head.cosignature };
                    let key = setup.network.participants[participant.index()].key;
                    assert!(cosignature.verify(&checkpoint, &key).is_ok(), "{participant:?} did not cosign");
                    assert!(is_true, "{participant:?} cosigned a head that there is not");
                    last = head.size;
                }
            }
            assert!(participant == liar || last == roots.len() as u64, "{participant:?} cosigned {last}");
        }
        let opened = Gateway::open(&self.world.cluster, &setup.layout, 0, first_origin(), &Stop::default());
        let (_, mut listener) = opened.expect("a gateway opens").split();
        for _ in 0..200 {
            if let Err(error) = listener.cosignatures(|_| false) {
                panic!("a gateway stops because of a witness: {}", chain(&error));
            }
        }
    }
}
