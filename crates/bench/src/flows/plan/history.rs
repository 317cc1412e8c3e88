//! A payee that meets a coin with a long history, and has to fetch and verify all of it.

use std::time::{Duration, Instant};

use serde_json::json;
use tally_contracts::{Amount, Currency};
use tally_rpc::{Client, Outcome as Ended};

use super::waiting::read_node;
use super::{Driver, Plan};
use crate::flows::FlowsError;
use crate::flows::ledger::{Maker, Signer, keep, notarise};
use crate::flows::network::{Layout, NOTARY, Network, name};
use crate::flows::outcome::{Fact, Outcome};
use crate::flows::work::request;
use crate::processes::{Series, Watch};

const PAYEE: &str = "PartyC";
/// How long the payment with the history is to take at most, in seconds, at a depth of ten thousand.
const BAR_S: f64 = 5.0;
const BAR_DEPTH: u64 = 10_000;
/// How often the payee's memory is looked at.
const EVERY: Duration = Duration::from_millis(10);
/// The long history is this many times the short one, beside which its memory is judged.
const TIMES: u64 = 10;

impl Plan {
    /// PartyA pays a coin to PartyC that went to and fro between PartyA and PartyB, so that its history has `depth`
    /// transactions; before that, one with a tenth of it, and one with none, which connects the nodes.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn history(&self, depth: u64) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let layout = Layout { parties: vec!["PartyA", "PartyB", PAYEE], ..self.layout.clone() };
        let (mut network, driver) = (Network::make(&layout)?, Driver::new()?);
        let [a, b] = [0, 1].map(|index| Signer::of(network.node(index)));
        let notary = Signer::notary_of(network.node(3));
        let (a, b, mut maker) = (a?, b?, Maker::new(notary?));
        // The last of a chain of odd depth is PartyA's.
        let depths = [1, depth.div_ceil(TIMES) | 1, depth | 1];
        let began = Instant::now();
        for (currency, depth) in ["EUR", "GBP", "USD"].into_iter().zip(depths) {
            let amount = Amount::new(10_000, Currency::literal(currency))
                .map_err(|error| FlowsError::Unexpected(error.to_string()))?;
            let chain = maker.chain(&a, &b, amount, depth)?;
            keep(&maker, network.node(0), &chain)?;
            notarise(network.node(3), &a.party, &chain)?;
        }
        let made = began.elapsed();
        for node in [0, 2, 3] {
            network.run(node)?;
        }
        let clients = driver.clients(&network, 0, 1)?;
        let pay = |amount: &str| -> Result<(Duration, Series), FlowsError> {
            let mut watched = network.watched();
            watched.retain(|one| one.label == PAYEE || one.label == "driver");
            let watch = Watch::start(watched, EVERY)?;
            let took = driver.wait(paid(&clients, amount));
            let series = watch.stop().into_iter().next();
            Ok((took?, series.ok_or_else(|| FlowsError::Unexpected("nothing was watched".to_owned()))?))
        };
        pay("100.00 EUR")?;
        let before = read_node(network.node(2)).resident_bytes;
        let (short_took, short) = pay("100.00 GBP")?;
        let (long_took, long) = pay("100.00 USD")?;
        let most = |series: &Series| {
            let resident = series.samples.iter().map(|sample| sample.reading.resident_bytes);
            resident.max().unwrap_or(0).saturating_sub(before) as f64
        };
        let count = |depth: u64| crate::table::count(depth);
        let [_, short_depth, long_depth] = depths;
        let mut whole = Fact::time("history", format!("paid with {} to fetch", count(long_depth)), long_took);
        if depth >= BAR_DEPTH {
            whole = whole.at_most(BAR_S);
        }
        let growth = "more memory of the payee at most, than before";
        let facts = vec![
            whole,
            Fact::new("growth_long", format!("{growth}, with {}", count(long_depth)), most(&long), "B"),
            Fact::time("history_short", format!("paid with {} to fetch", count(short_depth)), short_took),
            Fact::new("growth_short", format!("{growth}, with {}", count(short_depth)), most(&short), "B"),
            Fact::time("made", "histories made before the run within", made),
        ];
        let title = format!("a history of {} transactions", count(long_depth));
        let mut outcome = self.facts("history", title, facts);
        outcome.settings.push(("depth", long_depth.into()));
        Ok(outcome)
    }
}

async fn paid(clients: &[Client], amount: &str) -> Result<Duration, FlowsError> {
    let arguments = json!({ "amount": amount, "to": name(PAYEE), "notary": name(NOTARY) });
    let began = Instant::now();
    match clients[0].run_flow(&request("CashPay", arguments)).await?.outcome {
        Ended::Completed(_) => Ok(began.elapsed()),
        Ended::Failed(failure) => {
            Err(FlowsError::Failed { failed: 1, all: 1, first: format!("{amount}: {failure}") })
        }
        Ended::Unknown(fate) => {
            Err(FlowsError::Failed { failed: 1, all: 1, first: format!("{amount}: {}", fate.reason) })
        }
    }
}
