//! The member of a clustered notary that a node runs, as the node's flows ask it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tally_contracts::{Name, Role, StateRef, TransactionId, TransactionSignature};
use tally_flows::ClusterAnswer;
use tally_identity::tls::Tls;
use tally_identity::{Identity, NetworkMap};
use tally_notary::Request;
use tally_protocols::notarise::BlindJudge;

use crate::cluster::{ClusterMember, ClusterMeters, ClusterParts, ClusterSection, Decision, Undecided};
use crate::desk::lock;
use crate::desk::submissions::{Decided, Submit};
use crate::process::NodeError;

/// A member that runs until it is stopped.
pub(crate) struct Member {
    running: Mutex<Option<ClusterMember>>,
    meters: ClusterMeters,
}

/// Where a node keeps what its member must not lose, in the node's directory.
const STORAGE: &str = "data/cluster";

/// What a member starts with.
pub(crate) struct Home<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) keys: &'a Path,
    pub(crate) passphrase: &'a [u8],
    pub(crate) identity: &'a Identity,
}

impl Member {
    /// Starts the member that `section` configures. The network's parameters say of which clustered notary.
    ///
    /// # Errors
    /// [`NodeError::NoMember`] where they name this node in none; what the member cannot start with.
    pub(crate) fn start(
        section: &ClusterSection,
        home: &Home<'_>,
        map: &NetworkMap,
        tls: Tls,
        meters: ClusterMeters,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self, NodeError> {
        let name = home.identity.name();
        let no_member = || NodeError::NoMember(name.clone());
        let notary =
            map.notaries().into_iter().find(|notary| notary.kind.has_member(name)).ok_or_else(no_member)?;
        let network = map.trust().network();
        // The map has checked that they make a cluster, and that its key is the notary's.
        let cluster = notary.kind.cluster(network).map_err(|_| no_member())?;
        let running = ClusterMember::start(ClusterParts {
            section,
            identity: home.identity,
            tls,
            keys: home.keys,
            passphrase: home.passphrase,
            storage: home.directory.join(STORAGE),
            cluster: Arc::new(cluster),
            judge: Box::new(BlindJudge::new(network, notary.party)),
            runtime,
        })?;
        tracing::info!(address = %running.local_addr(), "the node is a member of a clustered notary");
        Ok(Self { running: Mutex::new(Some(running)), meters })
    }

    /// Ends it in order. Not on a thread of the network.
    pub(crate) fn stop(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.stop();
        }
    }
}

impl Submit for Member {
    fn submit(&self, asker: &Name, request: Arc<Request>, then: Decided) {
        match &*lock(&self.running) {
            Some(member) => {
                member.submit(asker, request.as_ref().clone(), move |decision| then(answer_of(decision)));
            }
            None => then(Err("the member stops".to_owned())),
        }
    }

    fn consumers(&self, states: &[StateRef]) -> Option<Vec<Option<TransactionId>>> {
        let running = lock(&self.running);
        let member = running.as_ref().filter(|member| member.failure().is_none())?;
        Some(member.consumers(states))
    }

    fn failure(&self) -> Option<String> {
        lock(&self.running).as_ref().and_then(ClusterMember::failure)
    }

    fn measure(&self) {
        if let Some(member) = &*lock(&self.running) {
            self.meters.measure(&member.figures());
        }
    }
}

/// What a flow tells whoever asked, or why the outcome is not known.
fn answer_of(decision: Decision) -> Result<ClusterAnswer, String> {
    match decision {
        Decision::Committed(attestation) => {
            let signatures = attestation.signatures.into_iter();
            let attested =
                signatures.map(|(by, signature)| TransactionSignature { by, role: Role::Notary, signature });
            Ok(ClusterAnswer::Attested(attested.collect()))
        }
        Decision::Refused { answers, .. } => Ok(ClusterAnswer::Refused(answers)),
        Decision::Rejected(rejection) => Err(format!("its members do not take the request: {rejection}")),
        Decision::Undecided(Undecided::Deadline { answered }) => {
            Err(format!("{answered} members have answered in time"))
        }
        Decision::Undecided(Undecided::Busy) => Err("too many requests wait".to_owned()),
        Decision::Undecided(Undecided::Stopping) => Err("the member stops".to_owned()),
    }
}
