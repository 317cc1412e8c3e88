//! A network's first hour: its files, its keys, its accounts and what is on them.

use crate::configuration::{
    AssetSection, Configuration, Genesis, HttpSection, MessagesSection, NetworkSection, ParticipantSection,
};
use crate::connection::now;
use crate::layout::Layout;
use crate::passphrase::{self, Passphrase};
use crate::plan::{Plan, PlannedAccount};
use crate::{access, certificates, keys, references};
use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;
use tally_crypto::keystore::ScryptCost;
use tally_crypto::{Hash, PublicKey, SigningKey};
use tally_gateway::settings::TlsSection;
use tally_gateway::{random, random_uetr};
use tally_ledger::order::AccountAction;
use tally_ledger::transaction::{Kind, Terms};
use tally_ledger::{
    AccountId, AccountNumber, AccountOrder, Amount, AssetKind, Leg, Network, NetworkId, SignaturePolicy,
    Transaction,
};
use tally_settlement::engine::{Engine, EngineOptions, Outcome, route};
use tally_settlement::path;

/// For how long references are remembered unless `network.toml` is changed: a day.
const LONGEST_VALIDITY_MS: u64 = 24 * 60 * 60 * 1000;
/// For how long a transaction of the opening is valid.
const VALIDITY_MS: u64 = 60 * 60 * 1000;
/// How long the opening may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Transactions that are handed in at once.
const AT_ONCE: usize = 10_000;

/// Makes a network in an empty directory.
pub(crate) struct Opening<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) plan: &'a Plan,
    pub(crate) passphrase: Option<Passphrase>,
    pub(crate) cost: ScryptCost,
    /// Which transactions need their payers' signatures.
    pub(crate) signatures: SignaturePolicy,
    /// Host names and addresses of gateways that serve TLS; none without TLS.
    pub(crate) tls: &'a [String],
}

/// What was made.
pub(crate) struct Opened {
    pub(crate) network: NetworkId,
    pub(crate) generated_passphrase: bool,
}

impl Opening<'_> {
    pub(crate) fn make(self) -> anyhow::Result<Opened> {
        let layout = Layout::new(self.directory);
        for directory in [layout.institution_keys(), layout.customer_keys()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let generated_passphrase = self.passphrase.is_none();
        let passphrase = match &self.passphrase {
            Some(passphrase) => passphrase.clone(),
            None => passphrase::generate(&layout.passphrase())?,
        };

        let mut institutions = Vec::new();
        for participant in &self.plan.participant {
            let directory = layout.institution_keys();
            institutions.push(keys::create(&directory, &participant.bic, &passphrase, self.cost)?);
        }
        let mut owners: HashMap<&str, PublicKey> = HashMap::new();
        for account in self.plan.account.iter().filter(|account| !account.is_owned_by_institution()) {
            if !owners.contains_key(account.key_name()) {
                let key = keys::create(&layout.customer_keys(), account.key_name(), &passphrase, self.cost)?;
                owners.insert(account.key_name(), key.public_key());
            }
        }

        let configuration = self.configuration(&layout, &institutions)?;
        access::establish(&layout, &configuration)?;
        references::of_network(&layout, &configuration)?;
        let network = configuration.network()?;
        let id = network.id;
        let options = EngineOptions::new(layout.root().to_owned(), network.clone(), institutions.clone());
        let schedulers = options.schedulers;
        let opening = Books { plan: self.plan, network, institutions: &institutions, owners, schedulers };
        let engine = Engine::open(options)?;
        opening.write(&engine)?;
        engine.stop(PATIENCE)?;
        Ok(Opened { network: id, generated_passphrase })
    }

    fn certificates(&self, layout: &Layout) -> anyhow::Result<Option<TlsSection>> {
        match self.tls {
            [] => Ok(None),
            hosts => certificates::establish(layout, hosts).map(Some),
        }
    }

    fn configuration(&self, layout: &Layout, institutions: &[SigningKey]) -> anyhow::Result<Configuration> {
        let participants = self
            .plan
            .participant
            .iter()
            .zip(institutions)
            .map(|(participant, key)| ParticipantSection {
                bic: participant.bic.clone(),
                name: participant.name.clone(),
                kind: participant.kind,
                key: key.public_key(),
                unidentified_account: participant.unidentified_account.clone(),
                credit: participant.credit.clone(),
            })
            .collect();
        let assets = self
            .plan
            .asset
            .iter()
            .map(|asset| AssetSection {
                code: asset.code.clone(),
                kind: asset.kind(),
                exponent: asset.exponent,
                settled_at: asset.settled_at.clone(),
                largest_payment: asset
                    .largest_payment
                    .clone()
                    .unwrap_or_else(|| Amount::MAX_LEG.display(asset.exponent).to_string()),
            })
            .collect();
        let mut configuration = Configuration {
            network: NetworkSection {
                // Known when the genesis file is.
                id: NetworkId::default(),
                signatures: self.signatures,
                longest_validity_ms: LONGEST_VALIDITY_MS,
            },
            messages: MessagesSection::default(),
            http: HttpSection { tls: self.certificates(layout)?, ..HttpSection::default() },
            participants,
            assets,
            earlier: Vec::new(),
        };
        let genesis = format!("{GENESIS_HEAD}{}", toml::to_string(&configuration.genesis())?);
        write(&layout.genesis(), &genesis)?;
        configuration.network.id = Genesis::network_id(genesis.as_bytes());
        write(&layout.configuration(), &format!("{CONFIGURATION_HEAD}{}", toml::to_string(&configuration)?))?;
        Ok(configuration)
    }
}

const GENESIS_HEAD: &str =
    "# What the network began with. Never edit this file: its hash is the network's id.\n\n";
const CONFIGURATION_HEAD: &str = "# The network's configuration. It is read at each start of `tally network run`.\n\
    # Participants and assets are only ever added, at the end; limits and credit may be changed.\n\n";

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    File::create_new(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The transactions of the opening.
struct Books<'a> {
    plan: &'a Plan,
    network: Network,
    institutions: &'a [SigningKey],
    owners: HashMap<&'a str, PublicKey>,
    schedulers: usize,
}

impl Books<'_> {
    /// Opens accounts, then lets the settlement institutions issue, then the others.
    fn write(&self, engine: &Engine) -> anyhow::Result<()> {
        let (orders, numbers) = self.account_orders()?;
        submit(engine, orders).context("opening the accounts")?;
        submit(engine, self.reserves()?).context("issuing reserves")?;
        submit(engine, self.balances(&numbers)?).context("issuing opening balances")
    }

    fn terms(&self) -> anyhow::Result<Terms> {
        Ok(Terms {
            network: self.network.id,
            uetr: random_uetr()?,
            expiry: self.network.latest_expiry(now()).min(now().plus_ms(VALIDITY_MS)),
            details: Hash::ZERO,
            seed: random()?,
        })
    }

    fn participant(&self, bic: &str) -> anyhow::Result<tally_ledger::ParticipantId> {
        Ok(self.network.participant(bic).with_context(|| format!("no participant {bic}"))?.0)
    }

    fn account_orders(&self) -> anyhow::Result<(Vec<Transaction>, Vec<AccountNumber>)> {
        let mut next = vec![0u32; self.network.participants.len()];
        let (mut orders, mut numbers) = (Vec::new(), Vec::new());
        for account in &self.plan.account {
            let participant = self.participant(&account.institution)?;
            let (asset, _) = self.network.asset(&account.currency).context("checked with the plan")?;
            let number = AccountNumber(next[participant.index()]);
            next[participant.index()] += 1;
            let overdraft = account.overdraft.as_deref().unwrap_or("0");
            let floor = self.plan.amount(&account.currency, overdraft)?.checked_neg();
            let action = AccountAction::Open {
                count: 1,
                asset,
                owner: self.owner(account, participant)?,
                floor: floor.context("the overdraft does not fit")?,
                alias: account.name().to_owned(),
            };
            let order = AccountOrder { participant, number, action };
            // Accounts are numbered in the order in which they are opened, and only one scheduler keeps order.
            let mut terms = self.terms()?;
            while route(&terms.uetr, self.schedulers) != 0 {
                terms.uetr = random_uetr()?;
            }
            let mut transaction = Transaction::account(&terms, order);
            transaction.sign(&self.network.id, &self.institutions[participant.index()]);
            orders.push(transaction);
            numbers.push(number);
        }
        Ok((orders, numbers))
    }

    fn owner(
        &self,
        account: &PlannedAccount,
        participant: tally_ledger::ParticipantId,
    ) -> anyhow::Result<PublicKey> {
        if account.is_owned_by_institution() {
            return Ok(self.institutions[participant.index()].public_key());
        }
        self.owners.get(account.key_name()).copied().context("every owner has a key")
    }

    fn reserves(&self) -> anyhow::Result<Vec<Transaction>> {
        let mut issues = Vec::new();
        for participant in &self.plan.participant {
            let holder = self.participant(&participant.bic)?;
            for (code, amount) in &participant.reserves {
                let amount = self.plan.amount(code, amount)?;
                let (asset, properties) = self.network.asset(code).context("checked with the plan")?;
                if amount > Amount::ZERO {
                    let legs = path::issue_reserves(&self.network, holder, asset, amount);
                    issues.push(self.issue(properties.settled_at, legs)?);
                }
            }
        }
        Ok(issues)
    }

    /// A bank issues its customers' money itself. Their securities come from where these are settled: the
    /// depository issues them to the bank for the customer.
    fn balances(&self, numbers: &[AccountNumber]) -> anyhow::Result<Vec<Transaction>> {
        let mut issues = Vec::new();
        for (account, number) in self.plan.account.iter().zip(numbers) {
            let Some(opening) = &account.opening else { continue };
            let amount = self.plan.amount(&account.currency, opening)?;
            if amount == Amount::ZERO {
                continue;
            }
            let participant = self.participant(&account.institution)?;
            let (asset, properties) =
                self.network.asset(&account.currency).context("checked with the plan")?;
            let id = AccountId { participant, number: *number };
            let from_depository =
                properties.kind == AssetKind::Security && properties.settled_at != participant;
            let transaction = if from_depository {
                let mut legs = path::issue_reserves(&self.network, participant, asset, amount);
                if let Some(own) = legs.last_mut() {
                    own.account = *number;
                }
                self.issue(properties.settled_at, legs)?
            } else {
                self.issue(participant, path::issue(id, asset, amount))?
            };
            issues.push(transaction);
        }
        Ok(issues)
    }

    fn issue(&self, issuer: tally_ledger::ParticipantId, legs: Vec<Leg>) -> anyhow::Result<Transaction> {
        let mut transaction = Transaction::new(Kind::Issue, &self.terms()?, legs);
        transaction.sign(&self.network.id, &self.institutions[issuer.index()]);
        Ok(transaction)
    }
}

/// Hands transactions in and waits until every one of them is made.
fn submit(engine: &Engine, transactions: Vec<Transaction>) -> anyhow::Result<()> {
    for part in transactions.chunks(AT_ONCE) {
        let pending = engine.submit(part.to_vec())?;
        for (position, answer) in engine.wait(&pending, PATIENCE).into_iter().enumerate() {
            let made = matches!(&answer.outcome, Outcome::Final(finality) if finality.verdict.is_ok());
            ensure!(made, "transaction {} of the opening was not made: {:?}", position + 1, answer.outcome);
        }
    }
    Ok(())
}
