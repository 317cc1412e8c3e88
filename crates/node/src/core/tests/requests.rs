//! What a request id starts, and what it refuses.

use tally_contracts::{Contracts, NetworkId, PublicKey, Scheme, SigningKey};
use tally_flows::{Context, Flow, FlowError, Notary};
use tally_store::{Sqlite, SqliteOptions};

use super::*;
use crate::Network;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

struct Nobody;

impl Network for Nobody {
    fn id(&self) -> NetworkId {
        NetworkId::from_bytes([0x4e; 32])
    }

    fn is_certified(&self, _: &Party) -> bool {
        true
    }

    fn party(&self, _: &Name) -> Option<Party> {
        None
    }

    fn notaries(&self) -> Vec<Notary> {
        Vec::new()
    }

    fn parties(&self) -> Vec<Name> {
        Vec::new()
    }

    fn name_of(&self, _: &PublicKey) -> Option<Name> {
        None
    }
}

/// Says how much it was asked to pay.
struct Pay;

#[derive(borsh::BorshSerialize, borsh::BorshDeserialize, serde::Deserialize)]
struct Amount {
    amount: u64,
}

impl Flow for Pay {
    const NAME: &'static str = "Pay";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Amount;
    type Output = u64;

    async fn run(_: Context, arguments: Amount) -> Result<u64, FlowError> {
        Ok(arguments.amount)
    }
}

/// Another flow with the same arguments.
struct Give;

impl Flow for Give {
    const NAME: &'static str = "Give";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Amount;
    type Output = u64;

    async fn run(_: Context, arguments: Amount) -> Result<u64, FlowError> {
        Ok(arguments.amount)
    }
}

fn core(directory: &std::path::Path) -> Core {
    let key = SigningKey::from_secret(Scheme::Ed25519, &[1; 32]).expect("a key");
    let name = Name::new("PartyA", "London", "GB").expect("a name");
    let store = Sqlite::open(&SqliteOptions::new(directory.join("node.db"))).expect("a database");
    let parts = Parts {
        me: Party { name, key: key.public_key() },
        key,
        notary_key: None,
        contracts: Arc::new(Contracts::shipped()),
        store: Arc::new(store),
        network: Arc::new(Nobody),
        clock: Arc::new(|| NOW),
        rates: Arc::new(|_, _| None),
        entropy: [1; 32],
        queue_bytes: 1 << 20,
        policy: tally_protocols::consent::Policy::default(),
        patience: std::time::Duration::ZERO,
    };
    let registry = Registry::new().flow::<Pay>().flow::<Give>();
    Core::open(parts, registry, Limits::default(), Meters::unread()).expect("a node")
}

fn request(user: &str, flow: &str, amount: u64) -> Request {
    Request {
        user: user.to_owned(),
        request: Some("payment-1".to_owned()),
        flow: flow.to_owned(),
        arguments: borsh::to_vec(&Amount { amount }).expect("bytes"),
    }
}

/// The same request is the same start; any other one under its id is refused and starts nothing.
fn is_told_apart(core: &Core, first: FlowId) {
    let before = core.engine().len();
    assert_eq!(core.start(request("alice", "Pay", 5)).expect("the same start"), (first, Started::Before));
    for (flow, amount) in [("Pay", 6), ("Give", 5)] {
        match core.start(request("alice", flow, amount)) {
            Err(Unavailable::Reused { id, flow, version: 1, .. }) => {
                assert_eq!((id, flow.as_str()), (first, "Pay"));
            }
            other => panic!("{flow} {amount} under the id of Pay 5: {other:?}"),
        }
    }
    assert_eq!(core.engine().len(), before);
}

#[test]
fn a_request_id_is_refused_for_another_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = {
        let core = core(directory.path());
        let (first, started) = core.start(request("alice", "Pay", 5)).expect("a start");
        assert_eq!(started, Started::New);
        // While it runs, while its end is not durable, and once it is.
        is_told_apart(&core, first);
        assert!(core.turn());
        is_told_apart(&core, first);
        assert!(core.commit().expect("a commit"));
        assert!(!core.engine().holds(first));
        is_told_apart(&core, first);
        first
    };
    // After a restart.
    let core = core(directory.path());
    is_told_apart(&core, first);
}

#[test]
fn a_request_id_belongs_to_its_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let core = core(directory.path());
    let (alices, _) = core.start(request("alice", "Pay", 5)).expect("a start");
    let (bobs, started) = core.start(request("bob", "Pay", 6)).expect("a start");
    assert_eq!(started, Started::New);
    assert_ne!(alices, bobs);
    is_told_apart(&core, alices);
}
