//! A gateway's process: it becomes one of the network's gateways, and answers clients over HTTP.

use super::telemetry::Telemetry;
use crate::evidence;
use anyhow::Context;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tally_gateway::access::Gate;
use tally_gateway::references::References;
use tally_gateway::server;
use tally_gateway::settings::Settings;
use tally_ledger::{Network, ParticipantId};
use tally_log::cluster::{Cluster, Members};
use tally_ops::shutdown::Shutdown;
use tally_proof::evidence::TwoHeads;
use tally_proof::{Evidence, Keys};
use tally_settlement::process::desk::{Desk, DeskOptions};
use tally_settlement::process::{Layout, Role, ShardError, Stop};

/// How often the group is asked, and whether the desk goes on.
const LOOK: Duration = Duration::from_millis(50);
/// How long a desk that could not be opened rests before it is tried again.
const REST: Duration = Duration::from_secs(1);
/// How long a stopping gateway waits for what is under way.
const DRAIN: Duration = Duration::from_secs(10);

/// What a gateway needs to know.
pub struct GatewayWork {
    /// Who takes part.
    pub network: Arc<Network>,
    /// How the stages are split.
    pub layout: Layout,
    /// How it answers over HTTP.
    pub settings: Settings,
    /// Who may use it.
    pub gate: Arc<Gate>,
    /// What gives references to payments without one: the same at each of the network's gateways.
    pub references: References,
    /// Whose accounts it answers questions about.
    pub participants: Vec<ParticipantId>,
    /// How many institutions have to cosign what it tells.
    pub witnesses: u8,
    /// Where it writes evidence of misconduct.
    pub evidence: PathBuf,
}

/// Answers on `listener` until the shutdown is requested. Whenever another process becomes the gateway that this one was, it
/// becomes another.
///
/// # Errors
/// When the cluster cannot be reached at the start, or the listener fails; when the operator shows two histories, or there
/// is evidence that it did.
pub fn run(
    work: &GatewayWork,
    cluster: &Arc<dyn Cluster>,
    listener: &TcpListener,
    telemetry: &Telemetry,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    if let Some(keys) = Keys::of(&work.network) {
        evidence::refuse_two_histories(&work.evidence, &keys)?;
    }
    let topics = work.layout.shards_of(Role::Gateway, &[]);
    let members = cluster.join(&work.layout.group(Role::Gateway, &[]), &topics);
    let mut membership =
        Membership { members: members.context("cannot join the gateways' group")?, mine: Vec::new() };
    let (mut last, mut ended) = (None, None);
    while !shutdown.is_requested() {
        let opened = refusing(work, listener, || {
            // It may have calls under way that end first.
            drop(ended.take());
            open(work, cluster, last, &mut membership, telemetry, shutdown)
        })??;
        let Some((number, desk)) = opened else { break };
        last = Some(number);
        tracing::info!(gateway = number, "open");
        telemetry.shards(1, 0);
        serve(work, &desk, listener, &mut membership, shutdown)?;
        telemetry.shards(0, 0);
        if desk.is_fenced() {
            telemetry.fenced.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(gateway = number, "another process is this gateway now");
        } else if let Some(error) = desk.failure() {
            stop_at_two_histories(work, &error)?;
            tracing::error!(gateway = number, %error, "the gateway stopped, and is opened again");
        }
        ended = Some(desk);
    }
    if let Some(desk) = ended.and_then(Arc::into_inner) {
        desk.stop(DRAIN);
    }
    Ok(())
}

/// Tells everybody who calls meanwhile that the gateway is being opened: a connection that nobody accepts would keep its
/// client from those that are open.
fn refusing<T>(
    work: &GatewayWork,
    listener: &TcpListener,
    meanwhile: impl FnOnce() -> T,
) -> anyhow::Result<T> {
    let ends = Shutdown::new();
    let listener = listener.try_clone().context("cannot listen")?;
    std::thread::scope(|scope| {
        let refusing = scope.spawn(|| server::refuse(listener, &work.settings, &ends));
        let result = meanwhile();
        ends.request();
        let refused = refusing.join();
        refused.map_err(|_| anyhow::anyhow!("the HTTP server broke an invariant of its own"))??;
        Ok(result)
    })
}

/// Becomes one of the gateways that are this process's, the `last` one again if it can; none once the shutdown is requested.
fn open(
    work: &GatewayWork,
    cluster: &Arc<dyn Cluster>,
    last: Option<u16>,
    membership: &mut Membership,
    telemetry: &Telemetry,
    shutdown: &Shutdown,
) -> anyhow::Result<Option<(u16, Arc<Desk>)>> {
    while !shutdown.is_requested() {
        membership.look(LOOK)?;
        let Some(number) = membership.choose(last) else { continue };
        telemetry.joined();
        let stop = Stop::default();
        let options = DeskOptions {
            gateway: number,
            participants: work.participants.clone(),
            witnesses: work.witnesses,
        };
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| Desk::open(cluster, &work.layout, &work.network, &options, &stop));
            while !opening.is_finished() {
                if shutdown.wait_timeout(LOOK) {
                    stop.set();
                }
                // Members that are not heard of are taken for dead.
                membership.look(Duration::ZERO)?;
            }
            anyhow::Ok(opening.join())
        })?;
        match opened {
            Ok(Ok(desk)) => return Ok(Some((number, Arc::new(desk)))),
            Ok(Err(error)) => {
                stop_at_two_histories(work, &error)?;
                tracing::error!(gateway = number, %error, "the gateway could not be opened, and is tried again");
                telemetry.shards(0, 1);
                let _ = shutdown.wait_timeout(REST);
            }
            Err(_) => anyhow::bail!("the gateway broke an invariant of its own; see the log"),
        }
    }
    Ok(None)
}

/// Two histories of the operator's are written down as evidence, and end the gateway for good.
fn stop_at_two_histories(work: &GatewayWork, error: &ShardError) -> anyhow::Result<()> {
    let ShardError::TwoHistories { heads, .. } = error else { return Ok(()) };
    let case = Evidence::new(work.network.id, TwoHeads::clone(heads));
    let path = evidence::write(&work.evidence, &case).with_context(|| error.to_string())?;
    anyhow::bail!("{error}. `tally verify` judges {}", path.display())
}

/// Answers until the shutdown is requested or the desk goes no further.
fn serve(
    work: &GatewayWork,
    desk: &Arc<Desk>,
    listener: &TcpListener,
    membership: &mut Membership,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let ends = Shutdown::new();
    let listener = listener.try_clone().context("cannot listen")?;
    std::thread::scope(|scope| {
        let serving = {
            let (desk, ends) = (Arc::clone(desk), ends.clone());
            let (settings, gate) = (work.settings.clone(), Arc::clone(&work.gate));
            let references = work.references.clone();
            scope.spawn(move || server::serve(listener, desk, settings, gate, references, &ends))
        };
        while !serving.is_finished() {
            if shutdown.is_requested() || desk.failure().is_some() {
                ends.request();
            }
            if let Err(error) = membership.look(LOOK) {
                ends.request();
                return Err(error);
            }
        }
        let served = serving.join();
        Ok(served.map_err(|_| anyhow::anyhow!("the HTTP server broke an invariant of its own"))??)
    })
}

struct Membership {
    members: Box<dyn Members>,
    mine: Vec<u16>,
}

impl Membership {
    fn look(&mut self, limit: Duration) -> anyhow::Result<()> {
        if let Some(partitions) = self.members.poll(limit).context("this gateway left its group for good")? {
            self.mine = partitions.into_iter().map(|partition| partition.number).collect();
            tracing::info!(gateways = ?self.mine, "the group was shared out");
        }
        Ok(())
    }

    /// One of those that are this process's: the last one again, if it is.
    fn choose(&self, last: Option<u16>) -> Option<u16> {
        self.mine.iter().copied().find(|number| Some(*number) == last).or_else(|| self.mine.first().copied())
    }
}
