//! `POST /v1/transactions`, `GET /v1/transactions/{uetr}`, its receipt and proof, and `POST /v1/accounts`.

use super::failure::Failure;
use super::{App, Body, blocking, looking_up, outcome};
use crate::codec;
use crate::wire::{OutcomeView, OutcomesBody};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use std::sync::Arc;
use tally_ledger::transaction::Kind;
use tally_ledger::{ParticipantId, Transaction, Uetr};
use tally_proof::{Proof, Receipt};
use tally_settlement::proof::Wanted;

pub(super) async fn submit(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OutcomesBody>, Failure> {
    let transactions = decode(&headers, &body)?;
    settle(app, transactions).await
}

pub(super) async fn order(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OutcomesBody>, Failure> {
    let transactions = decode(&headers, &body)?;
    if transactions.iter().any(|transaction| transaction.header.kind != Kind::Account.number()) {
        return Err(Failure::form("only account orders are taken here; others go to /v1/transactions"));
    }
    settle(app, transactions).await
}

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(wanted): Path<String>,
) -> Result<Json<OutcomeView>, Failure> {
    let wanted = named(&wanted)?;
    looking_up(app, move |app| {
        let answer = match wanted {
            Wanted::Uetr(uetr) => app.desk.status(uetr)?,
            Wanted::Id(id) => app.desk.status_by_id(id)?,
        };
        let none = || match wanted {
            Wanted::Uetr(uetr) => Failure::not_found(format!("no transaction has the reference {uetr}")),
            Wanted::Id(id) => Failure::not_found(format!("no transaction has the id {id}")),
        };
        Ok(Json(outcome::view(&answer.ok_or_else(none)?)))
    })
    .await
}

pub(super) async fn receipt(
    State(app): State<Arc<App>>,
    Path(uetr): Path<String>,
) -> Result<Json<Receipt>, Failure> {
    let uetr = reference(&uetr)?;
    looking_up(app, move |app| {
        let receipt = app.desk.receipt(uetr)?;
        let none = || Failure::not_found(format!("no transaction with the reference {uetr} has an outcome"));
        Ok(Json(receipt.ok_or_else(none)?))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Legs {
    /// BICs, with commas between them, of the institutions whose legs are shown.
    #[serde(default)]
    legs: String,
}

pub(super) async fn proof(
    State(app): State<Arc<App>>,
    Path(wanted): Path<String>,
    Query(shown): Query<Legs>,
) -> Result<Json<Proof>, Failure> {
    let wanted = named(&wanted)?;
    looking_up(app, move |app| {
        let shown = participants(app, &shown.legs)?;
        let proof = app.desk.proof(wanted, &shown)?;
        let none = || Failure::not_found(format!("no transaction {wanted} has an outcome"));
        Ok(Json(proof.ok_or_else(none)?))
    })
    .await
}

fn participants(app: &App, bics: &str) -> Result<Vec<ParticipantId>, Failure> {
    let of = |bic: &str| {
        let found = app.desk.network().participant(bic).map(|(participant, _)| participant);
        found.ok_or_else(|| Failure::form(format!("legs: no participant has the BIC {bic:?}")))
    };
    bics.split(',').filter(|bic| !bic.is_empty()).map(of).collect()
}

fn named(text: &str) -> Result<Wanted, Failure> {
    text.parse().map_err(|error| Failure::form(format!("{error}")))
}

fn reference(text: &str) -> Result<Uetr, Failure> {
    text.parse().map_err(|error| Failure::form(format!("{error}")))
}

/// A batch in binary form, or in hexadecimal as text.
fn decode(headers: &HeaderMap, body: &Body) -> Result<Vec<Transaction>, Failure> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let batch = match kind.split(';').next().unwrap_or_default().trim() {
        "application/octet-stream" => codec::decode(&body.bytes),
        "text/plain" => codec::from_hex(body.bytes.trim_ascii()).and_then(|bytes| codec::decode(&bytes)),
        _ => {
            let text = "a batch is wanted as application/octet-stream, or in hexadecimal as text/plain";
            return Err(Failure::new(415, "FF01", text));
        }
    };
    let batch = batch.map_err(|error| Failure::form(format!("{error:#}")))?;
    let mut transactions = Vec::with_capacity(batch.len());
    for ((header, seed), place) in batch.headers.iter().zip(&batch.seeds).zip(batch.places()) {
        let is_order = header.kind == Kind::Account.number();
        transactions.push(Transaction {
            header: *header,
            seed: *seed,
            legs: batch.legs[place.legs].to_vec(),
            signers: batch.signers[place.signers].to_vec(),
            order: is_order.then(|| batch.orders[place.order].clone()),
        });
    }
    Ok(transactions)
}

async fn settle(app: Arc<App>, transactions: Vec<Transaction>) -> Result<Json<OutcomesBody>, Failure> {
    blocking(app, move |app| {
        let pending = app.desk.submit(transactions)?;
        let answers = app.desk.wait(&pending, app.answer_timeout());
        Ok(Json(OutcomesBody { outcomes: answers.iter().map(outcome::view).collect() }))
    })
    .await
}
