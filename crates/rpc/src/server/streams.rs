//! What the server sends as streams. Each item is made when the connection has room for it, so that a client that
//! does not read holds back nothing but itself.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tonic::{Status, Streaming};

use super::dispatch::{CallContext, typed_status};
use super::figures::{Figures, count};
use super::gate::left;
use super::gateway::permitted;
use super::stopping::{Stopped, stopping};
use crate::convert::status;
use crate::feed::FeedReader;
use crate::refusal::{Refusal, RefusalCode};
use crate::service::{Caller, NodeService};
use crate::types::StartFlow;
use crate::users::User;
use crate::wire;

/// A stream of answers.
pub(crate) type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

const CHUNK: usize = 64 * 1024;

/// Something that a client follows.
pub(super) struct Followed<T> {
    pub(super) reader: FeedReader<T>,
    pub(super) context: CallContext,
    pub(super) is_last: fn(&T) -> bool,
    pub(super) stopped: Stopped,
    /// The user is no longer let in.
    pub(super) left: Stopped,
    pub(super) figures: Arc<Figures>,
}

impl<T> Followed<T> {
    async fn next(&mut self) -> Result<T, Refusal> {
        let item = async {
            tokio::select! {
                biased;
                () = &mut self.stopped => Err(stopping()),
                () = &mut self.left => Err(left()),
                item = poll_fn(|context| self.reader.poll_take(context)) => item,
            }
        };
        self.context.within(item).await?.inspect_err(|refusal| {
            if refusal.code == RefusalCode::ClientSlow {
                count(&self.figures.clients_slow);
            }
        })
    }
}

/// `first`, then what the feed gives up to its last item, or the reason why there are no more.
pub(super) fn follow<T, W>(first: Option<W>, followed: Followed<T>) -> Outgoing<W>
where
    T: Into<W> + Send + 'static,
    W: Send + 'static,
{
    let rest = stream::unfold(Some(followed), |followed| async move {
        let mut followed = followed?;
        match followed.next().await {
            Ok(item) => {
                let last = (followed.is_last)(&item);
                Some((Ok(item.into()), (!last).then_some(followed)))
            }
            Err(refusal) => Some((Err(status(refusal)), None)),
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
    [stopped, left]: [Stopped; 2],
) -> Outgoing<wire::RunFlowsResponse> {
    let caller = Caller { user: user.name().clone(), address: context.peer };
    let runs = Runs {
        node,
        user,
        caller,
        starts: Starts::Come(Box::new(starts)),
        stopped,
        left,
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

enum Starts {
    Come(Box<Streaming<wire::RunFlowsRequest>>),
    /// The client has sent its last.
    Ended,
    /// The server takes no more, for this reason; the client may have sent some.
    Stopped(Refusal),
}

struct Runs<N, F, R> {
    node: Arc<N>,
    user: Arc<User>,
    caller: Caller,
    starts: Starts,
    stopped: Stopped,
    left: Stopped,
    running: FuturesUnordered<F>,
    limits: StreamLimits,
    run: R,
}

impl<N, F, R> Runs<N, F, R>
where
    F: Future<Output = wire::RunFlowsResponse>,
    R: Fn(Arc<N>, Caller, u64, StartFlow) -> F,
{
    /// The next answer while no more starts are read.
    async fn last(&mut self) -> Option<Result<wire::RunFlowsResponse, Status>> {
        match (self.running.next().await, &self.starts) {
            (Some(answer), _) => Some(Ok(answer)),
            (None, Starts::Stopped(refusal)) => Some(Err(status(refusal.clone()))),
            (None, _) => None,
        }
    }

    async fn next(&mut self) -> Option<Result<wire::RunFlowsResponse, Status>> {
        loop {
            let start = match &mut self.starts {
                Starts::Come(starts) if self.running.len() < self.limits.flows => tokio::select! {
                    // Answers first: ending what runs makes room, reading more does not.
                    biased;
                    Some(answer) = self.running.next() => return Some(Ok(answer)),
                    () = &mut self.stopped => {
                        self.starts = Starts::Stopped(stopping());
                        continue;
                    }
                    () = &mut self.left => {
                        self.starts = Starts::Stopped(left());
                        continue;
                    }
                    start = starts.message() => start,
                },
                _ => return self.last().await,
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
                Ok(None) => self.starts = Starts::Ended,
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
