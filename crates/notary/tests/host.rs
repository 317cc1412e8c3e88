//! Four members with real keys, clocks, threads and files; one is stopped and started again under
//! load.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use alloy_primitives::Address;
use tally_consensus::{Keys, SecretKey};
use tally_contracts::{Name, Scheme, SigningKey, StateRef, TransactionId, encode};
use tally_crypto::{Hash, hash};
use tally_notary::{
    AnswerForm, Client, Cluster, Collector, Commit, Config, Fault, FileStorage, Host, HostError, Identity,
    Input, Judge, Member, Outcome, Progress, Rejection, Request, SignedAnswer, Told, Transport, Unfounded,
};

type Lines = Arc<Mutex<BTreeMap<Address, Sender<Told>>>>;

/// Connections within this process.
struct Channels {
    me: Address,
    lines: Lines,
    answers: Sender<(u64, SignedAnswer)>,
}

impl Transport for Channels {
    fn send(&mut self, to: Address, bytes: Vec<u8>) {
        if let Some(line) = self.lines.lock().unwrap().get(&to) {
            let _ = line.send(Told::Input(Input::Message { from: self.me, bytes }));
        }
    }

    fn answer(&mut self, to: &Client, answer: &SignedAnswer) {
        let _ = self.answers.send((to.conversation, *answer));
    }

    fn reject(&mut self, _: &Client, transaction: TransactionId, reason: &Rejection) {
        panic!("{transaction} is rejected: {reason}");
    }

    fn blame(&mut self, member: Address, fault: &Fault) {
        panic!("{member} is blamed: {fault}");
    }

    fn cannot_sign(&mut self, height: u64, round: u32) {
        panic!("a key in memory does not sign at {height}, {round}");
    }
}

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

fn voter(node: u8) -> SecretKey {
    SecretKey::from_bytes(&[node + 1; 32]).unwrap()
}

fn answerer(node: u8) -> SigningKey {
    SigningKey::from_secret(Scheme::Ed25519, &[node + 1; 32]).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text, "Zurich", "CH").unwrap()
}

fn cluster() -> Arc<Cluster> {
    let member = |node| Member {
        name: name(&format!("Notary {node}")),
        voter: voter(node).address().into(),
        key: answerer(node).public_key(),
    };
    Arc::new(Cluster::new(Hash::from_bytes([3; 32]), (0..4).map(member).collect()).unwrap())
}

fn config() -> Config {
    Config { round_timeout_ms: 1_000, poll_ms: 200, ..Config::default() }
}

struct Running {
    thread: JoinHandle<Result<(), HostError>>,
    line: Sender<Told>,
}

fn start(node: u8, directory: &Path, lines: &Lines, answers: &Sender<(u64, SignedAnswer)>) -> Running {
    let (cluster, key) = (cluster(), answerer(node));
    let me = voter(node).address();
    let transport = Channels { me, lines: Arc::clone(lines), answers: answers.clone() };
    let signing = Arc::clone(&cluster);
    let sign = Box::new(move |answer| AnswerForm.sign(&signing, &key, answer));
    let identity = Identity { cluster, keys: Arc::new(voter(node)), sign };
    let storage = FileStorage::open(directory).unwrap();
    let host = Host::open(identity, config(), Box::new(HashJudge), storage, transport).unwrap();
    let (line, inbox) = channel();
    let thread = std::thread::spawn(move || host.run(&inbox));
    let mut known = lines.lock().unwrap();
    for (other, there) in known.iter() {
        line.send(Told::Input(Input::Connected(*other))).unwrap();
        let _ = there.send(Told::Input(Input::Connected(me)));
    }
    known.insert(me, line.clone());
    drop(known);
    Running { thread, line }
}

fn stop(node: u8, running: Running, lines: &Lines) {
    let me = voter(node).address();
    let mut known = lines.lock().unwrap();
    known.remove(&me);
    known.values().for_each(|line| drop(line.send(Told::Input(Input::Disconnected(me)))));
    drop(known);
    running.line.send(Told::Stop).unwrap();
    running.thread.join().unwrap().unwrap();
}

fn request(number: u64) -> Request {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    // Two transactions for each state.
    let state = StateRef {
        transaction: TransactionId::from_bytes([9; 32]),
        index: u32::try_from(number / 2).unwrap(),
    };
    let commit = Commit {
        inputs: vec![state],
        references: Vec::new(),
        transaction: TransactionId::from_bytes(id),
        time_window: None,
        requester: name("Bank"),
    };
    let evidence = hash(&encode(&commit)).as_bytes().to_vec();
    Request { commit, evidence }
}

fn ask(lines: &Lines, number: u64) {
    let client = Client { name: name("Bank"), conversation: number };
    for line in lines.lock().unwrap().values() {
        let _ = line.send(Told::Input(Input::Request { client: client.clone(), request: request(number) }));
    }
}

/// Asks for these transactions until each has an end; which were committed.
fn settle(numbers: std::ops::Range<u64>, lines: &Lines, answers: &Receiver<(u64, SignedAnswer)>) -> Vec<u64> {
    let cluster = cluster();
    let collector = |number| (number, Collector::new(&cluster, request(number).commit.transaction));
    let mut open: BTreeMap<u64, Collector<'_>> = numbers.map(collector).collect();
    let mut committed = Vec::new();
    let begun = Instant::now();
    let mut asked: Option<Instant> = None;
    while !open.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(240), "{} requests have no end", open.len());
        if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(3)) {
            open.keys().for_each(|number| ask(lines, *number));
            asked = Some(Instant::now());
        }
        let Ok((number, answer)) = answers.recv_timeout(Duration::from_millis(100)) else { continue };
        let Some(collector) = open.get_mut(&number) else { continue };
        match collector.take(&answer, &AnswerForm) {
            Progress::Waiting => {}
            Progress::Committed(attestation) => {
                assert!(attestation.verify(&cluster, &AnswerForm));
                committed.push(number);
                open.remove(&number);
            }
            Progress::Refused(Outcome::Conflict { consumed_by, .. }) => {
                assert_eq!(consumed_by, request(number ^ 1).commit.transaction);
                open.remove(&number);
            }
            Progress::Refused(other) => panic!("{number} is refused: {other:?}"),
        }
    }
    committed
}

#[test]
fn a_member_is_stopped_and_started_again_and_no_client_notices() {
    let directory = tempfile::tempdir().unwrap();
    let path = |node: u8| -> PathBuf { directory.path().join(node.to_string()) };
    let lines = Lines::default();
    let (sender, answers) = channel();
    let mut running: Vec<Option<Running>> =
        (0..4).map(|node| Some(start(node, &path(node), &lines, &sender))).collect();
    let mut committed = settle(0..40, &lines, &answers);
    stop(2, running[2].take().unwrap(), &lines);
    committed.extend(settle(40..80, &lines, &answers));
    running[2] = Some(start(2, &path(2), &lines, &sender));
    committed.extend(settle(80..120, &lines, &answers));
    // Now another one: the one that was away is needed, with all that it missed.
    stop(0, running[0].take().unwrap(), &lines);
    committed.extend(settle(120..160, &lines, &answers));
    let mut states: Vec<u64> = committed.iter().map(|number| number / 2).collect();
    states.sort_unstable();
    assert_eq!(states, (0..80).collect::<Vec<_>>(), "each state is consumed, and once");
    for (node, running) in running.into_iter().enumerate() {
        if let Some(running) = running {
            stop(u8::try_from(node).unwrap(), running, &lines);
        }
    }
    // What was answered before is answered again after a start of all, from the files.
    let _all: Vec<Running> = (0..4).map(|node| start(node, &path(node), &lines, &sender)).collect();
    let mut again = settle(0..160, &lines, &answers);
    again.sort_unstable();
    committed.sort_unstable();
    assert_eq!(again, committed);
}
