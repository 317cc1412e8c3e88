//! What the server sends as streams. Each item is made when the connection has room for it, so that a client that
//! does not read holds back nothing but itself.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tonic::{Status, Streaming};

use super::dispatch::{CallContext, typed_status};
use super::gateway::permitted;
use crate::convert::status;
use crate::feed::FeedReader;
use crate::refusal::Refusal;
use crate::service::{Caller, NodeService};
use crate::types::StartFlow;
use crate::users::User;
use crate::wire;

/// A stream of answers.
pub(crate) type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

const CHUNK: usize = 64 * 1024;

/// `first`, then what the feed gives up to its last item, or the reason why there are no more.
pub(super) fn follow<T, W>(
    first: Option<W>,
    reader: FeedReader<T>,
    context: CallContext,
    is_last: fn(&T) -> bool,
) -> Outgoing<W>
where
    T: Into<W> + Send + 'static,
    W: Send + 'static,
{
    let rest = stream::unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        match context.within(reader.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(item))) => {
                let last = is_last(&item);
                Some((Ok(item.into()), (!last).then_some(reader)))
            }
            Ok(Some(Err(refusal))) | Err(refusal) => Some((Err(status(refusal)), None)),
        }
    });
    Box::pin(stream::iter(first.map(Ok)).chain(rest))
}

/// An attachment in pieces.
pub(super) fn chunks(content: Bytes, context: CallContext) -> Outgoing<wire::DownloadAttachmentResponse> {
    Box::pin(stream::unfold(Some(content), move |content| async move {
        let mut content = content.filter(|content| !content.is_empty())?;
        // Nothing is awaited here, but the client may have stopped reading for long.
        if let Err(refusal) = context.check() {
            return Some((Err(status(refusal)), None));
        }
        let chunk = content.split_to(content.len().min(CHUNK));
        Some((Ok(wire::DownloadAttachmentResponse { chunk }), Some(content)))
    }))
}

/// What a client may do with one stream of starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    /// Longest message, in bytes.
    pub(super) message: usize,
    /// Flows in flight.
    pub(super) flows: usize,
}

/// Runs the flows that come in, only so many at once, and answers as they end.
pub(super) fn run_flows<N: NodeService>(
    node: Arc<N>,
    user: Arc<User>,
    context: CallContext,
    starts: Streaming<wire::RunFlowsRequest>,
    limits: StreamLimits,
) -> Outgoing<wire::RunFlowsResponse> {
    let caller = Caller { user: user.name().clone(), address: context.peer };
    let runs = Runs {
        node,
        user,
        caller,
        starts: Some(starts),
        running: FuturesUnordered::new(),
        limits,
        run: run_one,
    };
    Box::pin(stream::unfold(Some(runs), move |runs| async move {
        let mut runs = runs?;
        match context.within(runs.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(answer))) => Some((Ok(answer), Some(runs))),
            Ok(Some(Err(status))) => Some((Err(status), None)),
            Err(refusal) => Some((Err(status(refusal)), None)),
        }
    }))
}

struct Runs<N, F, R> {
    node: Arc<N>,
    user: Arc<User>,
    caller: Caller,
    /// `None` once the client has sent its last.
    starts: Option<Streaming<wire::RunFlowsRequest>>,
    running: FuturesUnordered<F>,
    limits: StreamLimits,
    run: R,
}

impl<N, F, R> Runs<N, F, R>
where
    F: Future<Output = wire::RunFlowsResponse>,
    R: Fn(Arc<N>, Caller, u64, StartFlow) -> F,
{
    async fn next(&mut self) -> Option<Result<wire::RunFlowsResponse, Status>> {
        loop {
            let start = match &mut self.starts {
                Some(starts) if self.running.len() < self.limits.flows => tokio::select! {
                    // Answers first: ending what runs makes room, reading more does not.
                    biased;
                    Some(answer) = self.running.next() => return Some(Ok(answer)),
                    start = starts.message() => start,
                },
                _ => return self.running.next().await.map(Ok),
            };
            match start {
                Ok(Some(wire::RunFlowsRequest { tag, start })) => {
                    match permitted(&self.user, start.unwrap_or_default()) {
                        Ok(start) => {
                            let run = (self.run)(self.node.clone(), self.caller.clone(), tag, start);
                            self.running.push(run);
                        }
                        Err(refusal) => return Some(Ok(refused(tag, refusal))),
                    }
                }
                Ok(None) => self.starts = None,
                Err(status) => return Some(Err(typed_status(status, self.limits.message))),
            }
        }
    }
}

async fn run_one<N: NodeService>(
    node: Arc<N>,
    caller: Caller,
    tag: u64,
    start: StartFlow,
) -> wire::RunFlowsResponse {
    match node.run_flow(&caller, start).await {
        Ok(end) => {
            wire::RunFlowsResponse { tag, answer: Some(wire::run_flows_response::Answer::Ended(end.into())) }
        }
        Err(refusal) => refused(tag, refusal),
    }
}

fn refused(tag: u64, refusal: Refusal) -> wire::RunFlowsResponse {
    wire::RunFlowsResponse { tag, answer: Some(wire::run_flows_response::Answer::Refused(refusal.into())) }
}
