//! `tally chain init DIR`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::U256;
use tally_chain::setup::{self, Made, NewestFork, Plan};
use tally_consensus::Protocol;

use crate::command::{Ended, print};

/// What validators agree by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Consensus {
    Qbft,
    Ibft2,
}

/// The newest fork of a network.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ForkName {
    Cancun,
    Prague,
    Osaka,
}

/// Arguments of `tally chain init`.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::command) struct Init {
    /// Directory to make
    directory: PathBuf,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
}

/// What network to make.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct NetworkArguments {
    /// Nodes that are validators
    #[arg(long, default_value_t = 4)]
    validators: usize,
    /// Nodes that only follow the chain, and serve clients
    #[arg(long, default_value_t = 0)]
    followers: usize,
    /// What validators agree by
    #[arg(long, value_enum, default_value = "qbft")]
    consensus: Consensus,
    /// Newest fork in force; osaka caps a transaction's gas at 16777216 (EIP-7825), the others at a block's
    #[arg(long, value_enum, default_value = "prague")]
    fork: ForkName,
    /// Identifier of the chain (EIP-155)
    #[arg(long, default_value_t = 1337)]
    chain_id: u64,
    /// Seconds from block to block
    #[arg(long, default_value_t = 2)]
    block_period_seconds: u64,
    /// Seconds that a round of consensus lasts at first
    #[arg(long, default_value_t = 4)]
    request_timeout_seconds: u64,
    /// Gas limit of a block
    #[arg(long, default_value_t = 100_000_000)]
    gas_limit: u64,
    /// Accounts that have money from the start [default: 1, and 10 in `devnet`]
    #[arg(long)]
    pub(super) accounts: Option<usize>,
    /// Address at which the nodes reach each other; clients are served on the loopback interface
    #[arg(long, default_value = "127.0.0.1")]
    p2p_host: IpAddr,
    /// Port of the first node for peers; the others have the next ones
    #[arg(long)]
    p2p_port: Option<u16>,
    /// Port of the first node for calls over HTTP
    #[arg(long)]
    rpc_http_port: Option<u16>,
    /// Port of the first node for calls over WebSocket
    #[arg(long)]
    rpc_ws_port: Option<u16>,
    /// Ports that are free now, instead of the usual ones
    #[arg(long)]
    free_ports: bool,
}

impl NetworkArguments {
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut plan = Plan::new(now);
        plan.validators = self.validators;
        plan.followers = self.followers;
        plan.protocol = match self.consensus {
            Consensus::Qbft => Protocol::QBFT,
            Consensus::Ibft2 => Protocol::Ibft2,
        };
        plan.fork = match self.fork {
            ForkName::Cancun => NewestFork::Cancun,
            ForkName::Prague => NewestFork::Prague,
            ForkName::Osaka => NewestFork::Osaka,
        };
        plan.chain_id = self.chain_id;
        plan.block_period_seconds = self.block_period_seconds;
        plan.request_timeout_seconds = self.request_timeout_seconds;
        plan.gas_limit = self.gas_limit;
        plan.accounts = self.accounts.unwrap_or(plan.accounts);
        plan.balance = U256::from(1) << 90;
        plan.host = self.p2p_host;
        if self.free_ports {
            let step = u16::try_from(self.validators.saturating_add(self.followers))?;
            let first = tally_ops::ports::free_run(step.saturating_mul(3))?;
            plan.p2p_port = first;
            plan.http_port = first + step;
            plan.ws_port = first + 2 * step;
        }
        plan.p2p_port = self.p2p_port.unwrap_or(plan.p2p_port);
        plan.http_port = self.rpc_http_port.unwrap_or(plan.http_port);
        plan.ws_port = self.rpc_ws_port.unwrap_or(plan.ws_port);
        Ok(plan)
    }
}

impl Init {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let made = setup::init(self.network.plan()?, &self.directory)?;
        show(&made);
        Ok(Ended::Well)
    }
}

/// Says what was made.
pub(super) fn show(made: &Made) {
    print::line(&format!("genesis {}", made.genesis_file.display()));
    print::line(&format!(
        "fork {}: gas of a block at most {}, of a transaction at most {}",
        made.fork.fork(),
        made.gas_limit,
        made.fork.transaction_gas_limit(made.gas_limit)
    ));
    for node in &made.nodes {
        let role = if node.validator { "validator" } else { "follower" };
        print::line(&format!(
            "{role} {} {} http={} ws={}",
            node.address,
            node.directory.display(),
            node.http_port,
            node.ws_port
        ));
    }
    for account in &made.accounts {
        print::line(&format!("account {} {}", account.address, account.keystore.display()));
    }
    print::line(&format!("password {}", made.password_file.display()));
}
