//! How soon a node serves, and what it takes after many payments.

use std::time::Duration;

use super::waiting::resident;
use super::{Driver, Plan};
use crate::flows::FlowsError;
use crate::flows::network::Network;
use crate::flows::outcome::{Fact, Outcome};
use crate::flows::work::Work;
use crate::published;

/// How soon a node is to serve, in seconds.
const BAR_START_S: f64 = 1.0;
/// The most memory of a node after a hundred thousand payments.
const BAR_BYTES: f64 = 300.0 * 1024.0 * 1024.0;
const BAR_PAYMENTS: u64 = 100_000;

impl Plan {
    /// Starts PartyA over and over, from the start of the process until it says that it serves.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn start(&self, times: usize) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let mut network = Network::make(&self.layout)?;
        let mut samples = Vec::with_capacity(times);
        let mut memory = Vec::with_capacity(times);
        for _ in 0..times.max(1) {
            samples.push(network.run(0)?.as_secs_f64());
            memory.push(resident(network.node(0)) as f64);
            network.kill(0)?;
        }
        let facts = vec![
            Fact::sampled("start_to_ready", "a node serves after", samples, "s").at_most(BAR_START_S),
            Fact::sampled("resident_started", "its memory then", memory, "B"),
        ];
        let mut outcome = self.facts("start", "starting a node".to_owned(), facts);
        outcome.published = published::figure("corda-oss-4.3-start").into_iter().collect();
        Ok(outcome)
    }

    /// Pays as many times as `payments` says, and looks at the memory of each node; then starts the payer again.
    ///
    /// # Errors
    /// [`FlowsError`].
    pub fn memory(&self, payments: u64) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (mut network, driver) = (Network::start(&self.layout)?, Driver::new()?);
        let clients = driver.clients(&network, 0, self.connections)?;
        self.fund(&driver, &clients, payments)?;
        let mut run = self.closed();
        run.warm_up = Duration::ZERO;
        run.duration = Duration::from_secs(24 * 3600);
        run.total = Some(payments);
        let load = driver.load(&network, &clients, Work::Pay { outputs: self.outputs }, &run)?;
        let count = crate::table::count(payments);
        let mut facts = Vec::new();
        for (name, node) in
            ["resident_party_a", "resident_party_b", "resident_notary"].into_iter().zip(network.nodes())
        {
            let title = format!("memory of {} after {count} payments", node.label());
            let fact = Fact::new(name, title, resident(node) as f64, "B");
            facts.push(if payments >= BAR_PAYMENTS { fact.at_most(BAR_BYTES) } else { fact });
        }
        network.kill(0)?;
        let ready = network.run(0)?;
        facts.push(Fact::time("start_after", "PartyA serves again after", ready).at_most(BAR_START_S));
        let mut outcome = self.paid("memory", format!("{count} payments, one after the other"), load);
        outcome.facts = facts;
        outcome.ceiling = self.pay_limit();
        outcome.published = published::figure("corda-oss-4.3-memory").into_iter().collect();
        Ok(outcome)
    }
}
