//! What the engine does, step by step, with real keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_consensus::proofs::ordered_trie_root_encoded;
use alloy_primitives::{Address, B256, Bytes, U256};
use tally_consensus::{
    Block, BuildRequest, Config, Effect, Engine, Head, Input, Keys, Message, Misbehaviour, Packet, Period,
    Protocol, SecretKey, Settings, Timer, ValidatorSet, View,
};

const NOW_MS: u64 = 1_000_000;
const PROTOCOLS: [Protocol; 2] = [Protocol::Ibft2, Protocol::QBFT];

/// Four validators, ascending by address; a genesis head whose round 0 the first of them proposes.
struct Network {
    protocol: Protocol,
    keys: Vec<SecretKey>,
    head: Head,
}

impl Network {
    fn new(protocol: Protocol) -> Self {
        let mut keys: Vec<SecretKey> =
            (1..=4).map(|n| SecretKey::from_bytes(&[n; 32]).expect("well formed")).collect();
        keys.sort_by_key(Keys::address);
        let validators = ValidatorSet::new(keys.iter().map(Keys::address).collect());
        let mut head = Head::genesis(B256::repeat_byte(5), NOW_MS / 1_000 - 2, validators);
        head.settings = Settings { period: Period::Seconds(2), empty_period_s: 0, request_timeout_ms: 4_000 };
        Self { protocol, keys, head }
    }

    fn address(&self, node: usize) -> Address {
        self.keys[node].address()
    }

    fn validator(&self, node: usize) -> Validator {
        let engine = Engine::new(Config::new(self.protocol), Arc::new(self.keys[node].clone()));
        let mut validator = Validator { engine, out: Vec::new() };
        validator.step(Input::Head(self.head.clone()));
        validator
    }

    /// All four, up to where the first is asked for a block.
    fn started(&self) -> Vec<Validator> {
        let mut all: Vec<Validator> = (0..4).map(|node| self.validator(node)).collect();
        for validator in &mut all {
            let timer = validator.timers()[0];
            validator.step(Input::Timer(timer));
        }
        all
    }
}

struct Validator {
    engine: Engine,
    out: Vec<Effect>,
}

impl Validator {
    fn step(&mut self, input: Input) {
        self.engine.step(NOW_MS, input, &mut self.out);
    }

    fn timers(&self) -> Vec<Timer> {
        self.out
            .iter()
            .filter_map(
                |effect| if let Effect::SetTimer { timer, .. } = effect { Some(*timer) } else { None },
            )
            .collect()
    }

    fn last_timer(&self) -> (Timer, u64) {
        let timer = |effect: &Effect| match effect {
            Effect::SetTimer { timer, after_ms } => Some((*timer, *after_ms)),
            _ => None,
        };
        self.out.iter().rev().find_map(timer).expect("a timer was set")
    }

    /// The timer of the round is the one before that for repetitions, where both are set.
    fn round_timer_ms(&self) -> Vec<u64> {
        self.out
            .iter()
            .filter_map(
                |effect| if let Effect::SetTimer { after_ms, .. } = effect { Some(*after_ms) } else { None },
            )
            .collect()
    }

    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.out)
    }

    /// The block that it is asked for.
    fn asked(&mut self) -> BuildRequest {
        let request = self.take().into_iter().find_map(|effect| match effect {
            Effect::BuildBlock(request) => Some(request),
            _ => None,
        });
        request.expect("a request")
    }

    fn round(&self) -> u32 {
        self.engine.status().view.expect("a height").round
    }
}

fn build(request: &BuildRequest) -> Bytes {
    build_with(request, &[], &[])
}

/// The transactions that the header stands for, and those that the body has.
fn build_with(request: &BuildRequest, named: &[&[u8]], carried: &[&[u8]]) -> Bytes {
    let header = Header {
        parent_hash: request.parent,
        transactions_root: ordered_trie_root_encoded(named),
        beneficiary: request.proposer,
        difficulty: U256::from(1),
        number: request.view.height,
        timestamp: request.timestamp_s,
        extra_data: request.extra_data.clone(),
        mix_hash: tally_consensus::MIX_HASH,
        ..Header::default()
    };
    let mut payload = alloy_rlp::encode(&header);
    let strings: Vec<Bytes> = carried.iter().map(|transaction| Bytes::copy_from_slice(transaction)).collect();
    alloy_rlp::encode_list::<_, Bytes>(&strings, &mut payload);
    payload.push(0xc0);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    bytes.into()
}

/// Carries out effects until nothing is left, between those that are `up`; what was committed, by validator.
fn run(network: &Network, all: &mut [Validator], up: &[usize]) -> BTreeMap<usize, Block> {
    run_where(network, all, up, None, None)
}

/// The same where one validator's host finds blocks late, and messages with a code are lost.
fn run_where(
    network: &Network,
    all: &mut [Validator],
    up: &[usize],
    late: Option<usize>,
    lost: Option<u8>,
) -> BTreeMap<usize, Block> {
    let mail = |_: usize, _: usize, packet: &Packet| (lost != Some(packet.code)).then(|| packet.clone());
    let (commits, blamed) = run_with(network, all, up, late, &mail);
    assert_eq!(blamed, [], "nobody is to blame");
    commits
}

/// Who blamed whom, and for what.
type Blamed = Vec<(usize, Address, Misbehaviour)>;

/// The same where `mail` says what of a message arrives from one at another.
fn run_with(
    network: &Network,
    all: &mut [Validator],
    up: &[usize],
    late: Option<usize>,
    mail: &dyn Fn(usize, usize, &Packet) -> Option<Packet>,
) -> (BTreeMap<usize, Block>, Blamed) {
    let mut blamed = Blamed::new();
    let mut commits = BTreeMap::new();
    loop {
        let mut busy = false;
        for &node in up {
            for effect in all[node].take() {
                let mut deliver = |to: usize, packet: &Packet| {
                    if to != node
                        && up.contains(&to)
                        && let Some(packet) = mail(node, to, packet)
                    {
                        all[to].step(Input::Message { from: network.address(node), packet });
                    }
                };
                match effect {
                    Effect::Broadcast(packet) => (0..4).for_each(|to| deliver(to, &packet)),
                    Effect::SendTo { peer, packet } => {
                        (0..4).filter(|to| network.address(*to) == peer).for_each(|to| deliver(to, &packet));
                    }
                    Effect::BuildBlock(request) => {
                        let block = Some(build(&request));
                        all[node].step(Input::Built { view: request.view, block, empty: false });
                    }
                    Effect::Validate(block) => {
                        let hash = block.hash();
                        // A host executes the body, and compares it with the header.
                        let valid = tally_consensus::Bodies::Ethereum.check(&block).is_ok();
                        all[node].step(match late {
                            Some(late) if late == node => Input::Late { hash },
                            _ => Input::Validated { hash, valid },
                        });
                    }
                    Effect::Commit { block, .. } => {
                        commits.insert(node, block);
                    }
                    Effect::Misbehaviour { peer, what } => blamed.push((node, peer, what)),
                    _ => continue,
                }
                busy = true;
            }
        }
        if !busy {
            return (commits, blamed);
        }
    }
}

/// A proposal or round change with one more transaction in its block than the header stands for; under the key of
/// its author where that signs the body.
fn with_other_body(protocol: Protocol, packet: &Packet, author: &SecretKey) -> Packet {
    let other = |block: &Block| {
        let mut payload = alloy_rlp::encode(block.header());
        alloy_rlp::encode_list::<_, Bytes>(&[Bytes::from_static(&[2, 0xc0])], &mut payload);
        payload.push(0xc0);
        let mut bytes = Vec::new();
        alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
        bytes.extend_from_slice(&payload);
        Block::decode(protocol, bytes.into()).expect("well formed")
    };
    match Message::decode(protocol, packet).expect("a message") {
        Message::Proposal(mut proposal) => {
            proposal.block = other(&proposal.block);
            let hash = tally_consensus::message::proposal_hash(protocol, proposal.view, &proposal.block);
            proposal.seal = author.sign(hash).expect("a key signs");
            Message::Proposal(proposal).encode(protocol)
        }
        Message::RoundChange(mut change) => {
            change.block = change.block.as_ref().map(other);
            Message::RoundChange(change).encode(protocol)
        }
        _ => packet.clone(),
    }
}

/// It proposes one header with two bodies, prepares, and commits nothing. Who had the wrong body must not hold what it
/// found of it against the header, which the others are prepared on and propose again.
#[test]
fn one_header_with_two_bodies_stops_nobody() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let [proposal, _, commit, _] = protocol.codes();
        let liar = 0;
        let split = |from: usize, to: usize, packet: &Packet| match (from == liar, packet.code) {
            (true, code) if code == commit => None,
            (true, code) if code == proposal && to == 1 => {
                Some(with_other_body(protocol, packet, &network.keys[liar]))
            }
            _ => Some(packet.clone()),
        };
        let (commits, blamed) = run_with(&network, &mut all, &[0, 1, 2, 3], None, &split);
        assert!(commits.keys().all(|node| *node == liar), "two of four seals are no block");
        let guilty = |(by, peer, what): &(usize, Address, Misbehaviour)| {
            (*by, *peer) == (1, network.address(liar)) && matches!(what, Misbehaviour::Body(_))
        };
        assert!(blamed.len() == 1 && blamed.iter().all(guilty), "{blamed:?}");
        // The next round is proposed by the one that had the wrong body: from the others' round changes.
        [1, 2, 3].into_iter().for_each(|node| all[node].step(Input::Timer(Timer(2))));
        let (commits, blamed) = run_with(&network, &mut all, &[1, 2, 3], None, &split);
        assert_eq!(commits.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(blamed, []);
    }
}

/// The block of a round change is under nobody's signature: another body in it is the sender's doing, and is not
/// what the next proposer proposes.
#[test]
fn another_body_in_a_round_change_is_the_senders_and_is_not_proposed_again() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let [_, _, commit, change] = protocol.codes();
        let no_commit = |_: usize, _: usize, packet: &Packet| (packet.code != commit).then(|| packet.clone());
        let _ = run_with(&network, &mut all, &[0, 1, 2, 3], None, &no_commit);
        all.iter_mut().for_each(|validator| validator.step(Input::Timer(Timer(2))));
        // 3 passes another's round change on with another body.
        let of_2 = all[2].out.iter().find_map(|effect| match effect {
            Effect::Broadcast(packet) if packet.code == change => Some(packet.clone()),
            _ => None,
        });
        let packet = with_other_body(protocol, &of_2.expect("it changes its round"), &network.keys[2]);
        all[1].step(Input::Message { from: network.address(3), packet });
        // And its own with another body; the other two are a quorum with the proposer.
        let swap = |from: usize, _: usize, packet: &Packet| {
            let swapped = from == 3 && packet.code == change;
            Some(if swapped { with_other_body(protocol, packet, &network.keys[3]) } else { packet.clone() })
        };
        let (commits, blamed) = run_with(&network, &mut all, &[0, 1, 2, 3], None, &swap);
        assert_eq!(commits.len(), 4, "in the next round");
        assert!(blamed.len() > 3);
        for (_, peer, what) in blamed {
            assert!(peer == network.address(3) && matches!(what, Misbehaviour::Body(_)), "{peer}: {what}");
        }
    }
}

/// Two forms of a body with one root, or of a header with one hash, would be one block of two sequences of bytes.
#[test]
fn a_header_binds_its_body_to_the_byte() {
    let network = Network::new(Protocol::QBFT);
    let mut all = network.started();
    let request = all[0].asked();
    let block = |named: &[&[u8]], carried: &[&[u8]]| {
        Block::decode(Protocol::QBFT, build_with(&request, named, carried)).expect("well formed")
    };
    let check = |block: &Block| tally_consensus::Bodies::Ethereum.check(block);
    let typed: &[u8] = &[2, 0xc1, 0x80];
    assert_eq!(check(&block(&[], &[])), Ok(()));
    assert_eq!(check(&block(&[typed, typed], &[typed, typed])), Ok(()));
    for (named, carried) in [(vec![typed], vec![]), (vec![], vec![typed]), (vec![typed], vec![typed, typed])]
    {
        assert!(check(&block(&named, &carried)).is_err(), "{named:?} {carried:?}");
    }
    // A string that holds the list of a legacy transaction has the root of that list.
    let legacy: &[u8] = &[0xc2, 0x80, 0x80];
    assert!(check(&block(&[legacy], &[legacy])).is_err());
    let again = |tail: &[u8], withdrawals_root: Option<B256>| {
        let block = block(&[], &[]);
        let base_fee_per_gas = withdrawals_root.map(|_| 0);
        let header = Header { withdrawals_root, base_fee_per_gas, ..block.header().clone() };
        let mut payload = alloy_rlp::encode(header);
        payload.extend_from_slice(tail);
        let mut bytes = Vec::new();
        alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
        bytes.extend_from_slice(&payload);
        Block::decode(Protocol::QBFT, bytes.into()).expect("well formed")
    };
    assert_eq!(check(&again(&[0xc0, 0xc0], None)), Ok(()));
    let none = Some(alloy_consensus::constants::EMPTY_WITHDRAWALS);
    assert_eq!(check(&again(&[0xc0, 0xc0, 0xc0], none)), Ok(()));
    for tail in [&[0xc0, 0xc0][..], &[0xc0, 0xc0, 0xc1, 0xc0], &[0xc0, 0xc0, 0x80], &[0xc0; 4]] {
        assert!(check(&again(tail, none)).is_err(), "{tail:?}");
    }
    // Nothing, too little, withdrawals that the header has no root of, an ommer, more items, strings for lists.
    let others: [&[u8]; 7] =
        [&[], &[0xc0], &[0xc0; 3], &[0xc0, 0xc1, 0xc0], &[0xc0; 4], &[0x80, 0xc0], &[0xc0, 0x80]];
    for tail in others {
        assert!(check(&again(tail, None)).is_err(), "{tail:?}");
    }
}

#[test]
fn four_validators_agree_in_round_zero() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let commits = run(&network, &mut all, &[0, 1, 2, 3]);
        assert_eq!(commits.len(), 4);
        for block in commits.values() {
            assert_eq!(block.hash(), commits[&0].hash());
            assert_eq!((block.number(), block.round()), (1, 0));
            assert!(block.extra().seals.len() >= 3);
        }
    }
}

/// A liar could otherwise have a block prepared whose time is at the edge of what clocks allow, and then be silent: who
/// found it late would refuse it in every round, and the height would never be decided.
#[test]
fn a_block_that_one_found_late_has_its_vote_once_a_quorum_was_prepared_on_it() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let commit = protocol.codes()[2];
        assert!(run_where(&network, &mut all, &[0, 1, 2, 3], Some(3), Some(commit)).is_empty());
        let prepared = |validator: &Validator| validator.engine.status().prepared;
        let found: Vec<_> = all.iter().map(prepared).collect();
        assert_eq!(found, [Some(0), Some(0), Some(0), None], "nobody is blamed, one gives no vote");
        // One of the three is gone; the next round is proposed to the others.
        for node in [0, 1, 3] {
            all[node].step(Input::Timer(Timer(2)));
        }
        let commits = run_where(&network, &mut all, &[0, 1, 3], Some(3), None);
        assert_eq!(commits.keys().copied().collect::<Vec<_>>(), [0, 1, 3]);
        assert!(commits.values().all(|block| block.hash() == commits[&0].hash() && block.round() == 1));
    }
}

#[test]
fn one_alone_agrees_with_itself_at_once() {
    for protocol in PROTOCOLS {
        let mut network = Network::new(protocol);
        network.head.validators = ValidatorSet::new(vec![network.address(2)]);
        let mut validator = network.validator(2);
        let timer = validator.last_timer().0;
        validator.step(Input::Timer(timer));
        let Some(Effect::BuildBlock(request)) =
            validator.take().into_iter().find(|effect| matches!(effect, Effect::BuildBlock(_)))
        else {
            panic!("a block is asked for")
        };
        assert_eq!(request.timestamp_s, NOW_MS / 1_000);
        validator.step(Input::Built { view: request.view, block: Some(build(&request)), empty: false });
        let effects = validator.take();
        assert!(matches!(effects.first(), Some(Effect::Persist(_))), "before anything is sent");
        assert!(matches!(effects.last(), Some(Effect::Commit { round: 0, .. })));
    }
}

#[test]
fn everything_signed_is_durable_first() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        // The first proposes, the second hears it.
        let request = all[0].take().into_iter().find_map(|effect| match effect {
            Effect::BuildBlock(request) => Some(request),
            _ => None,
        });
        let request = request.expect("the first is asked");
        all[0].step(Input::Built { view: request.view, block: Some(build(&request)), empty: false });
        let mut durable = false;
        for effect in all[0].take() {
            match effect {
                Effect::Persist(_) => durable = true,
                Effect::Broadcast(packet) => {
                    assert!(durable);
                    all[1].step(Input::Message { from: network.address(0), packet });
                }
                _ => {}
            }
        }
        let effects = all[1].take();
        let block = effects
            .iter()
            .find_map(|effect| if let Effect::Validate(block) = effect { Some(block) } else { None });
        let block = block.expect("the second validates");
        all[1].step(Input::Validated { hash: B256::ZERO, valid: true });
        assert!(all[1].take().is_empty(), "an answer about something else");
        all[1].step(Input::Validated { hash: block.hash(), valid: true });
        assert!(matches!(all[1].take()[..], [Effect::Persist(_), Effect::Broadcast(_)]), "a prepare message");
    }
}

#[test]
fn a_restart_does_not_sign_anything_else() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let request = all[0].take().into_iter().find_map(|effect| match effect {
            Effect::BuildBlock(request) => Some(request),
            _ => None,
        });
        let request = request.expect("the first is asked");
        let propose = |salt: u8| {
            let mut engine = Engine::new(Config::new(protocol), Arc::new(network.keys[0].clone()));
            let mut out = Vec::new();
            engine.step(NOW_MS, Input::Head(network.head.clone()), &mut out);
            let Some(Effect::SetTimer { timer, .. }) = out.pop() else { panic!("a timer") };
            engine.step(NOW_MS, Input::Timer(timer), &mut out);
            let mut request = request.clone();
            request.timestamp_s += u64::from(salt);
            out.clear();
            engine.step(
                NOW_MS,
                Input::Built { view: request.view, block: Some(build(&request)), empty: false },
                &mut out,
            );
            out
        };
        let packets = |effects: &[Effect]| -> Vec<Packet> {
            effects
                .iter()
                .filter_map(
                    |effect| if let Effect::Broadcast(packet) = effect { Some(packet.clone()) } else { None },
                )
                .collect()
        };
        let (ours, other) = (propose(0), propose(1));
        // The second hears the first proposal, prepares, and dies.
        let hear = |validator: &mut Validator, packet: &Packet| {
            validator.step(Input::Message { from: network.address(0), packet: packet.clone() });
            let effects = validator.take();
            for effect in &effects {
                if let Effect::Validate(block) = effect {
                    validator.step(Input::Validated { hash: block.hash(), valid: true });
                }
            }
            let mut effects = effects;
            effects.extend(validator.take());
            effects
        };
        let effects = hear(&mut all[1], &packets(&ours)[0]);
        let record = effects.iter().rev().find_map(|effect| {
            if let Effect::Persist(record) = effect { Some(record.clone()) } else { None }
        });
        let record = record.expect("a record");
        let signed = packets(&effects);
        // A new life hears the other proposal for the same round.
        let mut engine = Engine::new(Config::new(protocol), Arc::new(network.keys[1].clone()));
        engine.restore(&record).expect("its own record");
        let mut again = Validator { engine, out: Vec::new() };
        again.step(Input::Head(network.head.clone()));
        assert_eq!(packets(&again.take()), signed, "it says again what it said");
        assert!(packets(&hear(&mut again, &packets(&other)[0])).is_empty(), "and nothing else");
        // Without the record it would.
        let mut careless = network.validator(1);
        assert!(!packets(&hear(&mut careless, &packets(&other)[0])).is_empty());
        let mut engine = Engine::new(Config::new(protocol), Arc::new(network.keys[1].clone()));
        assert!(engine.restore(&record[1..]).is_err());
    }
}

/// Lets the round of those that are up expire.
fn expire(all: &mut [Validator], up: &[usize]) {
    for &node in up {
        let timers = all[node].timers();
        for timer in timers {
            all[node].step(Input::Timer(timer));
        }
    }
}

#[test]
fn two_of_four_wait_and_the_third_joins_them_at_once() {
    for protocol in PROTOCOLS {
        let network = Network::new(protocol);
        let mut all = network.started();
        let up = [2, 3];
        expire(&mut all, &up);
        for _ in 0..5 {
            let timers: Vec<_> = up.iter().map(|node| all[*node].timers()).collect();
            assert!(run(&network, &mut all, &up).is_empty());
            for (node, timers) in up.iter().zip(timers) {
                timers.into_iter().for_each(|timer| all[*node].step(Input::Timer(timer)));
            }
        }
        assert_eq!((all[2].round(), all[3].round()), (1, 1), "without a quorum nobody goes on");
        // The proposer of round 1 comes back.
        all[1] = network.validator(1);
        all[1].take();
        for node in up {
            all[node].step(Input::Connected(network.address(1)));
        }
        let commits = run(&network, &mut all, &[1, 2, 3]);
        assert_eq!(commits.len(), 3);
        assert_eq!(commits[&1].round(), 1);
    }
}

#[test]
fn who_is_away_is_not_waited_for() {
    let network = Network::new(Protocol::QBFT);
    let mut validator = network.validator(3);
    let timer = validator.last_timer().0;
    validator.step(Input::Disconnected(network.address(0)));
    validator.take();
    validator.step(Input::Timer(timer));
    assert_eq!(
        validator.round_timer_ms(),
        [500, 4_000],
        "an eighth of the request timeout, then repetitions"
    );
    // Two of four away: more likely this one is.
    let mut validator = network.validator(3);
    let timer = validator.last_timer().0;
    validator.step(Input::Disconnected(network.address(0)));
    validator.step(Input::Disconnected(network.address(1)));
    validator.take();
    validator.step(Input::Timer(timer));
    assert_eq!(validator.round_timer_ms(), [4_000, 4_000]);
    // Back: waited for again.
    let mut validator = network.validator(3);
    let timer = validator.last_timer().0;
    validator.step(Input::Disconnected(network.address(0)));
    validator.step(Input::Connected(network.address(0)));
    validator.take();
    validator.step(Input::Timer(timer));
    assert_eq!(validator.round_timer_ms(), [4_000, 4_000]);
}

#[test]
fn waits_with_empty_blocks() {
    let mut network = Network::new(Protocol::QBFT);
    network.head.settings.empty_period_s = 60;
    let mut validator = network.validator(0);
    let timer = validator.last_timer().0;
    validator.take();
    validator.step(Input::Timer(timer));
    assert!(matches!(validator.take()[..], [Effect::SetTimer { after_ms: 58_000, .. }]));
    validator.step(Input::Transactions(true));
    assert!(validator.take().iter().any(|effect| matches!(effect, Effect::BuildBlock(_))));
    // They did not fit after all.
    let view = View { height: 1, round: 0 };
    validator.step(Input::Built { view, block: Some(Bytes::from_static(&[0xc0])), empty: true });
    assert!(matches!(validator.take()[..], [Effect::SetTimer { after_ms: 2_000, .. }]));
}

#[test]
fn milliseconds_count_from_block_to_block() {
    let mut network = Network::new(Protocol::QBFT);
    network.head.validators = ValidatorSet::new(vec![network.address(0)]);
    network.head.settings.period = Period::Milliseconds(250);
    let mut validator = network.validator(0);
    let (timer, after_ms) = validator.last_timer();
    assert_eq!(after_ms, 250);
    validator.step(Input::Timer(timer));
    let request = validator.take().into_iter().find_map(|effect| match effect {
        Effect::BuildBlock(request) => Some(request),
        _ => None,
    });
    let request = request.expect("a block is asked for");
    validator.step(Input::Built { view: request.view, block: Some(build(&request)), empty: false });
    let Some(Effect::Commit { block, .. }) = validator.take().pop() else { panic!("a block") };
    // Agreement and import took 40 ms; the next block comes 250 ms after this one was begun.
    let head = Head { number: 1, hash: block.hash(), ..network.head.clone() };
    validator.engine.step(NOW_MS + 40, Input::Head(head), &mut validator.out);
    assert_eq!(validator.last_timer().1, 210);
}

#[test]
fn blames_those_that_are_to_blame() {
    let network = Network::new(Protocol::QBFT);
    let mut all = network.started();
    let request = all[0].asked();
    let proposal = |key: &SecretKey, request: &BuildRequest| {
        let block = Block::decode(Protocol::QBFT, build(request)).expect("well formed");
        let hash = tally_consensus::message::proposal_hash(Protocol::QBFT, request.view, &block);
        let seal = key.sign(hash).expect("well formed");
        let (round_changes, prepares) = (Vec::new(), Vec::new());
        let proposal =
            tally_consensus::message::Proposal { view: request.view, block, seal, round_changes, prepares };
        Message::Proposal(Box::new(proposal)).encode(Protocol::QBFT)
    };
    let (us, sender) = (3, network.address(2));
    let blamed = |validator: &mut Validator, packet: Packet| {
        validator.take();
        validator.step(Input::Message { from: sender, packet });
        validator.take().into_iter().find_map(|effect| match effect {
            Effect::Misbehaviour { peer, what } => Some((peer, what)),
            _ => None,
        })
    };
    let validator = &mut all[us];
    let (peer, what) = blamed(validator, Packet { code: 9, bytes: Bytes::new() }).expect("well formed");
    assert!(peer == sender && matches!(what, Misbehaviour::Unreadable(_)));
    let stranger = SecretKey::from_bytes(&[77; 32]).expect("well formed");
    let (peer, what) = blamed(validator, proposal(&stranger, &request)).expect("well formed");
    assert_eq!((peer, what), (sender, Misbehaviour::NoValidator(stranger.address())));
    let (peer, what) = blamed(validator, proposal(&network.keys[1], &request)).expect("well formed");
    assert_eq!((peer, what), (network.address(1), Misbehaviour::NotProposer(network.address(1))));
    let early = BuildRequest { timestamp_s: 1, ..request.clone() };
    let (peer, what) = blamed(validator, proposal(&network.keys[0], &early)).expect("well formed");
    assert!(peer == network.address(0) && matches!(what, Misbehaviour::Header(_)));
    assert_eq!(blamed(validator, proposal(&network.keys[0], &request)), None);
    let other = BuildRequest { timestamp_s: request.timestamp_s + 1, ..request.clone() };
    let (peer, what) = blamed(validator, proposal(&network.keys[0], &other)).expect("well formed");
    assert_eq!((peer, what), (network.address(0), Misbehaviour::Equivocation(request.view)));
    let long = Packet { code: 0x12, bytes: vec![0; (32 << 20) + 1].into() };
    assert!(matches!(blamed(validator, long), Some((_, Misbehaviour::TooLong(_)))));
}

/// Votes come again until the height is decided; the copy of one that there was no room for is no copy of anything.
#[test]
fn a_vote_without_room_is_read_when_it_comes_again() {
    let network = Network::new(Protocol::QBFT);
    let config = Config { relay: true, ..Config::new(Protocol::QBFT) };
    let room = config.limits.future_rounds as u32;
    let mut validator =
        Validator { engine: Engine::new(config, Arc::new(network.keys[3].clone())), out: Vec::new() };
    validator.step(Input::Head(network.head.clone()));
    validator.step(Input::Timer(Timer(1)));
    let is_new = |validator: &mut Validator, round: u32| {
        let payload = tally_consensus::message::Prepare {
            view: View { height: 1, round },
            digest: B256::repeat_byte(1),
        };
        let hash = tally_consensus::message::prepare_hash(Protocol::QBFT, &payload);
        let seal = network.keys[2].sign(hash).expect("a key signs");
        let packet =
            Message::Prepare(tally_consensus::message::Signed { payload, seal }).encode(Protocol::QBFT);
        validator.take();
        validator.step(Input::Message { from: network.address(2), packet });
        validator.take().iter().any(|effect| matches!(effect, Effect::Relay { .. }))
    };
    assert!((1..=room).all(|round| is_new(&mut validator, round)));
    assert!(!is_new(&mut validator, room + 1), "there is no room");
    validator.step(Input::Timer(Timer(2)));
    assert_eq!(validator.round(), 1);
    assert!(is_new(&mut validator, room + 1), "there is, one round later");
    assert!(!is_new(&mut validator, room + 1), "a copy");
}

#[test]
fn no_validator_stays_silent() {
    let mut network = Network::new(Protocol::QBFT);
    network.head.validators = ValidatorSet::new((1..4).map(|node| network.address(node)).collect());
    let mut observer = network.validator(0);
    assert!(observer.take().is_empty());
    assert!(!observer.engine.status().validator);
}
