//! What flows of this node wait for as a member of a clustered notary.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tally_contracts::{Name, StateRef, Timestamp, TransactionId};
use tally_flows::{ClusterAnswer, FlowError, FlowId, Performed, Response};

/// When a flow asks again at the latest; it is woken as soon as there is an answer.
const LOOK: Duration = Duration::from_secs(10);

/// Told what the cluster decided, or why that is not known.
pub type Decided = Box<dyn FnOnce(Result<ClusterAnswer, String>) + Send>;

/// The clustered notary of which this node is a member.
pub trait Submit: Send + Sync {
    /// Has the cluster decide what `asker` asks for; does not block. `then` is called once, on any thread.
    fn submit(&self, asker: &Name, request: Arc<tally_notary::Request>, then: Decided);

    /// By which transactions these states are consumed, as far as this member has seen; `None` if it has ended.
    fn consumers(&self, states: &[StateRef]) -> Option<Vec<Option<TransactionId>>> {
        let _ = states;
        None
    }

    /// Why this node is no longer a member, if it has ended.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Writes down how the member stands.
    fn measure(&self) {}
}

/// Has a flow run again.
type Wake = Box<dyn Fn(FlowId) + Send + Sync>;

struct Membership {
    cluster: Arc<dyn Submit>,
    wake: Wake,
}

/// Requests of flows that the cluster decides. Nothing of it is durable: a flow that runs again after a crash asks again,
/// and the cluster gives the same answer.
#[derive(Default)]
pub(crate) struct Submissions {
    membership: OnceLock<Membership>,
    /// By flow; without an answer while the cluster decides.
    waiting: Mutex<BTreeMap<FlowId, Option<Result<ClusterAnswer, String>>>>,
}

impl Submissions {
    /// The node is a member from here on.
    pub(crate) fn join(&self, cluster: Arc<dyn Submit>, wake: Wake) {
        assert!(
            self.membership.set(Membership { cluster, wake }).is_ok(),
            "a node is a member of one cluster"
        );
    }

    /// Asks the cluster for a flow, or gives what it has answered.
    pub(crate) fn ask(
        self: &Arc<Self>,
        flow: FlowId,
        now: Timestamp,
        request: &Arc<tally_notary::Request>,
        asker: &Name,
    ) -> Performed {
        let Some(membership) = self.membership.get() else {
            return Response::Refused(FlowError::refused("this node runs no member of a clustered notary"))
                .into();
        };
        if let Some(answered) = self.take(flow) {
            return answered.unwrap_or_else(|| Response::Later(now.saturating_add(LOOK)).into());
        }
        self.lock().insert(flow, None);
        let submissions = Arc::downgrade(self);
        let then = move |decided| {
            if let Some(submissions) = submissions.upgrade() {
                submissions.decided(flow, decided);
            }
        };
        membership.cluster.submit(asker, request.clone(), Box::new(then));
        // It may have been refused at once.
        self.take(flow).flatten().unwrap_or_else(|| Response::Later(now.saturating_add(LOOK)).into())
    }

    /// What the member has seen of these states; `None` where there is none.
    pub(crate) fn consumers(&self, states: &[StateRef]) -> Option<Vec<Option<TransactionId>>> {
        self.membership.get()?.cluster.consumers(states)
    }

    /// Why the member ended, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.membership.get()?.cluster.failure()
    }

    /// Writes down how the member stands, if the node is one.
    pub(crate) fn measure(&self) {
        if let Some(membership) = self.membership.get() {
            membership.cluster.measure();
        }
    }

    /// A flow has ended, and waits for nothing.
    pub(crate) fn forget(&self, flow: FlowId) {
        self.lock().remove(&flow);
    }

    /// `None` if this flow waits for nothing, `Some(None)` if it has to go on waiting.
    fn take(&self, flow: FlowId) -> Option<Option<Performed>> {
        let mut waiting = self.lock();
        let answer = waiting.get_mut(&flow)?.take();
        let Some(answer) = answer else { return Some(None) };
        waiting.remove(&flow);
        Some(Some(match answer {
            Ok(answer) => Response::Cluster(answer).into(),
            Err(reason) => {
                Response::Refused(FlowError::refused(format!("the cluster has not decided: {reason}"))).into()
            }
        }))
    }

    fn decided(&self, flow: FlowId, decided: Result<ClusterAnswer, String>) {
        // A flow that ended meanwhile is not there.
        if let Some(answer) = self.lock().get_mut(&flow) {
            *answer = Some(decided);
        }
        if let Some(membership) = self.membership.get() {
            (membership.wake)(flow);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<FlowId, Option<Result<ClusterAnswer, String>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Later(Mutex<Vec<Decided>>);

    impl Submit for Later {
        fn submit(&self, _: &Name, _: Arc<tally_notary::Request>, then: Decided) {
            self.0.lock().unwrap().push(then);
        }
    }

    struct AtOnce;

    impl Submit for AtOnce {
        fn submit(&self, _: &Name, _: Arc<tally_notary::Request>, then: Decided) {
            then(Err("too many wait".to_owned()));
        }
    }

    fn request() -> Arc<tally_notary::Request> {
        let commit = tally_notary::Commit {
            inputs: Vec::new(),
            references: Vec::new(),
            transaction: TransactionId::from_bytes([1; 32]),
            time_window: None,
            requester: Name::new("Member", "London", "GB").unwrap(),
        };
        Arc::new(tally_notary::Request { commit, evidence: Vec::new() })
    }

    fn ask(submissions: &Arc<Submissions>, flow: u8) -> Response {
        let asker = Name::new("Asker", "London", "GB").unwrap();
        submissions.ask(FlowId([flow; 16]), Timestamp::EPOCH, &request(), &asker).response
    }

    #[test]
    fn a_flow_waits_until_the_cluster_has_decided_and_is_woken_then() {
        let (submissions, cluster) = (Arc::new(Submissions::default()), Arc::new(Later::default()));
        assert!(matches!(ask(&submissions, 1), Response::Refused(_)), "no member");
        let woken = Arc::new(Mutex::new(Vec::new()));
        let wake = woken.clone();
        submissions.join(cluster.clone(), Box::new(move |flow| wake.lock().unwrap().push(flow)));
        assert!(matches!(ask(&submissions, 1), Response::Later(_)));
        assert!(matches!(ask(&submissions, 1), Response::Later(_)), "it asks again");
        assert_eq!(cluster.0.lock().unwrap().len(), 1, "the cluster is asked once");
        let then = cluster.0.lock().unwrap().remove(0);
        then(Ok(ClusterAnswer::Attested(Vec::new())));
        assert_eq!(*woken.lock().unwrap(), [FlowId([1; 16])]);
        assert!(matches!(ask(&submissions, 1), Response::Cluster(ClusterAnswer::Attested(_))));
        // A flow that ended meanwhile leaves nothing behind.
        assert!(matches!(ask(&submissions, 2), Response::Later(_)));
        submissions.forget(FlowId([2; 16]));
        cluster.0.lock().unwrap().remove(0)(Ok(ClusterAnswer::Attested(Vec::new())));
        assert!(submissions.lock().is_empty());
    }

    #[test]
    fn what_is_refused_at_once_is_answered_at_once() {
        let submissions = Arc::new(Submissions::default());
        submissions.join(Arc::new(AtOnce), Box::new(|_| ()));
        assert!(matches!(ask(&submissions, 1), Response::Refused(_)));
        assert!(submissions.lock().is_empty());
    }
}
