//! A network in this process, and a gateway to it on a free port of loopback.

use super::GatewayBenchError;
use crate::workload::{Generator, Setup, Workload, payer_key};
use bytes::Bytes;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tally_crypto::SigningKey;
use tally_gateway::access::{AccessFile, AuditLog, Gate, Quota, Role, Token, UserEntry};
use tally_gateway::references::References;
use tally_gateway::server::{self, ServeError};
use tally_gateway::settings::{Institution, ParticipantKind, Settings};
use tally_iso20022::Bic;
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, AssetId, Kind, NetworkId, ParticipantId, Transaction,
    Uetr,
};
use tally_ops::shutdown::Shutdown;
use tally_settlement::engine::{Engine, Outcome};
use tally_settlement::path;

/// The bank whose customers pay.
pub(super) const BANK: ParticipantId = ParticipantId(1);
const EUR: AssetId = AssetId(0);
/// Accounts that messages name.
pub(super) const NAMED: u32 = 200;
/// What each of them has.
const OPENING: Amount = Amount(100_000_000);

/// How many users pay with JSON.
pub(super) const USERS: usize = 8;
/// What the user may send who hands in signed batches: more than any machine takes, so that no allowance for the first seconds
/// is part of a figure.
pub(super) const UNBOUNDED: Quota = Quota { per_second: 100_000_000, burst: 100_000_000 };

/// A gateway that serves.
pub(super) struct Served {
    pub(super) engine: Arc<Engine>,
    pub(super) address: SocketAddr,
    pub(super) token: Token,
    /// Tokens of those who pay with JSON.
    pub(super) users: Vec<Token>,
    workload: Workload,
    keys: Vec<SigningKey>,
    shutdown: Shutdown,
    server: JoinHandle<Result<(), ServeError>>,
}

impl Served {
    pub(super) fn new(
        setup: Setup,
        directory: &Path,
        workload: &Workload,
        quota: Quota,
    ) -> Result<Self, GatewayBenchError> {
        let engine = Arc::new(setup.engine);
        let network = engine.network().clone();
        let bic = network.participants[BANK.index()].bic.clone();
        let token = Token::generate().map_err(GatewayBenchError::set_up)?;
        // Without one the user would act for everybody.
        let bic = Some(Bic::parse(&bic).expect("the workload's institutions have BICs"));
        let entry = |name: &str, token: &Token, quota: Quota| UserEntry {
            quota,
            ..UserEntry::with_token(name, bic, &[Role::Submit, Role::Read], token)
        };
        let users = (0..USERS).map(|_| Token::generate()).collect::<Result<Vec<_>, _>>();
        let users = users.map_err(GatewayBenchError::set_up)?;
        let mut user = vec![entry("bench", &token, UNBOUNDED)];
        user.extend(
            (0..).zip(&users).map(|(number, token)| entry(&format!("client-{number}"), token, quota)),
        );
        let access = directory.join("access.toml");
        AccessFile { user, institution: Vec::new() }.write(&access).map_err(GatewayBenchError::set_up)?;
        let audit = AuditLog::beside(&access);
        let gate = Arc::new(Gate::open(access, audit, network.clone()).map_err(GatewayBenchError::set_up)?);
        let institution = Institution { kind: ParticipantKind::Bank, unidentified_account: None };
        let settings =
            Settings { institutions: vec![institution; network.participants.len()], ..Settings::default() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(GatewayBenchError::set_up)?;
        let address = listener.local_addr().map_err(GatewayBenchError::set_up)?;
        let references = References::generate().map_err(GatewayBenchError::set_up)?;
        let shutdown = Shutdown::new();
        let (desk, stop) = (Arc::clone(&engine), shutdown.clone());
        let server = std::thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(move || server::serve(listener, desk, settings, gate, references, &stop))
            .map_err(GatewayBenchError::set_up)?;
        let (workload, keys) = (workload.clone(), setup.keys);
        Ok(Self { engine, address, token, users, workload, keys, shutdown, server })
    }

    /// Signed payments that nobody made before, encoded in batches.
    pub(super) fn batches(&self, run: u64, payments: usize, batch: usize) -> Vec<Bytes> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let make = |thread: u64| {
            let seed = self.workload.seed ^ ((run * threads + thread + 1) << 40);
            let workload = Workload { seed, ..self.workload.clone() };
            let mut generator = Generator::new(&workload, self.network(), 1);
            let count = payments.div_ceil(batch).div_ceil(threads as usize);
            (0..count)
                .map(|_| tally_gateway::codec::encode(&generator.batch(0, batch, self.engine.now())).into())
                .collect::<Vec<Bytes>>()
        };
        std::thread::scope(|scope| {
            let made: Vec<_> = (0..threads).map(|thread| scope.spawn(move || make(thread))).collect();
            made.into_iter().flat_map(|made| made.join().expect("making payments does not panic")).collect()
        })
    }

    pub(super) fn network(&self) -> NetworkId {
        self.engine.network().id
    }

    /// Opens the accounts that messages name, each with money and a key of its own.
    pub(super) fn open_named(&self) -> Result<(), GatewayBenchError> {
        let first = self.engine.next_account(BANK).map_or(0, |number| number.0);
        let mut opened = Vec::new();
        let mut filled = Vec::new();
        for number in 0..NAMED {
            let account = AccountNumber(first + number);
            let action = AccountAction::Open {
                count: 1,
                asset: EUR,
                owner: named_key(number).public_key(),
                floor: Amount::ZERO,
                alias: named(number),
            };
            let order = AccountOrder { participant: BANK, number: account, action };
            opened.push(Transaction::account(&self.terms(), order));
            let legs = path::issue(AccountId { participant: BANK, number: account }, EUR, OPENING);
            filled.push(Transaction::new(Kind::Issue, &self.terms(), legs));
        }
        for mut transactions in [opened, filled] {
            transactions
                .iter_mut()
                .for_each(|transaction| transaction.sign(&self.network(), &self.keys[BANK.index()]));
            // One after the other: numbers follow each other.
            for transaction in transactions {
                self.make(transaction)?;
            }
        }
        Ok(())
    }

    fn make(&self, transaction: Transaction) -> Result<(), GatewayBenchError> {
        let pending = self.engine.submit(vec![transaction]).map_err(GatewayBenchError::set_up)?;
        let answers = self.engine.wait(&pending, Duration::from_secs(30));
        match answers.first().map(|answer| &answer.outcome) {
            Some(Outcome::Final(finality)) if finality.verdict.is_ok() => Ok(()),
            other => Err(GatewayBenchError::Refused(format!("{other:?}"))),
        }
    }

    fn terms(&self) -> Terms {
        let random = || tally_gateway::random().unwrap_or([0; 16]);
        Terms {
            network: self.network(),
            uetr: Uetr(random()),
            expiry: self.engine.now().plus_ms(30_000),
            details: tally_crypto::Hash::ZERO,
            seed: random(),
        }
    }

    pub(super) fn bic(&self) -> &str {
        &self.engine.network().participants[BANK.index()].bic
    }

    /// Stops the gateway.
    pub(super) fn end(self) -> Result<(), GatewayBenchError> {
        self.shutdown.request();
        let ended =
            self.server.join().map_err(|_| GatewayBenchError::set_up("the gateway's thread panicked"))?;
        ended.map_err(GatewayBenchError::set_up)
    }
}

/// The alias of an account.
pub(super) fn named(number: u32) -> String {
    format!("BENCH{number:04}")
}

/// Who signs for it.
pub(super) fn named_key(number: u32) -> SigningKey {
    payer_key(0x4000_0000 | number)
}
