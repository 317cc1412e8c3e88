//! A member as a process.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::Address;
use tally_consensus::Keys;
use tally_contracts::{TransactionId, encode};
use tally_notary::{
    AnswerForm, Client, Fault, FileStorage, Host, Identity, Input, Rejection, Request, SignedAnswer, Told,
    Transport,
};

use super::liar::Liar;
use super::wire::{self, CLIENT, cluster, config, name, voter};
use super::{LIAR, MEMBERS};

type Lines<K> = Arc<Mutex<BTreeMap<K, SyncSender<Vec<u8>>>>>;

struct Sockets {
    me: usize,
    members: BTreeMap<Address, SyncSender<Vec<u8>>>,
    clients: Lines<u64>,
    liar: Option<Liar>,
}

impl Transport for Sockets {
    fn send(&mut self, to: Address, bytes: Vec<u8>) {
        let letters = match &mut self.liar {
            Some(liar) => liar.sends(bytes),
            None => vec![bytes],
        };
        let Some(line) = self.members.get(&to) else { return };
        // Where too much waits it is lost, and said again.
        letters.into_iter().for_each(|bytes| drop(line.try_send(bytes)));
    }

    fn answer(&mut self, to: &Client, answer: &SignedAnswer) {
        let (connection, number) = (to.conversation >> 32, to.conversation & u64::from(u32::MAX));
        if let Some(line) = self.clients.lock().unwrap().get(&connection) {
            drop(line.try_send(encode(&(number, answer))));
        }
    }

    fn reject(&mut self, _: &Client, transaction: TransactionId, reason: &Rejection) {
        eprintln!("member {}: {transaction} is rejected: {reason}", self.me);
    }

    fn blame(&mut self, member: Address, fault: &Fault) {
        assert!(member == voter(LIAR).address(), "member {} blames {member}: {fault}", self.me);
    }

    fn cannot_sign(&mut self, height: u64, round: u32) {
        panic!("a key in memory does not sign at {height}, {round}");
    }
}

/// Runs until it is killed.
pub(crate) fn run(node: usize, directory: &Path) {
    let own = directory.join(format!("member-{node}"));
    let storage = FileStorage::open(&own).unwrap();
    let (told, inbox) = sync_channel(10_000);
    let mut members = BTreeMap::new();
    for other in (0..MEMBERS).filter(|other| *other != node) {
        let (line, waiting) = sync_channel(2_000);
        members.insert(voter(other).address(), line);
        let (told, directory) = (told.clone(), directory.to_owned());
        std::thread::spawn(move || keep_connected(&directory, node, other, &waiting, &told));
    }
    let clients = Lines::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let draft = own.join("port");
    std::fs::write(&draft, listener.local_addr().unwrap().port().to_string()).unwrap();
    std::fs::rename(&draft, wire::port_file(directory, node)).unwrap();
    let lines = Arc::clone(&clients);
    std::thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming().flatten()) {
            let (told, lines) = (told.clone(), Arc::clone(&lines));
            std::thread::spawn(move || receive(number, stream, &told, &lines));
        }
    });
    let liar = (node == LIAR).then(|| Liar::new(node));
    let lies = liar.is_some();
    let key = wire::answerer(node);
    let sign = Box::new(move |answer| {
        let answer = if lies { super::liar::answer(answer) } else { answer };
        AnswerForm.sign(&cluster(), &key, answer)
    });
    let identity = Identity { cluster: cluster(), keys: Arc::new(voter(node)), sign };
    let transport = Sockets { me: node, members, clients, liar };
    let host = Host::open(identity, config(), Box::new(wire::HashJudge), storage, transport).unwrap();
    host.run(&inbox).unwrap();
}

/// Brings what waits for another member to it, whenever there is a connection.
fn keep_connected(
    directory: &Path,
    me: usize,
    other: usize,
    waiting: &Receiver<Vec<u8>>,
    told: &SyncSender<Told>,
) {
    let address = voter(other).address();
    loop {
        let Ok(mut stream) = wire::connect(directory, other, u8::try_from(me).unwrap()) else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let _ = told.send(Told::Input(Input::Connected(address)));
        while let Ok(bytes) = waiting.recv() {
            if wire::write_frame(&mut stream, &bytes).is_err() {
                break;
            }
        }
        let _ = told.send(Told::Input(Input::Disconnected(address)));
    }
}

/// Hands in what comes on a connection.
fn receive(number: u64, mut stream: TcpStream, told: &SyncSender<Told>, clients: &Lines<u64>) {
    let mut from = [0];
    if stream.read_exact(&mut from).is_err() {
        return;
    }
    if from[0] == CLIENT {
        let (line, waiting) = sync_channel::<Vec<u8>>(10_000);
        clients.lock().unwrap().insert(number, line);
        let Ok(mut back) = stream.try_clone() else { return };
        std::thread::spawn(move || {
            while let Ok(bytes) = waiting.recv() {
                if wire::write_frame(&mut back, &bytes).is_err() {
                    return;
                }
            }
        });
    }
    while let Ok(bytes) = wire::read_frame(&mut stream) {
        let input = if from[0] == CLIENT {
            let (conversation, request): (u64, Request) = borsh::from_slice(&bytes).unwrap();
            let client = Client { name: name("Bank"), conversation: number << 32 | conversation };
            Input::Request { client, request }
        } else {
            Input::Message { from: voter(usize::from(from[0])).address(), bytes }
        };
        if told.send(Told::Input(input)).is_err() {
            return;
        }
    }
    clients.lock().unwrap().remove(&number);
}
