//! `tally network hand-over DIR OUT --institution BIC`: the directory from which an institution runs its own approver and updater.
//! It holds what everybody knows, the institution's own key and certificate, and nothing that is another's.

use super::network_init::all_or_nothing;
use super::network_run::institution_key;
use super::{Ended, print};
use crate::configuration::{Configuration, HttpSection, MessagesSection};
use crate::connection::ConnectionArguments;
use crate::flows_network::make;
use crate::layout::Layout as Directory;
use crate::name;
use crate::passphrase;
use crate::stages::{ClusterConfiguration, LayoutSection};
use anyhow::{Context, ensure};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tally_crypto::SigningKey;
use tally_crypto::keystore::{KeyFile, ScryptCost};
use tally_gateway::references::References;
use toml::{Table, Value};

/// The files of a certificate, and what cluster.toml's kafka.tls calls them.
const TLS: [(&str, &str); 3] = [("authority", "ca.crt"), ("certificate", "tls.crt"), ("key", "tls.key")];
/// Where they lie in a network's directory.
const TLS_DIRECTORY: &str = "tls";

/// Arguments of `tally network hand-over`.
#[derive(Debug, clap::Args)]
pub(super) struct HandOver {
    /// Directory of the network, with its cluster.toml
    directory: PathBuf,
    /// The institution's directory, which is made; must not exist
    out: PathBuf,
    /// The institution's BIC, which cluster.toml's [principals] names
    #[arg(long, value_name = "BIC", value_parser = name::bic_argument)]
    institution: String,
    /// Directory with ca.crt, tls.crt and tls.key, the institution's certificate for the brokers; else it puts them into tls/ itself
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// Leave the key out with which the institution signs: it has it, and puts it into keys/institutions/ itself
    #[arg(long)]
    without_key: bool,
}

impl HandOver {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let from = Directory::new(&self.directory);
        let bic = &self.institution;
        let network = Configuration::read(&from, &[])?;
        let settings = ClusterConfiguration::read(&from, &[])?;
        let prefix = settings.layout(&network)?.prefix;
        ensure!(
            settings.institution.is_none(),
            "{} is an institution's own directory: the operator hands over from the network's",
            from.root().display()
        );
        let place = network.participants.iter().position(|participant| participant.bic == *bic);
        let place =
            place.with_context(|| format!("--institution {bic}: the network has no such participant"))?;
        ensure!(place > 0, "{bic} is the operator, whose key signs the sequence: it hands that to nobody");
        let principal = settings.principals.get(bic).with_context(|| {
            format!(
                "cluster.toml does not say as whom the brokers know {bic}: add `{bic} = \"User:NAME\"` to its [principals], \
                 and run `tally network apply {}`",
                from.root().display()
            )
        })?;
        let key = if self.without_key {
            None
        } else {
            let passphrase = passphrase::of_network(&from, connection.passphrase_file.as_deref())?;
            let public = &network.participants[place].key;
            let key = institution_key(&from.institution_keys(), bic, public, &passphrase);
            Some(key.context("the institution's key cannot be handed over (--without-key leaves it out)")?)
        };

        let cluster = self.cluster(&from, &settings.layout, &prefix)?;
        all_or_nothing(&self.out, |directory| {
            let to = Directory::new(directory);
            write(&to.genesis(), &read(&from.genesis())?, 0o644)?;
            write(&to.configuration(), &known_to(bic, network.clone())?, 0o644)?;
            write(&to.cluster(), &cluster, 0o644)?;
            private_directory(&to.institution_keys())?;
            if let Some(key) = &key {
                self.write_key(&to, key)?;
            }
            self.copy_certificates(directory)
        })?;
        self.tell(&from, principal);
        Ok(Ended::Well)
    }

    /// cluster.toml as the institution needs it: the same layout, the same brokers, its own certificate.
    fn cluster(&self, from: &Directory, layout: &LayoutSection, prefix: &str) -> anyhow::Result<String> {
        let path = from.cluster();
        let mut table: Table = read(&path)?.parse().with_context(|| format!("{}", path.display()))?;
        // Who else runs its own stages and how topics are made is the operator's business. How many witnesses are required is
        // everybody's: the institution's own file of public keys asks for as many.
        table.retain(|name, _| matches!(name, "stages" | "kafka" | "witnesses"));
        table.insert("institution".to_owned(), self.institution.clone().into());
        let counts = [
            ("schedulers", layout.schedulers),
            ("assemblers", layout.assemblers),
            ("gateways", layout.gateways),
        ];
        let mut section: Table =
            counts.into_iter().map(|(name, count)| (name.to_owned(), i64::from(count).into())).collect();
        section.insert("prefix".to_owned(), prefix.into());
        table.insert("layout".to_owned(), section.into());
        let kafka = table.entry("kafka").or_insert_with(|| Table::new().into());
        let kafka = kafka.as_table_mut().context("[kafka] is no section")?;
        // A name by which one of the operator's processes is known again.
        kafka.remove("member");
        let file = |(name, file): (&str, &str)| (name.to_owned(), format!("{TLS_DIRECTORY}/{file}").into());
        kafka.insert("tls".to_owned(), Value::Table(TLS.into_iter().map(file).collect()));
        let head = format!(
            "# How {}'s own approver and updater reach the network. The layout is for the life of the network and the same for\n\
             # everybody.\n\n",
            self.institution
        );
        Ok(head + &toml::to_string(&table)?)
    }

    /// Encrypts the key under a passphrase of its own: the operator's opens others' too.
    fn write_key(&self, to: &Directory, key: &SigningKey) -> anyhow::Result<()> {
        let passphrase = passphrase::generate(&to.passphrase())?;
        let (directory, bic) = (to.institution_keys(), &self.institution);
        KeyFile::write(&directory.join(format!("{bic}.pem")), key, &passphrase, ScryptCost::DEFAULT)?;
        write(&directory.join(format!("{bic}.pub")), &format!("{}\n", key.public_key()), 0o644)
    }

    fn copy_certificates(&self, directory: &Path) -> anyhow::Result<()> {
        let to = directory.join(TLS_DIRECTORY);
        private_directory(&to)?;
        let Some(from) = &self.certificates else { return Ok(()) };
        for (name, file) in TLS {
            let text = read(&from.join(file))?;
            let kind = if name == "key" { "PRIVATE KEY-----" } else { "-----BEGIN CERTIFICATE-----" };
            ensure!(text.contains(kind), "{} holds no {name} in PEM form", from.join(file).display());
            write(&to.join(file), &text, if name == "key" { 0o600 } else { 0o644 })?;
        }
        Ok(())
    }

    fn tell(&self, from: &Directory, principal: &str) {
        let (bic, out) = (&self.institution, self.out.display());
        print::line(&format!("{out} is {bic}'s, whom the brokers know as {principal}"));
        if self.without_key {
            print::line(&format!("{bic} puts its key into {out}/keys/institutions/{bic}.pem"));
        } else {
            print::line(&format!(
                "its key's passphrase is in {out}/passphrase: give it by another way than the directory. The operator's copy of the key \
                 stays in {}: delete it once {bic} has its own",
                from.institution_keys().display()
            ));
        }
        if self.certificates.is_none() {
            print::line(&format!(
                "{bic} puts its certificate for the brokers into {out}/{TLS_DIRECTORY}: ca.crt, tls.crt, tls.key"
            ));
        }
        print::line(&format!("it runs `tally stage approver --network {out}`, and `updater` the same way"));
        print::line(&format!(
            "gateways are the operator's: their users and the secret of their references ({}) stay in {}",
            References::FILE,
            from.root().display()
        ));
    }
}

/// network.toml without what concerns others alone: how far an institution's settlement account may go below zero is its
/// own and the settling institution's business, and how payments are read is the gateway's.
fn known_to(bic: &str, mut network: Configuration) -> anyhow::Result<String> {
    (network.messages, network.http) = (MessagesSection::default(), HttpSection::default());
    let settled_here = network.assets.iter().filter(|asset| asset.settled_at == bic);
    let settled_here: Vec<String> = settled_here.map(|asset| asset.code.clone()).collect();
    for participant in network.participants.iter_mut().filter(|participant| participant.bic != bic) {
        participant.unidentified_account = None;
        participant.credit.retain(|code, _| settled_here.contains(code));
    }
    network.earlier.retain(|earlier| {
        earlier.institution.as_deref().is_none_or(|of| of == bic || settled_here.contains(&earlier.asset))
    });
    let head = format!("# The network, as {bic} needs to know it.\n\n");
    Ok(head + &toml::to_string(&network)?)
}

fn private_directory(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    make::create(path, text.as_bytes(), mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_institution_is_told_its_own_credit_and_that_which_it_gives() {
        let key = SigningKey::from_seed([1; 32]).public_key();
        let mut text =
            "[network]\nid = \"0000000000000000000000000000000000000000000000000000000000000000\"\nlongest_validity_ms = 1\n[http]\nmax_connections = 7\n".to_owned();
        for (code, settled_at) in [("EUR", "TSCBDEFF"), ("DE000BASF111", "CSDXDEFF")] {
            text.push_str(&format!(
                "[[assets]]\ncode = \"{code}\"\nkind = \"currency\"\nexponent = 2\nsettled_at = \"{settled_at}\"\nlargest_payment = \"1.00\"\n"
            ));
        }
        for bic in ["TSCBDEFF", "CSDXDEFF", "ALPHDEFF", "BETAFRPP"] {
            text.push_str(&format!(
                "[[participants]]\nbic = \"{bic}\"\nname = \"O={bic},C=DE\"\nkind = \"bank\"\nkey = \"{key}\"\n\
                 unidentified_account = \"of-{bic}\"\ncredit = {{ EUR = \"5.00\", DE000BASF111 = \"6.00\" }}\n"
            ));
        }
        let network: Configuration = toml::from_str(&text).unwrap();
        let told = |bic: &str| -> Configuration {
            toml::from_str(&known_to(bic, network.clone()).unwrap()).unwrap()
        };
        let credit = |of: &Configuration| -> Vec<Vec<String>> {
            of.participants.iter().map(|participant| participant.credit.keys().cloned().collect()).collect()
        };
        let both = ["DE000BASF111", "EUR"];
        let none: [&str; 0] = [];
        let alpha = told("ALPHDEFF");
        assert_eq!(credit(&alpha), [&none[..], &none, &both, &none]);
        let accounts =
            alpha.participants.iter().map(|participant| participant.unidentified_account.as_deref());
        assert_eq!(accounts.collect::<Vec<_>>(), [None, None, Some("of-ALPHDEFF"), None]);
        assert_eq!(alpha.http.max_connections, HttpSection::default().max_connections);
        // The depository has to know how far the others' accounts in its books may go.
        assert_eq!(
            credit(&told("CSDXDEFF")),
            [&["DE000BASF111"][..], &both, &["DE000BASF111"], &["DE000BASF111"]]
        );
    }
}
