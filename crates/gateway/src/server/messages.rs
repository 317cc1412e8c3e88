//! `POST /v1/iso20022/prepare` and `POST /v1/iso20022/submit`

use super::body::{Body, content_type};
use super::caller::{By, Submits};
use super::failure::Failure;
use super::refusals::Refusals;
use super::{App, blocking, looking_up, making, outcome, part};
use crate::access::User;
use crate::account_name::account_text;
use crate::payments::{self, Accounts, Gateway, Instructions, Order, Orders, Returned, Settled};
use crate::wire::{Draft, LegView, PreparedBody, PreparedPayment, Problem, SignedDraft, SubmitBody};
use crate::{codec, random};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use base64::Engine as _;
use std::collections::HashMap;
use std::sync::Arc;
use tally_crypto::PublicKey;
use tally_iso20022::{
    Outcome as Reported, ParseError, Reason, ReportContext, ReportError, StatusReason, group_answer,
};
use tally_ledger::{AccountId, Kind, Leg, ParticipantId, Timestamp, Transaction, Uetr};
use tally_settlement::engine::{Answer, EngineError, FirstUse, Outcome};
use tally_settlement::proof::Wanted;
use tally_settlement::recent::Reference;

impl Accounts for App {
    fn by_alias(&self, participant: ParticipantId, alias: &str) -> Option<AccountId> {
        self.desk.account_by_alias(participant, alias)
    }
    fn owner(&self, account: AccountId) -> Option<PublicKey> {
        self.desk.account(account)?.owner
    }
    fn settled(&self, user: &User, uetr: Uetr) -> Result<Option<Settled>, Reason> {
        let Some(Answer { id, outcome: Outcome::Final(finality), .. }) =
            self.desk.status(part::by(user, Wanted::Uetr(uetr))).map_err(not_looked_up)?
        else {
            return Ok(None);
        };
        if finality.verdict.is_err() {
            return Ok(None);
        }
        let made = self.desk.transaction(finality.sequence).map_err(not_looked_up)?;
        let made = Some(made.ok_or(EngineError::Behind).map_err(not_looked_up)?);
        let is_it = |made: &Transaction| {
            made.id(&self.desk.network().id) == id && made.header.kind == Kind::Transfer.number()
        };
        Ok(made.filter(is_it).map(|made| Settled { legs: made.legs, at: finality.timestamp }))
    }
    fn returned(&self, reference: Reference, since: Timestamp) -> Result<Option<Returned>, Reason> {
        let found = self.desk.status_since(Wanted::Of(reference), since).map_err(not_looked_up)?;
        let Some(answer) = found else { return Ok(None) };
        let legs = match &answer.outcome {
            Outcome::Final(finality) if finality.verdict.is_ok() => {
                let made = self.desk.transaction(finality.sequence).map_err(not_looked_up)?;
                let made = made.filter(|made| made.id(&self.desk.network().id) == answer.id);
                made.ok_or(EngineError::Behind).map_err(not_looked_up)?.legs
            }
            // It may be settled yet.
            Outcome::Pending => Vec::new(),
            // Nothing moved.
            _ => return Ok(None),
        };
        let text = outcome::received_before(&answer);
        Ok(Some(Returned { answer, legs, text }))
    }
}

fn not_looked_up(error: EngineError) -> Reason {
    tracing::error!(%error, "a payment could not be looked up");
    Reason::new(StatusReason::MS03, "the payment that goes back cannot be looked up now")
}

/// Turns a payment message into drafts to sign
///
/// A pain.001, pacs.008 or pacs.009, or a pacs.004 that sends payments back; for each payment a draft, or why it is refused.
/// Nothing is kept.
#[utoipa::path(
    post,
    path = "/v1/iso20022/prepare",
    operation_id = "prepare_message",
    tag = "payments",
    request_body(content = String, content_type = "application/xml", description = "The message"),
    responses((status = 200, body = PreparedBody), Refusals)
)]
pub(super) async fn prepare(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PreparedBody>, Failure> {
    is_xml(&headers)?;
    let memory = app.reading.memory(body.bytes.len(), app.answer_timeout()).await?;
    let by = Arc::new(by);
    let reader = Arc::clone(&by);
    let read = blocking(Arc::clone(&app), move |app| {
        let read = app.gateway(reader.user()).read(&body.bytes);
        drop(memory);
        if let Ok(message) = &read {
            reader.charge(app, message.len())?;
        }
        Ok(read)
    })
    .await?;
    let message = match read {
        Ok(message) => message,
        Err(error) => {
            let refused = Some(problem(&error.to_reason()));
            return Ok(Json(PreparedBody { refused, payments: Vec::new() }));
        }
    };
    let user = Arc::clone(by.user());
    let searches = app.gateway(&user).searches(&message);
    let prepare = move |app: &App| {
        let orders = app.orders(&message, &by)?;
        let gateway = app.gateway(by.user());
        let payments =
            (0..).zip(orders).map(|(position, order)| app.prepared(&gateway, &message, position, order));
        Ok(Json(PreparedBody { refused: None, payments: payments.collect::<Result<_, _>>()? }))
    };
    if searches { looking_up(app, &user, prepare).await } else { blocking(app, prepare).await }
}

/// Makes the payments of a message whose drafts are signed
///
/// Answers with a pain.002 to a pain.001, else with a pacs.002, when every outcome is durable; with `PDNG` for those that are
/// not in time.
#[utoipa::path(
    post,
    path = "/v1/iso20022/submit",
    operation_id = "submit_message",
    tag = "payments",
    request_body(content = SubmitBody, content_type = "application/json"),
    responses(
        (status = 200, description = "A pain.002 or pacs.002", body = String, content_type = "application/xml; charset=utf-8"),
        Refusals
    )
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    let memory = app.reading.memory(body.bytes.len(), app.answer_timeout()).await?;
    let by = Arc::new(by);
    let reader = Arc::clone(&by);
    let (read, signed) = blocking(Arc::clone(&app), move |app| {
        let body: SubmitBody = body.json()?;
        let message = base64::engine::general_purpose::STANDARD
            .decode(&body.message)
            .map_err(|error| Failure::form(format!("message: not base64: {error}")))?;
        let read = app.gateway(reader.user()).read(&message);
        drop(memory);
        if let Ok(message) = &read {
            reader.charge(app, message.len())?;
        }
        Ok((read, body.signed))
    })
    .await?;
    let message = match read {
        Ok(message) => message,
        Err(error) => return Ok((XML, app.refuse(&error)?)),
    };
    let user = Arc::clone(by.user());
    let (orders, message) = if app.gateway(&user).searches(&message) {
        let asks = Arc::clone(&by);
        let look_up = move |app: &App| Ok((app.orders(&message, &asks)?, message));
        let (orders, message) = looking_up(Arc::clone(&app), &user, look_up).await?;
        (Some(orders), message)
    } else {
        (None, message)
    };
    making(app, &user, move |app| {
        let orders = orders.map_or_else(|| app.orders(&message, &by), Ok)?;
        Ok((XML, app.settle(&message, orders, &signed, &by)?))
    })
    .await
}

pub(super) const XML: [(header::HeaderName, &str); 1] =
    [(header::CONTENT_TYPE, "application/xml; charset=utf-8")];

pub(super) fn is_xml(headers: &HeaderMap) -> Result<(), Failure> {
    match content_type(headers) {
        "application/xml" | "text/xml" => Ok(()),
        _ => Err(Failure::new(415, "FF01", "a message is wanted as application/xml")),
    }
}

impl App {
    fn gateway<'a>(&'a self, user: &'a User) -> Gateway<'a> {
        let (settings, references) = (&self.settings, &self.references);
        Gateway { network: self.desk.network(), settings, accounts: self, user, references }
    }

    /// The payments of a message that the user may make. An account that is not known here may have been opened elsewhere
    /// a moment ago.
    fn orders(&self, message: &Instructions, by: &By<Submits>) -> Result<Orders, Failure> {
        let allowed = |order: Order| match by.hands_in(self, Kind::Transfer, &order.legs) {
            Ok(()) => Ok(order),
            Err(failure) => Err(Reason::new(StatusReason::AG01, failure.detail())),
        };
        let read = || -> Vec<_> {
            let gateway = self.gateway(by.user());
            let orders = gateway.instructed(message, payments::today(self.desk.now()));
            orders.into_iter().map(|order| order.and_then(allowed)).collect()
        };
        if self.gateway(by.user()).searches(message) {
            // What a search finds does not change by looking again.
            self.catch_up()?;
            return Ok(read());
        }
        let orders = read();
        if !orders.iter().any(may_be_behind) {
            return Ok(orders);
        }
        self.catch_up()?;
        Ok(read())
    }

    fn prepared(
        &self,
        gateway: &Gateway<'_>,
        message: &Instructions,
        position: usize,
        order: Result<Order, Reason>,
    ) -> Result<PreparedPayment, Failure> {
        let order = match order {
            Ok(order) => order,
            Err(reason) => {
                let uetr = gateway.refused_reference(message, position).to_string();
                return Ok(PreparedPayment { uetr, refused: Some(problem(&reason)), draft: None });
            }
        };
        Ok(PreparedPayment { uetr: order.uetr.to_string(), refused: None, draft: Some(self.draft(&order)?) })
    }

    /// What is signed to make a payment.
    pub(super) fn draft(&self, order: &Order) -> Result<Draft, Failure> {
        let network = self.desk.network();
        let seed = random().map_err(|error| Failure::internal(&error))?;
        let transaction = order.draft(network, self.desk.now(), seed);
        let legs = transaction.legs.iter().map(|leg| {
            let asset = &network.assets[leg.asset.index()];
            LegView {
                institution: network.participants[leg.participant.index()].bic.clone(),
                account: account_text(network, leg.account),
                amount: leg.amount.display(asset.exponent).to_string(),
                asset: asset.code.clone(),
            }
        });
        Ok(Draft {
            id: transaction.id(&network.id).to_string(),
            legs: legs.collect(),
            signers: order.signers.clone(),
            transaction: codec::encode_one(&transaction).map_err(|error| Failure::internal(&error))?,
        })
    }

    /// Makes the payments of a message that were signed and reports on all.
    fn settle(
        &self,
        message: &Instructions,
        orders: Orders,
        drafts: &[SignedDraft],
        by: &By<Submits>,
    ) -> Result<String, Failure> {
        let mut signed: HashMap<usize, &str> = HashMap::new();
        for draft in drafts {
            if signed.insert(draft.position, &draft.transaction).is_some() {
                return Err(Failure::form(format!("signed: position {} is there twice", draft.position)));
            }
        }
        let mut transactions = Vec::new();
        let mut results: Vec<Result<Order, Reason>> = Vec::with_capacity(orders.len());
        for (position, order) in orders.into_iter().enumerate() {
            let ready = order.and_then(|order| {
                // What was made before is told, and not handed in.
                if order.first.is_none() {
                    transactions.push(fitting(&order, signed.get(&position).copied())?);
                }
                Ok(order)
            });
            if let Err(reason) = &ready {
                self.metrics.refused(reason);
            }
            results.push(ready);
        }
        // Before they are handed in: what was said is durable when they are.
        let new = results.iter().flatten().filter(|order| order.first.is_none());
        let said = new.filter_map(|order| order.said.as_ref());
        let said: Vec<_> = said.map(|said| said.as_bytes().to_vec()).collect();
        if !said.is_empty() {
            self.desk.keep(said)?;
        }
        let mut answers = self.make(transactions)?;
        let is_copy = message.is_copy();
        if is_copy {
            part::leave_open(&mut answers);
        }
        part::own(by.user(), &mut answers);
        let mut answers = answers.into_iter();
        let mut outcomes = Vec::with_capacity(results.len());
        for result in results {
            outcomes.push(match result {
                Err(reason) => Reported::Rejected(reason),
                Ok(Order { first: Some(first), .. }) => outcome::reported(&first),
                Ok(order) => match answers.next() {
                    Some(answer) => report(&order, &answer, is_copy),
                    None => Reported::Pending,
                },
            });
        }
        message.report(&outcomes, self.context()?).map_err(|error| unwritten(&error))
    }

    /// Reports that a message could not be read.
    fn refuse(&self, error: &ParseError) -> Result<String, Failure> {
        self.metrics.refused(&error.to_reason());
        group_answer(error, &self.context()?).map_err(|error| unwritten(&error))
    }

    fn context(&self) -> Result<ReportContext, Failure> {
        Ok(ReportContext {
            message_id: message_id()?,
            created: codec::time(self.desk.now()),
            instructing_agent: None,
            instructed_agent: None,
        })
    }
}

/// A new name for a message of the network's.
pub(super) fn message_id() -> Result<String, Failure> {
    let name: [u8; 16] = random().map_err(|error| Failure::internal(&error))?;
    Ok(codec::to_hex(&name))
}

/// What is reported of a payment. A message that says that it may be a copy gets the outcome of the original.
fn report(order: &Order, answer: &Answer, is_copy: bool) -> Reported {
    match &answer.outcome {
        Outcome::Duplicate { first: Some(first) } if is_copy && is_same(&order.legs, first) => {
            outcome::reported(&first.answer)
        }
        _ => outcome::reported(answer),
    }
}

/// Whether the first transaction with this reference was this payment: if it was made, it moved the same
/// amount between the same accounts. One that was refused moved nothing, whatever it was.
pub(super) fn is_same(legs: &[Leg], first: &FirstUse) -> bool {
    let is_made = matches!(&first.answer.outcome, Outcome::Final(finality) if finality.verdict.is_ok());
    !is_made || legs.iter().all(|leg| first.transaction.legs.contains(leg))
}

/// The signed transaction of an order, if it makes that payment and nothing else.
fn fitting(order: &Order, signed: Option<&str>) -> Result<Transaction, Reason> {
    let signed = signed.ok_or_else(|| Reason::from(StatusReason::DS0A))?;
    let transaction = codec::decode_one(signed).map_err(|error| {
        Reason::new(StatusReason::FF01, format!("the signed transaction cannot be read: {error}"))
    })?;
    if !order.is_made_by(&transaction) {
        return Err(Reason::new(
            StatusReason::DS0H,
            "the transaction that was signed is not the message's payment",
        ));
    }
    Ok(transaction)
}

/// Whether an order was refused for an account that others may know by now.
pub(super) fn may_be_behind(order: &Result<Order, Reason>) -> bool {
    const NO_ACCOUNT: [StatusReason; 4] =
        [StatusReason::AC01, StatusReason::AC02, StatusReason::AC03, StatusReason::RC04];
    order.as_ref().is_err_and(|reason| NO_ACCOUNT.contains(&reason.code))
}

pub(super) fn problem(reason: &Reason) -> Problem {
    Problem { code: reason.code.code().to_owned(), text: reason.text.clone() }
}

pub(super) fn unwritten(error: &ReportError) -> Failure {
    Failure::internal(error)
}
