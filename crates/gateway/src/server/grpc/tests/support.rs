//! A network with two customers at one bank, another bank, and a gateway to it on a free port of loopback.

use super::desk::HeldDesk;
use crate::access::{AccessFile, Act, AuditLog, Gate, Role, Token, UserEntry};
use crate::grpc::Client;
use crate::references::References;
use crate::server::{self, ServeError};
use crate::settings::{Institution, ParticipantKind, Settings};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tally_crypto::{Hash, SigningKey};
use tally_iso20022::Bic;
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Leg, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, Asset, AssetId, AssetKind, Kind, Network, NetworkId,
    Participant, ParticipantId, SignaturePolicy, Transaction, TransactionBatch, Uetr,
};
use tally_ops::shutdown::Shutdown;
use tally_settlement::desk::Settlement as _;
use tally_settlement::engine::{Engine, EngineOptions, Outcome};
use tally_settlement::path;

pub(super) const EUR: AssetId = AssetId(0);
pub(super) const BANK: ParticipantId = ParticipantId(1);
pub(super) const OTHER: ParticipantId = ParticipantId(2);
const WAIT: Duration = Duration::from_secs(60);

pub(super) fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

pub(super) const NETWORK: NetworkId = NetworkId([79; 32]);

/// The key of a customer of the bank.
pub(super) fn customer(number: u32) -> SigningKey {
    key(100 + u8::try_from(number).unwrap())
}

pub(super) fn network() -> Network {
    let participant = |bic: &str, number: u8| Participant {
        bic: bic.into(),
        name: format!("CN={bic}"),
        key: key(number).public_key(),
        settlement_floors: Vec::new(),
    };
    Network {
        id: NETWORK,
        participants: vec![
            participant("CENTDEFF", 1),
            participant("ALPHDEFF", 2),
            participant("BETAFRPP", 3),
        ],
        assets: vec![Asset {
            code: "EUR".into(),
            kind: AssetKind::Currency,
            exponent: 2,
            settled_at: ParticipantId(0),
            largest_payment: Amount(1_000_000),
        }],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 3_600_000,
    }
}

/// What the network runs in, who may come in, and how to come in.
pub(super) struct Bench {
    pub(super) desk: Arc<HeldDesk>,
    directory: tempfile::TempDir,
    references: u64,
    pub(super) address: SocketAddr,
    shutdown: Shutdown,
    server: Option<JoinHandle<Result<(), ServeError>>>,
    pub(super) token: Token,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|_| (), |_| ())
    }

    /// Two customers with 100,000.00 each, and a user of the bank who may submit and read.
    pub(super) fn with(change: impl FnOnce(&mut Settings), user: impl FnOnce(&mut UserEntry)) -> Self {
        Self::of(network(), change, user)
    }

    /// One whose transactions are valid for so long at most, and remembered for as long.
    pub(super) fn lasting(longest_validity_ms: u64) -> Self {
        Self::of(Network { longest_validity_ms, ..network() }, |_| (), |_| ())
    }

    fn of(network: Network, change: impl FnOnce(&mut Settings), user: impl FnOnce(&mut UserEntry)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = EngineOptions::new(
            directory.path().join("network"),
            network.clone(),
            vec![key(1), key(2), key(3)],
        );
        options.journal.segment_bytes = 1 << 20;
        options.snapshot_every = None;
        let desk = Arc::new(HeldDesk::new(Engine::open(options).unwrap()));
        let institution = Institution { kind: ParticipantKind::Bank, unidentified_account: None };
        let mut settings = Settings { institutions: vec![institution; 3], ..Settings::default() };
        change(&mut settings);
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut bench = Self {
            desk,
            directory,
            references: 0,
            address: listener.local_addr().unwrap(),
            shutdown: Shutdown::new(),
            server: None,
            token: Token::generate().unwrap(),
        };
        let mut entry = bench.entry(&[Role::Submit, Role::Read]);
        user(&mut entry);
        bench.grant(entry);
        let gate = Arc::new(Gate::open(bench.access(), AuditLog::beside(&bench.access()), network).unwrap());
        let (desk, shutdown) = (Arc::clone(&bench.desk), bench.shutdown.clone());
        bench.server = Some(std::thread::spawn(move || {
            server::serve(listener, desk, settings, gate, References::generate().unwrap(), &shutdown)
        }));
        for number in [0, 1] {
            bench.open(number);
            let legs = path::issue(id(number), EUR, Amount(10_000_000));
            let issue = bench.signed(Kind::Issue, legs, &key(2));
            bench.make(issue);
        }
        bench
    }

    fn access(&self) -> PathBuf {
        self.directory.path().join("access.toml")
    }

    /// The bank's user with these rights.
    pub(super) fn entry(&self, roles: &[Role]) -> UserEntry {
        UserEntry::with_token("alice", Bic::parse("ALPHDEFF"), roles, &self.token)
    }

    /// Lets this user in, and nobody else.
    pub(super) fn grant(&self, entry: UserEntry) {
        AccessFile { user: vec![entry], ..AccessFile::default() }.write(&self.access()).unwrap();
    }

    /// Lets a user of that institution in besides, who has these roles; the token.
    pub(super) fn also(&self, name: &str, bic: &str, roles: &[Role]) -> Token {
        let token = Token::generate().unwrap();
        let mut file = AccessFile::read(&self.access()).unwrap();
        file.grant(UserEntry::with_token(name, Some(Bic::parse(bic).unwrap()), roles, &token)).unwrap();
        file.write(&self.access()).unwrap();
        // The gateway looks for somebody whom it does not know every 20 ms at most.
        let began = Instant::now();
        while self.refuses(&token) {
            assert!(began.elapsed() < WAIT, "{name} does not come in");
        }
        token
    }

    /// Whether nobody has that token.
    fn refuses(&self, token: &Token) -> bool {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let token = token.reveal();
        let request = format!(
            "GET /v1/assets HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 401")
    }

    /// What the gateway recorded.
    pub(super) fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        AuditLog::beside(&self.access()).verify(|record| acts.push(record.act.clone())).unwrap();
        acts
    }

    /// Lets nobody in.
    pub(super) fn revoke(&self) {
        AccessFile::default().write(&self.access()).unwrap();
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) async fn client(&self) -> Client {
        Client::connect(&self.url(), Some(self.token.reveal()), None).await.unwrap()
    }

    pub(super) fn terms(&mut self) -> Terms {
        self.references += 1;
        let mut uetr = [0; 16];
        uetr[8..].copy_from_slice(&self.references.to_be_bytes());
        Terms {
            network: network().id,
            uetr: Uetr(uetr),
            expiry: self.desk.network().latest_expiry(self.desk.now()).min(self.desk.now().plus_ms(600_000)),
            details: Hash::ZERO,
            seed: uetr,
        }
    }

    pub(super) fn signed(&mut self, kind: Kind, legs: Vec<Leg>, signer: &SigningKey) -> Transaction {
        let mut transaction = Transaction::new(kind, &self.terms(), legs);
        transaction.sign(&NETWORK, signer);
        transaction
    }

    /// From the first customer to the second.
    pub(super) fn payment(&mut self, amount: i64) -> Transaction {
        let legs = path::payment(&network(), id(0), id(1), EUR, Amount(amount));
        self.signed(Kind::Transfer, legs, &customer(0))
    }

    /// So many payments of 0.01.
    pub(super) fn batch(&mut self, count: usize) -> TransactionBatch {
        batch((0..count).map(|_| self.payment(1)))
    }

    /// The same without signatures: refused, each with a reason.
    pub(super) fn unsigned(&mut self, count: usize) -> TransactionBatch {
        let legs = path::payment(&network(), id(0), id(1), EUR, Amount(1));
        batch((0..count).map(|_| Transaction::new(Kind::Transfer, &self.terms(), legs.clone())))
    }

    pub(super) fn balance(&self, number: u32) -> i64 {
        self.desk.account(id(number)).unwrap().balance.0
    }

    fn open(&mut self, number: u32) {
        let action = AccountAction::Open {
            count: 1,
            asset: EUR,
            owner: customer(number).public_key(),
            floor: Amount::ZERO,
            alias: format!("account-{number}"),
        };
        let order = AccountOrder { participant: BANK, number: AccountNumber(number), action };
        let mut transaction = Transaction::account(&self.terms(), order);
        transaction.sign(&NETWORK, &key(2));
        self.make(transaction);
    }

    pub(super) fn make(&self, transaction: Transaction) {
        let pending = self.desk.engine.submit(vec![transaction]).unwrap();
        let answers = self.desk.engine.wait(&pending, WAIT);
        assert!(
            matches!(answers[0].outcome, Outcome::Final(finality) if finality.verdict.is_ok()),
            "{answers:?}"
        );
    }

    /// Asks the gateway to stop.
    pub(super) fn request_stop(&self) {
        self.shutdown.request();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.desk.hold(false);
        self.shutdown.request();
        let served = self.server.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            served.unwrap().unwrap().unwrap();
        }
    }
}

pub(super) fn id(number: u32) -> AccountId {
    AccountId { participant: BANK, number: AccountNumber(number) }
}

pub(super) fn batch(transactions: impl IntoIterator<Item = Transaction>) -> TransactionBatch {
    let mut batch = TransactionBatch::default();
    for transaction in transactions {
        assert!(batch.push(&transaction));
    }
    batch
}
