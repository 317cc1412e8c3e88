//! `POST /v1/iso20022/cancel`

use super::body::Body;
use super::caller::{By, Submits};
use super::failure::Failure;
use super::messages::{XML, is_xml, message_id, unwritten};
use super::refusals::Refusals;
use super::{App, blocking, looking_up};
use crate::codec;
use crate::payments::reference;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_iso20022::{
    AppHeader, CancellationDecision, CancellationRejection, CancellationRequest, Document, Limits,
    OriginalPayment, ParseError, RESOLUTION_DEFINITION, Resolution, parse_document, resolution, with_header,
};
use tally_ledger::Refusal;
use tally_settlement::engine::Outcome;

/// The most cancellations of one request.
const MAX_CANCELLATIONS: usize = 100;
/// How often it is looked what became of a payment that is to be cancelled.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Asks for the cancellation of payments
///
/// Takes a camt.056 and answers with a camt.029. A payment is final milliseconds after it was handed in, and until then
/// nothing holds it: what was settled is past cancelling, and its institution may send it back by a pacs.004.
#[utoipa::path(
    post,
    path = "/v1/iso20022/cancel",
    operation_id = "cancel_payments",
    tag = "payments",
    request_body(content = String, content_type = "application/xml", description = "The camt.056"),
    responses(
        (status = 200, description = "A camt.029", body = String, content_type = "application/xml; charset=utf-8"),
        Refusals
    )
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse, Failure> {
    is_xml(&headers)?;
    let memory = app.reading.memory(body.bytes.len(), app.answer_timeout()).await?;
    let (request, header) = blocking(Arc::clone(&app), move |app| {
        let _memory = memory;
        let (request, header) = read(&body.bytes)?;
        by.charge(app, request.cancellations.len())?;
        Ok((request, header))
    })
    .await?;
    let mut decisions = Vec::with_capacity(request.cancellations.len());
    for asked in &request.cancellations {
        decisions.push(match asked.is_whole_message {
            true => Err(not_found("name each payment by its UETR: messages are not kept")),
            false => decide(&app, &asked.original).await?,
        });
    }
    Ok((XML, answer(&app, &request, header.as_ref(), &decisions)?))
}

/// The request, and the header that it came under.
fn read(xml: &[u8]) -> Result<(CancellationRequest, Option<AppHeader>), Failure> {
    let unread = |error: ParseError| Failure::new(400, error.reason.code(), error.to_string());
    let limits = Limits { payments: MAX_CANCELLATIONS, ..Limits::default() };
    let received = parse_document(xml, &limits).map_err(unread)?;
    match received.document {
        Document::CancellationRequest(request) => Ok((request, received.header)),
        _ => Err(Failure::form("a request for cancellation camt.056 is wanted")),
    }
}

/// The camt.029, under a header if the request came under one.
fn answer(
    app: &App,
    request: &CancellationRequest,
    header: Option<&AppHeader>,
    decisions: &[CancellationDecision],
) -> Result<String, Failure> {
    let (id, created) = (message_id()?, codec::time(app.desk.now()));
    let answer = Resolution::of(request, id.clone(), created.clone(), decisions);
    let answer = answer.and_then(|answer| resolution(&answer)).map_err(|error| unwritten(&error))?;
    let Some(header) = header else { return Ok(answer) };
    let header = header.reply(id, RESOLUTION_DEFINITION.to_owned(), created);
    with_header(&header, &answer).map_err(|error| unwritten(&error))
}

/// Whether a payment was cancelled, once it is known what became of it. Between two looks into the journal others have their
/// turn.
async fn decide(app: &Arc<App>, original: &OriginalPayment) -> Result<CancellationDecision, Failure> {
    let Some(uetr) = reference(original) else {
        return Ok(Err(not_found(
            "payments are found by their UETR alone, and the request does not state it",
        )));
    };
    let deadline = Instant::now() + app.answer_timeout();
    loop {
        let found = looking_up(Arc::clone(app), move |app| Ok(app.desk.status(uetr)?)).await?;
        let text = match found.map(|found| found.outcome) {
            None => return Ok(Err(not_found(&format!("nothing was handed in with the reference {uetr}")))),
            Some(Outcome::Final(finality)) => match finality.verdict {
                Ok(()) => {
                    let at = codec::time(finality.timestamp);
                    let text = format!("settled for good at {at}, sequence {}", finality.sequence);
                    return Ok(Err((CancellationRejection::PTNA, text)));
                }
                Err(refusal) => refused(refusal),
            },
            Some(Outcome::Refused(refusal)) => refused(refusal),
            Some(Outcome::Duplicate { .. }) => "the reference is another payment's".to_owned(),
            Some(Outcome::Pending) if Instant::now() < deadline => {
                tokio::time::sleep(ASK_AGAIN).await;
                continue;
            }
            Some(Outcome::Pending) => {
                let text = format!("the payment {uetr} is not decided yet; ask again");
                return Err(Failure::new(503, "PDCR", text));
            }
        };
        return Ok(Err((CancellationRejection::NARR, text)));
    }
}

fn refused(refusal: Refusal) -> String {
    format!("the payment was refused with {}: nothing moved", refusal.iso_code())
}

fn not_found(text: &str) -> (CancellationRejection, String) {
    (CancellationRejection::NOOR, text.to_owned())
}
