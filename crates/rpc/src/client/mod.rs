//! A client with typed methods, cheap for each call: one connection, one token, both renewed when needed.

mod calls;
mod connection;
mod error;
mod streams;

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status};

pub use error::ClientError;
pub use streams::{FlowEnds, FlowStarts, FlowWatch, VaultTrack};

use crate::refusal::{Refusal, RefusalCode};
use crate::wire;
pub(crate) use connection::Channel;
use connection::Connector;

pub(crate) type Node = wire::node_client::NodeClient<Channel>;

/// How a client behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Time to connect, TLS included, and time to log in: 10 s each.
    pub connect_limit: Duration,
    /// Time that a call may take, told to the server as well, beside a login that it may need first: none. Streams have
    /// no limit.
    pub deadline: Option<Duration>,
    /// Longest message from the server, in bytes: 64 MiB.
    pub message_limit: usize,
    /// A server that does not answer a ping within as long again is gone: 20 s.
    pub ping_every: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_limit: Duration::from_secs(10),
            deadline: None,
            message_limit: 64 << 20,
            ping_every: Duration::from_secs(20),
        }
    }
}

/// A connection to a node as one user. Cheap to clone; clones share the connection.
///
/// A lost connection is made anew, and an expired token renewed, by the next call. A call that was under way when the
/// connection was lost answers [`ClientError::Lost`] and is not repeated: what it started may go on, so ask again with
/// the same request id.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connector: Connector,
    user: String,
    password: String,
    settings: ClientSettings,
    /// What calls use; read for each, replaced rarely.
    session: RwLock<Option<Session>>,
    /// Held while a session is made, so that many calls make one.
    renewal: Mutex<()>,
}

#[derive(Clone)]
struct Session {
    node: Node,
    channel: Channel,
    authorization: MetadataValue<Ascii>,
    renew_at: Instant,
}

impl Client {
    /// Connects to `address` (`host:port`), makes sure that it is `server_name` by its certificate, and logs in.
    /// `tls` says whom to trust; ALPN is set here.
    pub async fn connect(
        address: &str,
        server_name: &str,
        tls: Arc<ClientConfig>,
        user: &str,
        password: &str,
    ) -> Result<Self, ClientError> {
        Self::connect_with(address, server_name, tls, user, password, ClientSettings::default()).await
    }

    /// As [`connect`](Self::connect), with settings.
    pub async fn connect_with(
        address: &str,
        server_name: &str,
        tls: Arc<ClientConfig>,
        user: &str,
        password: &str,
        settings: ClientSettings,
    ) -> Result<Self, ClientError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| ClientError::ServerName { name: server_name.to_owned() })?;
        let inner = Inner {
            connector: Connector::new(address, name, tls, &settings)?,
            user: user.to_owned(),
            password: password.to_owned(),
            settings,
            session: RwLock::new(None),
            renewal: Mutex::new(()),
        };
        let client = Self(Arc::new(inner));
        client.session().await?;
        Ok(client)
    }

    /// The generated client with the session's token, for tests that say what this client never would.
    #[cfg(test)]
    pub(crate) async fn raw(&self) -> (Node, MetadataValue<Ascii>) {
        let session = self.session().await.expect("connected");
        (session.node, session.authorization)
    }

    /// The channel, for tests of the standard services.
    #[cfg(test)]
    pub(crate) fn channel(&self) -> (Channel, http::Uri) {
        (self.stored().expect("connected").channel, self.0.connector.origin().clone())
    }

    /// A session with an open connection and a token that is not about to expire.
    async fn session(&self) -> Result<Session, ClientError> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let _renewal = self.0.renewal.lock().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let open = self.stored().map(|session| session.channel).filter(Channel::is_open);
        let channel = match open {
            Some(channel) => channel,
            None => self.0.connector.connect().await?,
        };
        let session = self.log_in(channel).await?;
        *self.0.session.write().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    fn stored(&self) -> Option<Session> {
        self.0.session.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn current(&self) -> Option<Session> {
        self.stored().filter(|session| session.channel.is_open() && Instant::now() < session.renew_at)
    }

    async fn log_in(&self, channel: Channel) -> Result<Session, ClientError> {
        let mut node = Node::with_origin(channel.clone(), self.0.connector.origin().clone())
            .max_decoding_message_size(self.0.settings.message_limit);
        let login = wire::LoginRequest { user: self.0.user.clone(), password: self.0.password.clone() };
        // Not the deadline of calls: that may be shorter than a password takes to verify.
        let limit = self.0.settings.connect_limit;
        let mut request = Request::new(login);
        request.set_timeout(limit);
        let answer = answer(limit, node.login(request)).await?;
        let authorization = format!("Bearer {}", answer.token).parse();
        let authorization = authorization.map_err(|_| ClientError::not_understood("token", "not a token"))?;
        // Early, so that a call seldom meets an expired token; a call that does is repeated.
        let valid_for = Duration::from_millis(answer.valid_for_ms);
        let renew_at = Instant::now().checked_add(valid_for - valid_for / 10);
        let renew_at = renew_at.ok_or_else(|| ClientError::not_understood("valid_for_ms", "too long"))?;
        Ok(Session { node, channel, authorization, renew_at })
    }

    /// Makes a call with the session's token; with a fresh token once more when the server does not take the first.
    async fn call<Q, A, M, C, F>(
        &self,
        message: M,
        limit: Option<Duration>,
        call: C,
    ) -> Result<A, ClientError>
    where
        M: Fn() -> Q,
        C: Fn(Node, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut renewed = false;
        loop {
            let session = self.session().await?;
            let mut request = Request::new(message());
            request.metadata_mut().insert("authorization", session.authorization.clone());
            if let Some(limit) = limit {
                request.set_timeout(limit);
            }
            let called = call(session.node.clone(), request);
            let answered = match limit {
                Some(limit) => answer(limit, called).await,
                None => called.await.map(Response::into_inner).map_err(ClientError::from),
            };
            match answered {
                Err(ClientError::Refused(refusal)) if !renewed && is_stale(&refusal) => {
                    renewed = true;
                    self.forget(&session);
                }
                answered => return answered,
            }
        }
    }

    /// Makes the next call log in again, unless another already did.
    fn forget(&self, stale: &Session) {
        let mut stored = self.0.session.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = stored.as_mut().filter(|session| session.authorization == stale.authorization)
        {
            session.renew_at = Instant::now();
        }
    }
}

fn is_stale(refusal: &Refusal) -> bool {
    matches!(refusal.code, RefusalCode::TokenExpired | RefusalCode::TokenUnknown)
}

/// The answer to a call within a limit that the server knows as well: it gets a little longer to say so itself.
async fn answer<A>(
    limit: Duration,
    call: impl Future<Output = Result<Response<A>, Status>>,
) -> Result<A, ClientError> {
    const GRACE: Duration = Duration::from_millis(500);
    match timeout(limit.saturating_add(GRACE), call).await {
        Ok(answer) => answer.map(Response::into_inner).map_err(ClientError::from),
        Err(_) => Err(ClientError::Refused(Refusal::new(
            RefusalCode::DeadlineExceeded,
            format!("no answer within {} ms; what the call started may go on", limit.as_millis()),
        ))),
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("user", &self.0.user).finish_non_exhaustive()
    }
}
