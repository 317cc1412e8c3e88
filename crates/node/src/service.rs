//! The node as its clients see it: texts and JSON outside, ids, keys and encodings inside.

mod query;
mod view;

use std::sync::Arc;

use bytes::Bytes;
use tally_contracts::{AttachmentId, SignedTransaction, Timestamp, TransactionId};
use tally_flows::{ControlError, FlowError, FlowId, Origin, StartError, Started};
use tally_rpc::{
    Caller, Drain, Feed, FlowDescription, FlowEnd, FlowEvent, FlowInfo, FlowPage, FlowQuery, NetworkMap,
    NodeInfo, NodeService, Parameters, Refusal, RefusalCode, StartFlow, TransactionInfo, UndeliveredPage,
    UndeliveredQuery, VaultPage, VaultQuery, VaultUpdate,
};
use tokio::sync::oneshot;

use crate::acceptance::AcceptError;
use crate::core::{Core, OpenError, Request, Unavailable};
use crate::desk::full_text;
use crate::desk::watch::Event;

/// What a node says of itself and of the network, beside its ledger.
pub trait About: Send + Sync + 'static {
    /// This node.
    fn node(&self) -> NodeInfo;
    /// The network as this node knows it.
    fn network(&self) -> NetworkMap;
    /// How the network's parameters and their acceptance stand.
    fn parameters(&self) -> Parameters;
    /// Accepts the network's parameters of an epoch, for good.
    ///
    /// # Errors
    /// There are none of that epoch, or the acceptance cannot be kept.
    fn accept_parameters(&self, epoch: u32, user: &str) -> Result<(), AcceptError>;
}

/// A node's remote interface.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
    about: Arc<dyn About>,
}

impl Service {
    /// The interface of a node.
    pub fn new(core: Arc<Core>, about: Arc<dyn About>) -> Self {
        Self { core, about }
    }

    /// Starts a flow; answers its id, name and version.
    fn begin(&self, caller: &Caller, start: StartFlow) -> Result<(FlowId, Started), Refusal> {
        let registry = self.core.engine().registry();
        let json = serde_json::Value::Object(start.arguments);
        let arguments = registry.arguments_from_json(&start.flow, &json).map_err(|error| match error {
            FlowError::UnknownFlow { .. } => Refusal::new(RefusalCode::FlowUnknown, error.to_string()),
            error => Refusal::new(RefusalCode::ArgumentsInvalid, error.to_string()),
        })?;
        let name = start.flow.clone();
        let request =
            Request { user: caller.user.to_string(), request: start.request_id, flow: start.flow, arguments };
        match self.core.start(request) {
            // Begun before an upgrade that encodes the arguments in another way.
            Err(Unavailable::Reused { id, flow, version, arguments })
                if flow == name
                    && registry.arguments_in_version(&flow, version, &json).as_ref() == Ok(&arguments) =>
            {
                Ok((id, Started::Before))
            }
            result => result.map_err(|error| unavailable(&error)),
        }
    }

    /// Reads from the database on a thread that may wait for it.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Core) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let core = self.core.clone();
        tokio::task::spawn_blocking(move || read(&core))
            .await
            .map_err(|error| Refusal::new(RefusalCode::Internal, format!("the read did not end: {error}")))?
    }

    fn control(result: Result<(), ControlError>) -> Result<(), Refusal> {
        result.map_err(|error| {
            let code = match error {
                ControlError::Unknown(_) => RefusalCode::FlowIdUnknown,
                ControlError::Running(_) => RefusalCode::FlowState,
            };
            Refusal::new(code, error.to_string())
        })
    }

    fn follow(&self, flow: FlowId, follower: crate::Follower) -> Result<(), Refusal> {
        self.core.follow(flow, follower).map_err(|error| match error {
            OpenError::Row { .. } => {
                Refusal::new(RefusalCode::FlowIdUnknown, format!("no flow {flow} was started here"))
            }
            error => opening(&error),
        })
    }
}

fn unavailable(error: &Unavailable) -> Refusal {
    let code = match error {
        Unavailable::Store(_) | Unavailable::Start(StartError::Trouble(_)) => RefusalCode::StoreUnavailable,
        Unavailable::Start(StartError::Draining | StartError::Barred(_)) => RefusalCode::Unavailable,
        Unavailable::Reused { .. } => RefusalCode::RequestIdReused,
        Unavailable::Overloaded(_) | Unavailable::Start(StartError::Refused(FlowError::Busy { .. })) => {
            RefusalCode::Overloaded
        }
        Unavailable::Start(StartError::Refused(
            FlowError::UnknownFlow { .. } | FlowError::Version { .. },
        )) => RefusalCode::FlowUnknown,
        Unavailable::Start(StartError::Refused(FlowError::Recovering)) => RefusalCode::Unavailable,
        Unavailable::Start(StartError::Refused(_)) => RefusalCode::ArgumentsInvalid,
    };
    Refusal::new(code, full_text(error))
}

pub(crate) fn opening(error: &OpenError) -> Refusal {
    match error {
        OpenError::Store(store) if store.is_transient() => {
            Refusal::new(RefusalCode::StoreUnavailable, full_text(store))
        }
        error => Refusal::new(RefusalCode::Internal, full_text(error)),
    }
}

fn flow_id(text: &str) -> Result<FlowId, Refusal> {
    text.parse().map_err(|error| Refusal::new(RefusalCode::RequestInvalid, format!("the flow's id: {error}")))
}

impl NodeService for Service {
    async fn start_flow(&self, caller: &Caller, start: StartFlow) -> Result<String, Refusal> {
        let (flow, _) = self.begin(caller, start)?;
        let (told, durable) = oneshot::channel();
        let mut told = Some(told);
        self.follow(
            flow,
            Box::new(move |event| {
                // A step may come before the start is durable; a flow found under way may have been so for long.
                if matches!(event, Event::Started | Event::Ended(_))
                    && let Some(told) = told.take()
                {
                    let _ = told.send(());
                }
                told.is_some()
            }),
        )?;
        // A flow that was started before is durable already, and its follower hears of no start.
        if self.is_durable(flow).await? {
            return Ok(flow.to_string());
        }
        durable.await.map_err(|_| stopping())?;
        Ok(flow.to_string())
    }

    async fn run_flow(&self, caller: &Caller, start: StartFlow) -> Result<FlowEnd, Refusal> {
        let name = start.flow.clone();
        let version = self.core.engine().registry().newest(&name).map_or(0, |(_, version)| version);
        let (flow, started) = self.begin(caller, start)?;
        let (told, ended) = oneshot::channel();
        let mut told = Some(told);
        self.follow(
            flow,
            Box::new(move |event| {
                if let Event::Ended(outcome) = event
                    && let Some(told) = told.take()
                {
                    let _ = told.send(outcome.clone());
                }
                told.is_some()
            }),
        )?;
        let outcome = ended.await.map_err(|_| stopping())?;
        // A flow that was started before may have been of another version.
        let (name, version) = match started {
            Started::New => (name, version),
            Started::Before => self
                .read(move |core| {
                    let row = core.store().flow(flow.0).map_err(|error| opening(&error.into()))?;
                    Ok(row.map(|row| (row.flow.name, row.flow.version)))
                })
                .await?
                .unwrap_or((name, version)),
        };
        let registry = self.core.engine().registry();
        Ok(FlowEnd { flow_id: flow.to_string(), outcome: view::outcome(registry, &name, version, &outcome) })
    }

    async fn watch_flow(&self, _: &Caller, id: String, feed: Feed<FlowEvent>) -> Result<(), Refusal> {
        let flow = flow_id(&id)?;
        let core = self.core.clone();
        let info = self.flow_row(flow).await?;
        let (name, version) = (info.flow, info.version);
        self.follow(
            flow,
            Box::new(move |event| match event {
                Event::Started => true,
                Event::Step(step) => feed.offer(FlowEvent::Step(view::step(step))).is_ok(),
                Event::Ended(outcome) => {
                    let outcome = view::outcome(core.engine().registry(), &name, version, outcome);
                    let _ = feed.offer(FlowEvent::Ended(outcome));
                    false
                }
            }),
        )
    }

    async fn flow(&self, _: &Caller, id: String) -> Result<FlowInfo, Refusal> {
        self.flow_row(flow_id(&id)?).await
    }

    async fn flows(&self, _: &Caller, query: FlowQuery) -> Result<FlowPage, Refusal> {
        self.read(move |core| view::flows(core, query)).await
    }

    async fn undelivered(&self, _: &Caller, query: UndeliveredQuery) -> Result<UndeliveredPage, Refusal> {
        self.read(move |core| view::undelivered(core, &query)).await
    }

    async fn pause_flow(&self, _: &Caller, id: String) -> Result<(), Refusal> {
        Self::control(self.core.engine().pause(flow_id(&id)?))
    }

    async fn retry_flow(&self, _: &Caller, id: String) -> Result<(), Refusal> {
        Self::control(self.core.engine().retry(flow_id(&id)?))
    }

    async fn kill_flow(&self, _: &Caller, id: String) -> Result<(), Refusal> {
        Self::control(self.core.engine().kill(flow_id(&id)?))
    }

    async fn flow_names(&self, _: &Caller) -> Result<Vec<FlowDescription>, Refusal> {
        let descriptions = self.core.engine().registry().descriptions();
        Ok(descriptions
            .into_iter()
            .map(|description| FlowDescription {
                flow: description.name.to_owned(),
                versions: description.versions,
                arguments: description.arguments.iter().map(|(name, _)| (*name).to_owned()).collect(),
            })
            .collect())
    }

    async fn query_vault(&self, _: &Caller, query: VaultQuery) -> Result<VaultPage, Refusal> {
        self.read(move |core| query::page(core, &query)).await
    }

    async fn track_vault(
        &self,
        _: &Caller,
        query: VaultQuery,
        feed: Feed<VaultUpdate>,
    ) -> Result<VaultPage, Refusal> {
        self.read(move |core| query::track(core, &query, feed)).await
    }

    async fn transaction(&self, _: &Caller, id: String) -> Result<TransactionInfo, Refusal> {
        let id: TransactionId = id.parse().map_err(|error| {
            Refusal::new(RefusalCode::RequestInvalid, format!("the transaction's id: {error}"))
        })?;
        self.read(move |core| {
            let bytes = core.store().transaction(id).map_err(|error| opening(&error.into()))?;
            let bytes = bytes.ok_or_else(|| {
                Refusal::new(RefusalCode::TransactionUnknown, format!("no transaction {id} is recorded here"))
            })?;
            let signed = SignedTransaction::decode(&bytes)
                .map_err(|error| Refusal::new(RefusalCode::Internal, format!("transaction {id}: {error}")))?;
            Ok(TransactionInfo {
                transaction_id: id.to_string(),
                details: view::transaction(core, &signed),
                encoded: Bytes::from(bytes),
            })
        })
        .await
    }

    async fn upload_attachment(&self, _: &Caller, content: Bytes) -> Result<String, Refusal> {
        self.core.available().map_err(|error| unavailable(&error))?;
        let attachment = tally_contracts::Attachment::new(content.to_vec())
            .map_err(|error| Refusal::new(RefusalCode::AttachmentTooLarge, error.to_string()))?;
        let id = attachment.id();
        let (told, durable) = oneshot::channel();
        self.core.attach(id, content.to_vec(), move || {
            let _ = told.send(());
        });
        durable.await.map_err(|_| stopping())?;
        Ok(id.to_string())
    }

    async fn attachment(&self, _: &Caller, id: String) -> Result<Bytes, Refusal> {
        let id: AttachmentId = id.parse().map_err(|error| {
            Refusal::new(RefusalCode::RequestInvalid, format!("the attachment's id: {error}"))
        })?;
        let bytes = self
            .read(move |core| core.store().attachment(id).map_err(|error| opening(&error.into())))
            .await?;
        bytes.map(Bytes::from).ok_or_else(|| {
            Refusal::new(RefusalCode::AttachmentUnknown, format!("no attachment {id} is stored here"))
        })
    }

    async fn node_info(&self, _: &Caller) -> Result<NodeInfo, Refusal> {
        Ok(self.about.node())
    }

    async fn drain(&self, _: &Caller, change: Option<bool>) -> Result<Drain, Refusal> {
        let engine = self.core.engine();
        match change {
            Some(true) => engine.drain(),
            Some(false) => engine.resume(),
            None => {}
        }
        let drain = engine.drained();
        if change.is_some() {
            tracing::warn!(draining = drain.draining, under_way = drain.under_way, "draining was changed");
        }
        let count = |count: usize| count as u64;
        Ok(Drain {
            draining: drain.draining,
            under_way: count(drain.under_way),
            for_a_person: count(drain.for_a_person),
            waiting: count(drain.waiting),
        })
    }

    async fn network_map(&self, _: &Caller) -> Result<NetworkMap, Refusal> {
        Ok(self.about.network())
    }

    async fn parameters(&self, caller: &Caller, accept: Option<u32>) -> Result<Parameters, Refusal> {
        if let Some(epoch) = accept {
            let (about, user) = (self.about.clone(), caller.user.to_string());
            let accepted = self.read(move |_| Ok(about.accept_parameters(epoch, &user))).await?;
            accepted.map_err(|error| {
                let code = match error {
                    AcceptError::Unknown { .. } => RefusalCode::RequestInvalid,
                    _ => RefusalCode::Internal,
                };
                Refusal::new(code, full_text(&error))
            })?;
        }
        Ok(self.about.parameters())
    }
}

impl Service {
    async fn is_durable(&self, flow: FlowId) -> Result<bool, Refusal> {
        self.read(move |core| {
            let row = core.store().flow(flow.0).map_err(|error| opening(&error.into()))?;
            Ok(row.is_some())
        })
        .await
    }

    async fn flow_row(&self, flow: FlowId) -> Result<FlowInfo, Refusal> {
        self.read(move |core| {
            if let Some(view) = core.engine().view(flow) {
                return Ok(view::under_way(core, &view));
            }
            let row = core.store().flow(flow.0).map_err(|error| opening(&error.into()))?;
            match row {
                Some(row) => view::row(core, row),
                None if core.engine().holds(flow) => {
                    Err(Refusal::new(RefusalCode::Unavailable, "the flow has just ended; ask again"))
                }
                None => {
                    Err(Refusal::new(RefusalCode::FlowIdUnknown, format!("no flow {flow} was started here")))
                }
            }
        })
        .await
    }
}

fn stopping() -> Refusal {
    Refusal::new(RefusalCode::Unavailable, "the node is stopping; ask again with the same request id")
}

/// Who started a flow, in words.
fn origin(origin: &Origin) -> String {
    match origin {
        Origin::User { name } => name.clone(),
        Origin::Session { peer, .. } => peer.to_string(),
        Origin::Node => "node".to_owned(),
    }
}

/// Milliseconds since the Unix epoch.
fn millis(at: Timestamp) -> u64 {
    at.as_millis()
}
