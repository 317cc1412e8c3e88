//! `tally access grant | revoke | list`

use super::{Ended, print};
use crate::access;
use crate::configuration::Configuration;
use crate::connection::ConnectionArguments;
use anyhow::ensure;
use std::path::{Path, PathBuf};
use tally_gateway::access::{Access, AccessFile, Fingerprint, Quota, Role, Token, UserEntry};
use tally_gateway::tls;
use tally_ledger::Network;

/// Who may use a network's gateways. What is changed takes effect at once, without a restart.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AccessCommand {
    /// Let a user in, or give one other rights; prints the token, which is shown this once
    Grant(Grant),
    /// Let a user in no more
    Revoke {
        /// Who
        name: String,
    },
    /// Everybody who may come in
    List,
}

#[derive(Debug, clap::Args)]
pub(super) struct Grant {
    /// What the user is called: letters, digits, and -_.@
    name: String,
    /// BIC of the institution that the user acts for; without it, for all
    #[arg(long, value_name = "BIC")]
    institution: Option<String>,
    /// What the user may do: submit, approve, read, operate; separated by commas
    #[arg(long, value_name = "ROLES", value_delimiter = ',', required = true, value_parser = role)]
    roles: Vec<Role>,
    /// When the access ends, such as 2030-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// The user's client certificate in PEM form, in place of a token
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Requests and payments a second, on average
    #[arg(long, value_name = "N", default_value_t = Quota::default().per_second)]
    per_second: u32,
    /// Requests and payments at once after a pause
    #[arg(long, value_name = "N", default_value_t = Quota::default().burst)]
    burst: u32,
}

fn role(text: &str) -> Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("there is no role {text}; there are submit, approve, read, operate"))
}

impl AccessCommand {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let layout = connection.directory()?;
        let configuration = Configuration::read(&layout, &[])?;
        let path = access::path(&layout, &configuration);
        let mut file = if path.exists() { AccessFile::read(&path)? } else { AccessFile::default() };
        match self {
            Self::Grant(grant) => return grant.run(&configuration.network()?, &path, file),
            Self::Revoke { name } => {
                ensure!(file.revoke(&name), "there is no user {name}");
                file.write(&path)?;
            }
            Self::List => file.user.iter().for_each(show),
        }
        Ok(Ended::Well)
    }
}

impl Grant {
    fn run(self, network: &Network, path: &Path, mut file: AccessFile) -> anyhow::Result<Ended> {
        ensure!(self.per_second > 0 && self.burst > 0, "--per-second and --burst: more than 0 is wanted");
        let certificate = self.certificate.as_deref().map(tls::fingerprint_of).transpose()?.map(Fingerprint);
        let token = if certificate.is_none() { Some(Token::generate()?) } else { None };
        file.grant(UserEntry {
            name: self.name,
            institution: self.institution,
            roles: self.roles.into_iter().collect(),
            token: token.as_ref().map(Token::kept),
            certificate,
            expires: self.expires,
            quota: Quota { per_second: self.per_second, burst: self.burst },
        })?;
        // That its institutions are there.
        Access::new(&file, network)?;
        file.write(path)?;
        if let Some(token) = token {
            print::line(token.reveal());
        }
        Ok(Ended::Well)
    }
}

fn show(user: &UserEntry) {
    let roles: Vec<&str> = user.roles.iter().map(|role| role.name()).collect();
    let way = if user.certificate.is_some() { "certificate" } else { "token" };
    print::line(&format!(
        "{}  {}  {}  {way}  until {}  {}/s, {} at once",
        user.name,
        user.institution.as_deref().unwrap_or("every institution"),
        roles.join(","),
        user.expires.as_deref().unwrap_or("revoked"),
        user.quota.per_second,
        user.quota.burst
    ));
}
