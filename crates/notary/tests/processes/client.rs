//! A client that asks all the time, two transactions for each state, and believes no single member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tally_contracts::{StateRef, TransactionId, encode};
use tally_notary::{AnswerForm, Collector, Commit, Outcome, Progress, Request, SignedAnswer};

use super::MEMBERS;
use super::wire::{self, CLIENT, cluster, evidence, name};

/// Transactions under way at a time.
const OPEN: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) longest_ms: u64,
}

pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

impl Running {
    /// Asks for nothing new, waits for what is under way, and tells what came of all.
    pub(crate) fn finish(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

pub(crate) fn start(directory: &Path) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, directory) = (Arc::clone(&stop), directory.to_owned());
    Running { stop, thread: std::thread::spawn(move || run(&directory, &stopped)) }
}

fn request(number: u64) -> Request {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
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
    Request { evidence: evidence(&commit), commit }
}

struct Open<'a> {
    collector: Collector<'a>,
    since: Instant,
    asked: Instant,
}

fn run(directory: &Path, stop: &AtomicBool) -> Report {
    let cluster = cluster();
    let (answers, heard) = channel();
    let lines: Vec<SyncSender<Vec<u8>>> =
        (0..MEMBERS).map(|node| line_to(directory.to_owned(), node, answers.clone())).collect();
    let ask = |number: u64| {
        let bytes = encode(&(number, request(number)));
        lines.iter().for_each(|line| drop(line.try_send(bytes.clone())));
    };
    let mut open: BTreeMap<u64, Open<'_>> = BTreeMap::new();
    let mut consumed: BTreeMap<u64, u64> = BTreeMap::new();
    let mut report = Report::default();
    let mut next = 0;
    loop {
        let now = Instant::now();
        while open.len() < OPEN && !stop.load(Ordering::Relaxed) {
            let collector = Collector::new(&cluster, request(next).commit.transaction);
            open.insert(next, Open { collector, since: now, asked: now });
            ask(next);
            next += 1;
        }
        if open.is_empty() {
            return report;
        }
        for (number, open) in &mut open {
            assert!(open.since.elapsed() < Duration::from_secs(120), "{number} has no end");
            if open.asked.elapsed() > Duration::from_millis(1_500) {
                open.asked = now;
                ask(*number);
            }
        }
        let Ok((number, signed)) = heard.recv_timeout(Duration::from_millis(50)) else { continue };
        let Some(one) = open.get_mut(&number) else { continue };
        let elapsed = u64::try_from(one.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        match one.collector.take(&signed, &AnswerForm) {
            Progress::Waiting => continue,
            Progress::Committed(attestation) => {
                assert!(attestation.verify(&cluster, &AnswerForm));
                let before = consumed.insert(number / 2, number);
                assert_eq!(before, None, "state {} is consumed twice", number / 2);
                report.committed += 1;
            }
            Progress::Refused(Outcome::Conflict { consumed_by, .. }) => {
                assert_eq!(consumed_by, request(number ^ 1).commit.transaction);
                report.refused += 1;
            }
            Progress::Refused(other) => panic!("{number} is refused: {other:?}"),
        }
        report.longest_ms = report.longest_ms.max(elapsed);
        open.remove(&number);
    }
}

/// Keeps a connection to a member; what is said while there is none is lost.
fn line_to(directory: PathBuf, node: usize, answers: Sender<(u64, SignedAnswer)>) -> SyncSender<Vec<u8>> {
    let (line, waiting) = sync_channel(1_000);
    std::thread::spawn(move || keep(&directory, node, &waiting, &answers));
    line
}

fn keep(directory: &Path, node: usize, waiting: &Receiver<Vec<u8>>, answers: &Sender<(u64, SignedAnswer)>) {
    loop {
        let Ok(mut stream) = wire::connect(directory, node, CLIENT) else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(mut back) = stream.try_clone() else { continue };
        let answers = answers.clone();
        std::thread::spawn(move || {
            while let Ok(bytes) = wire::read_frame(&mut back) {
                let answer: (u64, SignedAnswer) = borsh::from_slice(&bytes).unwrap();
                if answers.send(answer).is_err() {
                    return;
                }
            }
        });
        loop {
            match waiting.recv() {
                Ok(bytes) if wire::write_frame(&mut stream, &bytes).is_ok() => {}
                Ok(_) => break,
                Err(_) => return,
            }
        }
    }
}
