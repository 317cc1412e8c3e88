use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::types::{
    Drain, FlowDescription, FlowEnd, FlowEvent, FlowInfo, FlowPage, FlowQuery, NetworkMap, NodeInfo,
    Parameters, StartFlow, TransactionInfo, UndeliveredPage, UndeliveredQuery, VaultPage, VaultQuery,
    VaultUpdate,
};

/// Who makes a call. The server has checked the token and the permission already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's name.
    pub user: Arc<str>,
    /// Where the call comes from.
    pub address: SocketAddr,
}

/// What a node does for its clients; the server does everything else (TLS, tokens, permissions, limits, deadlines,
/// the wire). Methods may be written as `async fn`.
///
/// A call whose client goes away or whose deadline passes is dropped at an await point: what it durably started
/// goes on. Arguments are well formed as far as this crate knows them (lengths, ranges, JSON objects); ids, names,
/// keys and cursors are texts from outside that the node must still parse, refusing with
/// [`RequestInvalid`](crate::RefusalCode::RequestInvalid) or [`CursorInvalid`](crate::RefusalCode::CursorInvalid).
pub trait NodeService: Send + Sync + 'static {
    /// Starts a flow; answers its id once the start is durable. The same user's start with the same request id
    /// answers the first flow's id.
    fn start_flow(
        &self,
        caller: &Caller,
        start: StartFlow,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;

    /// Starts a flow as [`start_flow`](Self::start_flow) and answers once its end is durable.
    fn run_flow(
        &self,
        caller: &Caller,
        start: StartFlow,
    ) -> impl Future<Output = Result<FlowEnd, Refusal>> + Send;

    /// Follows a flow. The service keeps `feed` and offers each step to it, remembered ones first, last
    /// [`FlowEvent::Ended`]; dropping it before that tells the client that the node stopped following.
    fn watch_flow(
        &self,
        caller: &Caller,
        flow_id: String,
        feed: Feed<FlowEvent>,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// One flow, running or ended.
    fn flow(
        &self,
        caller: &Caller,
        flow_id: String,
    ) -> impl Future<Output = Result<FlowInfo, Refusal>> + Send;

    /// Flows, newest first; `page_size` is 1 to 1,000.
    fn flows(
        &self,
        caller: &Caller,
        query: FlowQuery,
    ) -> impl Future<Output = Result<FlowPage, Refusal>> + Send;

    /// Final transactions that others have not confirmed, by party and transaction, and those of unknown fate;
    /// `page_size` is 1 to 1,000.
    fn undelivered(
        &self,
        caller: &Caller,
        query: UndeliveredQuery,
    ) -> impl Future<Output = Result<UndeliveredPage, Refusal>> + Send;

    /// Stops a flow from taking further steps until it is retried.
    fn pause_flow(
        &self,
        caller: &Caller,
        flow_id: String,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Lets a paused or held flow go on.
    fn retry_flow(
        &self,
        caller: &Caller,
        flow_id: String,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Ends a flow without completing it.
    fn kill_flow(&self, caller: &Caller, flow_id: String)
    -> impl Future<Output = Result<(), Refusal>> + Send;

    /// The flows that can be started, in order of their names.
    fn flow_names(
        &self,
        caller: &Caller,
    ) -> impl Future<Output = Result<Vec<FlowDescription>, Refusal>> + Send;

    /// States of the vault; `page_size` is 1 to 1,000.
    fn query_vault(
        &self,
        caller: &Caller,
        query: VaultQuery,
    ) -> impl Future<Output = Result<VaultPage, Refusal>> + Send;

    /// A first page, and from then on every change that concerns the query (its cursor, sort and page size apart)
    /// offered to `feed`. No change may be missed between the two: register the feed first, then read the page.
    fn track_vault(
        &self,
        caller: &Caller,
        query: VaultQuery,
        feed: Feed<VaultUpdate>,
    ) -> impl Future<Output = Result<VaultPage, Refusal>> + Send;

    /// One recorded transaction.
    fn transaction(
        &self,
        caller: &Caller,
        transaction_id: String,
    ) -> impl Future<Output = Result<TransactionInfo, Refusal>> + Send;

    /// Stores an attachment durably and answers its id. Its length is within the server's limit.
    fn upload_attachment(
        &self,
        caller: &Caller,
        content: Bytes,
    ) -> impl Future<Output = Result<String, Refusal>> + Send;

    /// The bytes of an attachment.
    fn attachment(
        &self,
        caller: &Caller,
        attachment_id: String,
    ) -> impl Future<Output = Result<Bytes, Refusal>> + Send;

    /// Who this node is and how it does.
    fn node_info(&self, caller: &Caller) -> impl Future<Output = Result<NodeInfo, Refusal>> + Send;

    /// Begins nothing new (`true`), begins new flows again (`false`), or changes nothing; says how far the node is drained.
    fn drain(
        &self,
        caller: &Caller,
        change: Option<bool>,
    ) -> impl Future<Output = Result<Drain, Refusal>> + Send;

    /// How the network's parameters stand, after those of an epoch were accepted if one is given.
    fn parameters(
        &self,
        caller: &Caller,
        accept: Option<u32>,
    ) -> impl Future<Output = Result<Parameters, Refusal>> + Send;

    /// The network as this node knows it.
    fn network_map(&self, caller: &Caller) -> impl Future<Output = Result<NetworkMap, Refusal>> + Send;
}
