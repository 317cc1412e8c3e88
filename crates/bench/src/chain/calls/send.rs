//! Sending each transaction when it is due.
//!
//! An account's transactions go over one connection, in the order of their nonces. A connection that waits for an answer
//! sends late; the time that is lost counts, since latency runs from when a transaction was due. What comes after a
//! transaction that was refused, of the same account, could never be executed: it is not sent, and counted.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tally_ops::shutdown::Shutdown;

use super::Plan;
use super::prepare::Calls;
use crate::chain::ChainBenchError;
use crate::chain::http::{Client, result, send_raw_transaction};
use crate::recorder::Recorder;

/// How long a thread sleeps at most before it looks whether it is to stop.
const NAP: Duration = Duration::from_millis(50);
/// A thread that sends needs little.
const STACK_BYTES: usize = 256 << 10;

/// What the sender was told.
#[derive(Debug, Default, PartialEq)]
pub struct Sent {
    /// Refused transactions, with the node's words.
    pub refused: Vec<(u64, String)>,
    /// Transactions that were not sent, because one before them was refused.
    pub withheld: Vec<u64>,
    /// How late transactions were sent.
    pub late: Recorder,
}

/// Sends every call over so many connections; `accepted` counts while it goes on.
///
/// # Errors
/// [`ChainBenchError::Call`] when a connection fails, [`ChainBenchError::Stopped`].
pub fn send(
    plan: &Plan,
    calls: &Calls,
    address: SocketAddr,
    start: Instant,
    accepted: &AtomicU64,
) -> Result<Sent, ChainBenchError> {
    let connections = plan.connections.max(1) as u64;
    let accounts = plan.accounts.clamp(1, plan.total().max(1));
    // Everybody is connected before the first is due.
    let clients: Result<Vec<Client>, _> = (0..connections).map(|_| Client::connect(address)).collect();
    let clients = clients.map_err(ChainBenchError::call("the follower"))?;
    std::thread::scope(|scope| {
        let mut senders = Vec::with_capacity(clients.len());
        for (connection, client) in (0..).zip(clients) {
            let mine = (0..calls.calls.len() as u64)
                .filter(move |number| number % accounts % connections == connection);
            let body = move || one(plan, calls, client, mine, start, accepted);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body);
            senders.push(thread.map_err(ChainBenchError::system("there is no thread for a connection"))?);
        }
        let mut sent = Sent::default();
        for sender in senders {
            let mut part = match sender.join() {
                Ok(part) => part?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            sent.refused.append(&mut part.refused);
            sent.withheld.append(&mut part.withheld);
            sent.late.merge(&part.late);
        }
        Ok(sent)
    })
}

fn one(
    plan: &Plan,
    calls: &Calls,
    mut client: Client,
    mine: impl Iterator<Item = u64>,
    start: Instant,
    accepted: &AtomicU64,
) -> Result<Sent, ChainBenchError> {
    let mut sent = Sent::default();
    let mut stuck: HashSet<u64> = HashSet::new();
    let mut request = Vec::new();
    let accounts = plan.accounts.max(1);
    for number in mine {
        if !stuck.is_empty() && stuck.contains(&(number % accounts)) {
            sent.withheld.push(number);
            continue;
        }
        let Some(call) = usize::try_from(number).ok().and_then(|number| calls.calls.get(number)) else {
            break;
        };
        let due = plan.due(number);
        send_raw_transaction(&mut request, &call.encoded);
        sleep_until(start, due, &plan.layout.stop)?;
        sent.late.record(due, start.elapsed());
        let answer = client.ask(&request).map_err(ChainBenchError::call("the follower"))?;
        if result(answer).is_some() {
            accepted.fetch_add(1, Ordering::Relaxed);
        } else {
            stuck.insert(number % accounts);
            sent.refused.push((number, reason(answer)));
        }
    }
    Ok(sent)
}

fn sleep_until(start: Instant, due: Duration, stop: &Shutdown) -> Result<(), ChainBenchError> {
    loop {
        if stop.is_requested() {
            return Err(ChainBenchError::Stopped);
        }
        let left = due.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// The message of an error; numbers and hashes in it would make each refusal a reason of its own.
fn reason(answer: &[u8]) -> String {
    let error: Option<serde_json::Value> = serde_json::from_slice(answer).ok();
    let message = error.as_ref().and_then(|error| error["error"]["message"].as_str());
    let message = message.map_or_else(|| String::from_utf8_lossy(answer).into_owned(), str::to_owned);
    general(&message)
}

/// A message without what differs from one to the next: digits of numbers and of hashes.
pub(super) fn general(message: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let number = bare.starts_with("0x") || bare.chars().next().is_some_and(|c| c.is_ascii_digit());
        if number { word.replace(bare, "…") } else { word.to_owned() }
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
