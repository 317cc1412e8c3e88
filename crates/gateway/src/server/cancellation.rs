//! `POST /v1/iso20022/cancel`

use super::body::Body;
use super::caller::{By, Submits};
use super::failure::Failure;
use super::messages::{XML, is_xml, message_id, unwritten};
use super::refusals::Refusals;
use super::{App, blocking, looking_up};
use crate::access::Scope;
use crate::codec;
use crate::payments::reference;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_iso20022::{
    AppHeader, Cancellation, CancellationDecision, CancellationRejection, CancellationRequest, Document,
    Limits, ParseError, RESOLUTION_DEFINITION, Resolution, parse_document, resolution, with_header,
};
use tally_ledger::{Kind, Refusal, Uetr};
use tally_settlement::desk::Accepted;
use tally_settlement::engine::Outcome;
use tally_settlement::proof::Wanted;
use tally_settlement::recent::Reference;

/// The most cancellations of one request: the journal is searched for each.
const MAX_CANCELLATIONS: usize = 16;
/// How often it is looked what became of a payment that is to be cancelled.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How long it rests between two looks in the end: a look reads what was accepted since.
const MAX_REST: Duration = Duration::from_secs(1);

/// Asks for the cancellation of payments
///
/// Takes a camt.056 and answers with a camt.029. A payment is cancelled if it is not decided yet, as where an institution that
/// it concerns does not answer: it is refused with DS02. It is final milliseconds after it was handed in otherwise; what was
/// settled is past cancelling, and its institution may send it back by a pacs.004. What is not decided in time is answered as
/// pending (PDCR): ask again.
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
    let by = Arc::new(by);
    let user = Arc::clone(&by);
    let (request, header) = blocking(Arc::clone(&app), move |app| {
        let _memory = memory;
        let (request, header) = read(&body.bytes)?;
        user.charge(app, request.cancellations.len())?;
        Ok((request, header))
    })
    .await?;
    let decisions = decide(&app, &by, &request).await?;
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

/// Whether each payment was cancelled, once it is known what became of it. Between two looks into the journal others have their
/// turn.
async fn decide(
    app: &Arc<App>,
    by: &Arc<By<Submits>>,
    request: &CancellationRequest,
) -> Result<Vec<CancellationDecision>, Failure> {
    let deadline = Instant::now() + app.answer_timeout();
    let mut rest = ASK_AGAIN;
    let mut all: Vec<_> =
        request.cancellations.iter().map(|asked| (asked, CancellationDecision::Pending, None)).collect();
    loop {
        for (asked, decision, open) in &mut all {
            if *decision == CancellationDecision::Pending && Instant::now() < deadline {
                *decision = look(app, by, asked, open).await?;
            }
        }
        let waits = all.iter().any(|(_, decision, _)| *decision == CancellationDecision::Pending);
        if !waits || Instant::now() + rest >= deadline {
            return Ok(all.into_iter().map(|(_, decision, _)| decision).collect());
        }
        tokio::time::sleep(rest).await;
        rest = (2 * rest).min(MAX_REST);
    }
}

/// What has become of a cancellation by now; `open` is its payment, where that was found before.
async fn look(
    app: &Arc<App>,
    by: &Arc<By<Submits>>,
    asked: &Cancellation,
    open: &mut Option<Accepted>,
) -> Result<CancellationDecision, Failure> {
    if asked.is_whole_message {
        return Ok(not_found("name each payment by its UETR"));
    }
    let Some(uetr) = reference(&asked.original) else {
        return Ok(not_found("payments are found by their UETR alone, and the request does not state it"));
    };
    let (by, known) = (Arc::clone(by), open.take());
    let user = Arc::clone(by.user());
    let (found, accepted) =
        looking_up(Arc::clone(app), &user, move |app| app.withdraw_if_open(&by, uetr, known)).await?;
    *open = accepted;
    let (code, text) = match found {
        Found::Nothing => {
            return Ok(not_found(&format!("nothing was handed in with the reference {uetr}")));
        }
        Found::Another => {
            let text = "only the institution whose customer pays may cancel a payment";
            (CancellationRejection::AGNT, text.to_owned())
        }
        Found::Outcome(Outcome::Pending) => return Ok(CancellationDecision::Pending),
        Found::Outcome(Outcome::Final(finality)) => match finality.verdict {
            Ok(()) => {
                let at = codec::time(finality.timestamp);
                let text = format!("settled for good at {at}, sequence {}", finality.sequence);
                (CancellationRejection::PTNA, text)
            }
            Err(Refusal::Withdrawn) => return Ok(CancellationDecision::Made),
            Err(refusal) => (CancellationRejection::NARR, refused(refusal)),
        },
        Found::Outcome(Outcome::Refused(refusal)) => (CancellationRejection::NARR, refused(refusal)),
        Found::Outcome(Outcome::Duplicate { .. }) => {
            (CancellationRejection::NARR, "the reference is another payment's".to_owned())
        }
    };
    Ok(CancellationDecision::Refused(code, text))
}

/// What was found under a reference.
enum Found {
    /// Nothing.
    Nothing,
    /// A payment, and what became of it.
    Outcome(Outcome),
    /// One in which the user's institution has a part, which is not decided, and not the user's to cancel.
    Another,
}

impl App {
    /// What became of the payment with that reference, and the payment where it is `open`. That it be withdrawn is asked each time
    /// anew: who was asked before may have forgotten it.
    fn withdraw_if_open(
        &self,
        by: &By<Submits>,
        uetr: Uetr,
        open: Option<Accepted>,
    ) -> Result<(Found, Option<Accepted>), Failure> {
        // The payment that the user may cancel is the one that the user's institution debits, whoever else has used its reference.
        let own = match by.user().scope {
            Scope::Institution(participant) => Wanted::Of(Reference { participant, uetr }),
            Scope::Network => Wanted::Uetr(uetr),
        };
        let Some(found) = self.desk.status(own)? else {
            // To those who have no part in it, it is as one that there is not.
            let found = match self.status_for(by.user(), Wanted::Uetr(uetr))?.map(|found| found.outcome) {
                None => Found::Nothing,
                Some(Outcome::Pending) => Found::Another,
                Some(outcome) => Found::Outcome(outcome),
            };
            return Ok((found, None));
        };
        if found.outcome != Outcome::Pending {
            return Ok((Found::Outcome(found.outcome), None));
        }
        let open = match open {
            Some(open) => Some(open),
            None => self.desk.accepted(own)?,
        };
        if let Some(open) = &open {
            let transaction = &open.transaction;
            let is_payment = transaction.header.kind == Kind::Transfer.number();
            if !is_payment || by.hands_in(self, Kind::Transfer, &transaction.legs).is_err() {
                return Ok((Found::Another, None));
            }
            self.desk.withdraw(open)?;
        }
        Ok((Found::Outcome(Outcome::Pending), open))
    }
}

fn refused(refusal: Refusal) -> String {
    format!("the payment was refused with {}: nothing moved", refusal.iso_code())
}

fn not_found(text: &str) -> CancellationDecision {
    CancellationDecision::Refused(CancellationRejection::NOOR, text.to_owned())
}
