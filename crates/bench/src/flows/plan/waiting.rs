//! Many flows that wait for a counterparty which is down, through a crash of their own node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tally_rpc::Client;

use super::{Driver, Plan};
use crate::flows::FlowsError;
use crate::flows::network::{Network, Node};
use crate::flows::outcome::{Fact, Outcome};
use crate::flows::work::Work;
use crate::processes::{Watched, read};

/// Starts under way at once.
const STARTING: usize = 128;
/// How long all flows may take to end.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(20);
/// The most memory that a node is to take with them.
const BAR_BYTES: f64 = 1024.0 * 1024.0 * 1024.0;
/// How soon all are to go on after a restart, in seconds.
const BAR_S: f64 = 30.0;

impl Plan {
    /// Starts `flows` at PartyA that wait for PartyB, which does not run; kills PartyA and starts it again; then starts
    /// PartyB and waits until every flow has ended.
    ///
    /// # Errors
    /// [`FlowsError`]; also when a flow is lost or fails.
    pub fn waiting(&self, flows: u64) -> Result<Outcome, FlowsError> {
        let _pinned = self.pin()?;
        let (mut network, driver) = (Network::make(&self.layout)?, Driver::new()?);
        network.run(0)?;
        let clients = driver.clients(&network, 0, self.connections)?;
        let empty = resident(network.node(0));
        let began = Instant::now();
        driver.wait(start_all(&clients, flows))?;
        let starting = began.elapsed();
        expect(&driver, network.node(0), flows)?;
        let waiting = resident(network.node(0));
        network.kill(0)?;
        let restarted = Instant::now();
        let ready = network.run(0)?;
        // None was lost: it serves once all are under way again.
        expect(&driver, network.node(0), flows)?;
        let waiting_again = resident(network.node(0));
        network.run(1)?;
        driver.wait(all_ended(network.node(0)))?;
        let resumed = restarted.elapsed();
        let completed = network.node(0).meters()?.get("tally_flow_completed_flows_total") as u64;
        if completed != flows {
            let text = format!("of {flows} flows that waited {completed} completed");
            return Err(FlowsError::Unexpected(text));
        }
        let counterparty = read_node(network.node(1)).peak_bytes;
        let peak = read_node(network.node(0)).peak_bytes;
        let bytes = |name, title: &str, bytes: u64| Fact::new(name, title, bytes as f64, "B");
        let facts = vec![
            Fact::time("starting", "flows started within", starting),
            bytes("resident_empty", "the node's memory before", empty),
            bytes("resident_waiting", "its memory while they wait", waiting).at_most(BAR_BYTES),
            Fact::time("restart_to_ready", "from its restart until it serves with all of them", ready),
            bytes("resident_restarted", "its memory then", waiting_again).at_most(BAR_BYTES),
            Fact::time(
                "restart_to_ended",
                "from its restart until all have ended, the counterparty started meanwhile",
                resumed,
            )
            .at_most(BAR_S),
            bytes("peak_resident", "the most memory of the restarted node", peak).at_most(BAR_BYTES),
            bytes("peak_counterparty", "the most memory of the counterparty", counterparty),
        ];
        let title = format!("{} flows waiting for a counterparty", crate::table::count(flows));
        let mut outcome = self.facts("waiting", title, facts);
        outcome.settings.push(("flows", flows.into()));
        Ok(outcome)
    }
}

pub(super) fn read_node(node: &Node) -> crate::processes::Reading {
    let pid = node.pid().unwrap_or_default();
    read(&Watched::new(node.label(), pid)).unwrap_or_default()
}

pub(super) fn resident(node: &Node) -> u64 {
    read_node(node).resident_bytes
}

/// Starts flows without waiting for their ends.
async fn start_all(clients: &[Client], flows: u64) -> Result<(), FlowsError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::with_capacity(STARTING);
    for index in 0..STARTING {
        let (client, next) = (clients[index % clients.len()].clone(), next.clone());
        tasks.push(tokio::spawn(async move {
            let request = Work::Ping { after_ms: 0 }.request();
            while next.fetch_add(1, Ordering::Relaxed) < flows {
                client.start_flow(&request).await?;
            }
            Ok::<(), tally_rpc::ClientError>(())
        }));
    }
    for task in tasks {
        task.await.map_err(|error| FlowsError::Unexpected(format!("a starting task ended: {error}")))??;
    }
    Ok(())
}

fn expect(driver: &Driver, node: &Node, flows: u64) -> Result<(), FlowsError> {
    let unfinished = driver.wait(async { unfinished(&node.client().await?).await })?;
    if unfinished == flows {
        return Ok(());
    }
    Err(FlowsError::Unexpected(format!(
        "{} holds {unfinished} flows where {flows} should wait",
        node.label()
    )))
}

async fn unfinished(client: &Client) -> Result<u64, FlowsError> {
    Ok(client.node_info().await?.unfinished_flows)
}

async fn all_ended(node: &Node) -> Result<(), FlowsError> {
    let client = node.client().await?;
    let deadline = Instant::now() + PATIENCE;
    while unfinished(&client).await? > 0 {
        if Instant::now() > deadline {
            let what = "the flows that waited to end".to_owned();
            return Err(FlowsError::Late { what, seconds: PATIENCE.as_secs() });
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
