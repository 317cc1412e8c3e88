//! The methods of an Ethereum client, over a node.
//!
//! One module for each family. Every method reads its parameters, asks the node, and writes its result into the
//! answer; what may take long says so first ([`CallContext::costly`]).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use tally_chain::blocks::{LogLimits, ReadError, SealedHeader};
use tally_chain::chain::Reader;
use tally_chain::{BlockId, Chain, ChainError, Node};
use tally_evm::call::{CallError, Limits, Place};
use tally_state::View;

use crate::error::{INTERNAL_ERROR, PRUNED_HISTORY, RpcError, SERVER_ERROR, TIMED_OUT};
use crate::params::{BlockChoice, BlockName, Params};
use crate::server::{CallContext, Registry};

mod admin;
mod bft;
mod blocks;
mod client;
mod config;
mod debug;
mod execute;
mod fees;
mod fill;
mod filters;
mod logs;
mod state;
mod submit;
mod subscriptions;
mod testing;
mod transactions;
mod txpool;

#[cfg(test)]
mod tests;

/// The code of a block that the chain does not have yet or does not call so (execution-apis, schemas/block).
const UNKNOWN_BLOCK: i32 = -39001;

/// What the operator sets for methods.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What `web3_clientVersion` answers: `name/version/system/language`.
    pub client_version: String,
    /// What `net_version` answers.
    pub network_id: u64,
    /// Gas that a call may use, whatever it asks for (`rpc-gas-cap`).
    pub call_gas: u64,
    /// Instructions that one trace may have, those of a whole block together (`rpc-max-trace-steps`).
    pub trace_steps: u64,
    /// What a query for logs may cost (`rpc-max-logs-range`).
    pub logs: LogLimits,
    /// Blocks of one fee history.
    pub fee_history_blocks: u64,
    /// Filters in all; one more is refused.
    pub filters: usize,
    /// How long a filter is kept that nobody asks.
    pub filter_idle: Duration,
}

impl Settings {
    /// Defaults for a network.
    #[must_use]
    pub fn new(client_version: String, network_id: u64) -> Self {
        Self {
            client_version,
            network_id,
            call_gas: 50_000_000,
            trace_steps: 100_000_000,
            logs: LogLimits { blocks: 5_000, logs: 20_000 },
            fee_history_blocks: 1_024,
            filters: 10_000,
            filter_idle: Duration::from_secs(600),
        }
    }
}

/// What all methods share.
pub(crate) struct Api {
    node: Node,
    settings: Settings,
    filters: filters::Filters,
    /// The tip that was suggested after a block.
    tip: Mutex<Option<(B256, u128)>>,
}

type Answer = Result<(), RpcError>;

/// The methods of a node.
#[must_use]
pub fn registry(node: Node, settings: Settings) -> Registry {
    let filters = filters::Filters::new(settings.filters, settings.filter_idle);
    let api = Arc::new(Api { node, settings, filters, tip: Mutex::new(None) });
    let mut registry = Registry::new();
    let mut methods = Methods { registry: &mut registry, api: &api };
    client::register(&mut methods);
    blocks::register(&mut methods);
    transactions::register(&mut methods);
    state::register(&mut methods);
    execute::register(&mut methods);
    fees::register(&mut methods);
    config::register(&mut methods);
    fill::register(&mut methods);
    logs::register(&mut methods);
    filters::register(&mut methods);
    submit::register(&mut methods);
    txpool::register(&mut methods);
    debug::register(&mut methods);
    admin::register(&mut methods);
    bft::register(&mut methods);
    testing::register(&mut methods);
    registry.set_subscriptions(subscriptions::Hub::start(&api.node));
    registry
}

/// Adds methods that share an [`Api`].
struct Methods<'a> {
    registry: &'a mut Registry,
    api: &'a Arc<Api>,
}

impl Methods<'_> {
    fn add<M>(&mut self, name: &str, method: M)
    where
        M: for<'a> Fn(&Api, Params<'a>, &mut Vec<u8>, &CallContext<'a>) -> Answer + Send + Sync + 'static,
    {
        let api = self.api.clone();
        self.registry.add(name, move |params, out, context| method(&api, params, out, context));
    }

    fn add_waiting<M>(&mut self, name: &str, method: M)
    where
        M: for<'a> Fn(&Api, Params<'a>, &mut Vec<u8>, &CallContext<'a>) -> Answer + Send + Sync + 'static,
    {
        let api = self.api.clone();
        self.registry.add_waiting(name, move |params, out, context| method(&api, params, out, context));
    }
}

/// A block that was found, with the chain as of then.
struct Found {
    reader: Reader,
    header: Arc<SealedHeader>,
}

impl Found {
    fn number(&self) -> u64 {
        self.header.header.number
    }

    /// The state after the block.
    fn state(&self) -> Result<View, RpcError> {
        self.reader.state(self.number()).map_err(chain_error)
    }
}

impl Api {
    fn chain(&self) -> &Chain {
        self.node.chain()
    }

    /// Which block a name means.
    fn named(&self, reader: &Reader, name: BlockName) -> Result<BlockId, RpcError> {
        Ok(match name {
            BlockName::Number(number) => BlockId::Number(number),
            BlockName::Latest | BlockName::Pending => BlockId::Latest,
            BlockName::Earliest => BlockId::Number(0),
            BlockName::Safe | BlockName::Finalized => {
                // Before the merge nothing is final but the first block.
                let final_already =
                    self.chain().sealed().is_some() || reader.head().sealed().header.difficulty.is_zero();
                if !final_already {
                    return Err(RpcError::new(UNKNOWN_BLOCK, "Unknown block"));
                }
                BlockId::Latest
            }
        })
    }

    fn chosen(&self, reader: &Reader, choice: BlockChoice) -> Result<BlockId, RpcError> {
        match choice {
            BlockChoice::Name(name) => self.named(reader, name),
            BlockChoice::Hash(hash) => Ok(BlockId::Hash(hash)),
        }
    }

    /// A block that may not exist.
    fn look_up(&self, choice: BlockChoice) -> Result<Option<Found>, RpcError> {
        let reader = self.chain().reader();
        let id = self.chosen(&reader, choice)?;
        Ok(reader.header(id).map_err(read_error)?.map(|header| Found { reader, header }))
    }

    /// A block that must exist for the method to make sense.
    fn find(&self, choice: BlockChoice) -> Result<Found, RpcError> {
        self.look_up(choice)?.ok_or_else(|| {
            RpcError::server(match choice {
                BlockChoice::Hash(_) => "header for hash not found",
                BlockChoice::Name(_) => "header not found",
            })
        })
    }

    /// Executes in a block, over the state after it.
    fn execute<T>(
        &self,
        found: &Found,
        context: &CallContext<'_>,
        work: impl FnOnce(&Place<'_, View>) -> T,
    ) -> Result<T, RpcError> {
        let env = self.chain().environment(&found.header.header);
        let hashes = found.reader.hashes();
        let place = Place {
            schedule: self.chain().schedule(),
            env: &env,
            state: found.state()?,
            hashes: &*hashes,
            codes: Some(self.chain().codes()),
            limits: Limits { gas: self.settings.call_gas, stop: Some(context.stop()) },
        };
        Ok(work(&place))
    }
}

/// The store failed, or a record is damaged: nothing that the caller can help.
fn read_error(error: ReadError) -> RpcError {
    internal(&error)
}

fn internal(error: &(dyn std::error::Error + 'static)) -> RpcError {
    tracing::error!(error, "a call failed");
    let mut text = format!("Internal error: {error}");
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    RpcError::new(INTERNAL_ERROR, text)
}

fn chain_error(error: ChainError) -> RpcError {
    match error {
        ChainError::State(kept @ tally_state::Error::NotKept { .. }) => {
            RpcError::new(PRUNED_HISTORY, format!("Pruned history unavailable: {kept}"))
        }
        ChainError::Pruned { .. } => {
            RpcError::new(PRUNED_HISTORY, format!("Pruned history unavailable: {error}"))
        }
        other => internal(&other),
    }
}

fn state_error(error: tally_state::Error) -> RpcError {
    match error {
        tally_state::Error::NotKept { .. } => {
            RpcError::new(PRUNED_HISTORY, format!("Pruned history unavailable: {error}"))
        }
        other => internal(&other),
    }
}

/// A call that could not be made, or failed with all the gas there is.
fn call_error(error: CallError) -> RpcError {
    match &error {
        CallError::Failed(failure) => failure_error(failure),
        CallError::Stopped => RpcError::new(TIMED_OUT, "request timed out"),
        CallError::State(_) => internal(&error),
        _ => RpcError::new(SERVER_ERROR, error.to_string()),
    }
}

/// Code that failed.
fn failure_error(failure: &tally_evm::call::Failure) -> RpcError {
    // Clients tell a revert by its number; everything else that code can do wrong has the general one.
    let code = if failure.data().is_some() { failure.code() } else { SERVER_ERROR };
    let error = RpcError::new(code, failure.to_string());
    match failure.data() {
        Some(data) => {
            let mut text = Vec::new();
            crate::write::data(&mut text, data);
            error.with_data(String::from_utf8(text).unwrap_or_default())
        }
        None => error,
    }
}
