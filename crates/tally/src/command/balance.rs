//! `tally balance BIC ACCOUNT`

use super::{Ended, print};
use crate::connection::ConnectionArguments;

/// Arguments of `tally balance`.
#[derive(Debug, clap::Args)]
pub(super) struct Balance {
    /// The institution
    bic: String,
    /// IBAN, alias or number; or own:EUR, issuance:EUR, settlement:EUR:BIC
    account: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Balance {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let account = connection.connect()?.client.account(&self.bic, &self.account)?;
        if self.json {
            print::line(&serde_json::to_string(&account)?);
        } else {
            let status = serde_json::to_value(account.status)?;
            let status = status.as_str().filter(|status| *status != "open");
            let status = status.map(|status| format!("  {status}")).unwrap_or_default();
            print::line(&format!("{} {}{status}", account.balance, account.asset));
        }
        Ok(Ended::Well)
    }
}
