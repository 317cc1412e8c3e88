//! A client of settlement over gRPC: one connection, any number of streams and calls.

use super::channel::Channel;
use super::wire::{
    Balance, GetBalanceRequest, GetProofRequest, GetReceiptRequest, GetStatusRequest, Outcome, Outcomes,
    SubmitRequest, SubmitResponse, settlement_client::SettlementClient, submit_request, submit_response,
};
use super::{details, wire};
use bytes::Bytes;
use futures_util::stream;
use http::Uri;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tally_ledger::TransactionBatch;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// Requests of one stream that wait to be sent.
const AHEAD: usize = 2;

/// The gateway could not be asked, or refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address or the token is not of the form that is wanted.
    #[error("{0}")]
    Form(String),
    /// There is no connection.
    #[error("no connection to {address}")]
    Connect {
        /// Where to.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The gateway refused, or the connection ended.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The gateway refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Refused {
    /// The status of gRPC.
    pub status: tonic::Code,
    /// A code of ISO 20022 where there is one, else a word such as `quota`.
    pub code: String,
    /// What was wrong.
    pub text: String,
    /// After how long it may be sent again; none where that would not help.
    pub retry_after: Option<Duration>,
}

impl From<wire::Refused> for Refused {
    fn from(refused: wire::Refused) -> Self {
        let retry_after = (refused.retry_after_ms > 0).then(|| Duration::from_millis(refused.retry_after_ms));
        let status = tonic::Code::from_i32(refused.status);
        Self { status, code: refused.code, text: refused.text, retry_after }
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        Self::Refused(details::refused(&status).into())
    }
}

/// A connection to a gateway.
#[derive(Clone, Debug)]
pub struct Client {
    settlement: SettlementClient<Channel>,
    authorization: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// Connects to the gateway at that URL, such as `https://gateway.example:8443`, coming in with `token`, or with the certificate
    /// in `tls`. ALPN is set here; `tls` is wanted for `https` only.
    ///
    /// # Errors
    /// When the URL or the token is malformed, or nobody answers within 5 s.
    pub async fn connect(
        url: &str,
        token: Option<&str>,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, ClientError> {
        let form = |what: &str| ClientError::Form(format!("{url}: {what}"));
        let uri: Uri = url.parse().map_err(|_| form("no URL"))?;
        let authority = uri.authority().ok_or_else(|| form("no host"))?.clone();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match (uri.scheme_str(), tls) {
            (Some("http"), _) => None,
            (Some("https"), Some(tls)) => {
                let mut tls = ClientConfig::clone(&tls);
                tls.alpn_protocols = vec![b"h2".to_vec()];
                let name = ServerName::try_from(host.clone()).map_err(|_| form("no name of a server"))?;
                Some((TlsConnector::from(Arc::new(tls)), name))
            }
            (Some("https"), None) => return Err(form("by which authorities is it known?")),
            _ => return Err(form("http:// or https:// is wanted")),
        };
        let port = authority.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let connected = timeout(CONNECT, async {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            match tls {
                Some((connector, name)) => Channel::open(connector.connect(name, stream).await?).await,
                None => Channel::open(stream).await,
            }
        });
        let channel = connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let channel = channel.map_err(|source| ClientError::Connect { address: url.to_owned(), source })?;
        let authorization = match token.map(|token| format!("Bearer {token}").parse()) {
            None => None,
            Some(Ok(value)) => Some(value),
            Some(Err(_)) => {
                return Err(ClientError::Form("the token has characters that it cannot have".into()));
            }
        };
        let settlement = SettlementClient::with_origin(channel, uri).max_decoding_message_size(MAX_ANSWER);
        Ok(Self { settlement, authorization })
    }

    /// Opens a stream: where transactions go in, and where outcomes come out. Both have to be used at the same time.
    ///
    /// # Errors
    /// When the gateway does not let the user in, or has no room for another stream.
    pub async fn submit(&self) -> Result<(Requests, Responses), ClientError> {
        let (sender, mut receiver) = mpsc::channel(AHEAD);
        let requests = stream::poll_fn(move |context| receiver.poll_recv(context));
        let responses = self.settlement.clone().submit(self.request(requests)).await?.into_inner();
        Ok((Requests(sender), Responses(responses)))
    }

    /// What became of the transaction with that reference or id.
    ///
    /// # Errors
    /// When the gateway refuses or cannot be reached.
    pub async fn status(&self, transaction: &str) -> Result<Outcome, ClientError> {
        let request = self.request(GetStatusRequest { transaction: transaction.to_owned() });
        inner(self.settlement.clone().get_status(request).await)
    }

    /// The receipt of the transaction with that reference, as JSON.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn receipt(&self, uetr: &str) -> Result<Vec<u8>, ClientError> {
        let request = self.request(GetReceiptRequest { transaction: uetr.to_owned() });
        inner(self.settlement.clone().get_receipt(request).await).map(|document| document.json)
    }

    /// The proof of the transaction with that reference or id, as JSON; it shows the legs of the institutions with those BICs.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn proof(&self, transaction: &str, legs: &[String]) -> Result<Vec<u8>, ClientError> {
        let request = GetProofRequest { transaction: transaction.to_owned(), legs: legs.to_vec() };
        inner(self.settlement.clone().get_proof(self.request(request)).await).map(|document| document.json)
    }

    /// An account and its balance, not older than the question.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn balance(&self, institution: &str, account: &str) -> Result<Balance, ClientError> {
        let request = GetBalanceRequest {
            institution: institution.to_owned(),
            account: account.to_owned(),
            consistency: wire::Consistency::Latest.into(),
        };
        inner(self.settlement.clone().get_balance(self.request(request)).await)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        request
    }
}

fn inner<T>(answer: Result<Response<T>, Status>) -> Result<T, ClientError> {
    Ok(answer?.into_inner())
}

/// Where transactions go in. Dropping it lets the stream end once they have outcomes.
#[derive(Clone, Debug)]
pub struct Requests(mpsc::Sender<SubmitRequest>);

impl Requests {
    /// Sends a batch; its response has the same tag. Waits while the gateway takes no more. False when the stream has
    /// ended; [`Responses::next`] says why.
    pub async fn send(&self, tag: u64, batch: &TransactionBatch) -> bool {
        self.send_encoded(tag, crate::codec::encode(batch).into()).await
    }

    /// As [`Self::send`], with a batch that [`crate::codec::encode`] wrote.
    pub async fn send_encoded(&self, tag: u64, batch: Bytes) -> bool {
        self.send_request(SubmitRequest {
            tag,
            transactions: Some(submit_request::Transactions::Batch(batch)),
        })
        .await
    }

    /// As [`Self::send`], with the request as it goes over the wire.
    pub async fn send_request(&self, request: SubmitRequest) -> bool {
        self.0.send(request).await.is_ok()
    }
}

/// What the gateway says of one request.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// What became of each transaction.
    Outcomes(Outcomes),
    /// Nothing of it was handed in.
    Refused(Refused),
}

/// Where outcomes come out, in the order of the requests.
#[derive(Debug)]
pub struct Responses(Streaming<SubmitResponse>);

impl Responses {
    /// The next response and its tag; `None` once everything that was sent has one and no more comes.
    ///
    /// # Errors
    /// What ended the stream.
    pub async fn next(&mut self) -> Result<Option<(u64, Said)>, ClientError> {
        let Some(response) = self.0.message().await? else { return Ok(None) };
        let said = match response.result {
            Some(submit_response::Result::Outcomes(outcomes)) => Said::Outcomes(outcomes),
            Some(submit_response::Result::Refused(refused)) => Said::Refused(refused.into()),
            None => return Err(ClientError::Form("a response of the gateway says nothing".into())),
        };
        Ok(Some((response.tag, said)))
    }
}
