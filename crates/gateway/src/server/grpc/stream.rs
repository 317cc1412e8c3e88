//! One stream of transactions: requests are read while there is room, handed in, and answered in their order.
//!
//! ```text
//! connection -> read -> hand in -> (what is under way, at most WINDOW) -> wait -> connection
//! ```
//! Reading and handing in are one task, waiting is another, which takes a thread only while something is under way.

use super::super::caller::{By, Credential, Submits};
use super::super::failure::Failure;
use super::super::{App, blocking, part, transactions};
use super::answers::{Held, Next, Outlet};
use super::metered::Memory;
use super::places::Kept;
use super::{forms, refused, status, stops, unread};
use crate::access::Denied;
use crate::grpc::wire::submit_request::Transactions;
use crate::grpc::wire::{SubmitRequest, SubmitResponse, submit_response};
use prost::Message as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally_ledger::Transaction;
use tally_settlement::engine::{EngineError, Pending};
use tokio::sync::{Semaphore, mpsc};
use tonic::{Status, Streaming};

/// Requests of one stream that are read and whose responses the connection has not taken.
pub(super) const WINDOW: usize = 16;
/// How often it is looked whether the user may still do this.
const LOOK: Duration = Duration::from_millis(250);
/// How long responses may wait without one being taken.
const UNREAD: Duration = Duration::from_secs(60);
/// How long to rest when the network has no room.
const REST: Duration = Duration::from_millis(20);

/// What both sides of a stream know.
pub(super) struct Session {
    pub(super) app: Arc<App>,
    pub(super) credential: Credential,
    /// The user as of the last look.
    pub(super) by: Mutex<Arc<By<Submits>>>,
    pub(super) memory: Arc<Memory>,
    /// Its place among streams, and what keeps its connection open, and in its slot.
    pub(super) _kept: Kept,
}

/// A request that was handed in, or refused.
struct Job {
    tag: u64,
    by: Arc<By<Submits>>,
    held: Held,
    handed: Result<Pending, Failure>,
    /// When it is answered at the latest.
    until: Instant,
}

/// Transactions on their way in.
struct Draft {
    form: Transactions,
    /// As read from it, until they are handed in.
    transactions: Option<Vec<Transaction>>,
    is_charged: bool,
    /// Whether its acts are in the audit log.
    is_recorded: bool,
}

enum Attempt {
    Handed(Pending),
    /// There is no room, of the user's or the network's: again after so long, and what to say when that is too long.
    Later(Draft, Duration, Failure),
}

/// Serves a stream until it ends.
pub(super) async fn serve(
    session: Session,
    requests: Streaming<SubmitRequest>,
    next: mpsc::Sender<Next>,
    outlet: Outlet,
) {
    let session = Arc::new(session);
    let (jobs, queue) = mpsc::channel(WINDOW);
    let answering = answer_all(Arc::clone(&session), queue, next.clone());
    let all = async {
        let ((), read) = tokio::join!(answering, read_all(&session, requests, jobs));
        if let Err(status) = read {
            let _ = next.send(Err(status)).await;
        }
    };
    tokio::select! {
        biased;
        failure = watch(&session, &outlet) => outlet.cut(status(failure)),
        () = next.closed() => {}
        () = all => {}
    }
}

/// Ends when the user may not do this any more, or does not read.
async fn watch(session: &Session, outlet: &Outlet) -> Failure {
    let (mut taken, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        match By::still(&session.app, &session.credential) {
            Ok(by) => *session.by.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(by),
            Err(denied) => return denied.into(),
        }
        let (waiting, now) = outlet.progress();
        if waiting == 0 || now != taken {
            (taken, since) = (now, Instant::now());
        } else if since.elapsed() > UNREAD {
            return Failure::new(408, "timeout", "the stream's responses are not read");
        }
    }
}

async fn read_all(
    session: &Arc<Session>,
    mut requests: Streaming<SubmitRequest>,
    jobs: mpsc::Sender<Job>,
) -> Result<(), Status> {
    let places = Arc::new(Semaphore::new(WINDOW));
    let mut stop = session.app.stop.subscribe();
    loop {
        let read = async {
            let place = Arc::clone(&places).acquire_owned().await.map_err(|_| status(stops()))?;
            requests.message().await.map(|request| (place, request))
        };
        let read = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Err(status(stops())),
            read = read => read.map_err(|status| unread(status, session.app.settings.http.max_body_bytes)),
        };
        let (place, request) = read?;
        let Some(SubmitRequest { tag, transactions }) = request else { return Ok(()) };
        let held = Held { _place: place, memory: session.memory.take() };
        let handed = match transactions {
            Some(form) => hand_in(session, form).await,
            None => Err(Failure::form("a request has `batch` or `list`; this one has neither")),
        };
        let until = Instant::now() + session.app.answer_timeout();
        let by = Arc::clone(&session.by.lock().unwrap_or_else(PoisonError::into_inner));
        if jobs.send(Job { tag, by, held, handed, until }).await.is_err() {
            return Ok(());
        }
    }
}

/// Hands transactions in. Where there is no room it waits, and nothing else of the stream is read meanwhile.
async fn hand_in(session: &Arc<Session>, form: Transactions) -> Result<Pending, Failure> {
    let until = Instant::now() + session.app.answer_timeout();
    let mut stop = session.app.stop.subscribe();
    let mut draft = Draft { form, transactions: None, is_charged: false, is_recorded: false };
    loop {
        let by = Arc::clone(&session.by.lock().unwrap_or_else(PoisonError::into_inner));
        let (rest, failure);
        (draft, rest, failure) =
            match blocking(Arc::clone(&session.app), move |app| attempt(app, &by, draft)).await? {
                Attempt::Handed(pending) => return Ok(pending),
                Attempt::Later(draft, rest, failure) => (draft, rest, failure),
            };
        if Instant::now() + rest > until {
            return Err(failure);
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Err(stops()),
            () = tokio::time::sleep(rest) => {}
        }
    }
}

fn attempt(app: &App, by: &By<Submits>, mut draft: Draft) -> Result<Attempt, Failure> {
    let transactions = match draft.transactions.take() {
        Some(transactions) => transactions,
        None => forms::transactions(&draft.form)?,
    };
    if !draft.is_charged {
        let cost = u32::try_from(transactions.len().max(1)).unwrap_or(u32::MAX);
        by.fits(transactions.len())?;
        if let Err(denied) = app.access.charge(by.user(), cost, Instant::now()) {
            let Denied::Quota { wait, .. } = &denied else { return Err(denied.into()) };
            let wait = *wait;
            return Ok(Attempt::Later(
                Draft { transactions: Some(transactions), ..draft },
                wait,
                denied.into(),
            ));
        }
        draft.is_charged = true;
    }
    transactions::may_hand_in(app, by, &transactions)?;
    if !draft.is_recorded {
        transactions::record(app, by, transactions::acts(app, &transactions))?;
        draft.is_recorded = true;
    }
    match app.desk.submit(transactions) {
        Ok(pending) => Ok(Attempt::Handed(pending)),
        Err(busy @ (EngineError::Busy(_) | EngineError::Share(_))) => {
            Ok(Attempt::Later(draft, REST, busy.into()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn answer_all(session: Arc<Session>, mut queue: mpsc::Receiver<Job>, next: mpsc::Sender<Next>) {
    while let Some(first) = queue.recv().await {
        let (session, next) = (Arc::clone(&session), next.clone());
        let answered = tokio::task::spawn_blocking(move || {
            let mut job = Some(first);
            while let Some(present) = job {
                if next.is_closed() || next.blocking_send(Ok(answer(&session.app, present))).is_err() {
                    break;
                }
                job = queue.try_recv().ok();
            }
            queue
        });
        match answered.await {
            Ok(rest) => queue = rest,
            Err(error) => return tracing::error!(%error, "a stream failed"),
        }
    }
}

fn answer(app: &App, mut job: Job) -> (SubmitResponse, Held) {
    let result = match job.handed {
        Ok(pending) => {
            let limit = job.until.saturating_duration_since(Instant::now());
            let mut answers = app.desk.wait(&pending, limit);
            part::own(job.by.user(), &mut answers);
            submit_response::Result::Outcomes(forms::outcomes(&answers))
        }
        Err(failure) => submit_response::Result::Refused(refused(&failure)),
    };
    let response = SubmitResponse { tag: job.tag, result: Some(result) };
    // The request's bytes are gone; what the response takes stays counted until the connection has it.
    job.held.memory = job.held.memory.and_then(|mut memory| memory.split(response.encoded_len()));
    (response, job.held)
}
