//! Which network a command talks to, and with which keys it signs.

use crate::client::Client;
use crate::configuration::Configuration;
use crate::keys::KeyRing;
use crate::layout::Layout;
use crate::{access, passphrase};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tally_gateway::account_name::account_number;
use tally_gateway::wire::OutcomeView;
use tally_gateway::{payments, random, random_uetr};
use tally_ledger::TransactionBatch;
use tally_ledger::transaction::{Kind, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, Leg, Network, ParticipantId, Timestamp, Transaction,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The variable of the environment that names the network's directory.
pub const NETWORK_VARIABLE: &str = "TALLY_NETWORK";

/// The variable of the environment that holds a token.
pub const TOKEN_VARIABLE: &str = "TALLY_TOKEN";

/// How long a transaction made on the command line may wait for its decision.
const VALIDITY_MS: u64 = 60_000;

/// `DIR/run.json`: the process that runs a network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunFile {
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether with TLS.
    #[serde(default)]
    pub tls: bool,
}

impl RunFile {
    /// Where its gateway answers.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Reads the file of a network.
    ///
    /// # Errors
    /// When the network does not run.
    pub fn read(layout: &Layout) -> anyhow::Result<Self> {
        let path = layout.run_file();
        let bytes = std::fs::read(&path).with_context(|| {
            let directory = layout.root().display();
            format!("the network in {directory} does not run; start it with `tally network run {directory}`")
        })?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} cannot be read", path.display()))
    }
}

/// Options of every command that talks to a running network.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectionArguments {
    /// Directory of the network [environment: TALLY_NETWORK]
    #[arg(long, value_name = "DIR", global = true)]
    pub network: Option<PathBuf>,
    /// URL of the network, where it is not the one in the directory
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// File with the token of the user who asks; else the network's own is taken [environment: TALLY_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Certificates of the authorities by which a gateway with TLS is known, in PEM form; else the network's own
    #[arg(long, value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// Directory that holds keys to sign with, beside those of the network, may be repeated; for `verify` the file of public
    /// keys
    #[arg(long, value_name = "DIR", global = true)]
    pub keys: Vec<PathBuf>,
    /// File whose first line is the keys' passphrase [environment: TALLY_PASSPHRASE]
    #[arg(long, value_name = "FILE", global = true)]
    pub passphrase_file: Option<PathBuf>,
}

/// A network that can be talked to.
#[derive(Debug)]
pub struct Connection {
    /// How to reach it.
    pub client: Client,
    /// Who takes part.
    pub network: Network,
    arguments: ConnectionArguments,
    layout: Option<Layout>,
}

impl ConnectionArguments {
    /// The options, as the command line has them.
    pub(crate) fn options() -> Vec<clap::Arg> {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("options"));
        command.get_arguments().cloned().collect()
    }

    /// The network's directory.
    ///
    /// # Errors
    /// When none is given.
    pub fn directory(&self) -> anyhow::Result<Layout> {
        self.layout().with_context(|| format!("which network? Give --network DIR, or set {NETWORK_VARIABLE}"))
    }

    fn layout(&self) -> Option<Layout> {
        let directory =
            self.network.clone().or_else(|| std::env::var_os(NETWORK_VARIABLE).map(PathBuf::from));
        directory.map(Layout::new)
    }

    /// Finds the network. With a directory, who takes part is what its configuration says; with only a URL, what
    /// the network itself says.
    ///
    /// # Errors
    /// When neither is given, or the network does not run.
    pub fn connect(&self) -> anyhow::Result<Connection> {
        let layout = self.layout();
        let url = self.find(layout.as_ref())?;
        let client =
            Client::new(&url, self.token(layout.as_ref())?, self.authorities(layout.as_ref()).as_deref())?;
        let network = match &layout {
            Some(layout) => Configuration::read(layout, &[])?.network()?,
            None => client.network()?.network,
        };
        Ok(Connection { client, network, arguments: self.clone(), layout })
    }
}

impl ConnectionArguments {
    /// Where the network answers.
    fn find(&self, layout: Option<&Layout>) -> anyhow::Result<String> {
        match (&self.url, layout) {
            (Some(url), _) => {
                let known = url.starts_with("http://") || url.starts_with("https://");
                ensure!(known, "--url: a URL such as https://gateway.example:8443 is wanted");
                Ok(url.clone())
            }
            (None, Some(layout)) => Ok(RunFile::read(layout)?.url()),
            (None, None) => {
                bail!("which network? Give --network DIR or --url URL, or set {NETWORK_VARIABLE}")
            }
        }
    }

    /// The token to come in with; none where nobody gave one.
    fn token(&self, layout: Option<&Layout>) -> anyhow::Result<Option<String>> {
        if let Some(file) = &self.token_file {
            return access::read_token(file).map(Some);
        }
        if let Ok(token) = std::env::var(TOKEN_VARIABLE) {
            return Ok(Some(token));
        }
        let own = layout.map(Layout::token).filter(|path| path.exists());
        own.map(|path| access::read_token(&path)).transpose()
    }

    /// Connects to the network's gateway over gRPC.
    ///
    /// # Errors
    /// When none is given, or it does not answer.
    pub async fn stream(&self) -> anyhow::Result<tally_gateway::grpc::Client> {
        let layout = self.layout();
        let url = self.find(layout.as_ref())?;
        let token = self.token(layout.as_ref())?;
        let authorities = self.authorities(layout.as_ref());
        let tls = authorities.as_deref().map(known_by).transpose()?;
        Ok(tally_gateway::grpc::Client::connect(&url, token.as_deref(), tls).await?)
    }

    fn authorities(&self, layout: Option<&Layout>) -> Option<PathBuf> {
        self.ca.clone().or_else(|| layout.map(Layout::tls_authority).filter(|path| path.exists()))
    }
}

impl Connection {
    /// The keys to sign with: those given, and those of the network's directory.
    ///
    /// # Errors
    /// When there is no passphrase or a directory cannot be read.
    pub fn keys(&self) -> anyhow::Result<KeyRing> {
        let mut directories = self.arguments.keys.clone();
        let file = self.arguments.passphrase_file.as_deref();
        let passphrase = match &self.layout {
            Some(layout) => {
                directories.push(layout.customer_keys());
                directories.push(layout.institution_keys());
                passphrase::of_network(layout, file)?
            }
            None => passphrase::given(file)?.with_context(|| {
                format!(
                    "the keys need their passphrase: set {} or give --passphrase-file",
                    passphrase::VARIABLE
                )
            })?,
        };
        ensure!(!directories.is_empty(), "no keys to sign with: give --keys DIR");
        KeyRing::open(&directories, passphrase)
    }

    /// The layout of the network's directory.
    ///
    /// # Errors
    /// When only a URL was given.
    pub fn layout(&self) -> anyhow::Result<&Layout> {
        self.layout.as_ref().context("this command needs the network's directory: give --network DIR")
    }

    /// The passphrase of the network's keys.
    ///
    /// # Errors
    /// When there is none.
    pub fn passphrase(&self) -> anyhow::Result<passphrase::Passphrase> {
        passphrase::of_network(self.layout()?, self.arguments.passphrase_file.as_deref())
    }

    /// The participant of that BIC.
    ///
    /// # Errors
    /// When there is none.
    pub fn participant(&self, bic: &str) -> anyhow::Result<ParticipantId> {
        let found = self.network.participant(bic);
        found.map(|(id, _)| id).with_context(|| format!("the network has no participant {bic}"))
    }

    /// The account that `BIC/ACCOUNT` names; see [`account_number`] for the second part.
    ///
    /// # Errors
    /// When there is no such account.
    pub fn account(&self, text: &str) -> anyhow::Result<AccountId> {
        let (bic, account) = text.split_once('/').with_context(|| {
            format!("'{text}': BIC/ACCOUNT is wanted, such as ALPHDEFF/DE20999000010000000001")
        })?;
        let participant = self.participant(bic)?;
        if let Some(number) = account_number(&self.network, account)
            && number.is_institution()
        {
            return Ok(AccountId { participant, number });
        }
        let number = AccountNumber(self.client.account(bic, account)?.number);
        Ok(AccountId { participant, number })
    }

    /// Terms of a new transaction with a random reference.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn terms(&self) -> anyhow::Result<Terms> {
        Ok(Terms {
            network: self.network.id,
            uetr: random_uetr()?,
            expiry: self.network.latest_expiry(now()).min(now().plus_ms(VALIDITY_MS)),
            details: tally_crypto::Hash::ZERO,
            seed: random()?,
        })
    }

    /// Signs legs with every key that they need, sends them and waits for the outcome.
    ///
    /// # Errors
    /// When a key is missing or the network cannot be reached.
    pub fn transact(&self, kind: Kind, legs: Vec<Leg>) -> anyhow::Result<OutcomeView> {
        let mut transaction = Transaction::new(kind, &self.terms()?, legs);
        let signers = self.signers(&transaction.legs)?;
        self.sign(&mut transaction, &signers)?;
        one(self.client.submit(&batch_of(&transaction)?)?.outcomes)
    }

    /// Whose signatures legs need.
    ///
    /// # Errors
    /// When the owner of an account cannot be asked for.
    pub fn signers(&self, legs: &[Leg]) -> anyhow::Result<Vec<tally_crypto::PublicKey>> {
        let mut owners = HashMap::new();
        for leg in legs.iter().filter(|leg| leg.amount.is_debit()) {
            if leg.account.role() == AccountRole::Customer {
                let account = AccountId { participant: leg.participant, number: leg.account };
                let bic = &self.network.participants[leg.participant.index()].bic;
                owners.insert(account, self.client.account(bic, &leg.account.0.to_string())?.owner);
            }
        }
        Ok(payments::signers(&self.network, legs, &|account| owners.get(&account).copied()))
    }

    /// Adds the signatures of those keys.
    ///
    /// # Errors
    /// When a key is missing or its passphrase wrong.
    pub fn sign(
        &self,
        transaction: &mut Transaction,
        signers: &[tally_crypto::PublicKey],
    ) -> anyhow::Result<()> {
        let mut keys = self.keys()?;
        for signer in signers {
            transaction.sign(&self.network.id, keys.signing_key(signer)?);
        }
        Ok(())
    }
}

/// A batch of one.
///
/// # Errors
/// When the transaction's header disagrees with its content.
pub fn batch_of(transaction: &Transaction) -> anyhow::Result<TransactionBatch> {
    let mut batch = TransactionBatch::default();
    ensure!(batch.push(transaction), "the transaction has more legs or signatures than its form can hold");
    Ok(batch)
}

/// The only outcome of a batch of one.
///
/// # Errors
/// When there is none or are more.
pub fn one(outcomes: Vec<OutcomeView>) -> anyhow::Result<OutcomeView> {
    let [outcome] = <[OutcomeView; 1]>::try_from(outcomes)
        .map_err(|outcomes| anyhow::anyhow!("one outcome was expected, {} came", outcomes.len()))?;
    Ok(outcome)
}

/// The time now.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A gateway with TLS is known by the authorities whose certificates are in that file, in PEM form.
fn known_by(authorities: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let place = || format!("{}: certificates in PEM form are wanted", authorities.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authorities).with_context(place)? {
        roots.add(certificate.with_context(place)?).with_context(place)?;
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
