//! The hostile approver: a program of its own, with its institution's directory, key and certificate. It writes where the
//! institution's approver and updater write, under the approver's name, and fences the approver by that.

use super::super::institutions::client;
use super::super::payments::Random;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::configuration::Configuration;
use tally::layout::Layout as Directory;
use tally::stages::ClusterConfiguration;
use tally_crypto::log::{Checkpoint, Cosignature, TreeHead};
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::batch::{Hasher, MAX_BATCH};
use tally_ledger::{Network, ParticipantId, Refusal};
use tally_log::cluster::{Binding, Cluster, Partition, SharedLog};
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_log::{Log, Offset, TopicId, Visibility};
use tally_settlement::message::{
    ApprovalBatch, ApprovalSigner, CosignatureBatch, CosignedHead, Message, ProposalBatch, SequenceBatch,
    Source,
};
use tally_settlement::process::{Layout, Role};

/// The environment's variable with the orders.
pub(super) const ORDERS: &str = "TALLY_HOSTILE_ORDERS";

/// What it is to do.
#[derive(Serialize, Deserialize)]
pub(super) struct Orders {
    /// The institution's directory.
    pub(super) directory: PathBuf,
    /// Where it writes what it did.
    pub(super) done: PathBuf,
    pub(super) attack: Attack,
    pub(super) seconds: u64,
    /// Records a second.
    pub(super) rate: u64,
    pub(super) seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Attack {
    /// Everything that leaves the partitions readable.
    Lies,
    /// A record in every partition of its topics that breaks the count of the records.
    BreaksTheCount,
}

/// How many records of each kind it wrote.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) records: BTreeMap<String, u64>,
    pub(super) bytes: u64,
    /// Proposals that it approved, refused and never answered.
    pub(super) approved: u64,
    pub(super) refused: u64,
    pub(super) withheld: u64,
}

/// Carries the orders in the environment out.
pub(super) fn run() {
    let Some(file) = std::env::var_os(ORDERS) else { return };
    let orders: Orders = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut member = Member::new(&orders);
    match orders.attack {
        Attack::Lies => member.lie(&orders),
        Attack::BreaksTheCount => member.break_the_count(),
    }
    std::fs::write(&orders.done, serde_json::to_vec(&member.done).unwrap()).unwrap();
}

/// Topics by their number in the log.
const COSIGNATURES: TopicId = TopicId(0);
const SEQUENCE: TopicId = TopicId(1);
const FIRST_APPROVALS: u16 = 100;
const FIRST_PROPOSALS: u16 = 200;
/// A second answer to a batch that is certainly open: its member withheld another answer.
const OPEN_CONTRADICTION: &str = "contradiction about an open batch";

struct Member {
    network: Network,
    layout: Layout,
    own: ParticipantId,
    key: SigningKey,
    options: KafkaOptions,
    log: Arc<dyn SharedLog>,
    signer: ApprovalSigner,
    hasher: Hasher,
    random: Random,
    /// By scheduler, the next of the proposals.
    next: Vec<u64>,
    next_in_sequence: u64,
    head: Option<SequenceBatch>,
    /// The last that it was asked, with their ids.
    asked: VecDeque<(Arc<ProposalBatch>, Vec<Hash>)>,
    /// The last that it answered.
    answered: VecDeque<ApprovalBatch>,
    foreign: BaseProducer,
    done: Done,
}

impl Member {
    fn new(orders: &Orders) -> Self {
        let directory = Directory::new(&orders.directory);
        let configuration = Configuration::read(&directory, &[]).unwrap();
        let cluster = ClusterConfiguration::read(&directory, &[]).unwrap();
        let layout = cluster.layout(&configuration).unwrap();
        let network = configuration.network().unwrap();
        let bic = cluster.institution.clone().unwrap();
        let (own, _) = network.participant(&bic).unwrap();
        let key = key(&directory, &bic);
        let options = cluster.kafka.clone();
        let topic = |name: &str| format!("{}.{name}.{bic}", layout.prefix);
        let bind = |id, partition, writes| Binding { id, partition, writes };
        let mut bindings = vec![
            bind(COSIGNATURES, Partition::new(topic("cosignatures"), 0), true),
            bind(SEQUENCE, Partition::new(format!("{}.sequence", layout.prefix), 0), false),
        ];
        for number in 0..layout.assemblers {
            let partition = Partition::new(topic("approvals"), number);
            bindings.push(bind(TopicId(FIRST_APPROVALS + number), partition, true));
        }
        for number in 0..layout.schedulers {
            let partition = Partition::new(topic("proposals"), number);
            bindings.push(bind(TopicId(FIRST_PROPOSALS + number), partition, false));
        }
        let kafka = KafkaCluster::new(options.clone()).unwrap();
        let log = kafka.open(&layout.writer(Role::Approver, own.0), &bindings).unwrap();
        let next = (0..layout.schedulers).map(|s| log.next(TopicId(FIRST_PROPOSALS + s)).0).collect();
        Self {
            signer: ApprovalSigner::new(network.id),
            hasher: Hasher::new(&network.id),
            random: Random(orders.seed),
            next,
            next_in_sequence: log.next(SEQUENCE).0.saturating_sub(1),
            head: None,
            asked: VecDeque::new(),
            answered: VecDeque::new(),
            foreign: producer(&options),
            done: Done::default(),
            network,
            layout,
            own,
            key,
            options,
            log,
        }
    }

    fn lie(&mut self, orders: &Orders) {
        const TICK: Duration = Duration::from_millis(50);
        // In turn: eight seconds of lies about batches that it is asked about, four of answers to batches that there are
        // not, three of the first again. Answers to unknown batches hold up what it says of known ones.
        let unknown = |began: Instant| (8_000..12_000).contains(&(began.elapsed().as_millis() % 15_000));
        let start = Instant::now();
        let until = start + Duration::from_secs(orders.seconds);
        // On a slow machine it goes on until it has told each lie about batches that are certainly open.
        let at_most = until + Duration::from_secs(180);
        let mut large = Instant::now() + Duration::from_secs(2);
        let mut ticks = 0;
        while Instant::now() < until || (!self.told_all() && Instant::now() < at_most) {
            let began = Instant::now();
            for (proposals, ids) in self.proposals() {
                self.answer(&proposals, &ids);
            }
            self.follow();
            let due = orders.rate * TICK.as_millis() as u64 / 1_000;
            for _ in 0..due.max(1) {
                ticks += 1;
                self.one_lie(ticks, unknown(start));
            }
            if Instant::now() >= large {
                self.large(unknown(start));
                large = Instant::now() + Duration::from_secs(5);
            }
            self.log.sync().unwrap();
            self.foreign.poll(Duration::ZERO);
            std::thread::sleep(TICK.saturating_sub(began.elapsed()));
        }
        self.foreign.flush(Duration::from_secs(30)).unwrap();
    }

    /// Whether it told each lie about open batches a few times.
    fn told_all(&self) -> bool {
        let times = |kind: &str| self.done.records.get(kind).copied().unwrap_or(0);
        ["wrong length", "wrong signature", "another's name", "others' transactions", OPEN_CONTRADICTION]
            .iter()
            .all(|kind| times(kind) >= 3)
    }

    /// What it was asked since it was last looked for.
    fn proposals(&mut self) -> Vec<(Arc<ProposalBatch>, Vec<Hash>)> {
        let mut found = Vec::new();
        for at in 0..self.next.len() {
            let topic = TopicId(FIRST_PROPOSALS + u16::try_from(at).unwrap());
            let mut records = Vec::new();
            let from = Offset(self.next[at]);
            self.next[at] = self.log.read(topic, from, 1 << 20, Visibility::Durable, &mut records).unwrap().0;
            for record in records {
                let batch = Arc::new(ProposalBatch::decode(&record.payload).unwrap());
                let ids = self.ids(&batch);
                if !batch.is_empty() {
                    found.push((batch, ids));
                }
            }
        }
        self.asked.extend(found.iter().cloned());
        while self.asked.len() > 64 {
            self.asked.pop_front();
        }
        found
    }

    /// The ids of the transactions that it was shown.
    fn ids(&mut self, batch: &ProposalBatch) -> Vec<Hash> {
        let (mut legs, mut all, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let shown = batch.legs.iter().zip(&batch.salts).zip(&batch.positions);
        self.hasher.legs(shown.map(|((leg, salt), at)| (leg, salt.as_slice(), *at)), &mut legs);
        for proposal in batch.iter() {
            let mut hidden = proposal.hidden.iter();
            let mut shown = (proposal.first_leg..).zip(proposal.positions).peekable();
            for position in 0..proposal.header.legs {
                let leg = shown.next_if(|(_, at)| **at == position);
                all.push(leg.map_or_else(|| *hidden.next().unwrap(), |(leg, _)| legs[leg]));
            }
        }
        self.hasher.ids(&batch.headers, &batch.participants, &all, &mut ids);
        ids
    }

    /// The last head of the operator's log.
    fn follow(&mut self) {
        let mut records = Vec::new();
        let from = Offset(self.next_in_sequence);
        let read = self.log.read(SEQUENCE, from, 1 << 20, Visibility::Durable, &mut records);
        self.next_in_sequence = read.unwrap().0;
        if let Some(last) = records.last() {
            self.head = Some(SequenceBatch::decode(&last.payload).unwrap());
        }
    }

    fn batch(&self, proposals: &ProposalBatch, ids: &[Hash], items: &[usize], verdict: u16) -> ApprovalBatch {
        ApprovalBatch {
            source: proposals.source,
            source_len: proposals.source_len,
            participant: self.own,
            indices: items.iter().map(|at| proposals.indices[*at]).collect(),
            ids: items.iter().map(|at| ids[*at]).collect(),
            verdicts: vec![verdict; items.len()],
            leaves: Vec::new(),
            signature: Signature::from_bytes([0; 64]),
        }
    }

    /// Signs and appends; to the assembler that joins the answers to that batch.
    fn append(&mut self, kind: &str, mut batch: ApprovalBatch) {
        self.signer.sign(&mut batch, &self.key);
        self.append_as_it_is(kind, &batch);
    }

    fn append_as_it_is(&mut self, kind: &str, batch: &ApprovalBatch) {
        let mut bytes = Vec::new();
        batch.encode(&mut bytes);
        let assembler = batch.source.number % u64::from(self.layout.assemblers);
        self.write(kind, TopicId(FIRST_APPROVALS + u16::try_from(assembler).unwrap()), &bytes);
    }

    fn write(&mut self, kind: &str, topic: TopicId, bytes: &[u8]) {
        self.log.append(topic, &[bytes]).unwrap();
        *self.done.records.entry(kind.to_owned()).or_default() += 1;
        self.done.bytes += bytes.len() as u64;
    }

    /// Answers what it was asked: before the answer lies about the same batch, then for most of it the truth, then lies again.
    fn answer(&mut self, proposals: &ProposalBatch, ids: &[Hash]) {
        let all: Vec<usize> = (0..proposals.len()).collect();
        let whole = self.batch(proposals, ids, &all, 0);
        let longer = (proposals.source_len + 1).min(u32::try_from(MAX_BATCH).unwrap());
        self.append("wrong length", ApprovalBatch { source_len: longer, ..whole.clone() });
        self.not_asked(proposals, &whole);
        let mut unsigned = whole.clone();
        self.signer.sign(&mut unsigned, &SigningKey::from_seed([66; 32]));
        self.append_as_it_is("wrong signature", &unsigned);
        let participant = self.other();
        self.append("another's name", ApprovalBatch { participant, ..whole.clone() });

        let refusal = Refusal::InsufficientFunds.number();
        let first = &all[..1];
        // Contradictions about a batch with one transaction may come after its end, and are none then.
        let turn = if proposals.len() > 1 && !self.told_all() { 4 } else { self.random.below(6) };
        match turn {
            // All of it, as an honest approver would.
            answered @ 0..=3 => {
                let verdict = if answered == 3 { refusal } else { 0 };
                let count = if verdict == 0 { &mut self.done.approved } else { &mut self.done.refused };
                *count += all.len() as u64;
                let (answer, other) = (
                    self.batch(proposals, ids, &all, verdict),
                    self.batch(proposals, ids, &all, refusal - verdict),
                );
                self.append("answer", answer.clone());
                self.append("contradiction", other);
                self.append("the same again", answer);
            }
            // The first alone: the batch stays open for what comes next.
            4 => {
                self.done.approved += 1;
                self.done.withheld += all.len() as u64 - 1;
                let answer = self.batch(proposals, ids, first, 0);
                self.append("answer", answer.clone());
                let other = self.batch(proposals, ids, first, refusal);
                let kind = if proposals.len() > 1 { OPEN_CONTRADICTION } else { "contradiction" };
                self.append(kind, other);
                let all = self.batch(proposals, ids, &all, refusal);
                self.append("contradiction", all);
                self.append("the same again", answer);
            }
            _ => self.done.withheld += all.len() as u64,
        }
        self.answered.push_back(whole);
        if self.answered.len() > 64 {
            self.answered.pop_front();
        }
    }

    /// Answers for transactions of others in the same batch, yes and no, with its own among them and without.
    fn not_asked(&mut self, proposals: &ProposalBatch, whole: &ApprovalBatch) {
        let others: Vec<u32> =
            (0..proposals.source_len).filter(|index| proposals.position(*index).is_none()).collect();
        let Some(index) = others.first() else { return };
        for verdict in [0, Refusal::InsufficientFunds.number()] {
            let alone = ApprovalBatch {
                indices: vec![*index],
                ids: vec![Hash::ZERO],
                verdicts: vec![verdict],
                ..whole.clone()
            };
            self.append("others' transactions", alone);
            let mut all: Vec<(u32, Hash)> =
                whole.indices.iter().copied().zip(whole.ids.iter().copied()).collect();
            all.extend(others.iter().map(|index| (*index, Hash::ZERO)));
            all.sort_by_key(|(index, _)| *index);
            let among = ApprovalBatch {
                verdicts: vec![verdict; all.len()],
                ids: all.iter().map(|(_, id)| *id).collect(),
                indices: all.iter().map(|(index, _)| *index).collect(),
                ..whole.clone()
            };
            self.append("others' transactions", among);
        }
    }

    fn other(&mut self) -> ParticipantId {
        let others = self.network.participants.len() as u64 - 1;
        let at = self.random.below(others) as u16;
        ParticipantId(if at >= self.own.0 { at + 1 } else { at })
    }

    /// Answers to a batch that is none.
    fn made_up(&mut self, scheduler: u64, number: u64) -> ApprovalBatch {
        let len = 1 + self.random.below(8) as u32;
        ApprovalBatch {
            source: Source::new(scheduler, number),
            source_len: len,
            participant: self.own,
            indices: (0..len).collect(),
            ids: vec![Hash::ZERO; len as usize],
            verdicts: vec![0; len as usize],
            leaves: Vec::new(),
            signature: Signature::from_bytes([0; 64]),
        }
    }

    /// The next of the lies that need no proposal.
    fn one_lie(&mut self, turn: u64, unknown: bool) {
        let schedulers = u64::from(self.layout.schedulers);
        let (scheduler, number) = (self.random.below(schedulers), self.random.next());
        let last = self.asked.back().map_or(0, |(proposals, _)| proposals.source.number);
        match turn % 12 {
            0 if unknown => {
                let batch = self.made_up(scheduler, number);
                self.append("far in the future", batch);
            }
            // Of these some will be accepted while it writes.
            1 if unknown => {
                let batch = self.made_up(scheduler, last + 1 + number % 500);
                self.append("in the future", batch);
            }
            3 if unknown => {
                let batch = self.made_up(schedulers + 1, number % 100);
                self.append("of no scheduler", batch);
            }
            0..=3 => {
                let batch = self.made_up(scheduler, number % last.max(1));
                self.append("in the past", batch);
            }
            4 => {
                if let Some(batch) = self.answered.get(self.answered.len() / 2).cloned() {
                    self.append("the same again", batch);
                }
            }
            5 | 6 => self.noise(FIRST_APPROVALS + (number % u64::from(self.layout.assemblers)) as u16),
            7 => {
                let topic = format!("{}.approvals.{}", self.layout.prefix, self.bic());
                let noise = [7; 300];
                let record = BaseRecord::<(), _>::to(&topic).partition(0).payload(&noise[..]);
                self.foreign.send(record).map_err(|(error, _)| error).unwrap();
                *self.done.records.entry("foreign".to_owned()).or_default() += 1;
            }
            8 => self.noise(COSIGNATURES.0),
            9..=11 => self.cosign(turn),
            _ => unreachable!(),
        }
    }

    fn bic(&self) -> String {
        self.network.participants[self.own.index()].bic.clone()
    }

    /// Bytes that are no record of the topic.
    fn noise(&mut self, topic: u16) {
        let mut bytes = Vec::new();
        match self.random.below(4) {
            0 => {}
            1 => bytes.extend((0..self.random.below(400)).map(|at| (at * 31) as u8)),
            2 => {
                self.made_up(0, 1).encode(&mut bytes);
                bytes.pop();
            }
            // As of a later version.
            _ => {
                self.made_up(0, 1).encode(&mut bytes);
                bytes[0] += 1;
            }
        }
        self.write("unreadable", TopicId(topic), &bytes);
    }

    /// A cosignature that is none.
    fn cosign(&mut self, turn: u64) {
        let Some(head) = self.head.as_ref().map(|last| last.tree_head()) else { return };
        let TreeHead { size, root, timestamp_ms } = head.head;
        let mut wrong = root;
        wrong[0] ^= 1;
        let (kind, size, root, participant) = match turn / 12 % 4 {
            0 => ("cosigns a wrong root", size, wrong, self.own),
            1 => ("cosigns a future size", size + 1_000_000_000, root, self.own),
            2 => ("cosigns in another's name", size, root, self.other()),
            _ => ("cosigns with another key", size, root, self.own),
        };
        let stated = TreeHead { size, root, timestamp_ms };
        let checkpoint = Checkpoint::of(&stated, &self.network.id.0);
        let stranger = SigningKey::from_seed([66; 32]);
        let key = if kind == "cosigns with another key" { &stranger } else { &self.key };
        let time_s = timestamp_ms / 1_000;
        let cosigned = Cosignature::sign(&checkpoint, time_s, key).unwrap();
        let head = CosignedHead {
            size,
            timestamp_ms,
            time_s,
            root,
            operator: head.signature,
            cosignature: cosigned.signature,
        };
        let mut bytes = Vec::new();
        CosignatureBatch { participant, heads: vec![head] }.encode(&mut bytes);
        self.write(kind, COSIGNATURES, &bytes);
    }

    /// Records as large as they may be: one that cannot be read, one that can.
    fn large(&mut self, unknown: bool) {
        let assembler = self.random.below(self.layout.assemblers.into()) as u16;
        let bytes = vec![0xa5; self.options.max_record_bytes];
        self.write("unreadable, of maximal size", TopicId(FIRST_APPROVALS + assembler), &bytes);
        self.log.sync().unwrap();
        if !unknown {
            return;
        }
        let number = self.random.next();
        let len = u32::try_from(MAX_BATCH).unwrap();
        let batch = ApprovalBatch {
            source_len: len,
            indices: (0..len).collect(),
            ids: vec![Hash::ZERO; MAX_BATCH],
            verdicts: vec![0; MAX_BATCH],
            ..self.made_up(0, number)
        };
        self.append("far in the future, of maximal length", batch);
        self.log.sync().unwrap();
    }

    /// Puts a record with a number that is not the next into each of its partitions.
    fn break_the_count(&mut self) {
        let bic = self.bic();
        let mut places = vec![(format!("{}.cosignatures.{bic}", self.layout.prefix), 0)];
        let approvals = format!("{}.approvals.{bic}", self.layout.prefix);
        places.extend((0..self.layout.assemblers).map(|number| (approvals.clone(), i32::from(number))));
        for (topic, partition) in places {
            // The key of a record of this network: form 1, and the record's number in its partition.
            let key = [&b"TLY\x01"[..], &3u64.to_be_bytes()].concat();
            let record = BaseRecord::to(&topic).partition(partition).key(&key).payload(&b"out of order"[..]);
            self.foreign.send(record).map_err(|(error, _)| error).unwrap();
            *self.done.records.entry("out of order".to_owned()).or_default() += 1;
        }
        self.foreign.flush(Duration::from_secs(30)).unwrap();
    }
}

fn key(directory: &Directory, bic: &str) -> SigningKey {
    let passphrase = tally::passphrase::of_network(directory, None).unwrap();
    let keys: &Path = &directory.institution_keys();
    tally::keys::read(keys, bic, &passphrase).unwrap()
}

/// A client that keeps to none of this project's rules.
fn producer(options: &KafkaOptions) -> BaseProducer {
    client(options).create().unwrap()
}
