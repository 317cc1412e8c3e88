//! Whatever comes in is refused or understood, never a panic.

use std::path::Path;

use proptest::prelude::*;
use prost::Message;

use crate::convert::{answered, snapshot, update};
use crate::{
    FlowEnd, FlowInfo, FlowPage, FlowQuery, NetworkMap, NodeInfo, StartFlow, Users, VaultQuery, wire,
};

proptest! {
    #[test]
    fn requests_and_answers(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = bytes.as_slice();
        let _ = wire::StartFlowRequest::decode(bytes).map(StartFlow::try_from);
        let _ = wire::ListFlowsRequest::decode(bytes).map(FlowQuery::try_from);
        let _ = wire::QueryVaultRequest::decode(bytes).map(VaultQuery::try_from);
        let _ = wire::RunFlowResponse::decode(bytes).map(FlowEnd::try_from);
        let _ = wire::Flow::decode(bytes).map(FlowInfo::try_from);
        let _ = wire::ListFlowsResponse::decode(bytes).map(FlowPage::try_from);
        let _ = wire::NodeInfoResponse::decode(bytes).map(NodeInfo::try_from);
        let _ = wire::NetworkMapResponse::decode(bytes).map(NetworkMap::try_from);
        let _ = wire::VaultEvent::decode(bytes).map(snapshot);
        let _ = wire::VaultEvent::decode(bytes).map(update);
        let details = bytes::Bytes::copy_from_slice(bytes);
        let _ = answered(&tonic::Status::with_details(tonic::Code::NotFound, "x", details));
    }

    #[test]
    fn arguments(text in ".{0,200}") {
        let request = wire::StartFlowRequest { flow: "F".into(), arguments_json: text.clone(), request_id: text };
        let _ = StartFlow::try_from(request);
    }

    #[test]
    fn users_files(name in ".{0,20}", hash in "(\\$[a-z0-9=,]{0,20}){0,6}", rest in ".{0,40}") {
        let text = format!("[[user]]\nname = {name:?}\npassword = {hash:?}\npermissions = {rest}\n");
        let _ = Users::parse(&text, Path::new("users.toml"));
    }
}
