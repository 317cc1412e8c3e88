//! Clients that go on asking, with the same request id, until they know how each flow ended.

use super::support::{PATIENCE, client};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally::flows_network::layout::NodeDirectory;
use tally_rpc::{Client, ClientError, Outcome, RefusalCode, StartFlow};
use tally_sim::Rng;

/// A paper that delivery versus payment sells, one for each issuer.
const ISIN: &str = "XS0000000009";

/// A party of the network.
pub(crate) struct Party {
    pub(crate) directory: NodeDirectory,
    /// Its X.500 name.
    pub(crate) name: String,
    /// The connection that its clients share.
    client: tokio::sync::Mutex<Option<Client>>,
}

impl Party {
    pub(crate) fn new(directory: NodeDirectory) -> Self {
        let name = format!("O={}, L=London, C=GB", directory.label());
        Self { directory, name, client: tokio::sync::Mutex::default() }
    }

    /// A connection, as soon as the node serves.
    pub(crate) async fn client(&self) -> Client {
        let mut shared = self.client.lock().await;
        if let Some(client) = shared.as_ref() {
            return client.clone();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match client(&self.directory).await {
                Ok(client) => return shared.insert(client).clone(),
                Err(error) => assert!(Instant::now() < deadline, "{}: {error:#}", self.name),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asks until there is an answer or a refusal for good.
    pub(crate) async fn insist<T, F>(&self, call: impl Fn(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let failed = match call(self.client().await).await {
                Err(error) if is_passing(&error) => error,
                answer => return answer,
            };
            assert!(Instant::now() < deadline, "{}: {failed:?}", self.name);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Whether asking again may help: the node was killed, or its database.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Lost(_) => true,
        ClientError::Refused(refusal) => matches!(
            refusal.code,
            RefusalCode::Unavailable
                | RefusalCode::StoreUnavailable
                | RefusalCode::Overloaded
                | RefusalCode::LoginThrottled
        ),
        // What a proxy or a library answers for a connection that ended.
        ClientError::Other { .. } => true,
        ClientError::ServerName { .. } | ClientError::NotUnderstood(_) => false,
    }
}

/// A flow that a client asked for, and how it ended.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Which party's node.
    pub(crate) party: usize,
    pub(crate) start: StartFlow,
    /// The flow's id and its end, once known.
    pub(crate) end: Option<(String, Outcome)>,
}

/// The parties, what was asked of them, and whether to go on.
pub(crate) struct World {
    pub(crate) parties: Vec<Party>,
    pub(crate) asked: Mutex<HashMap<String, Asked>>,
    pub(crate) ended: AtomicU64,
    pub(crate) stop: AtomicBool,
}

impl World {
    pub(crate) fn new(parties: Vec<Party>) -> Arc<Self> {
        Arc::new(Self {
            parties,
            asked: Mutex::default(),
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// One client: a flow after the other, until told to stop.
    pub(crate) async fn work(self: Arc<Self>, mut rng: Rng) {
        while !self.stop.load(Ordering::Relaxed) {
            let (party, flow, arguments) = self.choose(&mut rng);
            self.ask(party, flow, arguments, &format!("{:016x}", rng.next_u64())).await;
        }
    }

    /// Has one flow run and remembers how it ended.
    pub(crate) async fn ask(&self, party: usize, flow: &str, arguments: Value, request: &str) -> Outcome {
        let start = StartFlow {
            flow: flow.to_owned(),
            arguments: object(arguments),
            request_id: Some(request.to_owned()),
        };
        let asked = Asked { party, start: start.clone(), end: None };
        assert!(self.asked.lock().unwrap().insert(request.to_owned(), asked).is_none(), "request ids differ");
        let start = &start;
        let end = self.parties[party].insist(|client| async move { client.run_flow(start).await }).await;
        let end = end.unwrap_or_else(|error| panic!("{start:?}: {error:?}"));
        self.asked.lock().unwrap().get_mut(request).unwrap().end = Some((end.flow_id, end.outcome.clone()));
        self.ended.fetch_add(1, Ordering::Relaxed);
        end.outcome
    }

    /// Gives each party something to begin with.
    pub(crate) async fn open(&self) {
        for (index, party) in self.parties.iter().enumerate() {
            let bond =
                json!({ "isin": ISIN, "nominal": "1000000.00 USD", "maturity": 1_900_000_000_000_u64 });
            for (flow, arguments) in
                [("CashIssue", json!({ "amount": "100000.00 USD", "outputs": 20 })), ("BondIssue", bond)]
            {
                let outcome = self.ask(index, flow, arguments, &format!("opening-{index}-{flow}")).await;
                assert!(matches!(outcome, Outcome::Completed(_)), "{}: {outcome:?}", party.name);
            }
        }
    }

    /// What a client does next.
    fn choose(&self, rng: &mut Rng) -> (usize, &'static str, Value) {
        let me = rng.index(self.parties.len());
        let other = (me + 1 + rng.index(self.parties.len() - 1)) % self.parties.len();
        let (mine, to) = (&self.parties[me].name, &self.parties[other].name);
        let issuer = if rng.chance(2, 3) { mine } else { to };
        let amount = |limit: u64, rng: &mut Rng| format!("{}.{:02} USD", rng.below(limit), 1 + rng.below(99));
        let (flow, arguments) = match rng.below(20) {
            0 | 1 => ("CashIssue", json!({ "amount": amount(5_000, rng), "outputs": 1 + rng.below(3) })),
            2 => ("CashExit", json!({ "amount": amount(50, rng), "issuer": issuer })),
            3 | 4 => ("IouCreate", json!({ "value": 1 + rng.below(99), "lender": to })),
            5 | 6 => {
                let price = amount(90, rng);
                let nominal = format!("{}.00 USD", 100 + rng.below(100));
                let arguments = json!({
                    "isin": ISIN, "nominal": nominal, "price": price, "buyer": to, "issuer": mine, "cash_issuer": issuer,
                });
                ("DeliveryVersusPayment", arguments)
            }
            _ => {
                let outputs = 1 + rng.below(2);
                (
                    "CashPay",
                    json!({ "amount": amount(500, rng), "to": to, "issuer": issuer, "outputs": outputs }),
                )
            }
        };
        (me, flow, arguments)
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}
