//! What a request id starts, and what it refuses.

use tally_flows::{Context, Flow, FlowError};

use super::*;
use crate::testing::{Nobody, parts};

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
    let parts = parts(directory, Arc::new(Nobody));
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
