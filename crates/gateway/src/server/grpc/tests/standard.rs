//! Health and reflection, which everybody may ask; and what the published file says.

use super::support::Bench;
use crate::grpc::DESCRIPTION;
use crate::grpc::channel::Channel;
use crate::grpc::wire::{
    Outcomes, SubmitRequest, SubmitResponse, submit_request::Transactions, submit_response::Result as Said,
};
use futures_util::stream;
use http::Uri;
use proptest::prelude::*;
use prost::Message as _;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

async fn channel(bench: &Bench) -> (Channel, Uri) {
    let stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    (Channel::open(stream).await.unwrap(), bench.url().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn health_is_what_ready_says_until_the_gateway_stops() {
    let bench = Bench::new();
    let (channel, origin) = channel(&bench).await;
    let mut health = HealthClient::with_origin(channel, origin);
    let named = |service: &str| Request::new(HealthCheckRequest { service: service.to_owned() });
    for service in ["", "tallystick.v1.Settlement"] {
        assert_eq!(health.check(named(service)).await.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    assert_eq!(health.check(named("else")).await.unwrap_err().code(), Code::NotFound);
    let mut changes = health.watch(named("")).await.unwrap().into_inner();
    assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    bench.request_stop();
    assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(changes.message().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn reflection_lists_the_services_and_describes_the_messages() {
    let bench = Bench::new();
    let (channel, origin) = channel(&bench).await;
    let mut reflection = ServerReflectionClient::with_origin(channel, origin);
    let mut ask = async |question| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let mut answers =
            reflection.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list")
    };
    let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    assert_eq!(
        names,
        ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "tallystick.v1.Settlement"]
    );
    let symbol = MessageRequest::FileContainingSymbol("tallystick.v1.Refused".to_owned());
    let MessageResponse::FileDescriptorResponse(files) = ask(symbol).await else { panic!("no file") };
    let file = prost_types::FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
    assert_eq!((file.package(), file.service[0].method.len()), ("tallystick.v1", 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_service_that_is_not_there_is_unimplemented() {
    let bench = Bench::new();
    let (channel, origin) = channel(&bench).await;
    let mut client = tonic::client::Grpc::with_origin(channel, origin);
    for path in ["/tallystick.v1.Settlements/Submit", "/x"] {
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<SubmitRequest, SubmitResponse>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let answer = client.unary(Request::new(SubmitRequest::default()), path, codec).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }
}

#[test]
fn everything_in_the_published_file_is_described() {
    let set = prost_types::FileDescriptorSet::decode(DESCRIPTION).unwrap();
    let file = set.file.iter().find(|file| file.package() == "tallystick.v1").unwrap();
    let described = |path: &[i32]| {
        let mut locations = file.source_code_info.as_ref().unwrap().location.iter();
        locations.any(|location| location.path == path && !location.leading_comments().trim().is_empty())
    };
    // Paths as descriptor.proto numbers them: 4 messages, 5 enums, 6 services; 2 their fields, values, methods.
    let messages = file.message_type.iter().map(|message| (4, message.field.len()));
    let enums = file.enum_type.iter().map(|values| (5, values.value.len()));
    let services = file.service.iter().map(|service| (6, service.method.len()));
    let mut count = 0;
    for parts in [messages.collect::<Vec<_>>(), enums.collect(), services.collect()] {
        for (index, (kind, parts)) in (0..).zip(parts) {
            assert!(described(&[kind, index]), "{kind} {index} has no comment");
            for part in 0..i32::try_from(parts).unwrap() {
                assert!(described(&[kind, index, 2, part]), "{kind} {index} {part} has no comment");
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count}");
}

#[test]
fn messages_have_these_bytes() {
    let transactions = Some(Transactions::Batch(vec![1, 2, 3].into()));
    let request = SubmitRequest { tag: 7, transactions };
    assert_eq!(request.encode_to_vec(), [0x08, 7, 0x12, 3, 1, 2, 3]);
    let outcomes = Outcomes {
        statuses: vec![1, 3],
        sequences: vec![300, 0],
        times_ms: vec![1, 0],
        refusals: Vec::new(),
    };
    let response = SubmitResponse { tag: 7, result: Some(Said::Outcomes(outcomes)) };
    let bytes = [8, 7, 0x12, 13, 0x0a, 2, 1, 3, 0x12, 3, 0xac, 2, 0, 0x1a, 2, 1, 0];
    assert_eq!(response.encode_to_vec(), bytes);
    assert_eq!(SubmitResponse::decode(&bytes[..]).unwrap(), response);
}

#[test]
fn a_list_is_cut_off_where_its_limits_are() {
    let read = |bytes: Vec<u8>| {
        super::super::forms::transactions(&Transactions::List(bytes.into())).unwrap_err().detail().to_owned()
    };
    // Empty transactions: two bytes each.
    assert_eq!(read([0x0a, 0].repeat(2)), "transaction 0, network: 32 bytes are wanted, these are 0");
    assert_eq!(read(vec![0x0a, 5, 1]), "transaction 0 ends early");
    assert_eq!(read(vec![0x0a, 0x81, 0x20]), "transaction 0 has more than 4096 bytes");
    let field = |tag: u8, bytes: u8| [vec![tag, bytes], vec![1; usize::from(bytes)]].concat();
    let least = [field(0x22, 16), field(0x32, 16), field(0x4a, 32)].concat();
    let one = [vec![0x0a, 70], least].concat();
    // Fields that are not known are passed over.
    let list = [one.clone(), vec![0x12, 1, 9], one.clone()].concat();
    assert_eq!(super::super::forms::transactions(&Transactions::List(list.into())).unwrap().len(), 2);
    assert_eq!(read(one.repeat((1 << 16) + 1)), "a request has at most 65536 transactions");
}

proptest! {
    #[test]
    fn whatever_comes_in_is_refused_or_understood(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = super::super::forms::transactions(&Transactions::Batch(bytes.clone().into()));
        let _ = super::super::forms::transactions(&Transactions::List(bytes.clone().into()));
        if let Ok(SubmitRequest { transactions: Some(form), .. }) = SubmitRequest::decode(bytes.as_slice()) {
            let _ = super::super::forms::transactions(&form);
        }
    }

    #[test]
    fn damaged_messages_are_refused_or_understood(
        lengths in proptest::collection::vec(0..70_usize, 6),
        numbers in proptest::collection::vec(any::<u32>(), 3),
        kind in any::<i32>(),
    ) {
        use crate::grpc::wire::{Leg, Signer, Transaction, TransactionList};
        let bytes = |at: usize| vec![7; lengths[at]];
        let leg = Leg { participant: numbers[0] >> 15, asset: numbers[1] >> 15, account: numbers[2], amount: 1 };
        let transaction = Transaction {
            kind,
            network: bytes(5),
            expiry_ms: 1,
            uetr: bytes(0),
            details: bytes(1),
            seed: bytes(2),
            legs: vec![leg; lengths[0]],
            signers: vec![Signer { key: bytes(3), signature: bytes(4) }; lengths[1]],
        };
        let list = TransactionList { transactions: vec![transaction; 2] };
        let fits = |at: usize, length: usize| lengths[at] == length;
        let read = super::super::forms::transactions(&Transactions::List(list.encode_to_vec().into()));
        if !fits(0, 16) || !fits(2, 16) || !fits(5, 32) {
            prop_assert!(read.is_err());
        }
    }
}
