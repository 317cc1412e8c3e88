//! The node's own past and that of its peers: what is told, judged, and begun anew.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tally_contracts::{Name, Timestamp};
use tally_flows::{Flow, Origin, View};
use tally_messaging::{QueueId, Unfit};
use tally_protocols::recover::Recover;
use tally_store::Write;

use super::{Core, OpenError};
use crate::desk::lock;
use crate::desk::past::{Past, Verdict};

/// How long a connection waits for what follows from it to be durable.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often flows are looked at that have been told something.
const LOOK: Duration = Duration::from_millis(2);

impl Core {
    /// A process begins on this database: its standing is durable before anybody hears of it. A node that has to be
    /// recovered takes no work until it is.
    ///
    /// # Errors
    /// The store fails, or holds what this program did not write.
    pub fn begin(&self) -> Result<(), OpenError> {
        let stored = self.store().past()?;
        let own = self.queue();
        {
            let mut outbound = lock(&self.desk.outbound);
            for (peer, queue) in &stored.queues {
                outbound.name_anew(peer, QueueId(*queue));
            }
        }
        let mut past = Past::restore(self.parts().network.id(), stored)
            .map_err(|error| OpenError::Past(error.to_string()))?;
        past.begin(own.0, self.draw());
        if let Some(restored) = self.restored
            && self.desk.is_notary()
        {
            past.need(format!(
                "the database of a notary was restored from a backup of {} ms: nobody can tell what it has consumed since",
                restored.taken.as_millis()
            ));
        }
        self.store().apply(&past.write().into_iter().collect::<Vec<_>>())?;
        if let Some(standing) = past.own() {
            past.durable(&self.me().name, &self.parts().key, &standing);
        }
        if let Some(reason) = past.recovery() {
            tracing::error!(reason, "the node has to be recovered: `tally node recover`");
            self.engine.admit_only(Some(Recover::NAME));
            self.pause_all(Timestamp::MAX);
        } else if let Some(restored) = self.restored {
            self.pause_all(restored.at);
        }
        *lock(&self.desk.past) = past;
        Ok(())
    }

    /// Pauses the flows of users that began before a time: on the newest database they may have done long ago what they
    /// would do again from this one, with other states. A person ends each, or lets it go on.
    fn pause_all(&self, before: Timestamp) {
        let is_meant = |view: &View| {
            matches!(view.origin, Origin::User { .. }) && *view.name != *Recover::NAME && view.at < before
        };
        for view in self.engine.views(None, usize::MAX).into_iter().filter(is_meant) {
            tracing::warn!(flow = %view.flow, name = %view.name, "a flow of an older database is paused");
            if let Err(error) = self.engine.pause(view.flow) {
                tracing::error!(flow = %view.flow, %error, "the flow cannot be paused");
            }
        }
    }

    /// Sixteen random bytes.
    fn draw(&self) -> [u8; 16] {
        let mut drawn = [0; 16];
        drawn.copy_from_slice(&self.desk.seed()[..16]);
        drawn
    }

    /// Why the node takes no work until it is recovered, if so.
    pub fn recovery(&self) -> Option<String> {
        lock(&self.desk.past).recovery().map(str::to_owned)
    }

    /// What this node tells of its database, signed.
    pub fn standing(&self) -> Vec<u8> {
        lock(&self.desk.past).told()
    }

    /// The name of the queue to a peer.
    pub fn queue_to(&self, peer: &Name) -> QueueId {
        lock(&self.desk.outbound).name(peer)
    }

    /// Raises the generation of the database if anything was done since the last time, so that a backup of it is known to
    /// be older than what peers have seen.
    pub fn beat(&self) {
        let done = self.desk.units.swap(0, Ordering::Relaxed);
        let mut past = lock(&self.desk.past);
        if done > 0 && past.own().is_some() {
            past.beat();
            drop(past);
            self.desk.queue.write_standing();
        }
    }

    /// Judges what a peer told of its database, and over which queue it sends; returns once what follows is durable.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn meet(&self, peer: &Name, told: &[u8], queue: Option<QueueId>) -> Result<(), Unfit> {
        let party = (self.parts().network.party(peer))
            .ok_or_else(|| Unfit::Invalid(format!("{peer} is not a member of the network")))?;
        // One at a time of each peer, so that what is judged new is remembered before it is judged again.
        let meeting = lock(&self.meetings).entry(peer.clone()).or_default().clone();
        let _turn = lock(&meeting);
        let another = queue.is_some_and(|queue| lock(&self.desk.inbound).sends_over_another(peer, queue));
        let verdict = lock(&self.desk.past).judge(&party, told, another);
        let (signed, anew, forgotten) = match verdict {
            None => return Err(Unfit::Invalid("a standing that the peer did not sign".to_owned())),
            Some(Verdict::Known) => return Ok(()),
            Some(Verdict::Superseded(evidence)) => {
                tracing::warn!(%peer, "the peer runs on an older database than it did before");
                return Err(Unfit::Superseded(Some(evidence)));
            }
            Some(Verdict::Outdated) => return Err(Unfit::Superseded(None)),
            Some(Verdict::News { signed, anew, forgotten }) => (signed, anew, forgotten),
        };
        let until = Instant::now() + PATIENCE;
        if forgotten {
            tracing::warn!(%peer, anew, "the peer knows nothing of earlier sessions: they end");
            self.forget(peer, until)?;
        }
        let mut changes = vec![Write::Acquainted {
            peer: peer.clone(),
            standing: signed.clone(),
            // A peer that goes on from another database has new queues, also if it is not known yet which.
            only: forgotten.then(|| queue.map_or([0; 16], |queue| queue.0)),
        }];
        if anew {
            changes.push(Write::QueueAnew { peer: peer.clone(), queue: self.draw() });
        }
        self.change(changes, until)?;
        lock(&self.desk.past).met(peer, signed);
        Ok(())
    }

    /// Sessions with a peer end, durably before anything that is submitted after this.
    fn forget(&self, peer: &Name, until: Instant) -> Result<(), Unfit> {
        let told = self.engine.forget_sessions(Some(peer));
        while !self.engine.is_settled(&told) {
            if Instant::now() >= until {
                return Err(Unfit::Store("flows take too long to end their sessions".into()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Makes changes durable.
    fn change(&self, changes: Vec<Write>, until: Instant) -> Result<(), Unfit> {
        let (told, durable) = mpsc::channel();
        self.desk.queue.change(
            changes,
            Box::new(move || {
                let _ = told.send(());
            }),
        );
        durable
            .recv_timeout(until.saturating_duration_since(Instant::now()))
            .map_err(|_| Unfit::Store("the database takes nothing".into()))
    }

    /// A peer shows what it says is a newer standing of this node. If this node signed it, the node takes no more work.
    pub fn superseded(&self, peer: &Name, evidence: &[u8]) {
        let mut past = lock(&self.desk.past);
        if !past.superseded(&self.me().name, &self.desk.own, peer, evidence) {
            return;
        }
        let reason = past.recovery().unwrap_or_default();
        tracing::error!(reason, "the node has to be recovered, or stopped: `tally node recover`");
        self.engine.admit_only(Some(Recover::NAME));
        self.pause_all(Timestamp::MAX);
        drop(past);
        self.desk.queue.write_standing();
    }

    /// The queue to a peer cannot go on: the peer needs what is not kept, or has what was never sent. It begins anew, and
    /// sessions with the peer end. What the peer says proves nothing, so that it costs it its own sessions and nobody
    /// else's.
    pub fn astray(&self, peer: &Name, queue: QueueId) {
        if self.queue_to(peer) != queue {
            return;
        }
        tracing::warn!(%peer, "the queue to the peer begins anew: one of both databases is older than it was");
        let _ = self.engine.forget_sessions(Some(peer));
        let anew = Write::QueueAnew { peer: peer.clone(), queue: self.draw() };
        self.desk.queue.change(vec![anew], Box::new(|| ()));
    }

    /// The node goes on from this database as the newest, if it has to be recovered: with new queues in both directions,
    /// and without the sessions that it had. Nothing happens while a recovery is under way.
    pub(super) fn renew(&self) {
        let recovers =
            |view: &View| *view.name == *Recover::NAME && matches!(view.origin, Origin::User { .. });
        let under_way = self.engine.views(None, usize::MAX).iter().any(recovers);
        let mut past = lock(&self.desk.past);
        if past.recovery().is_none() || under_way {
            return;
        }
        let life = self.draw();
        past.renew(life, self.desk.own.len().saturating_sub(1));
        drop(past);
        let _ = self.engine.forget_sessions(None);
        self.desk.queue.change(vec![Write::Renewed { own: life }], Box::new(|| ()));
        self.desk.queue.write_standing();
    }
}
