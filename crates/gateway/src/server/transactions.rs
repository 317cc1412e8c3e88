//! `POST /v1/transactions`, `GET /v1/transactions/{uetr}` and `POST /v1/accounts`.

use super::asked::{Asked, Named};
use super::body::{Body, content_type};
use super::caller::{Approves, By, Reads, Submits};
use super::failure::Failure;
use super::refusals::Refusals;
use super::{App, FEW, document, looking_up, making, outcome, part};
use crate::access::Act;
use crate::codec;
use crate::wire::{OutcomeView, OutcomesBody};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use std::sync::Arc;
use tally_ledger::transaction::Kind;
use tally_ledger::{ParticipantId, Transaction, TransactionBatch, Uetr};
use tally_proof::{Proof, Receipt};
use tally_settlement::proof::Wanted;
use utoipa::IntoParams;

/// Hands a signed batch in
///
/// Answers when every outcome is durable, or with `PDNG` for those that are not in time.
#[utoipa::path(
    post,
    path = "/v1/transactions",
    operation_id = "submit_transactions",
    tag = "payments",
    request_body(
        description = "An encoded batch of transactions, or the same in hexadecimal as text",
        content(([u8] = "application/octet-stream"), (String = "text/plain"))
    ),
    responses((status = 200, description = "One outcome for each, in order", body = OutcomesBody), Refusals)
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OutcomesBody>, Failure> {
    let transactions = decode(&headers, &body)?;
    by.charge(&app, transactions.len())?;
    may_hand_in(&app, &by, &transactions)?;
    settle(app, by, transactions).await
}

/// That the user may hand in each of them.
pub(super) fn may_hand_in(app: &App, by: &By<Submits>, transactions: &[Transaction]) -> Result<(), Failure> {
    for transaction in transactions {
        match (Kind::from_number(transaction.header.kind), &transaction.order) {
            (Some(Kind::Account), _) | (_, Some(_)) => {
                return Err(Failure::form("account orders go to /v1/accounts"));
            }
            (Some(kind), None) => by.hands_in_signed(app, kind, transaction)?,
            // The scheduler says what is wrong with it.
            (None, None) => by.hands_in_signed(app, Kind::Transfer, transaction)?,
        }
    }
    Ok(())
}

/// Hands signed account orders in
///
/// Opens, freezes, releases and closes accounts, and sets their limits; each is signed by its institution.
#[utoipa::path(
    post,
    path = "/v1/accounts",
    operation_id = "submit_orders",
    tag = "accounts",
    request_body(
        description = "An encoded batch of account orders, or the same in hexadecimal as text",
        content(([u8] = "application/octet-stream"), (String = "text/plain"))
    ),
    responses((status = 200, description = "One outcome for each, in order", body = OutcomesBody), Refusals)
)]
pub(super) async fn order(
    State(app): State<Arc<App>>,
    by: By<Approves>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OutcomesBody>, Failure> {
    let transactions = decode(&headers, &body)?;
    by.charge(&app, transactions.len())?;
    for transaction in &transactions {
        let order = transaction.order.as_ref().filter(|_| transaction.header.kind == Kind::Account.number());
        let order = order.ok_or_else(|| {
            Failure::form("only account orders are taken here; others go to /v1/transactions")
        })?;
        by.acts_for(&app, order.participant)?;
    }
    settle(app, by, transactions).await
}

/// What of these transactions is an institution's own act, and no payment.
pub(super) fn acts(app: &App, transactions: &[Transaction]) -> Vec<Act> {
    let network = app.desk.network();
    let bic = |participant: ParticipantId| {
        network.participants.get(participant.index()).map_or_else(String::new, |found| found.bic.clone())
    };
    let act = |transaction: &Transaction| {
        let id = || transaction.id(&network.id);
        let issuance = |order: &str| Act::Issuance { order: order.to_owned(), transaction: id() };
        match (Kind::from_number(transaction.header.kind)?, &transaction.order) {
            (Kind::Issue, _) => Some(issuance("issue")),
            (Kind::Redeem, _) => Some(issuance("redeem")),
            (_, Some(order)) => Some(Act::AccountOrder {
                institution: bic(order.participant),
                account: order.number.0,
                order: codec::action(&order.action),
                transaction: id(),
            }),
            _ => None,
        }
    };
    transactions.iter().filter_map(act).collect()
}

/// Records acts before they are handed in, each of them once, however often it is tried.
pub(super) fn record<R>(app: &App, by: &By<R>, acts: Vec<Act>) -> Result<(), Failure> {
    if acts.is_empty() {
        return Ok(());
    }
    app.access.record(&by.user().name, acts).map_err(|error| {
        tracing::error!(%error, cause = ?std::error::Error::source(&error), "an act was refused, for it cannot be recorded");
        Failure::new(503, "audit", "the audit log cannot be written now; nothing was done")
    })
}

/// What became of a transaction
///
/// The institutions that have a part in it are told, and the operator. To everybody else it is as one that there is not.
#[utoipa::path(
    get,
    path = "/v1/transactions/{transaction}",
    tag = "payments",
    params(("transaction" = String, Path, description = "Its UETR (a UUID), or its id in hexadecimal", pattern = "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|[0-9a-fA-F]{64})$")),
    responses((status = 200, body = OutcomeView), Refusals)
)]
pub(super) async fn status(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named(transaction): Named<String>,
) -> Result<Json<OutcomeView>, Failure> {
    let wanted = wanted(&transaction)?;
    let user = Arc::clone(by.user());
    looking_up(app, by.user(), move |app| {
        let answer = app.status_for(&user, wanted)?;
        let answer = answer.ok_or_else(|| Failure::not_found(format!("there is no transaction {wanted}")))?;
        Ok(Json(outcome::view(&answer)))
    })
    .await
}

/// Proof of what became of a transaction
///
/// From its id to the tree head that the operator signed.
#[utoipa::path(
    get,
    path = "/v1/transactions/{transaction}/receipt",
    tag = "payments",
    params(("transaction" = String, Path, description = "Its UETR, a UUID", pattern = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$")),
    responses((status = 200, body = document::Receipt), Refusals)
)]
pub(super) async fn receipt(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named(transaction): Named<String>,
) -> Result<Json<Receipt>, Failure> {
    let uetr = reference(&transaction)?;
    let user = Arc::clone(by.user());
    looking_up(app, by.user(), move |app| {
        let none = || Failure::not_found(format!("no transaction with the reference {uetr} has an outcome"));
        let wanted = Wanted::Uetr(uetr);
        app.status_for(&user, wanted)?.ok_or_else(none)?;
        let receipt = app.desk.receipt(part::by(&user, wanted))?;
        Ok(Json(receipt.ok_or_else(none)?))
    })
    .await
}

/// Proof for others of what became of a transaction
///
/// Its place in the global order under the operator's signature, who approved it, and the legs that were asked for: checked
/// offline by `tally verify`, or by any program that uses the crate `tally-proof`.
#[utoipa::path(
    get,
    path = "/v1/transactions/{transaction}/proof",
    tag = "payments",
    params(
        ("transaction" = String, Path, description = "Its UETR (a UUID), or its id in hexadecimal", pattern = "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|[0-9a-fA-F]{64})$"),
        Legs
    ),
    responses((status = 200, body = document::Proof), Refusals)
)]
pub(super) async fn proof(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named(transaction): Named<String>,
    Asked(asked): Asked<Legs>,
) -> Result<Json<Proof>, Failure> {
    let wanted = wanted(&transaction)?;
    let shown = participants(&app, &by, &asked.legs)?;
    let user = Arc::clone(by.user());
    looking_up(app, by.user(), move |app| {
        let none = || Failure::not_found(format!("no transaction {wanted} has an outcome"));
        app.status_for(&user, wanted)?.ok_or_else(none)?;
        let proof = app.desk.proof(part::by(&user, wanted), &shown)?;
        Ok(Json(proof.ok_or_else(none)?))
    })
    .await
}

/// Whose legs a proof shows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Legs {
    /// BICs, with commas between them, of institutions that the user acts for; nobody's legs are shown without it.
    #[serde(default)]
    pub(super) legs: String,
}

fn participants(app: &App, by: &By<Reads>, bics: &str) -> Result<Vec<ParticipantId>, Failure> {
    let of = |bic: &str| {
        let found = app.desk.network().participant(bic).map(|(participant, _)| participant);
        let found =
            found.ok_or_else(|| Failure::form(format!("legs: no participant has the BIC {bic:?}")))?;
        by.acts_for(app, found)?;
        Ok(found)
    };
    bics.split(',').filter(|bic| !bic.is_empty()).map(of).collect()
}

fn wanted(text: &str) -> Result<Wanted, Failure> {
    text.parse().map_err(|error| Failure::form(format!("{error}")))
}

fn reference(text: &str) -> Result<Uetr, Failure> {
    text.parse().map_err(|error| Failure::form(format!("{error}")))
}

/// A batch in binary form, or in hexadecimal as text.
fn decode(headers: &HeaderMap, body: &Body) -> Result<Vec<Transaction>, Failure> {
    let batch = match content_type(headers) {
        "application/octet-stream" => codec::decode(&body.bytes),
        "text/plain" => codec::from_hex(body.bytes.trim_ascii()).and_then(|bytes| codec::decode(&bytes)),
        _ => {
            let text = "a batch is wanted as application/octet-stream, or in hexadecimal as text/plain";
            return Err(Failure::new(415, "FF01", text));
        }
    };
    Ok(separate(&batch.map_err(|error| Failure::form(error.to_string()))?))
}

/// The transactions of a batch one by one.
pub(super) fn separate(batch: &TransactionBatch) -> Vec<Transaction> {
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
    transactions
}

async fn settle<R: Send + 'static>(
    app: Arc<App>,
    by: By<R>,
    transactions: Vec<Transaction>,
) -> Result<Json<OutcomesBody>, Failure> {
    let acts = acts(&app, &transactions);
    let user = Arc::clone(by.user());
    let mut answers = if transactions.len() <= FEW && acts.is_empty() {
        Arc::clone(&app).make_few(transactions).await?
    } else {
        making(app, &user, move |app| {
            record(app, &by, acts)?;
            app.make(transactions)
        })
        .await?
    };
    part::own(&user, &mut answers);
    Ok(Json(OutcomesBody { outcomes: answers.iter().map(outcome::view).collect() }))
}
