//! `tally access grant | revoke | limit | list | log`

use super::{Ended, print};
use crate::access;
use crate::configuration::Configuration;
use crate::connection::ConnectionArguments;
use anyhow::ensure;
use std::path::{Path, PathBuf};
use tally_crypto::Hash;
use tally_gateway::access::{
    Access, AccessFile, Act, AuditLog, Fingerprint, InstitutionEntry, Quota, Record, Role, Token, UserEntry,
};
use tally_gateway::tls;
use tally_iso20022::Bic;
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
    /// Say how much all users of an institution may send together
    Limit(Limit),
    /// Everybody who may come in
    List,
    /// Every administrative act, and whether each line of the audit log follows the one before it
    Log {
        /// The hash of the last line that an earlier reading printed, kept elsewhere: shows what
        /// was recorded after it, and fails when no line has it, since a line up to there was then
        /// changed, cut off or deleted
        #[arg(long, value_name = "HASH")]
        after: Option<Hash>,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Limit {
    /// The institution's BIC
    #[arg(value_parser = bic)]
    institution: Bic,
    /// Requests and payments a second, on average; without it, each user is limited alone
    #[arg(long, value_name = "N", requires = "burst")]
    per_second: Option<u32>,
    /// Requests and payments at once after a pause
    #[arg(long, value_name = "N", requires = "per_second")]
    burst: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Grant {
    /// What the user is called: letters, digits, and -_.@
    name: String,
    /// BIC of the institution that the user acts for; without it, for all
    #[arg(long, value_name = "BIC", value_parser = bic)]
    institution: Option<Bic>,
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

fn bic(text: &str) -> Result<Bic, String> {
    Bic::parse(text).ok_or_else(|| format!("{text} is not a BIC such as ALPHDEFF"))
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
        let audit = access::audit_log(&layout, &configuration);
        let mut file = if path.exists() { AccessFile::read(&path)? } else { AccessFile::default() };
        match self {
            Self::Grant(grant) => return grant.run(&configuration.network()?, &path, file, &audit),
            Self::Revoke { name } => {
                ensure!(file.revoke(&name), "there is no user {name}");
                audit.record_own(Act::Revoke { user: name })?;
                file.write(&path)?;
            }
            Self::Limit(Limit { institution, per_second, burst }) => {
                let quota = per_second.zip(burst).map(|(per_second, burst)| Quota { per_second, burst });
                ensure!(quota.is_none_or(is_some), "--per-second and --burst: more than 0 is wanted");
                file.limit(institution, quota);
                Access::new(&file, &configuration.network()?)?;
                audit.record_own(Act::Limit { institution: institution.to_string(), quota })?;
                file.write(&path)?;
            }
            Self::List => {
                file.user.iter().for_each(show);
                for InstitutionEntry { bic, quota } in &file.institution {
                    let Quota { per_second, burst } = quota;
                    print::line(&format!("{bic}, all users together  {per_second}/s, {burst} at once"));
                }
            }
            Self::Log { after } => {
                let after = after.unwrap_or_default();
                let last = audit.verify_after(after, |Record { number, time, by, act, .. }| {
                    let act = serde_json::to_string(act).expect("an act is plain data");
                    print::line(&format!("{number}  {time}  {by}  {act}"));
                })?;
                print::line(&format!(
                    "{last} is the hash of the last line: keep it elsewhere, and ask `access log --after HASH` later"
                ));
            }
        }
        Ok(Ended::Well)
    }
}

impl Grant {
    fn run(
        self,
        network: &Network,
        path: &Path,
        mut file: AccessFile,
        audit: &AuditLog,
    ) -> anyhow::Result<Ended> {
        let quota = Quota { per_second: self.per_second, burst: self.burst };
        ensure!(is_some(quota), "--per-second and --burst: more than 0 is wanted");
        let certificate = self.certificate.as_deref().map(tls::fingerprint_of).transpose()?.map(Fingerprint);
        let token = if certificate.is_none() { Some(Token::generate()?) } else { None };
        let entry = UserEntry {
            name: self.name,
            institution: self.institution,
            roles: self.roles.into_iter().collect(),
            token: token.as_ref().map(Token::kept),
            certificate,
            expires: self.expires,
            quota,
        };
        file.grant(entry.clone())?;
        // That its institutions are there.
        Access::new(&file, network)?;
        let UserEntry { name: user, institution, roles, expires, .. } = entry;
        let institution = institution.map(|bic| bic.to_string());
        audit.record_own(Act::Grant { user, institution, roles, expires, quota })?;
        file.write(path)?;
        if let Some(token) = token {
            print::line(token.reveal());
        }
        Ok(Ended::Well)
    }
}

/// Whether it lets anything through.
fn is_some(quota: Quota) -> bool {
    quota.per_second > 0 && quota.burst > 0
}

fn show(user: &UserEntry) {
    let roles: Vec<&str> = user.roles.iter().map(|role| role.name()).collect();
    let way = if user.certificate.is_some() { "certificate" } else { "token" };
    print::line(&format!(
        "{}  {}  {}  {way}  until {}  {}/s, {} at once",
        user.name,
        user.institution.as_ref().map_or("every institution", Bic::as_str),
        roles.join(","),
        user.expires.as_deref().unwrap_or("revoked"),
        user.quota.per_second,
        user.quota.burst
    ));
}
