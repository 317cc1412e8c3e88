//! Each attack by itself, on members that are told what to do step by step.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "simulation/keys.rs"]
#[expect(dead_code, reason = "shared with the simulation, which needs all of it")]
mod keys;

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::{Bytes, keccak256};
use alloy_rlp::{Decodable, Encodable};
use tally_consensus::message::{Proposal, proposal_hash};
use tally_consensus::{Block, Message as Round, Packet, Protocol};
use tally_contracts::{StateRef, TimeWindow, Timestamp, TransactionId, encode};
use tally_crypto::hash;
use tally_notary::{
    Answer, Batch, Client, Commit, Config, Effect, Fault, Input, Judge, Message, OpenError, Outcome,
    Rejection, Replica, Request, Timer, Unfounded,
};

use keys::{PlainKeys, address, cluster, name, node_of, seal};

const NOW_MS: u64 = 1_000_000_000;

struct HashJudge;

impl Judge for HashJudge {
    fn judge(&self, request: &Request) -> Result<(), Unfounded> {
        let expected = hash(&encode(&request.commit));
        if request.evidence == expected.as_bytes() {
            Ok(())
        } else {
            Err(Unfounded("another hash".to_owned()))
        }
    }
}

fn config() -> Config {
    Config { batch_interval_ms: 0, share_requests: 3, batch_requests: 2, ..Config::default() }
}

fn request(number: u8, state: u8) -> Request {
    let commit = Commit {
        inputs: vec![StateRef { transaction: TransactionId::from_bytes([state; 32]), index: 0 }],
        references: Vec::new(),
        transaction: TransactionId::from_bytes([number; 32]),
        time_window: None,
        requester: name("Bank"),
    };
    let evidence = hash(&encode(&commit)).as_bytes().to_vec();
    Request { commit, evidence }
}

fn client() -> Client {
    Client { name: name("Bank"), conversation: 1 }
}

/// A member that has lost its batches, and has this record of what it signed.
fn open(node: usize, record: Option<&[u8]>) -> Replica {
    let keys = Arc::new(PlainKeys(address(node)));
    Replica::open(Arc::new(cluster(4)), config(), keys, Box::new(HashJudge), record, []).unwrap()
}

/// Four members without faults. What goes to a member that is `deaf` is lost.
struct Network {
    replicas: Vec<Replica>,
    batches: Vec<Vec<Vec<u8>>>,
    said: VecDeque<(usize, Input)>,
    /// What each member did that the network does not carry out.
    done: Vec<Vec<Effect>>,
    deaf: Vec<usize>,
    /// Proposals that were sent, by their author.
    proposals: Vec<(usize, Proposal)>,
    now_ms: u64,
}

impl Network {
    fn new() -> Self {
        let mut network = Self {
            replicas: (0..4).map(|node| open(node, None)).collect(),
            batches: vec![Vec::new(); 4],
            said: VecDeque::new(),
            done: (0..4).map(|_| Vec::new()).collect(),
            deaf: Vec::new(),
            proposals: Vec::new(),
            now_ms: NOW_MS,
        };
        network.said.extend((0..4).map(|node| (node, Input::Start)));
        network.run();
        network
    }

    /// Tells a member something, and carries out all that follows until nothing does.
    fn tell(&mut self, node: usize, input: Input) {
        self.said.push_back((node, input));
        self.run();
    }

    fn run(&mut self) {
        while let Some((node, input)) = self.said.pop_front() {
            if self.deaf.contains(&node) {
                continue;
            }
            let mut effects = Vec::new();
            self.replicas[node].step(self.now_ms, input, &mut effects);
            for effect in effects {
                self.carry_out(node, effect);
            }
        }
    }

    fn carry_out(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Send { to, bytes } => {
                if let Some(Round::Proposal(proposal)) = round_of(&bytes) {
                    self.proposals.push((node, *proposal));
                }
                self.said.push_back((node_of(to), Input::Message { from: address(node), bytes }));
            }
            Effect::SendBatches { to, from } => {
                let from = usize::try_from(from - 1).unwrap();
                let bytes = Message::Batches(self.batches[node][from..].to_vec()).to_bytes();
                self.done[node].push(effect);
                self.said.push_back((node_of(to), Input::Message { from: address(node), bytes }));
            }
            Effect::SetTimer { timer: Timer::Round(timer), after_ms: 0 } => {
                self.said.push_back((node, Input::Timer(Timer::Round(timer))));
            }
            Effect::Append { height, ref batch } => {
                assert_eq!(height, self.batches[node].len() as u64 + 1);
                self.batches[node].push(batch.clone());
                self.done[node].push(effect);
            }
            other => self.done[node].push(other),
        }
    }

    fn ask(&mut self, node: usize, request: &Request) {
        self.tell(node, Input::Request { client: client(), request: request.clone() });
    }

    fn ask_all(&mut self, request: &Request) {
        (0..4).for_each(|node| self.ask(node, request));
    }

    fn message(&mut self, to: usize, from: usize, message: &Message) {
        self.tell(to, Input::Message { from: address(from), bytes: message.to_bytes() });
    }

    fn answers(&self, node: usize) -> Vec<Answer> {
        let answers = self.done[node].iter().filter_map(|effect| match effect {
            Effect::Answer { answer, .. } => Some(*answer),
            _ => None,
        });
        answers.collect()
    }

    fn blamed(&mut self, node: usize) -> Vec<(usize, String)> {
        let done = std::mem::take(&mut self.done[node]);
        let blamed = done.iter().filter_map(|effect| match effect {
            Effect::Blame { member, fault } => Some((node_of(*member), fault.to_string())),
            _ => None,
        });
        blamed.collect()
    }

    /// A network in which one member, whose turn it is, has proposed a batch that nobody heard of;
    /// who, and what.
    fn with_unheard_proposal(request: &Request) -> (Self, usize, Proposal) {
        let mut network = Self::new();
        let height = network.replicas[0].height();
        for turn in 0..4 {
            let others: Vec<usize> = (0..4).filter(|node| *node != turn).collect();
            network.deaf.clone_from(&others);
            network.proposals.clear();
            network.ask(turn, request);
            network.deaf.clear();
            if let Some((author, proposal)) = network.proposals.pop() {
                assert_eq!((author, proposal.view.height), (turn, height + 1));
                network.done.iter_mut().for_each(Vec::clear);
                return (network, turn, proposal);
            }
        }
        panic!("nobody proposes");
    }
}

fn round_of(bytes: &[u8]) -> Option<Round> {
    let Ok(Message::Round { code, bytes }) = Message::from_bytes(bytes, usize::MAX) else { return None };
    Round::decode(Protocol::QBFT, &Packet { code, bytes: bytes.into() }).ok()
}

fn parts(block: &Block) -> (alloy_consensus::Header, Batch) {
    let mut bytes: &[u8] = block.bytes();
    alloy_rlp::Header::decode(&mut bytes).unwrap();
    let header = alloy_consensus::Header::decode(&mut bytes).unwrap();
    let batch = alloy_rlp::Header::decode_bytes(&mut bytes, false).unwrap();
    (header, borsh::from_slice(batch).unwrap())
}

fn joined(header: &alloy_consensus::Header, batch: &Batch) -> Block {
    let mut payload = alloy_rlp::encode(header);
    encode(batch).as_slice().encode(&mut payload);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    Block::decode(Protocol::QBFT, Bytes::from(bytes)).unwrap()
}

/// The block with another batch, named by the header as an honest proposer names it.
fn with_batch(block: &Block, change: impl FnOnce(&mut Batch)) -> Block {
    let (mut header, mut batch) = parts(block);
    change(&mut batch);
    header.transactions_root = keccak256(encode(&batch));
    header.receipts_root =
        (*hash(&encode(&vec![Outcome::Committed; batch.requests.len()])).as_bytes()).into();
    header.timestamp = batch.time.as_millis() / 1_000;
    joined(&header, &batch)
}

/// A member's proposal with another block, signed by it.
fn proposed(author: usize, proposal: &Proposal, block: Block) -> Message {
    let seal = seal(address(author), proposal_hash(Protocol::QBFT, proposal.view, &block));
    let packet =
        Round::Proposal(Box::new(Proposal { block, seal, ..proposal.clone() })).encode(Protocol::QBFT);
    Message::Round { code: packet.code, bytes: packet.bytes.to_vec() }
}

#[test]
fn the_first_of_two_transactions_is_committed_by_all_and_each_is_answered_again() {
    let mut network = Network::new();
    network.ask_all(&request(1, 9));
    network.ask_all(&request(2, 9));
    let state = request(1, 9).commit.inputs[0];
    let committed = Answer { transaction: request(1, 9).commit.transaction, outcome: Outcome::Committed };
    let refused = Outcome::Conflict { state, consumed_by: committed.transaction };
    for node in 0..4 {
        let answers = network.answers(node);
        assert!(answers.contains(&committed), "{node}: {answers:?}");
        assert!(answers.iter().any(|answer| answer.outcome == refused), "{node}: {answers:?}");
        network.done[node].clear();
    }
    let height = network.replicas[0].height();
    network.ask(3, &request(1, 9));
    assert_eq!((network.answers(3), network.replicas[3].height()), (vec![committed], height), "from memory");
    network.ask_all(&request(2, 9));
    assert!(network.answers(3).iter().any(|answer| answer.outcome == refused));
}

#[test]
fn no_member_votes_for_a_request_whose_evidence_it_has_not_found_good() {
    let (mut network, author, proposal) = Network::with_unheard_proposal(&request(1, 9));
    let mut forged = request(2, 8);
    forged.evidence = vec![0; 32];
    let block = with_batch(&proposal.block, |batch| batch.requests.push(forged));
    let to = (author + 1) % 4;
    network.message(to, author, &proposed(author, &proposal, block));
    assert!(!network.done[to].iter().any(|effect| matches!(effect, Effect::Persist(_))), "it signs nothing");
    let blamed = network.blamed(to);
    assert!(blamed.iter().any(|(who, what)| *who == author && what.contains("invalid block")), "{blamed:?}");
}

#[test]
fn one_header_for_two_batches_is_dropped_and_the_true_one_is_voted_for() {
    let (mut network, author, proposal) = Network::with_unheard_proposal(&request(1, 9));
    let (header, mut batch) = parts(&proposal.block);
    batch.requests.push(request(2, 8));
    let to = (author + 1) % 4;
    network.message(to, author, &proposed(author, &proposal, joined(&header, &batch)));
    assert_eq!(network.blamed(to), [(author, Fault::Unbound.to_string())]);
    network.message(to, author, &proposed(author, &proposal, proposal.block.clone()));
    assert!(
        network.done[to].iter().any(|effect| matches!(effect, Effect::Persist(_))),
        "it votes for the true one"
    );
}

#[test]
fn a_batch_of_long_ago_has_no_vote_and_nobody_is_blamed() {
    for (back_ms, votes) in
        [(config().clock_tolerance_ms - 2_000, true), (config().clock_tolerance_ms + 1, false)]
    {
        let (mut network, author, proposal) = Network::with_unheard_proposal(&request(1, 9));
        network.now_ms += 60_000;
        let now_ms = network.now_ms;
        let block =
            with_batch(&proposal.block, |batch| batch.time = Timestamp::from_millis(now_ms - back_ms));
        let to = (author + 1) % 4;
        network.message(to, author, &proposed(author, &proposal, block));
        let voted = network.done[to].iter().any(|effect| matches!(effect, Effect::Persist(_)));
        assert_eq!(voted, votes, "{back_ms} ms ago");
        assert_eq!(network.blamed(to), []);
    }
}

#[test]
fn batches_that_no_quorum_sealed_change_nothing_and_true_ones_are_taken() {
    let mut network = Network::new();
    network.deaf = vec![3];
    for number in 1..6 {
        network.ask_all(&request(number, number + 10));
        // Those that had the turn of the member that hears nothing.
        for node in 0..3 {
            for timer in 1..200 {
                network.tell(node, Input::Timer(Timer::Round(timer)));
            }
        }
    }
    network.deaf.clear();
    assert!(network.replicas[0].height() > network.replicas[3].height() + 1);
    let missing = network.batches[0][network.batches[3].len()..].to_vec();
    let before = network.replicas[3].height();
    let block = Block::decode(Protocol::QBFT, Bytes::from(missing[0].clone())).unwrap();
    let seals = block.extra().seals.clone();
    let other = with_batch(&block, |batch| batch.requests.push(request(77, 77)));
    let (header, mut batch) = parts(&block);
    batch.requests.push(request(78, 78));
    let lies = [
        ("too few seals", block.with_seals(seals[..2].to_vec())),
        ("one seal twice", block.with_seals(vec![seals[0], seals[1], seals[1]])),
        ("seals of its own", block.with_seals(vec![seal(address(1), block.digest()); 3])),
        ("seals over another batch", other.with_seals(seals.clone())),
        ("another batch under the header", joined(&header, &batch)),
        ("another round", block.with_round(block.round() + 1).with_seals(seals.clone())),
    ];
    for (what, lie) in lies {
        network.message(3, 1, &Message::Batches(vec![lie.bytes().to_vec()]));
        assert_eq!(network.replicas[3].height(), before, "{what}");
        assert_eq!(network.blamed(3), [(1, Fault::Batches.to_string())], "{what}");
    }
    network.message(3, 1, &Message::Batches(missing[1..].to_vec()));
    assert_eq!(network.replicas[3].height(), before, "a gap");
    network.message(3, 1, &Message::Batches(missing.clone()));
    assert_eq!(network.replicas[3].height(), before + missing.len() as u64);
    assert_eq!(network.batches[3], network.batches[0]);
}

#[test]
fn a_client_that_fills_its_share_is_busy_and_taken_again_once_its_requests_are_ordered() {
    let mut network = Network::new();
    network.deaf = vec![1, 2, 3];
    let rejections = |network: &Network| {
        let busy = |effect: &&Effect| matches!(effect, Effect::Reject { reason: Rejection::Busy, .. });
        network.done[0].iter().filter(busy).count()
    };
    (1..=4).for_each(|number| network.ask(0, &request(number, number + 10)));
    assert_eq!(rejections(&network), 1);
    // A member that brings requests of others has a share of its own.
    network.message(0, 1, &Message::Forward((21..=24).map(|number| request(number, number)).collect()));
    network.deaf.clear();
    // The others hear of what waits when it is polled, and all is ordered.
    network.now_ms += 10_000;
    for _ in 0..12 {
        (0..4).for_each(|node| network.tell(node, Input::Timer(Timer::Poll)));
        for node in 0..4 {
            for timer in 1..300 {
                network.tell(node, Input::Timer(Timer::Round(timer)));
            }
        }
    }
    let committed = network.answers(0);
    assert_eq!(committed.len(), 3, "{committed:?}");
    network.ask(0, &request(5, 15));
    assert_eq!(rejections(&network), 1, "it is taken again");
}

#[test]
fn nobody_asks_in_anothers_name_and_what_has_no_evidence_is_rejected() {
    let mut network = Network::new();
    let mut forged = request(1, 9);
    forged.evidence.clear();
    let mut other = request(2, 8);
    other.commit.requester = name("Other");
    other.evidence = hash(&encode(&other.commit)).as_bytes().to_vec();
    let mut large = request(3, 7);
    large.evidence = vec![0; config().request_bytes];
    for (request, expected) in [
        (forged.clone(), Rejection::Unfounded(Unfounded("another hash".to_owned()))),
        (other, Rejection::Requester),
        (large, Rejection::TooLarge),
    ] {
        network.done[0].clear();
        network.ask(0, &request);
        assert!(
            matches!(&network.done[0][..], [Effect::Reject { reason, .. }] if *reason == expected),
            "{expected}: {:?}",
            network.done[0]
        );
    }
    network.message(0, 2, &Message::Forward(vec![forged]));
    assert_eq!(network.blamed(0), [(2, Fault::Forwarded.to_string())]);
}

#[test]
fn a_member_that_asks_for_batches_all_the_time_is_answered_at_intervals() {
    let mut network = Network::new();
    network.ask_all(&request(1, 9));
    let served = |network: &mut Network| {
        (0..50).for_each(|_| network.message(0, 2, &Message::Fetch { from: 1 }));
        let done = std::mem::take(&mut network.done[0]);
        done.iter().filter(|effect| matches!(effect, Effect::SendBatches { .. })).count()
    };
    network.now_ms += 1_000;
    network.done[0].clear();
    assert_eq!(served(&mut network), 1);
    assert_eq!(served(&mut network), 0);
    network.now_ms += 20;
    assert_eq!(served(&mut network), 1, "after a while again");
    network.now_ms -= 500_000;
    assert_eq!(served(&mut network), 1, "a clock that was set back holds nothing up");
    for from in [0, u64::MAX, network.replicas[0].height() + 1] {
        network.now_ms += 1_000;
        network.message(0, 2, &Message::Fetch { from });
        assert!(network.done[0].is_empty(), "from {from}");
    }
}

#[test]
fn a_transaction_that_was_refused_before_its_window_is_not_committed_when_a_member_brings_it_again() {
    let mut network = Network::new();
    let mut early = request(1, 9);
    early.commit.time_window = Some(TimeWindow::starting(Timestamp::from_millis(NOW_MS + 5_000)));
    early.evidence = hash(&encode(&early.commit)).as_bytes().to_vec();
    let refusal = |network: &Network| {
        let answers = network.answers(0);
        answers
            .iter()
            .find(|answer| answer.transaction == early.commit.transaction)
            .map(|answer| answer.outcome)
    };
    network.ask_all(&early);
    let refused = refusal(&network);
    assert!(matches!(refused, Some(Outcome::OutsideTimeWindow { .. })), "{refused:?}");
    let height = network.replicas[0].height();
    network.now_ms += 60_000;
    for to in [0, 2, 3] {
        network.message(to, 1, &Message::Forward(vec![early.clone()]));
    }
    // The states were used otherwise in the meantime.
    network.ask_all(&request(2, 9));
    network.ask_all(&request(3, 8));
    assert!(network.replicas[0].height() > height);
    let committed = Answer { transaction: request(2, 9).commit.transaction, outcome: Outcome::Committed };
    assert!(network.answers(0).contains(&committed), "{:?}", network.answers(0));
    network.done[0].clear();
    network.ask_all(&early);
    assert_eq!(refusal(&network), refused);
}

#[test]
fn a_member_that_lost_its_batches_signs_nothing_until_it_has_caught_up() {
    let mut network = Network::new();
    (1..5).for_each(|number| network.ask_all(&request(number, number + 10)));
    let height = network.replicas[3].height();
    assert!(height > 2);
    let record = network.done[3].iter().rev().find_map(|effect| match effect {
        Effect::Persist(record) => Some(record.clone()),
        _ => None,
    });
    network.batches[3].clear();
    network.done[3].clear();
    network.replicas[3] = open(3, record.as_deref());
    network.tell(3, Input::Start);
    network.ask_all(&request(5, 15));
    for timer in 1..50 {
        network.tell(3, Input::Timer(Timer::Round(timer)));
    }
    network.now_ms += 1_000;
    network.tell(3, Input::Connected(address(0)));
    network.ask_all(&request(6, 16));
    assert_eq!(network.batches[3], network.batches[0]);
    let done = &network.done[3];
    let signed = done.iter().position(|effect| matches!(effect, Effect::Persist(_)));
    let caught_up = done
        .iter()
        .position(|effect| matches!(effect, Effect::Append { height: at, .. } if *at == height - 1));
    assert!(signed > caught_up && caught_up.is_some(), "it signs again, after it has caught up: {signed:?}");
}

#[test]
fn a_storage_of_another_cluster_or_member_is_not_gone_on_from() {
    let mut network = Network::new();
    network.ask_all(&request(1, 9));
    let batches = network.batches[0].clone();
    let open = |nodes: usize, key: usize, batches: Vec<Vec<u8>>| {
        let keys = Arc::new(PlainKeys(address(key)));
        Replica::open(Arc::new(cluster(nodes)), config(), keys, Box::new(HashJudge), None, batches)
    };
    assert_eq!(open(4, 2, batches.clone()).unwrap().height(), batches.len() as u64);
    assert!(matches!(open(7, 2, batches.clone()), Err(OpenError::Batch { height: 1, .. })));
    assert!(matches!(open(4, 5, batches.clone()), Err(OpenError::NoMember)));
    assert!(matches!(open(4, 2, batches[1..].to_vec()), Err(OpenError::Batch { height: 1, .. })));
    assert!(matches!(open(4, 2, vec![vec![1, 2]]), Err(OpenError::Unreadable { height: 1, .. })));
    let keys = Arc::new(PlainKeys(address(2)));
    let unread = Replica::open(Arc::new(cluster(4)), config(), keys, Box::new(HashJudge), Some(b"x"), []);
    assert!(matches!(unread, Err(OpenError::Record(_))));
}
