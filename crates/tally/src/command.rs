//! The commands: one file each.

mod access;
mod account;
mod audit;
mod balance;
mod bench;
mod cancel;
mod chain;
mod evidence;
mod evm;
mod exchange;
mod flow;
mod issue;
mod network_apply;
mod network_authority;
mod network_hand_over;
mod network_init;
mod network_key;
mod network_keys;
mod network_map;
mod network_plan;
mod network_processes;
mod network_run;
mod network_status;
mod node;
mod pay;
mod print;
mod proof;
mod receipt;
mod redeem;
mod rpc;
mod stage;
mod statement;
mod status;
mod stream;
mod transfer;
mod vault;
mod verify;

use crate::connection::ConnectionArguments;
use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::io::Read as _;
use std::process::ExitCode;
use tally_ops::shutdown::Shutdown;
use tally_ops::telemetry;

/// Settlement and exchange of regulated money and assets
#[derive(Debug, Parser)]
#[command(name = "tally", version, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Log lines on standard error: a level, or target=level,… [environment: TALLY_LOG]
    #[arg(long, value_name = "FILTER", global = true)]
    log: Option<String>,
    /// Form of log lines: text or json
    #[arg(long, value_name = "FORMAT", global = true, default_value = "text")]
    log_format: telemetry::Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make, run and look at a network
    #[command(subcommand)]
    Network(NetworkCommand),
    /// Run a stage of settlement as a process of its own
    #[command(subcommand)]
    Stage(stage::StageCommand),
    /// Make and run a node
    #[command(subcommand)]
    Node(node::Node),
    /// Start, follow and tend flows of a node
    #[command(subcommand)]
    Flow(flow::Flow),
    /// Look at what a node holds
    #[command(subcommand)]
    Vault(vault::Vault),
    /// A node's information, network map and attachments
    #[command(subcommand)]
    Rpc(rpc::Rpc),
    /// Make and run an EVM chain and its nodes
    #[command(subcommand)]
    Chain(chain::Chain),
    /// Run EVM code and Ethereum's tests
    #[command(subcommand)]
    Evm(evm::Evm),
    /// Send ISO 20022 messages that move money (pain.001, pacs.008, pacs.009, pacs.004)
    Pay(pay::Pay),
    /// Ask for the cancellation of payments (camt.056)
    Cancel(cancel::Cancel),
    /// What became of a transaction
    Status(status::StatusOf),
    /// Proves what became of a transaction: prints and checks its receipt
    Receipt(receipt::ReceiptOf),
    /// Fetches the proof of a payment, which anybody can check offline: final, in its place, approved by whom
    Proof(proof::ProofOf),
    /// Checks a proof, or judges evidence of misconduct, without any network: 0 proven, 1 not proven, 2 unreadable
    Verify(verify::Verify),
    /// Looks on a network's topics for what somebody signed against itself, and writes it to files: 0 none, 1 some
    Evidence(evidence::EvidenceOf),
    /// What is on an account
    Balance(balance::Balance),
    /// The entries of an account, the newest first
    Statement(statement::Statement),
    /// Let users of institutions in, with roles, or no more
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Open, freeze, release, close an account, or set its limit
    #[command(subcommand)]
    Account(account::Account),
    /// Move an amount from one account to another
    Transfer(transfer::Transfer),
    /// Move an amount many times, over one stream of gRPC
    Stream(stream::Stream),
    /// Create a liability of an institution
    Issue(issue::Issue),
    /// Take a liability of an institution back
    Redeem(redeem::Redeem),
    /// Move several amounts, all or none: payment versus payment, delivery versus payment
    Exchange(exchange::Exchange),
    /// Check the logs of a network from outside, and sum its books
    Audit(audit::Audit),
    /// Measure this machine, each stage and the whole network
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// Commands that are not about a settlement network, and those of its options that mean something to them.
const OF_OTHERS: &[(&str, &[&str])] = &[
    ("node", &["passphrase_file"]),
    ("flow", &[]),
    ("vault", &[]),
    ("rpc", &[]),
    ("chain", &[]),
    ("evm", &[]),
];

impl Arguments {
    /// Reads the command line; ends the process with help, or with what is wrong.
    pub fn read() -> Self {
        Self::from_matches(Self::interface().get_matches())
    }

    /// The command line, without the options of settlement where a command is about something else.
    fn interface() -> clap::Command {
        let mut interface = Self::command();
        let options: Vec<clap::Arg> = ConnectionArguments::options();
        for (name, own) in OF_OTHERS {
            let foreign = options.iter().filter(|option| !own.contains(&option.get_id().as_str()));
            // An option that the command has itself is not inherited.
            interface = interface.mut_subcommand(name, |command| {
                foreign.fold(command, |command, option| command.arg(option.clone().hide(true)))
            });
        }
        interface
    }

    fn from_matches(matches: clap::ArgMatches) -> Self {
        let about_others = matches.subcommand_name().and_then(|name| {
            let (name, own) = OF_OTHERS.iter().find(|(of_others, _)| *of_others == name)?;
            let options = ConnectionArguments::options();
            let given = options.iter().find(|option| {
                let id = option.get_id().as_str();
                !own.contains(&id) && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
            })?;
            Some((name, given.get_long().unwrap_or_default().to_owned()))
        });
        if let Some((name, option)) = about_others {
            let text = format!("--{option} is about a settlement network; `tally {name}` does not take it");
            Self::command().error(clap::error::ErrorKind::ArgumentConflict, text).exit();
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
enum NetworkCommand {
    /// Make a network of nodes (--nodes), or a settlement network from a plan
    Init(network_init::Init),
    /// Run a network until SIGTERM
    Run(network_run::Run),
    /// Show a running network
    Status(network_status::Status),
    /// Topics, partitions and instances for a wanted rate
    Plan(network_plan::Plan),
    /// Make and check the topics that join the stages, and begin the network there
    Apply(network_apply::Apply),
    /// Make the directory of an institution that runs its own approver and updater
    HandOver(network_hand_over::HandOver),
    /// Make a key
    Key(network_key::Key),
    /// Write the public keys against which proofs are checked
    Keys(network_keys::PublicKeys),
    /// The network map of a network of nodes
    #[command(subcommand)]
    Map(network_map::Map),
    /// The authorities of a network of nodes: who takes part, and who no longer does
    #[command(subcommand)]
    Authority(network_authority::Authority),
}

/// How a command ended, if it did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// Everything that was asked for was done or answered.
    Well,
    /// Something that was asked for was refused.
    Refused,
}

/// Requests the shutdown when standard input ends, as it does when the process at its other end does.
fn stop_with_input(shutdown: Shutdown) -> anyhow::Result<()> {
    let wait = move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 64];
        while !matches!(input.read(&mut bytes), Ok(0) | Err(_)) {}
        shutdown.request();
    };
    std::thread::Builder::new()
        .name("input".to_owned())
        .spawn(wait)
        .map(drop)
        .context("cannot start the thread that reads standard input")
}

/// Runs the command and says how it ended: 0 well, 1 refused, 2 failed.
pub fn run(arguments: Arguments) -> ExitCode {
    // A node's threads ask for many small pieces at the same time, and would wait for each other.
    if !matches!(arguments.command, Command::Node(_) | Command::Chain(_)) {
        tally_ops::memory::share_one_heap();
    }
    let filter =
        // Where a command asks which log joins the stages, the word is its answer, and no filter.
        arguments.log.clone().filter(|log| !matches!(log.as_str(), "file" | "kafka")).or_else(|| std::env::var("TALLY_LOG").ok()).or_else(|| {
            match &arguments.command {
                Command::Chain(command) => command.log_filter(),
                _ => None,
            }
        });
    let connection = &arguments.connection;
    let ended = telemetry::init(filter.as_deref().unwrap_or("warn"), arguments.log_format)
        .map_err(anyhow::Error::from)
        .and_then(|()| match arguments.command {
            Command::Network(NetworkCommand::Init(command)) => command.run(connection),
            Command::Network(NetworkCommand::Run(command)) => command.run(connection),
            Command::Network(NetworkCommand::Status(command)) => command.run(connection),
            Command::Network(NetworkCommand::Plan(command)) => command.run(),
            Command::Network(NetworkCommand::Apply(command)) => command.run(),
            Command::Network(NetworkCommand::HandOver(command)) => command.run(connection),
            Command::Network(NetworkCommand::Key(command)) => command.run(connection),
            Command::Network(NetworkCommand::Keys(command)) => command.run(),
            Command::Network(NetworkCommand::Map(command)) => command.run(connection),
            Command::Network(NetworkCommand::Authority(command)) => command.run(connection),
            Command::Stage(command) => command.run(connection),
            Command::Node(command) => command.run(connection),
            Command::Flow(command) => command.run(),
            Command::Vault(command) => command.run(),
            Command::Rpc(command) => command.run(),
            Command::Chain(command) => command.run(),
            Command::Evm(command) => command.run(),
            Command::Pay(command) => command.run(connection),
            Command::Cancel(command) => command.run(connection),
            Command::Status(command) => command.run(connection),
            Command::Receipt(command) => command.run(connection),
            Command::Proof(command) => command.run(connection),
            Command::Verify(command) => command.run(connection),
            Command::Evidence(command) => command.run(),
            Command::Balance(command) => command.run(connection),
            Command::Statement(command) => command.run(connection),
            Command::Access(command) => command.run(connection),
            Command::Account(command) => command.run(connection),
            Command::Transfer(command) => command.run(connection),
            Command::Stream(command) => command.run(connection),
            Command::Issue(command) => command.run(connection),
            Command::Redeem(command) => command.run(connection),
            Command::Exchange(command) => command.run(connection),
            Command::Audit(command) => command.run(),
            Command::Bench(command) => command.run(),
        });
    match ended {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Refused) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::from(2)
        }
    }
}
