//! The calls with one answer, one method each. Each is refused as the published interface says.

use bytes::Bytes;
use futures_util::stream;

use super::streams::{FlowEnds, FlowStarts, FlowWatch, VaultTrack};
use super::{Client, ClientError};
use crate::types::{
    Drain, FlowDescription, FlowEnd, FlowInfo, FlowPage, FlowQuery, NetworkMap, NodeInfo, Parameters,
    StartFlow, TransactionInfo, UndeliveredPage, UndeliveredQuery, VaultPage, VaultQuery,
};
use crate::wire;

const CHUNK: usize = 64 * 1024;

impl Client {
    /// Starts a flow; answers its id once the start is durable.
    pub async fn start_flow(&self, start: &StartFlow) -> Result<String, ClientError> {
        let call = |mut node: super::Node, request| async move { node.start_flow(request).await };
        let answer =
            self.call(|| wire::StartFlowRequest::from(start), self.0.settings.deadline, call).await?;
        Ok(answer.flow_id)
    }

    /// Starts a flow; answers once it has ended.
    pub async fn run_flow(&self, start: &StartFlow) -> Result<FlowEnd, ClientError> {
        let call = |mut node: super::Node, request| async move { node.run_flow(request).await };
        let answer =
            self.call(|| wire::StartFlowRequest::from(start), self.0.settings.deadline, call).await?;
        Ok(answer.try_into()?)
    }

    /// A stream on which many flows run at once: starts go in by the first, ends come out of the second.
    pub async fn run_flows(&self) -> Result<(FlowStarts, FlowEnds), ClientError> {
        FlowStarts::open(self).await
    }

    /// Follows a flow to its end.
    pub async fn watch_flow(&self, flow_id: &str) -> Result<FlowWatch, ClientError> {
        FlowWatch::open(self, flow_id).await
    }

    /// One flow, running or ended.
    pub async fn flow(&self, flow_id: &str) -> Result<FlowInfo, ClientError> {
        let call = |mut node: super::Node, request| async move { node.get_flow(request).await };
        let message = || wire::GetFlowRequest { flow_id: flow_id.to_owned() };
        Ok(self.call(message, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// Flows, newest first.
    pub async fn flows(&self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        let call = |mut node: super::Node, request| async move { node.list_flows(request).await };
        let message = || wire::ListFlowsRequest::from(query);
        Ok(self.call(message, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// Final transactions that others have not confirmed, and those of unknown fate.
    pub async fn undelivered(&self, query: &UndeliveredQuery) -> Result<UndeliveredPage, ClientError> {
        let call = |mut node: super::Node, request| async move { node.list_undelivered(request).await };
        let message = || wire::ListUndeliveredRequest::from(query);
        Ok(self.call(message, self.0.settings.deadline, call).await?.into())
    }

    /// Pauses a flow until it is retried.
    pub async fn pause_flow(&self, flow_id: &str) -> Result<(), ClientError> {
        let call = |mut node: super::Node, request| async move { node.pause_flow(request).await };
        let message = || wire::PauseFlowRequest { flow_id: flow_id.to_owned() };
        self.call(message, self.0.settings.deadline, call).await.map(drop)
    }

    /// Lets a paused or held flow go on.
    pub async fn retry_flow(&self, flow_id: &str) -> Result<(), ClientError> {
        let call = |mut node: super::Node, request| async move { node.retry_flow(request).await };
        let message = || wire::RetryFlowRequest { flow_id: flow_id.to_owned() };
        self.call(message, self.0.settings.deadline, call).await.map(drop)
    }

    /// Ends a flow without completing it.
    pub async fn kill_flow(&self, flow_id: &str) -> Result<(), ClientError> {
        let call = |mut node: super::Node, request| async move { node.kill_flow(request).await };
        let message = || wire::KillFlowRequest { flow_id: flow_id.to_owned() };
        self.call(message, self.0.settings.deadline, call).await.map(drop)
    }

    /// The flows that can be started.
    pub async fn flow_names(&self) -> Result<Vec<FlowDescription>, ClientError> {
        let call = |mut node: super::Node, request| async move { node.list_flow_names(request).await };
        let answer = self.call(|| wire::ListFlowNamesRequest {}, self.0.settings.deadline, call).await?;
        Ok(answer.flows.into_iter().map(Into::into).collect())
    }

    /// A page of the vault's states.
    pub async fn query_vault(&self, query: &VaultQuery) -> Result<VaultPage, ClientError> {
        let call = |mut node: super::Node, request| async move { node.query_vault(request).await };
        let message = || wire::QueryVaultRequest::from(query);
        Ok(self.call(message, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// A first page of states, and every later change that concerns the query.
    pub async fn track_vault(&self, query: &VaultQuery) -> Result<(VaultPage, VaultTrack), ClientError> {
        VaultTrack::open(self, query).await
    }

    /// One recorded transaction.
    pub async fn transaction(&self, transaction_id: &str) -> Result<TransactionInfo, ClientError> {
        let call = |mut node: super::Node, request| async move { node.get_transaction(request).await };
        let message = || wire::GetTransactionRequest { transaction_id: transaction_id.to_owned() };
        Ok(self.call(message, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// Stores an attachment; answers its id.
    pub async fn upload_attachment(&self, content: &Bytes) -> Result<String, ClientError> {
        let call = |mut node: super::Node, request| async move { node.upload_attachment(request).await };
        let message = || {
            let mut content = content.clone();
            stream::iter(std::iter::from_fn(move || {
                let chunk = content.split_to(content.len().min(CHUNK));
                (!chunk.is_empty()).then_some(wire::UploadAttachmentRequest { chunk })
            }))
        };
        Ok(self.call(message, self.0.settings.deadline, call).await?.attachment_id)
    }

    /// The bytes of an attachment, of which at most `limit` are taken.
    pub async fn attachment(&self, attachment_id: &str, limit: usize) -> Result<Bytes, ClientError> {
        let call = |mut node: super::Node, request| async move { node.download_attachment(request).await };
        let message = || wire::DownloadAttachmentRequest { attachment_id: attachment_id.to_owned() };
        let mut chunks = self.call(message, self.0.settings.deadline, call).await?;
        let mut content = bytes::BytesMut::new();
        while let Some(message) = chunks.message().await? {
            if message.chunk.len() > limit - content.len() {
                return Err(ClientError::not_understood(
                    "chunk",
                    &format!("beyond the limit of {limit} bytes"),
                ));
            }
            content.extend_from_slice(&message.chunk);
        }
        Ok(content.freeze())
    }

    /// Who the node is and how it does.
    pub async fn node_info(&self) -> Result<NodeInfo, ClientError> {
        let call = |mut node: super::Node, request| async move { node.node_info(request).await };
        Ok(self.call(|| wire::NodeInfoRequest {}, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// Begins nothing new (`true`), begins new flows again (`false`), or changes nothing; how far the node is drained.
    pub async fn drain(&self, change: Option<bool>) -> Result<Drain, ClientError> {
        let call = |mut node: super::Node, request| async move { node.drain(request).await };
        let message = || wire::DrainRequest { draining: change };
        Ok(self.call(message, self.0.settings.deadline, call).await?.into())
    }

    /// How the network's parameters stand, after those of an epoch were accepted if one is given.
    pub async fn parameters(&self, accept: Option<u32>) -> Result<Parameters, ClientError> {
        let call = |mut node: super::Node, request| async move { node.parameters(request).await };
        let message = || wire::ParametersRequest { accept };
        Ok(self.call(message, self.0.settings.deadline, call).await?.try_into()?)
    }

    /// The network as the node knows it.
    pub async fn network_map(&self) -> Result<NetworkMap, ClientError> {
        let call = |mut node: super::Node, request| async move { node.network_map(request).await };
        Ok(self.call(|| wire::NetworkMapRequest {}, self.0.settings.deadline, call).await?.try_into()?)
    }
}
