//! `tally statement BIC ACCOUNT`

use super::{Ended, print};
use crate::connection::ConnectionArguments;

/// Arguments of `tally statement`.
#[derive(Debug, clap::Args)]
pub(super) struct Statement {
    /// The institution
    bic: String,
    /// IBAN, alias or number; or own:EUR, issuance:EUR, settlement:EUR:BIC
    account: String,
    /// How many entries
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Only entries before this place in the global order
    #[arg(long, value_name = "SEQUENCE")]
    before: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print an ISO 20022 message in place of lines: the balances and entries of some days, or the entries alone
    #[arg(long, value_name = "MESSAGE", value_parser = ["camt.053", "camt.054"], conflicts_with_all = ["json", "limit", "before"])]
    message: Option<String>,
    /// The message's first day, as YYYY-MM-DD (default: the last one)
    #[arg(long, value_name = "DAY", requires = "message")]
    from: Option<String>,
    /// The message's last day, in UTC (default: today)
    #[arg(long, value_name = "DAY", requires = "message")]
    to: Option<String>,
}

impl Statement {
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let client = connection.connect()?.client;
        if let Some(message) = &self.message {
            let (from, to) = (self.from.as_deref(), self.to.as_deref());
            print::line(client.report(&self.bic, &self.account, message, from, to)?.trim_end());
            return Ok(Ended::Well);
        }
        let statement = client.statement(&self.bic, &self.account, self.before, self.limit)?;
        if self.json {
            print::line(&serde_json::to_string(&statement)?);
            return Ok(Ended::Well);
        }
        let name = statement.account.alias.unwrap_or_else(|| self.account.clone());
        print::line(&format!("{}/{name} in {}", statement.account.institution, statement.account.asset));
        print::line(&format!(
            "{:>12}  {:24}  {:36}  {:>18}  {:>18}",
            "sequence", "time", "reference", "amount", "balance"
        ));
        for entry in &statement.entries {
            print::line(&format!(
                "{:>12}  {:24}  {:36}  {:>18}  {:>18}",
                entry.sequence, entry.time, entry.uetr, entry.amount, entry.balance
            ));
        }
        if let Some(next) = statement.next {
            print::line(&format!("more: --before {next}"));
        }
        Ok(Ended::Well)
    }
}
