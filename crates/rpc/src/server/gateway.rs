//! The published service over a [`NodeService`]: who calls, may they, what do they ask, how is it said.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tally_ops::connections::Place;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming};

use super::dispatch::{CallContext, typed_status};
use super::figures::{Figures, count};
use super::gate::{Gate, require};
use super::settings::Settings;
use super::stopping::{Stopped, Stopping};
use super::streams::{self, Followed, Outgoing, StreamLimits};
use crate::convert::{status, text};
use crate::feed::{Feed, FeedReader};
use crate::permissions::Permission;
use crate::refusal::{Refusal, RefusalCode};
use crate::service::{Caller, NodeService};
use crate::types::{FlowEvent, FlowQuery, StartFlow, UndeliveredQuery, VaultQuery};
use crate::users::User;
use crate::wire;

pub(crate) struct Gateway<N> {
    node: Arc<N>,
    gate: Arc<Gate>,
    uploads: Semaphore,
    message_limit: usize,
    attachment_limit: usize,
    feed_items: usize,
    flows_per_stream: usize,
    figures: Arc<Figures>,
    stopping: Stopping,
}

impl<N: NodeService> Gateway<N> {
    pub(super) fn new(
        node: Arc<N>,
        gate: Arc<Gate>,
        settings: &Settings,
        figures: Arc<Figures>,
        stopping: Stopping,
    ) -> Self {
        Self {
            node,
            gate,
            uploads: Semaphore::new(settings.uploads_at_once.max(1)),
            message_limit: settings.message_limit,
            attachment_limit: settings.attachment_limit,
            feed_items: settings.feed_items,
            flows_per_stream: settings.flows_per_stream.max(1),
            figures,
            stopping,
        }
    }

    fn user<T>(&self, request: &Request<T>) -> Result<(Arc<User>, CallContext), Status> {
        let context = CallContext::of(request)?;
        let authorization = request.metadata().get("authorization").map(|value| value.as_bytes());
        let user = self.gate.admit(authorization).map_err(status)?;
        if let Some(place) = request.extensions().get::<Arc<Place>>() {
            place.known();
        }
        Ok((user, context))
    }

    /// The caller, who has a permission that needs nothing of the message.
    fn caller<T>(
        &self,
        request: &Request<T>,
        permission: &Permission,
    ) -> Result<(Caller, CallContext), Status> {
        let (user, context) = self.user(request)?;
        require(&user, permission).map_err(status)?;
        Ok((Caller { user: user.name().clone(), address: context.peer }, context))
    }

    /// The caller of something that is followed, and when the user is no longer let in.
    fn follower<T>(
        &self,
        request: &Request<T>,
        permission: &Permission,
    ) -> Result<(Caller, CallContext, Stopped), Status> {
        let (user, context) = self.user(request)?;
        require(&user, permission).map_err(status)?;
        let left = self.gate.left(&user);
        Ok((Caller { user: user.name().clone(), address: context.peer }, context, left))
    }

    fn follow<T, W>(
        &self,
        first: Option<W>,
        reader: FeedReader<T>,
        context: CallContext,
        left: Stopped,
        is_last: fn(&T) -> bool,
    ) -> Outgoing<W>
    where
        T: Into<W> + Send + 'static,
        W: Send + 'static,
    {
        let followed = Followed {
            reader,
            context,
            is_last,
            stopped: self.stopping.stopped(),
            left,
            figures: self.figures.clone(),
        };
        streams::follow(first, followed)
    }

    fn starter(&self, request: Request<wire::StartFlowRequest>) -> Result<(Caller, StartFlow), Status> {
        let (user, context) = self.user(&request)?;
        let request = request.into_inner();
        let caller = Caller { user: user.name().clone(), address: context.peer };
        Ok((caller, permitted(&user, request).map_err(status)?))
    }
}

/// What to start, when this user may. The permission comes first: who lacks it learns nothing about arguments.
pub(super) fn permitted(user: &User, request: wire::StartFlowRequest) -> Result<StartFlow, Refusal> {
    let permission = Permission::Flow(request.flow);
    require(user, &permission)?;
    let Permission::Flow(flow) = permission else { unreachable!("it was made above") };
    StartFlow::try_from(wire::StartFlowRequest { flow, ..request })
}

fn flow_id(flow_id: String) -> Result<String, Status> {
    text("flow_id", flow_id).map_err(status)
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl<N: NodeService> wire::node_server::Node for Gateway<N> {
    async fn login(&self, request: Request<wire::LoginRequest>) -> Answer<wire::LoginResponse> {
        let context = CallContext::of(&request)?;
        let place = request.extensions().get::<Arc<Place>>().cloned();
        let wire::LoginRequest { user, password } = request.into_inner();
        let token = self.gate.login(user, password, context.peer.ip()).await;
        count(if token.is_ok() { &self.figures.logins } else { &self.figures.logins_refused });
        let token = token.map_err(status)?;
        if let Some(place) = place {
            place.known();
        }
        let valid_for_ms = u64::try_from(token.valid_for.as_millis()).unwrap_or(u64::MAX);
        Ok(Response::new(wire::LoginResponse { token: token.text, valid_for_ms }))
    }

    async fn start_flow(&self, request: Request<wire::StartFlowRequest>) -> Answer<wire::StartFlowResponse> {
        let (caller, start) = self.starter(request)?;
        let flow_id = self.node.start_flow(&caller, start).await.map_err(status)?;
        Ok(Response::new(wire::StartFlowResponse { flow_id }))
    }

    async fn run_flow(&self, request: Request<wire::StartFlowRequest>) -> Answer<wire::RunFlowResponse> {
        let (caller, start) = self.starter(request)?;
        let end = self.node.run_flow(&caller, start).await.map_err(status)?;
        Ok(Response::new(end.into()))
    }

    type RunFlowsStream = Outgoing<wire::RunFlowsResponse>;

    async fn run_flows(
        &self,
        request: Request<Streaming<wire::RunFlowsRequest>>,
    ) -> Answer<Self::RunFlowsStream> {
        let (user, context) = self.user(&request)?;
        let starts = request.into_inner();
        let limits = StreamLimits { message: self.message_limit, flows: self.flows_per_stream };
        let (stopped, left) = (self.stopping.stopped(), self.gate.left(&user));
        let ends = streams::run_flows(self.node.clone(), user, context, starts, limits, [stopped, left]);
        Ok(Response::new(ends))
    }

    type WatchFlowStream = Outgoing<wire::FlowEvent>;

    async fn watch_flow(&self, request: Request<wire::WatchFlowRequest>) -> Answer<Self::WatchFlowStream> {
        let (caller, context, left) = self.follower(&request, &Permission::FlowsRead)?;
        let (feed, reader) = Feed::pair(self.feed_items);
        let flow_id = flow_id(request.into_inner().flow_id)?;
        self.node.watch_flow(&caller, flow_id, feed).await.map_err(status)?;
        let is_last = |event: &FlowEvent| matches!(event, FlowEvent::Ended(_));
        Ok(Response::new(self.follow(None, reader, context, left, is_last)))
    }

    async fn get_flow(&self, request: Request<wire::GetFlowRequest>) -> Answer<wire::Flow> {
        let (caller, _) = self.caller(&request, &Permission::FlowsRead)?;
        let flow_id = flow_id(request.into_inner().flow_id)?;
        let flow = self.node.flow(&caller, flow_id).await.map_err(status)?;
        Ok(Response::new(flow.into()))
    }

    async fn list_flows(&self, request: Request<wire::ListFlowsRequest>) -> Answer<wire::ListFlowsResponse> {
        let (caller, _) = self.caller(&request, &Permission::FlowsRead)?;
        let query = FlowQuery::try_from(request.into_inner()).map_err(status)?;
        let page = self.node.flows(&caller, query).await.map_err(status)?;
        Ok(Response::new(page.into()))
    }

    async fn list_undelivered(
        &self,
        request: Request<wire::ListUndeliveredRequest>,
    ) -> Answer<wire::ListUndeliveredResponse> {
        let (caller, _) = self.caller(&request, &Permission::FlowsRead)?;
        let query = UndeliveredQuery::try_from(request.into_inner()).map_err(status)?;
        let page = self.node.undelivered(&caller, query).await.map_err(status)?;
        Ok(Response::new(page.into()))
    }

    async fn pause_flow(&self, request: Request<wire::PauseFlowRequest>) -> Answer<wire::PauseFlowResponse> {
        let (caller, _) = self.caller(&request, &Permission::FlowsOperate)?;
        let flow_id = flow_id(request.into_inner().flow_id)?;
        self.node.pause_flow(&caller, flow_id).await.map_err(status)?;
        Ok(Response::new(wire::PauseFlowResponse {}))
    }

    async fn retry_flow(&self, request: Request<wire::RetryFlowRequest>) -> Answer<wire::RetryFlowResponse> {
        let (caller, _) = self.caller(&request, &Permission::FlowsOperate)?;
        let flow_id = flow_id(request.into_inner().flow_id)?;
        self.node.retry_flow(&caller, flow_id).await.map_err(status)?;
        Ok(Response::new(wire::RetryFlowResponse {}))
    }

    async fn kill_flow(&self, request: Request<wire::KillFlowRequest>) -> Answer<wire::KillFlowResponse> {
        let (caller, _) = self.caller(&request, &Permission::FlowsOperate)?;
        let flow_id = flow_id(request.into_inner().flow_id)?;
        self.node.kill_flow(&caller, flow_id).await.map_err(status)?;
        Ok(Response::new(wire::KillFlowResponse {}))
    }

    async fn list_flow_names(
        &self,
        request: Request<wire::ListFlowNamesRequest>,
    ) -> Answer<wire::ListFlowNamesResponse> {
        let (caller, _) = self.caller(&request, &Permission::NodeRead)?;
        let flows = self.node.flow_names(&caller).await.map_err(status)?;
        let flows = flows.into_iter().map(Into::into).collect();
        Ok(Response::new(wire::ListFlowNamesResponse { flows }))
    }

    async fn query_vault(
        &self,
        request: Request<wire::QueryVaultRequest>,
    ) -> Answer<wire::QueryVaultResponse> {
        let (caller, _) = self.caller(&request, &Permission::VaultRead)?;
        let query = VaultQuery::try_from(request.into_inner()).map_err(status)?;
        let page = self.node.query_vault(&caller, query).await.map_err(status)?;
        Ok(Response::new(page.into()))
    }

    type TrackVaultStream = Outgoing<wire::VaultEvent>;

    async fn track_vault(&self, request: Request<wire::QueryVaultRequest>) -> Answer<Self::TrackVaultStream> {
        let (caller, context, left) = self.follower(&request, &Permission::VaultRead)?;
        let query = VaultQuery::try_from(request.into_inner()).map_err(status)?;
        let (feed, reader) = Feed::pair(self.feed_items);
        let page = self.node.track_vault(&caller, query, feed).await.map_err(status)?;
        Ok(Response::new(self.follow(Some(page.into()), reader, context, left, |_| false)))
    }

    async fn get_transaction(
        &self,
        request: Request<wire::GetTransactionRequest>,
    ) -> Answer<wire::Transaction> {
        let (caller, _) = self.caller(&request, &Permission::VaultRead)?;
        let id = text("transaction_id", request.into_inner().transaction_id).map_err(status)?;
        let transaction = self.node.transaction(&caller, id).await.map_err(status)?;
        Ok(Response::new(transaction.into()))
    }

    async fn upload_attachment(
        &self,
        request: Request<Streaming<wire::UploadAttachmentRequest>>,
    ) -> Answer<wire::UploadAttachmentResponse> {
        let (caller, _) = self.caller(&request, &Permission::AttachmentsWrite)?;
        let unavailable = |_| status(Refusal::new(RefusalCode::Unavailable, "the node is stopping"));
        let _turn = self.uploads.acquire().await.map_err(unavailable)?;
        let mut chunks = request.into_inner();
        let mut content = BytesMut::new();
        let read_failed = |status| typed_status(status, self.message_limit);
        while let Some(message) = chunks.message().await.map_err(read_failed)? {
            if message.chunk.len() > self.attachment_limit - content.len() {
                let reason =
                    format!("an attachment has at most {} bytes; this one has more", self.attachment_limit);
                return Err(status(Refusal::new(RefusalCode::AttachmentTooLarge, reason)));
            }
            content.extend_from_slice(&message.chunk);
        }
        let content = content.freeze();
        let attachment_id = self.node.upload_attachment(&caller, content).await.map_err(status)?;
        Ok(Response::new(wire::UploadAttachmentResponse { attachment_id }))
    }

    type DownloadAttachmentStream = Outgoing<wire::DownloadAttachmentResponse>;

    async fn download_attachment(
        &self,
        request: Request<wire::DownloadAttachmentRequest>,
    ) -> Answer<Self::DownloadAttachmentStream> {
        let (caller, context) = self.caller(&request, &Permission::VaultRead)?;
        let id = text("attachment_id", request.into_inner().attachment_id).map_err(status)?;
        let content: Bytes = self.node.attachment(&caller, id).await.map_err(status)?;
        Ok(Response::new(streams::chunks(content, context)))
    }

    async fn node_info(&self, request: Request<wire::NodeInfoRequest>) -> Answer<wire::NodeInfoResponse> {
        let (caller, _) = self.caller(&request, &Permission::NodeRead)?;
        let info = self.node.node_info(&caller).await.map_err(status)?;
        Ok(Response::new(info.into()))
    }

    async fn drain(&self, request: Request<wire::DrainRequest>) -> Answer<wire::DrainResponse> {
        let change = request.get_ref().draining;
        let permission = if change.is_some() { Permission::NodeOperate } else { Permission::NodeRead };
        let (caller, _) = self.caller(&request, &permission)?;
        let drain = self.node.drain(&caller, change).await.map_err(status)?;
        Ok(Response::new(drain.into()))
    }

    async fn parameters(
        &self,
        request: Request<wire::ParametersRequest>,
    ) -> Answer<wire::ParametersResponse> {
        let accept = request.get_ref().accept;
        let permission = if accept.is_some() { Permission::NodeOperate } else { Permission::NodeRead };
        let (caller, _) = self.caller(&request, &permission)?;
        let parameters = self.node.parameters(&caller, accept).await.map_err(status)?;
        Ok(Response::new(parameters.into()))
    }

    async fn network_map(
        &self,
        request: Request<wire::NetworkMapRequest>,
    ) -> Answer<wire::NetworkMapResponse> {
        let (caller, _) = self.caller(&request, &Permission::NetworkRead)?;
        let map = self.node.network_map(&caller).await.map_err(status)?;
        Ok(Response::new(map.into()))
    }
}
