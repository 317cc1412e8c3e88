//! The methods over a chain through every fork (execution-apis' rpc-compat), and over one of validators.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tally_chain::node::Options as NodeOptions;
use tally_chain::{Chain, Node, Options, files};
use tally_consensus::{Config, Protocol};
use tally_evm::Genesis;
use tally_peers::Permissions;
use tally_state::Database;

use super::*;
use crate::server::{CallContext, Place as Thread};

mod cases;
mod methods;
mod openrpc;
mod qbft;
mod simulate;
mod subscriptions;
mod traces;

fn reference(name: &str) -> Option<PathBuf> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/ethereum").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// A node's methods, without a server.
struct Client {
    node: Node,
    registry: Registry,
}

impl Client {
    fn over(genesis: &str, blocks: &[u8]) -> Self {
        let genesis = Genesis::parse(genesis).unwrap();
        let chain = Chain::open(Database::in_memory(), genesis, Options::default()).unwrap();
        if !blocks.is_empty() {
            files::import(&chain, blocks, 2, &mut |_| ()).unwrap();
        }
        let network_id = chain.chain_id();
        let options = NodeOptions {
            pool: tally_chain::pool::Limits::default(),
            engine: Config::new(Protocol::QBFT),
            keys: None,
            permissions: Permissions::everyone(),
            target_gas_limit: None,
            threads: 1,
            sync: tally_chain::node::Sync::Full,
        };
        let node = Node::start(chain, None, options).unwrap();
        let registry = registry(node.clone(), Settings::new("tally/test".into(), network_id));
        Self { node, registry }
    }

    /// The chain of the rpc-compat suite.
    fn reference() -> Option<Self> {
        let directory = reference("rpc-compat")?;
        let genesis = std::fs::read_to_string(directory.join("genesis.json")).unwrap();
        let blocks = std::fs::read(directory.join("chain.rlp")).unwrap();
        Some(Self::over(&genesis, &blocks))
    }

    /// The `result` or `error` of a call.
    fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let text = params.to_string();
        let handler = self.registry.get(method).unwrap_or_else(|| panic!("there is no {method}"));
        let stop = AtomicBool::new(false);
        let deadline = Instant::now() + Duration::from_secs(60);
        let context = |place| CallContext::new(place, deadline, 64 << 20, &stop);
        let params = if params.is_null() { Params::new(None) } else { Params::new(Some(&text)) };
        let mut out = Vec::new();
        let mut result = handler(params, &mut out, &context(Thread::Inline));
        if matches!(&result, Err(error) if error.is_costly()) {
            out.clear();
            result = handler(params, &mut out, &context(Thread::Pool));
        }
        result?;
        let parsed = serde_json::from_slice(&out);
        Ok(parsed.unwrap_or_else(|error| panic!("{method}: {error}: {}", String::from_utf8_lossy(&out))))
    }

    fn ok(&self, method: &str, params: &Value) -> Value {
        self.call(method, params).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    fn code(&self, method: &str, params: &Value) -> i32 {
        match self.call(method, params) {
            Ok(result) => panic!("{method} {params} gave {result}"),
            Err(error) => error.code,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.node.stop();
    }
}
