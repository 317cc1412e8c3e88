//! What the tasks of a network share, and the only place where sessions begin and end.

use super::opening::Meeting;
use super::{AddError, KnownPeer, StartError, window};
use crate::admission::{Admission, Held};
use crate::config::{Config, Randomness, Timing};
use crate::enode::{Enode, Host};
use crate::event::{DisconnectReason, Event, EventQueue, Events};
use crate::handshake::{Hello, NEWEST, OLDEST};
use crate::key::{NodeId, NodeKey};
use crate::permissions::Permissions;
use crate::roster::Roster;
use crate::send::SendError;
use crate::session::{Session, Surroundings};
use crate::standing::Standing;
use crate::tls::Tls;
use alloy_primitives::Address;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tracing::{debug, info, warn};

/// What breaking the protocol of sessions costs: two times in a row is too often.
const VIOLATION: u32 = 60;

/// The decisions, which are made one at a time.
pub(super) struct State {
    pub(super) roster: Roster,
    pub(super) admission: Admission,
    pub(super) standing: Standing,
    /// Handshakes of others under way, oldest first.
    pub(super) handshakes: BTreeMap<u64, AbortHandle>,
    stopping: bool,
}

/// What the tasks share. Locks are taken in the order of the fields here.
pub(super) struct Core {
    state: Mutex<State>,
    sessions: RwLock<HashMap<Address, Arc<Session>>>,
    random: Mutex<Randomness>,
    pub(super) key: NodeKey,
    pub(super) hello: Hello,
    pub(super) permissions: Permissions,
    pub(super) tls: Tls,
    pub(super) local: Option<SocketAddr>,
    pub(super) advertised: Option<Host>,
    pub(super) runtime: Handle,
    pub(super) timing: Timing,
    pub(super) most_handshakes: usize,
    /// The known peers have changed.
    pub(super) redial: Notify,
    around: Surroundings,
    connections: AtomicU64,
    stop: watch::Sender<bool>,
    tasks: AtomicUsize,
    task_ended: Notify,
}

/// A connection whose two ends believe each other.
pub(super) struct Opened {
    pub(super) hello: Hello,
    pub(super) remote: SocketAddr,
    pub(super) meeting: Meeting,
}

impl Core {
    pub(super) fn new(
        config: Config,
        local: Option<SocketAddr>,
        runtime: Handle,
    ) -> Result<(Self, Events), StartError> {
        let Config { key, limits, timing, mut random, permissions, .. } = config;
        let queue = Arc::new(EventQueue::new(config.waker));
        let id = key.id();
        let now = Instant::now();
        let mut roster = Roster::new(config.backoff);
        for enode in config.known {
            if enode.id != id {
                roster.add(enode, false, now);
            }
        }
        let window = window(limits.window);
        let hello = Hello {
            oldest: OLDEST,
            newest: NEWEST,
            id,
            network_id: config.network_id,
            genesis: config.genesis,
            instance: random(),
            window,
            port: local.map_or(0, |local| local.port()),
            client: config.client,
        };
        let around = Surroundings {
            kinds: config.kinds,
            timing: timing.clone(),
            window,
            most_urgent: limits.urgent_bytes,
            most_bulk: limits.bulk_bytes,
            most_requests: limits.requests,
            events: Arc::clone(&queue),
        };
        let core = Self {
            state: Mutex::new(State {
                roster,
                admission: Admission::new(id, limits.peers, limits.inbound_from_address),
                standing: Standing::new(config.scores),
                handshakes: BTreeMap::new(),
                stopping: false,
            }),
            sessions: RwLock::default(),
            random: Mutex::new(random),
            key,
            hello,
            permissions,
            tls: Tls::new()?,
            local,
            advertised: config.advertised,
            runtime,
            timing,
            most_handshakes: limits.handshakes,
            redial: Notify::new(),
            around,
            connections: AtomicU64::new(0),
            stop: watch::Sender::new(false),
            tasks: AtomicUsize::new(0),
            task_ended: Notify::new(),
        };
        Ok((core, Events { queue }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sessions(&self) -> RwLockReadGuard<'_, HashMap<Address, Arc<Session>>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn session(&self, peer: &Address) -> Result<Arc<Session>, SendError> {
        self.sessions().get(peer).cloned().ok_or(SendError::NotConnected { peer: *peer })
    }

    pub(super) fn random(&self) -> u64 {
        (self.random.lock().unwrap_or_else(PoisonError::into_inner))()
    }

    /// A number that no other connection of this process has.
    pub(super) fn number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs a task that [`Self::stop`] waits for.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let guard = TaskGuard(Arc::clone(self));
        self.tasks.fetch_add(1, Ordering::AcqRel);
        self.runtime
            .spawn(async move {
                let _guard = guard;
                task.await;
            })
            .abort_handle()
    }

    /// Waits until the node stops.
    pub(super) async fn until_stopped(&self) {
        // The sender is in self and lives as long.
        drop(self.stop.subscribe().wait_for(|stop| *stop).await);
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.around.events.is_crowded()
    }

    /// Makes a session of a connection, if it still may be one.
    pub(super) fn open(&self, opened: Opened) -> Result<Arc<Session>, DisconnectReason> {
        // The meeting ends when the session is in the table, and after the lock: its end takes it.
        let Opened { hello, remote, meeting } = opened;
        let role = meeting.role;
        let (id, instance) = (hello.id, hello.instance);
        let session = Arc::new(Session::new(self.number(), role, hello, remote, self.around.clone()));
        let mut state = self.state();
        if state.stopping {
            return Err(DisconnectReason::Stopping);
        }
        if !self.permissions.permits_node(&id) {
            return Err(DisconnectReason::NotPermitted);
        }
        if !state.roster.contains(&id) && !state.admission.has_room(&id) {
            return Err(DisconnectReason::TooManyPeers);
        }
        state.admission.opened(id, Held { connection: session.connection, role, instance });
        state.roster.connected(&id);
        let before = self.write_sessions().insert(session.peer, Arc::clone(&session));
        let events = &self.around.events;
        if let Some(before) = before {
            before.end(DisconnectReason::Replaced);
            events.push(Event::Disconnected { peer: session.peer, reason: DisconnectReason::Replaced });
        }
        events.push(Event::Connected { peer: session.peer, id, role });
        drop(state);
        info!(peer = %session.peer, %remote, role = %role, client = session.hello.client, "peer connected");
        Ok(session)
    }

    /// A session is over.
    pub(super) fn close(&self, session: &Session, reason: DisconnectReason) {
        let now = Instant::now();
        let random = self.random();
        let mut state = self.state();
        if matches!(reason, DisconnectReason::Violation(_) | DisconnectReason::Flood) {
            warn!(peer = %session.peer, %reason, "peer broke the protocol");
            let familiar = self.is_familiar(&state, &session.id);
            state.standing.report(session.peer, VIOLATION, familiar, now);
        }
        if state.admission.closed(&session.id, session.connection) {
            state.roster.disconnected(&session.id, now.saturating_duration_since(session.since), random, now);
            self.write_sessions().remove(&session.peer);
            info!(peer = %session.peer, %reason, "peer disconnected");
            self.around.events.push(Event::Disconnected { peer: session.peer, reason });
            drop(state);
            self.redial.notify_one();
        }
    }

    /// Known to the operator by name, one way or the other.
    fn is_familiar(&self, state: &State, id: &NodeId) -> bool {
        state.roster.contains(id) || self.permissions.names_node(id)
    }

    fn write_sessions(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<Address, Arc<Session>>> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt to connect has failed.
    pub(super) fn failed(&self, id: &NodeId, not_before: Duration, why: String) {
        let random = self.random();
        debug!(peer = %id.address(), why, "cannot connect");
        self.state().roster.failed(id, not_before, why, random, Instant::now());
        self.redial.notify_one();
    }

    pub(super) fn add(&self, enode: Enode) -> Result<bool, AddError> {
        if enode.id == self.key.id() {
            return Err(AddError::Itself);
        }
        if !self.permissions.permits_node(&enode.id) {
            return Err(AddError::NotPermitted);
        }
        let peer = enode.id.address();
        let mut state = self.state();
        state.standing.forgive(&peer);
        let connected = self.sessions().contains_key(&peer);
        let new = state.roster.add(enode, connected, Instant::now());
        drop(state);
        self.redial.notify_one();
        Ok(new)
    }

    pub(super) fn remove(&self, id: &NodeId) -> bool {
        let known = self.state().roster.remove(id);
        if let Ok(session) = self.session(&id.address()) {
            session.end(DisconnectReason::Removed);
        }
        known
    }

    pub(super) fn report(&self, peer: &Address, weight: u32) -> bool {
        let mut state = self.state();
        let session = self.session(peer).ok();
        let familiar = session.as_ref().is_some_and(|session| self.is_familiar(&state, &session.id));
        let dropped = state.standing.report(*peer, weight, familiar, Instant::now());
        drop(state);
        match session {
            Some(session) if dropped => {
                session.end(DisconnectReason::Misbehaved);
                true
            }
            _ => false,
        }
    }

    pub(super) fn apply_permissions(&self) {
        let sessions: Vec<_> = self.sessions().values().map(Arc::clone).collect();
        for session in sessions {
            if !self.permissions.permits_node(&session.id) {
                session.end(DisconnectReason::NotPermitted);
            }
        }
        self.state().roster.retry_all(Instant::now());
        self.redial.notify_one();
    }

    pub(super) async fn stop(&self) {
        self.stop.send_replace(true);
        let sessions: Vec<_> = {
            let mut state = self.state();
            state.stopping = true;
            for handshake in std::mem::take(&mut state.handshakes).into_values() {
                handshake.abort();
            }
            self.sessions().values().map(Arc::clone).collect()
        };
        for session in sessions {
            session.end(DisconnectReason::Stopping);
        }
        let ended = async {
            loop {
                let notified = self.task_ended.notified();
                if self.tasks.load(Ordering::Acquire) == 0 {
                    break;
                }
                notified.await;
            }
        };
        // A task that does not end in time ends with the runtime.
        drop(tokio::time::timeout(self.timing.stop, ended).await);
        self.around.events.close();
    }
}

impl State {
    pub(super) const fn is_stopping(&self) -> bool {
        self.stopping
    }
}

impl Roster {
    /// For people.
    pub(super) fn list(&self) -> Vec<KnownPeer> {
        let known = self.entries().map(|(enode, connected, failure)| KnownPeer {
            enode: enode.clone(),
            connected,
            failure: failure.map(str::to_owned),
        });
        known.collect()
    }
}

/// Counts a task as long as it lives.
struct TaskGuard(Arc<Core>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::AcqRel);
        self.0.task_ended.notify_waiters();
    }
}
