//! Queries of a large vault over the remote interface, page by page.

use std::time::{Duration, Instant};

use tally_contracts::Currency;
use tally_identity::system_now;
use tally_rpc::{Client, SortBy, VaultQuery};

use super::{Driver, Plan};
use crate::flows::FlowsError;
use crate::flows::ledger::{Maker, Signer, open};
use crate::flows::network::Network;
use crate::flows::outcome::{Fact, Outcome};
use crate::recorder::Recorder;

/// States of one issuance.
const PER_TRANSACTION: u64 = 100;
/// Issuances of a batch.
const PER_BATCH: u64 = 50;
/// One issuance in so many is of another currency.
const OTHER: u64 = 100;
const PAGE: u32 = 100;
/// How soon 99 of 100 pages are to be there, in seconds, of a million states.
const BAR_S: f64 = 0.020;
const BAR_STATES: u64 = 1_000_000;

fn queries(owner: &str) -> Vec<(&'static str, VaultQuery)> {
    let all = || VaultQuery { page_size: PAGE, ..VaultQuery::default() };
    let asset = |currency: &str| Some(format!("{currency}@{owner}"));
    vec![
        ("page_oldest", all()),
        ("page_newest", VaultQuery { descending: true, ..all() }),
        ("page_asset", VaultQuery { asset: asset("EUR"), ..all() }),
        ("page_asset_owner", VaultQuery { asset: asset("USD"), owner: Some(owner.to_owned()), ..all() }),
        ("page_kind", VaultQuery { kind: Some("cash".to_owned()), ..all() }),
        ("page_quantity", VaultQuery { quantity_from: Some(500), quantity_to: Some(520), ..all() }),
        ("page_largest", VaultQuery { sort_by: SortBy::Quantity, descending: true, ..all() }),
    ]
}

fn words(name: &str) -> &'static str {
    match name {
        "page_oldest" => "oldest first",
        "page_newest" => "newest first",
        "page_asset" => "one asset of two, 1 % of all",
        "page_asset_owner" => "asset and owner, 99 % of all",
        "page_kind" => "kind",
        "page_quantity" => "a range of quantities, 2 % of all",
        _ => "largest first",
    }
}

impl Plan {
    /// Fills PartyA's vault with `states` coins, starts it, and asks for `pages` pages of each of several queries,
    /// each page after the one before.
    ///
    /// # Errors
    /// [`FlowsError`]; also when a page that should be full is not.
    pub fn vault(&self, states: u64, pages: usize) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (mut network, driver) = (Network::make(&self.layout)?, Driver::new()?);
        let began = Instant::now();
        fill(&network, states)?;
        let filling = began.elapsed();
        let ready = network.run(0)?;
        let client = driver.clients(&network, 0, 1)?.remove(0);
        let owner = network.node(0).party().name.to_string();
        let mut facts = vec![
            Fact::time("filling", "vault filled before the run within", filling),
            Fact::time("start_full", "node started on it within", ready),
        ];
        let mut all = Recorder::new();
        for (name, query) in queries(&owner) {
            let times = driver.wait(page(&client, query, pages))?;
            let mut recorder = Recorder::new();
            times.iter().for_each(|time| recorder.record_latency(*time, 1));
            all.merge(&recorder);
            let p99 = recorder.quantile(0.99).as_secs_f64();
            let title = format!("{}: 99 of 100 pages within", words(name));
            let samples = times.iter().map(Duration::as_secs_f64).collect();
            facts.push(Fact { samples, ..Fact::new(name, title, p99, "s") });
        }
        let bar = |fact: Fact| if states >= BAR_STATES { fact.at_most(BAR_S) } else { fact };
        let p99 = all.quantile(0.99).as_secs_f64();
        facts.push(bar(Fact::new("page_all", "all of these together: 99 of 100 pages within", p99, "s")));
        let title = format!("queries of {} states, {PAGE} a page", crate::table::count(states));
        let mut outcome = self.facts("vault", title, facts);
        outcome.settings.extend([
            ("states", states.into()),
            ("page_size", PAGE.into()),
            ("pages", pages.into()),
        ]);
        Ok(outcome)
    }
}

fn fill(network: &Network, states: u64) -> Result<(), FlowsError> {
    let node = network.node(0);
    let notary = network.nodes().last().map(Signer::notary_of).transpose()?;
    let notary = notary.ok_or_else(|| FlowsError::Unexpected("a network without nodes".to_owned()))?;
    let (issuer, mut maker) = (Signer::of(node)?, Maker::new(notary));
    let store = open(node)?;
    let mut batch = Vec::new();
    for number in 0..states.div_ceil(PER_TRANSACTION) {
        let currency = Currency::literal(if number % OTHER == 7 { "EUR" } else { "USD" });
        let first = number * PER_TRANSACTION;
        // Quantities in no order.
        let quantities = (first..states.min(first + PER_TRANSACTION)).map(|state| 1 + state * 7919 % 1000);
        let transaction = maker.issue(&issuer, currency, quantities)?;
        batch.push(maker.record(&transaction, node.party(), system_now())?);
        if batch.len() as u64 == PER_BATCH {
            store.apply(&std::mem::take(&mut batch))?;
        }
    }
    Ok(store.apply(&batch)?)
}

/// Page after page; from the first again when there are no more.
async fn page(client: &Client, mut query: VaultQuery, pages: usize) -> Result<Vec<Duration>, FlowsError> {
    let mut times = Vec::with_capacity(pages);
    for _ in 0..pages {
        let began = Instant::now();
        let page = client.query_vault(&query).await?;
        times.push(began.elapsed());
        if page.states.is_empty() && query.cursor.is_none() {
            return Err(FlowsError::Unexpected(format!("a query of the benchmark finds nothing: {query:?}")));
        }
        query.cursor = page.next;
    }
    Ok(times)
}
