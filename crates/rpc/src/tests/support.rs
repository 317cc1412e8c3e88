//! A node that does nothing, and TLS for it: for tests and for the measurement in `examples/roundtrip.rs`.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "shared by the tests and the example, which use different parts"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tally_rpc::{
    AnnouncedParameters, Caller, Drain, Feed, FeedClosed, FlowDescription, FlowEnd, FlowEvent, FlowFailure,
    FlowInfo, FlowPage, FlowQuery, FlowState, FlowStep, NetworkMap, NetworkNotary, NetworkParty, NodeInfo,
    NodeService, NotaryKind, Outcome, Parameters, Refusal, RefusalCode, StartFlow, StateStatus,
    TransactionInfo, Undelivered, UndeliveredPage, UndeliveredQuery, Unresolved, VaultPage, VaultQuery,
    VaultState, VaultUpdate,
};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// What the server proves itself with, and what a client trusts. The name is `localhost`.
pub fn tls() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = own.cert.der().clone();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

/// A node whose flows are `Echo` (answers its arguments), `Fail`, `Never` (does not end) and `Wait` (ends when told).
#[derive(Debug)]
pub struct FakeNode {
    started: Mutex<HashMap<(Arc<str>, String), String>>,
    count: AtomicUsize,
    /// Flows that run at the moment, and the most there were at once.
    pub running: AtomicUsize,
    pub most: AtomicUsize,
    /// A permit for each `Wait` that may end.
    pub go: Notify,
    /// Says that a `Wait` or `Never` has begun.
    pub begun: mpsc::UnboundedSender<()>,
    /// How a feed that was flooded was closed, and after how many items.
    pub closed: mpsc::UnboundedSender<(FeedClosed, usize)>,
    pub uploads: Mutex<HashMap<String, Bytes>>,
}

/// What the node tells a test.
pub struct Signals {
    pub begun: mpsc::UnboundedReceiver<()>,
    pub closed: mpsc::UnboundedReceiver<(FeedClosed, usize)>,
}

struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeNode {
    pub fn new() -> (Arc<Self>, Signals) {
        let (begun, begun_signals) = mpsc::unbounded_channel();
        let (closed, closed_signals) = mpsc::unbounded_channel();
        let node = Self {
            started: Mutex::default(),
            count: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            go: Notify::new(),
            begun,
            closed,
            uploads: Mutex::default(),
        };
        (Arc::new(node), Signals { begun: begun_signals, closed: closed_signals })
    }

    fn new_id(&self) -> String {
        format!("{:032x}", self.count.fetch_add(1, Ordering::Relaxed))
    }
}

pub fn step(label: &str) -> FlowStep {
    FlowStep { path: vec!["CashPay".into(), "Finalise".into()], label: label.into(), at_ms: 5 }
}

pub fn flow_info(id: &str) -> FlowInfo {
    FlowInfo {
        flow_id: id.into(),
        flow: "CashPay".into(),
        version: 2,
        state: FlowState::Held,
        origin: "admin".into(),
        started_at_ms: 1,
        ended_at_ms: Some(2),
        step: Some(step("Notarising")),
        held_reason: Some("the notary is not in the network map".into()),
        outcome: Some(Outcome::Failed(failure())),
    }
}

pub fn failure() -> FlowFailure {
    FlowFailure {
        code: "notary-conflict".into(),
        reason: "spent already".into(),
        counterparty: Some("O=Notary, L=London, C=GB".into()),
    }
}

pub fn state(reference: &str) -> VaultState {
    VaultState {
        reference: reference.into(),
        status: StateStatus::Unconsumed,
        contract: "tally.cash".into(),
        kind: "cash".into(),
        notary: "O=Notary, L=London, C=GB".into(),
        participants: vec!["O=A, L=London, C=GB".into()],
        owner: Some("O=A, L=London, C=GB".into()),
        asset: Some("USD@O=Bank, L=London, C=GB".into()),
        quantity: Some(u64::MAX),
        linear_id: None,
        recorded_at_ms: 7,
        consumed_by: None,
        locked_by: Some("00".repeat(16)),
        encumbered: true,
        lost_to: Some("ef".repeat(32)),
        details: json!({"amount": u64::MAX, "text": "é"}),
    }
}

pub fn update() -> VaultUpdate {
    VaultUpdate {
        transaction_id: "ab".repeat(32),
        produced: vec![state("ab:0")],
        consumed: vec!["cd:1".into()],
    }
}

pub fn network_map() -> NetworkMap {
    let name = "O=Notary, L=London, C=GB".to_owned();
    let key = "ed25519:00".to_owned();
    NetworkMap {
        parties: vec![NetworkParty {
            name: name.clone(),
            key: key.clone(),
            addresses: vec!["localhost:1".into()],
            serial: 3,
        }],
        notaries: vec![NetworkNotary { name, key, kind: NotaryKind::Validating }],
        parameters_epoch: 4,
        parameters: json!({"max_transaction_bytes": 1024}),
    }
}

pub fn undelivered_page(transaction: &str, next: Option<String>) -> UndeliveredPage {
    let undelivered = Undelivered {
        transaction_id: transaction.into(),
        party: "O=B, L=London, C=GB".into(),
        is_member: true,
        first_tried_at_ms: 1,
        last_tried_at_ms: 2,
        due_at_ms: 3,
        reason: "it lacks the contract".into(),
    };
    let unresolved = Unresolved {
        transaction_id: transaction.into(),
        first_tried_at_ms: 4,
        last_tried_at_ms: 5,
        due_at_ms: 6,
        reason: "the flow was killed".into(),
    };
    UndeliveredPage { undelivered: vec![undelivered], unresolved: vec![unresolved], next }
}

pub fn node_info() -> NodeInfo {
    NodeInfo {
        name: "O=A, L=London, C=GB".into(),
        key: "ed25519:01".into(),
        addresses: vec!["localhost:2".into()],
        version: "0.1.0".into(),
        notary: Some(NotaryKind::NonValidating),
        started_at_ms: 1,
        now_ms: 2,
        unfinished_flows: 3,
    }
}

impl NodeService for FakeNode {
    async fn start_flow(&self, caller: &Caller, start: StartFlow) -> Result<String, Refusal> {
        let Some(request_id) = start.request_id else {
            return Ok(self.new_id());
        };
        let mut started = self.started.lock().unwrap();
        Ok(started.entry((caller.user.clone(), request_id)).or_insert_with(|| self.new_id()).clone())
    }

    async fn run_flow(&self, _caller: &Caller, start: StartFlow) -> Result<FlowEnd, Refusal> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        let _running = Running(&self.running);
        self.most.fetch_max(running, Ordering::SeqCst);
        let outcome = match start.flow.as_str() {
            "Echo" => Outcome::Completed(Value::Object(start.arguments)),
            "Fail" => Outcome::Failed(failure()),
            "Never" => {
                let _ = self.begun.send(());
                std::future::pending().await
            }
            "Wait" => {
                let _ = self.begun.send(());
                self.go.notified().await;
                Outcome::Completed(Value::Null)
            }
            other => {
                return Err(Refusal::new(
                    RefusalCode::FlowUnknown,
                    format!("there is no flow `{other}` here"),
                ));
            }
        };
        Ok(FlowEnd { flow_id: self.new_id(), outcome })
    }

    async fn watch_flow(
        &self,
        _caller: &Caller,
        flow_id: String,
        feed: Feed<FlowEvent>,
    ) -> Result<(), Refusal> {
        match flow_id.as_str() {
            "flood" => {
                let closed = self.closed.clone();
                tokio::spawn(async move {
                    let label = "x".repeat(4096);
                    let mut count = 0;
                    loop {
                        if let Err(why) = feed.offer(FlowEvent::Step(step(&label))) {
                            let _ = closed.send((why, count));
                            return;
                        }
                        count += 1;
                        tokio::task::yield_now().await;
                    }
                });
            }
            "silent" => {
                let closed = self.closed.clone();
                tokio::spawn(async move {
                    while !feed.is_closed() {
                        tokio::task::yield_now().await;
                    }
                    let _ = closed.send((feed.offer(FlowEvent::Step(step("x"))).unwrap_err(), 0));
                });
            }
            "unknown" => return Err(Refusal::new(RefusalCode::FlowIdUnknown, "no such flow")),
            "dropped" => {
                let _ = feed.offer(FlowEvent::Step(step("Building")));
            }
            _ => {
                let _ = feed.offer(FlowEvent::Step(step("Building")));
                let _ = feed.offer(FlowEvent::Step(step("Signing")));
                let _ = feed.offer(FlowEvent::Ended(Outcome::Completed(json!(1))));
            }
        }
        Ok(())
    }

    async fn flow(&self, _caller: &Caller, flow_id: String) -> Result<FlowInfo, Refusal> {
        Ok(flow_info(&flow_id))
    }

    async fn flows(&self, _caller: &Caller, query: FlowQuery) -> Result<FlowPage, Refusal> {
        let flows = query.states.iter().map(|&state| FlowInfo { state, ..flow_info("x") }).collect();
        Ok(FlowPage { flows, next: query.cursor.map(|cursor| cursor + "+") })
    }

    async fn undelivered(
        &self,
        _caller: &Caller,
        query: UndeliveredQuery,
    ) -> Result<UndeliveredPage, Refusal> {
        Ok(undelivered_page(query.transaction_id.as_deref().unwrap_or("T"), query.cursor))
    }

    async fn pause_flow(&self, _caller: &Caller, flow_id: String) -> Result<(), Refusal> {
        Err(Refusal::new(RefusalCode::FlowState, format!("{flow_id} has ended")))
    }

    async fn retry_flow(&self, _caller: &Caller, _flow_id: String) -> Result<(), Refusal> {
        Ok(())
    }

    async fn kill_flow(&self, _caller: &Caller, _flow_id: String) -> Result<(), Refusal> {
        Ok(())
    }

    async fn flow_names(&self, _caller: &Caller) -> Result<Vec<FlowDescription>, Refusal> {
        let echo =
            FlowDescription { flow: "Echo".into(), versions: vec![1, 2], arguments: vec!["text".into()] };
        Ok(vec![echo])
    }

    async fn query_vault(&self, _caller: &Caller, query: VaultQuery) -> Result<VaultPage, Refusal> {
        let states = query.references.iter().map(|reference| state(reference)).collect();
        Ok(VaultPage { states, next: Some(query.page_size.to_string()) })
    }

    async fn track_vault(
        &self,
        _caller: &Caller,
        _query: VaultQuery,
        feed: Feed<VaultUpdate>,
    ) -> Result<VaultPage, Refusal> {
        let _ = feed.offer(update());
        feed.close(Refusal::new(RefusalCode::Unavailable, "the node is stopping"));
        Ok(VaultPage { states: vec![state("00:0")], next: None })
    }

    async fn transaction(
        &self,
        _caller: &Caller,
        transaction_id: String,
    ) -> Result<TransactionInfo, Refusal> {
        Ok(TransactionInfo {
            transaction_id,
            encoded: Bytes::from_static(b"\x00\xff"),
            details: json!({"a": 1}),
        })
    }

    async fn upload_attachment(&self, _caller: &Caller, content: Bytes) -> Result<String, Refusal> {
        let id = blake3::hash(&content).to_hex().to_string();
        self.uploads.lock().unwrap().insert(id.clone(), content);
        Ok(id)
    }

    async fn attachment(&self, _caller: &Caller, attachment_id: String) -> Result<Bytes, Refusal> {
        let content = self.uploads.lock().unwrap().get(&attachment_id).cloned();
        content.ok_or_else(|| Refusal::new(RefusalCode::AttachmentUnknown, "no such attachment"))
    }

    async fn node_info(&self, _caller: &Caller) -> Result<NodeInfo, Refusal> {
        Ok(node_info())
    }

    async fn parameters(&self, _caller: &Caller, accept: Option<u32>) -> Result<Parameters, Refusal> {
        Ok(Parameters {
            epoch: 7,
            parameters: json!({ "epoch": 7 }),
            announced: Some(AnnouncedParameters {
                epoch: 8,
                in_force_from_ms: 5,
                parameters: json!({ "epoch": 8 }),
            }),
            accepted: accept.into_iter().collect(),
            missing: accept.is_none().then(|| "those of epoch 7".to_owned()),
        })
    }

    async fn drain(&self, _caller: &Caller, change: Option<bool>) -> Result<Drain, Refusal> {
        Ok(Drain { draining: change == Some(true), under_way: 1, for_a_person: 2, waiting: 3 })
    }

    async fn network_map(&self, _caller: &Caller) -> Result<NetworkMap, Refusal> {
        Ok(network_map())
    }
}
