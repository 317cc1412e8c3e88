//! The server: TLS connections in, calls to a [`NodeService`] out.

mod connections;
mod dispatch;
mod figures;
mod gate;
mod gateway;
mod settings;
mod stopping;
mod streams;
mod throttle;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

pub use figures::Figures;
pub use settings::{Clock, Settings};

use crate::service::NodeService;
use crate::users::Users;
use crate::wire;
use connections::Connections;
use dispatch::Routes;
use gate::Gate;
use gateway::Gateway;
use stopping::Stop;

/// A server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen for RPC on {address}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The description of the services is not in order.
    #[error("the description of the services for reflection is not in order")]
    Description(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server that listens; [`serve`](Self::serve) answers.
pub struct Server<N: NodeService> {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    routes: Routes<N>,
    health: Health,
    settings: Settings,
    figures: Arc<Figures>,
    stop: Stop,
    gate: Arc<Gate>,
}

/// Who is let in, for changing that while the server runs.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Gate>);

impl Admission {
    /// Replaces the users. Who is no longer one of them, or has another password, is out at once: tokens open nothing, and
    /// what was followed ends. Others keep their tokens, with the permissions that they have now.
    pub fn replace(&self, users: Users) {
        self.0.replace(users);
    }
}

/// Tells health checks whether the node serves.
#[derive(Clone, Debug)]
pub struct Health(HealthReporter);

impl Health {
    /// Sets what the standard health service answers, for the server as a whole and for the node's service.
    pub async fn set_serving(&self, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.0.set_service_status("", status).await;
        self.0.set_service_status(wire::node_server::SERVICE_NAME, status).await;
    }
}

impl<N: NodeService> Server<N> {
    /// Listens. `tls` says how to prove who the node is; ALPN is set here. Health checks get "not serving" until
    /// [`Health::set_serving`].
    pub async fn bind(
        settings: Settings,
        tls: Arc<ServerConfig>,
        users: Users,
        node: Arc<N>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { address: settings.address, source };
        let listener = TcpListener::bind(settings.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut tls = ServerConfig::clone(&tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];

        let clock = settings.clock.clone();
        let gate = Arc::new(Gate::new(users, settings.token_lifetime, settings.logins_at_once, clock));
        let figures = Arc::<Figures>::default();
        let stop = Stop::new();
        let gateway = Gateway::new(node, gate.clone(), &settings, figures.clone(), stop.stopping());
        let reporter = HealthReporter::new();
        let health = Health(reporter.clone());
        health.set_serving(false).await;
        let description = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(wire::DESCRIPTION)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let broken = |error| ServerError::Description(Box::new(error));
        let routes = Routes::new(gateway, settings.message_limit)
            .with(HealthServer::new(HealthService::from_health_reporter(reporter)))
            .with(description().build_v1().map_err(broken)?)
            .with(description().build_v1alpha().map_err(broken)?);
        Ok(Self { listener, address, tls: Arc::new(tls), routes, health, settings, figures, stop, gate })
    }

    /// Where the server listens.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// What to tell health checks.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// To replace the users.
    pub fn admission(&self) -> Admission {
        Admission(self.gate.clone())
    }

    /// What the server has done so far.
    pub fn figures(&self) -> Arc<Figures> {
        self.figures.clone()
    }

    /// Answers until `stop` is done. Then it takes no more connections, calls and starts, ends what clients follow, and
    /// gives calls and flows under way [`Settings::drain_limit`] to end.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut connections =
            Connections::new(self.tls, self.routes, &self.settings, self.figures, self.stop.stopping());
        connections.accept(self.listener, stop).await;
        self.stop.tell();
        self.health.set_serving(false).await;
        connections.drain(self.settings.drain_limit).await;
    }
}

impl<N: NodeService> std::fmt::Debug for Server<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}
