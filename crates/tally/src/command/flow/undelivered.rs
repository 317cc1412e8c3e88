//! `tally flow undelivered NODE`

use crate::command::{Ended, print};
use crate::flows_network::reach::NodeArguments;
use serde_json::{Value, json};
use tally_bench::table::{self, Align, Table};
use tally_rpc::{Undelivered, UndeliveredQuery, Unresolved};

/// Arguments of `tally flow undelivered`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct List {
    #[command(flatten)]
    node: NodeArguments,
    /// Only this transaction
    #[arg(long, value_name = "ID")]
    transaction: Option<String>,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let reached = self.node.connect()?;
        let (mut undelivered, mut unresolved) = (Vec::new(), Vec::new());
        let mut cursor = None;
        loop {
            let query =
                UndeliveredQuery { transaction_id: self.transaction.clone(), page_size: 1000, cursor };
            let page = reached.wait(reached.client.undelivered(&query))?;
            undelivered.extend(page.undelivered);
            unresolved.extend(page.unresolved);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        if self.json {
            for row in undelivered.iter().map(json).chain(unresolved.iter().map(unknown)) {
                print::line(&serde_json::to_string(&row)?);
            }
            return Ok(Ended::Well);
        }
        let mut rows = Table::new(&[
            ("transaction", Align::Left),
            ("not confirmed by", Align::Left),
            ("since", Align::Left),
            ("next try", Align::Left),
            ("reason", Align::Left),
        ]);
        for row in &unresolved {
            rows.row([
                row.transaction_id.clone(),
                "its notary".to_owned(),
                print::time(row.first_tried_at_ms),
                print::time(row.due_at_ms),
                row.reason.clone(),
            ]);
        }
        for row in &undelivered {
            let next = if row.is_member { print::time(row.due_at_ms) } else { "no member".to_owned() };
            rows.row([
                row.transaction_id.clone(),
                row.party.clone(),
                print::time(row.first_tried_at_ms),
                next,
                row.reason.clone(),
            ]);
        }
        print::line(rows.render(table::styled()).trim_end_matches('\n'));
        Ok(Ended::Well)
    }
}

/// Who lacks something, in a line.
pub(super) fn parties(lacking: &[Undelivered]) -> String {
    lacking.iter().map(|row| format!("{} ({})", row.party, row.reason)).collect::<Vec<_>>().join("; ")
}

/// A party that lacks a transaction, as JSON.
pub(super) fn json(row: &Undelivered) -> Value {
    json!({
        "transaction": row.transaction_id,
        "party": row.party,
        "is_member": row.is_member,
        "first_tried_at_ms": row.first_tried_at_ms,
        "last_tried_at_ms": row.last_tried_at_ms,
        "due_at_ms": row.due_at_ms,
        "reason": row.reason,
    })
}

/// A transaction that is not known to be final, as JSON.
fn unknown(row: &Unresolved) -> Value {
    json!({
        "transaction": row.transaction_id,
        "party": null,
        "first_tried_at_ms": row.first_tried_at_ms,
        "last_tried_at_ms": row.last_tried_at_ms,
        "due_at_ms": row.due_at_ms,
        "reason": row.reason,
    })
}
