//! What kind of network a seed simulates.

use std::path::PathBuf;
use std::sync::OnceLock;
use tally_crypto::SigningKey;
use tally_ledger::{
    Amount, Asset, AssetId, AssetKind, Network, NetworkId, Participant, ParticipantId, SignaturePolicy,
};
use tally_log::Options;
use tally_settlement::engine::EngineOptions;
use tally_sim::Rng;

/// How long a reference is remembered: short, so that runs outlive it.
pub(crate) const VALIDITY_MS: u64 = 60_000;
/// The largest payment of every asset.
pub(crate) const LARGEST_PAYMENT: i64 = 1 << 60;
/// Keys of customers follow those of institutions.
pub(crate) const FIRST_CUSTOMER: usize = 8;
const KEYS: usize = 20;

/// The keys of everybody, the same in every run: making them takes longer than most steps.
pub(crate) fn keys() -> &'static [SigningKey] {
    static ALL: OnceLock<Vec<SigningKey>> = OnceLock::new();
    ALL.get_or_init(|| (1u8..).take(KEYS).map(|number| SigningKey::from_seed([number; 32])).collect())
}

/// A network and how it is run.
pub(crate) struct Plan {
    pub(crate) network: Network,
    pub(crate) schedulers: usize,
    remember: usize,
    topic_capacity: usize,
    journal: Options,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let banks = rng.between(1, 3);
        let with_depository = rng.chance(1, 2);
        let mut participants = vec![participant("CENTDEFF", 0)];
        for bank in 0..banks {
            participants
                .push(participant(&format!("BANK{}EFF", char::from(b'A' + low_byte(bank))), 1 + bank));
        }
        let mut assets = vec![asset("EUR", AssetKind::Currency, 0)];
        if rng.chance(2, 3) {
            // A correspondent bank may settle a foreign currency.
            let settled_at = if rng.chance(1, 2) { 0 } else { 1 };
            assets.push(asset("USD", AssetKind::Currency, settled_at));
        }
        if with_depository {
            let number = 1 + banks;
            participants.push(participant("DEPODEFF", number));
            assets.push(asset("DE0001102580", AssetKind::Security, low_byte(number)));
        }
        if rng.chance(1, 2) {
            participants[1].settlement_floors.push((AssetId(0), Amount(-500)));
        }
        let signatures = match rng.below(2) {
            0 => SignaturePolicy::Required,
            _ => SignaturePolicy::InstitutionsOnly,
        };
        let mut journal = [0; 16];
        rng.fill(&mut journal);
        let id = NetworkId(*tally_crypto::hash(&journal).as_bytes());
        let below = |rng: &mut Rng, low, high| usize::try_from(rng.between(low, high)).expect("small");
        Self {
            network: Network { id, participants, assets, signatures, longest_validity_ms: VALIDITY_MS },
            schedulers: below(rng, 1, 3),
            remember: if rng.chance(1, 8) { below(rng, 20, 60) } else { 1 << 16 },
            topic_capacity: below(rng, 1, 8),
            journal: Options {
                segment_bytes: rng.between(4 << 10, 64 << 10),
                max_pending_bytes: below(rng, 4 << 10, 64 << 10),
                tail_bytes: below(rng, 0, 64 << 10),
                journal: Some(journal),
                ..Options::default()
            },
        }
    }

    /// The network takes in one more bank, or one more currency: while it is down, as configuration.
    pub(crate) fn grow(&mut self, rng: &mut Rng) {
        let count = self.network.participants.len();
        if rng.chance(1, 2) && count < FIRST_CUSTOMER {
            let bic = format!("NEW{count}DEFF");
            self.network.participants.push(participant(&bic, count as u64));
        } else if self.network.assets.len() < 6 {
            let at = low_byte(rng.below(count as u64));
            let code = format!("X{:02}", self.network.assets.len());
            self.network.assets.push(asset(&code, AssetKind::Currency, at));
        }
    }

    pub(crate) fn options(&self, directory: PathBuf) -> EngineOptions {
        let institutions = keys()[..self.network.participants.len()].to_vec();
        let mut options = EngineOptions::new(directory, self.network.clone(), institutions);
        options.schedulers = self.schedulers;
        options.workers = 1;
        options.remember = self.remember;
        options.snapshot_every = None;
        options.topic_capacity = self.topic_capacity;
        options.journal = self.journal.clone();
        options
    }
}

fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

fn participant(bic: &str, number: u64) -> Participant {
    Participant {
        bic: bic.into(),
        name: format!("CN={bic}"),
        key: keys()[usize::from(low_byte(number))].public_key(),
        settlement_floors: Vec::new(),
    }
}

fn asset(code: &str, kind: AssetKind, settled_at: u8) -> Asset {
    Asset {
        code: code.into(),
        kind,
        exponent: 2,
        settled_at: ParticipantId(u16::from(settled_at)),
        largest_payment: Amount(LARGEST_PAYMENT),
    }
}
