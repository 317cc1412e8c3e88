//! Server and client together over TLS on loopback, with a node that does nothing.

mod answers;
mod hostile;
mod refusals;
mod standard;
mod streams;
mod support;

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::{
    Client, ClientError, ClientSettings, Clock, Permissions, RefusalCode, Server, Settings, StartFlow, User,
    Users,
};
use support::{FakeNode, Signals};

static TLS: LazyLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = LazyLock::new(support::tls);

/// Hashing passwords is slow on purpose; once is enough.
static USERS: LazyLock<Users> = LazyLock::new(|| {
    let teller = ["flow:Echo", "vault:read"].iter().map(|text| text.parse().unwrap()).collect();
    Users::new([
        User::new("admin", "secret", Permissions::All).unwrap(),
        User::new("teller", "staple", Permissions::Only(teller)).unwrap(),
        User::new("guest", "guest", Permissions::Only([].into())).unwrap(),
    ])
    .unwrap()
});

struct Running {
    address: String,
    node: Arc<FakeNode>,
    signals: Signals,
    now: Arc<Mutex<Instant>>,
    health: crate::Health,
    figures: Arc<crate::Figures>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl Running {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let (node, signals) = FakeNode::new();
        let now = Arc::new(Mutex::new(Instant::now()));
        let mut settings = Settings::new(([127, 0, 0, 1], 0).into());
        let held = now.clone();
        settings.clock = Clock::new(move || *held.lock().unwrap());
        change(&mut settings);
        let server = Server::bind(settings, TLS.0.clone(), USERS.clone(), node.clone()).await.unwrap();
        let address = server.local_address().to_string();
        let health = server.health();
        let figures = server.figures();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, node, signals, now, health, figures, stop: Some(stop), served }
    }

    async fn connect(&self, user: &str, password: &str) -> Result<Client, ClientError> {
        Client::connect(&self.address, "localhost", TLS.1.clone(), user, password).await
    }

    async fn admin(&self) -> Client {
        self.connect("admin", "secret").await.unwrap()
    }

    async fn admin_with(&self, change: impl FnOnce(&mut ClientSettings)) -> Client {
        let mut settings = ClientSettings::default();
        change(&mut settings);
        let tls = TLS.1.clone();
        Client::connect_with(&self.address, "localhost", tls, "admin", "secret", settings).await.unwrap()
    }

    fn pass(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }
}

fn start(flow: &str) -> StartFlow {
    StartFlow { flow: flow.into(), arguments: Map::new(), request_id: None }
}

fn echo(text: &str) -> StartFlow {
    let arguments = [("text".to_owned(), Value::from(text))].into_iter().collect();
    StartFlow { flow: "Echo".into(), arguments, request_id: None }
}

#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> RefusalCode {
    match result {
        Err(ClientError::Refused(refusal)) => refusal.code,
        other => panic!("not a refusal: {other:?}"),
    }
}
