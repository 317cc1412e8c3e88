use super::*;
use crate::message::Message as _;
use crate::message::{ApprovalSigner, ParticipationBatch};
use crate::runtime::executor::Signal;
use crate::runtime::feed::{Aside, Cursor, RecordFault, UnreadableRecords};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use tally_crypto::{Hash, Signature, SigningKey};
use tally_ledger::{Network, NetworkId, Participant, SignaturePolicy};
use tally_log::cluster::{Binding, Cluster, MemoryCluster, Partition, SharedLog};
use tally_log::{Log, TopicId, Visibility};

const NETWORK: NetworkId = NetworkId([5; 32]);
const NOW: Timestamp = Timestamp(1_000_000);

fn key(number: u16) -> SigningKey {
    SigningKey::from_seed([u8::try_from(number).unwrap(); 32])
}

fn network() -> Arc<Network> {
    let participant = |number: u16| Participant {
        bic: format!("BANK{number}DEFF"),
        name: String::new(),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    Arc::new(Network {
        id: NETWORK,
        participants: (0..3).map(participant).collect(),
        assets: Vec::new(),
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 100_000,
    })
}

type NotCountedAt = Arc<Mutex<Vec<NotCounted>>>;

/// An assembler in whose only feed participant 1 answers.
struct Bench {
    shell: AssemblerShell,
    participations: Topic<ParticipationBatch>,
    approvals: Topic<ApprovalBatch>,
    decisions: Reader<DecisionBatch>,
    not_counted: NotCountedAt,
}

fn bench() -> Bench {
    let signal = Arc::new(Signal::default());
    let (participations, approvals) =
        (Topic::memory("participations", 9, &signal), Topic::memory("approvals", 9, &signal));
    let decisions = Topic::memory("decisions", 9, &signal);
    let not_counted = NotCountedAt::default();
    let noted = Arc::clone(&not_counted);
    Bench {
        decisions: decisions.reader(Visibility::Appended),
        shell: AssemblerShell {
            state: Assembler::new(network(), []),
            participations: participations.reader(Visibility::Appended),
            approvals: approvals.reader(Visibility::Appended),
            answering: vec![ParticipantId(1)],
            held: vec![Held::default()],
            withdrawals: Topic::memory("withdrawals", 9, &signal).reader(Visibility::Appended),
            consents: Vec::new(),
            decisions,
            on_not_counted: Box::new(move |why, _, _, _| noted.lock().unwrap().push(why.clone())),
            looked: NOW,
            recovered: Vec::new(),
            shown_again: VecDeque::new(),
            under_way: UnderWay::default(),
        },
        participations,
        approvals,
        not_counted,
    }
}

impl Bench {
    fn run(&mut self, now: Timestamp) -> usize {
        while self.shell.poll(now).unwrap() {}
        std::iter::from_fn(|| self.decisions.poll().unwrap()).count()
    }
}

/// Batch `number`: one transaction, for which participant 1 alone has to answer, or participant 2.
fn participation(number: u64, of: u16) -> Arc<ParticipationBatch> {
    Arc::new(ParticipationBatch {
        source: Source::new(0, number),
        ids: vec![Hash::ZERO],
        expiries: vec![NOW.plus_ms(50_000)],
        counts: vec![1],
        participants: vec![ParticipantId(of)],
    })
}

fn answer(number: u64, of: u16) -> Arc<ApprovalBatch> {
    let mut batch = ApprovalBatch {
        source: Source::new(0, number),
        source_len: 1,
        participant: ParticipantId(of),
        indices: vec![0],
        ids: vec![Hash::ZERO],
        verdicts: vec![0],
        leaves: Vec::new(),
        signature: Signature::from_bytes([0; 64]),
    };
    ApprovalSigner::new(NETWORK).sign(&mut batch, &key(of));
    Arc::new(batch)
}

#[test]
fn answers_count_in_their_participants_own_feed_alone() {
    let mut bench = bench();
    bench.participations.send(participation(0, 2));
    bench.participations.send(participation(1, 1));
    // A true answer of participant 2, which participant 1 has copied.
    bench.approvals.send(answer(0, 2));
    bench.approvals.send(answer(1, 1));
    assert_eq!(bench.run(NOW), 1, "its own");
    let (expected, found) = (ParticipantId(1), ParticipantId(2));
    assert_eq!(*bench.not_counted.lock().unwrap(), [NotCounted::Foreign { expected, found }]);
    assert!(bench.shell.state.is_open(Source::new(0, 0)));
}

/// In one process nobody waits for word of a batch: it is there before the answers to it are, and has to be read before them.
#[test]
fn an_answer_is_never_judged_before_word_of_its_batch() {
    const BATCHES: u64 = 20_000;
    let mut bench = bench();
    (bench.shell.answering, bench.shell.held) = (Vec::new(), Vec::new());
    let all: Vec<_> = (0..BATCHES).map(|number| (participation(number, 1), answer(number, 1))).collect();
    let (participations, approvals) = (bench.participations.clone(), bench.approvals.clone());
    let judged = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (at, (participation, answer)) in all.into_iter().enumerate() {
                // One after the other, so that each comes somewhere within the assembler's turn.
                while judged.load(Ordering::Acquire) < at {
                    std::hint::spin_loop();
                }
                participations.send(participation);
                approvals.send(answer);
            }
        });
        let mut decided = 0;
        while judged.load(Ordering::Acquire) < BATCHES as usize {
            decided += bench.run(NOW);
            judged.store(decided + bench.not_counted.lock().unwrap().len(), Ordering::Release);
        }
    });
    assert_eq!(*bench.not_counted.lock().unwrap(), []);
}

#[test]
fn answers_to_what_nobody_accepted_are_set_aside_after_a_while() {
    let mut bench = bench();
    bench.approvals.send(answer(7, 1));
    bench.approvals.send(answer(1, 1));
    bench.participations.send(participation(1, 1));
    assert_eq!(bench.run(NOW), 0, "the feed waits for batch 7");
    assert_eq!(bench.run(NOW.plus_ms(4_999)), 0);
    assert!(bench.not_counted.lock().unwrap().is_empty());
    assert_eq!(bench.run(NOW.plus_ms(5_000)), 1);
    let unknown = NotCounted::UnknownBatch(ParticipantId(1), Source::new(0, 7));
    assert_eq!(*bench.not_counted.lock().unwrap(), [unknown]);

    // Word of the batch comes while its answers wait.
    bench.approvals.send(answer(8, 1));
    assert_eq!(bench.run(NOW.plus_ms(6_000)), 0);
    bench.participations.send(participation(8, 1));
    assert_eq!(bench.run(NOW.plus_ms(7_000)), 1);

    // The next ones wait for as long, whenever the last ones began to.
    bench.approvals.send(answer(9, 1));
    assert_eq!(bench.run(NOW.plus_ms(12_000)), 0);
    assert_eq!(bench.run(NOW.plus_ms(16_999)), 0);
    assert_eq!(bench.not_counted.lock().unwrap().len(), 1);
    bench.participations.send(participation(9, 1));
    assert_eq!(bench.run(NOW.plus_ms(16_999)), 1);
}

/// What participant 1 appends, and the same network's assembler that reads it from a cluster.
struct Member {
    log: Arc<dyn SharedLog>,
    bench: Bench,
    aside: Aside,
}

impl Member {
    fn new() -> Self {
        let cluster = MemoryCluster::new([("approvals".to_owned(), 1)]);
        let binding = |writes| Binding { id: TopicId(0), partition: Partition::new("approvals", 0), writes };
        let log = cluster.open("member", &[binding(true)]).unwrap();
        let reader = cluster.reader(&[binding(false)]).unwrap();
        let (mut bench, aside) = (bench(), Aside::default());
        let partition = (TopicId(0), Partition::new("approvals", 0), Cursor::new(0));
        let of_members = UnreadableRecords::OfMembers(Arc::clone(&aside));
        bench.shell.approvals = Reader::shared(Feeds::new(reader, [partition], of_members));
        Self { log, bench, aside }
    }

    fn append(&self, payload: &[u8]) {
        self.log.append(TopicId(0), &[payload]).unwrap();
    }

    fn answer(&self, number: u64) {
        let mut payload = Vec::new();
        answer(number, 1).encode(&mut payload);
        self.append(&payload);
    }
}

#[test]
fn any_number_of_answers_to_what_nobody_accepted_waits_as_long_as_one() {
    let mut member = Member::new();
    (100..700).for_each(|number| member.answer(number));
    member.answer(1);
    member.log.sync().unwrap();
    member.bench.participations.send(participation(1, 1));
    assert_eq!(member.bench.run(NOW), 0);
    assert_eq!(member.bench.run(NOW.plus_ms(4_999)), 0);
    assert_eq!(member.bench.run(NOW.plus_ms(5_000)), 1, "all have waited");
    assert_eq!(member.bench.not_counted.lock().unwrap().len(), 600);

    // What comes later waits anew: its batch may still come.
    member.answer(2);
    member.log.sync().unwrap();
    assert_eq!(member.bench.run(NOW.plus_ms(5_001)), 0);
    member.bench.participations.send(participation(2, 1));
    assert_eq!(member.bench.run(NOW.plus_ms(5_002)), 1);
}

#[test]
fn noise_is_set_aside_in_portions_that_a_commit_holds() {
    let mut member = Member::new();
    for _ in 0..1_000 {
        member.append(&vec![9; 1 << 17]);
    }
    member.answer(1);
    member.log.sync().unwrap();
    member.bench.participations.send(participation(1, 1));
    let (mut turns, mut decided, mut found) = (0, 0, 0);
    while decided == 0 {
        decided = member.bench.run(NOW);
        let letters = std::mem::take(&mut *member.aside.lock().unwrap());
        assert!(letters.len() <= 256, "{} in one turn", letters.len());
        assert!(letters.iter().all(|letter| {
            letter.fault == RecordFault::Unreadable && letter.bytes == 1 << 17 && letter.kept.len() == 1 << 16
        }));
        found += letters.len();
        turns += 1;
        assert!(turns < 100);
    }
    assert_eq!(found, 1_000);
}
