//! Who runs a network under test.

use std::sync::Arc;
use std::time::Duration;
use tally_crypto::SigningKey;
use tally_ledger::{
    AccountId, AccountNumber, Amount, Asset, AssetId, AssetKind, Network, NetworkId, Participant,
    ParticipantId, SignaturePolicy,
};
use tally_settlement::audit::{AuditOptions, audit};
use tally_settlement::desk::Settlement;
use tally_settlement::engine::{Engine, EngineOptions};

pub(crate) const NETWORK: NetworkId = NetworkId([78; 32]);
pub(crate) const EUR: AssetId = AssetId(0);
pub(crate) const CENTRAL: ParticipantId = ParticipantId(0);
pub(crate) const A: ParticipantId = ParticipantId(1);
pub(crate) const B: ParticipantId = ParticipantId(2);
pub(crate) const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

pub(crate) fn customer(bank: ParticipantId, number: u32) -> SigningKey {
    key(u8::try_from(bank.0).unwrap() * 10 + u8::try_from(number).unwrap() + 100)
}

pub(crate) fn id(participant: ParticipantId, number: u32) -> AccountId {
    AccountId { participant, number: AccountNumber(number) }
}

pub(crate) fn network() -> Network {
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
            settled_at: CENTRAL,
            largest_payment: Amount(1_000_000),
        }],
        signatures: SignaturePolicy::Required,
        longest_validity_ms: 3_600_000,
    }
}

/// Runs the stages of [`network`], and a desk.
pub(crate) trait Host: Sized {
    fn start() -> Self;
    fn desk(&self) -> &dyn Settlement;
    /// Ends what holds memory, as a crash would, and starts it again.
    fn crash(self) -> Self;
    /// Checks the journal, and the balances against it.
    fn audit(&self);
}

pub(crate) struct EngineHost {
    engine: Engine,
    directory: tempfile::TempDir,
}

impl EngineHost {
    fn open(directory: tempfile::TempDir) -> Self {
        let keys = vec![key(1), key(2), key(3)];
        let mut options = EngineOptions::new(directory.path().to_owned(), network(), keys);
        options.journal.segment_bytes = 1 << 20;
        options.snapshot_every = None;
        Self { engine: Engine::open(options).unwrap(), directory }
    }
}

impl Host for EngineHost {
    fn start() -> Self {
        Self::open(tempfile::tempdir().unwrap())
    }

    fn desk(&self) -> &dyn Settlement {
        &self.engine
    }

    fn crash(self) -> Self {
        let Self { engine, directory } = self;
        drop(engine);
        Self::open(directory)
    }

    fn audit(&self) {
        let options = AuditOptions { signatures: true };
        let report = audit(self.directory.path(), &Arc::new(network()), options).unwrap();
        assert_eq!(report.undecided, 0);
        assert_eq!(report.totals, self.engine.totals());
    }
}
