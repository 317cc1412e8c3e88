//! The HTTP client of the command line.

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tally_gateway::wire::{
    AccountBody, BooksView, NetworkView, OutcomeView, OutcomesBody, PaymentsBody, PreparedBody,
    ProblemDetails, SignedPaymentsBody, StatementBody, SubmitBody,
};
use tally_ledger::TransactionBatch;
use tally_proof::{Consistency, Proof, Receipt};
use tokio_rustls::rustls::crypto::ring;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// Talks to one network.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without its secret.
        formatter.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

/// The network answered that something is wrong with a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Refused {
    /// HTTP status.
    pub status: u16,
    /// The code of the problem.
    pub code: String,
    /// What was wrong.
    pub text: String,
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Client {
    /// A client of the network at that URL, such as `https://gateway.example:8443`, that comes in with `token`. A gateway
    /// with TLS is known by the authorities whose certificates are in the PEM file `authorities`.
    ///
    /// # Errors
    /// When that file cannot be read.
    pub fn new(url: &str, token: Option<String>, authorities: Option<&Path>) -> anyhow::Result<Self> {
        ensure!(
            authorities.is_some() || !url.starts_with("https://"),
            "{url}: by which authorities is it known? Give --ca FILE"
        );
        let config = ureq::Agent::config_builder()
            .tls_config(tls(authorities)?)
            .timeout_global(Some(Duration::from_secs(120)))
            .timeout_connect(Some(Duration::from_secs(5)))
            .http_status_as_error(false)
            // A network on loopback is not reached through a proxy of the environment.
            .proxy(None)
            .build();
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Self { agent: config.into(), base: url.trim_end_matches('/').to_owned(), authorization })
    }

    /// Who takes part, totals and health.
    ///
    /// # Errors
    /// When the network cannot be reached or refuses.
    pub fn network(&self) -> anyhow::Result<NetworkView> {
        json(self.get("/v1/network")?)
    }

    /// An institution's books.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn books(&self, bic: &str) -> anyhow::Result<BooksView> {
        json(self.get(&format!("/v1/accounts/{}", segment(bic)))?)
    }

    /// An account.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn account(&self, bic: &str, account: &str) -> anyhow::Result<AccountBody> {
        json(self.get(&format!("/v1/accounts/{}/{}", segment(bic), segment(account)))?)
    }

    /// An account's entries, the newest first.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn statement(
        &self,
        bic: &str,
        account: &str,
        before: Option<u64>,
        limit: usize,
    ) -> anyhow::Result<StatementBody> {
        let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
        let path =
            format!("/v1/accounts/{}/{}/statement?limit={limit}{before}", segment(bic), segment(account));
        json(self.get(&path)?)
    }

    /// An account's entries of some days as a message, `camt.053` or `camt.054`; days as YYYY-MM-DD, today without.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn report(
        &self,
        bic: &str,
        account: &str,
        message: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> anyhow::Result<String> {
        let mut path = format!("/v1/accounts/{}/{}/{message}", segment(bic), segment(account));
        let days = [("from", from), ("to", to)];
        for (place, (name, day)) in days.iter().filter_map(|(name, day)| Some((name, (*day)?))).enumerate() {
            path.push_str(&format!("{}{name}={}", if place == 0 { '?' } else { '&' }, segment(day)));
        }
        text(self.get(&path)?)
    }

    /// Asks for the cancellation of payments by a camt.056; the camt.029 that answers it.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn cancel(&self, message: &[u8]) -> anyhow::Result<String> {
        text(self.post("/v1/iso20022/cancel", "application/xml", message)?)
    }

    /// Turns payments into drafts to sign; those without a reference get one that follows from `idempotency_key`, if there is
    /// one.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn prepare_payments(
        &self,
        body: &PaymentsBody,
        idempotency_key: Option<&str>,
    ) -> anyhow::Result<PreparedBody> {
        json(self.post_json("/v1/payments/prepare", body, idempotency_key)?)
    }

    /// Makes payments whose drafts are signed; with an `idempotency_key`, one that was received before has the outcome of the
    /// first.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn submit_payments(
        &self,
        body: &SignedPaymentsBody,
        idempotency_key: Option<&str>,
    ) -> anyhow::Result<OutcomesBody> {
        json(self.post_json("/v1/payments", body, idempotency_key)?)
    }

    /// What became of the transaction with that reference or id.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn status(&self, transaction: &str) -> anyhow::Result<OutcomeView> {
        json(self.get(&format!("/v1/transactions/{}", segment(transaction)))?)
    }

    /// Proof of what became of a transaction.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn receipt(&self, uetr: &str) -> anyhow::Result<Receipt> {
        json(self.get(&format!("/v1/transactions/{}/receipt", segment(uetr)))?)
    }

    /// Proof for others of what became of the transaction with that reference or id, which shows the legs of the
    /// institutions with those BICs.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn proof(&self, transaction: &str, legs: &[String]) -> anyhow::Result<Proof> {
        let bics: Vec<String> = legs.iter().map(|bic| segment(bic)).collect();
        let legs = if bics.is_empty() { String::new() } else { format!("?legs={}", bics.join(",")) };
        json(self.get(&format!("/v1/transactions/{}/proof{legs}", segment(transaction)))?)
    }

    /// Proof that the log of `second` records extends that of `first` records.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn consistency(&self, first: u64, second: u64) -> anyhow::Result<Consistency> {
        json(self.get(&format!("/v1/tree-head/consistency?first={first}&second={second}"))?)
    }

    /// Sends transactions and waits for their outcomes.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn submit(&self, batch: &TransactionBatch) -> anyhow::Result<OutcomesBody> {
        let body = tally_gateway::codec::encode(batch);
        json(self.post("/v1/transactions", "application/octet-stream", &body)?)
    }

    /// Sends account orders and waits for their outcomes.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn order(&self, batch: &TransactionBatch) -> anyhow::Result<OutcomesBody> {
        let body = tally_gateway::codec::encode(batch);
        json(self.post("/v1/accounts", "application/octet-stream", &body)?)
    }

    /// Has a payment message turned into drafts to be signed.
    ///
    /// # Errors
    /// As [`Self::network`]. That a payment or the message is refused is no error.
    pub fn prepare(&self, message: &[u8]) -> anyhow::Result<PreparedBody> {
        json(self.post("/v1/iso20022/prepare", "application/xml", message)?)
    }

    /// Sends a payment message with its signed drafts; returns the status report.
    ///
    /// # Errors
    /// As [`Self::network`]. That a payment or the message is refused is no error.
    pub fn pay(&self, body: &SubmitBody) -> anyhow::Result<Vec<u8>> {
        let body = serde_json::to_vec(body)?;
        Ok(checked(self.post("/v1/iso20022/submit", "application/json", &body)?)?.body)
    }

    /// The metrics as OpenMetrics text.
    ///
    /// # Errors
    /// As [`Self::network`].
    pub fn metrics(&self) -> anyhow::Result<String> {
        text(self.get("/metrics")?)
    }

    fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.call();
        self.read(answer)
    }

    fn post(&self, path: &str, kind: &str, body: &[u8]) -> anyhow::Result<Answer> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).content_type(kind);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.send(body);
        self.read(answer)
    }

    fn post_json(
        &self,
        path: &str,
        body: &impl Serialize,
        idempotency_key: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send(serde_json::to_vec(body)?);
        self.read(answer)
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> anyhow::Result<Answer> {
        let unreachable = || format!("no answer from the network at {}; does it run?", self.base);
        let mut answer = answer.with_context(unreachable)?;
        let body = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        Ok(Answer { status: answer.status().as_u16(), body: body.with_context(unreachable)? })
    }
}

/// By whom a gateway with TLS is known.
fn tls(authorities: Option<&Path>) -> anyhow::Result<TlsConfig> {
    let mut builder =
        TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    if let Some(path) = authorities {
        let pem = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let certificates: Result<Vec<_>, _> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            })
            .collect();
        let certificates = certificates.with_context(|| format!("{}: not PEM", path.display()))?;
        builder = builder.root_certs(RootCerts::Specific(Arc::new(certificates)));
    }
    Ok(builder.build())
}

fn checked(answer: Answer) -> anyhow::Result<Answer> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    match serde_json::from_slice::<ProblemDetails>(&answer.body) {
        Ok(ProblemDetails { code, detail, .. }) => {
            Err(Refused { status: answer.status, code, text: detail }.into())
        }
        Err(_) => bail!("the network answered with HTTP status {}", answer.status),
    }
}

fn json<T: DeserializeOwned>(answer: Answer) -> anyhow::Result<T> {
    serde_json::from_slice(&checked(answer)?.body).context("the network's answer cannot be read")
}

fn text(answer: Answer) -> anyhow::Result<String> {
    String::from_utf8(checked(answer)?.body).context("the network's answer is not UTF-8")
}

/// A name as one segment of a path (RFC 3986, section 2.3).
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment() {
        assert_eq!(segment("a.b@c/d é"), "a.b%40c%2Fd%20%C3%A9");
    }
}
