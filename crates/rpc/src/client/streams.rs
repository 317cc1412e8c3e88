//! The calls with many answers.

use futures_util::stream;
use tokio::sync::{Mutex, mpsc};
use tonic::Streaming;

use super::{Client, ClientError, Node};
use crate::convert::{refusal, snapshot, update};
use crate::types::{FlowEnd, FlowEvent, StartFlow, VaultPage, VaultQuery, VaultUpdate};
use crate::wire;

/// Starts that wait to be sent on one stream.
const STARTS_AHEAD: usize = 256;

/// What a flow does, up to its end.
#[derive(Debug)]
pub struct FlowWatch(Streaming<wire::FlowEvent>);

impl FlowWatch {
    pub(super) async fn open(client: &Client, flow_id: &str) -> Result<Self, ClientError> {
        let call = |mut node: Node, request| async move { node.watch_flow(request).await };
        let message = || wire::WatchFlowRequest { flow_id: flow_id.to_owned() };
        client.call(message, None, call).await.map(Self)
    }

    /// The next event; `None` after the flow's end.
    pub async fn next(&mut self) -> Result<Option<FlowEvent>, ClientError> {
        self.0.message().await?.map(FlowEvent::try_from).transpose().map_err(Into::into)
    }
}

/// Changes of the vault that concern a query.
#[derive(Debug)]
pub struct VaultTrack(Streaming<wire::VaultEvent>);

impl VaultTrack {
    pub(super) async fn open(client: &Client, query: &VaultQuery) -> Result<(VaultPage, Self), ClientError> {
        let call = |mut node: Node, request| async move { node.track_vault(request).await };
        let mut events = client.call(|| wire::QueryVaultRequest::from(query), None, call).await?;
        let first = events.message().await?;
        let first = first.ok_or_else(|| ClientError::not_understood("event", "missing"))?;
        Ok((snapshot(first)?, Self(events)))
    }

    /// The next change. There is always another until an error.
    pub async fn next(&mut self) -> Result<VaultUpdate, ClientError> {
        let event = self.0.message().await?;
        let event = event.ok_or_else(|| ClientError::not_understood("event", "missing"))?;
        Ok(update(event)?)
    }
}

/// Where starts of many flows go in. Dropping it lets the stream end once the flows have.
#[derive(Clone, Debug)]
pub struct FlowStarts(mpsc::Sender<wire::RunFlowsRequest>);

/// Where ends of many flows come out.
#[derive(Debug)]
pub struct FlowEnds(Streaming<wire::RunFlowsResponse>);

impl FlowStarts {
    pub(super) async fn open(client: &Client) -> Result<(Self, FlowEnds), ClientError> {
        let (sender, receiver) = mpsc::channel::<wire::RunFlowsRequest>(STARTS_AHEAD);
        // A call that is made again with a fresh token takes the same starts: the first took none.
        let receiver = std::sync::Arc::new(Mutex::new(receiver));
        let message = || {
            stream::unfold(receiver.clone(), |receiver| async move {
                let start = receiver.lock().await.recv().await?;
                Some((start, receiver))
            })
        };
        let call = |mut node: Node, request| async move { node.run_flows(request).await };
        let ends = client.call(message, None, call).await?;
        Ok((Self(sender), FlowEnds(ends)))
    }

    /// Starts a flow; its end carries the same tag. Waits while the node takes no more. False when the stream has
    /// ended; [`FlowEnds::next`] says why.
    pub async fn send(&self, tag: u64, start: &StartFlow) -> bool {
        self.0.send(wire::RunFlowsRequest { tag, start: Some(start.into()) }).await.is_ok()
    }
}

impl FlowEnds {
    /// The next flow that ended or was refused, with its tag; `None` once all have and no more starts come. An outer
    /// error ends the stream.
    pub async fn next(&mut self) -> Result<Option<(u64, Result<FlowEnd, ClientError>)>, ClientError> {
        let Some(message) = self.0.message().await? else {
            return Ok(None);
        };
        let answer = match message.answer {
            Some(wire::run_flows_response::Answer::Ended(end)) => end.try_into().map_err(ClientError::from),
            Some(wire::run_flows_response::Answer::Refused(refused)) => Err(refusal(refused).into()),
            None => Err(ClientError::not_understood("answer", "missing")),
        };
        Ok(Some((message.tag, answer)))
    }
}
