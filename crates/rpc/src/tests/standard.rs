//! Health checks and reflection, as standard tools use them: without a token.

use prost::Message;
use tonic::Request;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_response};

use super::*;

#[tokio::test]
async fn health_is_what_the_node_says() {
    let mut server = Running::new().await;
    let (channel, origin) = server.admin().await.channel();
    let mut health = HealthClient::with_origin(channel, origin);
    let mut check = async |service: &str| {
        let request = Request::new(HealthCheckRequest { service: service.into() });
        health.check(request).await.map(|answer| answer.into_inner().status())
    };
    assert_eq!(check("").await.unwrap(), ServingStatus::NotServing);
    server.health.set_serving(true).await;
    for service in ["", "tallystick.node.v1.Node"] {
        assert_eq!(check(service).await.unwrap(), ServingStatus::Serving);
    }
    assert_eq!(check("else").await.unwrap_err().code(), tonic::Code::NotFound);
    server.stop();
}

async fn ask(server: &Running, question: MessageRequest) -> server_reflection_response::MessageResponse {
    let (channel, origin) = server.admin().await.channel();
    let mut reflection = ServerReflectionClient::with_origin(channel, origin);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let answers = reflection.server_reflection_info(futures_util::stream::iter([request])).await;
    answers.unwrap().into_inner().message().await.unwrap().unwrap().message_response.unwrap()
}

#[tokio::test]
async fn reflection_lists_the_services_and_describes_the_messages() {
    let server = Running::new().await;
    let MessageResponse::ListServicesResponse(list) =
        ask(&server, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list");
    };
    let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(
        names,
        ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "tallystick.node.v1.Node"]
    );

    let symbol = MessageRequest::FileContainingSymbol("tallystick.node.v1.Refusal".into());
    let MessageResponse::FileDescriptorResponse(files) = ask(&server, symbol).await else {
        panic!("no file");
    };
    let file = prost_types::FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
    assert_eq!(file.package(), "tallystick.node.v1");
    assert_eq!(file.service[0].method.len(), 21);
}

#[test]
fn every_message_and_field_of_the_published_file_is_described() {
    let set = prost_types::FileDescriptorSet::decode(crate::wire::DESCRIPTION).unwrap();
    let file = set.file.iter().find(|file| file.package() == "tallystick.node.v1").unwrap();
    let described = |path: &[i32]| {
        let locations = &file.source_code_info.as_ref().unwrap().location;
        locations
            .iter()
            .any(|location| location.path == path && !location.leading_comments().trim().is_empty())
    };
    // Paths as descriptor.proto numbers them: 4 messages, 5 enums, 6 services; 2 their fields, values, methods.
    let parts = |kind: i32, index: usize, counts: usize| {
        let index = i32::try_from(index).unwrap();
        let inner = (0..counts).map(move |n| vec![kind, index, 2, i32::try_from(n).unwrap()]);
        std::iter::once(vec![kind, index]).chain(inner).collect::<Vec<_>>()
    };
    let mut paths = Vec::new();
    paths.extend(
        file.message_type.iter().enumerate().flat_map(|(n, message)| parts(4, n, message.field.len())),
    );
    paths.extend(file.enum_type.iter().enumerate().flat_map(|(n, values)| parts(5, n, values.value.len())));
    paths.extend(file.service.iter().enumerate().flat_map(|(n, service)| parts(6, n, service.method.len())));
    assert!(paths.len() > 150);
    for path in paths {
        assert!(described(&path), "{path:?} has no comment");
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unimplemented() {
    let server = Running::new().await;
    let (channel, origin) = server.admin().await.channel();
    let mut node = tonic::client::Grpc::with_origin(channel, origin);
    for path in ["/tallystick.node.v1.Node/Nothing", "/tallystick.node.v1.Nodes/Login", "/x"] {
        node.ready().await.unwrap();
        let codec =
            tonic_prost::ProstCodec::<crate::wire::NodeInfoRequest, crate::wire::NodeInfoResponse>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let answer = node.unary(Request::new(crate::wire::NodeInfoRequest {}), path, codec).await;
        assert_eq!(answer.unwrap_err().code(), tonic::Code::Unimplemented);
    }
}
