//! One node of the simulation: what it is, its disk, its clock, and the process that comes and goes.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tally_contracts::{Contracts, Name, NetworkId, Party, PublicKey, Scheme, SigningKey, Timestamp};
use tally_flows::{Limits, Notaries, Notary, Rate, Registry};
use tally_messaging::QueueId;
use tally_node::{Core, Meters, Network, OpenError, Parts, Post, VaultChange};
use tally_protocols::consent::Policy;
use tally_protocols::testing::at_par;
use tally_sim::SimClock;

use super::disk::Disk;

/// Every institution buys every other's bonds at par, and keeps the register of them.
fn policy(parties: &[Party]) -> Policy {
    let currencies = ["USD", "EUR", "GBP"].map(|code| code.parse().expect("a currency"));
    let rules = parties.iter().flat_map(|issuer| currencies.map(|currency| at_par(&issuer.name, currency)));
    let registers_of = parties.iter().map(|issuer| issuer.name.clone()).collect();
    Policy { purchases: rules.collect(), registers_of, ..Policy::default() }
}

/// What a node's process wants done outside.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Durable messages.
    Send(Vec<(Name, u64, Bytes)>),
    /// All messages of a peer up to a number are durable.
    Acknowledge(Name, u64),
}

/// Where a process puts its wishes until the network looks.
#[derive(Default)]
pub(crate) struct Tray(Mutex<Vec<Wish>>);

impl Tray {
    pub(crate) fn take(&self) -> Vec<Wish> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, wish: Wish) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
    }
}

impl Post for Tray {
    fn send(&self, messages: Vec<(Name, u64, Bytes)>) {
        self.put(Wish::Send(messages));
    }

    fn acknowledge(&self, peer: &Name, _: QueueId, up_to: u64) {
        self.put(Wish::Acknowledge(peer.clone(), up_to));
    }

    // Whoever was refused asks again at any time.
    fn resume(&self) {}
}

/// Everybody there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    pub(crate) parties: Vec<Party>,
    pub(crate) notaries: Vec<Notary>,
}

/// The id of the network in trials.
pub(crate) const NETWORK: NetworkId = NetworkId::from_bytes([0x4e; 32]);

impl Network for Members {
    fn id(&self) -> NetworkId {
        NETWORK
    }

    fn party(&self, name: &Name) -> Option<Party> {
        self.parties.iter().find(|party| party.name == *name).cloned()
    }

    fn parties(&self) -> Vec<Name> {
        self.parties.iter().map(|party| party.name.clone()).collect()
    }

    fn notaries(&self) -> Notaries {
        Notaries { current: self.notaries.clone(), former: Vec::new() }
    }

    fn transaction_limit(&self) -> u64 {
        u64::MAX
    }

    fn is_certified(&self, party: &Party) -> bool {
        self.parties.contains(party)
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.party(name).map(|party| party.key).into_iter().collect()
    }

    fn name_of(&self, key: &PublicKey) -> Option<Name> {
        self.parties.iter().find(|party| party.key == *key).map(|party| party.name.clone())
    }
}

/// The key of an institution, the same in every run.
pub(crate) fn key(organisation: &str) -> SigningKey {
    let secret = tally_crypto::hash(organisation.as_bytes());
    SigningKey::from_secret(Scheme::Ed25519, secret.as_bytes()).expect("any bytes are an Ed25519 key")
}

pub(crate) fn party(organisation: &str) -> Party {
    Party {
        name: Name::new(organisation, "London", "GB").expect("a name"),
        key: key(organisation).public_key(),
    }
}

/// The key of an institution's notary service.
pub(crate) fn notary_key(organisation: &str) -> SigningKey {
    key(&format!("{organisation}, notary service"))
}

/// The notary service of an institution, as the network names it.
pub(crate) fn service(organisation: &str) -> Party {
    Party { key: notary_key(organisation).public_key(), ..party(organisation) }
}

pub(crate) struct Machine {
    pub(crate) me: Party,
    /// Its notary service, as the network would name it.
    pub(crate) service: Party,
    key: SigningKey,
    notary_key: SigningKey,
    pub(crate) disk: Arc<Disk>,
    clock: SimClock,
    skew_ms: Arc<AtomicI64>,
    pub(crate) core: Option<Core>,
    pub(crate) tray: Arc<Tray>,
    /// What those who track the vault were told.
    changes: Arc<Mutex<Vec<VaultChange>>>,
    pub(crate) lives: u64,
}

impl Machine {
    pub(crate) fn new(organisation: &str, disk: Disk, clock: SimClock) -> Self {
        Self {
            me: party(organisation),
            service: service(organisation),
            key: key(organisation),
            notary_key: notary_key(organisation),
            disk: Arc::new(disk),
            clock,
            skew_ms: Arc::default(),
            core: None,
            tray: Arc::default(),
            changes: Arc::default(),
            lives: 0,
        }
    }

    /// The time as this node sees it.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(
            self.clock.now_ms().saturating_add_signed(self.skew_ms.load(Ordering::Relaxed)),
        )
    }

    pub(crate) fn skew(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    /// Starts the process.
    ///
    /// # Errors
    /// The disk fails, as it was told to.
    pub(crate) fn start(
        &mut self,
        members: &Arc<Members>,
        registry: Registry,
        limits: &Limits,
        queue_bytes: u64,
        entropy: [u8; 32],
    ) -> Result<(), OpenError> {
        assert!(self.core.is_none(), "a node runs once");
        let (clock, skew_ms) = (self.clock.clone(), self.skew_ms.clone());
        let rates_clock = clock.clone();
        let parts = Parts {
            me: self.me.clone(),
            key: self.key.clone(),
            former: Vec::new(),
            notary_key: Some(self.notary_key.clone()),
            contracts: Arc::new(Contracts::shipped()),
            store: self.disk.clone(),
            network: members.clone(),
            clock: Arc::new(move || {
                Timestamp::from_millis(clock.now_ms().saturating_add_signed(skew_ms.load(Ordering::Relaxed)))
            }),
            rates: Arc::new(move |base, quote| {
                let billionths = rate(base, quote)?;
                Some(Rate { billionths, as_of: Timestamp::from_millis(rates_clock.now_ms()) })
            }),
            entropy,
            queue_bytes,
            policy: policy(&members.parties),
            patience: Duration::from_secs(5),
        };
        let core = Core::open(parts, registry, limits.clone(), Meters::unread())?;
        core.join(self.tray.clone());
        let changes = self.changes.clone();
        core.track(move |change| {
            changes.lock().unwrap_or_else(PoisonError::into_inner).push(change.clone());
            true
        });
        self.core = Some(core);
        self.lives += 1;
        Ok(())
    }

    /// Whoever tracks the vault is told of what is durable, and as it is.
    pub(crate) fn check_changes(&self) {
        let changes = std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        let audit = self.disk.audit();
        for change in changes {
            let recorded =
                audit.recorded.get(&change.transaction).expect("a change is told once it is durable");
            let transaction = recorded.transaction();
            assert_eq!(change.consumed, transaction.inputs(), "what {} consumed", change.transaction);
            for produced in change.produced {
                let found = transaction.output(produced.index).expect("an output that is told is there");
                assert_eq!(found.state, produced.state, "what {} produced", change.transaction);
            }
        }
    }

    /// The process is gone, whatever it was doing.
    pub(crate) fn crash(&mut self) {
        self.core = None;
        self.tray.take();
        self.disk.close();
    }
}

/// What the oracle knows: one unit of `base` in billionths of `quote`.
pub(crate) fn rate(base: &str, quote: &str) -> Option<u64> {
    match (base, quote) {
        ("EUR", "USD") => Some(1_087_654_321),
        ("USD", "EUR") => Some(919_409_776),
        ("GBP", "USD") => Some(1_270_000_000),
        ("GBP", "EUR") => Some(1_167_650_405),
        _ => None,
    }
}
